//! [`Profiles`]: where what was measured is kept.
//!
//! One JSON file for each medium, named by a hash of its key. It is a hint: whatever is wrong with
//! it, nothing more than speed is lost.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::survey::Survey;
use super::{Measured, Medium, Profile};
use crate::error::{Error, Result};
use crate::tree::{Folder, Refused};

/// What such a file says of itself.
const FORMAT: &str = "stook profile";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
/// What is longer is none of these files.
const LEN_MAX: u64 = 64 << 10;
/// The directory, and nothing else; empty for none.
const VARIABLE: &str = "STOOK_PROFILE_DIR";

/// A file as it is kept. What a later version adds is passed over.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: String,
    version: u32,
    /// The key of the medium: the name of the file is only its hash.
    of: String,
    measured: Measured,
    /// What that follows from. Files that other programs wrote may not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    survey: Option<Survey>,
}

/// What is kept of one medium.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedProfile {
    /// The file.
    pub path: PathBuf,
    /// What the medium is recognised by.
    pub of: String,
    /// What others take their defaults from.
    pub measured: Measured,
    /// What that follows from, if it was kept.
    pub survey: Option<Survey>,
}

/// A file that could not be used, so that nothing is known of what it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the profile {} is not used: {why}", path.display())]
pub struct Unusable {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// A directory of what was measured.
#[derive(Debug, Clone)]
pub struct Profiles {
    directory: Option<PathBuf>,
}

impl Profiles {
    /// Those of the user: in `$STOOK_PROFILE_DIR`, else in `stook/profiles` below
    /// `$XDG_STATE_HOME`, else below `~/.local/state`. An empty `STOOK_PROFILE_DIR` stands for
    /// none.
    pub fn of_user() -> Self {
        Self { directory: directory(|name| std::env::var_os(name)) }
    }

    /// Those in a directory, which need not be there.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()) }
    }

    /// What is known of a medium: what was measured, and else what is assumed.
    ///
    /// # Errors
    /// [`Unusable`]. Then it is as if nothing had been kept.
    pub fn profile_of(&self, medium: &Medium) -> Result<Profile, Unusable> {
        let measured = self.saved(medium)?.map(|saved| saved.measured);
        Ok(Profile::new(medium.class(), measured.unwrap_or_default()))
    }

    /// All that is kept of a medium, if anything is.
    ///
    /// # Errors
    /// [`Unusable`]. Then it is as if nothing had been kept.
    pub fn saved(&self, medium: &Medium) -> Result<Option<SavedProfile>, Unusable> {
        let Some((key, path)) = medium.key().and_then(|key| Some((key, self.path_of(key)?))) else {
            return Ok(None);
        };
        match read(&path, Some(key)) {
            Ok(kept) => Ok(kept.map(|kept| kept.at(path))),
            Err(why) => Err(Unusable { path, why }),
        }
    }

    /// Everything that is kept, by the names of the files; what cannot be used, with the reason.
    ///
    /// # Errors
    /// When the directory is there and cannot be listed.
    pub fn all(&self) -> Result<Vec<Result<SavedProfile, Unusable>>> {
        let Some(directory) = self.directory.as_deref() else { return Ok(Vec::new()) };
        let listed = |error| Error::io("list", directory, error);
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(listed)?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(listed)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        let one = |path: PathBuf| match read(&path, None) {
            Ok(kept) => kept.map(|kept| Ok(kept.at(path))),
            Err(why) => Some(Err(Unusable { path, why })),
        };
        Ok(paths.into_iter().filter_map(one).collect())
    }

    /// Checks whether something could be kept of a medium, before it is measured for that.
    ///
    /// # Errors
    /// When it has nothing that lasts to be recognised by, or nothing is to be kept.
    pub fn check(&self, medium: &Medium) -> Result<()> {
        self.place_of(medium).map(drop)
    }

    fn place_of<'a>(&'a self, medium: &'a Medium) -> Result<(&'a str, &'a Path)> {
        let key = medium.key().ok_or_else(|| refused("nothing that lasts identifies its device"))?;
        let directory = self.directory.as_deref().ok_or_else(|| refused("no directory is set for it"))?;
        Ok((key, directory))
    }

    /// Keeps what was measured of a medium, durably, in place of what was kept before. Which file
    /// it is in.
    ///
    /// # Errors
    /// When the medium has nothing that lasts to be recognised by, nothing is to be kept, a value
    /// is impossible, or the file cannot be written.
    pub fn keep(&self, medium: &Medium, measured: Measured) -> Result<PathBuf> {
        self.keep_survey(medium, measured, None)
    }

    /// The same, with what it follows from.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn keep_survey(
        &self,
        medium: &Medium,
        measured: Measured,
        survey: Option<Survey>,
    ) -> Result<PathBuf> {
        let (key, directory) = self.place_of(medium)?;
        if let Some(name) = measured.impossible() {
            return Err(refused(&format!("its {name} is impossible")));
        }
        let kept = Kept { format: FORMAT.into(), version: VERSION, of: key.into(), measured, survey };
        let mut text =
            serde_json::to_vec_pretty(&kept).map_err(|error| refused(&format!("it is no JSON: {error}")))?;
        text.push(b'\n');
        // What is no number is `null` in JSON, which no figure is: nothing is kept that could not
        // be read.
        parse(&text, Some(key)).map_err(|why| refused(&why))?;
        let name = name_of(key);
        let path = directory.join(&name);
        fs::create_dir_all(directory).map_err(|error| Error::io("make the directory", directory, error))?;
        write(directory, &name, &text).map_err(|refused| match refused {
            Refused::Core(error) => error,
            Refused::Name(why) => Error::io("create", path.clone(), io::Error::other(why)),
        })?;
        Ok(path)
    }

    fn path_of(&self, key: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(name_of(key)))
    }
}

impl Kept {
    fn at(self, path: PathBuf) -> SavedProfile {
        SavedProfile { path, of: self.of, measured: self.measured, survey: self.survey }
    }
}

fn refused(what: &str) -> Error {
    let source = io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    Error::io("keep", PathBuf::from("a profile"), source)
}

/// The directory that variables name.
fn directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(directory) = variable(VARIABLE) {
        return (!directory.is_empty()).then(|| directory.into());
    }
    // The specification has relative paths passed over.
    let set = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("stook/profiles"))
}

fn name_of(key: &str) -> String {
    let hash = Sha256::digest(key.as_bytes());
    let digits: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}.json")
}

/// What is in a file, which is to be of this medium if one is given; `None` where there is none.
fn read(path: &Path, key: Option<&str>) -> Result<Option<Kept>, String> {
    // Nothing ends the opening of a FIFO without a writer, and a link leads to what others chose.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // Under `sudo -u` the home directory is often still that of another user.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is no regular file".into());
    }
    let mut text = Vec::new();
    file.take(LEN_MAX + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LEN_MAX {
        return Err(format!("it is longer than {LEN_MAX} bytes"));
    }
    parse(&text, key).map(Some)
}

fn parse(text: &[u8], key: Option<&str>) -> Result<Kept, String> {
    let kept: Kept = serde_json::from_slice(text).map_err(|error| format!("it is damaged: {error}"))?;
    if kept.format != FORMAT {
        return Err(format!("it says that it is a {:?}", kept.format));
    }
    if kept.version != VERSION {
        return Err(format!("it has version {}, and this one reads {VERSION}", kept.version));
    }
    if key.is_some_and(|key| kept.of != key) {
        return Err(format!("it is of {:?}", kept.of));
    }
    match kept.measured.impossible() {
        Some(name) => Err(format!("its {name} is impossible")),
        None => Ok(kept),
    }
}

fn write(directory: &Path, name: &str, text: &[u8]) -> Result<(), Refused> {
    let mut draft = Folder::open(directory)?.file(name.as_bytes())?;
    draft.write(text)?;
    Ok(draft.sync_and_finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_one_that_is_set_nearest() {
        let of = |set: &[(&str, &str)]| {
            directory(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        let (own, state, home) = ((VARIABLE, "p"), ("XDG_STATE_HOME", "/s"), ("HOME", "/h"));
        assert_eq!(of(&[own, state, home]), Some("p".into()));
        assert_eq!(of(&[state, home]), Some("/s/stook/profiles".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "s"), home]), Some("/h/.local/state/stook/profiles".into()));
        assert_eq!(of(&[(VARIABLE, ""), state, home]), None, "switched off");
        assert_eq!(of(&[]), None);
    }
}
