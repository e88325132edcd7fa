//! `stook ls`: the keys of a pack or an archive, in their order.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use stook::names::{ListEnd, escaped};
use stook::ops::contents::{Detail, Entry, Feature, ListOptions, Listed, Opened, PackContents};
use stook::ops::follow::wait_for_newer;
use stook::pack::{Error, FileKind, RecordHead, Stop};
use stook::report::json::{Document, TextOrBytes};
use stook::report::time::second_of;
use stook::report::units::count_of;
use stook::tree::Xattrs;

use crate::context::{Context, SHOWN_MAX};
use crate::fetch::FetchArgs;
use crate::keys::{self, Asked, KeyArgs, Order};
use crate::output::Output;
use crate::{contents, exit, interrupt, packs};

const EXAMPLES: &str = "\
Keys come in their order: byte strings, then numbers (id:1, id:2, …). Control
characters and bytes that are not UTF-8 are shown as \\xNN, a backslash as \\\\,
and the empty key, that of the directory that was packed, as bytes:. Every
command takes keys as they are shown. --null prints them as they are, but for
those that have a NUL byte: these are left out and named, with exit code 1.

--long shows mode, owner, length, time (UTC), group, and where links lead; after
the mode + for an access control list, @ for other extended attributes.
A numeric key is matched as id:N. Exit code 1 when nothing matches.

Examples:
  stook ls photos.stook
  stook ls photos.stook -l --prefix 2024/
  stook ls photos.stook 2024/              the directory, and what is below
  stook ls photos.stook --from 2024/06 --to 2024/09 --order disk
  stook ls train.tar --long
  stook ls s3://bucket/train.tar --prefix 0001
  stook ls logs.stook --follow --json
  stook ls photos.stook '*.jpg' -0 |
    stook get photos.stook --from-file - -0 --output out";

/// What `stook ls` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack, or a tar or zip archive, which may be at an address: https://…, s3://bucket/key
    pack: PathBuf,
    /// Only keys that match one of these patterns
    #[arg(value_name = "GLOB")]
    globs: Vec<String>,
    /// Mode, owner, length, time and group beside each key
    #[arg(long, short)]
    long: bool,
    #[command(flatten)]
    keys: KeyArgs,
    /// By key, or as records are on the medium
    #[arg(long, value_enum, default_value = "key")]
    order: Order,
    /// Only this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// End each key with a NUL byte, and print it as it is
    #[arg(long, short = '0', conflicts_with_all = ["long", "json"])]
    null: bool,
    /// Then keep listing records as they are put, until stopped with Ctrl-C
    #[arg(long, conflicts_with_all = ["at", "null"])]
    follow: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    key: packs::JsonKey<'a>,
    group: &'a str,
    stored_bytes: Option<u64>,
    #[serde(flatten)]
    head: Option<HeadFields>,
    #[serde(flatten)]
    link: Option<TextOrBytes<'a>>,
}

#[derive(Debug, Serialize)]
struct HeadFields {
    body_bytes: Option<u64>,
    kind: Option<&'static str>,
    mode: Option<u32>,
    mtime_ns: Option<i64>,
    owner_user_id: Option<u32>,
    owner_group_id: Option<u32>,
    xattrs: Vec<String>,
    sequence: u64,
    time_ns: i64,
}

/// Runs it.
///
/// # Errors
/// Returns an error if the pack, the archive or its index cannot be read.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let options = ListOptions {
        keys: args.keys.range()?,
        groups: args.groups.clone(),
        patterns: keys::patterns("GLOB", &args.globs)?,
        order: Some(args.order.into()),
        details: args.long,
        stop: Stop(interrupt::interrupted),
    };
    if let Some(error) = packs::no_address(&args.pack, |pack, key| {
        format!("`stook ls {pack} --prefix '{key}'` lists the keys that begin so")
    }) {
        return Err(error.into());
    }
    let opened = contents::open(&args.pack, args.view.at_ns(), &args.fetch, context)?;
    let mut features = options.features();
    features.extend(args.follow.then_some(Feature::Follow));
    contents::check(&opened, &features, &args.groups)?;
    contents::note_incomplete(&opened, context);
    let mut printer =
        Printer { args: &args, context, output: context.output(), listed: 0, hidden: 0, failures: 0 };
    printer.all(&opened, &options)?;
    let mut failures = printer.hidden + printer.failures;
    if args.follow
        && let Opened::Pack(pack) = opened
    {
        printer.output.flush()?;
        printer.follow(pack, options)?;
    } else if printer.listed == 0 && failures == 0 {
        let contents = opened.contents();
        failures += args.asked().report_nothing(contents.path(), contents.entry_name(), context);
    }
    packs::print_last_line(&mut printer.output, context)?;
    printer.output.finish()?;
    Ok(exit::code_for(failures))
}

impl Args {
    /// What is listed, where that is not everything.
    fn asked(&self) -> Asked {
        self.keys.asked().with("--group", &self.groups).with("", &self.globs)
    }
}

/// A list on its way to stdout.
struct Printer<'a> {
    args: &'a Args,
    context: &'a Context,
    output: Output,
    listed: u64,
    /// Entries that may match, but damage hides whether they do.
    hidden: u64,
    /// What could not be read of entries that are listed.
    failures: u64,
}

impl Printer<'_> {
    /// Prints all that is listed.
    fn all(&mut self, opened: &Opened, options: &ListOptions) -> anyhow::Result<()> {
        for batch in opened.contents().list(options)? {
            for listed in batch? {
                interrupt::check()?;
                match listed {
                    Listed::Hidden(error) => self.hide(&error),
                    Listed::Entry(entry) => self.entry(entry)?,
                }
            }
        }
        if self.hidden > SHOWN_MAX as u64 {
            let more = count_of(self.hidden - SHOWN_MAX as u64, "more record", "more records");
            self.context.failure(anyhow::anyhow!("… and {more} that cannot be listed").as_ref());
        }
        Ok(())
    }

    /// Damage costs the record that it hides, and the exit code.
    fn hide(&mut self, error: &Error) {
        self.hidden += 1;
        // All of them may be of one cause, which was reported.
        if self.hidden <= SHOWN_MAX as u64 {
            self.context.failure(error);
        }
    }

    fn entry(&mut self, entry: Entry<'_>) -> anyhow::Result<()> {
        self.listed += 1;
        let (head, link) = match entry.detail.map(|detail| *detail) {
            None => (None, None),
            Some(Detail { head, link }) => {
                let link = link.unwrap_or_else(|error| {
                    self.failures += 1;
                    self.context.failure(&error);
                    Some(b"?".into())
                });
                match head {
                    Ok(head) => (Some(head), link),
                    Err(error) => {
                        self.failures += 1;
                        self.context.failure(&error);
                        return Ok(());
                    }
                }
            }
        };
        self.line(&Entry { detail: None, ..entry }, head.as_ref(), link.as_deref())
    }

    fn line(
        &mut self,
        entry: &Entry<'_>,
        head: Option<&RecordHead>,
        link: Option<&[u8]>,
    ) -> anyhow::Result<()> {
        let Entry { key, group, stored_bytes, .. } = entry;
        if self.context.json() {
            let line = Line {
                key: packs::JsonKey(key),
                group,
                stored_bytes: *stored_bytes,
                head: head.map(fields),
                link: link.map(|link| TextOrBytes::new("link", link)),
            };
            self.output.json_line(&Document::new("ls", line))?;
        } else if self.args.null {
            match key.listed(ListEnd::Nul) {
                Ok(key) => self.output.bytes(&[&key[..], b"\0"].concat())?,
                Err(error) => {
                    self.failures += 1;
                    self.context.failure(&error);
                }
            }
        } else if let Some(head) = head {
            self.output.line(long_line(head, group, link))?;
        } else {
            self.output.line(key)?;
        }
        Ok(())
    }

    /// Lists records as they are put, until it is stopped.
    fn follow(&mut self, mut seen: Box<PackContents>, mut options: ListOptions) -> anyhow::Result<()> {
        options.details = self.args.long || self.context.json();
        let open = || packs::open(&self.args.pack, self.context);
        while let Some(newer) = wait_for_newer(seen.pack(), &mut || !interrupt::interrupted(), open)? {
            let newer = Box::new(PackContents::new(newer, &self.args.pack));
            for Entry { key, group, stored_bytes, detail } in newer.put_since(&seen, &options)? {
                let detail = detail.map(|detail| Ok::<_, Error>((detail.head?, detail.link?))).transpose()?;
                let entry = Entry { key, group, stored_bytes, detail: None };
                let (head, link) = detail.unzip();
                self.line(&entry, head.as_ref(), link.flatten().as_deref())?;
            }
            self.output.flush()?;
            seen = newer;
        }
        Ok(())
    }
}

fn fields(head: &RecordHead) -> HeadFields {
    let attributes = &head.attributes;
    let xattrs = attributes.xattrs();
    let xattrs = xattrs.as_slice();
    HeadFields {
        body_bytes: head.body_len,
        kind: attributes.file_kind().map(FileKind::as_str),
        mode: attributes.mode(),
        mtime_ns: attributes.mtime_ns(),
        owner_user_id: attributes.owner().map(|(user, _)| user),
        owner_group_id: attributes.owner().map(|(_, group)| group),
        xattrs: xattrs.iter().map(|xattr| escaped(&xattr.name).to_string()).collect(),
        sequence: head.sequence,
        time_ns: head.time_ns,
    }
}

/// Columns of fixed width, since a long list cannot be held back until its widest cell is known.
fn long_line(head: &RecordHead, group: &str, link: Option<&[u8]>) -> String {
    let attributes = &head.attributes;
    let owner = attributes.owner().map_or("-".to_owned(), |(user, group)| format!("{user}:{group}"));
    let len = head.body_len.map_or("?".to_owned(), |len| len.to_string());
    let time = attributes.mtime_ns().unwrap_or(head.time_ns);
    let group = if group.is_empty() { "-" } else { group };
    let group = crate::output::printable(group.as_bytes());
    let arrow = if head.is_hard_link() { "link to" } else { "->" };
    let link = link.map_or(String::new(), |link| format!(" {arrow} {}", escaped(link)));
    format!(
        "{}{} {owner:>9}  {len:>12}  {:<20}  {group:<8}  {}{link}",
        mode_text(attributes.file_kind(), attributes.mode()),
        xattrs_mark(&attributes.xattrs()),
        second_of(time),
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

/// After the mode: `+` where there is an access control list, `@` where there are only other
/// extended attributes.
fn xattrs_mark(xattrs: &Xattrs) -> char {
    match (xattrs.has_acl(), xattrs.is_empty()) {
        (true, _) => '+',
        (false, false) => '@',
        (false, true) => ' ',
    }
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
}
