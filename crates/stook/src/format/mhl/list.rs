//! What stands in a list.

use crate::format::PathFault;
use crate::hash::Digest;

/// What was found out about a hash when it was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MhlAction {
    /// Nothing was known of the file before.
    Original,
    /// The file has the hash that an earlier generation says.
    Verified,
    /// The file has another one: it is what the file had then, not what it should have.
    Failed,
}

/// A hash of a file, and what it was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlDigest {
    /// The hash.
    pub digest: Digest,
    /// What it was found to be, if that is said.
    pub action: Option<MhlAction>,
    /// When it was computed, as it is written (`xs:dateTime`).
    pub date: Option<String>,
}

/// A file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlFile {
    /// The number of the line where it begins, from 1; not written.
    pub line: u64,
    /// Its path below the directory that the list is of: names with `/` between them, none of them
    /// empty, `.` or `..`.
    pub path: Vec<u8>,
    /// The same where `\` separates names, too, as some programs on Windows have written them;
    /// `None` if there is none in the path. Not written.
    pub dos_path: Option<Result<Vec<u8>, PathFault>>,
    /// How many bytes it has, if that is said.
    pub len: Option<u64>,
    /// When it was changed, as it is written (`xs:dateTime`).
    pub modified: Option<String>,
    /// Its hashes, as far as their functions are known.
    pub digests: Vec<MhlDigest>,
    /// The path that it had in an earlier generation.
    pub previous_path: Option<Vec<u8>>,
}

/// A directory in a list, or the one that the list is of. Both lists of hashes are empty where it
/// is only mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlDirectory {
    /// The number of the line where it begins, from 1; not written.
    pub line: u64,
    /// Its path, as that of a file; empty for the directory that the list is of.
    pub path: Vec<u8>,
    /// When it was changed, as it is written (`xs:dateTime`).
    pub modified: Option<String>,
    /// Hashes of the contents of the files below it.
    pub content: Vec<Digest>,
    /// Hashes of contents and names.
    pub structure: Vec<Digest>,
    /// The path that it had in an earlier generation.
    pub previous_path: Option<Vec<u8>>,
}

/// The list of a directory below, which has a history of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MhlReference {
    /// The number of the line where it begins, from 1; not written.
    pub line: u64,
    /// The path of the list, as that of a file.
    pub path: Vec<u8>,
    /// Its C4.
    pub digest: Digest,
}

/// Who made a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MhlAuthor {
    /// The name.
    pub name: String,
    /// E-mail address.
    pub email: Option<String>,
    /// Telephone number.
    pub phone: Option<String>,
    /// The part in the production.
    pub role: Option<String>,
}

/// When, where and with what a list was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MhlCreator {
    /// When, as it is written (`xs:dateTime`).
    pub date: String,
    /// The name of the machine.
    pub host: String,
    /// The program.
    pub tool: String,
    /// Its version.
    pub tool_version: Option<String>,
    /// By whom.
    pub authors: Vec<MhlAuthor>,
    /// At which place.
    pub location: Option<String>,
    /// Anything else.
    pub comment: Option<String>,
}

/// What was done when a list was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MhlProcess {
    /// Files were hashed where they are.
    #[default]
    InPlace,
    /// They were copied.
    Transfer,
    /// Several lists were made one.
    Flatten,
}

/// What a list begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MhlHead {
    /// When, where and with what it was made.
    pub creator: MhlCreator,
    /// What was done.
    pub process: MhlProcess,
    /// Patterns, as in `.gitignore`, of what was left out.
    pub ignored: Vec<String>,
}

/// What [`MhlReader`](super::MhlReader) finds, in the order in which it is written: the head is
/// first, references are last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MhlItem {
    /// What the list begins with; once.
    Head(MhlHead),
    /// The hashes of the directory that the list is of; once at most.
    Root(MhlDirectory),
    /// A file.
    File(MhlFile),
    /// A directory.
    Directory(MhlDirectory),
    /// The list of a directory below.
    Reference(MhlReference),
}

impl MhlAction {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Verified => "verified",
            Self::Failed => "failed",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Original, Self::Verified, Self::Failed].into_iter().find(|action| action.name() == name)
    }
}

impl MhlProcess {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in-place",
            Self::Transfer => "transfer",
            Self::Flatten => "flatten",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::InPlace, Self::Transfer, Self::Flatten].into_iter().find(|process| process.name() == name)
    }
}
