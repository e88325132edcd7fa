//! Packs and archives given to the commands that read either: opening, with notes, and errors for
//! features that archives lack, by option.

use std::path::Path;

use stook::archive::Archive;
use stook::ops::contents::{
    Error, Feature, OpenOptions, Opened, Unsupported, cut_off_note, index_notes, is_object,
    open as open_contents,
};
use stook::pack::Key;

use crate::context::Context;
use crate::exit::UsageError;
use crate::fetch::{self, FetchArgs};
use crate::interrupt::{interrupted, wait_for};
use crate::progress::Unit;

/// Opens what a path or an address is, at its state of a time (in ns) if one is given, and notes
/// what is to be known of it. Damage of a pack is noted from now on.
///
/// # Errors
/// Returns an error if it is neither, or cannot be read; if an archive has no such state; or if
/// options for objects are given for a path.
pub(crate) fn open(
    path: &Path,
    at_ns: Option<i64>,
    fetch: &FetchArgs,
    context: &Context,
) -> anyhow::Result<Opened> {
    let mut options = OpenOptions::default();
    options.pack.at_ns = at_ns;
    let opened = if is_object(path) {
        let (path, fetch) = (path.to_path_buf(), fetch.clone());
        wait_for(move || {
            fetch.set(&mut options)?;
            open_contents(path, options, &mut |_| !interrupted()).map_err(by_option)
        })??
    } else {
        fetch.refuse(path)?;
        let len = std::fs::metadata(path).map_or(0, |found| found.len());
        let bar = context.progress("indexing", Unit::Bytes, Some(len));
        let opened = open_contents(path, options, &mut |bytes| {
            bar.add(bytes.saturating_sub(bar.done()));
            !interrupted()
        });
        drop(bar);
        opened.map_err(by_option)?
    };
    match &opened {
        Opened::Pack(contents) => context.watch(contents.pack().damage_log()),
        Opened::Archive(archive) => {
            note_index(archive, context);
            // No command ends as if it were whole, whatever it gives out.
            if let Some(text) = archive.damage().and_then(|_| cut_off_note(archive)) {
                context.note_damaged_archive();
                context.failure(anyhow::anyhow!("{text}").as_ref());
            }
        }
    }
    Ok(opened)
}

/// Prints the notes on the index of an archive that was opened.
pub(crate) fn note_index(archive: &Archive, context: &Context) {
    index_notes(archive).into_iter().for_each(|note| context.note(note));
}

/// Reports that anything may be missing from what is given out as a whole: the library counts that
/// as a failure.
pub(crate) fn report_incomplete(opened: &Opened, context: &Context) {
    if let Some(text) = incomplete(opened) {
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
}

/// The same where opening it reported nothing: what is missing counts as a failure.
pub(crate) fn report_cut_off(opened: &Opened, context: &Context) -> u64 {
    let text = match opened {
        _ if opened.contents().is_complete() => return 0,
        Opened::Archive(archive) => cut_off_note(archive),
        Opened::Pack(_) => Some(incomplete_pack(opened.contents().path())),
    };
    text.iter().for_each(|text| context.failure(anyhow::anyhow!("{text}").as_ref()));
    1
}

/// Reports that a pack is incomplete.
pub(crate) fn report_incomplete_pack(path: &Path, context: &Context) {
    context.failure(anyhow::anyhow!("{}", incomplete_pack(path)).as_ref());
}

/// Notes the same for a command that gives out what it was asked for by name.
pub(crate) fn note_incomplete(opened: &Opened, context: &Context) {
    if let Some(text) = incomplete(opened) {
        context.note(format_args!("{text}."));
    }
}

/// What is missing, or may be, and what helps.
fn incomplete(opened: &Opened) -> Option<String> {
    let contents = opened.contents();
    match opened {
        _ if contents.is_complete() => None,
        // Reported when it was opened.
        Opened::Archive(archive) if archive.damage().is_some() => None,
        Opened::Pack(_) => Some(incomplete_pack(contents.path())),
        Opened::Archive(archive) => cut_off_note(archive),
    }
}

fn incomplete_pack(path: &Path) -> String {
    format!(
        "{} is incomplete: run the `stook pack` that was building it again, or accept it as it is with \
         `stook check --accept`",
        path.display()
    )
}

/// Why one file, or stdout, cannot take a directory of a pack or an archive.
pub(crate) fn is_directory(path: &Path, key: &Key) -> anyhow::Error {
    let path = path.display();
    let within = match key.as_bytes() {
        None | Some(b"") => String::new(),
        Some(_) => format!(" --prefix '{key}/'"),
    };
    anyhow::anyhow!("{key} is a directory; `stook unpack {path} DIR{within}` writes what is in it into DIR")
}

/// Checks that contents have the features that the options of a command need.
///
/// # Errors
/// Returns a [`UsageError`] that names the first option that is only for packs, or an error for a
/// missing group.
pub(crate) fn check(opened: &Opened, features: &[Feature], groups: &[String]) -> anyhow::Result<()> {
    let contents = opened.contents();
    contents.check_groups(groups).map_err(by_option)?;
    contents.check_features(features).map_err(|lacks| by_option(lacks.into()))
}

/// A note for a command that reads single members of contents without random access.
pub(crate) fn note_if_sequential(opened: &Opened, context: &Context) {
    if opened.contents().is_sequential() {
        context.note(format_args!(
            "{} is compressed as a whole, so it is read from its front; `stook pack` makes a pack of it.",
            opened.contents().path().display()
        ));
    }
}

/// The error, with the option that requested a feature, or the one that helps.
pub(crate) fn by_option(error: Error) -> anyhow::Error {
    if let Error::Archive(stook::archive::Error::Core(core)) = &error
        && let Some(advised) = fetch::advised(core)
    {
        return advised;
    }
    let Error::Unsupported(Unsupported { feature, path, format }) = error else { return error.into() };
    let option = match feature {
        Feature::EarlierStates => {
            return UsageError::new("--at is for packs: an archive keeps no earlier states").into();
        }
        Feature::Groups => "--group",
        Feature::ListByPlace => "--order disk",
        Feature::Follow => "--follow",
        Feature::LoadByKey => "--order key",
        Feature::LoadOfKeys => "a range of keys",
        Feature::Parts => "--split",
        Feature::Threads => "--threads",
        Feature::Limit => "--max-records",
        Feature::Cursors => "--cursor",
    };
    UsageError::new(format!("{option} is for packs, and {} is a {format}", path.display())).into()
}
