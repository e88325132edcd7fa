//! What the container of a file says of it, as extended attributes that are asked for by name.

/// A value that a pack or an archive has of a node, beside what the file itself had: see
/// [`Tree::fact`](super::Tree::fact).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The key of the record or member, as lists print it and `stook get` takes it.
    Key,
    /// The group of a record, if that is not the default one.
    Group,
    /// The checksum that the container keeps of the whole body: the function, a colon, and the
    /// value in hexadecimal digits.
    Checksum,
}

impl Fact {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Key, Self::Group, Self::Checksum];

    /// The extended attribute that it is.
    pub fn xattr_name(self) -> &'static str {
        match self {
            Self::Key => "user.stook.key",
            Self::Group => "user.stook.group",
            Self::Checksum => "user.stook.checksum",
        }
    }

    /// The one that an extended attribute is, if it is one.
    pub fn of_xattr_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.xattr_name().as_bytes() == name)
    }
}
