//! Results of getting entries by key.

use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use crate::archive::{self, Archive};
use crate::pack;
use crate::pack::{FileKind, Key, Pack, Stop};
use crate::storage::free_at;
use crate::tree::room;

/// What entries of packs and archives are called.
pub(super) const RECORD: &str = "record";
pub(super) const MEMBER: &str = "member";

/// Which entries are got, and how.
#[derive(Debug, Default)]
pub struct GetOptions {
    /// Only entries of these groups; all if empty.
    pub groups: Vec<String>,
    /// Whether they may come in another order than that of the keys, where that saves reads.
    pub any_order: bool,
    /// Asked whether to end.
    pub stop: Stop,
}

/// Entries on their way: what became of one key after another, and the body of the last one.
pub trait Getting<'a>: Send {
    /// What became of the next key; `None` after the last, once all that was read is verified. What
    /// was not taken of the body before is passed over.
    ///
    /// # Errors
    /// Returns an error if reading fails, and [`Error::Interrupted`]. An error of one entry is
    /// [`Found::Failed`].
    fn next(&mut self) -> Result<Option<(&'a Key, Found)>>;

    /// The next piece of the current body. Its bytes are verified as a whole only when
    /// [`Piece::End`] was returned.
    ///
    /// # Errors
    /// Returns an error if reading fails. An error of this entry alone is [`Piece::Failed`].
    fn piece(&mut self) -> Result<Piece<'_>>;

    /// The room that the bodies of all these entries take, in bytes, as far as the index says.
    fn needed_bytes(&self) -> u64;
}

/// Refuses what does not fit into a directory or file, before anything of it is written. Pipes and
/// devices take what comes.
///
/// # Errors
/// Returns [`Error::Room`], or an I/O error of the place.
pub fn check_room(getting: &dyn Getting<'_>, target: &Path) -> Result<()> {
    if target.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let free = free_at(target).map_err(pack::Error::Core)?;
    room::too_little(target, getting.needed_bytes(), free).map_or(Ok(()), |why| Err(Error::Room(why)))
}

/// What became of a key.
#[derive(Debug)]
pub enum Found {
    /// An entry of this kind, if that is known, whose body comes in pieces. A hard link to a file
    /// has the content of the file.
    Body(Option<FileKind>),
    /// There is none, or it cannot be read.
    Failed(Failure),
}

/// The next piece of a body.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Bytes. There may be none where much had to be passed over first.
    Bytes(&'a [u8]),
    /// This many zeroes, which are not stored.
    Hole(u64),
    /// Nothing more: all of it has come.
    End,
    /// The rest of it cannot be read, and its earlier pieces may be wrong.
    Failed(Failure),
}

/// Why one entry cannot be had, while the others can.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// There is no entry with this key.
    #[error(transparent)]
    Missing(Missing),
    /// A record is damaged, or a link that leads nowhere.
    #[error(transparent)]
    Record(pack::Error),
    /// A member is damaged, or cannot be read.
    #[error(transparent)]
    Member(archive::Error),
}

/// There is no entry with a key.
#[derive(Debug, thiserror::Error)]
#[error("{} has no {entry_name} {key}{}{}", path.display(), within(groups), lost(*may_be_lost))]
pub struct Missing {
    pub(super) path: PathBuf,
    pub(super) entry_name: &'static str,
    pub(super) key: Key,
    pub(super) groups: Vec<String>,
    /// Whether there is damage that may have taken it.
    pub(super) may_be_lost: bool,
}

impl Missing {
    /// Of a record of a pack, which has this path. There may be damage that has taken it.
    pub(in crate::ops) fn record(pack: &Pack, path: PathBuf, key: &Key, groups: &[String]) -> Self {
        let may_be_lost = !pack.damages().is_empty();
        Self { path, entry_name: RECORD, key: key.clone(), groups: groups.to_vec(), may_be_lost }
    }

    /// Of a member of an archive.
    pub(super) fn member(archive: &Archive, key: &Key) -> Self {
        let (path, groups) = (archive.path().to_path_buf(), Vec::new());
        Self { path, entry_name: MEMBER, key: key.clone(), groups, may_be_lost: false }
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

fn within(groups: &[String]) -> String {
    match groups {
        [] => String::new(),
        groups => format!(" in {}", groups.join(", ")),
    }
}

fn lost(may_be_lost: bool) -> &'static str {
    match may_be_lost {
        true => "; the pack is damaged, and it may have been lost: `stook check` shows more",
        false => "",
    }
}

impl Failure {
    /// It in one word, as reports have it: `missing`, `damaged` or `refused`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Missing(_) => "missing",
            Self::Record(_) | Self::Member(archive::Error::Damaged { .. }) => "damaged",
            Self::Member(_) => "refused",
        }
    }

    /// The error that it is.
    pub fn error(&self) -> &(dyn std::error::Error + 'static) {
        match self {
            Self::Missing(error) => error,
            Self::Record(error) => error,
            Self::Member(error) => error,
        }
    }

    /// The failure that an error of a pack is, where it costs one record only.
    ///
    /// # Errors
    /// Returns the error unchanged if nothing more can be read.
    pub(super) fn of_record(error: pack::Error) -> Result<Self> {
        match error {
            // A link that leads nowhere costs itself, and not the others.
            pack::Error::Damaged(_) | pack::Error::Invalid(_) => Ok(Self::Record(error)),
            error => Err(error.into()),
        }
    }

    /// The same of an archive.
    pub(super) fn of_member(error: archive::Error) -> Result<Self> {
        match error {
            archive::Error::Damaged { .. }
            | archive::Error::Invalid(_)
            | archive::Error::Unsupported { .. } => Ok(Self::Member(error)),
            error => Err(error.into()),
        }
    }
}
