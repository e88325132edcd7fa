//! Trees of files into directories: each file read once for all of them, and whole or absent under
//! its name, whatever happens.
//!
//! ```
//! use stook::copy::{Copy, CopySource, Destination};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let (card, disk) = (directory.path().join("card"), directory.path().join("disk"));
//! # std::fs::create_dir(&card)?;
//! # std::fs::write(card.join("take 1"), "pictures")?;
//! let copy = Copy::new(vec![CopySource::directory(&card)?], vec![Destination::new(&disk)]);
//! let report = copy.run(&mut ())?;
//! assert_eq!((report.destinations[0].files, report.undone()), (1, 0));
//! assert_eq!(std::fs::read(disk.join("take 1"))?, b"pictures");
//! # Ok(())
//! # }
//! ```
//!
//! The stages, their bounds and who owns which rule: `docs/internals/copy.md`.

mod attributes;
mod backups;
mod body;
mod current;
mod decide;
mod destination;
mod error;
mod events;
mod feed;
mod finish;
mod gathering;
mod hash_lane;
mod histories;
mod journal;
mod keys;
mod lane;
mod large;
mod ledger;
mod leftovers;
mod limits;
mod links;
mod listing;
mod lists;
mod making;
mod mhl;
mod mirror;
mod options;
mod others;
mod partial;
mod read_back;
mod refuse;
mod reopening;
mod report;
mod reserved;
mod resume;
mod run;
mod sharing;
mod small;
mod source;
mod spelling;
mod throttle;
mod tuning;
mod waits;

pub use crate::hash::{Digest, HashKind};
pub use crate::tree::outbox::Durability;
pub use error::{Error, Result};
pub use events::{
    Action, Beginning, CopyEvents, CopyFailure, DestinationProgress, Item, Phase, Progress, Why, WhyStopped,
};
pub use journal::{CopyJournal, CopyJournalError};
pub use limits::{LinkUse, Side};
pub use options::{CopyOptions, Resume};
pub use read_back::{ReadAgain, ReadBack};
pub use report::{CopyReport, DestinationReport, Failure, Leftover, NotCopied, Unfinished, WhyNotMirrored};
pub(crate) use report::{incomplete, not_there};
pub use run::{Copy, Destination};
pub use source::{CopySource, SingleFile};
pub(crate) use source::{Misplaced, NoPaths};
pub use waits::{HeldUpBy, Waits};
