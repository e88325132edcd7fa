//! Records in spans of a segment where no frame can be read. Its index still knows their keys.

use std::collections::HashSet;

use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::index::run::MergeCursor;
use crate::pack::key::Key;
use crate::pack::read::reader::Reader;
use crate::pack::state::segment::Segment;
use crate::report::units;

/// Lost records of one segment that are listed one by one; the rest are only counted.
const LISTED_MAX: u64 = 10_000;

/// The ranges where a walk over a segment found no frames, in file order.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    spans: Vec<ByteRange>,
    /// Frames whose damage was reported with their key.
    named: HashSet<u64>,
}

impl Lost {
    /// Notes that from a broken frame to `end` nothing was read; `is_named` when its key is
    /// known.
    pub(crate) fn note(&mut self, frame: u64, end: u64, is_named: bool) {
        self.spans.extend(ByteRange::new(frame, end));
        if is_named {
            self.named.insert(frame);
        }
    }

    /// Whether a frame at this offset would be in one of the spans.
    pub(crate) fn contains(&self, offset: u64) -> bool {
        let at = self.spans.partition_point(|range| range.end() <= offset);
        self.spans.get(at).is_some_and(|range| range.start() <= offset)
    }

    /// The spans.
    pub(crate) fn spans(&self) -> &[ByteRange] {
        &self.spans
    }

    /// The damage of each record of the index that is in such a range and is `wanted`, by key and
    /// offset. Records already reported with their key are left out.
    ///
    /// # Errors
    /// Returns an error if reading the index fails. Its damage is reported with the rest.
    pub(crate) fn records(
        &self,
        segment: &Segment,
        reader: &Reader,
        wanted: &dyn Fn(&Key, u64) -> bool,
    ) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        if self.spans.is_empty() {
            return Ok(damages);
        }
        match self.add_records(segment, reader, wanted, &mut damages) {
            Err(Error::Damaged(damage)) => damages.push(damage),
            added => added?,
        }
        Ok(damages)
    }

    fn add_records(
        &self,
        segment: &Segment,
        reader: &Reader,
        wanted: &dyn Fn(&Key, u64) -> bool,
        damages: &mut Vec<Damage>,
    ) -> Result<()> {
        let damage = |offset, key, what| {
            let file = segment.source.path().to_path_buf();
            Damage { file, offset, key, what, cause: None }
        };
        let (mut listed, mut unlisted) = (0_u64, 0_u64);
        let mut cursor = MergeCursor::seek(segment.runs.iter(), reader, &[])?;
        while let Some((_, entry)) = cursor.peek() {
            let offset = entry.place().offset;
            if self.contains(offset)
                && !self.named.contains(&offset)
                && let Some(key) = Key::from_sort_form(entry.form()).filter(|key| wanted(key, offset))
            {
                listed += 1;
                if listed <= LISTED_MAX {
                    let what = "it lies where the segment cannot be read".to_owned();
                    damages.push(damage(offset, Some(key), what));
                } else {
                    unlisted += 1;
                }
            }
            cursor.advance()?;
        }
        if unlisted > 0 {
            let offset = self.spans.first().map_or(0, |first| first.start());
            let what =
                format!("{} more records lie where the segment cannot be read", units::count(unlisted));
            damages.push(damage(offset, None, what));
        }
        Ok(())
    }
}
