//! `stook copy SRC… DST`: trees into one directory or several, each file read once.

mod bar;
mod events;
mod json;
mod repair;
mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stook::copy::{CopyOptions, HashKind, Resume};
use stook::format::mhl::KINDS;
use stook::ops::contents::is_object;
use stook::ops::copy::{CopyGiven, Error, OpenGiven, read_list};
use stook::source::AccessRule;

use self::events::Events;
pub(super) use self::text::print_failures;
use super::unpack::{When, Which};
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, check_places, code_for};
use crate::fetch::{FetchArgs, parse_size};
use crate::select::SelectArgs;
use crate::{contents, given, keys, packs};

/// Copies files and trees to one directory or several, in one read
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stook copy [OPTIONS] <SRC>... <DIR>",
    after_help = "\
What goes where; trailing slashes change nothing:
  stook copy card disk                 one directory: what is in `card` goes into `disk`
  stook copy card notes disk           several: disk/card and disk/notes
  stook copy take.mov disk             a file: disk/take.mov
  stook copy photos.stook disk         what is in a pack
  stook copy x.tar// disk              what is in an archive; x.tar is a file

Examples:
  stook copy card disk --to spare      two disks, and the card is read once
  stook copy card disk --dry-run       what would be done, and why
  stook copy photos backup --overwrite different --mirror
                                       make the copy what the original is
  stook copy https://host/x.bin disk   an object, as disk/x.bin
  stook copy card disk --list=sha256,xxh3
                                       with checksums that other programs verify
  stook copy good disk --repair        what the lists in `disk` say, and it has not

A name always has the whole file: files get theirs when their bytes are on the medium. Run again after an interruption,
what is there with the same length and time is skipped, and a large file that was cut off is continued. Existing files
that differ are kept and named (exit code 1), unless --overwrite says which are replaced; directories get mode and time
of their source. One bad file, and one full or failing destination, stop only themselves. Only root sets owners."
)]
pub struct Args {
    /// What to copy, then the directory to copy it to
    #[arg(value_name = "PATH", required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// One more directory to copy to; may be given more than once
    #[arg(long, value_name = "DIR")]
    to: Vec<PathBuf>,
    /// Show what would be done, and why
    #[arg(long)]
    dry_run: bool,
    /// Compute these of each file that is read, and print them with --verbose: xxh3, xxh128, xxh64,
    /// blake3, sha256, sha1, md5, c4
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_hash)]
    hash: Vec<HashKind>,
    /// Write lists of checksums beside the copy, for `sha256sum -c` and the like: sha256, or those
    /// of --hash
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "sha256",
          value_delimiter = ',', value_parser = parse_hash)]
    list: Vec<HashKind>,
    /// Write a list of ASC MHL at the end: xxh128, or c4, md5, sha1, xxh3, xxh64
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "xxh128",
          value_delimiter = ',', value_parser = parse_mhl_hash)]
    mhl: Vec<HashKind>,
    /// Read again from the medium what was written, and compare it, before --mirror deletes
    /// anything. Files that were there already are not read: `stook verify` does that
    #[arg(long)]
    read_back: bool,
    /// Write the proofs of files of more than 1 MiB beside a list of BLAKE3, which is written, too.
    /// `stook verify` names the bad megabytes of a damaged file by them, and --repair reads only
    /// these
    #[arg(long)]
    proof: bool,
    /// Repair DIR by its own lists: what they say and it does not have is copied from SRC, a good
    /// copy; of a file with a proof only the megabytes that are bad
    #[arg(long, conflicts_with_all = ["hash", "list", "mhl", "proof", "read_back", "events", "include", "exclude",
          "files_from", "overwrite", "checksum", "backup", "mirror", "link_dest", "bwlimit", "specials",
          "one_file_system"])]
    repair: bool,
    /// Write what fits, even if there is too little space for all of it; with --mirror, delete
    /// whatever is extra; with --repair, write the megabytes that the good copy has of a file, even
    /// if it lacks others
    #[arg(long)]
    force: bool,
    /// Name every path that is copied, all failures and every existing file with different content,
    /// not the first ten of each
    #[arg(long)]
    verbose: bool,
    /// With --json, print JSON lines while it is copied; the last is the document
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    what: WhatArgs,
    #[command(flatten)]
    existing: ExistingArgs,
    #[command(flatten)]
    tuning: TuningArgs,
    #[command(flatten, next_help_heading = "Objects on servers")]
    fetch: FetchArgs,
}

/// What is copied.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is copied")]
struct WhatArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Copy only the paths that are listed in this file, one a line, relative to SRC; `-` is stdin
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Paths of that file end in a NUL byte, not in a newline
    #[arg(long, short = '0', alias = "from0", requires = "files_from")]
    null: bool,
    /// Leave out what is mounted in a directory
    #[arg(long)]
    one_file_system: bool,
    /// Make pipes, and as root devices; otherwise they are listed
    #[arg(long)]
    specials: bool,
    /// Do not set owners (only root does)
    #[arg(long)]
    no_owner: bool,
    /// Leave out extended attributes, access control lists among them
    #[arg(long)]
    no_xattrs: bool,
    /// Copy the files that packs are made of, not what is in them
    #[arg(long)]
    as_file: bool,
    #[command(flatten)]
    view: packs::View,
}

/// What becomes of what is there.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is there already")]
struct ExistingArgs {
    /// Which existing files are replaced
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Never)]
    overwrite: Which,
    /// Compare bytes, where length and time are the same
    #[arg(long)]
    checksum: bool,
    /// Keep what is replaced or deleted under its name with this at the end
    #[arg(long, value_name = "SUFFIX", num_args = 0..=1, require_equals = true, default_missing_value = "~")]
    backup: Option<std::ffi::OsString>,
    /// Delete what only the destination has, once everything is copied
    #[arg(long)]
    mirror: bool,
    /// With --mirror, delete up to this many files, even if that is more than half of those that
    /// were there
    #[arg(long, value_name = "N", requires = "mirror", conflicts_with = "force",
        value_parser = packs::number::<u64>(0..=u64::MAX))]
    max_delete: Option<u64>,
    /// Make hard links to the files of an earlier copy that are unchanged
    #[arg(long, value_name = "DIR")]
    link_dest: Option<PathBuf>,
}

/// How fast, and how safely.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Durability and speed")]
struct TuningArgs {
    /// When files are on the medium
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Batch)]
    durability: When,
    /// Bytes a second that are read, at most: 4KiB at least, as in 50MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    bwlimit: Option<u64>,
    /// Length of one read or write of a large file
    #[arg(long, value_name = "SIZE", value_parser = parse_block)]
    block_size: Option<u64>,
    /// Reads and writes of a large file in flight
    #[arg(long, value_name = "N", value_parser = packs::number::<usize>(1..=256))]
    depth: Option<usize>,
    /// Small files copied at once
    #[arg(long, value_name = "N", value_parser = packs::number::<usize>(1..=256))]
    jobs: Option<usize>,
    /// Which bytes pass by the page cache
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Direct::Auto)]
    direct: Direct,
}

/// Whether bytes pass by the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Direct {
    /// Those of large files that are not cached
    Auto,
    /// All that can
    Always,
    /// None
    Never,
}

pub(super) fn parse_hash(text: &str) -> Result<HashKind, String> {
    let found = HashKind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("expected {}", HashKind::ALL.map(HashKind::name).join(", ")))
}

fn parse_block(text: &str) -> Result<u64, String> {
    let is_block = |bytes: &u64| (4096..=16 << 20).contains(bytes) && bytes.is_multiple_of(4096);
    let what = "expected a multiple of 4 KiB, from 4 KiB to 16 MiB";
    parse_size(text).and_then(|bytes| Some(bytes).filter(is_block).ok_or_else(|| what.into()))
}

fn parse_limit(text: &str) -> Result<u64, String> {
    let what = "expected at least 4 KiB a second, as in 50MiB";
    let is_meant = |bytes: &u64| *bytes >= CopyOptions::BYTES_PER_S_MIN;
    parse_size(text).and_then(|bytes| Some(bytes).filter(is_meant).ok_or_else(|| what.into()))
}

/// The functions that a list of ASC MHL may have. Of the others it is said later why not.
pub(super) fn parse_mhl_hash(text: &str) -> Result<HashKind, String> {
    parse_hash(text).map_err(|_| format!("expected {}", KINDS.map(HashKind::name).join(", ")))
}

/// Refuses a path that is the name of a hash function and is not there: it was meant for the first
/// of the options that is given.
pub(super) fn refuse_hashes(paths: &[PathBuf], options: [(&str, bool); 2]) -> anyhow::Result<()> {
    let Some((option, _)) = options.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let is_hash = |path: &&PathBuf| path.to_str().is_some_and(|text| parse_hash(text).is_ok());
    match paths.iter().filter(is_hash).find(|path| path.symlink_metadata().is_err()) {
        Some(path) => {
            let name = path.display();
            Err(UsageError::new(format!(
                "{name} is a hash function, and there is no such path: write it after `=`, as in {option}={name}"
            ))
            .into())
        }
        None => Ok(()),
    }
}

/// Copies.
///
/// # Errors
/// Returns an error if something is refused before it is begun, or cannot be opened, or arguments
/// are invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.events && !context.json() {
        return Err(UsageError::new("--events prints JSON lines: give --json, too").into());
    }
    refuse_hashes(&args.paths, [("--list", !args.list.is_empty()), ("--mhl", !args.mhl.is_empty())])?;
    check_places(&args.paths, "copy", "the directory to copy it to")?;
    let options = args.options()?;
    let asked = options.clone();
    let Some((destination, sources)) = args.paths.split_last() else {
        return Err(UsageError::new("at least one source and one destination are needed").into());
    };
    if args.repair {
        let destinations = [std::slice::from_ref(destination), args.to.as_slice()].concat();
        return repair::run(&args, sources, destinations, context);
    }
    if args.fetch.is_given() && !sources.iter().any(is_object) {
        let first = sources.first().map(PathBuf::as_path).unwrap_or(destination);
        args.fetch.refuse(first)?;
    }
    let mut open = OpenGiven {
        as_file: args.what.as_file,
        one_file_system: args.what.one_file_system,
        ..OpenGiven::default()
    };
    open.contents.pack.at_ns = args.what.view.at_ns();
    let open = |source: &PathBuf| given::open(source, &open, &args.fetch, error_of, context);
    let sources = sources.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let destinations = [std::slice::from_ref(destination), args.to.as_slice()].concat();
    let mut events = Events::new(&args, &destinations, context);
    let (destinations, read_back) = (destinations.clone(), args.read_back);
    let report = CopyGiven { sources, destinations, options, read_back }.run(&mut events);
    let (output, items) = events.finish();
    let report = report.map_err(error_of)?;
    print_failures(&report, args.verbose, context);
    let mut output = output?;
    match (context.json(), args.events) {
        (true, true) => {
            packs::print_json_line(&mut output, "copy", json::document(&report, &[], &args), context)?
        }
        (true, false) => {
            packs::print_json(&mut output, "copy", json::document(&report, &items, &args), context)?
        }
        (false, _) => text::print(&report, &args, &mut output, context)?,
    }
    output.finish()?;
    if report.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    keys::note_unmatched(&asked.selection, context);
    if report.found_nothing(&asked) {
        context.failure(anyhow::anyhow!("nothing matches what was asked for").as_ref());
        return Ok(code_for(1));
    }
    Ok(code_for(report.undone()))
}

/// Of the library's errors those that the command line has its own for.
fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Copy(error) if error.is_usage() => UsageError::new(error.to_string()).into(),
        Error::Open(error) => contents::by_option(error),
        error => error.into(),
    }
}

impl Args {
    fn options(&self) -> anyhow::Result<CopyOptions> {
        Ok(CopyOptions {
            overwrite: self.existing.overwrite.into(),
            checksum: self.existing.checksum,
            durability: self.tuning.durability.into(),
            backup: self.existing.backup.clone(),
            mirror: self.existing.mirror,
            max_delete: self.existing.max_delete,
            dry_run: self.dry_run,
            keep_directories: false,
            selection: self.what.select.selection()?,
            only: match &self.what.files_from {
                Some(path) => self.listed(path)?,
                None => None,
            },
            link_dest: self.existing.link_dest.clone(),
            with_owner: !self.what.no_owner,
            xattrs: !self.what.no_xattrs,
            specials: self.what.specials,
            hashes: self.hash.clone(),
            lists: self.list.clone(),
            proofs: self.proof,
            mhl: Some(self.mhl.clone()).filter(|kinds| !kinds.is_empty()),
            block_bytes: self.tuning.block_size,
            depth: self.tuning.depth,
            jobs: self.tuning.jobs,
            access: match self.tuning.direct {
                Direct::Auto => AccessRule::Auto,
                Direct::Always => AccessRule::Direct,
                Direct::Never => AccessRule::Cached,
            },
            bytes_per_s: self.tuning.bwlimit,
            force: self.force,
            resume: Some(Resume::default()),
        })
    }

    /// The paths of a list.
    fn listed(&self, path: &Path) -> anyhow::Result<Option<BTreeSet<Vec<u8>>>> {
        let (list, shown) = keys::open_list(path)?;
        read_list(list, keys::list_end(self.what.null), &shown).map_err(error_of)
    }
}
