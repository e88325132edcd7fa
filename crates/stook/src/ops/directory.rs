//! The directory of a pack, for operations only on packs: an archive in its place is reported as
//! such.

use std::io::ErrorKind;
use std::path::Path;

use crate::archive::recognise;
use crate::pack::{self, OpenOptions, Pack};
use crate::storage::{LocalStorage, LocalStorageOptions};

/// Opens the directory of a pack.
///
/// # Errors
/// Returns [`pack::Error::NotAPack`] if there is an archive; otherwise the errors of
/// [`LocalStorage::open`].
pub fn open_directory(path: &Path) -> pack::Result<LocalStorage> {
    LocalStorage::open(path, LocalStorageOptions::default()).map_err(|error| explained(path, error))
}

/// Opens a pack for reading.
///
/// # Errors
/// Returns [`pack::Error::NotAPack`] if there is an archive, too; otherwise the errors of
/// [`Pack::open_path`].
pub fn open_pack(path: &Path, options: OpenOptions) -> pack::Result<Pack> {
    Pack::open_path(path, options).map_err(|error| match error {
        pack::Error::Core(error) => explained(path, error),
        other => other,
    })
}

/// The error of opening the directory of a pack, in words of archives where one is there.
pub(super) fn explained(path: &Path, error: crate::Error) -> pack::Error {
    let is_file = error.io_kind() == Some(ErrorKind::NotADirectory) && path.is_file();
    // A file that is not a readable archive either is reported as what it is: not a directory.
    let format = is_file.then(|| recognise(path).ok().flatten()).flatten();
    let Some(format) = format else { return error.into() };
    let why = format!(
        "it is an archive ({format}), and this is for packs; `stook ls`, `get`, `load` and `unpack` take archives \
         (in Python `stook.unpack`), and `stook pack {} NEW` (`stook.pack_tree`) makes a pack of it",
        path.display()
    );
    pack::Error::NotAPack { path: path.to_path_buf(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_in_the_place_of_a_pack_is_called_so_and_another_file_is_no_directory() {
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
        assert!(matches!(open_directory(&text), Err(pack::Error::Core(_))));
        assert!(matches!(
            open_pack(&directory.path().join("gone"), OpenOptions::default()),
            Err(pack::Error::Core(_))
        ));
    }
}
