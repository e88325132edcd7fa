//! Packs: a few append-only composite files instead of millions of small ones.
//!
//! `docs/formats/pack-v1.md` is the format. This module never decides where bytes live: it reads
//! through [`Source`](crate::source::Source) and writes through
//! [`Storage`](crate::storage::Storage).

mod damages;
mod error;
pub mod format;
mod index;
mod key;
mod list;
mod maintain;
mod read;
mod scan;
mod state;
#[cfg(unix)]
pub mod tree;
mod writer;

pub use crate::source::AccessRule;
pub use damages::{DamageLog, Damages};
pub use error::{Damage, Error, Result};
pub use format::attributes::{Attributes, FileKind};
pub use key::{KEY_LEN_MAX, Key, KeyValue};
pub use list::children::Child;
pub use list::file_names::{FileNames, Namesake};
pub use list::kinds::Kinds;
pub use maintain::check::CheckReport;
pub use maintain::repair::{Quarantine, Quarantined, RepairOptions, Repaired, repair};
pub use read::batches::{KeyBatches, Values};
pub use read::load::{Loaded, LoadedRecord};
pub use read::mapped::{MapRule, RecordView};
pub use read::record::{Record, RecordHead};
pub use read::source::RecordSource;
pub use read::stream::{BodyComparison, RecordReader};
pub use scan::{
    ColumnCells, ColumnContent, ColumnData, ColumnType, Cursor, KeyRange, OnDamage, OrdinalOptions, Ordinals,
    RecordFilter, Row, Rows, Scan, ScanOptions, ScanOrder, ScanRecord, Shuffle, ShuffleOptions,
    ShuffleReader, ShuffleReaderOptions, ShuffleShare, ShuffleState, Split, Stop, TableBatch, TableColumn,
    TableRows, TableSource, WantedColumn,
};
pub use state::open::{KeyEntry, Keys, OpenOptions, Pack, SegmentInfo, is_in_groups};
pub use state::recover::TornTail;
pub use writer::host::{Host, SystemHost};
#[cfg(unix)]
pub use writer::input;
pub use writer::records::{RECORDS_BODY_LEN_MAX, RECORDS_MAGIC, RecordStream, StreamEntry};
pub use writer::{
    Batch, CompactOptions, CompactPlan, CompactStep, Compacted, Durability, LinkTarget, PackWriter,
    RecordWriter, Recovery, SEGMENT_LEN_MIN, SharedWriter, TooLarge, WriterOptions, check_group, chunk_sums,
};
