//! Temporary files without a name: they are gone when no process has them open any more, however
//! it ends.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A new one in a directory, readable and writable, and what to call it in messages.
///
/// # Errors
/// I/O errors.
pub(crate) fn nameless(directory: &Path) -> Result<(fs::File, PathBuf)> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    #[cfg(target_os = "linux")]
    {
        // Not all file systems can; what else is wrong, making one with a name says.
        let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
        if let Ok(file) = options.clone().custom_flags(flags).open(directory) {
            return Ok((file, directory.join("(a file without a name)")));
        }
    }
    let chance = getrandom::u64().map_err(std::io::Error::other);
    let chance = chance.map_err(|error| Error::io("name a file in", directory, error))?;
    let path = directory.join(format!("stook-{}-{chance:016x}", std::process::id()));
    let file = options.create_new(true).open(&path).map_err(|error| Error::io("create", &path, error))?;
    fs::remove_file(&path).map_err(|error| Error::io("unlink", &path, error))?;
    Ok((file, path))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    #[test]
    fn nothing_of_it_is_in_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (mut file, _) = nameless(directory.path()).unwrap();
        file.write_all(b"bytes").unwrap();
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "bytes");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let error = nameless(&directory.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }
}
