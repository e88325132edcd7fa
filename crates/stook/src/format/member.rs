//! Kinds of members of archives, in any format.

/// The longest path of a member, in bytes.
pub const KEY_LEN_MAX: usize = 65_535;

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; its bytes are its target.
    Symlink,
    /// A hard link to a file that comes before it.
    HardLink,
    /// A pipe, a device, or what only the program that made it knows.
    Other,
}

/// How the bytes of a member are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As they are.
    Stored,
    /// Deflated (zip only).
    Deflated,
    /// Some other way, by its number in a zip, that is listed and not read.
    Unknown(u16),
    /// Encrypted (zip only): listed and not read.
    Encrypted,
}

impl Method {
    /// The number it has in a zip, which leaves the last one free.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Stored => 0,
            Self::Deflated => 8,
            Self::Unknown(code) => code,
            Self::Encrypted => u16::MAX,
        }
    }

    /// The method of a number.
    pub(crate) fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Stored,
            8 => Self::Deflated,
            u16::MAX => Self::Encrypted,
            other => Self::Unknown(other),
        }
    }
}

/// A piece of a sparse member that is stored; what lies between pieces is zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its offset in the member.
    pub at: u64,
    /// Where it is stored in the archive.
    pub stored_at: u64,
    /// Its length.
    pub len: u64,
}

/// The key of a name: as packing the unpacked tree would give it, without empty parts and parts
/// `.`. What is absolute stays so.
pub(crate) fn key_of(name: &[u8]) -> Result<Vec<u8>, String> {
    if name.is_empty() {
        return Err("a member has no name".into());
    }
    let mut key = Vec::with_capacity(name.len());
    key.extend(name.first().filter(|first| **first == b'/'));
    for part in name.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.'])) {
        if key.last().is_some_and(|last| *last != b'/') {
            key.push(b'/');
        }
        key.extend_from_slice(part);
    }
    if key.len() > KEY_LEN_MAX {
        return Err(format!("a name has {} bytes; at most {KEY_LEN_MAX} are taken", key.len()));
    }
    Ok(key)
}
