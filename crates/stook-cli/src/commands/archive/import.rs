//! `stook pack x.tar OUT.stook`: the members of archives, or of a tar from stdin, as records.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use stook::archive::{Archive, Member, MemberKind, Piece, Reading, TarStream, recognise, tar_stream};
use stook::pack::format::attributes::{KIND, NAMES as FURTHER_NAMES, Name, Value};
use stook::pack::tree::{Failure, PackSummary};
use stook::pack::{
    Attributes, BodyComparison, Error, FileKind, FurtherName, Key, OpenOptions, Pack, PackWriter,
    WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions};

use crate::archives;
use crate::commands::pack::{Args, print};
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, chain, code_for};
use crate::interrupt::{self, Interrupted, Interruptible, interrupted};
use crate::output::printable;
use crate::packs;
use crate::progress::{Progress, Unit};
use crate::select::Selection;

/// What files end in that are imported rather than packed as they are.
const NAMES: [&[u8]; 6] = [b".tar", b".tar.gz", b".tgz", b".tar.zst", b".tzst", b".zip"];

/// What archives end in that cannot be read here. As one record they would be of little use, and nobody would know.
const OTHER_NAMES: [&[u8]; 10] = [
    b".tar.xz",
    b".txz",
    b".tar.bz2",
    b".tbz2",
    b".tbz",
    b".tar.lz4",
    b".tar.lz",
    b".tar.z",
    b".7z",
    b".rar",
];

/// Members looked up in one batch.
const BATCH: usize = 4096;
/// Bodies up to this length are put at once.
const WHOLE_MAX: u64 = 4 << 20;

/// Whether the sources are archives; a mixture is refused.
///
/// # Errors
/// When only some are, or one cannot be looked at.
pub(in crate::commands) fn is_wanted(sources: &[PathBuf]) -> anyhow::Result<bool> {
    let mut archives = 0;
    for source in sources {
        if source == Path::new("-") {
            archives += 1;
        } else if source.is_file() && ends_in(source, &OTHER_NAMES) {
            return Err(not_imported(source, "of a kind that cannot be imported").into());
        } else if source.is_file() && ends_in(source, &NAMES) {
            if recognise(source)?.is_none() {
                return Err(not_imported(source, "called an archive, and is none that can be read").into());
            }
            archives += 1;
        }
    }
    if archives > 0 && archives < sources.len() {
        return Err(UsageError::new("pack archives and directories one after another, not together").into());
    }
    Ok(archives > 0)
}

/// Whether a file is called an archive. Much else is one inside (`.jar`, `.docx`, `.whl`) and meant as a file.
fn ends_in(path: &Path, endings: &[&[u8]]) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes().to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

fn not_imported(path: &Path, what: &str) -> UsageError {
    let path = path.display();
    UsageError::new(format!(
        "{path} is {what} (tar, tar.gz, tar.zst and zip can): unpack it first, or pack it as the one file that it is with \
         --as-file"
    ))
}

/// Imports all members; of those with one key the last one counts, and what is there unchanged is not put again.
///
/// # Errors
/// What reading an archive or writing the pack meets.
pub(in crate::commands) fn run(
    args: &Args,
    selection: &Selection,
    group: &str,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    // What is no tar is told before anything is made.
    let has_stdin = args.sources.iter().any(|source| source == Path::new("-"));
    let mut stdin = if has_stdin { Some(tar_from_stdin()?) } else { None };
    let mut archives = VecDeque::new();
    for source in args.sources.iter().filter(|source| *source != Path::new("-")) {
        archives.extend(archives::open(source, context)?);
    }
    let there = args.pack.exists();
    let mut writer = if args.dry_run { None } else { Some(open(args, there, context)?) };
    let before = match there {
        true => opened(packs::open_with(&args.pack, OpenOptions::default(), context))?,
        false => None,
    };
    let was_complete = before.as_ref().is_some_and(Pack::is_complete);
    if let Some(writer) = &mut writer {
        writer.set_complete(false);
        writer.publish()?;
    }
    let mut import = Import {
        writer,
        before,
        selection,
        group,
        with_owner: rustix::process::geteuid().is_root(),
        checksum: args.checksum,
        summary: PackSummary::default(),
        replaced: BTreeSet::new(),
        failed: BTreeSet::new(),
        met: Met::default(),
        left_out: Vec::new(),
        bar: context.progress("packing", Unit::Bytes, None),
    };
    for source in &args.sources {
        // Names of files are of one archive.
        import.failed.clear();
        import.met.clear();
        let archive = if source == Path::new("-") { None } else { archives.pop_front() };
        match archive {
            Some(archive) => import.archive(source, &archive)?,
            None => import.stdin(stdin.take())?,
        }
    }
    let Import { writer, summary, left_out, bar, .. } = import;
    drop(bar);
    for key in &left_out {
        context.remark(format_args!("Left out: {} is a pipe, a device or the like.", printable(key)));
    }
    let complete = !summary.interrupted && summary.failures.is_empty();
    if let Some(mut writer) = writer {
        writer.set_complete(complete);
        writer.finish(complete && !was_complete)?;
    }
    print(args, &summary, None, complete, started.elapsed().as_secs_f64(), context)?;
    if summary.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code_for(summary.failures.len() as u64))
}

/// The tar that comes through stdin, once its first header is there.
fn tar_from_stdin() -> anyhow::Result<TarStream> {
    match tar_stream(BufReader::with_capacity(256 << 10, Interruptible::stdin()?), "stdin") {
        Err(_) if interrupted() => Err(Interrupted.into()),
        opened => Ok(opened?),
    }
}

fn open(args: &Args, there: bool, context: &Context) -> anyhow::Result<PackWriter> {
    let options = WriterOptions { segment_len: args.segment_size, ..WriterOptions::bulk() };
    let storage = Arc::new(match there {
        true => LocalStorage::open(&args.pack, LocalStorageOptions::default())?,
        false => LocalStorage::create(&args.pack, LocalStorageOptions::default())?,
    });
    if there {
        match packs::writer_in(storage.clone(), options.clone(), context) {
            // Making one tells whether it can be made there.
            Err(Error::NotAPack { .. }) => {}
            opened => return Ok(opened?),
        }
    }
    let mut writer = PackWriter::create(storage, options)?;
    let roots = args.sources.iter().map(|root| root.clone().into_os_string().into_encoded_bytes());
    writer.set_roots(roots.collect());
    Ok(writer)
}

/// The pack; none in an empty directory.
fn opened(pack: Result<Pack, Error>) -> Result<Option<Pack>, Error> {
    match pack {
        Err(Error::NotAPack { .. }) => Ok(None),
        other => other.map(Some),
    }
}

struct Import<'a> {
    writer: Option<PackWriter>,
    before: Option<Pack>,
    selection: &'a Selection,
    group: &'a str,
    with_owner: bool,
    checksum: bool,
    summary: PackSummary,
    /// Keys of records that this run replaced.
    replaced: BTreeSet<Vec<u8>>,
    /// Keys of members of this archive that are not in the pack. What the pack has under them is
    /// another file.
    failed: BTreeSet<Vec<u8>>,
    /// Keys of members of a stream that came before.
    met: Met,
    /// Pipes, devices, and what only its program knows.
    left_out: Vec<Vec<u8>>,
    bar: Progress,
}

/// Keys that were met, 16 bytes for each: two hashes that nobody can foresee, which for different keys are never the same.
#[derive(Default)]
struct Met {
    hashes: HashSet<[u64; 2]>,
    hashers: [RandomState; 2],
}

impl Met {
    fn of(&self, key: &[u8]) -> [u64; 2] {
        self.hashers.each_ref().map(|hasher| hasher.hash_one(key))
    }

    fn add(&mut self, key: &[u8]) {
        let hashes = self.of(key);
        self.hashes.insert(hashes);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.hashes.contains(&self.of(key))
    }

    fn clear(&mut self) {
        self.hashes.clear();
    }
}

/// A member on its way into a pack.
struct Record<'a> {
    key: &'a [u8],
    kind: FileKind,
    attributes: Attributes,
    len: u64,
    there: There,
    /// Of a hard link, the key of its file.
    first: Option<&'a [u8]>,
}

/// What the pack holds under the key of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    Other,
    /// A record with the same attributes and length: whether its bytes are the same has to be seen.
    Alike,
}

/// Gives the next piece of a body.
type Body<'a> = dyn FnMut(&mut dyn FnMut(Piece<'_>) -> anyhow::Result<()>) -> anyhow::Result<bool> + 'a;

impl Import<'_> {
    fn is_taken(&self, key: &[u8]) -> bool {
        let parents = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let excluded =
            parents.filter_map(|(at, _)| key.get(..at)).any(|above| self.selection.excludes(above));
        key.is_empty() || (self.selection.takes(key) && !excluded)
    }

    fn archive(&mut self, path: &Path, archive: &Archive) -> anyhow::Result<()> {
        let mut members: Vec<Member<'_>> = archive.selection(|key| self.is_taken(key));
        members.sort_by_key(|member| member.header_at);
        // What is read from its front is read once.
        let mut pass = match archive.is_sequential() {
            true => Some(read(archive, members.iter())?),
            false => None,
        };
        for batch in members.chunks(BATCH) {
            let wanted = self.changed(batch)?;
            let mut own = None;
            let reading = match &mut pass {
                Some(pass) => pass,
                None => own.insert(read(archive, wanted.iter().map(|(member, _)| member))?),
            };
            for (member, there) in &wanted {
                if interrupted() {
                    self.summary.interrupted = true;
                    return Ok(());
                }
                self.member(member, *there, reading)?;
                if self.summary.interrupted {
                    return Ok(());
                }
            }
        }
        if let Some(pass) = &mut pass {
            self.verify(pass, path)?;
        }
        Ok(archive.check_unchanged()?)
    }

    /// Reads on to the checksum behind all members.
    fn verify(&mut self, reading: &mut Reading<'_>, path: &Path) -> anyhow::Result<()> {
        loop {
            if interrupted() {
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

    /// The members that are not certain to be in the pack as they are, and what is there of each.
    fn changed<'m>(&mut self, batch: &[Member<'m>]) -> anyhow::Result<Vec<(Member<'m>, There)>> {
        let records: Vec<(&[u8], Attributes, u64)> = batch
            .iter()
            .map(|member| (member.key, attributes(member, self.with_owner), body_len(member)))
            .collect();
        let there = self.there(&records)?;
        let mut changed = Vec::new();
        for (member, there) in batch.iter().zip(there) {
            // A checksum vouches for the bytes of a zip; the body of a directory is empty.
            let is_vouched_for = member.crc32.is_some() && member.kind == MemberKind::File && !self.checksum
                || member.kind == MemberKind::Directory;
            match there {
                There::Alike if is_vouched_for => self.summary.unchanged += 1,
                there => changed.push((*member, there)),
            }
        }
        Ok(changed)
    }

    /// What the pack holds under these keys, compared with attributes and lengths of members.
    fn there(&self, records: &[(&[u8], Attributes, u64)]) -> anyhow::Result<Vec<There>> {
        let Some(before) = &self.before else { return Ok(vec![There::Nothing; records.len()]) };
        let keys: Vec<Key> = records.iter().map(|(key, ..)| Key::bytes(*key)).collect::<Result<_, _>>()?;
        let located = before.locate(&keys)?;
        // What damage hides is packed again.
        let log = before.damage_log();
        let located = located.into_iter().map(|entry| Ok(log.unless_damaged(entry)?.flatten()));
        let located: Vec<_> = located.collect::<Result<_, Error>>()?;
        let entries: Vec<_> = located.iter().flatten().cloned().collect();
        let mut heads = before.heads(&entries)?.into_iter();
        let mut all = Vec::with_capacity(records.len());
        for ((key, attributes, len), entry) in records.iter().zip(&located) {
            let head = entry.as_ref().and_then(|_| heads.next()).transpose();
            let head = log.unless_damaged(head)?.flatten();
            // What this run put is not what was there.
            all.push(match head {
                _ if self.replaced.contains(*key) => There::Other,
                Some(head) if is_alike(&head.attributes, attributes) && head.body_len == Some(*len) => {
                    There::Alike
                }
                Some(_) => There::Other,
                None => There::Nothing,
            });
        }
        Ok(all)
    }

    fn member(&mut self, member: &Member<'_>, there: There, reading: &mut Reading<'_>) -> anyhow::Result<()> {
        let attributes = attributes(member, self.with_owner);
        let record =
            |kind| Record { key: member.key, kind, attributes, len: body_len(member), there, first: None };
        if is_name(member) {
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
        let Some(kind) = archives::kind(member) else {
            self.leave_out(member.key, member.len);
            return Ok(());
        };
        self.put(&record(kind), &mut |take| match reading.piece()? {
            Some(piece) => take(piece).map(|()| true),
            None => Ok(false),
        })
    }

    /// A tar from stdin; waiting for what comes next ends when the user wants that.
    fn stdin(&mut self, opened: Option<TarStream>) -> anyhow::Result<()> {
        match opened.map_or_else(tar_from_stdin, Ok).and_then(|tar| self.stream(tar)) {
            Err(_) if interrupted() => {
                self.summary.interrupted = true;
                Ok(())
            }
            done => done,
        }
    }

    /// A tar from stdin: members come as they are, and later ones take the place of earlier ones.
    fn stream(&mut self, mut tar: TarStream) -> anyhow::Result<()> {
        loop {
            // What is passed over of a member may be as long as one that is packed.
            while !interrupted() && tar.piece()?.is_some() {}
            if interrupted() || self.summary.interrupted {
                self.summary.interrupted = true;
                return Ok(());
            }
            let Some(entry) = tar.next()? else { break };
            if !self.is_taken(&entry.key) {
                continue;
            }
            let kind = match entry.kind {
                MemberKind::File => FileKind::File,
                MemberKind::Directory => FileKind::Directory,
                MemberKind::Symlink => FileKind::Symlink,
                MemberKind::HardLink => FileKind::HardLink,
                MemberKind::Other => {
                    self.leave_out(&entry.key, entry.len);
                    continue;
                }
            };
            // What the pack may have under that key is another file.
            let is_there = self.met.has(&entry.link);
            self.met.add(&entry.key);
            if kind == FileKind::HardLink && !(is_there && self.is_taken(&entry.link)) {
                self.fail_name(&entry.key, &entry.link);
                continue;
            }
            let owner = entry.owner.filter(|_| self.with_owner);
            let attributes =
                Attributes::of_file(kind, entry.mode.unwrap_or(0o644), entry.mtime_ns.unwrap_or(0), owner);
            let is_link = matches!(kind, FileKind::Symlink | FileKind::HardLink);
            let len = if is_link { entry.link.len() as u64 } else { entry.len };
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
            let error = Error::Invalid("the tar does not end as a tar does; something was cut off".into());
            self.fail(b"-", error);
        }
        Ok(())
    }

    /// Notes a member that is not packed, and whose further names are not either.
    fn fail(&mut self, key: &[u8], error: Error) {
        self.failed.insert(key.to_vec());
        self.summary.failures.push(Failure { key: key.to_vec(), error });
    }

    /// Notes what packs do not hold. Where it has bytes, these are missed.
    fn leave_out(&mut self, key: &[u8], len: u64) {
        if len > 0 {
            let what = format!(
                "only the program that made it knows what this member is; its {len} bytes are not packed"
            );
            return self.fail(key, Error::Invalid(what));
        }
        self.failed.insert(key.to_vec());
        self.left_out.push(key.to_vec());
    }

    /// Notes a further name of a file that is not packed.
    fn fail_name(&mut self, key: &[u8], first: &[u8]) {
        let first = first.escape_ascii();
        let error =
            Error::Invalid(format!("it is a further name of {first}, which was not packed before it"));
        self.fail(key, error);
    }

    /// Puts a further name whose file is there under another key, or as a symbolic link, as what it is; tells of one without a
    /// file. Whether that was all there is to do.
    fn puts_name(&mut self, record: &Record<'_>) -> anyhow::Result<bool> {
        let (FileKind::HardLink, Some(first)) = (record.kind, record.first) else { return Ok(false) };
        let leads_to = match &mut self.writer {
            _ if self.failed.contains(first) => FurtherName::Nothing,
            Some(writer) => writer.mark_further_names(&Key::bytes(first)?)?,
            None => return Ok(false),
        };
        match leads_to {
            // The name leads back to what has this one: that stays what it is.
            FurtherName::Of(key) if key.as_bytes() == Some(record.key) => self.summary.unchanged += 1,
            FurtherName::Of(key) if key.as_bytes() == Some(first) => return Ok(false),
            FurtherName::Of(key) => {
                self.put_link(record, FileKind::HardLink, key.as_bytes().unwrap_or_default())?;
            }
            FurtherName::Symlink(target) => self.put_link(record, FileKind::Symlink, &target)?,
            FurtherName::Nothing => self.fail_name(record.key, first),
        }
        Ok(true)
    }

    /// Puts a link that leads elsewhere than the archive says, because of what is there.
    fn put_link(&mut self, record: &Record<'_>, kind: FileKind, target: &[u8]) -> anyhow::Result<()> {
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

    /// Puts a record, unless the pack holds the same. What is wrong with its bytes is a failure of it alone.
    fn put(&mut self, record: &Record<'_>, body: &mut Body<'_>) -> anyhow::Result<()> {
        // The file of a further name has to be there before it.
        if self.puts_name(record)? {
            return Ok(());
        }
        // Of members with one key the last counts.
        self.failed.remove(record.key);
        // When its file was replaced, the name got what that had held.
        let is_moved = record.first.is_some_and(|first| self.replaced.contains(first));
        let same = match (&self.before, record.there) {
            _ if is_moved => None,
            (Some(before), There::Alike) => before.compare(&Key::bytes(record.key)?)?,
            _ => None,
        };
        match put(self.writer.as_mut(), self.group, record, same, body, &self.bar) {
            Ok(true) => {}
            Ok(false) => {
                self.summary.unchanged += 1;
                return Ok(());
            }
            Err(error) if error.is::<Interrupted>() => {
                self.summary.interrupted = true;
                return Ok(());
            }
            Err(error) => {
                self.fail(record.key, of_member(error)?);
                return Ok(());
            }
        }
        if record.there != There::Nothing {
            self.summary.replaced += 1;
            self.replaced.insert(record.key.to_vec());
        }
        let summary = &mut self.summary;
        *match record.kind {
            FileKind::File => &mut summary.files,
            FileKind::Directory => &mut summary.directories,
            FileKind::Symlink => &mut summary.symlinks,
            FileKind::HardLink => &mut summary.hard_links,
        } += 1;
        if record.kind == FileKind::File {
            summary.bytes += record.len;
        }
        Ok(())
    }
}

/// Reads those members of an archive that are not put as names of others.
fn read<'a, 'm>(
    archive: &'a Archive,
    members: impl Iterator<Item = &'m Member<'m>>,
) -> anyhow::Result<Reading<'a>> {
    Ok(archive.read(members.filter(|member| !is_name(member)).map(|member| member.number).collect())?)
}

/// What is wrong with one member: its bytes, or what it says of itself (a length that no pack holds). All else ends the
/// packing.
fn of_member(error: anyhow::Error) -> anyhow::Result<Error> {
    let error = match error.downcast::<Error>() {
        Ok(error @ (Error::Limit { .. } | Error::Invalid(_) | Error::BodyLength { .. })) => return Ok(error),
        Ok(error) => return Err(error.into()),
        Err(error) => error,
    };
    match error.downcast::<stook::archive::Error>()? {
        error @ stook::archive::Error::Core(_) => Err(error.into()),
        other => Ok(Error::Invalid(chain(&other))),
    }
}

/// Whether it is put as the name of another member. One that leads to none is read, which tells why it cannot be.
fn is_name(member: &Member<'_>) -> bool {
    member.kind == MemberKind::HardLink && member.has_body
}

/// Bytes of the record: of a link, its target or the key of its file.
fn body_len(member: &Member<'_>) -> u64 {
    if member.kind == MemberKind::HardLink { member.link.len() as u64 } else { member.len }
}

/// Whether attributes say the same, but for how many names there are: a stream tells that when they come.
fn is_alike(one: &Attributes, other: &Attributes) -> bool {
    let told = |(name, _): &&(Name, Value)| *name != Name::Id(FURTHER_NAMES);
    one.iter().filter(told).eq(other.iter().filter(told))
}

/// The attributes of its record: those that packing the unpacked member would give, and the checksum of a zip, which tells
/// the next time whether its bytes are the same.
fn attributes(member: &Member<'_>, with_owner: bool) -> Attributes {
    let mut attributes = archives::attributes(member, with_owner);
    if let (Some(crc32), MemberKind::File) = (member.crc32, member.kind) {
        attributes.set(Name::Text("crc32".into()), Value::U32(crc32));
    }
    attributes
}

/// Puts a record, if there is a writer, unless its body is the same as another; whether it is not. One that was interrupted
/// never existed.
fn put(
    writer: Option<&mut PackWriter>,
    group: &str,
    record: &Record<'_>,
    mut same: Option<BodyComparison<'_>>,
    body: &mut Body<'_>,
    bar: &Progress,
) -> anyhow::Result<bool> {
    let key = Key::bytes(record.key)?;
    let Some(writer) = writer else {
        let Some(mut same) = same else { return Ok(true) };
        pour(body, &mut |bytes| {
            bar.add(bytes.len() as u64);
            Ok(same.take(bytes).map(drop)?)
        })?;
        return Ok(!same.finish()?);
    };
    if record.len <= WHOLE_MAX {
        let mut whole = Vec::new();
        pour(body, &mut |bytes| {
            whole.extend_from_slice(bytes);
            Ok(())
        })?;
        bar.add(record.len);
        if let Some(mut same) = same
            && same.take(&whole)?
            && same.finish()?
        {
            return Ok(false);
        }
        writer.put(group, &key, &record.attributes, &whole)?;
        return Ok(true);
    }
    // Written while it is compared: of a stream nothing comes twice. Dropped, nothing of it stays.
    let mut long = writer.begin(group, &key, &record.attributes, Some(record.len))?;
    pour(body, &mut |bytes| {
        if let Some(same) = &mut same {
            same.take(bytes)?;
        }
        long.write(bytes)?;
        bar.add(bytes.len() as u64);
        Ok(())
    })?;
    if let Some(same) = same
        && same.finish()?
    {
        return Ok(false);
    }
    long.finish()?;
    Ok(true)
}

/// Gives all bytes of a body, those of its holes as well, until Ctrl-C.
fn pour(body: &mut Body<'_>, take: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut watched = |bytes: &[u8]| {
        interrupt::check()?;
        take(bytes)
    };
    while body(&mut |piece| match piece {
        Piece::Bytes(bytes) => watched(bytes),
        Piece::Hole(len) => zeroes(len).try_for_each(&mut watched),
    })? {
        interrupt::check()?;
    }
    Ok(())
}

/// So many zeroes, piece by piece.
fn zeroes(len: u64) -> impl Iterator<Item = &'static [u8]> {
    static ZEROES: [u8; 1 << 20] = [0; 1 << 20];
    (0..len)
        .step_by(ZEROES.len())
        .filter_map(move |at| ZEROES.get(..usize::try_from(len - at).unwrap_or(usize::MAX).min(ZEROES.len())))
}
