//! A pack, or some groups of it, kept in memory.

use std::collections::HashMap;

use bytes::Bytes;

use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::frame::{BodyLen, FrameKind, HEADER_LEN};
use crate::pack::index::lost::Lost;
use crate::pack::key::Key;
use crate::pack::read::frames::{Broken, Checked, Chunk, Frames, Trouble};
use crate::pack::read::route::Route;
use crate::pack::read::walker::FrameVisitor;
use crate::pack::scan::{OnDamage, ScanOptions, ScanOrder};
use crate::pack::state::open::{Pack, is_in_groups};
use crate::pack::state::segment::{Life, Segment};

/// All live records of a pack in memory, verified. Bodies are slices of the memory into which the
/// segments were read; nothing is copied but bodies that are stored in pieces.
#[derive(Debug)]
pub struct Loaded {
    segments: Vec<Bytes>,
    records: Vec<LoadedSlot>,
    /// Bodies that were put together, by segment and offset of their record.
    joined: HashMap<(u32, u64), Bytes>,
    /// Damaged records, which are missing here.
    damages: Damages,
    body_bytes: u64,
}

/// Where a record is in memory.
#[derive(Debug, Clone, Copy)]
struct LoadedSlot {
    offset: u64,
    body_len: u64,
    segment: u32,
    key_len: u16,
    attributes_len: u16,
    key_kind: u8,
}

/// A record of a [`Loaded`] pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedRecord {
    /// The key as it is stored: see [`key`](Self::key).
    stored_key: Bytes,
    key_kind: u8,
    /// The attributes, encoded.
    pub attributes: Bytes,
    /// The body.
    pub body: Bytes,
}

impl LoadedRecord {
    /// The key.
    pub fn key(&self) -> Option<Key> {
        Key::from_stored(self.key_kind, &self.stored_key)
    }
}

impl Pack {
    /// Reads whole segments into memory, one after the other at queue depth, and verifies every
    /// record. Keys that are not wanted are left out; the memory of their segments is taken all the
    /// same.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] unless damage is skipped, or an error of reading or of allocating
    /// memory.
    pub fn load(&self, options: &ScanOptions) -> Result<Loaded> {
        self.check_groups(&options.groups)?;
        let mut loaded = Loaded {
            segments: Vec::new(),
            records: Vec::new(),
            joined: HashMap::new(),
            damages: Damages::default(),
            body_bytes: 0,
        };
        for segment in &self.snapshot.segments {
            let wanted = is_in_groups(&options.groups, self.group_of(segment));
            if wanted && !segment.frames().is_empty() {
                loaded.add(self, segment, options)?;
            }
        }
        if options.order == ScanOrder::Key {
            let key = |slot: &LoadedSlot| {
                let (kind, stored, _) = loaded_parts(&loaded.segments, slot)?;
                Key::from_stored(kind, &stored)
            };
            let mut records = std::mem::take(&mut loaded.records);
            records.sort_by_cached_key(key);
            loaded.records = records;
        }
        Ok(loaded)
    }
}

impl Loaded {
    fn add(&mut self, pack: &Pack, segment: &Segment, options: &ScanOptions) -> Result<()> {
        let route = Route::new(pack.access, segment.source.as_ref(), segment.frames());
        let window = pack.reader.whole_window(segment.source.clone(), segment.frames(), route)?;
        let mut frames = Frames::new(window, segment.salt);
        let mut walk = LoadWalk { loaded: self, pack, segment, options, lost: Lost::default() };
        if !frames.visit(&mut walk)? {
            return Err(Error::Stopped);
        }
        let lost = walk.lost;
        let wanted = |key: &Key, offset| segment.life(offset) != Life::Dead && options.keys.contains(key);
        self.damages.extend(lost.records(segment, &pack.reader, &wanted)?);
        if options.on_damage == OnDamage::Stop
            && let Some(damage) = self.damages.last().cloned()
        {
            return Err(Error::Damaged(damage));
        }
        let (session, bytes) = frames.window.into_bytes()?;
        pack.reader.give_back_session(session);
        self.segments.push(bytes);
        Ok(())
    }

    /// Records in memory.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all bodies.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Damage that was skipped.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// A record, by its number in the requested order.
    pub fn get(&self, number: usize) -> Option<LoadedRecord> {
        let slot = self.records.get(number)?;
        let (key_kind, stored_key, rest) = loaded_parts(&self.segments, slot)?;
        let attributes_len = usize::from(slot.attributes_len);
        let body = match self.joined.get(&(slot.segment, slot.offset)) {
            Some(body) => body.clone(),
            None => rest.slice(attributes_len..attributes_len + slot.body_len as usize),
        };
        Some(LoadedRecord { stored_key, key_kind, attributes: rest.slice(..attributes_len), body })
    }

    /// All records, in the requested order.
    pub fn iter(&self) -> impl Iterator<Item = LoadedRecord> {
        (0..self.len()).filter_map(|number| self.get(number))
    }
}

/// Takes the records of one segment into memory.
struct LoadWalk<'a> {
    loaded: &'a mut Loaded,
    pack: &'a Pack,
    segment: &'a Segment,
    options: &'a ScanOptions,
    lost: Lost,
}

impl LoadWalk<'_> {
    /// Steps over the current frame, which does not count; a record that is refused is damage.
    fn leave(&mut self, frames: &mut Frames, is_refused: bool) -> Checked<()> {
        let refusal = if is_refused { frames.refusal(self.pack, self.segment)? } else { None };
        frames.step_over()?;
        match refusal {
            None => Ok(()),
            Some(Damage { offset, key, what, .. }) => {
                let next = Some(frames.window.pos());
                Err(Trouble::Broken(Broken { frame: offset, offset, key, what, next, unreadable: false }))
            }
        }
    }
}

impl FrameVisitor for LoadWalk<'_> {
    fn goes_on(&mut self, _: u64) -> bool {
        self.options.stop.goes_on()
    }

    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        let (header, offset, keys) = (frames.head().header, frames.head().offset, &self.options.keys);
        let life = self.segment.life(offset);
        let counts = header.kind == FrameKind::Record
            && header.live
            && life != Life::Dead
            && (keys.is_all() || frames.head().key().is_some_and(|key| keys.contains(&key)));
        if !counts || life == Life::Unknown {
            return self.leave(frames, counts);
        }
        // The memory begins where the frames do.
        let offset = offset - self.segment.frames().start();
        let segment = self.loaded.segments.len() as u32;
        let body_len = match (header.body, frames.whole_body()?) {
            (BodyLen::Known(len), Some(_)) => len,
            _ => {
                let Some(body) = joined_body(frames)? else { return Ok(()) };
                let len = body.len() as u64;
                self.loaded.joined.insert((segment, offset), body);
                len
            }
        };
        self.loaded.body_bytes += body_len;
        let (key_len, attributes_len, key_kind) = (header.key_len, header.attributes_len, header.key_kind);
        let slot = LoadedSlot { offset, body_len, segment, key_len, attributes_len, key_kind };
        self.loaded.records.push(slot);
        Ok(())
    }

    fn meet(&mut self, _: &Frames, broken: &Broken) -> Result<()> {
        let is_wanted = broken.key.as_ref().is_none_or(|key| self.options.keys.contains(key));
        if !is_wanted {
            return Ok(());
        }
        let damage = broken.clone().into_damage(self.segment.source.path());
        if self.options.on_damage == OnDamage::Stop {
            return Err(Error::Damaged(damage));
        }
        self.loaded.damages.push(damage);
        Ok(())
    }

    fn pass(&mut self, broken: Broken, end: u64) -> Result<()> {
        self.lost.note(broken.frame, end, broken.key.is_some());
        Ok(())
    }
}

/// Kind and bytes of the key of a record in memory, and everything after them.
fn loaded_parts(segments: &[Bytes], slot: &LoadedSlot) -> Option<(u8, Bytes, Bytes)> {
    let bytes = segments.get(slot.segment as usize)?;
    let key_at = slot.offset as usize + HEADER_LEN;
    let rest_at = key_at + usize::from(slot.key_len);
    Some((slot.key_kind, bytes.slice(key_at..rest_at), bytes.slice(rest_at..)))
}

/// A body in pieces, put together; `None` when the record was abandoned.
fn joined_body(frames: &mut Frames) -> Result<Option<Bytes>, Trouble> {
    let mut body = Vec::new();
    frames.begin_body();
    loop {
        match frames.next_chunk()? {
            Chunk::Bytes(span) => body.extend_from_slice(frames.view(span).1),
            Chunk::End { counts, .. } => return Ok(counts.then(|| body.into())),
        }
    }
}
