//! `stook pack x.tar OUT.stook`: the members of archives, or of a tar from stdin, as records.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use stook::archive::{self, Archive, TarStream, tar_stream};
use stook::import::{Import, Imported, STREAM, Source, are_archives};
use stook::pack::{Error, OpenOptions, Pack, PackWriter, Stop, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::walk::{Decision, Kind};

use crate::archives;
use crate::commands::pack::{Args, print, select};
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, code_for};
use crate::interrupt::{Interrupted, Interruptible, interrupted};
use crate::keys;
use crate::output::printable;
use crate::packs;
use crate::progress::Unit;
use crate::select::Selection;

/// Whether the sources are archives; a mixture is refused.
///
/// # Errors
/// When only some are, or one cannot be looked at.
pub(in crate::commands) fn is_wanted(sources: &[PathBuf]) -> anyhow::Result<bool> {
    are_archives(sources).map_err(|error| match error {
        stook::import::Error::NotImported { .. } => UsageError::new(format!("{error} with --as-file")).into(),
        stook::import::Error::Mixed => UsageError::new(error.to_string()).into(),
        other => plain(other),
    })
}

/// The error as whoever met it told it.
fn plain(error: stook::import::Error) -> anyhow::Error {
    match error {
        stook::import::Error::Pack(error) => error.into(),
        stook::import::Error::Archive(error) => error.into(),
        stook::import::Error::Interrupted => Interrupted.into(),
        other => other.into(),
    }
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
    let sources = open_sources(args, context)?;
    let there = args.pack.exists();
    let mut writer = if args.dry_run { None } else { Some(open(args, there, context)?) };
    let before = match there {
        true => opened(packs::open_with(&args.pack, OpenOptions::default(), context))?,
        false => None,
    };
    let was_complete = before.as_ref().is_some_and(Pack::is_complete);
    match (&mut writer, &before) {
        (Some(writer), _) => {
            writer.set_complete(false);
            writer.publish()?;
        }
        (None, Some(before)) => before.check_writable()?,
        (None, None) => {}
    }
    let bar = context.progress("packing", Unit::Bytes, None);
    let taken = Cell::new(false);
    let import = Import {
        group,
        with_owner: rustix::process::geteuid().is_root(),
        checksum: args.checksum,
        select: Box::new(|key, kind| {
            let decided = select(selection, key, kind);
            if decided == Decision::Take && !taken.get() {
                taken.set(selection.takes_below(key, || kind == Kind::Directory));
            }
            decided
        }),
        stop: Stop(interrupted),
        progress: Box::new(|bytes| bar.add(bytes)),
    };
    let imported = import.run(sources, writer.as_mut(), before.as_ref());
    drop(import);
    drop(bar);
    let Imported { summary, left_out } = imported.map_err(plain)?;
    for key in &left_out {
        context.note(format_args!("Left out: {} is a pipe, a device or the like.", printable(key)));
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
    keys::note_unmatched(selection, context);
    let failures = summary.failures.len() as u64;
    // Directories above what is left out are asked about, too, whether or not they are members.
    let is_nothing = !taken.get() || summary.added() + summary.unchanged + left_out.len() as u64 == 0;
    match is_nothing && failures == 0 && !selection.is_all() {
        true => {
            let nothing = args.report_nothing(selection, context);
            if !there && nothing > 0 {
                args.take_back(context)?;
            }
            Ok(code_for(nothing))
        }
        false => Ok(code_for(failures)),
    }
}

/// Opens the archives, and the tar from stdin: what is none is told before anything is made.
fn open_sources(args: &Args, context: &Context) -> anyhow::Result<Vec<Source<'static>>> {
    let is_stream = |source: &PathBuf| source == Path::new(STREAM);
    let is_wanted = args.sources.iter().any(is_stream);
    if is_wanted && io::stdin().is_terminal() {
        context.note("reading a tar from this terminal; Ctrl-D ends it");
    }
    let mut stdin = match is_wanted {
        true => Some(tar_from_stdin().map_err(into_error)?),
        false => None,
    };
    let mut archives = VecDeque::new();
    for source in args.sources.iter().filter(|source| !is_stream(source)) {
        archives.push_back(archive(source, context)?);
    }
    let mut sources = Vec::new();
    for source in &args.sources {
        if is_stream(source) {
            let opened = stdin.take();
            sources.push(Source::Stream(Box::new(|| opened.map_or_else(tar_from_stdin, Ok))));
        } else {
            sources.extend(archives.pop_front().map(|archive| Source::Archive(Box::new(archive))));
        }
    }
    Ok(sources)
}

/// Opens an archive that was a file a moment ago.
fn archive(path: &Path, context: &Context) -> anyhow::Result<Archive> {
    let opened = archives::open(path, context)?;
    opened.ok_or_else(|| anyhow::anyhow!("{} is not a file any more, and was not imported", path.display()))
}

/// The tar that comes through stdin, once its first header is there.
fn tar_from_stdin() -> Result<TarStream, archive::Error> {
    tar_stream(BufReader::with_capacity(256 << 10, Interruptible::stdin()?), "stdin")
}

/// What went wrong with it; when the program was asked to stop, that.
fn into_error(error: archive::Error) -> anyhow::Error {
    if interrupted() { Interrupted.into() } else { error.into() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Global;

    #[test]
    fn what_stops_being_a_file_is_an_error_that_names_it_and_nothing_is_read_from_stdin() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::new(&Global::default());
        for gone in [directory.path().to_path_buf(), directory.path().join("gone.tar")] {
            let error = archive(&gone, &context).unwrap_err().to_string();
            assert!(error.contains(gone.to_str().unwrap()), "{error}");
        }
    }
}
