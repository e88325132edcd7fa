//! Which files are taken for archives, by their names and what is in them.

use std::path::{Path, PathBuf};

use super::{Error, Result, STREAM};
use crate::archive::{self, recognise};
use crate::ops::contents::{Place, place_of};
use crate::ops::given::is_in_archive;
use crate::stitch::is_layout_file;

/// What files end in that are imported rather than packed as they are.
const NAMES: [&[u8]; 8] = [b".tar", b".tar.gz", b".tgz", b".tar.zst", b".tzst", b".tar.xz", b".txz", b".zip"];

/// What layouts end in. Much else does that is none.
const LAYOUT: &[u8] = b".toml";

/// What archives end in that cannot be read here. As one record they would be of little use,
/// without a warning.
const OTHER_NAMES: [&[u8]; 8] =
    [b".tar.bz2", b".tbz2", b".tbz", b".tar.lz4", b".tar.lz", b".tar.z", b".7z", b".rar"];

/// Whether the sources are archives; a mixture is refused. What has an address is taken for one,
/// whatever it is called: nothing else is packed from there.
///
/// # Errors
/// [`Error::Mixed`], [`Error::NotImported`], or one cannot be looked at.
pub fn are_archives(sources: &[PathBuf]) -> Result<bool> {
    let mut archives = 0;
    for source in sources {
        if source == Path::new(STREAM) {
            archives += 1;
            continue;
        }
        match place_of(source.clone()).map_err(archive::Error::Core)? {
            Place::Object(_) => archives += 1,
            Place::Path(path) if path.is_file() && ends_in(&path, &OTHER_NAMES) => {
                return Err(not_imported(source, "of a kind that cannot be imported"));
            }
            Place::Path(path) if path.is_file() && ends_in(&path, &NAMES) => {
                if recognise(path)?.is_none() {
                    return Err(not_imported(source, "called an archive, and is none that can be read"));
                }
                archives += 1;
            }
            Place::Path(path) if path.is_file() && ends_in(&path, &[LAYOUT]) => {
                archives += usize::from(is_layout_file(&path).map_err(archive::Error::Core)?);
            }
            Place::Path(path) if is_in_archive(&path) => archives += 1,
            Place::Path(_) => {}
        }
    }
    if archives > 0 && archives < sources.len() {
        return Err(Error::Mixed);
    }
    Ok(archives > 0)
}

/// Whether a path ends as those of archives do that are read here.
pub(crate) fn is_called_archive(path: &Path) -> bool {
    ends_in(path, &NAMES)
}

/// Whether a file is called an archive. Much else is one inside (`.jar`, `.docx`, `.whl`) and meant
/// as a file.
fn ends_in(path: &Path, endings: &[&[u8]]) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes().to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

fn not_imported(path: &Path, what: &'static str) -> Error {
    Error::NotImported { path: path.to_path_buf(), what }
}
