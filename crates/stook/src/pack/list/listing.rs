//! What lists and summaries of a pack ask for: where keys are, which spans of which files are read.
//!
//! Nothing here reads a body.

use std::sync::Arc;

use crate::extent::ByteRange;
use crate::names::escaped;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::format::frame::{BodyLen, FrameHeader, TRAILER_LEN, Trailer};
use crate::pack::format::index::Place;
use crate::pack::key::Key;
use crate::pack::read::record::RecordHead;
use crate::pack::scan::{Entries, KeyRange};
use crate::pack::state::names::PackFile;
use crate::pack::state::open::{KeyEntry, Keys, Pack, is_in_groups};
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::Found;
use crate::source::Source;

/// A trailer is followed by at most this many bytes that fill up its frame.
const PADDING_MAX: u64 = 7;

/// Heads that are read as one batch.
const HEADS_LEN: usize = 4096;

impl Pack {
    /// Where the live records with these keys are, in their order; the pages of the index are read
    /// as one batch.
    ///
    /// # Errors
    /// Outside, when reading is impossible at all; inside, the damage that hides a record.
    pub fn locate(&self, keys: &[Key]) -> Result<Vec<Result<Option<KeyEntry>>>> {
        self.read_pages_for(keys)?;
        let entry = |key: &Key| match self.find(key) {
            Ok(found) => {
                let entry =
                    |found: Found| KeyEntry { key: key.clone(), stored_bytes: found.place.len, found };
                Ok(Ok(found.map(entry)))
            }
            Err(error @ Error::Damaged(_)) => Ok(Err(error)),
            Err(error) => Err(error),
        };
        keys.iter().map(entry).collect()
    }

    /// The highest id among the live keys.
    ///
    /// # Errors
    /// What reading the index meets.
    pub fn last_id(&self) -> Result<Option<u64>> {
        let any_from = |id: u64| -> Result<bool> {
            let found = self.keys_in(KeyRange::all().from(&Key::id(id)))?.next().transpose()?;
            Ok(found.is_some())
        };
        if !any_from(0)? {
            return Ok(None);
        }
        // There is one from `low` on, and none after `high` on.
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if any_from(middle)? {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(Some(low))
    }

    /// The live keys of a range in the order in which their records are on the medium, groups (all
    /// if empty) apart. The keys of one segment at a time are in memory.
    pub fn keys_on_disk<'p>(
        &'p self,
        range: &KeyRange,
        groups: &[String],
    ) -> impl Iterator<Item = Result<KeyEntry>> + use<'p> {
        let wanted = |segment: &Segment| is_in_groups(groups, self.group_of(segment));
        let segments: Vec<usize> = self
            .snapshot
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| wanted(segment))
            .map(|(number, _)| number)
            .collect();
        let range = range.clone();
        segments.into_iter().flat_map(move |number| {
            // Errors come after the keys.
            let (mut entries, mut failures) = (Vec::new(), Vec::new());
            let keys = Entries::of_segment(self, number, range.clone()).map(Keys::new);
            let (keys, failure) = keys.map_or_else(|error| (None, Some(error)), |keys| (Some(keys), None));
            for entry in keys.into_iter().flatten() {
                match entry {
                    Ok(entry) => entries.push(entry),
                    Err(error) => failures.push(error),
                }
            }
            entries.sort_unstable_by_key(KeyEntry::position);
            entries.into_iter().map(Ok).chain(failures.into_iter().chain(failure).map(Err))
        })
    }

    /// Gives `take` the live hard links in no order: the key of each, and the key that it leads to.
    /// Of what is damaged nothing is known.
    ///
    /// # Errors
    /// What reading the index meets.
    pub(crate) fn each_hard_link(&self, mut take: impl FnMut(Key, Key)) -> Result<()> {
        let mut keys = self.keys_on_disk(&KeyRange::all(), &[]);
        let mut batch = Vec::with_capacity(HEADS_LEN);
        loop {
            for entry in keys.by_ref().take(HEADS_LEN) {
                batch.push(entry?);
            }
            if batch.is_empty() {
                return Ok(());
            }
            let heads = self.heads(&batch)?.into_iter().flatten();
            let is_link = |head: &RecordHead| head.attributes.file_kind() == Some(FileKind::HardLink);
            let links: Vec<Key> = heads.filter(is_link).map(|head| head.key).collect();
            for (link, record) in links.iter().zip(self.get_many(&links)?) {
                if let Ok(Some(record)) = record
                    && let Ok(first) = Key::bytes(&record.body)
                {
                    take(link.clone(), first);
                }
            }
            batch.clear();
        }
    }

    /// The group in which a record is.
    pub fn group_of_entry(&self, entry: &KeyEntry) -> &str {
        self.snapshot.segments.get(entry.found.segment).map_or("", |segment| self.group_of(segment))
    }

    /// Checks that every group somebody asks for is there: a misspelt one would look like an empty
    /// pack.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the groups that there are.
    pub fn check_groups(&self, groups: &[String]) -> Result<()> {
        let Some(missing) = groups.iter().find(|group| !self.groups().contains(group)) else { return Ok(()) };
        let shown = |group: &String| format!("\"{}\"", escaped(group.as_bytes()));
        let listed = |group: &String| match group.is_empty() {
            true => "\"\" (default)".to_owned(),
            false => shown(group),
        };
        let have: Vec<String> = self.groups().iter().map(listed).collect();
        let have = if have.is_empty() { "none".to_owned() } else { have.join(", ") };
        Err(Error::Invalid(format!("the pack has no group {}; it has: {have}", shown(missing))))
    }

    /// What a scan of these groups (all if empty) goes through: ranges of segments, in its order.
    pub fn segment_ranges(&self, groups: &[String]) -> Vec<(Arc<dyn Source>, ByteRange)> {
        let wanted = |segment: &&Segment| is_in_groups(groups, self.group_of(segment));
        let span = |segment: &Segment| (segment.source.clone(), segment.frames());
        self.snapshot
            .segments
            .iter()
            .filter(wanted)
            .map(span)
            .filter(|(_, range)| !range.is_empty())
            .collect()
    }

    /// Bytes of all files that belong to the pack, by their lengths when it was opened.
    pub fn file_bytes(&self) -> u64 {
        let files = self.snapshot.files.iter().filter(|file| PackFile::parse(&file.name).is_some());
        files.map(|file| file.len).sum()
    }

    /// The head, with the length of a framed body as its trailer has it. A trailer that may be
    /// damaged leaves the length unsaid: reading the body will report the damage.
    pub(crate) fn with_length(
        &self,
        segment: &Segment,
        place: Place,
        header: &FrameHeader,
        head: RecordHead,
    ) -> Result<RecordHead> {
        let (BodyLen::Framed, Some(len)) = (header.body, place.len) else { return Ok(head) };
        let len = len.min(TRAILER_LEN + PADDING_MAX);
        let from = place.offset.saturating_add(place.len_min() - len);
        let range = ByteRange::at(from, len).unwrap_or_default();
        let bytes = match self.reader.read(segment.source.as_ref(), range) {
            Err(Error::Damaged(_)) => return Ok(head),
            read => read?,
        };
        let mut ends = bytes.windows(TRAILER_LEN as usize).rev();
        let trailer = ends.find_map(|end| Trailer::decode(end, header.crc).ok());
        Ok(RecordHead { body_len: trailer.map(|trailer| trailer.body_len), ..head })
    }
}
