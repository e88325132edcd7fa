//! `stook check PACK --repair NEW`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde::Serialize;
use stook::pack::{Repaired, WriterOptions, repair};
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::{bytes_decimal, bytes_exact, count_of};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};

use crate::context::Context;
use crate::output::printable;
use crate::progress::Unit;
use crate::{exit, interrupt, packs};

/// What is written beside the quarantined bytes.
const REPORT: &str = "report.json";

#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    new: TextOrBytes<'a>,
    records: u64,
    bytes: u64,
    damages: Vec<packs::JsonDamage<'a>>,
    quarantined: Vec<Quarantined<'a>>,
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct Quarantined<'a> {
    segment_id: u64,
    offset_bytes: u64,
    len_bytes: u64,
    quarantine_file: &'a str,
}

/// Runs it.
///
/// # Errors
/// When there is something at the new place, or reading or writing fails.
pub(super) fn run(pack: &Path, new: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let aside = quarantine_of(new);
    for path in [new, &aside] {
        if path.symlink_metadata().is_ok() {
            anyhow::bail!("{} is already there: choose another name for the new pack", path.display());
        }
    }
    let from = LocalStorage::open(pack, LocalStorageOptions::default())?;
    let total = from.list()?.iter().map(|file| file.len * 2).sum();
    let to = Arc::new(LocalStorage::create(new, LocalStorageOptions::default())?);
    let bar = context.progress("repairing", Unit::Bytes, Some(total));
    let mut quarantine = None;
    let repaired = repair(
        &from,
        to,
        WriterOptions::default(),
        &mut || open_quarantine(&aside, &mut quarantine),
        &mut |done| {
            bar.add(done.saturating_sub(bar.done()));
            !interrupt::interrupted()
        },
    );
    drop(bar);
    let repaired = match repaired {
        Ok(repaired) => repaired,
        Err(error) => {
            // What was begun says that it is incomplete; half a repair is of use to nobody.
            std::fs::remove_dir_all(new).with_context(|| format!("cannot remove {}", new.display()))?;
            interrupt::check()?;
            return Err(error.into());
        }
    };
    let document = Document::new("check", report(new, &repaired));
    if let Some(quarantine) = &quarantine {
        quarantine.publish_if_absent(REPORT, serde_json::to_string_pretty(&document)?.as_bytes())?;
    }
    if context.json() {
        let mut output = context.output();
        output.json(&document)?;
        output.finish()?;
    } else {
        print(&repaired, new, &aside, context)?;
    }
    Ok(exit::code_for(repaired.damages.len() as u64))
}

fn quarantine_of(new: &Path) -> PathBuf {
    let mut name = OsString::from(new.as_os_str());
    name.push(".quarantine");
    PathBuf::from(name)
}

/// The quarantine, made when it is first asked for.
fn open_quarantine(
    path: &Path,
    quarantine: &mut Option<Arc<LocalStorage>>,
) -> stook::pack::Result<Arc<dyn Storage>> {
    if quarantine.is_none() {
        *quarantine = Some(Arc::new(LocalStorage::create(path, LocalStorageOptions::default())?));
    }
    match quarantine {
        Some(quarantine) => Ok(quarantine.clone()),
        None => Err(stook::pack::Error::Stopped),
    }
}

fn report<'a>(new: &'a Path, repaired: &'a Repaired) -> Report<'a> {
    let quarantined = repaired.quarantined.iter().map(|aside| Quarantined {
        segment_id: aside.segment,
        offset_bytes: aside.range.start(),
        len_bytes: aside.range.len(),
        quarantine_file: &aside.file,
    });
    Report {
        new: packs::json_path("new", new),
        records: repaired.records,
        bytes: repaired.bytes,
        damages: packs::JsonDamage::all(&repaired.damages),
        quarantined: quarantined.collect(),
        notes: &repaired.notes,
    }
}

fn print(repaired: &Repaired, new: &Path, aside: &Path, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    for damage in &repaired.damages {
        output.line(damage)?;
    }
    if !context.quiet() {
        for note in &repaired.notes {
            output.line(format_args!("note: {}", printable(note.as_bytes())))?;
        }
        let bytes: u64 = repaired.quarantined.iter().map(|aside| aside.range.len()).sum();
        if bytes > 0 {
            output.line(format_args!(
                "{} that could not be read are in {}",
                bytes_exact(bytes),
                aside.display()
            ))?;
        }
        output.line(format_args!(
            "saved {}, {}, into {}",
            count_of(repaired.records, "record", "records"),
            bytes_decimal(repaired.bytes),
            new.display()
        ))?;
    }
    Ok(output.finish()?)
}
