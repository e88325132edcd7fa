//! `stook put`: one file, or what comes through stdin, into a pack.
//!
//! When it returns, the record is on the medium. When it fails, nothing of it counts.

mod batch;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stook::pack::input::{self, FileInput, Input};
use stook::pack::{Attributes, Key, PackWriter};
use stook::report::units::bytes_decimal;

use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt::{self, Interruptible};
use crate::packs;
use crate::progress::{Progress, Unit};

const EXAMPLES: &str = "\
Creates the pack if it does not exist (not with --no-create). An older record
with this key is replaced. The mode and modification time of a file are stored
with it; it must not change while it is read. The key `id:7` is the number 7,
and `bytes:id:7` the text.

Examples:
  stook put photos.stook 2024/cat.jpg cat.jpg
  tar c src | stook put backups.stook src.tar
  stook put log.stook id:7 event.json --group events --attr source=web
  ./export.py | stook put log.stook --batch

--batch takes many records and deletions from one stream, whose format is
described in docs/formats/records-v1.md. Readers see all of them at once; if the
stream is truncated or invalid, or at Ctrl-C, none of it is applied.";

/// What `stook put` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack
    pack: PathBuf,
    /// The key of the record
    #[arg(required_unless_present = "batch")]
    key: Option<OsString>,
    /// The file to read; stdin if it is `-` or not given
    file: Option<PathBuf>,
    /// The group to put it into
    #[arg(long, value_name = "NAME", default_value = "")]
    group: String,
    /// An attribute of the record, as text; may be given more than once
    #[arg(long = "attr", value_name = "NAME=VALUE")]
    attributes: Vec<String>,
    /// Put all records of a stream at once; from stdin if FILE is `-` or not given
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-",
        conflicts_with_all = ["key", "file", "attributes"])]
    batch: Option<PathBuf>,
    /// Fail when there is no pack yet
    #[arg(long)]
    no_create: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    key: packs::JsonKey<'a>,
    group: &'a str,
    sequence: u64,
    body_bytes: u64,
    replaced: bool,
    created: bool,
}

/// Where the body comes from.
#[derive(Debug)]
enum Body {
    Stdin,
    /// A regular file, whose length is known and which must not change.
    File(FileInput),
    /// A pipe or device that has a name, or a file whose length says nothing.
    Stream(Interruptible<fs::File>, PathBuf),
}

/// Runs it.
///
/// # Errors
/// Returns an error if the input cannot be read or changes meanwhile, or the pack cannot be
/// written.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let (pack, Some(key)) = packs::split_address_with_key(args.pack.as_os_str())? {
        let (pack, key) = (pack.display(), key.display());
        return Err(UsageError::new(format!("give the key apart: `stook put {pack} {key} FILE`")).into());
    }
    if let Some(file) = &args.batch {
        return batch::run(&args, file, context);
    }
    let key = packs::parse_key(args.key.as_deref().unwrap_or_default())?;
    let body = open_body(args.file.as_deref(), context)?;
    let attributes = attributes(&args.attributes, &body)?;
    // Refused before a pack is made for it.
    attributes.encode()?;
    let group = &args.group;
    let done = packs::put_into(&args.pack, group, !args.no_create, context, |writer, created| {
        let replaced = writer.contains(&key)?;
        let (sequence, body_bytes) = put(writer, group, &key, &attributes, body, context)?;
        Ok((sequence, body_bytes, replaced, created))
    });
    let (sequence, body_bytes, replaced, created) = done?;
    let mut output = context.output();
    if context.json() {
        let key = packs::JsonKey(&key);
        let report = Report { key, group, sequence, body_bytes, replaced, created };
        packs::print_json(&mut output, "put", report, context)?;
    } else if !context.quiet() {
        let how = if replaced { ", in place of an older record" } else { "" };
        let made = if created { format!("; made {}", args.pack.display()) } else { String::new() };
        output.line(format_args!("put {} as {key}{how}{made}", bytes_decimal(body_bytes)))?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn open_body(path: Option<&Path>, context: &Context) -> anyhow::Result<Body> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        if io::stdin().is_terminal() {
            context.note("reading the record from this terminal; Ctrl-D ends it");
        }
        if input::was_closed(io::stdin()) {
            return Err(UsageError::new("stdin is closed: name a FILE; for an empty record /dev/null").into());
        }
        return Ok(Body::Stdin);
    };
    let file = Interruptible::open(path).map_err(|error| stook::Error::io("open", path, error))?;
    match Input::of(file.get(), path)? {
        Input::File(file) => Ok(Body::File(file)),
        Input::Stream => Ok(Body::Stream(file, path.to_path_buf())),
        Input::Directory => Err(UsageError::new(format!(
            "{} is a directory: `stook pack` takes trees, `stook put` one file",
            path.display()
        ))
        .into()),
    }
}

fn attributes(given: &[String], body: &Body) -> anyhow::Result<Attributes> {
    let mut all = match body {
        Body::File(file) => file.attributes().clone(),
        Body::Stdin | Body::Stream(..) => Attributes::new(),
    };
    for text in given {
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(UsageError::new(format!("--attr {text:?} is not NAME=VALUE")).into());
        };
        all.set_text(name, value).map_err(|error| UsageError::new(format!("--attr {text:?}: {error}")))?;
    }
    Ok(all)
}

fn put(
    writer: &mut PackWriter,
    group: &str,
    key: &Key,
    attributes: &Attributes,
    body: Body,
    context: &Context,
) -> anyhow::Result<(u64, u64)> {
    let len = if let Body::File(file) = &body { Some(file.len()) } else { None };
    let (mut stdin, mut stream);
    let body = match body {
        Body::File(file) => input::Body::File(file),
        Body::Stdin => {
            stdin = Interruptible::stdin()?;
            input::Body::Stream(&mut stdin, "stdin".to_owned())
        }
        Body::Stream(opened, path) => {
            stream = opened;
            input::Body::Stream(&mut stream, path.display().to_string())
        }
    };
    let bar = context.progress("putting", Unit::Bytes, len);
    body.put(writer, group, key, attributes, &mut |more| go_on(&bar, more))
}

/// Shows how far it is, and ends it at Ctrl-C.
fn go_on(bar: &Progress, more: u64) -> anyhow::Result<()> {
    bar.add(more);
    Ok(interrupt::check()?)
}
