//! An AFS that is patched: members keep their numbers, and how far they are from multiples of
//! 2,048.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::super::bodies::Bodies;
use super::super::error::Result;
use super::super::file::{Parts, VirtualFile, no_part};
use super::super::layout::Laid;
use super::super::members::{Changed, Member, Members};
use super::super::pieces::Pieces;
use super::changes::{deleted, layers};
use super::window::Window;
use super::{ARCHIVE, Job, change, damaged, damaged_at, refused};
use crate::error;
use crate::extent::ByteRange;
use crate::format::afs::{
    self, ALIGNMENT, DETAIL_LEN, Detail, HEADER_LEN, MEMBERS_MAX, PLACE_LEN, encode_place, table_len,
};
use crate::format::{Fault, MemberKind};
use crate::names::escaped;
use crate::source::Source;
use crate::tree::CaseRule;

/// The table of an AFS, and the details of its members.
#[derive(Debug)]
pub(super) struct AfsTable {
    magic: [u8; 4],
    table: afs::Table,
    details: Option<Details>,
}

/// Details of members: where they are, and where that is said, with which length.
#[derive(Debug)]
struct Details {
    pointer_at: u64,
    said_len: u32,
    range: ByteRange,
    all: Vec<Detail>,
}

impl AfsTable {
    /// Reads the table and the details.
    pub(super) fn read(window: &mut Window<'_>) -> Result<Self> {
        let source = window.source();
        let wrong = |fault| damaged(source, fault);
        let header = window.get(0, HEADER_LEN as u64, "the header of an AFS")?;
        let cut = || wrong(Fault::damaged(0, "the header of an AFS is cut off"));
        let header = header.first_chunk::<HEADER_LEN>().copied().ok_or_else(cut)?;
        let len = table_len(&header, source.len()).map_err(wrong)?;
        let bytes = window.get(0, len as u64, "the table of members")?;
        let table = afs::Table::decode(&bytes, source.len()).map_err(wrong)?;
        let mut details = None;
        for pointer in table.pointers() {
            let bytes = window.get(pointer.start(), PLACE_LEN as u64, "the place of the details")?;
            let Some(pointed) = bytes.first_chunk::<PLACE_LEN>() else { continue };
            let Some(range) = table.details(pointed) else { continue };
            let said_len = pointed.last_chunk::<4>().map_or(0, |len| u32::from_le_bytes(*len));
            if pointer.end() > range.start() {
                let what = "the details begin before the place that says where they are";
                return Err(wrong(Fault::unsupported(pointer.start(), what)));
            }
            let bytes = window.get(range.start(), range.len(), "the details of members")?;
            let all = Detail::decode_all(&bytes).map_err(|fault| damaged_at(source, range.start(), fault))?;
            details = Some(Details { pointer_at: pointer.start(), said_len, range, all });
            break;
        }
        let [a, b, c, d, ..] = header;
        Ok(Self { magic: [a, b, c, d], table, details })
    }

    fn count(&self) -> u32 {
        self.table.places().len() as u32
    }

    /// How many members these files change. One that is deleted leaves an empty place.
    fn count_of(&self, files: &BTreeMap<u32, Option<usize>>) -> Changed {
        let count = |is: fn((bool, bool)) -> bool| {
            let of = files.iter().map(|(number, file)| (file.is_some(), self.place(*number).is_some()));
            of.filter(|of| is(*of)).count() as u64
        };
        Changed {
            replaced: count(|of| of == (true, true)),
            added: count(|of| of == (true, false)),
            deleted: count(|(is_given, _)| !is_given),
        }
    }

    pub(super) fn place(&self, number: u32) -> Option<ByteRange> {
        self.table.places().get(number as usize).copied().flatten()
    }

    fn detail(&self, number: u32) -> Option<&Detail> {
        self.details.as_ref()?.all.get(number as usize)
    }

    /// Where the first member begins, or what follows where it would.
    fn first(&self) -> u64 {
        let details = self.details.as_ref().map_or(u64::MAX, |details| details.range.start());
        self.table.first().min(details)
    }

    /// Lays it out with what was given.
    pub(super) fn lay_out(&self, path: PathBuf, job: Job<'_>) -> Result<Laid> {
        let Job { archive, case, given, mut members } = job;
        let files = self.files(&given, case)?;
        members.set_changed(self.count_of(&files));
        let mut window = Window::new(&**archive)?;
        let count = files.keys().next_back().map_or(0, |last| last.saturating_add(1)).max(self.count());
        let head = Head::new(self, &mut window, count)?;
        let plan = Plan::new(self, &files, &given, head.first)?;
        let details = self.new_details(&files, &given, &plan, count)?;
        let (mut all, mut starts, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        for (number, place) in &plan.places {
            let new = files.get(number).copied().flatten().and_then(|file| given.get(file));
            let kept = || Member::kept(&self.key(*number), MemberKind::File, place.len());
            let member = match new {
                Some(file) if *number < self.count() => file.with_key(&self.key(*number)),
                Some(file) => file.clone(),
                None => kept(),
            };
            numbers.insert(*number, all.len() as u32);
            all.push(member);
            starts.push(place.start());
        }
        let mut pieces = Pieces::new();
        self.head_onto(&mut pieces, &head, &plan, &details);
        for step in &plan.steps {
            match *step {
                Step::Keep(range) => pieces.body(ARCHIVE, range.start(), range.len()),
                Step::Fill(len) => pieces.fill(0, len),
                Step::New(number, len) => {
                    pieces.whole_body(numbers.get(&number).copied().unwrap_or(0), len);
                }
            }
        }
        self.tail_onto(&mut pieces, &mut window, &plan, details)?;
        members.put(all);
        members.count()?;
        let members = Arc::new(members);
        let parts = PatchedAfs { archive: archive.clone(), members: members.clone() };
        let file = VirtualFile::new(path, pieces, Arc::new(parts))?;
        Ok(Laid { file, members, starts: starts.into() })
    }

    /// What a member is called: by its name, or its number.
    fn key(&self, number: u32) -> Vec<u8> {
        match self.detail(number).map(Detail::name) {
            Some(name) if !name.is_empty() => name.to_vec(),
            _ => format!("{number:05}").into_bytes(),
        }
    }

    /// The numbers of members by their folded names. Where several have one name, it is none's.
    pub(super) fn names(&self, case: CaseRule) -> HashMap<Vec<u8>, Option<u32>> {
        let mut names = HashMap::new();
        for number in 0..self.count() {
            if let Some(name) = self.detail(number).map(Detail::name).filter(|name| !name.is_empty()) {
                let entry = names.entry(case.folded(name).into_owned());
                entry.and_modify(|number| *number = None).or_insert(Some(number));
            }
        }
        names
    }

    /// What is given for each number that changes: a file, or nothing where it is deleted.
    fn files(&self, given: &[Member], case: CaseRule) -> Result<BTreeMap<u32, Option<usize>>> {
        let names = self.names(case);
        let number = |file: &Member, name: &[u8]| match names.get(&*case.folded(name)) {
            Some(Some(number)) => Ok(Some(*number)),
            Some(None) => Err(change(&file.key, "several members have this name: give a number")),
            None => Ok(number_of(name)),
        };
        let mut files = BTreeMap::<u32, Option<usize>>::new();
        for layer in layers(given) {
            let mut own = BTreeMap::<u32, &Member>::new();
            let layer = || layer.clone().filter_map(|at| Some((at, given.get(at)?)));
            for (_, file) in layer() {
                let Some(name) = deleted(file, case)? else { continue };
                let number = number(file, name)?;
                let is_there = |number: &u32| {
                    self.place(*number).is_some() || files.get(number).is_some_and(Option::is_some)
                };
                let Some(number) = number.filter(is_there) else {
                    return Err(change(&file.key, format!("there is no member {} to delete", escaped(name))));
                };
                own.insert(number, file);
                match number < self.count() {
                    true => _ = files.insert(number, None),
                    false => _ = files.remove(&number),
                }
            }
            for (at, file) in layer() {
                if deleted(file, case)?.is_some() {
                    continue;
                }
                let Some(number) = number(file, &file.key)? else {
                    let what = "no member has this name, and it does not begin with the number of one";
                    return Err(change(&file.key, what));
                };
                if let Some(other) = own.insert(number, file) {
                    let what = format!("in the same folder, {} is of the same member", escaped(&other.key));
                    return Err(change(&file.key, what));
                }
                files.insert(number, Some(at));
            }
        }
        self.check_added(&files, given)?;
        Ok(files)
    }

    /// Refuses numbers that do not follow those that there are.
    fn check_added(&self, files: &BTreeMap<u32, Option<usize>>, given: &[Member]) -> Result<()> {
        for (expected, (number, file)) in (self.count()..).zip(files.range(self.count()..)) {
            let key = file.and_then(|file| given.get(file)).map(|file| &*file.key).unwrap_or_default();
            if *number != expected {
                let what = format!("the next number would be {expected}: they follow one another");
                return Err(change(key, what));
            }
            if *number >= MEMBERS_MAX {
                return Err(change(key, format!("an AFS has {MEMBERS_MAX} members at most")));
            }
        }
        Ok(())
    }

    /// The details where they change. Those of deleted members stay.
    fn new_details(
        &self,
        files: &BTreeMap<u32, Option<usize>>,
        given: &[Member],
        plan: &Plan,
        count: u32,
    ) -> Result<Option<Vec<Detail>>> {
        let Some(details) = &self.details else { return Ok(None) };
        let mut all = details.all.clone();
        for (number, file) in files {
            let Some(file) = file.and_then(|file| given.get(file)) else { continue };
            let len = u32::try_from(file.len).unwrap_or(u32::MAX);
            let is_new = *number >= self.count();
            let name = if is_new { name_of(&file.key) } else { b"" };
            let made = Detail::new(name, file.mtime_ns, len).map_err(refused(&file.key))?;
            let Some(detail) = all.get_mut(*number as usize) else {
                all.push(made);
                continue;
            };
            detail.time = made.time;
            // It is not the length in all files.
            if self.place(*number).is_none_or(|place| place.len() == u64::from(detail.number)) {
                detail.number = len;
            }
        }
        let words = words((0..self.count()).map(|number| self.place(number)));
        let has_any = details.all.len() > 1 && details.all.iter().any(|detail| detail.number != 0);
        if has_any && details.all.iter().map(|detail| detail.number).eq(words) {
            let new = self::words((0..count).map(|number| plan.places.get(&number).copied()));
            for (detail, word) in all.iter_mut().zip(new) {
                detail.number = word;
            }
        }
        Ok((all != details.all).then_some(all))
    }

    /// Everything before the first member.
    fn head_onto(&self, pieces: &mut Pieces, head: &Head, plan: &Plan, details: &Option<Vec<Detail>>) {
        let mut table = self.magic.to_vec();
        table.extend(head.count.to_le_bytes());
        for number in 0..head.count {
            encode_place(plan.places.get(&number).copied(), &mut table);
        }
        let mut pointer = Vec::new();
        if let Some(there) = &self.details {
            let len = match details {
                Some(details) if head.count > self.count() => details.len().saturating_mul(DETAIL_LEN) as u64,
                _ => there.said_len.into(),
            };
            encode_place(ByteRange::at(plan.end, len), &mut pointer);
        }
        if head.style == Style::After {
            table.append(&mut pointer);
        }
        let stop = self.first().saturating_sub(pointer.len() as u64);
        let wanted = head.first.saturating_sub(pointer.len() as u64);
        pieces.bytes(table.into());
        let kept = stop.saturating_sub(pieces.len());
        pieces.body(ARCHIVE, pieces.len(), kept);
        pieces.fill(0, wanted.saturating_sub(pieces.len()));
        pieces.bytes(pointer.into());
    }

    /// The details, and what follows them.
    fn tail_onto(
        &self,
        pieces: &mut Pieces,
        window: &mut Window<'_>,
        plan: &Plan,
        details: Option<Vec<Detail>>,
    ) -> Result<()> {
        let Some(there) = &self.details else { return Ok(()) };
        let end = window.source().len();
        let rest = |pieces: &mut Pieces, at: u64| pieces.body(ARCHIVE, at, end.saturating_sub(at));
        let count = details.as_ref().map_or(there.all.len(), Vec::len);
        let len = count.saturating_mul(DETAIL_LEN) as u64;
        ByteRange::at(plan.end, len).and_then(in_afs).ok_or_else(|| {
            let what = "the details of members would be beyond the 4 GiB of an AFS";
            damaged(window.source(), Fault::unsupported(there.pointer_at, what))
        })?;
        let Some(details) = details else {
            rest(pieces, there.range.start());
            return Ok(());
        };
        let mut out = Vec::new();
        for detail in &details {
            detail.encode(&mut out);
        }
        pieces.bytes(out.into());
        if details.len() == there.all.len() {
            rest(pieces, there.range.end());
            return Ok(());
        }
        let slot = Slot::new(there.range, end, true);
        let padding = slot.end.saturating_sub(there.range.end());
        let is_exact = u64::from(there.said_len) == there.range.len();
        if !is_exact || !is_zero(window, there.range.end(), padding)? {
            let what = "there is something behind the details that is not known, where they would grow";
            return Err(damaged(window.source(), Fault::unsupported(there.range.end(), what)));
        }
        pieces.fill(0, slot.len_for(len).saturating_sub(len));
        rest(pieces, slot.end);
        Ok(())
    }
}

/// The number that a name begins with, at the root of a tree.
pub(super) fn number_of(name: &[u8]) -> Option<u32> {
    let end = name.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(name.len());
    let (digits, rest) = name.split_at_checked(end)?;
    let is_number = matches!(rest.first(), None | Some(b'_' | b'.')) && !rest.contains(&b'/');
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// The name of a member that is added, without its number.
fn name_of(key: &[u8]) -> &[u8] {
    let digits = key.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match key.get(digits..).and_then(|rest| rest.strip_prefix(b"_")) {
        Some(name) if !name.is_empty() => name,
        _ => key,
    }
}

/// The numbers of a table, from its first on.
fn words(places: impl Iterator<Item = Option<ByteRange>>) -> impl Iterator<Item = u32> {
    let places: Vec<Option<ByteRange>> = places.collect();
    let count = places.len();
    let both = places
        .into_iter()
        .flat_map(|place| place.map_or([0, 0], |place| [place.start(), place.len()]).map(|word| word as u32));
    both.take(count)
}

/// A place that an AFS can have.
fn in_afs(place: ByteRange) -> Option<ByteRange> {
    Some(place).filter(|place| place.end() <= u64::from(u32::MAX))
}

fn is_zero(window: &mut Window<'_>, at: u64, len: u64) -> Result<bool> {
    Ok(window.get(at, len, "what is filled up")?.iter().all(|byte| *byte == 0))
}

/// The next multiple of what members are aligned to.
fn aligned(len: u64) -> u64 {
    len.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// Where it says where the details are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// After the table.
    After,
    /// Before the first member.
    Before,
    /// Nowhere.
    Nowhere,
}

/// What comes before the first member.
struct Head {
    count: u32,
    style: Style,
    /// Where the first member will begin.
    first: u64,
}

impl Head {
    /// With so many members.
    fn new(table: &AfsTable, window: &mut Window<'_>, count: u32) -> Result<Self> {
        let (first, old_end) = (table.first(), table.table.table_len());
        let style = match &table.details {
            Some(details) if details.pointer_at == old_end => Style::After,
            Some(_) => Style::Before,
            None => Style::Nowhere,
        };
        let pointer = PLACE_LEN as u64;
        let grown = u64::from(count.saturating_sub(table.count())).saturating_mul(pointer);
        if grown == 0 {
            return Ok(Self { count, style, first });
        }
        let has_room = style != Style::Nowhere || first.saturating_sub(old_end) >= pointer;
        let end = old_end.saturating_add(grown).saturating_add(if has_room { pointer } else { 0 });
        let from = old_end.saturating_add(if style == Style::After { pointer } else { 0 });
        let to = first.saturating_sub(if style == Style::Before { pointer } else { 0 }).min(end);
        if !is_zero(window, from, to.saturating_sub(from))? {
            let what = "there is something behind the table that is not known, where it would grow";
            return Err(damaged(window.source(), Fault::unsupported(from, what)));
        }
        let first = first.saturating_add(aligned(end.saturating_sub(first)));
        Ok(Self { count, style, first })
    }
}

/// A part of the archive that is a member, and what fills it up.
#[derive(Debug, Clone, Copy)]
struct Slot {
    range: ByteRange,
    end: u64,
    /// Nothing follows it.
    is_last: bool,
}

impl Slot {
    /// That of a member, of which the next begins at `limit`.
    fn new(range: ByteRange, limit: u64, is_last: bool) -> Self {
        let end = range.start().saturating_add(aligned(range.len())).min(limit).max(range.end());
        Self { range, end, is_last: is_last && end == limit }
    }

    fn len(&self) -> u64 {
        self.end.saturating_sub(self.range.start())
    }

    /// How long it is with another member in it: what follows it is as far from a multiple of the
    /// alignment as it was.
    fn len_for(&self, len: u64) -> u64 {
        let beyond = self.len() % ALIGNMENT;
        if self.is_last && beyond > 0 {
            return len;
        }
        let more = len.saturating_sub(beyond);
        aligned(more).saturating_add(beyond)
    }
}

/// What a patched AFS is made of, from its first member on.
#[derive(Debug)]
enum Step {
    Keep(ByteRange),
    Fill(u64),
    New(u32, u64),
}

/// Where everything goes.
struct Plan {
    places: BTreeMap<u32, ByteRange>,
    steps: Vec<Step>,
    /// Where the members end, and the details begin.
    end: u64,
}

impl Plan {
    fn new(
        table: &AfsTable,
        files: &BTreeMap<u32, Option<usize>>,
        given: &[Member],
        first: u64,
    ) -> Result<Self> {
        let mut plan = Self { places: BTreeMap::new(), steps: Vec::new(), end: first };
        let limit = table.details.as_ref().map_or(table.table.file_len(), |details| details.range.start());
        let mut sorted: Vec<(ByteRange, u32)> =
            (0..table.count()).filter_map(|number| Some((table.place(number)?, number))).collect();
        sorted.sort_by_key(|(range, number)| (range.start(), *number));
        let has_place: BTreeSet<u32> = sorted.iter().map(|(_, number)| *number).collect();
        // What has no place yet goes behind the member with the next lower number.
        let mut behind = BTreeMap::<Option<u32>, Vec<(u32, &Member)>>::new();
        let mut appended = Vec::new();
        for (number, file) in files {
            let Some(file) = file.and_then(|file| given.get(file)) else { continue };
            if *number >= table.count() {
                appended.push((*number, file));
            } else if !has_place.contains(number) {
                let before = has_place.range(..*number).next_back().copied();
                behind.entry(before).or_default().push((*number, file));
            }
        }
        plan.insert(behind.get(&None).into_iter().flatten())?;
        let mut cursor = table.first();
        for (at, (range, number)) in sorted.iter().enumerate() {
            let later = sorted.get(at.saturating_add(1)..).unwrap_or_default();
            let next = later.iter().find(|(range, _)| !range.is_empty()).map(|(range, _)| range.start());
            // One without bytes may be anywhere.
            let is_within = range.start() < cursor;
            let range = if is_within { ByteRange::at(cursor, 0).unwrap_or_default() } else { *range };
            plan.keep(cursor, range.start());
            let slot = Slot::new(range, next.unwrap_or(limit).max(range.end()), table.is_end(next, limit));
            match files.get(number).map(|file| file.and_then(|file| given.get(file))) {
                None => {
                    let place =
                        ByteRange::at(plan.end, range.len()).filter(|_| !is_within || plan.end != cursor);
                    let place = place.or_else(|| table.place(*number));
                    plan.put(*number, place.unwrap_or_default())?;
                    plan.keep(slot.range.start(), slot.end);
                }
                Some(None) => {}
                Some(Some(file)) => plan.new_member(*number, file, slot.len_for(file.len))?,
            }
            cursor = slot.end;
            plan.insert(behind.get(&Some(*number)).into_iter().flatten())?;
        }
        plan.keep(cursor, limit);
        plan.insert(appended.iter())?;
        Ok(plan)
    }

    /// A part that stays.
    fn keep(&mut self, from: u64, to: u64) {
        if let Some(range) = ByteRange::new(from, to).filter(|range| !range.is_empty()) {
            self.steps.push(Step::Keep(range));
            self.end = self.end.saturating_add(range.len());
        }
    }

    /// A member in a slot of this length.
    fn new_member(&mut self, number: u32, file: &Member, slot_len: u64) -> Result<()> {
        let place = ByteRange::at(self.end, file.len).unwrap_or_default();
        self.put(number, place)?;
        self.steps.push(Step::New(number, file.len));
        self.steps.push(Step::Fill(slot_len.saturating_sub(file.len)));
        self.end = self.end.saturating_add(slot_len);
        Ok(())
    }

    /// Members between others: what follows them is as far from a multiple of the alignment as it
    /// was.
    fn insert<'m>(&mut self, files: impl Iterator<Item = &'m (u32, &'m Member)>) -> Result<()> {
        let from = self.end;
        let before = aligned(from).saturating_sub(from);
        let mut is_any = false;
        for (number, file) in files {
            if !is_any {
                self.steps.push(Step::Fill(before));
                self.end = self.end.saturating_add(before);
            }
            is_any = true;
            self.new_member(*number, file, aligned(file.len))?;
        }
        if is_any && before > 0 {
            let after = ALIGNMENT.saturating_sub(before);
            self.steps.push(Step::Fill(after));
            self.end = self.end.saturating_add(after);
        }
        Ok(())
    }

    fn put(&mut self, number: u32, place: ByteRange) -> Result<()> {
        let place = in_afs(place).ok_or_else(|| {
            let key = format!("{number:05}");
            change(key.as_bytes(), "this member would be beyond the 4 GiB of an AFS")
        })?;
        self.places.insert(number, place);
        Ok(())
    }
}

impl AfsTable {
    /// Whether nothing follows a member that has no next one.
    fn is_end(&self, next: Option<u64>, limit: u64) -> bool {
        next.is_none() && limit == self.table.file_len()
    }
}

#[derive(Debug)]
struct PatchedAfs {
    archive: Arc<dyn Source>,
    members: Arc<Members>,
}

impl Parts for PatchedAfs {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        if number == ARCHIVE { Ok(self.archive.clone()) } else { self.members.open(number) }
    }

    fn virtual_body(&self, number: u32) -> Option<VirtualFile> {
        self.members.virtual_file(number).cloned()
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}
