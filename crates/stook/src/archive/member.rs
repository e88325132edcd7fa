//! Members of archives, as readers see them.

pub(super) use crate::format::key_of;
pub use crate::format::{Extent, KEY_LEN_MAX, MemberKind, Method};
use crate::tree::{Kind, Node};

impl MemberKind {
    /// What a node is as a member. Of pipes, sockets and devices an archive is asked for no more
    /// than the name.
    pub(super) fn of(kind: Kind, is_hard_link: bool) -> Self {
        match kind {
            Kind::File if is_hard_link => Self::HardLink,
            Kind::File => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }

    /// What it is in a tree: a hard link to a file is that file.
    pub(super) fn in_tree(self) -> Kind {
        match self {
            Self::File | Self::HardLink => Kind::File,
            Self::Directory => Kind::Directory,
            Self::Symlink => Kind::Symlink,
            Self::Other => Kind::Other,
        }
    }

    /// The number it has in an index.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
            Self::Symlink => 3,
            Self::HardLink => 4,
            Self::Other => 5,
        }
    }

    /// The kind of a number.
    pub(super) fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::File,
            2 => Self::Directory,
            3 => Self::Symlink,
            4 => Self::HardLink,
            5 => Self::Other,
            _ => return None,
        })
    }
}

/// A member, borrowed from the index of its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its number in the order of keys.
    pub number: u64,
    /// Its path, without empty parts and parts `.`.
    pub key: &'a [u8],
    /// What it is in a tree. Its length is that of the bytes it has when read: those of a hard link
    /// are those of its file; what only the program knows that made it may have some, too. Its
    /// names are those that the archive has for the file, and are counted at the first.
    pub node: Node,
    /// Whether it is a hard link to a file that stands before it.
    pub is_hard_link: bool,
    /// Bytes it takes in the archive.
    pub stored_len: u64,
    /// Where its header is: later members are newer.
    pub header_at: u64,
    /// Where its bytes begin (in a zip: where its local header is). Members of a compressed tar: in
    /// the tar.
    pub data_at: u64,
    /// How they are stored.
    pub method: Method,
    /// The CRC-32 of its bytes (zip only).
    pub crc32: Option<u32>,
    /// The target of a symbolic link, the key of the file of a hard link; empty for all else, and
    /// for links in a zip, whose target is their body.
    pub link: &'a [u8],
    /// Its extended attributes, as [`Xattrs`](crate::tree::Xattrs) are encoded; of a hard link
    /// those of its file.
    pub xattrs: &'a [u8],
    /// Whether it is sparse: not all of it is stored.
    pub is_sparse: bool,
    /// Whether its bytes are in the archive; not for hard links to a file that is not.
    pub has_body: bool,
}

impl Member<'_> {
    /// What it is as a member.
    pub fn kind(&self) -> MemberKind {
        MemberKind::of(self.node.kind, self.is_hard_link)
    }

    /// Why its bytes cannot be had, if they cannot. A directory has none, and is read as such.
    pub fn refusal(&self) -> Option<String> {
        let key = String::from_utf8_lossy(self.key);
        Some(match (self.kind(), self.method) {
            (MemberKind::Directory, _) => return None,
            (MemberKind::Other, _) => format!("{key} is a pipe, a device or something of its program's own"),
            (MemberKind::HardLink, _) if !self.has_body => {
                let link = String::from_utf8_lossy(self.link);
                format!("{key} is a hard link to {link}, and there is no such file before it")
            }
            (MemberKind::File | MemberKind::Symlink, Method::Stored)
                if !self.has_body && !self.is_sparse && self.node.len != self.stored_len =>
            {
                let (len, stored) = (self.node.len, self.stored_len);
                format!("{key} has {len} bytes and is stored as it is in {stored}: one of them is wrong")
            }
            (MemberKind::File | MemberKind::Symlink, _) if !self.has_body => {
                both_file_and_directory(self.key)
            }
            (_, Method::Encrypted) => format!("{key} is encrypted"),
            (_, Method::Unknown(method)) => {
                format!("{key} is compressed by method {method}, which is not known here")
            }
            _ => return None,
        })
    }

    /// The room that its bytes take where holes stay holes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        if self.is_sparse { self.stored_len } else { self.node.len }
    }
}

/// Why the bytes of a member are refused that is named like a directory.
pub(super) fn both_file_and_directory(key: &[u8]) -> String {
    format!(
        "{} is named like a directory and has bytes: it is one or the other",
        String::from_utf8_lossy(key)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_unpacked_tree() {
        for (name, key) in [
            ("a", "a"),
            ("./a/b", "a/b"),
            (".//a", "a"),
            ("././a/", "a"),
            ("./", ""),
            (".", ""),
            ("/etc/x", "/etc/x"),
            ("/", "/"),
            ("../x", "../x"),
            (".a", ".a"),
            ("a//b", "a/b"),
            ("a/./b", "a/b"),
            ("d/.", "d"),
            ("d/./", "d"),
            ("a///.//./b/", "a/b"),
            ("a/../b", "a/../b"),
            ("//etc//x", "/etc/x"),
            ("a/.b/..c", "a/.b/..c"),
        ] {
            assert_eq!(key_of(name.as_bytes()).unwrap(), key.as_bytes(), "{name}");
        }
        assert!(key_of(b"").is_err());
        assert!(key_of(&[b'x'; KEY_LEN_MAX + 1]).is_err());
    }
}
