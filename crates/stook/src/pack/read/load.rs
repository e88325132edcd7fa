//! A pack, or some groups of it, kept in memory.

use std::collections::HashMap;

use bytes::Bytes;

use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::frame::{BodyLen, FrameKind, HEADER_LEN};
use crate::pack::index::lost::Lost;
use crate::pack::key::Key;
use crate::pack::read::frames::{Broken, Chunk, Frames, Step, Trouble};
use crate::pack::read::route::Route;
use crate::pack::scan::{KeyRange, OnDamage, ScanOptions, ScanOrder};
use crate::pack::state::open::Pack;
use crate::pack::state::recover::skip_past_damage_reporting;
use crate::pack::state::segment::{Life, Segment};

/// All live records of a pack in memory, verified. Bodies are slices of the memory into which the segments were
/// read; nothing is copied but bodies that are stored in pieces.
#[derive(Debug)]
pub struct Loaded {
    segments: Vec<Bytes>,
    records: Vec<Slot>,
    /// Bodies that were put together, by segment and offset of their record.
    joined: HashMap<(u32, u64), Bytes>,
    /// What was not what was written, and is not here.
    damages: Damages,
    body_bytes: u64,
}

/// Where a record is in memory.
#[derive(Debug, Clone, Copy)]
struct Slot {
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
    /// Reads whole segments into memory, one after the other at queue depth, and verifies every record. Keys that are not wanted
    /// are left out; the memory of their segments is taken all the same.
    ///
    /// # Errors
    /// [`Error::Damaged`] unless damage is skipped, what reading meets, and memory that is not to be had.
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
            let wanted =
                options.groups.is_empty() || options.groups.iter().any(|g| g == self.group_of(segment));
            if wanted && !segment.frames().is_empty() {
                loaded.add(self, segment, options)?;
            }
        }
        if options.order == ScanOrder::Key {
            let key = |slot: &Slot| {
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
        let (mut frames, mut lost) = (Frames::new(window, segment.salt), Lost::default());
        loop {
            options.stop.check()?;
            let broken = match self.step(pack, segment, &mut frames, &options.keys) {
                Ok(true) => continue,
                Ok(false) => break,
                Err(Trouble::Source(error)) => return Err(error.into()),
                Err(Trouble::Broken(broken)) => broken,
            };
            let (frame, next, is_named) = (broken.frame, broken.next, broken.key.is_some());
            let damage = broken.into_damage(segment.source.path());
            if damage.key.as_ref().is_none_or(|key| options.keys.contains(key)) {
                if options.on_damage == OnDamage::Stop {
                    return Err(Error::Damaged(damage));
                }
                self.damages.push(damage);
            }
            let goes_on =
                skip_past_damage_reporting(&mut frames, frame, next, &mut |_| options.stop.goes_on())?;
            let end = if goes_on { frames.window.pos() } else { segment.frames().end() };
            lost.note(frame, end, is_named);
            if !goes_on {
                break;
            }
        }
        let wanted = |key: &Key, offset| segment.life(offset) != Life::Dead && options.keys.contains(key);
        self.damages.extend(lost.records(segment, &pack.reader, &wanted)?);
        if options.on_damage == OnDamage::Stop
            && let Some(damage) = self.damages.last().cloned()
        {
            return Err(Error::Damaged(damage));
        }
        let (engine, bytes) = frames.window.into_bytes()?;
        pack.reader.give_back(engine);
        self.segments.push(bytes);
        Ok(())
    }

    fn step(
        &mut self,
        pack: &Pack,
        segment: &Segment,
        frames: &mut Frames,
        keys: &KeyRange,
    ) -> Result<bool, Trouble> {
        match frames.step()? {
            Step::End => return Ok(false),
            Step::Invalid(broken) => return Err(Trouble::Broken(broken)),
            Step::Frame => {}
        }
        let header = frames.head().header;
        let offset = frames.head().offset;
        let life = segment.life(offset);
        let counts = header.kind == FrameKind::Record
            && header.live
            && life != Life::Dead
            && (keys.is_all() || frames.head().key().is_some_and(|key| keys.contains(&key)));
        if !counts || life == Life::Untold {
            let refusal = if counts { frames.refusal(pack, segment)? } else { None };
            if !frames.skip_frame()? {
                frames.finish_frame()?;
            }
            if let Some(damage) = refusal {
                let Damage { offset, key, what, .. } = damage;
                let next = Some(frames.window.pos());
                let broken = Broken { frame: offset, offset, key, what, next, unreadable: false };
                return Err(Trouble::Broken(broken));
            }
            return Ok(true);
        }
        // The memory begins where the frames do.
        let (segment_number, offset) = (self.segments.len() as u32, offset - segment.frames().start());
        let body_len = match (header.body, frames.whole_body()?) {
            (BodyLen::Known(len), Some(_)) => len,
            _ => {
                let Some(body) = joined_body(frames)? else { return Ok(true) };
                let len = body.len() as u64;
                self.joined.insert((segment_number, offset), body);
                len
            }
        };
        self.body_bytes += body_len;
        self.records.push(Slot {
            offset,
            body_len,
            segment: segment_number,
            key_len: header.key_len,
            attributes_len: header.attributes_len,
            key_kind: header.key_kind,
        });
        Ok(true)
    }

    /// Records in memory.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
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

    /// A record, by its number in the order that was asked for.
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

    /// All records, in the order that was asked for.
    pub fn iter(&self) -> impl Iterator<Item = LoadedRecord> {
        (0..self.len()).filter_map(|number| self.get(number))
    }
}

/// Kind and bytes of the key of a record in memory, and everything behind them.
fn loaded_parts(segments: &[Bytes], slot: &Slot) -> Option<(u8, Bytes, Bytes)> {
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
