//! Goes through archives and puts what is new or changed.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::members::{self, kind, kind_of};
use super::put::{Body, Meter, Record, There, put};
use super::seen::SeenKeys;
use super::{Error, Import, Imported, Result, STREAM, Source};
use crate::archive::{self, Archive, Member, MemberKind, Piece, Reading, TarStream};
use crate::error::chain;
use crate::ops::contents::cut_off_note;
use crate::pack::format::attributes::{HOLES, KIND, NAMES as HARD_LINKS, Name, Value, XATTRS};
use crate::pack::tree::{Failure, PackSummary, add_own_attributes, has_content, refusal};
use crate::pack::{self, Attributes, FileKind, Key, LinkTarget, Pack, PackWriter};
use crate::tree::Xattrs;
use crate::walk::Kind;

/// Members looked up in one batch.
const BATCH: usize = 4096;

/// A member that has to be read, and the attributes of its record.
struct Changed<'m> {
    member: Member<'m>,
    attributes: Attributes,
    there: There,
}

/// An import that is under way.
pub(super) struct Importing<'i, 'a> {
    import: &'i Import<'a>,
    meter: Meter<'i, 'a>,
    writer: Option<&'i mut PackWriter>,
    before: Option<&'i Pack>,
    summary: PackSummary,
    /// Keys of records that this run replaced.
    replaced: BTreeSet<Vec<u8>>,
    /// Keys of members of this archive that are not in the pack. What the pack has under them is
    /// another file.
    failed: BTreeSet<Vec<u8>>,
    /// Keys of members of a stream that came before.
    seen: SeenKeys,
    left_out: Vec<Vec<u8>>,
    /// Whether the members of the last stream are all that an incomplete pack has.
    has_all: bool,
}

impl<'i, 'a> Importing<'i, 'a> {
    pub(super) fn new(
        import: &'i Import<'a>,
        writer: Option<&'i mut PackWriter>,
        before: Option<&'i Pack>,
    ) -> Self {
        Self {
            import,
            meter: Meter::new(import),
            writer,
            before,
            summary: PackSummary::default(),
            replaced: BTreeSet::new(),
            failed: BTreeSet::new(),
            seen: SeenKeys::default(),
            left_out: Vec::new(),
            has_all: false,
        }
    }

    /// Imports all members of one source, but for those that a later one has, too.
    pub(super) fn source(&mut self, source: Source<'_>, later: &VecDeque<Source<'_>>) -> Result<()> {
        // Names of files are of one archive.
        self.failed.clear();
        self.seen.clear();
        match source {
            Source::Archive(archive) => {
                let done = self.archive(archive.path(), &archive, later);
                self.keep_whole(archive.path().as_os_str().as_bytes(), done)
            }
            Source::Stream(open) => {
                let opened = open().map_err(Error::from);
                let done = opened.and_then(|tar| self.stream(tar));
                self.keep_whole(STREAM.as_bytes(), done)
            }
        }
    }

    pub(super) fn end(self) -> Imported {
        // What the last member added is reported, too.
        self.meter.is_stopped();
        Imported { summary: self.summary, left_out: self.left_out, has_all: self.has_all }
    }
}

impl Importing<'_, '_> {
    fn is_stopped(&self) -> bool {
        self.meter.is_stopped()
    }

    fn is_taken(&self, key: &[u8], kind: MemberKind) -> bool {
        let kind = if kind == MemberKind::Directory { Kind::Directory } else { Kind::File };
        key.is_empty() || (self.import.takes)(key, kind)
    }

    fn archive(&mut self, path: &Path, archive: &Archive, later: &VecDeque<Source<'_>>) -> Result<()> {
        let is_taken = |key: &[u8]| {
            let found = archive.find(key).filter(|found| self.is_taken(key, found.kind()));
            found.is_some_and(|found| !comes_again(&found, later))
        };
        let mut members: Vec<Member<'_>> = archive.selection(is_taken);
        members.sort_by_key(|member| member.header_at);
        // What is read from its front is read once.
        let mut pass = match archive.is_sequential() {
            true => Some(read(archive, members.iter())?),
            false => None,
        };
        for batch in members.chunks(BATCH) {
            let wanted = self.changed(archive, batch)?;
            if self.summary.interrupted {
                return Ok(());
            }
            let mut own = None;
            let reading = match &mut pass {
                Some(pass) => pass,
                None => own.insert(read(archive, wanted.iter().map(|wanted| &wanted.member))?),
            };
            for wanted in wanted {
                if self.is_stopped() {
                    self.summary.interrupted = true;
                    return Ok(());
                }
                self.member(wanted, reading)?;
                if self.summary.interrupted {
                    return Ok(());
                }
            }
        }
        if let Some(pass) = &mut pass {
            self.verify(pass, path)?;
        }
        if let Some(why) = cut_off_note(archive).filter(|_| !self.summary.interrupted) {
            self.fail_end(path.as_os_str().as_bytes(), why);
        }
        Ok(archive.check_unchanged()?)
    }

    /// Reads on to the checksum after all members.
    fn verify(&mut self, reading: &mut Reading<'_>, path: &Path) -> Result<()> {
        loop {
            if self.is_stopped() {
                self.summary.interrupted = true;
                return Ok(());
            }
            match reading.verify() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.fail(path.as_os_str().as_bytes(), of_member(error.into())?);
                    return Ok(());
                }
            }
        }
    }

    /// The members that are not certain to be in the pack as they are.
    fn changed<'m>(&mut self, archive: &Archive, batch: &[Member<'m>]) -> Result<Vec<Changed<'m>>> {
        let (mut members, mut records) = (Vec::new(), Vec::new());
        for member in batch {
            if self.summary.interrupted {
                break;
            }
            let attributes = attributes(archive, member, self.import);
            let Some(attributes) = self.with_own(member.key, attributes) else { continue };
            members.push(*member);
            records.push((member.key, attributes, body_len(member)));
        }
        let there = self.there(&records)?;
        let mut changed = Vec::new();
        for ((member, (_, attributes, _)), there) in members.into_iter().zip(records).zip(there) {
            // A checksum vouches for the bytes of a zip; the body of a directory is empty.
            let is_vouched_for =
                member.crc32.is_some() && member.kind() == MemberKind::File && !self.import.checksum
                    || member.kind() == MemberKind::Directory;
            match there {
                There::Alike if is_vouched_for => {
                    self.summary.unchanged += 1;
                    self.meter.add_member();
                }
                there => changed.push(Changed { member, attributes, there }),
            }
        }
        Ok(changed)
    }

    /// With what the caller adds to the attributes of a member; none where the caller failed, which
    /// ends importing, or these cannot be, which is a failure of the member.
    fn with_own(&mut self, key: &[u8], mut attributes: Attributes) -> Option<Attributes> {
        let Some(own) = &self.import.attributes else { return Some(attributes) };
        let Some(own) = own(key) else {
            self.summary.interrupted = true;
            return None;
        };
        match add_own_attributes(own, &mut attributes) {
            Ok(()) => Some(attributes),
            Err(error) => {
                self.fail(key, error);
                None
            }
        }
    }

    /// What the pack holds under these keys, compared with attributes and lengths of members.
    fn there(&self, records: &[(&[u8], Attributes, u64)]) -> Result<Vec<There>> {
        let Some(before) = self.before else { return Ok(vec![There::Nothing; records.len()]) };
        let keys: Vec<Key> =
            records.iter().map(|(key, ..)| Key::bytes(*key)).collect::<Result<_, pack::Error>>()?;
        let located = before.locate(&keys)?;
        // What damage hides is packed again.
        let log = before.damage_log();
        let located = located.into_iter().map(|entry| Ok(log.unless_damaged(entry)?.flatten()));
        let located: Vec<_> = located.collect::<Result<_, pack::Error>>()?;
        let entries: Vec<_> = located.iter().flatten().cloned().collect();
        let mut heads = before.heads(&entries)?.into_iter();
        let mut all = Vec::with_capacity(records.len());
        for ((key, attributes, len), entry) in records.iter().zip(&located) {
            let head = entry.as_ref().and_then(|_| heads.next()).transpose();
            let head = log.unless_damaged(head)?.flatten();
            // What this run put is not what was there.
            all.push(match head {
                _ if self.replaced.contains(*key) => There::Other,
                Some(head)
                    if is_alike(&head.attributes, attributes, self.import.xattrs)
                        && head.body_len == Some(*len) =>
                {
                    There::Alike
                }
                Some(head) if self.import.keeps_moved && has_content(head.attributes.file_kind()) => {
                    There::Kept
                }
                Some(_) => There::Other,
                None => There::Nothing,
            });
        }
        Ok(all)
    }

    fn member(&mut self, changed: Changed<'_>, reading: &mut Reading<'_>) -> Result<()> {
        let Changed { member, attributes, there } = changed;
        let len = body_len(&member);
        let record = |kind| Record { key: member.key, kind, attributes, len, there, first: None };
        if is_name(&member) {
            let mut given = false;
            let record = Record { first: Some(member.link), ..record(FileKind::HardLink) };
            return self.put(&record, &mut |take| {
                if !std::mem::replace(&mut given, true) {
                    take(Piece::Bytes(member.link))?;
                    return Ok(true);
                }
                Ok(false)
            });
        }
        // What is unchanged is passed over.
        while reading.next()?.is_some_and(|next| next.number != member.number) {}
        let Some(kind) = kind(&member) else {
            self.leave_out(member.key, member.node.len);
            return Ok(());
        };
        if self.writer.is_none() && kind == FileKind::HardLink {
            // It leads to no member: its body, which is not read to be counted, shows that.
            if let Err(error) = reading.piece() {
                self.fail(member.key, of_member(error.into())?);
                return Ok(());
            }
        }
        self.put(&record(kind), &mut |take| match reading.piece()? {
            Some(piece) => take(piece).map(|()| true),
            None => Ok(false),
        })
    }

    /// Damage that ends a source costs what follows it: what came whole is packed. Waiting for what
    /// comes next ends when the caller wants that.
    fn keep_whole(&mut self, name: &[u8], done: Result<()>) -> Result<()> {
        match done {
            Err(_) if self.is_stopped() => self.summary.interrupted = true,
            Err(Error::Archive(archive::Error::Damaged { offset, what, .. })) => {
                self.fail_end(name, format!("it is damaged at offset {offset}: {what}"));
            }
            done => return done,
        }
        Ok(())
    }

    /// A tar from a stream: members come as they are, and later ones take the place of earlier
    /// ones.
    fn stream(&mut self, mut tar: TarStream) -> Result<()> {
        loop {
            // What is passed over of a member may be as long as one that is packed.
            while !self.is_stopped() && tar.piece()?.is_some() {}
            if self.is_stopped() || self.summary.interrupted {
                self.summary.interrupted = true;
                return Ok(());
            }
            let Some(entry) = tar.next()? else { break };
            if !self.is_taken(&entry.key, entry.kind()) {
                continue;
            }
            if let Some(why) = entry.refusal() {
                self.fail(&entry.key, pack::Error::Invalid(why));
                continue;
            }
            let Some(kind) = kind_of(&entry.node, entry.is_hard_link) else {
                self.leave_out(&entry.key, entry.node.len);
                continue;
            };
            // What the pack may have under that key is another file.
            let is_there = self.seen.has(&entry.link);
            self.seen.add(&entry.key);
            if kind == FileKind::HardLink && !(is_there && self.is_taken(&entry.link, MemberKind::File)) {
                self.fail_name(&entry.key, &entry.link);
                continue;
            }
            let none = Xattrs::default();
            let xattrs = if self.import.xattrs { &entry.xattrs } else { &none };
            let attributes = members::attributes(
                (&entry.node, entry.is_hard_link),
                (xattrs, &entry.holes()),
                self.import.with_owner,
            );
            let Some(attributes) = self.with_own(&entry.key, attributes) else { continue };
            let is_link = matches!(kind, FileKind::Symlink | FileKind::HardLink);
            let len = if is_link { entry.link.len() as u64 } else { entry.node.len };
            let there = self.there(&[(&entry.key, attributes.clone(), len)])?;
            let there = there.first().copied().unwrap_or(There::Nothing);
            let record = Record { key: &entry.key, kind, attributes, len, there, first: Some(&entry.link) };
            let mut link = is_link.then_some(entry.link.as_slice());
            self.put(&record, &mut |take| {
                if is_link {
                    return link.take().map_or(Ok(false), |link| take(Piece::Bytes(link)).map(|()| true));
                }
                match tar.piece()? {
                    Some(piece) => take(piece).map(|()| true),
                    None => Ok(false),
                }
            })?;
        }
        if !tar.has_end() {
            let why = "the tar does not end as a tar does; something was cut off";
            self.fail_end(STREAM.as_bytes(), why.into());
        }
        self.has_all = self.has_met_all()?;
        Ok(())
    }

    /// Whether every record of an incomplete pack is of a member of this stream.
    fn has_met_all(&self) -> Result<bool> {
        let Some(before) = self.before.filter(|before| !before.is_complete()) else { return Ok(false) };
        let log = before.damage_log();
        for entry in before.keys(&[])? {
            let Some(entry) = log.unless_damaged(entry)? else { return Ok(false) };
            if !entry.key.as_bytes().is_some_and(|key| self.seen.has(key)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes that an archive, which may come through a file or a stream, has no end: its last
    /// members may be missing, so the pack must not count as complete.
    fn fail_end(&mut self, name: &[u8], why: String) {
        self.summary.failures.push(Failure { key: name.to_vec(), error: pack::Error::Invalid(why) });
    }

    /// Notes a member that is not packed, and whose hard links are not either.
    fn fail(&mut self, key: &[u8], error: pack::Error) {
        self.failed.insert(key.to_vec());
        self.summary.failures.push(Failure { key: key.to_vec(), error });
    }

    /// Notes what packs do not hold. Where it has bytes, these are missed.
    fn leave_out(&mut self, key: &[u8], len: u64) {
        if len > 0 {
            let what = format!(
                "only the program that made it knows what this member is; its {len} bytes are not packed"
            );
            return self.fail(key, pack::Error::Invalid(what));
        }
        self.failed.insert(key.to_vec());
        self.left_out.push(key.to_vec());
    }

    /// Notes a hard link to a file that is not packed.
    fn fail_name(&mut self, key: &[u8], first: &[u8]) {
        let first = first.escape_ascii();
        let error =
            pack::Error::Invalid(format!("it is a hard link to {first}, which was not packed before it"));
        self.fail(key, error);
    }

    /// Puts a hard link whose file is there under another key, or as a symbolic link, as what it
    /// is; reports one without a file. Whether that was all there is to do.
    fn puts_name(&mut self, record: &Record<'_>) -> Result<bool> {
        let (FileKind::HardLink, Some(first)) = (record.kind, record.first) else { return Ok(false) };
        let leads_to = match &mut self.writer {
            _ if self.failed.contains(first) => LinkTarget::Nothing,
            Some(writer) => writer.mark_hard_links(&Key::bytes(first)?)?,
            None => return Ok(false),
        };
        match leads_to {
            // The name leads back to what has this one: that stays what it is.
            LinkTarget::File(key) if key.as_bytes() == Some(record.key) => self.summary.unchanged += 1,
            LinkTarget::File(key) if key.as_bytes() == Some(first) => return Ok(false),
            LinkTarget::File(key) => {
                self.put_link(record, FileKind::HardLink, key.as_bytes().unwrap_or_default())?;
            }
            LinkTarget::Symlink(target) => self.put_link(record, FileKind::Symlink, &target)?,
            LinkTarget::Nothing => self.fail_name(record.key, first),
        }
        Ok(true)
    }

    /// Puts a link that leads elsewhere than the archive says, because of what is there.
    fn put_link(&mut self, record: &Record<'_>, kind: FileKind, target: &[u8]) -> Result<()> {
        let mut attributes = record.attributes.clone();
        attributes.set(Name::Id(KIND), Value::U8(kind.code()));
        let len = target.len() as u64;
        let there = self.there(&[(record.key, attributes.clone(), len)])?;
        let there = there.first().copied().unwrap_or(There::Nothing);
        let first = (kind == FileKind::HardLink).then_some(target);
        let mut left = Some(target);
        let record = Record { key: record.key, kind, attributes, len, there, first };
        self.put(&record, &mut |take| {
            left.take().map_or(Ok(false), |target| take(Piece::Bytes(target)).map(|()| true))
        })
    }

    /// Puts a record, unless the pack holds the same. What is wrong with its bytes is a failure of
    /// it alone.
    fn put(&mut self, record: &Record<'_>, body: &mut Body<'_>) -> Result<()> {
        if record.there == There::Kept {
            self.fail(record.key, refusal());
            return Ok(());
        }
        // The file of a hard link has to be there before it.
        if self.puts_name(record)? {
            return Ok(());
        }
        // Of members with one key the last counts.
        self.failed.remove(record.key);
        // When its file was replaced, the name got what that had held.
        let is_moved = record.first.is_some_and(|first| self.replaced.contains(first));
        let same = match (self.before, record.there) {
            _ if is_moved => None,
            (Some(before), There::Alike) => before.compare(&Key::bytes(record.key)?)?,
            _ => None,
        };
        self.meter.add_member();
        // What differs is not written, where it does not take the place of what is there.
        let keeps = self.import.keeps_moved && same.is_some() && has_content(Some(record.kind));
        let writer = self.writer.as_deref_mut().filter(|_| !keeps);
        match put(writer, self.import.group, record, same, body, &self.meter) {
            Ok(true) if keeps => {
                self.fail(record.key, refusal());
                return Ok(());
            }
            Ok(true) => {}
            Ok(false) => {
                self.summary.unchanged += 1;
                return Ok(());
            }
            Err(Error::Interrupted) => {
                self.summary.interrupted = true;
                return Ok(());
            }
            // A wait for its bytes was ended, and nothing is wrong with them.
            Err(_) if self.is_stopped() => {
                self.summary.interrupted = true;
                return Ok(());
            }
            Err(error) => {
                self.fail(record.key, of_member(error)?);
                return Ok(());
            }
        }
        let replaces = record.there != There::Nothing;
        if replaces {
            self.replaced.insert(record.key.to_vec());
        }
        let xattrs = record.attributes.xattrs();
        self.summary.note_put(record.key, record.kind, record.len, replaces, &xattrs);
        Ok(())
    }
}

/// Whether a later archive has the same under this key: that is what counts. Put all the same, both
/// would be written anew by every run.
fn comes_again(member: &Member<'_>, later: &VecDeque<Source<'_>>) -> bool {
    let is_same = |kind: MemberKind| match member.kind() {
        MemberKind::Directory => kind == MemberKind::Directory,
        // What a hard link leads to may be missing there.
        MemberKind::File | MemberKind::Symlink | MemberKind::HardLink => {
            matches!(kind, MemberKind::File | MemberKind::Symlink)
        }
        MemberKind::Other => false,
    };
    later.iter().any(|source| match source {
        Source::Archive(archive) => archive.find(member.key).is_some_and(|found| is_same(found.kind())),
        Source::Stream(_) => false,
    })
}

/// Reads those members of an archive that are not put as names of others.
fn read<'a, 'm>(archive: &'a Archive, members: impl Iterator<Item = &'m Member<'m>>) -> Result<Reading<'a>> {
    Ok(archive.read(members.filter(|member| !is_name(member)).map(|member| member.number).collect())?)
}

/// What is wrong with one member: its bytes, or what it says of itself (a length that no pack
/// holds). All else ends the packing.
fn of_member(error: Error) -> Result<pack::Error> {
    match error {
        Error::Pack(
            error @ (pack::Error::Limit { .. } | pack::Error::Invalid(_) | pack::Error::BodyLength { .. }),
        ) => Ok(error),
        Error::Archive(
            error @ (archive::Error::NotAnArchive { .. }
            | archive::Error::Damaged { .. }
            | archive::Error::Unsupported { .. }
            | archive::Error::Invalid(_)
            | archive::Error::Interrupted),
        ) => Ok(pack::Error::Invalid(chain(&error))),
        other => Err(other),
    }
}

/// Whether it is put as the name of another member. One that leads to none is read, which shows why
/// it cannot be.
fn is_name(member: &Member<'_>) -> bool {
    member.kind() == MemberKind::HardLink && member.has_body
}

/// Bytes of the record: of a link, its target or the key of its file.
fn body_len(member: &Member<'_>) -> u64 {
    if member.kind() == MemberKind::HardLink { member.link.len() as u64 } else { member.node.len }
}

/// Whether attributes say the same, but for how many names there are: a stream shows that when they
/// come. Extended attributes count only where they are kept; holes are how a file was stored, not
/// what it is.
fn is_alike(one: &Attributes, other: &Attributes, with_xattrs: bool) -> bool {
    let is_compared = |(name, _): &&(Name, Value)| match name {
        Name::Id(HARD_LINKS | HOLES) => false,
        Name::Id(XATTRS) => with_xattrs,
        _ => true,
    };
    one.iter().filter(is_compared).eq(other.iter().filter(is_compared))
}

/// The attributes of its record: those that packing the unpacked member would give, and the
/// checksum of a zip, which shows the next time whether its bytes are the same.
fn attributes(archive: &Archive, member: &Member<'_>, import: &Import<'_>) -> Attributes {
    let xattrs = if import.xattrs { Xattrs::decode(member.xattrs) } else { Xattrs::default() };
    let mut attributes = members::attributes(
        (&member.node, member.is_hard_link),
        (&xattrs, &archive.holes(member)),
        import.with_owner,
    );
    if let (Some(crc32), MemberKind::File) = (member.crc32, member.kind()) {
        attributes.set(Name::Text("crc32".into()), Value::U32(crc32));
    }
    attributes
}
