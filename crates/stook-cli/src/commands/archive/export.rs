//! `stook unpack PACK --tar FILE`: a pack as a tar, the same bytes for the same records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use stook::archive::MemberKind;
use stook::archive::tar::write::{Head, end, padding};
use stook::pack::tree::{Failure, Paths, UnpackSummary, kind_of, symlink_target};
use stook::pack::{Error, FileKind, Key, KeyEntry, Pack, RecordHead, RecordReader};

use crate::commands::get::files::{Place, Target};
use crate::commands::unpack::{Args, code, print};
use crate::context::Context;
use crate::keys;
use crate::progress::{Progress, Unit};
use crate::{failures, interrupt};

/// Heads read in one batch.
const BATCH: usize = 4096;

/// Writes the tar.
///
/// # Errors
/// When the pack cannot be read or the tar not written.
pub(in crate::commands) fn run(
    args: &Args,
    pack: &Pack,
    tar: &Path,
    select: &dyn Fn(&[u8]) -> bool,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let to_stdout = tar == Path::new("-");
    let mut target = if to_stdout { Target::Stdout } else { Target::File(tar.to_path_buf()) };
    let mut output = context.output();
    let started = Instant::now();
    let bar = context.progress("writing", Unit::Bytes, None);
    let place = target.place(&Key::id(0), None, &mut output)?;
    let mut export = Export {
        pack,
        groups: &args.group,
        select,
        place,
        at: 0,
        paths: Paths::default(),
        failed: BTreeSet::new(),
        summary: UnpackSummary::default(),
        bar,
    };
    let links = export.links()?;
    export.all(&links)?;
    let at = export.at;
    export.write(&end(at))?;
    let Export { place, summary, .. } = export;
    place.finish()?;
    if to_stdout {
        output.finish()?;
        failures::print(context, &summary.failures, args.verbose);
    } else {
        drop(output);
        print(&summary, args.verbose, started.elapsed().as_secs_f64(), pack.is_complete(), context)?;
    }
    Ok(code(&summary, pack.is_complete()))
}

/// The names of files that have several: of each name that is not the first, the first.
type Links = BTreeMap<Key, Key>;

struct Export<'a> {
    pack: &'a Pack,
    groups: &'a [String],
    select: &'a dyn Fn(&[u8]) -> bool,
    place: Place<'a>,
    at: u64,
    paths: Paths,
    /// Keys of records that are not in the tar.
    failed: BTreeSet<Key>,
    summary: UnpackSummary,
    bar: Progress,
}

impl Export<'_> {
    /// Goes through the heads of all records that are wanted, in the order of keys.
    fn each(
        &mut self,
        take: &mut dyn FnMut(&mut Self, RecordHead) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let pack = self.pack;
        let mut batch: Vec<KeyEntry> = Vec::new();
        let mut entries = pack.keys(&[])?;
        loop {
            let next = match entries.next().transpose() {
                // A record that is refused costs itself.
                Err(error) if error.damage().is_some_and(|damage| damage.key.is_some()) => {
                    if let Some(key) = error.damage().and_then(|damage| damage.key.clone()) {
                        self.fail(&key, error);
                    }
                    continue;
                }
                next => next?,
            };
            let is_last = next.is_none();
            if let Some(entry) = next
                && keys::is_in(self.groups, pack.group_of_entry(&entry))
                && entry.key.as_bytes().is_none_or(|key| key.is_empty() || (self.select)(key))
            {
                batch.push(entry);
            }
            if batch.len() == BATCH || is_last {
                let heads = pack.heads(&batch)?;
                for (entry, head) in batch.drain(..).zip(heads) {
                    interrupt::check()?;
                    match head {
                        Ok(head) => take(self, head)?,
                        Err(error) => self.fail(&entry.key, error),
                    }
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Whether the record with a key is one of those that are wanted.
    fn takes(&self, key: &Key) -> Result<bool, Error> {
        let Ok(path) = Paths::path(key) else { return Ok(false) };
        let entry = self.pack.locate(std::slice::from_ref(key))?.pop().transpose()?.flatten();
        let is_in = |entry| keys::is_in(self.groups, self.pack.group_of_entry(&entry));
        Ok((self.select)(path) && entry.is_some_and(is_in))
    }

    /// In a tar a link stands behind its file, so the first of its names in the order of keys is the file.
    fn links(&mut self) -> anyhow::Result<Links> {
        let mut names: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
        self.each(&mut |export, head| {
            // What cannot be read, or is no path, is told when its turn comes.
            if head.is_hard_link()
                && Paths::path(&head.key).is_ok()
                && let Ok(Some(file)) = export.pack.open_file(&head.key)
            {
                names.entry(file.head().key.clone()).or_default().insert(head.key);
            }
            Ok(())
        })?;
        self.summary.failures.clear();
        self.failed.clear();
        let mut links = Links::new();
        for (file, mut further) in names {
            if self.takes(&file)? {
                further.insert(file);
            }
            let Some(first) = further.pop_first() else { continue };
            links.extend(further.into_iter().map(|name| (name, first.clone())));
        }
        Ok(links)
    }

    fn all(&mut self, links: &Links) -> anyhow::Result<()> {
        self.each(&mut |export, head| {
            let key = head.key.clone();
            match export.record(&head, links) {
                Err(error) => match error.downcast::<Error>() {
                    Ok(error @ (Error::Damaged(_) | Error::Invalid(_))) => export.fail(&key, error),
                    Ok(error) => return Err(error.into()),
                    Err(error) => return Err(error),
                },
                Ok(()) => export.bar.add(export.at.saturating_sub(export.bar.done())),
            }
            Ok(())
        })
    }

    fn fail(&mut self, key: &Key, error: Error) {
        self.failed.insert(key.clone());
        self.summary.failures.push(Failure::of(key, error));
    }

    fn record(&mut self, record: &RecordHead, links: &Links) -> anyhow::Result<()> {
        let attributes = &record.attributes;
        let kind = kind_of(attributes)?;
        let head = Head {
            key: self.paths.next(&record.key, kind)?,
            kind: MemberKind::File,
            mode: attributes.mode().unwrap_or(0o644),
            mtime_ns: attributes.mtime_ns().unwrap_or(0),
            owner: attributes.owner(),
            len: 0,
            link: b"",
        };
        if let Some(first) = links.get(&record.key) {
            if self.failed.contains(first) {
                let why = format!("it is one file with {first}, which could not be written");
                return Err(Error::Invalid(why).into());
            }
            let link = first.as_bytes().unwrap_or_default();
            self.summary.hard_links += 1;
            return self.write(&Head { kind: MemberKind::HardLink, link, ..head }.encode());
        }
        match kind {
            FileKind::Directory => {
                self.summary.directories += 1;
                self.write(&Head { kind: MemberKind::Directory, ..head }.encode())
            }
            FileKind::Symlink => {
                let link = |mut record: RecordReader<'_>| record.link_target();
                let link = self.pack.open_record(&record.key)?.map(link).transpose()?.unwrap_or_default();
                self.summary.symlinks += 1;
                self.write(&Head { kind: MemberKind::Symlink, link: symlink_target(&link)?, ..head }.encode())
            }
            FileKind::HardLink | FileKind::File => self.file(&record.key, &head),
        }
    }

    /// A file with the bytes of a record. A tar says the length first, so a record that does not is read twice; and
    /// all checksums are looked at before anything is written, because a tar cannot take a member back.
    fn file(&mut self, key: &Key, head: &Head<'_>) -> anyhow::Result<()> {
        let absent = || Error::Invalid(format!("there is no record {key}"));
        let mut reader = self.pack.open_file(key)?.ok_or_else(absent)?;
        let (mut len, mut whole) = (0_u64, Vec::new());
        while let Some(chunk) = reader.next_chunk()? {
            interrupt::check()?;
            len += chunk.len() as u64;
            if len <= WHOLE_MAX {
                whole.extend_from_slice(chunk);
            }
        }
        self.write(&Head { len, ..*head }.encode())?;
        if len <= WHOLE_MAX {
            self.write(&whole)?;
        } else {
            let mut reader = self.pack.open_file(key)?.ok_or_else(absent)?;
            while let Some(chunk) = reader.next_chunk()? {
                interrupt::check()?;
                self.write(chunk)?;
            }
        }
        self.summary.files += 1;
        self.summary.bytes += len;
        self.write(&padding(len))
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.at += bytes.len() as u64;
        self.place.write(bytes)
    }
}

/// Bodies up to this length are held, and not read twice.
const WHOLE_MAX: u64 = 16 << 20;
