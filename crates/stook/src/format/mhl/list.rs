//! What stands in a list.

use crate::hash::Digest;

/// What was found out about a hash when it was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MhlAction {
    /// Nothing was known of the file before.
    Original,
    /// The file has the hash that an earlier generation says.
    Verified,
    /// The file has another one.
    Failed,
}

/// A hash of a file, and what it was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlDigest {
    /// The hash.
    pub digest: Digest,
    /// What it was found to be; lists may leave it out.
    pub action: Option<MhlAction>,
    /// When it was computed, as it is written (`xs:dateTime`).
    pub date: Option<String>,
}

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlFile {
    /// Its path below the directory that has the list, checked as in
    /// [`SumLine`](crate::format::sums::SumLine): it leads to nothing outside of it.
    pub path: Vec<u8>,
    /// How many bytes it has.
    pub len: Option<u64>,
    /// When it was changed, as it is written (`xs:dateTime`).
    pub modified: Option<String>,
    /// Its hashes, those that are of a kind that is known.
    pub digests: Vec<MhlDigest>,
    /// The path that it had in an earlier generation.
    pub previous_path: Option<Vec<u8>>,
}

/// A directory in a list. Both lists of hashes are empty where it is only mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlDirectory {
    /// Its path, as that of a file; empty for the root of the list.
    pub path: Vec<u8>,
    /// When it was changed, as it is written (`xs:dateTime`).
    pub modified: Option<String>,
    /// Hashes of what is in the files in it.
    pub content: Vec<Digest>,
    /// Hashes of that and of their names.
    pub structure: Vec<Digest>,
    /// The path that it had in an earlier generation.
    pub previous_path: Option<Vec<u8>>,
}

/// The list of a directory below this one, which has a history of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlReference {
    /// The path of the list.
    pub path: Vec<u8>,
    /// Its C4.
    pub digest: Digest,
}

/// Who made a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Author {
    /// The name.
    pub name: String,
    /// E-mail address.
    pub email: Option<String>,
    /// Telephone number.
    pub phone: Option<String>,
    /// What he or she does.
    pub role: Option<String>,
}

/// When, where and with what a list was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Creator {
    /// When, as it is written (`xs:dateTime`).
    pub date: String,
    /// The name of the machine.
    pub host: String,
    /// The program.
    pub tool: String,
    /// Its version.
    pub tool_version: Option<String>,
    /// Who.
    pub authors: Vec<Author>,
    /// Where.
    pub location: Option<String>,
    /// Anything else.
    pub comment: Option<String>,
}

/// What was done when a list was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Process {
    /// The files were where they are.
    #[default]
    InPlace,
    /// They were copied.
    Transfer,
    /// Several histories were made one.
    Flatten,
}

/// What a list begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MhlHead {
    /// When, where and with what it was made.
    pub creator: Creator,
    /// What was done.
    pub process: Process,
    /// Patterns of what was left out.
    pub ignored: Vec<String>,
}

/// The number of a list in its history, from 1.
pub type Generation = u32;

/// What [`MhlReader`](super::MhlReader) finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MhlItem {
    /// Creator, process and ignored patterns: once, before everything else.
    Head(MhlHead),
    /// The hashes of the directory that the list is of.
    Root(MhlDirectory),
    /// A file.
    File(MhlFile),
    /// A directory.
    Directory(MhlDirectory),
    /// The list of a directory below.
    Reference(MhlReference),
}
