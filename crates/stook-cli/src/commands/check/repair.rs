//! `stook check PACK --repair NEW`.

use std::path::Path;
use std::process::ExitCode;

use stook::ops::repair::{Error, Report, repair};
use stook::report::units::{bytes_decimal, bytes_exact, count_of};

use crate::context::Context;
use crate::output::{Output, printable};
use crate::progress::Unit;
use crate::{exit, interrupt};

/// Runs it.
///
/// # Errors
/// Returns an error if there is something at the new place, or reading or writing fails.
pub(super) fn run(pack: &Path, new: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let bar = context.progress("repairing", Unit::Bytes, None);
    let report = repair(pack, new, &mut |done, total| bar.go_on(done, Some(total)));
    drop(bar);
    let report = match report {
        Err(Error::Interrupted) => return Err(interrupt::Interrupted.into()),
        report => report?,
    };
    let mut output = context.output();
    if context.json() {
        output.json(&report.document())?;
    } else {
        print(&report, &mut output, context)?;
    }
    output.finish()?;
    Ok(exit::code_for(report.repaired.undone()))
}

fn print(report: &Report, output: &mut Output, context: &Context) -> anyhow::Result<()> {
    let Report { new, quarantine, repaired } = report;
    for damage in &repaired.damages {
        output.line(damage)?;
    }
    if context.quiet() {
        return Ok(());
    }
    for note in &repaired.notes {
        output.line(format_args!("note: {}", printable(note.as_bytes())))?;
    }
    let bytes = report.quarantined_bytes();
    if bytes > 0 {
        output.line(format_args!(
            "{} that could not be saved are in {}",
            bytes_exact(bytes),
            quarantine.display()
        ))?;
    }
    output.line(format_args!(
        "saved {}, {}, into {}",
        count_of(repaired.records, "record", "records"),
        bytes_decimal(repaired.bytes),
        new.display()
    ))?;
    Ok(())
}
