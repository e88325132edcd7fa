//! The directory of a pack, for what is done to packs alone: a file in its place is called what it
//! is.

use std::io::ErrorKind;
use std::path::Path;

use crate::archive::recognise;
use crate::pack::{self, OpenOptions, Pack};
use crate::source::check_path;
use crate::storage::{LocalStorage, LocalStorageOptions};

/// Opens the directory of a pack.
///
/// # Errors
/// [`pack::Error::NotAPack`] where a file is there; else those of [`LocalStorage::open`].
pub fn open_directory(path: &Path) -> pack::Result<LocalStorage> {
    LocalStorage::open(path, LocalStorageOptions::default()).map_err(|error| explained(path, error))
}

/// Opens a pack for reading.
///
/// # Errors
/// [`pack::Error::NotAPack`] where a file is there, too; else those of [`Pack::open_path`].
pub fn open_pack(path: &Path, options: OpenOptions) -> pack::Result<Pack> {
    Pack::open_path(path, options).map_err(|error| match error {
        pack::Error::Core(error) => explained(path, error),
        other => other,
    })
}

/// The error of opening the directory of a pack, as what is wrong with a file where one is there.
pub(super) fn explained(path: &Path, error: crate::Error) -> pack::Error {
    if let Err(no_path) = check_path(path) {
        return no_path.into();
    }
    if error.io_kind() != Some(ErrorKind::NotADirectory) || !path.is_file() {
        return error.into();
    }
    let why = match recognise(path) {
        Ok(Some(format)) => format!(
            "it is an archive ({format}), and this is for packs; `stook ls`, `get`, `load` and `unpack` take \
             archives (in Python `stook.unpack`), and `stook pack {} NEW` (`stook.pack_tree`) makes a pack of it",
            path.display()
        ),
        // One that cannot be read is no pack either.
        _ => "it is a file, and a pack is a directory".to_owned(),
    };
    pack::Error::NotAPack { path: path.to_path_buf(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_place_of_a_pack_is_called_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let [tar, text] = ["t.tar", "text"].map(|name| directory.path().join(name));
        // A tar without members.
        std::fs::write(&tar, [0; 1024]).unwrap();
        std::fs::write(&text, "text").unwrap();
        for error in [open_directory(&tar).unwrap_err(), open_pack(&tar, OpenOptions::default()).unwrap_err()]
        {
            assert!(matches!(error, pack::Error::NotAPack { .. }), "{error}");
            assert!(error.to_string().contains("it is an archive (tar)"), "{error}");
            assert!(error.to_string().contains("`stook.unpack`"), "{error}");
        }
        // Before: "cannot open the directory".
        for error in
            [open_directory(&text).unwrap_err(), open_pack(&text, OpenOptions::default()).unwrap_err()]
        {
            assert!(matches!(error, pack::Error::NotAPack { .. }), "{error}");
            assert!(error.to_string().ends_with("it is a file, and a pack is a directory"), "{error}");
        }
        // Before: that there is no such file or directory.
        let address = open_pack(Path::new("https://host/x.tar?key"), OpenOptions::default()).unwrap_err();
        assert!(address.to_string().starts_with("https://host/x.tar?… is an address"), "{address}");
        let below = open_directory(&text.join("below")).unwrap_err();
        assert!(matches!(below, pack::Error::Core(_)), "{below}");
        assert!(matches!(
            open_pack(&directory.path().join("gone"), OpenOptions::default()),
            Err(pack::Error::Core(_))
        ));
    }
}
