//! The file in which a load keeps where it is. It holds one line: the text of a cursor.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stook::pack::Cursor;

/// Longer than any cursor: two keys as hexadecimal digits, and every name of a group.
const LEN_MAX: u64 = 64 << 20;

/// The cursor in a file; `None` when there is no file.
///
/// # Errors
/// When it cannot be read, or holds something else.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<Cursor>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(|error| stook::Error::io("get the metadata of", path, error))?,
    };
    if !metadata.is_file() || metadata.len() > LEN_MAX {
        anyhow::bail!("{} is no cursor of a load", path.display());
    }
    let text = fs::read_to_string(path).map_err(|error| stook::Error::io("read", path, error))?;
    let cursor =
        text.trim_end().parse().with_context(|| format!("{} is no cursor of a load", path.display()))?;
    Ok(Some(cursor))
}

/// Writes it so that after a crash the file is the old one or the new one.
///
/// # Errors
/// When it cannot be written, synced or renamed.
pub(super) fn write(path: &Path, cursor: &Cursor) -> anyhow::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let draft = path.with_file_name(name);
    let written = fs::File::create(&draft).and_then(|mut file| {
        writeln!(file, "{cursor}")?;
        file.sync_all()
    });
    written.map_err(|error| stook::Error::io("write", &draft, error))?;
    fs::rename(&draft, path).map_err(|error| stook::Error::io("give its name to", path, error))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    let synced = fs::File::open(&directory).and_then(|directory| directory.sync_all());
    Ok(synced.map_err(|error| stook::Error::io("sync", &directory, error))?)
}
