//! `stook put`: one file, or what comes through stdin, into a pack.
//!
//! When it returns, the record is on the medium. When it fails, nothing of it counts.

mod batch;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::fs::{FileType, OFlags};
use serde::Serialize;
use stook::engine::File;
use stook::pack::format::attributes::{Name, Value};
use stook::pack::{Attributes, Error, FileKind, Key, PackWriter, RecordWriter, WriterOptions};
use stook::report::units::bytes_decimal;
use stook::source::{FileSource, Source as _};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};

use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt::{self, Interruptible};
use crate::packs;
use crate::progress::{Progress, Unit};

const EXAMPLES: &str = "\
Makes the pack when there is none (not with --no-create). An older record with
this key is replaced. A file takes its mode and modification time along; it
must not change while it is read. The key `id:7` is the number 7, and
`bytes:id:7` the text.

Examples:
  stook put photos.stook 2024/cat.jpg cat.jpg
  tar c src | stook put backups.stook src.tar
  stook put log.stook id:7 event.json --group events --attr source=web
  ./export.py | stook put log.stook --batch

--batch takes many records and deletions from one stream, whose bytes
docs/formats/records-v1.md describes. Readers see all of them at once; when the
stream is cut short or wrong, or at Ctrl-C, nothing of it counts.";

/// Bytes read at once.
const READ_LEN: usize = 1 << 20;

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
enum Input {
    Stdin,
    /// A regular file, whose length is known and which must not change.
    File(FileSource),
    /// A pipe or device that has a name, or a file whose length says nothing.
    Stream(Interruptible<fs::File>, PathBuf),
}

/// Runs it.
///
/// # Errors
/// When the input cannot be read or changes meanwhile, or the pack cannot be written.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let (pack, Some(key)) = packs::split_address_with_key(args.pack.as_os_str())? {
        let (pack, key) = (pack.display(), key.display());
        return Err(UsageError::new(format!("give the key apart: `stook put {pack} {key} FILE`")).into());
    }
    if let Some(file) = &args.batch {
        return batch::run(&args, file, context);
    }
    let key = packs::parse_key(args.key.as_deref().unwrap_or_default())?;
    let input = open_input(args.file.as_deref(), context)?;
    let attributes = attributes(&args.attributes, &input)?;
    // Refused before a pack is made for it.
    attributes.encode()?;
    let (mut writer, created) = open_pack(&args.pack, !args.no_create, context)?;
    let replaced = writer.contains(&key)?;
    let (sequence, body_bytes) = put(&mut writer, &args.group, &key, &attributes, input, context)?;
    writer.finish(false)?;
    let mut output = context.output();
    if context.json() {
        let key = packs::JsonKey(&key);
        let report = Report { key, group: &args.group, sequence, body_bytes, replaced, created };
        packs::print_json(&mut output, "put", report, context)?;
    } else if !context.quiet() {
        let how = if replaced { ", in place of an older record" } else { "" };
        let made = if created { format!("; made {}", args.pack.display()) } else { String::new() };
        output.line(format_args!("put {} as {key}{how}{made}", bytes_decimal(body_bytes)))?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn open_input(path: Option<&Path>, context: &Context) -> anyhow::Result<Input> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        if io::stdin().is_terminal() {
            context.remark("reading the record from this terminal; Ctrl-D ends it");
        }
        if was_closed(io::stdin()) {
            return Err(UsageError::new("stdin is closed: name a FILE; for an empty record /dev/null").into());
        }
        return Ok(Input::Stdin);
    };
    let file = Interruptible::open(path).map_err(|error| stook::Error::io("open", path, error))?;
    let metadata =
        file.get().metadata().map_err(|error| stook::Error::io("get the metadata of", path, error))?;
    if metadata.is_dir() {
        return Err(UsageError::new(format!(
            "{} is a directory: `stook pack` takes trees, `stook put` one file",
            path.display()
        ))
        .into());
    }
    if !metadata.is_file() || gives_more_than_its_length(file.get()) {
        return Ok(Input::Stream(file, path.to_path_buf()));
    }
    Ok(Input::File(FileSource::new(Arc::new(File::from_std(file.into_inner(), path, false)))?))
}

/// Whether stdin was closed when this program began. The standard library puts `/dev/null` in its place then, open for
/// reading and writing; what a shell opens for `</dev/null` is for reading only. Programs that start this one with theirs
/// open for both have no input for it either.
fn was_closed(stdin: impl AsFd) -> bool {
    let (Ok(opened), Ok(null)) = (rustix::fs::fstat(&stdin), rustix::fs::stat("/dev/null")) else {
        return false;
    };
    FileType::from_raw_mode(opened.st_mode) == FileType::CharacterDevice
        && opened.st_rdev == null.st_rdev
        && rustix::fs::fcntl_getfl(&stdin).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}

/// Whether a regular file has no length, and bytes all the same, as those of `/proc` do. One that somebody has just begun to
/// write has a length by the time of the second look.
fn gives_more_than_its_length(file: &fs::File) -> bool {
    let is_empty = || file.metadata().is_ok_and(|metadata| metadata.len() == 0);
    is_empty() && !matches!(file.read_at(&mut [0], 0), Ok(0)) && is_empty()
}

fn attributes(given: &[String], input: &Input) -> anyhow::Result<Attributes> {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = match input {
        Input::File(source) => {
            let mode = source.file().metadata()?.mode() & 0o7777;
            Attributes::of_file(FileKind::File, mode, source.identity().mtime_ns, None)
        }
        Input::Stdin | Input::Stream(..) => Attributes::new(),
    };
    for text in given {
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(UsageError::new(format!("--attr {text:?} is not NAME=VALUE")).into());
        };
        all.set(Name::Text(name.to_owned()), Value::Text(value.to_owned()));
    }
    Ok(all)
}

/// The writer of a pack, and whether the pack was made for it.
fn open_pack(path: &Path, create: bool, context: &Context) -> anyhow::Result<(PackWriter, bool)> {
    let options = LocalStorageOptions::default();
    let storage = match LocalStorage::open(path, options.clone()) {
        Err(error) if create && error.io_kind() == Some(io::ErrorKind::NotFound) => {
            LocalStorage::create(path, options)?
        }
        opened => opened?,
    };
    let storage: Arc<dyn Storage> = Arc::new(storage);
    match packs::writer_in(storage.clone(), WriterOptions::default(), context) {
        // Making one tells whether it can be made there.
        Err(Error::NotAPack { .. }) if create => {}
        opened => return Ok((opened?, false)),
    }
    let mut writer = PackWriter::create(storage, WriterOptions::default())?;
    // An empty pack is all it is meant to be: a put that dies leaves it so.
    writer.set_complete(true);
    writer.publish()?;
    Ok((writer, true))
}

fn put(
    writer: &mut PackWriter,
    group: &str,
    key: &Key,
    attributes: &Attributes,
    input: Input,
    context: &Context,
) -> anyhow::Result<(u64, u64)> {
    match input {
        Input::File(source) => {
            let len = source.len();
            let bar = context.progress("putting", Unit::Bytes, Some(len));
            let mut record = writer.begin(group, key, attributes, Some(len))?;
            copy_file(&source, &mut record, &bar)?;
            Ok((record.finish()?, len))
        }
        Input::Stdin => {
            let record = writer.begin(group, key, attributes, None)?;
            copy_stream(&mut Interruptible::stdin()?, "stdin", record, context)
        }
        Input::Stream(mut file, path) => {
            let record = writer.begin(group, key, attributes, None)?;
            copy_stream(&mut file, &path.display().to_string(), record, context)
        }
    }
}

fn copy_file(source: &FileSource, record: &mut RecordWriter<'_>, bar: &Progress) -> anyhow::Result<()> {
    let mut buffer = vec![0; READ_LEN];
    let (mut at, len) = (0, source.len());
    while at < len {
        interrupt::check()?;
        let wanted = usize::try_from(len - at).unwrap_or(READ_LEN).min(READ_LEN);
        let Some(part) = buffer.get_mut(..wanted) else { break };
        if let Err(error) = source.file().read_exact_at(part, at) {
            // A file that was cut is told as one that changed.
            source.check_unchanged()?;
            return Err(error.into());
        }
        record.write(part)?;
        at += wanted as u64;
        bar.add(wanted as u64);
    }
    Ok(source.check_unchanged()?)
}

fn copy_stream(
    input: &mut dyn Read,
    name: &str,
    mut record: RecordWriter<'_>,
    context: &Context,
) -> anyhow::Result<(u64, u64)> {
    let bar = context.progress("putting", Unit::Bytes, None);
    let mut buffer = vec![0; READ_LEN];
    loop {
        interrupt::check()?;
        let got = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(Error::Outside { operation: "read", name: name.into(), source }.into()),
        };
        let part = buffer.get(..got).context("a read gave more bytes than there was room for")?;
        record.write(part)?;
        bar.add(got as u64);
    }
    Ok((record.finish()?, bar.done()))
}
