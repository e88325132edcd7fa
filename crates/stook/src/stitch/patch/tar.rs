//! A tar that is patched: every header and body that stays is where and what it was.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::super::bodies::Bodies;
use super::super::error::{Error, Result};
use super::super::file::{Parts, VirtualFile, no_part};
use super::super::layout::Laid;
use super::super::members::{Member, Members};
use super::super::merged::MadeBy;
use super::super::pieces::Pieces;
use super::super::tar::Tar;
use super::changes::{AsKnown, Fate, Known, changes};
use super::window::Window;
use super::{ARCHIVE, Job, MEMBERS_PER_LOOK, News, change, damaged, damaged_at};
use crate::error;
use crate::extent::ByteRange;
use crate::format::tar::header::{BLOCK_LEN, Block, Header, decode, padding_len};
use crate::format::tar::pax::Pax;
use crate::format::tar::write::Head;
use crate::format::tar::{Extended, Member as Described};
use crate::format::{Fault, MemberKind, key_of};
use crate::source::Source;
use crate::tree::{Kind, Node};

/// Extended headers before one member.
const EXTENDED_MAX: usize = 32;

/// The members of a tar, one after another.
#[derive(Debug)]
pub(super) struct TarTable {
    members: Vec<TarPlace>,
    /// Where the blocks of zeroes at the end begin.
    end: u64,
    /// The first header for all that follow which says something of them.
    global_at: Option<u64>,
}

/// A member: what it is, and where.
#[derive(Debug)]
struct TarPlace {
    key: Box<[u8]>,
    /// Its path as it is written there, if that is another.
    name: Option<Box<[u8]>>,
    kind: MemberKind,
    len: u64,
    /// What a hard link leads to.
    link: Box<[u8]>,
    /// Its first header, its bytes, and the end of what fills up the last block of them.
    at: u64,
    data_at: u64,
    end: u64,
    /// Whether its bytes are only those that are no holes.
    is_sparse: bool,
    mode: Option<u32>,
    owner: Option<(u32, u32)>,
    /// Headers among its own which hold for all members that follow.
    globals: Box<[ByteRange]>,
}

impl AsKnown for TarPlace {
    fn as_known(&self) -> Known<'_> {
        let link = (self.kind == MemberKind::HardLink).then_some(&*self.link);
        Known { key: &self.key, kind: self.kind, link }
    }
}

/// What stood in the extended headers before one member.
#[derive(Debug, Default)]
struct Before {
    globals: Vec<ByteRange>,
    count: usize,
}

impl TarTable {
    /// Reads all headers.
    pub(super) fn read(window: &mut Window<'_>, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Self> {
        let mut table = Self { members: Vec::new(), end: 0, global_at: None };
        let mut extended = Extended::default();
        loop {
            let count = table.members.len() as u64;
            if count.is_multiple_of(MEMBERS_PER_LOOK) && !go_on(count) {
                return Err(Error::Interrupted);
            }
            extended.begin();
            let Some(place) = table.next(window, &mut extended)? else { return Ok(table) };
            table.end = place.end;
            table.members.push(place);
        }
    }

    /// The member after those so far.
    fn next(&mut self, window: &mut Window<'_>, extended: &mut Extended) -> Result<Option<TarPlace>> {
        let source = window.source();
        let (mut at, mut before) = (self.end, Before::default());
        loop {
            let block = block(window, at)?;
            let wrong = |what: &str| damaged(source, Fault::damaged(at, what));
            let header = match decode(&block).map_err(|fault| damaged_at(source, at, fault))? {
                Block::Header(header) => header,
                Block::Zero if before.count == 0 => return Ok(None),
                Block::Zero => return Err(wrong("an extended header is followed by no header")),
            };
            if before.count == EXTENDED_MAX {
                return Err(wrong("there are too many extended headers before one member"));
            }
            before.count = before.count.saturating_add(1);
            let Some(most) = Extended::len_max(header.type_flag) else {
                return self.member(window, extended, (at, &block, header), before).map(Some);
            };
            if header.size > most {
                let what = format!("an extended header has {} bytes; at most {most} are taken", header.size);
                return Err(wrong(&what));
            }
            let body_at = at.saturating_add(BLOCK_LEN as u64);
            let body = window.get(body_at, header.size, "an extended header")?;
            let wrong_body = |fault| damaged_at(source, body_at, fault);
            extended.take(header.type_flag, &body).map_err(wrong_body)?;
            let end = body_at.saturating_add(header.size).saturating_add(padding_len(header.size));
            if header.type_flag == b'g' {
                let mut said = Pax::default();
                said.take(&body).map_err(wrong_body)?;
                if said != Pax::default() {
                    self.global_at = self.global_at.or(Some(at));
                }
                before.globals.extend(ByteRange::new(at, end));
            }
            at = end;
        }
    }

    fn member(
        &self,
        window: &mut Window<'_>,
        extended: &mut Extended,
        (at, block_there, header): (u64, &[u8; BLOCK_LEN], Header),
        before: Before,
    ) -> Result<TarPlace> {
        let source = window.source();
        let wrong = |fault| damaged_at(source, at, fault);
        let mut member = extended.member(header, block_there).map_err(wrong)?;
        let (mut data_at, mut stored) = (at.saturating_add(BLOCK_LEN as u64), member.stored_len);
        let mut len = stored;
        let is_sparse = member.sparse.is_some();
        if let Some(mut map) = member.sparse.take() {
            while map.goes_on() {
                let taken = map.take(&block(window, data_at)?);
                stored = stored.saturating_sub(taken.map_err(|fault| damaged_at(source, data_at, fault))?);
                data_at = data_at.saturating_add(BLOCK_LEN as u64);
            }
            len = map.member_len();
        }
        let end = data_at.checked_add(stored).filter(|end| *end <= source.len()).ok_or_else(|| {
            let total = source.len();
            let what =
                format!("a member of {stored} bytes reaches past the end of the archive ({total} bytes)");
            wrong(Fault::damaged(0, what))
        })?;
        let key = |name: &[u8]| key_of(name).map_err(|what| wrong(Fault::damaged(0, what)));
        let Described { name, kind, mode, owner, .. } = member;
        let (own, link) =
            (key(&name)?, if kind == MemberKind::HardLink { key(&member.link)? } else { vec![] });
        let name = if own == name { None } else { Some(name.into()) };
        Ok(TarPlace {
            key: own.into(),
            name,
            kind,
            len: if kind == MemberKind::File { len } else { 0 },
            link: link.into(),
            at: self.end,
            data_at,
            end: end.saturating_add(padding_len(stored)),
            is_sparse,
            mode,
            owner,
            globals: before.globals.into(),
        })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(|place| &*place.key)
    }

    /// Where the bytes of a member lie; `None` if it is no file.
    ///
    /// # Errors
    /// They are not there one after another.
    pub(super) fn body(&self, number: usize) -> Result<Option<ByteRange>> {
        let Some(place) = self.members.get(number).filter(|place| place.kind == MemberKind::File) else {
            return Ok(None);
        };
        if place.is_sparse {
            return Err(change(&place.key, "it has holes in the archive, so nothing in it can be changed"));
        }
        Ok(ByteRange::at(place.data_at, place.len))
    }

    /// What is said of a member, but for its time.
    pub(super) fn node(&self, number: usize) -> Node {
        let place = self.members.get(number);
        let (mode, owner) = (place.and_then(|place| place.mode), place.and_then(|place| place.owner));
        Node { mode, owner, ..Node::new(Kind::File) }
    }

    /// Lays it out with what was given.
    pub(super) fn lay_out(&self, path: PathBuf, job: Job<'_>) -> Result<Laid> {
        let Job { archive, case, given, mut members } = job;
        let changes = changes(&self.members, &given, case)?;
        members.set_changed(changes.count());
        let mut laying =
            TarLaying { news: News::default(), pieces: Pieces::new(), all: vec![], starts: vec![] };
        let (mut cursor, end) = (0, archive.len());
        let kept =
            |pieces: &mut Pieces, from: u64, to: u64| pieces.body(ARCHIVE, from, to.saturating_sub(from));
        for (place, fate) in self.members.iter().zip(&changes.fates) {
            if *fate == Fate::Kept {
                let before = place.data_at.saturating_sub(cursor);
                laying.starts.push(laying.pieces.len().saturating_add(before));
                laying.all.push(Member::kept(&place.key, place.kind, place.len));
                continue;
            }
            kept(&mut laying.pieces, cursor, place.at);
            for global in &place.globals {
                kept(&mut laying.pieces, global.start(), global.end());
            }
            cursor = place.end;
            if let Fate::Replaced(file) = fate
                && let Some(file) = given.get(*file)
            {
                self.check_global(archive, place.data_at, &file.key)?;
                laying.new_member(file.with_key(&place.key), place.name.as_deref())?;
            }
        }
        kept(&mut laying.pieces, cursor, self.end.min(end));
        for file in changes.added.iter().filter_map(|at| given.get(*at)) {
            self.check_global(archive, end, &file.key)?;
            laying.new_member(file.clone(), None)?;
        }
        kept(&mut laying.pieces, self.end.min(end), end);
        let TarLaying { news, pieces, all, starts } = laying;
        members.put(all);
        members.count()?;
        let members = Arc::new(members);
        let parts = PatchedTar { archive: archive.clone(), members: members.clone(), news };
        let file = VirtualFile::new(path, pieces, Arc::new(parts))?;
        Ok(Laid { file, members, starts: starts.into() })
    }

    /// Refuses a new header behind one that says something of all that follow it: it would be true
    /// of a file of which it was not said.
    fn check_global(&self, archive: &Arc<dyn Source>, at: u64, key: &[u8]) -> Result<()> {
        let Some(global) = self.global_at.filter(|global| *global < at) else { return Ok(()) };
        let what = format!(
            "an extended header says something of all members that follow it, and would of {}, too",
            crate::names::escaped(key)
        );
        Err(damaged(&**archive, Fault::unsupported(global, what)))
    }
}

fn block(window: &mut Window<'_>, at: u64) -> Result<[u8; BLOCK_LEN]> {
    let what = "the archive was cut off: a header, or the zeroes at its end,";
    let bytes = window.get(at, BLOCK_LEN as u64, what)?;
    Ok(bytes.first_chunk().copied().unwrap_or([0; BLOCK_LEN]))
}

/// What becomes of a tar.
struct TarLaying {
    news: News,
    pieces: Pieces,
    all: Vec<Member>,
    starts: Vec<u64>,
}

impl TarLaying {
    /// A member that comes from a tree, with the path that it has in the archive.
    fn new_member(&mut self, mut member: Member, name: Option<&[u8]>) -> Result<()> {
        let number = u32::try_from(self.all.len()).map_err(|_| Error::TooLong { pieces: self.all.len() })?;
        member.kind = MemberKind::File;
        if let Some(name) = name {
            // The slash of a file that is named like a directory.
            let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last.saturating_add(1));
            self.news.names.insert(number, name.get(..end).unwrap_or_default().into());
        }
        let head = head(&self.news, number, &member).encoded_len();
        self.pieces.made(number, head as u64);
        self.starts.push(self.pieces.len());
        self.pieces.whole_body(number, member.len);
        self.pieces.fill(0, padding_len(member.len));
        self.all.push(member);
        Ok(())
    }
}

fn head<'a>(news: &'a News, number: u32, member: &'a Member) -> Head<'a> {
    Head { key: news.name(number, member), ..Tar::default().head(member) }
}

#[derive(Debug)]
struct PatchedTar {
    archive: Arc<dyn Source>,
    members: Arc<Members>,
    news: News,
}

impl Parts for PatchedTar {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        if number == ARCHIVE { Ok(self.archive.clone()) } else { self.members.open(number) }
    }

    fn virtual_body(&self, number: u32) -> Option<VirtualFile> {
        self.members.virtual_file(number).cloned()
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        let member = self.members.all().get(number as usize).ok_or_else(|| no_part(number))?;
        Ok(head(&self.news, number, member).encode().into())
    }

    fn made_by(&self) -> Option<MadeBy> {
        Some(self.news.made_by("patched tar", &self.members))
    }
}
