//! `stook info` of an archive. It has other numbers than a pack: no generations, groups or
//! segments, but kinds of members and an index that may lie beside it.

use std::process::ExitCode;

use serde::Serialize;
use stook::archive::{Archive, Format, Origin};
use stook::ops::contents::MemberCounts;
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::{bytes_decimal, count, count_of};

use crate::context::Context;
use crate::packs;

#[derive(Debug, Serialize)]
struct Info<'a> {
    format: String,
    sequential: bool,
    complete: bool,
    file_bytes: u64,
    members: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    other: u64,
    sparse: u64,
    body_bytes: u64,
    stored_bytes: u64,
    replaced: u64,
    index: &'static str,
    #[serde(flatten)]
    index_path: Option<TextOrBytes<'a>>,
    index_bytes: u64,
}

/// Shows what is in it.
///
/// # Errors
/// Returns an error if stdout cannot be written.
pub(super) fn run(archive: &Archive, context: &Context) -> anyhow::Result<ExitCode> {
    let path = archive.index_path();
    let info = gather(archive, path.as_deref().map(|path| packs::json_path("index_path", path)));
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("archive_info", info))?;
        output.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    output.line(format_args!("{}: {}", archive.path().display(), info.format))?;
    output.line(format_args!(
        "{}: {}, {}, {}, {}, {} other",
        count_of(info.members, "member", "members"),
        count_of(info.files, "file", "files"),
        count_of(info.directories, "directory", "directories"),
        count_of(info.symlinks, "symbolic link", "symbolic links"),
        count_of(info.hard_links, "hard link", "hard links"),
        count(info.other)
    ))?;
    let [body, stored, file] = [info.body_bytes, info.stored_bytes, info.file_bytes].map(bytes_decimal);
    let packed = if body == stored { String::new() } else { format!(" in {stored}") };
    output.line(format_args!("{body} of bodies{packed}; the file has {file}"))?;
    if info.replaced > 0 {
        output.line(format_args!(
            "{} replaced by later ones",
            count_of(info.replaced, "member was", "members were")
        ))?;
    }
    output.line(match archive.is_sequential() {
        true => "it is compressed as a whole: a get reads it from its front",
        false => "members are read where they lie",
    })?;
    output.line(format_args!("index: {}", index_text(archive, info.index_bytes)))?;
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn gather<'a>(archive: &Archive, index_path: Option<TextOrBytes<'a>>) -> Info<'a> {
    let (summary, counts) = (archive.index().summary(), MemberCounts::of(archive));
    Info {
        format: archive.format().to_string(),
        sequential: archive.is_sequential(),
        complete: archive.has_end(),
        file_bytes: archive.file_bytes(),
        members: archive.len(),
        files: counts.files,
        directories: counts.directories,
        symlinks: counts.symlinks,
        hard_links: counts.hard_links,
        other: counts.other,
        sparse: counts.sparse,
        body_bytes: counts.body_bytes,
        stored_bytes: counts.stored_bytes,
        replaced: summary.replaced,
        index: match archive.origin() {
            Origin::Directory => "directory",
            Origin::Sidecar => "sidecar",
            Origin::Made { not_kept: None, .. } => "made",
            Origin::Made { .. } => "in_memory",
        },
        index_path,
        index_bytes: archive.index().bytes().len() as u64,
    }
}

fn index_text(archive: &Archive, len: u64) -> String {
    let (path, len) = (archive.index_path().unwrap_or_default(), bytes_decimal(len));
    match archive.origin() {
        Origin::Directory if archive.format() == Format::Layout => format!("the layout ({len} in memory)"),
        Origin::Directory => format!("the directory of the zip ({len} in memory)"),
        Origin::Sidecar => format!("{} ({len})", path.display()),
        Origin::Made { not_kept: None, .. } => format!("{} ({len}), made just now", path.display()),
        Origin::Made { .. } => format!("in memory only ({len})"),
    }
}
