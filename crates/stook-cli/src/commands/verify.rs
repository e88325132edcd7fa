//! `stook verify TREE…`: whether trees have the bytes that lists, or another tree, say.

mod events;
mod json;
mod range;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stook::hash::HashKind;
use stook::ops::contents::{Span, is_object};
use stook::ops::verify::{Error, OpenGiven, VerifyGiven, open_each};
use stook::verify::VerifyOptions;

use self::events::Events;
use super::cat::parse_range;
use super::copy::{parse_hash, parse_mhl_hash, refuse_hashes};
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, chain, code_for};
use crate::fetch::FetchArgs;
use crate::interrupt::Interrupted;
use crate::{given, packs};

/// Verifies trees against their lists, or against another tree
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stook verify [OPTIONS] [TREE]...",
    after_help = "\
Examples:
  stook verify disk                    against the lists in `disk`
  stook verify disk spare              two disks at once
  stook verify disk --list card.sha256
  stook verify --list disk/SHA256SUMS  what the list says of the files beside it
  stook verify disk --against card     any two trees, byte for byte
  stook verify photos.stook --against photos
  stook verify disk --make-list        write a list of what is there
  stook verify disk --make-list --accept notes/todo.txt   it was changed on purpose
  stook verify disk --mhl              the next generation of its ASC MHL
  stook verify disk --proof            that shows later which megabytes are bad
  stook verify --range 5GiB..6GiB disk/film.mov
  stook verify disk --json | jq '.trees[].mismatching[].key'

A directory or a file without lists of its own is held against those of the nearest directory above that have it.

Lists that are found at the top of a tree: checksums-*.sha256 and what else `stook copy` writes, SHA256SUMS, *.sha256,
*.md5, *.b3, *.xxh128 and the like, shasum*.txt of dircopy, and ascmhl/. Of a file that several lists have, the newest
one counts: by the date in its name, else by its modification time. Lists know files only, and --against compares kinds
and targets of links as well. Modes, owners and times are never compared.

Files are read past the page cache, so that the medium is verified and not the memory: whether that was possible is said
at the end. --cached reads what is in memory from there.

Exit code 1 if anything does not match, is missing, cannot be read, or is there although nothing says so (unless
--allow-extra), and if a line of a list is bad; 2 if there is nothing to verify with."
)]
pub struct Args {
    /// What to verify: directories, files, packs, archives with two slashes (`x.tar//`), objects;
    /// without any, the directories that the lists are in
    #[arg(value_name = "TREE")]
    trees: Vec<PathBuf>,
    /// A list to verify with, in place of those that a tree has; its paths are relative to TREE.
    /// May be given more than once; `-` is standard input
    #[arg(long, value_name = "FILE")]
    list: Vec<PathBuf>,
    /// A tree that each TREE should be like
    #[arg(long, value_name = "SRC")]
    against: Option<PathBuf>,
    /// Write a list of what matches, and of what no list has, into each TREE: sha256, or those that
    /// are named (xxh3, xxh128, xxh64, blake3, sha1, md5, c4)
    #[arg(long, value_name = "HASH", value_delimiter = ',', value_parser = parse_hash, num_args = 0..=1,
          require_equals = true, default_missing_value = "sha256")]
    make_list: Vec<HashKind>,
    /// The same as the next generation of an ASC MHL: xxh128, or c4, md5, sha1, xxh3, xxh64
    #[arg(long, value_name = "HASH", value_delimiter = ',', value_parser = parse_mhl_hash, num_args = 0..=1,
          require_equals = true, default_missing_value = "xxh128")]
    mhl: Vec<HashKind>,
    /// Write the proofs of files of more than 1 MiB beside a list of BLAKE3, which is made, too.
    /// With them the bad megabytes of a damaged file are named, and --range verifies a part of it
    #[arg(long)]
    proof: bool,
    /// Of what was changed or deleted on purpose, with --make-list: a path in TREE, or a directory
    /// with all that is in it. The new list has it as it is, and replaces older ones made here. May
    /// be given more than once
    #[arg(long, value_name = "PATH")]
    accept: Vec<PathBuf>,
    /// Verify only this part of each TREE, which are files, by the proof beside their list: the
    /// megabytes in which it lies are read (`5MiB..6MiB`, `1GB..`)
    #[arg(long, value_name = "A..B", value_parser = parse_range, requires = "trees",
          conflicts_with_all = ["against", "make_list", "mhl", "proof", "list", "as_file"])]
    range: Option<Span>,
    /// Read through the page cache
    #[arg(long)]
    cached: bool,
    /// What nothing says should be there is no failure
    #[arg(long)]
    allow_extra: bool,
    /// Threads that read and hash the files of one tree
    #[arg(long, value_name = "N", value_parser = packs::number::<usize>(1..=256))]
    jobs: Option<usize>,
    /// Verify the files that packs are made of, not what is in them
    #[arg(long)]
    as_file: bool,
    /// Name everything that is wrong, not the first ten of each kind, with the checksums
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Verifies.
///
/// # Errors
/// Returns an error if something cannot be opened, there is nothing to verify with, or arguments
/// are invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let options = [("--make-list", !args.make_list.is_empty()), ("--mhl", !args.mhl.is_empty())];
    refuse_hashes(&args.trees, options)?;
    let named = || args.trees.iter().chain(&args.against);
    if args.fetch.is_given() && !named().any(is_object) {
        args.fetch.refuse(named().next().map_or(Path::new("."), PathBuf::as_path))?;
    }
    if let Some(span) = args.range {
        return range::run(&args, span, context);
    }
    let mut open = OpenGiven { as_file: args.as_file, ..OpenGiven::default() };
    open.contents.pack.at_ns = args.view.at_ns();
    let open =
        |path: &PathBuf| given::open(path, &open, &args.fetch, |error| error_of(error.into()), context);
    let (trees, unopened) =
        open_each(&args.trees, open, |error| error.is::<Interrupted>(), |error| chain(error.as_ref()))?;
    let verify = VerifyGiven {
        trees,
        unopened,
        lists: args
            .list
            .iter()
            .map(|list| if is_stdin(list) { "/dev/stdin".into() } else { list.clone() })
            .collect(),
        against: args.against.as_ref().map(open).transpose()?,
        make: args.make_list.clone(),
        mhl: Some(args.mhl.clone()).filter(|kinds| !kinds.is_empty()),
        proofs: args.proof,
        accept: args.accept.clone(),
        options: VerifyOptions { cached: args.cached, jobs: args.jobs, ..VerifyOptions::default() },
    };
    let mut events = Events::new(context);
    let verified = verify.run(&mut events);
    drop(events);
    let verified = verified.map_err(error_of)?;
    let mut output = context.output();
    text::print_problems(&verified, args.verbose, context);
    match context.json() {
        true => {
            let document = json::document(&verified, args.allow_extra);
            packs::print_json(&mut output, "verify", document, context)?;
        }
        false => text::print(&verified, &args, &mut output, context)?,
    }
    output.finish()?;
    if verified.report.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code_for(verified.wrong(args.allow_extra)))
}

/// Whether a path means standard input.
fn is_stdin(list: &PathBuf) -> bool {
    list == Path::new("-")
}

/// The directory that a path is in.
fn above(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Of the library's errors those that the command line has its own for.
pub(super) fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::NoList(path) => UsageError::new(format!(
            "{} has no list of checksums: give one with --list FILE, compare it with --against SRC, or make one \
             with --make-list",
            path.display()
        ))
        .into(),
        Error::Nothing => {
            UsageError::new("name a TREE (`stook verify .`), or a list with --list FILE").into()
        }
        Error::IsList(path) => UsageError::new(format!(
            "{path} is a list of checksums: `stook verify --list {path}` verifies what it has",
            path = path.display()
        ))
        .into(),
        Error::IsHistory(path) => UsageError::new(format!(
            "{} has the lists of the directory that it is in: name that, as in `stook verify {}`",
            path.display(),
            above(&path).display()
        ))
        .into(),
        // Its code is that of an argument that makes no sense.
        Error::Open(stook::ops::copy::Error::Core(error @ stook::Error::NotAPath { .. })) => error.into(),
        Error::NotListed(_) | Error::NoProof(_) => UsageError::new(format!(
            "{error}: `stook verify --proof` makes both, of what is there"
        ))
        .into(),
        Error::EmptyList(_)
        | Error::ListedAbove { .. }
        | Error::NotUsed { .. }
        | Error::NotWhole { .. }
        | Error::NoPlace(_)
        | Error::Verify(stook::verify::Error::Kinds { .. } | stook::verify::Error::Invalid(_))
        | Error::Open(stook::ops::copy::Error::Copy(stook::copy::Error::Invalid(_))) => {
            UsageError::new(error.to_string()).into()
        }
        error => error.into(),
    }
}
