//! Makes sure that the next reads come from the device, or states why that cannot be guaranteed.

use std::path::{Path, PathBuf};

use stook::engine::{self, File, drop_system_caches};
use stook::walk::{Content, Walk, WalkOptions};

/// Memory touched before a measurement, at most. A run that needs more pays for the rest itself.
const TOUCH_MAX: u64 = 4 << 30;

/// How caches are emptied before a measurement.
#[derive(Debug, Clone)]
pub enum Cold {
    /// The page cache, names and inodes of the whole system.
    System,
    /// Only the pages of the files that are read next, for this reason.
    Files(String),
}

/// The next reads, and their memory.
#[derive(Debug, Clone, Copy)]
pub struct Next<'a> {
    /// Files, and directories with everything below them.
    pub paths: &'a [PathBuf],
    /// Bytes of memory that reading it may need.
    pub memory_bytes: u64,
}

impl Cold {
    /// What this process may do.
    pub fn detect() -> Self {
        match drop_system_caches() {
            Ok(()) => Self::System,
            Err(error) => Self::Files(stook::error::chain(&error)),
        }
    }

    /// Whether names and inodes are read from the device too.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::System)
    }

    /// Describes what was done, for readers of the result.
    pub fn describe(&self) -> String {
        match self {
            Self::System => {
                "Before every measurement everything was written out and the system's caches were dropped \
                             (`sync; echo 3 > /proc/sys/vm/drop_caches`)."
                    .to_owned()
            }
            Self::Files(reason) => format!(
                "The system's caches were not dropped ({reason}). Instead the pages of the files that were read \
                 next were given up one file at a time (`posix_fadvise(…, POSIX_FADV_DONTNEED)`). Names and inodes \
                 stayed in memory, so the loose files look better here than after a restart."
            ),
        }
    }

    /// Empties the caches, then touches and frees memory: on virtual machines memory that was free
    /// for a while has to be fetched from the host first, which would be counted as reading.
    ///
    /// # Errors
    /// Returns an error if the caches cannot be emptied after all, or a file cannot be opened.
    pub fn prepare(&self, next: Next<'_>) -> anyhow::Result<()> {
        match self {
            Self::System => drop_system_caches()?,
            Self::Files(_) => {
                for path in next.paths {
                    drop_below(path)?;
                }
            }
        }
        engine::touch_memory(next.memory_bytes.min(TOUCH_MAX))?;
        Ok(())
    }
}

fn drop_below(path: &Path) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(File::open(path)?.drop_cached()?);
    }
    // One thread, and no file is read: what is not read comes as a large file.
    let options = WalkOptions { threads: 1, read_up_to: 0, ..WalkOptions::default() };
    Walk::new([path])?.options(options).run(|event| -> anyhow::Result<()> {
        let item = event.map_err(stook::walk::WalkError::into_error)?;
        if let Content::Large(large) = &item.content {
            File::from_std(large.open()?, large.path(), false).drop_cached()?;
        }
        Ok(())
    })?;
    Ok(())
}
