//! Whether trees have the bytes that lists, or another tree, say that they have.
//!
//! ```
//! use stook::hash::{Digest, HashKind};
//! use stook::verify::{Branch, Expected, Subject, Verify};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let disk = directory.path();
//! # std::fs::write(disk.join("take 1"), "pictures")?;
//! let mut expected = Expected::builder();
//! expected.add(b"take 1", 0, None, &[Digest::of(HashKind::Sha256, b"pictures")]);
//! let subject = Subject::new(Branch::directory(disk)?).listed(expected.finish());
//! let report = Verify::new(vec![subject]).run(&mut ())?;
//! assert_eq!((report.subjects[0].matching, report.wrong()), (1, 0));
//! # Ok(())
//! # }
//! ```
//!
//! The stages, their bounds and what counts as what: `docs/internals/verify.md`.

mod batches;
mod counting;
mod error;
mod events;
mod expected;
mod groups;
mod locate;
mod manner;
mod options;
mod passed;
mod pool;
mod reading;
mod report;
mod run;
mod subject;
mod subtrees;
mod walks;

pub use error::{Error, Result};
pub use events::{Finding, Outcome, Phase, Progress, VerifyEvents};
pub use expected::{Entry, Expected, ExpectedBuilder};
pub use options::VerifyOptions;
pub use report::{
    BadBlocks, Difference, Extra, Mismatch, SubjectReport, Unreadable, VerifyReport, joined_names,
};
pub use run::Verify;
pub use subject::{Branch, Subject};
