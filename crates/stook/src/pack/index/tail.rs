//! The index of the newest frames of an active segment, still in memory as it grows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::format::footer::Tally;
use crate::pack::format::index::{EncodedIndex, IndexBuilder, Place};
use crate::pack::index::run::{Run, RunCursor};
use crate::pack::read::reader::Reader;

/// Sort form and offset: versions of one key are ordered newest first.
type VersionKey = (Box<[u8]>, Reverse<u64>);

/// Keys and places of the frames after the last checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    places: BTreeMap<VersionKey, Place>,
    /// Its records.
    pub(crate) tally: Tally,
}

impl Tail {
    /// Adds a record, newer than all before.
    pub(crate) fn add(&mut self, form: &[u8], place: Place, body_len: u64, sequence: u64, time_ns: i64) {
        self.places.insert((form.into(), Reverse(place.offset)), place);
        self.tally.add(body_len, sequence, time_ns);
    }

    /// The places of all versions of a key, newest first.
    pub(crate) fn versions(&self, form: &[u8]) -> impl Iterator<Item = Place> {
        let from = (Box::from(form), Reverse(u64::MAX));
        let to = (Box::from(form), Reverse(0));
        self.places.range(from..=to).map(|(_, place)| *place)
    }

    /// The run that indexes it, or `None` when it is empty.
    pub(crate) fn to_run(&self, frames: ByteRange, salt_crc: u32) -> Result<Option<Run>> {
        let Some(index) = self.encode(salt_crc) else { return Ok(None) };
        let run = Run::in_memory(index, frames, self.tally, salt_crc);
        run.map(Some)
            .map_err(|invalid| Error::Invalid(format!("an index that was just made: {}", invalid.what)))
    }

    /// A tail with the records of a run.
    pub(crate) fn from_run(run: &Run, reader: &Reader) -> Result<Self> {
        let mut tail = Self { tally: run.tally, ..Self::default() };
        let mut cursor = RunCursor::seek(run, reader, &[])?;
        while let Some(entry) = cursor {
            tail.places.insert((entry.form().into(), Reverse(entry.place().offset)), entry.place());
            cursor = entry.next()?;
        }
        Ok(tail)
    }

    /// Its index as it is written, or `None` when it is empty.
    pub(crate) fn encode(&self, salt_crc: u32) -> Option<EncodedIndex> {
        let mut builder = IndexBuilder::new(salt_crc);
        for ((form, _), place) in &self.places {
            builder.push(form, *place);
        }
        builder.finish()
    }
}
