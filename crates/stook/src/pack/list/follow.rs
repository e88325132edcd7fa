//! What was put since an earlier state was opened: for readers that follow a pack that grows.

use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::frame::FrameKind;
use crate::pack::read::frames::Frames;
use crate::pack::read::record::{RecordHead, record_head};
use crate::pack::state::names::PackFile;
use crate::pack::state::open::Pack;
use crate::pack::state::segment::{Life, Segment};
use crate::source::AccessRule;
use crate::storage::Entry;

impl Pack {
    /// Whether nothing was written since it was opened, as far as the names and lengths of files
    /// show, their inodes, and the times at which these changed.
    /// A reader that follows a pack asks now and then, opens it again when this is `false`, and
    /// continues with [`put_since`](Self::put_since).
    ///
    /// # Errors
    /// What listing the files meets.
    pub fn is_current(&self) -> Result<bool> {
        // That a writer begins or ends changes its note, and nothing else.
        let is_data = |file: &&Entry| PackFile::parse(&file.name) != Some(PackFile::Lock);
        let now = self.storage.list()?;
        Ok(now.iter().filter(is_data).eq(self.snapshot.files.iter().filter(is_data)))
    }

    /// The highest sequence number that it knows: records that are put later have a higher one.
    pub fn last_sequence(&self) -> u64 {
        self.snapshot.manifest.sequence_next.saturating_sub(1)
    }

    /// The heads of all live records that were put after another state of this pack was opened, in
    /// the order in which they were put. Only what was written since is read; after a compaction,
    /// also what it rewrote.
    ///
    /// # Errors
    /// What reading meets. Damage is reported when the record is read.
    pub fn put_since(&self, before: &Self) -> Result<Vec<RecordHead>> {
        let seen = before.last_sequence();
        let mut heads = Vec::new();
        for segment in self.snapshot.segments.iter().filter(|segment| segment.tally.sequence_last > seen) {
            let known = before.snapshot.segments.iter().find(|known| known.entry.id == segment.entry.id);
            let from = known.map_or(UNIT as u64, |known| known.frames_end);
            if let Some(range) = ByteRange::new(from, segment.frames_end).filter(|range| !range.is_empty()) {
                self.heads_in(segment, range, seen, &mut heads)?;
            }
        }
        heads.sort_unstable_by_key(|head| head.sequence);
        Ok(heads)
    }

    fn heads_in(
        &self,
        segment: &Segment,
        range: ByteRange,
        seen: u64,
        heads: &mut Vec<RecordHead>,
    ) -> Result<()> {
        let access = AccessRule::default().decide(segment.source.as_ref(), range);
        let mut frames = self.reader.frames(&segment.source, segment.salt, range, access)?;
        frames.visit(&mut |frames: &mut Frames| {
            heads.extend(self.head_here(segment, frames, seen)?);
            frames.step_over()
        })?;
        self.reader.take_back(frames)
    }

    /// The head of the frame at hand, if it is that of a live record that was put since.
    fn head_here(&self, segment: &Segment, frames: &Frames, seen: u64) -> Result<Option<RecordHead>> {
        let head = frames.head();
        let header = head.header;
        let is_new = header.kind == FrameKind::Record
            && header.sequence > seen
            && segment.life(head.offset) != Life::Dead
            && segment.lists(head, &self.reader)?;
        let Some(key) = head.key().filter(|_| is_new) else { return Ok(None) };
        if segment.life(head.offset) == Life::Unknown {
            let refusal = self.snapshot.refusal(key.sort_form(), segment, head.offset, &self.reader)?;
            return refusal.map_or(Ok(None), |damage| Err(Error::Damaged(damage)));
        }
        record_head(segment, &header, head.offset, key, &head.attributes).map(Some)
    }

    /// The group of a segment, by its id.
    pub fn group_of_segment(&self, segment: u64) -> &str {
        let found = self.snapshot.segments.iter().find(|found| found.entry.id == segment);
        found.map_or("", |segment| self.group_of(segment))
    }
}
