//! Archives that are there already: whether an index, another layout, or nothing helps.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::AdviseError;
use crate::archive::{Archive, Format, Method, OpenOptions, index_path, recognise};
use crate::engine::File;
use crate::report::units;
use crate::walk::Kind;

/// From here on an opening is worth an index.
const OPENING_NOTABLE_S: f64 = 0.05;

/// What would help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveAction {
    /// An index beside it.
    Index,
    /// A pack of its members.
    Pack,
    /// Nothing: it is as good as it gets.
    None,
}

/// What there is to say of an archive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArchiveAdvice {
    /// Its format.
    pub format: String,
    /// Its length.
    pub archive_bytes: u64,
    /// Members that are files.
    pub files: u64,
    /// Bytes that these have when they are read.
    pub bytes: u64,
    /// Of these, files that are stored compressed by themselves.
    pub compressed_files: u64,
    /// Whether an index lies beside it.
    pub has_index: bool,
    /// How long opening it without an index takes, its pages not in memory unless they could not be
    /// dropped.
    pub open_s: f64,
    /// How long with one: the same once its members are known, if it was measured.
    pub indexed_open_s: Option<f64>,
    /// Whether one member can be had without all before it.
    pub is_random: bool,
    /// What would help.
    pub action: ArchiveAction,
    /// Why, for people.
    pub why: String,
    /// The command to run, if there is one.
    pub command: Option<String>,
}

/// Advises about a file if it is an archive.
///
/// # Errors
/// When it is one and cannot be opened. Nothing is written beside it.
pub(super) fn advise(
    path: &Path,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Option<ArchiveAdvice>, AdviseError> {
    let format = match recognise(path)? {
        Some(format) if format != Format::Layout => format,
        _ => return Ok(None),
    };
    let has_index = index_path(path).exists();
    // Without the index that may lie there: what it saves is what is asked.
    let options = || OpenOptions { sidecar: false, ..OpenOptions::default() };
    // Pages of others' files may stay in memory.
    File::open(path)?.drop_cached()?;
    let begun = Instant::now();
    let archive = Archive::open_with(path, options(), &mut |_| !is_interrupted())?;
    let open_s = begun.elapsed().as_secs_f64();
    let indexed_open_s = match has_index {
        true => {
            File::open(path)?.drop_cached()?;
            let begun = Instant::now();
            Archive::open(path, OpenOptions::default())?;
            Some(begun.elapsed().as_secs_f64())
        }
        false => None,
    };
    let (mut files, mut bytes, mut compressed_files) = (0, 0_u64, 0);
    for member in archive.members(b"").filter(|member| member.node.kind == Kind::File) {
        files += 1;
        bytes = bytes.saturating_add(member.node.len);
        compressed_files += u64::from(member.method != Method::Stored);
    }
    let (action, why) = decide(format, has_index, open_s, files, compressed_files);
    let shown = super::shell_quoted(path);
    let command = match action {
        ArchiveAction::Index => Some(format!("stook ls {shown} > /dev/null")),
        ArchiveAction::Pack => Some(format!("stook pack {shown} {}", pack_name(path))),
        ArchiveAction::None => None,
    };
    Ok(Some(ArchiveAdvice {
        format: format.to_string(),
        archive_bytes: archive.file_bytes(),
        files,
        bytes,
        compressed_files,
        has_index,
        open_s,
        indexed_open_s,
        is_random: !format.is_sequential(),
        action,
        why,
        command,
    }))
}

/// What helps, and why.
fn decide(
    format: Format,
    has_index: bool,
    open_s: f64,
    files: u64,
    compressed_files: u64,
) -> (ArchiveAction, String) {
    let time = units::duration_ns((open_s * 1e9) as u64);
    match format {
        _ if files == 0 => (ArchiveAction::None, "it has no files".into()),
        _ if format.is_sequential() => (
            ArchiveAction::Pack,
            format!(
                "it is compressed as a whole, so that every member costs unpacking all before it, and opening it \
                 took {time}; a pack of its members gives any of them by one read"
            ),
        ),
        Format::Zip if compressed_files > files / 2 => (
            ArchiveAction::None,
            "its directory is its index, and one member is one read; most are compressed, so that reading is bound by \
             unpacking them: a pack would be larger, and read faster only where the device is not the limit"
                .into(),
        ),
        Format::Zip => {
            (ArchiveAction::None, "its directory is its index, and members are stored as they are".into())
        }
        _ if has_index => (ArchiveAction::None, "its index lies beside it, and members are stored as they are".into()),
        _ if open_s >= OPENING_NOTABLE_S => (
            ArchiveAction::Index,
            format!("finding its members took {time}, each time it is opened: an index beside it saves that"),
        ),
        _ => (ArchiveAction::None, format!("its members are found in {time}, and stored as they are")),
    }
}

/// The name of the pack that a command makes, beside the archive.
fn pack_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("archive").to_owned();
    super::shell_quoted(&path.with_file_name(format!("{stem}.stook")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_archive_gets_what_helps_it() {
        let action = |format, has_index, open_s, files, compressed| {
            decide(format, has_index, open_s, files, compressed).0
        };
        assert_eq!(action(Format::TarGzip, true, 0.1, 10, 0), ArchiveAction::Pack);
        assert_eq!(action(Format::TarXz, false, 0.1, 10, 0), ArchiveAction::Pack);
        assert_eq!(action(Format::Tar, false, 2.0, 10_000, 0), ArchiveAction::Index);
        assert_eq!(action(Format::Tar, true, 2.0, 10_000, 0), ArchiveAction::None);
        assert_eq!(action(Format::Tar, false, 1e-3, 10, 0), ArchiveAction::None);
        assert_eq!(action(Format::Zip, false, 2.0, 10_000, 0), ArchiveAction::None);
        assert_eq!(action(Format::Zip, false, 2.0, 10_000, 9000), ArchiveAction::None);
        assert_eq!(action(Format::TarGzip, false, 0.1, 0, 0), ArchiveAction::None);
    }

    #[test]
    fn what_is_no_archive_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        std::fs::write(&path, "only text").unwrap();
        assert_eq!(advise(&path, &|| false).unwrap(), None);
    }
}
