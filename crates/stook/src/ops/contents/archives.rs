//! The contents of an archive.

use std::path::Path;
use std::sync::Arc;

use super::Contents;
use super::error::{Error, Feature, Result, Unsupported};
use super::get::{Failure, Found, GetOptions, Getting, MEMBER, Missing, Piece};
use super::list::{BATCH, Detail, Entry, ListOptions, Listed, Listing};
use super::load::{LoadEvents, LoadOptions, LoadReport, load_archive};
use crate::archive::{self, Archive, Member, MemberKind, Origin, Reading};
use crate::error::chain;
use crate::extent::ByteRange;
use crate::ops::import::{head, kind};
use crate::pack::{Key, KeyRange, KeyValue, Stop};
use crate::report::units::count_of;
use crate::source::{Inodes, Source};

/// Members of a zip up to this length are returned after their checksum was verified, which covers
/// all of their bytes. Longer ones are returned as they are read.
const HELD_MAX: u64 = 16 << 20;

impl Contents for Archive {
    fn path(&self) -> &Path {
        self.path()
    }

    fn entry_name(&self) -> &'static str {
        MEMBER
    }

    fn is_sequential(&self) -> bool {
        self.is_sequential()
    }

    fn note_files(&self, files: &mut Inodes) {
        Archive::note_files(self, files);
    }

    fn is_complete(&self) -> bool {
        self.has_end()
    }

    fn spans(&self, _groups: &[String]) -> Vec<(Arc<dyn Source>, ByteRange)> {
        vec![(self.file(), ByteRange::to(self.file_bytes()))]
    }

    fn check_features(&self, features: &[Feature]) -> Result<(), Unsupported> {
        features.first().map_or(Ok(()), |&feature| {
            Err(Unsupported { feature, path: self.path().to_path_buf(), format: self.format() })
        })
    }

    fn check_groups(&self, groups: &[String]) -> Result<()> {
        let features = if groups.is_empty() { &[][..] } else { &[Feature::Groups] };
        Ok(self.check_features(features)?)
    }

    fn list<'a>(&'a self, options: &'a ListOptions) -> Result<Listing<'a>> {
        self.check_features(&options.features())?;
        // Without a first key there are no members: numbers follow all byte strings.
        let members = first_key(&options.keys).into_iter().flat_map(|first| self.members_from(first));
        let members = members.map(|member| Ok((Key::bytes(member.key)?, member)));
        let is_before_end = |member: &Result<(Key, Member<'_>)>| {
            member.as_ref().map_or(true, |(key, _)| !options.keys.is_past(key.sort_form()))
        };
        let mut entries = members.take_while(is_before_end).filter_map(|member| {
            let member = options.stop.check().map_err(Error::from).and(member);
            member.map(|(key, member)| entry_of(key, &member, options)).transpose()
        });
        let mut ended = false;
        Ok(Box::new(std::iter::from_fn(move || {
            let batch: Result<Vec<_>> = entries.by_ref().take(if ended { 0 } else { BATCH }).collect();
            ended |= batch.is_err();
            batch.map(|batch| (!batch.is_empty()).then_some(batch)).transpose()
        })))
    }

    fn get<'a>(&'a self, keys: &'a [Key], options: &'a GetOptions) -> Result<Box<dyn Getting<'a> + 'a>> {
        self.check_groups(&options.groups)?;
        let find = |key: &'a Key| match key.value() {
            KeyValue::Bytes(bytes) => (key, self.find(bytes)),
            KeyValue::Id(_) => (key, None),
        };
        let mut found: Vec<(&Key, Option<Member<'_>>)> = keys.iter().map(find).collect();
        // In the order of the archive one pass is enough for all, and neighbours are one request.
        if options.any_order && (self.is_sequential() || self.reads_by_request()) {
            found.sort_by_key(|(_, member)| member.map(|member| member.data_at));
        }
        let members = found.iter().filter_map(|(_, member)| *member);
        let needed_bytes = members.map(|member| member.kept_bytes()).fold(0, u64::saturating_add);
        let numbers = found.iter().filter_map(|(_, member)| member.map(|member| member.number)).collect();
        let reading = self.read(numbers)?;
        Ok(Box::new(ArchiveGetting {
            archive: self,
            found: found.into_iter(),
            reading,
            hold: Hold::Nothing,
            held: Vec::new(),
            stop: options.stop,
            needed_bytes,
        }))
    }

    fn load(&self, options: &LoadOptions, events: &dyn LoadEvents) -> Result<LoadReport> {
        self.check_features(&options.features())?;
        load_archive(self, options, events)
    }
}

/// The files of an archive in the order in which they lie in it, each with its hard links: all are
/// read in one pass.
///
/// # Errors
/// A key that no pack could have.
pub(super) fn files_in_order(archive: &Archive) -> Result<Vec<(Key, Vec<Key>)>> {
    let is_link = |member: &Member<'_>| member.kind() == MemberKind::HardLink;
    let is_file = |member: &Member<'_>| member.kind() == MemberKind::File || is_link(member);
    let mut members: Vec<_> = archive.members(b"").filter(is_file).collect();
    members.sort_by_key(|member| (member.data_at, is_link(member)));
    let (mut files, mut before): (Vec<(Key, Vec<Key>)>, _) = (Vec::new(), None);
    for member in members {
        let key = Key::bytes(member.key)?;
        let is_further = is_link(&member) && before == Some(member.data_at);
        match files.last_mut().filter(|_| is_further) {
            Some((_, names)) => names.push(key),
            None => files.push((key, Vec::new())),
        }
        before = Some(member.data_at);
    }
    Ok(files)
}

/// What opening an archive found of the index beside it, as sentences.
pub fn index_notes(archive: &Archive) -> Vec<String> {
    // If there is no place for an index, there is nothing to note.
    let (Origin::Made { useless, not_kept }, Some(index)) = (archive.origin(), archive.index_path()) else {
        return Vec::new();
    };
    let rebuilt = useless.as_ref().map(|why| format!("Rebuilt the index {}: {why}.", index.display()));
    let unkept =
        not_kept.as_ref().map(|why| format!("The index could not be kept as {}: {why}.", index.display()));
    rebuilt.into_iter().chain(unkept).collect()
}

/// What may be missing in an archive, if it is damaged or does not end as its format wants it.
pub fn cut_off_note(archive: &Archive) -> Option<String> {
    if let Some(damage) = archive.damage() {
        let members = count_of(archive.len(), "member", "members");
        return Some(format!("{}; only what is before that is read: {members}", chain(damage)));
    }
    (!archive.has_end()).then(|| {
        let path = archive.path().display();
        format!("{path} does not end as a tar does; something may have been cut off")
    })
}

/// Members of an archive by kind, and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberCounts {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Hard links to files.
    pub hard_links: u64,
    /// Pipes, devices, and what only the program knows that made the archive.
    pub other: u64,
    /// Sparse ones among these: not every byte is stored.
    pub sparse: u64,
    /// Bytes of all bodies; hard links to a file count once.
    pub body_bytes: u64,
    /// Bytes that these take in the archive.
    pub stored_bytes: u64,
}

impl MemberCounts {
    /// The counts of an archive, of each key the last member.
    pub fn of(archive: &Archive) -> Self {
        let mut counts = Self::default();
        for member in archive.members(b"") {
            *match member.kind() {
                MemberKind::File => &mut counts.files,
                MemberKind::Directory => &mut counts.directories,
                MemberKind::Symlink => &mut counts.symlinks,
                MemberKind::HardLink => &mut counts.hard_links,
                MemberKind::Other => &mut counts.other,
            } += 1;
            counts.sparse += u64::from(member.is_sparse);
            if member.kind() != MemberKind::HardLink {
                counts.body_bytes = counts.body_bytes.saturating_add(member.node.len);
                counts.stored_bytes = counts.stored_bytes.saturating_add(member.stored_len);
            }
        }
        counts
    }
}

/// The least bytes with which keys of a range may begin; `None` where only numbers are meant, which
/// archives do not have.
fn first_key(range: &KeyRange) -> Option<&[u8]> {
    let Some((kind, bytes)) = range.start().split_first() else { return Some(b"") };
    (Key::IDS != [*kind]).then_some(bytes)
}

/// A member of a list; `None` where it is not wanted.
fn entry_of(key: Key, member: &Member<'_>, options: &ListOptions) -> Option<Listed<'static>> {
    if !options.keys.contains(&key) || !options.patterns.matches(&key, kind(member)) {
        return None;
    }
    let detail = options.details.then(|| {
        let link = (!member.link.is_empty()).then(|| member.link.to_vec());
        Box::new(Detail { head: head(member), link: Ok(link) })
    });
    Some(Listed::Entry(Entry { key, group: "", stored_bytes: Some(member.stored_len), detail }))
}

/// Members on their way.
struct ArchiveGetting<'a> {
    archive: &'a Archive,
    found: std::vec::IntoIter<(&'a Key, Option<Member<'a>>)>,
    reading: Reading<'a>,
    hold: Hold,
    /// The bytes of a member that was held.
    held: Vec<u8>,
    stop: Stop,
    needed_bytes: u64,
}

/// Whether the current member is read to its end before anything of it is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// It is not.
    Nothing,
    /// It is.
    All,
    /// It was, and has been returned.
    Given,
}

impl ArchiveGetting<'_> {
    /// Reads the current member to its end, and holds it; returns why that fails.
    fn read_whole(&mut self) -> Result<Option<Failure>> {
        self.held.clear();
        loop {
            self.stop.check()?;
            match self.reading.chunk() {
                Ok(Some(bytes)) => self.held.extend_from_slice(bytes),
                Ok(None) => return Ok(None),
                Err(error) => return Failure::of_member(error).map(Some),
            }
        }
    }
}

impl<'a> Getting<'a> for ArchiveGetting<'a> {
    fn next(&mut self) -> Result<Option<(&'a Key, Found)>> {
        self.stop.check()?;
        let Some((key, member)) = self.found.next() else {
            while self.reading.verify()? {
                self.stop.check()?;
            }
            // Bytes read from a file that was being written might be neither the old nor the new.
            self.archive.check_unchanged()?;
            return Ok(None);
        };
        let member = if member.is_some() { self.reading.next()? } else { None };
        let is_held = |member: &Member<'_>| member.crc32.is_some() && member.node.len <= HELD_MAX;
        self.hold = if member.as_ref().is_some_and(is_held) { Hold::All } else { Hold::Nothing };
        let found = match member {
            Some(member) => Found::Body(kind(&member)),
            None => Found::Failed(Failure::Missing(Missing::member(self.archive, key))),
        };
        Ok(Some((key, found)))
    }

    fn piece(&mut self) -> Result<Piece<'_>> {
        match self.hold {
            Hold::Nothing => {}
            Hold::All => {
                self.hold = Hold::Given;
                let failure = self.read_whole()?;
                return Ok(failure.map_or(Piece::Bytes(&self.held), Piece::Failed));
            }
            Hold::Given => return Ok(Piece::End),
        }
        match self.reading.piece() {
            Ok(Some(archive::Piece::Bytes(bytes))) => Ok(Piece::Bytes(bytes)),
            Ok(Some(archive::Piece::Hole(len))) => Ok(Piece::Hole(len)),
            Ok(None) => Ok(Piece::End),
            Err(error) => Ok(Piece::Failed(Failure::of_member(error)?)),
        }
    }

    fn needed_bytes(&self) -> u64 {
        self.needed_bytes
    }
}
