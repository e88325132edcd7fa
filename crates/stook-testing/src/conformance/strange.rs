//! Entries with the name of a file that are not files.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, makedev, mknodat};

/// Something that must not be opened where a file is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strange {
    /// A directory.
    Directory,
    /// A symbolic link to a file that is there.
    Link,
    /// A named pipe without a writer.
    Fifo,
    /// A socket.
    Socket,
    /// A device with endless zeros.
    Device,
}

impl Strange {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Directory, Self::Link, Self::Fifo, Self::Socket, Self::Device];

    /// Its name in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Link => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a character device",
        }
    }

    /// Puts one there. `false` where this process may make none: a device needs privileges.
    ///
    /// # Panics
    /// Panics if it cannot be made for another reason.
    pub fn make(self, path: &Path) -> bool {
        match self {
            Self::Directory => fs::create_dir(path).expect("a directory is made"),
            Self::Link => symlink("/proc/self/status", path).expect("a link is made"),
            Self::Fifo => mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).expect("a FIFO is made"),
            Self::Socket => drop(UnixListener::bind(path).expect("a socket is made")),
            Self::Device => {
                let zero = makedev(1, 5);
                return mknodat(CWD, path, FileType::CharacterDevice, 0o600.into(), zero).is_ok();
            }
        }
        true
    }

    /// Takes it away.
    ///
    /// # Panics
    /// Panics if that is refused.
    pub fn remove(self, path: &Path) {
        match self {
            Self::Directory => fs::remove_dir(path),
            _ => fs::remove_file(path),
        }
        .expect("it is removed");
    }

    /// Whether one is there still.
    pub fn is_at(self, path: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt as _;
        fs::symlink_metadata(path).is_ok_and(|found| {
            let kind = found.file_type();
            match self {
                Self::Directory => kind.is_dir(),
                Self::Link => kind.is_symlink(),
                Self::Fifo => kind.is_fifo(),
                Self::Socket => kind.is_socket(),
                Self::Device => kind.is_char_device(),
            }
        })
    }
}
