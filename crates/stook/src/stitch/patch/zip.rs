//! A zip that is patched: what stays is as compressed as it was, and only its place may be another.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::super::bodies::Bodies;
use super::super::crcs::Crcs;
use super::super::error::{Error, Result};
use super::super::file::{Parts, VirtualFile, no_part};
use super::super::layout::Laid;
use super::super::members::{Member, Members};
use super::super::merged::MadeBy;
use super::super::pieces::Pieces;
use super::super::zip::{Zip, impossible};
use super::changes::{AsKnown, Changes, Fate, Known, changes};
use super::window::Window;
use super::{ARCHIVE, Job, MEMBERS_PER_LOOK, News, change, damaged, damaged_at, refused};
use crate::error;
use crate::extent::ByteRange;
use crate::format::zip::directory::{
    DESCRIPTOR_LEN_MAX, END_LEN, END_LEN_MAX, END64_LEN, ENTRY_LEN, End, Entry, Fixed, LOCAL_LEN,
    LOCATOR_LEN, check_places, descriptor_len, end64, entry, find_end, has_descriptor, local_len,
};
use crate::format::zip::write::{Head, end_with, moved};
use crate::format::{Fault, MemberKind, Method, key_of};
use crate::source::Source;
use crate::tree::{Kind, Node};

/// Moved entries that stand in one piece, at most in about so many bytes.
const MOVED_BYTES: usize = 1 << 20;

/// The directory of a zip.
#[derive(Debug)]
pub(super) struct ZipTable {
    members: Vec<ZipPlace>,
    /// Where the zip begins, its directory, and what follows that.
    base: u64,
    directory_at: u64,
    directory_end: u64,
    /// Whether it ends as a zip64 does, and its comment.
    is_wide: bool,
    comment: Bytes,
}

/// A member: its entry, where that is, and where its header begins.
#[derive(Debug)]
struct ZipPlace {
    key: Box<[u8]>,
    entry: Entry,
    entry_at: u64,
    entry_len: u64,
    at: u64,
}

impl AsKnown for ZipPlace {
    fn as_known(&self) -> Known<'_> {
        Known { key: &self.key, kind: self.entry.kind, link: None }
    }
}

/// How a zip ends.
struct Ends {
    end: End,
    /// Where the first record of its end begins.
    at: u64,
    is_wide: bool,
    comment: Bytes,
}

/// Whether a file ends as a zip does.
pub(super) fn has_end(window: &mut Window<'_>) -> Result<bool> {
    Ok(ends(window)?.is_some())
}

fn ends(window: &mut Window<'_>) -> Result<Option<Ends>> {
    let source = window.source();
    let tail_len = source.len().min(END_LEN_MAX as u64);
    let tail_at = source.len().saturating_sub(tail_len);
    let tail = window.get(tail_at, tail_len, "the end")?;
    let found = find_end(&tail).map_err(|fault| damaged_at(source, tail_at, fault))?;
    let Some((in_tail, end, wide)) = found else { return Ok(None) };
    let comment = tail.slice(in_tail.saturating_add(END_LEN).min(tail.len())..);
    let at = tail_at.saturating_add(in_tail as u64);
    if wide.is_none() {
        return Ok(Some(Ends { end, at, is_wide: false, comment }));
    }
    // Data before the zip moves it, which nothing reflects: it is before the locator.
    let wrong = |at: u64, what: &str| damaged(source, Fault::unsupported(at, what));
    let what = "the end of the directory (zip64) is not directly before what points to it";
    let at = at.checked_sub((LOCATOR_LEN + END64_LEN) as u64).ok_or_else(|| wrong(0, what))?;
    let bytes = window.get(at, END64_LEN as u64, "the end of the directory (zip64)")?;
    let end = end64(&bytes).map_err(|fault| damaged_at(source, at, fault))?;
    Ok(Some(Ends { end, at, is_wide: true, comment }))
}

impl ZipTable {
    /// Reads the directory.
    pub(super) fn read(window: &mut Window<'_>, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Self> {
        let source = window.source();
        let Some(Ends { end, at: directory_end, is_wide, comment }) = ends(window)? else {
            let what =
                "it begins as a zip does, and does not end as one: it was cut off, or its end is damaged";
            return Err(damaged(source, Fault::damaged(0, what)));
        };
        let base = end.base(directory_end).map_err(|fault| damaged(source, fault))?;
        let directory_at = base.saturating_add(end.at);
        let mut table = Self { members: Vec::new(), base, directory_at, directory_end, is_wide, comment };
        let (mut at, mut places) = (directory_at, Vec::new());
        while at < directory_end {
            let count = table.members.len() as u64;
            if count.is_multiple_of(MEMBERS_PER_LOOK) && !go_on(count) {
                return Err(Error::Interrupted);
            }
            let place = table.entry(window, at)?;
            at = at.saturating_add(place.entry_len);
            places.push((place.at, place.at.saturating_add(place.entry.least_len())));
            table.members.push(place);
        }
        let count = table.members.len() as u64;
        end.check_count(count).map_err(|fault| damaged_at(source, directory_end, fault))?;
        check_places(places, directory_at).map_err(|fault| damaged(source, fault))?;
        Ok(table)
    }

    fn entry(&self, window: &mut Window<'_>, at: u64) -> Result<ZipPlace> {
        let source = window.source();
        let wrong = |fault| damaged_at(source, at, fault);
        let what = "an entry of the directory";
        let bytes = window.get(at, ENTRY_LEN as u64, what)?;
        let cut = || wrong(Fault::damaged(0, "an entry of the directory reaches past its end"));
        let fixed = Fixed::decode(bytes.first_chunk::<ENTRY_LEN>().ok_or_else(cut)?).map_err(wrong)?;
        let (name_len, extra_len, comment_len) = fixed.lens();
        let texts = window.get(
            at.saturating_add(ENTRY_LEN as u64),
            (name_len as u64).saturating_add(extra_len as u64),
            what,
        )?;
        let (name, extra) = texts.split_at_checked(name_len).ok_or_else(cut)?;
        let entry = entry(&fixed, name, extra).map_err(wrong)?;
        let lens = [ENTRY_LEN, name_len, extra_len, comment_len];
        let entry_len = lens.iter().fold(0_u64, |sum, len| sum.saturating_add(*len as u64));
        if at.saturating_add(entry_len) > self.directory_end {
            return Err(cut());
        }
        let key = key_of(&entry.name).map_err(|what| wrong(Fault::damaged(0, what)))?;
        let member_at = self.base.saturating_add(entry.at);
        Ok(ZipPlace { key: key.into(), entry, entry_at: at, entry_len, at: member_at })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(|place| &*place.key)
    }

    /// Where the bytes of a member lie, and their CRC-32; `None` if it is no file.
    ///
    /// # Errors
    /// They are not there as they are; its header is damaged.
    pub(super) fn body(&self, window: &mut Window<'_>, number: usize) -> Result<Option<(ByteRange, u32)>> {
        let place = self.members.get(number).filter(|place| place.entry.kind == MemberKind::File);
        let Some(place) = place else { return Ok(None) };
        let Entry { method, is_refused, stored_len, crc32, .. } = place.entry;
        if method != Method::Stored || is_refused {
            let what = "it is compressed or encrypted in the archive, so nothing in it can be changed: \
                        give all of it";
            return Err(change(&place.key, what));
        }
        let local = window.get(place.at, LOCAL_LEN as u64, "the header of a member")?;
        let header_len = local_len(&local).map_err(|fault| damaged_at(window.source(), place.at, fault))?;
        let range = ByteRange::at(place.at.saturating_add(header_len as u64), stored_len);
        let range = range.filter(|range| range.end() <= self.directory_at).ok_or_else(|| {
            let what = "a member reaches into the directory";
            damaged(window.source(), Fault::damaged(place.at, what))
        })?;
        Ok(Some((range, crc32)))
    }

    /// What is said of a member, but for its time and its owner.
    pub(super) fn node(&self, number: usize) -> Node {
        let mode = self.members.get(number).and_then(|place| place.entry.mode);
        Node { mode, ..Node::new(Kind::File) }
    }

    /// Lays it out with what was given.
    pub(super) fn lay_out(&self, path: PathBuf, job: Job<'_>) -> Result<Laid> {
        let Job { archive, case, given, mut members } = job;
        let changes = changes(&self.members, &given, case)?;
        members.set_changed(changes.count());
        let mut window = Window::new(&**archive)?;
        let mut laying = ZipLaying::new(self, &given);
        laying.members(&mut window, &changes)?;
        laying.directory(&mut window, &changes)?;
        let ZipLaying { pieces, all, starts, headers, news, .. } = laying;
        members.put(all);
        members.count()?;
        let members = Arc::new(members);
        let parts = PatchedZip {
            archive: archive.clone(),
            crcs: Crcs::new(members.clone()),
            members: members.clone(),
            news,
            headers,
        };
        let file = VirtualFile::new(path, pieces, Arc::new(parts))?;
        Ok(Laid { file, members, starts: starts.into() })
    }

    /// The end of what a member takes, which is at most `limit`: its header, its bytes, and what
    /// follows them.
    fn end_of(&self, window: &mut Window<'_>, place: &ZipPlace, limit: u64) -> Result<u64> {
        let source = window.source();
        let local = window.get(place.at, LOCAL_LEN as u64, "the header of a member")?;
        let wrong = |fault| damaged_at(source, place.at, fault);
        let header_len = local_len(&local).map_err(wrong)? as u64;
        let end = place.at.saturating_add(header_len).saturating_add(place.entry.stored_len);
        if end > limit {
            let what = format!("a member reaches to {end}, into what follows it at {limit}");
            return Err(wrong(Fault::damaged(0, what)));
        }
        if !has_descriptor(&local) {
            return Ok(end);
        }
        let len = limit.saturating_sub(end).min(DESCRIPTOR_LEN_MAX as u64);
        let bytes = window.get(end, len, "what follows a member")?;
        Ok(end.saturating_add(descriptor_len(&bytes, &place.entry) as u64).min(limit))
    }
}

/// What becomes of a zip.
struct ZipLaying<'a> {
    table: &'a ZipTable,
    given: &'a [Member],
    pieces: Pieces,
    /// The members, in the order of the directory, and where their bytes or headers begin.
    all: Vec<Member>,
    starts: Vec<u64>,
    /// Where the headers of those begin that come from trees, counted from where the zip begins.
    headers: HashMap<u32, u64>,
    news: News,
    /// Where each member of the archive is now, as far as it is.
    placed: Vec<Option<u64>>,
    /// The number of the member that has the place of each.
    numbers: Vec<Option<u32>>,
    moved: Vec<u8>,
}

impl<'a> ZipLaying<'a> {
    fn new(table: &'a ZipTable, given: &'a [Member]) -> Self {
        let count = table.members.len();
        Self {
            table,
            given,
            pieces: Pieces::new(),
            all: Vec::new(),
            starts: Vec::new(),
            headers: HashMap::new(),
            news: News::default(),
            placed: vec![None; count],
            numbers: vec![None; count],
            moved: Vec::new(),
        }
    }

    fn kept(&mut self, from: u64, to: u64) {
        self.pieces.body(ARCHIVE, from, to.saturating_sub(from));
    }

    /// All that stands before the directory, in the order in which it is there.
    fn members(&mut self, window: &mut Window<'_>, changes: &Changes) -> Result<()> {
        let table = self.table;
        self.number(changes)?;
        let mut order: Vec<(usize, &ZipPlace)> = table.members.iter().enumerate().collect();
        order.sort_by_key(|(_, place)| place.at);
        let mut cursor = 0;
        for (position, (at, place)) in order.iter().enumerate() {
            if let (Some(Fate::Kept), Some(slot)) = (changes.fates.get(*at), self.placed.get_mut(*at)) {
                let before = place.at.saturating_sub(cursor);
                *slot = Some(self.pieces.len().saturating_add(before));
                continue;
            }
            let next = order.get(position.saturating_add(1)).map(|(_, next)| next.at);
            let end = table.end_of(window, place, next.unwrap_or(table.directory_at))?;
            self.kept(cursor, place.at);
            cursor = end;
            if let Some(number) = self.numbers.get(*at).copied().flatten() {
                self.new_member(number)?;
            }
        }
        self.kept(cursor, table.directory_at);
        for number in self.added(changes) {
            self.new_member(number)?;
        }
        for (at, number) in self.numbers.iter().enumerate() {
            let placed = self.placed.get(at).copied().flatten();
            if let (Some(placed), Some(number)) = (placed, number)
                && let Some(start) = self.starts.get_mut(*number as usize)
            {
                *start = placed;
            }
        }
        Ok(())
    }

    /// The numbers of those that are added.
    fn added(&self, changes: &Changes) -> std::ops::Range<u32> {
        let end = self.all.len() as u32;
        end.saturating_sub(changes.added.len() as u32)..end
    }

    /// Gives members their numbers: those of the directory in its order, and then what is added.
    fn number(&mut self, changes: &Changes) -> Result<()> {
        let Self { table, given, all, news, numbers, .. } = self;
        for ((place, fate), slot) in table.members.iter().zip(&changes.fates).zip(numbers) {
            let number = u32::try_from(all.len()).map_err(|_| Error::TooLong { pieces: all.len() })?;
            let member = match fate {
                Fate::Gone => continue,
                Fate::Kept => {
                    let Entry { kind, len, .. } = place.entry;
                    Member::kept(&place.key, kind, if kind == MemberKind::File { len } else { 0 })
                }
                Fate::Replaced(file) => {
                    let Some(file) = given.get(*file) else { continue };
                    if *place.entry.name != *place.key {
                        news.names.insert(number, place.entry.name.clone().into());
                    }
                    file.with_key(&place.key)
                }
            };
            *slot = Some(number);
            all.push(member);
        }
        all.extend(changes.added.iter().filter_map(|at| given.get(*at)).cloned());
        u32::try_from(all.len()).map_err(|_| Error::TooLong { pieces: all.len() })?;
        self.starts = vec![0; self.all.len()];
        Ok(())
    }

    /// Header, bytes and descriptor of a member that comes from a tree.
    fn new_member(&mut self, number: u32) -> Result<()> {
        let Some(member) = self.all.get(number as usize) else { return Ok(()) };
        let head = head(&self.news, number, member, 0);
        let lens = (head.local_len().map_err(refused(&member.key))?, head.descriptor_len());
        self.headers.insert(number, self.pieces.len().saturating_sub(self.table.base));
        self.pieces.made(part(number, MadePart::Local), lens.0 as u64);
        if let Some(start) = self.starts.get_mut(number as usize) {
            *start = self.pieces.len();
        }
        self.pieces.whole_body(number, member.len);
        self.pieces.made(part(number, MadePart::Descriptor), lens.1 as u64);
        Ok(())
    }

    /// The directory and the end.
    fn directory(&mut self, window: &mut Window<'_>, changes: &Changes) -> Result<()> {
        let (table, source) = (self.table, window.source());
        if changes.is_none() {
            self.kept(table.directory_at, source.len());
            return Ok(());
        }
        let directory_at = self.pieces.len();
        for (at, place) in table.members.iter().enumerate() {
            let placed = self.placed.get(at).copied().flatten();
            let number = self.numbers.get(at).copied().flatten();
            match (placed, number) {
                (Some(placed), _) if placed == place.at => {
                    self.flush();
                    self.kept(place.entry_at, place.entry_at.saturating_add(place.entry_len));
                }
                (Some(placed), _) => {
                    let bytes = window.get(place.entry_at, place.entry_len, "an entry of the directory")?;
                    let moved = moved(&bytes, placed.saturating_sub(table.base));
                    let wrong = |fault| damaged_at(source, place.entry_at, fault);
                    self.moved.extend_from_slice(&moved.map_err(wrong)?);
                    if self.moved.len() >= MOVED_BYTES {
                        self.flush();
                    }
                }
                (None, Some(number)) => self.entry(number)?,
                (None, None) => {}
            }
        }
        for number in self.added(changes) {
            self.entry(number)?;
        }
        self.flush();
        let len = self.pieces.len().saturating_sub(directory_at);
        let at = directory_at.saturating_sub(table.base);
        let end = end_with(self.all.len() as u64, at, len, table.is_wide, &table.comment);
        self.pieces.bytes(end.into());
        Ok(())
    }

    fn flush(&mut self) {
        self.pieces.bytes(std::mem::take(&mut self.moved).into());
    }

    /// The entry of a member that comes from a tree.
    fn entry(&mut self, number: u32) -> Result<()> {
        self.flush();
        let Some(member) = self.all.get(number as usize) else { return Ok(()) };
        let at = self.headers.get(&number).copied().unwrap_or(0);
        let entry = head(&self.news, number, member, 0).entry(at).map_err(refused(&member.key))?;
        self.pieces.made(part(number, MadePart::Entry), entry.len() as u64);
        Ok(())
    }
}

/// What is made of a member that comes from a tree.
#[derive(Debug, Clone, Copy)]
enum MadePart {
    Local,
    Descriptor,
    Entry,
}

/// The number of a part. There are fewer members than a quarter of all numbers.
fn part(number: u32, part: MadePart) -> u32 {
    number.saturating_mul(3).saturating_add(part as u32)
}

fn head<'a>(news: &'a News, number: u32, member: &'a Member, crc32: u32) -> Head<'a> {
    Head { key: news.name(number, member), ..Zip::default().head(member, crc32) }
}

struct PatchedZip {
    archive: Arc<dyn Source>,
    members: Arc<Members>,
    news: News,
    headers: HashMap<u32, u64>,
    crcs: Crcs,
}

impl std::fmt::Debug for PatchedZip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PatchedZip").field("new", &self.headers.len()).finish_non_exhaustive()
    }
}

impl Parts for PatchedZip {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        if number == ARCHIVE { Ok(self.archive.clone()) } else { self.members.open(number) }
    }

    fn virtual_body(&self, number: u32) -> Option<VirtualFile> {
        self.members.virtual_file(number).cloned()
    }

    fn make(&self, made: u32, bodies: &Bodies) -> error::Result<Bytes> {
        let (number, kind) = (made / 3, made % 3);
        let member = self.members.all().get(number as usize).ok_or_else(|| no_part(made))?;
        if kind == MadePart::Descriptor as u32 {
            self.crcs.read(bodies, number..number.saturating_add(1))?;
        } else if kind == MadePart::Entry as u32 {
            // Who reads one reads most of them.
            self.crcs.read(bodies, 0..self.members.all().len() as u32)?;
        }
        let head = head(&self.news, number, member, self.crcs.get(number));
        let encoded = match kind {
            0 => head.local(),
            1 => Ok(head.descriptor()),
            _ => head.entry(self.headers.get(&number).copied().unwrap_or(0)),
        };
        Ok(encoded.map_err(|fault| impossible(&fault))?.into())
    }

    fn passed(&self, number: u32, at: u64, bytes: &[u8]) {
        if number != ARCHIVE {
            self.crcs.passed(number, at, bytes);
        }
    }

    fn made_by(&self) -> Option<MadeBy> {
        Some(self.news.made_by("patched zip", &self.members))
    }
}
