//! `stook put --batch`: a stream of records, atomically.

use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use stook::pack::{PackWriter, RecordStream, StreamEntry};
use stook::report::units::{bytes_decimal, count, count_of, duration};

use super::Args;
use crate::context::Context;
use crate::interrupt::Interruptible;
use crate::progress::Unit;
use crate::{interrupt, packs};

/// Bytes read at once.
const BUFFER_LEN: usize = 1 << 20;

#[derive(Debug, Default, Serialize)]
struct Report<'a> {
    group: &'a str,
    put: u64,
    replaced: u64,
    deleted: u64,
    missing: u64,
    body_bytes: u64,
    seconds: f64,
    created: bool,
}

/// Runs it.
///
/// # Errors
/// Returns an error if the stream cannot be read or is not complete, or the pack cannot be written.
/// Nothing of it counts then.
pub(super) fn run(args: &Args, file: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let (input, name): (Box<dyn Read>, String) = if file == Path::new("-") {
        if io::stdin().is_terminal() {
            context.note("reading records from this terminal; Ctrl-C ends it, and nothing is put");
        }
        (Box::new(Interruptible::stdin()?), "stdin".into())
    } else {
        let opened = Interruptible::open(file).map_err(|error| stook::Error::io("open", file, error))?;
        (Box::new(opened), file.display().to_string())
    };
    // Refused before a pack is made for it.
    let stream = RecordStream::new(BufReader::with_capacity(BUFFER_LEN, input), name)?;
    let started = Instant::now();
    let group = &args.group;
    let report = packs::put_into(&args.pack, group, !args.no_create, context, |writer, created| {
        let mut report = Report { group, created, ..Report::default() };
        put_all(writer, group, stream, &mut report, context)?;
        Ok(report)
    });
    let mut report = report?;
    let elapsed = started.elapsed();
    report.seconds = elapsed.as_secs_f64();
    print(&report, args, elapsed, context)?;
    Ok(ExitCode::SUCCESS)
}

fn put_all<R: Read>(
    writer: &mut PackWriter,
    group: &str,
    mut stream: RecordStream<R>,
    report: &mut Report<'_>,
    context: &Context,
) -> anyhow::Result<()> {
    let bar = context.progress("putting", Unit::Bytes, None);
    // Dropped before its end, nothing of it stays.
    let mut batch = writer.batch(group)?;
    loop {
        interrupt::check()?;
        match stream.next()? {
            None => break,
            Some(StreamEntry::Put { key, attributes, body }) => {
                report.replaced += u64::from(batch.contains(&key)?);
                batch.put(&key, &attributes, &body)?;
                report.put += 1;
                report.body_bytes += body.len() as u64;
            }
            Some(StreamEntry::Delete { key }) => match batch.delete(&key)? {
                true => report.deleted += 1,
                false => report.missing += 1,
            },
        }
        bar.add(stream.offset().saturating_sub(bar.done()));
    }
    Ok(batch.commit()?)
}

fn print(report: &Report<'_>, args: &Args, elapsed: Duration, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    if context.json() {
        packs::print_json(&mut output, "put_batch", report, context)?;
    } else if !context.quiet() {
        let made = if report.created { format!("; made {}", args.pack.display()) } else { String::new() };
        output.line(format_args!(
            "put {}, {} in {}: {} in place of older ones, {} deleted, {} matched nothing{made}",
            count_of(report.put, "record", "records"),
            bytes_decimal(report.body_bytes),
            duration(elapsed),
            count(report.replaced),
            count(report.deleted),
            count_of(report.missing, "deletion", "deletions")
        ))?;
    }
    Ok(output.finish()?)
}
