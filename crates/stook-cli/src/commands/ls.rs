//! `stook ls`: the keys of a pack, in their order.
//!
//! Keys stream from the indexes; records are only looked at for `-l`, and where a pattern means directories, a batch of heads
//! at a time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use stook::names::escaped;
use stook::pack::{Error, FileKind, KEY_LEN_MAX, Key, KeyEntry, KeyRange, Pack, RecordHead};
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::count_of;
use time::OffsetDateTime;

use crate::context::{Context, SHOWN_MAX};
use crate::keys::{self, Asked, Globs, KeyArgs, Order};
use crate::output::Output;
use crate::{archives, exit, interrupt, packs};

const EXAMPLES: &str = "\
Keys come in their order: byte strings, then numbers (id:1, id:2, …). Control
characters and bytes that are not UTF-8 are shown as \\xNN, a backslash as \\\\,
and the empty key, that of the directory that was packed, as bytes:. Every
command takes keys as they are shown. --null prints them as they are.

--long shows mode, owner, length, time (UTC), group, and where links lead.
A numeric key is matched as id:N. Exit code 1 when nothing is there of what was
asked for.

Examples:
  stook ls photos.stook
  stook ls photos.stook -l --prefix 2024/
  stook ls photos.stook 2024/              the directory, and what is below
  stook ls photos.stook --from 2024/06 --to 2024/09 --order disk
  stook ls train.tar --long
  stook ls logs.stook --follow --json
  stook ls photos.stook '*.jpg' -0 |
    stook get photos.stook --from-file - -0 --output out";

/// How often a pack that is followed is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// Heads read in one batch.
const BATCH: usize = 4096;

/// Links read in one batch.
const LINKS: usize = 256;

/// What `stook ls` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack, or a tar or zip archive
    pack: PathBuf,
    /// Only keys that match one of these patterns
    #[arg(value_name = "GLOB")]
    pub(super) globs: Vec<String>,
    /// Mode, owner, length, time and group beside each key
    #[arg(long, short)]
    pub(super) long: bool,
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    /// By key, or as records are on the medium
    #[arg(long, value_enum, default_value = "key")]
    pub(super) order: Order,
    /// Only this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    pub(super) groups: Vec<String>,
    /// End each key with a NUL byte, and print it as it is
    #[arg(long, short = '0', conflicts_with_all = ["long", "json"])]
    pub(super) null: bool,
    /// Go on and list what is put from now on, until stopped with Ctrl-C
    #[arg(long, conflicts_with_all = ["at", "null"])]
    follow: bool,
    #[command(flatten)]
    view: packs::View,
}

#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    #[serde(flatten)]
    pub(super) key: packs::JsonKey<'a>,
    pub(super) group: &'a str,
    pub(super) stored_bytes: Option<u64>,
    #[serde(flatten)]
    pub(super) head: Option<HeadFields>,
    #[serde(flatten)]
    pub(super) link: Option<TextOrBytes<'a>>,
}

#[derive(Debug, Serialize)]
pub(super) struct HeadFields {
    body_bytes: Option<u64>,
    kind: Option<&'static str>,
    mode: Option<u32>,
    mtime_ns: Option<i64>,
    owner_user_id: Option<u32>,
    owner_group_id: Option<u32>,
    sequence: u64,
    time_ns: i64,
}

/// Runs it.
///
/// # Errors
/// When the pack or its index cannot be read.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(archive) = archives::open(&args.pack, context)? {
        args.view.refuse_for_archive()?;
        return super::archive::ls::run(&args, &archive, context);
    }
    let globs = Globs::new("GLOB", &args.globs)?;
    let pack = args.view.open(&args.pack, context)?;
    packs::check_groups(&pack, &args.pack, &args.groups)?;
    let range = args.keys.range()?;
    let mut output = context.output();
    let (args, globs) = (&args, &globs);
    let mut listing = Listing { pack: &pack, args, globs, context, listed: 0, hidden: 0, failures: 0 };
    listing.all(&range, &mut output)?;
    let mut failures = listing.hidden + listing.failures;
    if listing.listed == 0 && failures == 0 && !args.follow {
        failures += args.asked().report_nothing(&args.pack, "record", context);
    }
    if args.follow {
        output.flush()?;
        follow(pack, args, (globs, &range), context, &mut output)?;
    }
    packs::print_last_line(&mut output, context)?;
    output.finish()?;
    Ok(exit::code_for(failures))
}

impl Args {
    /// What is listed, where that is not everything.
    pub(super) fn asked(&self) -> Asked {
        self.keys.asked().with("--group", &self.groups).with("", &self.globs)
    }
}

/// A list on its way.
struct Listing<'a> {
    pack: &'a Pack,
    args: &'a Args,
    globs: &'a Globs,
    context: &'a Context,
    listed: u64,
    /// Records of which damage hides whether they are to be listed.
    hidden: u64,
    /// What could not be told of records that are listed.
    failures: u64,
}

impl Listing<'_> {
    /// Lists what is wanted of a range of keys, a batch at a time.
    fn all(&mut self, range: &KeyRange, output: &mut Output) -> anyhow::Result<()> {
        let (pack, args) = (self.pack, self.args);
        let entries: Box<dyn Iterator<Item = stook::pack::Result<KeyEntry>>> = match args.order {
            Order::Key => Box::new(pack.keys_in(range.clone())?),
            Order::Disk => Box::new(pack.keys_on_disk(range, &args.groups)),
        };
        let mut batch = Vec::new();
        for entry in entries {
            match entry {
                Err(error) if error.damage().is_some() => self.hide(&error),
                entry => {
                    let wanted = |entry: &KeyEntry| keys::is_in(&args.groups, pack.group_of_entry(entry));
                    batch.extend(Some(entry?).filter(wanted));
                }
            }
            if batch.len() == BATCH {
                self.print(std::mem::take(&mut batch), output)?;
            }
        }
        self.print(batch, output)?;
        if self.hidden > SHOWN_MAX as u64 {
            let more = count_of(self.hidden - SHOWN_MAX as u64, "more record", "more records");
            self.context.failure(anyhow::anyhow!("… and {more} that cannot be listed").as_ref());
        }
        Ok(())
    }

    /// Damage costs the record that it hides, and the exit code.
    fn hide(&mut self, error: &Error) {
        self.hidden += 1;
        // All of them may be of one cause, which was told.
        if self.hidden <= SHOWN_MAX as u64 {
            self.context.failure(error);
        }
    }

    /// Prints those of these entries that match.
    fn print(&mut self, entries: Vec<KeyEntry>, output: &mut Output) -> anyhow::Result<()> {
        let mut matching = Vec::with_capacity(entries.len());
        for entry in self.globs.matching(self.pack, entries)? {
            match entry {
                Err(error) if error.damage().is_some() => self.hide(&error),
                entry => matching.push(entry?),
            }
        }
        self.listed += matching.len() as u64;
        if self.args.long {
            self.failures += print_long(self.pack, &matching, self.context, output)?;
            return Ok(());
        }
        matching.iter().try_for_each(|entry| print_short(self.pack, entry, self.args, self.context, output))
    }
}

/// Lists records as they are put, until it is stopped.
fn follow(
    mut pack: Pack,
    args: &Args,
    (globs, range): (&Globs, &KeyRange),
    context: &Context,
    output: &mut Output,
) -> anyhow::Result<()> {
    while !interrupt::interrupted() {
        std::thread::sleep(FOLLOW_EVERY);
        if pack.is_current()? {
            continue;
        }
        let newer = args.view.open(&args.pack, context)?;
        for head in newer.put_since(&pack)? {
            let group = newer.group_of_segment(head.segment);
            let kind = head.attributes.file_kind();
            let is_wanted = keys::is_in(&args.groups, group) && globs.match_key(&head.key, kind);
            if !is_wanted || !range.contains(&head.key) {
                continue;
            }
            let link = match context.json() || args.long {
                true => link_targets(&newer, &[Ok(head.clone())])?.pop().transpose()?,
                false => None,
            };
            if context.json() {
                let key = packs::JsonKey(&head.key);
                let link = link.as_deref().map(|link| TextOrBytes::new("link", link));
                let line = Line { key, group, stored_bytes: None, head: Some(fields(&head)), link };
                output.json_line(&Document::new("ls", line))?;
            } else if args.long {
                output.line(long_line(&head, group, link.as_deref()))?;
            } else {
                output.line(&head.key)?;
            }
        }
        output.flush()?;
        pack = newer;
    }
    Ok(())
}

fn print_short(
    pack: &Pack,
    entry: &KeyEntry,
    args: &Args,
    context: &Context,
    output: &mut Output,
) -> anyhow::Result<()> {
    interrupt::check()?;
    if context.json() {
        let group = pack.group_of_entry(entry);
        let line = Line {
            key: packs::JsonKey(&entry.key),
            group,
            stored_bytes: entry.stored_bytes,
            head: None,
            link: None,
        };
        output.json_line(&Document::new("ls", line))?;
    } else if args.null {
        output.bytes(&entry.key.to_plain())?;
        output.bytes(b"\0")?;
    } else {
        output.line(&entry.key)?;
    }
    Ok(())
}

/// Prints a batch of entries with their heads, and tells how many of these could not be read.
fn print_long(
    pack: &Pack,
    entries: &[KeyEntry],
    context: &Context,
    output: &mut Output,
) -> anyhow::Result<u64> {
    interrupt::check()?;
    let mut failures = 0;
    let heads = pack.heads(entries)?;
    let mut links = link_targets(pack, &heads)?.into_iter();
    for (entry, head) in entries.iter().zip(heads) {
        let group = pack.group_of_entry(entry);
        let link = match &head {
            Ok(head) if leads_elsewhere(head) => links.next().transpose(),
            _ => Ok(None),
        };
        let link = link.unwrap_or_else(|error| {
            failures += 1;
            context.failure(&error);
            Some(b"?".into())
        });
        match head {
            Ok(head) if context.json() => {
                let line = Line {
                    key: packs::JsonKey(&entry.key),
                    group,
                    stored_bytes: entry.stored_bytes,
                    head: Some(fields(&head)),
                    link: link.as_deref().map(|link| TextOrBytes::new("link", link)),
                };
                output.json_line(&Document::new("ls", line))?;
            }
            Ok(head) => output.line(long_line(&head, group, link.as_deref()))?,
            Err(error) => {
                failures += 1;
                context.failure(&error);
            }
        }
    }
    Ok(failures)
}

/// Whether what a record holds is where it leads, and short enough to be shown.
fn leads_elsewhere(head: &RecordHead) -> bool {
    let is_link = matches!(head.attributes.file_kind(), Some(FileKind::Symlink | FileKind::HardLink));
    is_link && head.body_len.is_some_and(|len| len <= KEY_LEN_MAX as u64)
}

type Links = Vec<stook::pack::Result<Vec<u8>>>;

/// Where the links among these lead, in their order.
fn link_targets(pack: &Pack, heads: &[stook::pack::Result<RecordHead>]) -> anyhow::Result<Links> {
    let links = heads.iter().flatten().filter(|head| leads_elsewhere(head));
    let keys: Vec<Key> = links.map(|head| head.key.clone()).collect();
    let mut targets = Links::with_capacity(keys.len());
    for keys in keys.chunks(LINKS) {
        interrupt::check()?;
        let got = pack.get_many(keys)?.into_iter();
        targets
            .extend(got.map(|got| got.map(|got| got.map_or(b"?".to_vec(), |record| record.body.to_vec()))));
    }
    Ok(targets)
}

pub(super) fn fields(head: &RecordHead) -> HeadFields {
    let attributes = &head.attributes;
    HeadFields {
        body_bytes: head.body_len,
        kind: attributes.file_kind().map(|kind| match kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symlink",
            FileKind::HardLink => "hard_link",
        }),
        mode: attributes.mode(),
        mtime_ns: attributes.mtime_ns(),
        owner_user_id: attributes.owner().map(|(user, _)| user),
        owner_group_id: attributes.owner().map(|(_, group)| group),
        sequence: head.sequence,
        time_ns: head.time_ns,
    }
}

/// Columns of fixed width, since a long list cannot be held back until its widest cell is known.
pub(super) fn long_line(head: &RecordHead, group: &str, link: Option<&[u8]>) -> String {
    let attributes = &head.attributes;
    let owner = attributes.owner().map_or("-".to_owned(), |(user, group)| format!("{user}:{group}"));
    let len = head.body_len.map_or("?".to_owned(), |len| len.to_string());
    let time = attributes.mtime_ns().unwrap_or(head.time_ns);
    let group = if group.is_empty() { "-" } else { group };
    let group = crate::output::printable(group.as_bytes());
    let arrow = if head.is_hard_link() { "link to" } else { "->" };
    let link = link.map_or(String::new(), |link| format!(" {arrow} {}", escaped(link)));
    format!(
        "{}  {owner:>9}  {len:>12}  {}  {group:<8}  {}{link}",
        mode_text(attributes.file_kind(), attributes.mode()),
        time_text(time),
        head.key
    )
}

/// Ten characters as `ls -l` has them; `-` for what the record does not say.
fn mode_text(kind: Option<FileKind>, mode: Option<u32>) -> String {
    let mut text = String::with_capacity(10);
    text.push(match kind {
        Some(FileKind::Directory) => 'd',
        Some(FileKind::Symlink) => 'l',
        Some(FileKind::HardLink) => 'h',
        Some(FileKind::File) | None => '-',
    });
    let mode = mode.unwrap_or(0);
    for (shift, special_bit, special) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special_bit != 0) {
            (true, true) => special,
            (false, true) => special.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// UTC, to the second.
fn time_text(ns: i64) -> String {
    let Ok(time) = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ns)) else {
        return format!("{ns} ns");
    };
    let (date, (hour, minute, second)) = (time.date(), time.to_hms());
    let (year, month, day) = date.to_calendar_date();
    format!("{year}-{:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_ls_shows_them() {
        assert_eq!(mode_text(Some(FileKind::File), Some(0o644)), "-rw-r--r--");
        assert_eq!(mode_text(Some(FileKind::Directory), Some(0o1777)), "drwxrwxrwt");
        assert_eq!(mode_text(Some(FileKind::Symlink), Some(0o6750)), "lrwsr-s---");
        assert_eq!(mode_text(None, Some(0o1000)), "---------T");
    }

    #[test]
    fn times_before_1970_and_of_any_size_are_told() {
        assert_eq!(time_text(0), "1970-01-01 00:00:00Z");
        assert_eq!(time_text(-1), "1969-12-31 23:59:59Z");
        assert_eq!(time_text(i64::MAX), "2262-04-11 23:47:16Z");
    }
}
