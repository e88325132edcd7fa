//! Packs: a few append-only composite files instead of millions of small ones.
//!
//! `docs/formats/pack-v1.md` is the format. This module never decides where bytes live: it reads
//! through [`Source`](crate::source::Source) and writes through [`Storage`](crate::storage::Storage).

mod around;
mod batches;
mod check;
mod children;
mod copies;
mod damages;
mod error;
mod file_names;
mod files;
mod follow;
pub mod format;
mod frames;
mod further_names;
mod gather;
mod gets;
mod host;
#[cfg(unix)]
pub mod input;
mod key;
mod kinds;
mod later;
mod listing;
mod load;
mod lost;
mod mapped;
mod names;
mod open;
mod reader;
mod record;
mod records;
mod recover;
mod repair;
mod route;
mod run;
mod salvage;
mod scan;
mod segment;
mod snapshot;
mod stream;
mod tail;
#[cfg(unix)]
pub mod tree;
mod window;
mod writer;

pub use crate::source::AccessRule;
pub use check::CheckReport;
pub use children::Child;
pub use damages::{DamageLog, Damages};
pub use error::{Damage, Error, Result};
pub use file_names::{FileNames, Namesake};
pub use format::attributes::{Attributes, FileKind};
pub use host::{Host, SystemHost};
pub use key::{KEY_LEN_MAX, Key, KeyValue};
pub use kinds::Kinds;
pub use load::{Loaded, LoadedRecord};
pub use mapped::{MapRule, RecordView};
pub use open::{KeyEntry, Keys, OpenOptions, Pack, SegmentInfo};
pub use record::{Record, RecordHead};
pub use records::{RECORDS_BODY_LEN_MAX, RECORDS_MAGIC, RecordStream, StreamEntry};
pub use recover::TornTail;
pub use repair::{Quarantine, Quarantined, RepairOptions, Repaired, repair};
pub use scan::{Cursor, KeyRange, OnDamage, Scan, ScanOptions, ScanOrder, ScanRecord, Split, Stop};
pub use stream::{BodyComparison, RecordReader};
pub use writer::{
    Batch, CompactOptions, CompactPlan, CompactStep, Compacted, Durability, LinkTarget, PackWriter,
    RecordWriter, Recovery, SEGMENT_LEN_MIN, SharedWriter, TooLarge, WriterOptions, check_group, chunk_sums,
};
