//! `stook load` of an archive: every member, and how fast that went.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stook::archive::{Archive, MemberKind, Piece};
use stook::extent::ByteRange;

use crate::commands::load::{Args, Outcome, Report, SourceSpan, cached_share, print_report, read_raw};
use crate::context::Context;
use crate::keys::Order;
use crate::progress::Unit;
use crate::{archives, exit, interrupt};

/// Reads every member once. Further names of files are not read again.
///
/// # Errors
/// When the archive cannot be read.
pub(in crate::commands) fn run(
    args: &Args,
    archive: &Archive,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    archives::without(archive, "--group", !args.groups.is_empty())?;
    archives::without(archive, "--order key", args.order == Order::Key)?;
    archives::without(archive, "--split", args.split.is_some())?;
    archives::without(archive, "--threads", args.threads > 1)?;
    archives::without(archive, "--max-records", args.max_records.is_some())?;
    archives::without(archive, "--cursor", args.cursor.is_some())?;
    archives::without(archive, "a range of keys", args.keys.is_given())?;
    let file_bytes = archive.file_bytes();
    let stretches: Vec<SourceSpan> = vec![(Arc::clone(&archive.file()), ByteRange::to(file_bytes))];
    let cached_share = cached_share(&stretches)?;
    let mut device = Vec::new();
    if args.device_share {
        device.push(read_raw(&stretches, context)?);
    }
    let started = Instant::now();
    let (outcome, failures) = load(args, archive, context)?;
    let elapsed = started.elapsed();
    if args.device_share {
        device.push(read_raw(&stretches, context)?);
    }
    let device_s = device.iter().map(Duration::as_secs_f64).sum::<f64>() / device.len() as f64;
    let measured = args.device_share && file_bytes > 0;
    let seconds = elapsed.as_secs_f64();
    let report = Report {
        records: outcome.records,
        bytes: outcome.bytes,
        seconds,
        device_share: measured.then_some(device_s / seconds),
        bytes_per_s: (outcome.bytes - outcome.hole_bytes) as f64 / seconds,
        segment_bytes: file_bytes,
        device_bytes_per_s: measured.then_some(file_bytes as f64 / device_s),
        cached_share,
        in_memory: args.in_memory,
        order: args.order,
        threads: args.threads,
        at_end: true,
        interrupted: false,
        complete: archive.index().summary().has_end,
        damages: Vec::new(),
    };
    print_report(context, &report, &outcome, elapsed)?;
    Ok(exit::code_for(failures))
}

fn load(args: &Args, archive: &Archive, context: &Context) -> anyhow::Result<(Outcome, u64)> {
    let mut members: Vec<_> = archive.members(b"").collect();
    members.sort_by_key(|member| member.data_at);
    let is_read = |kind| matches!(kind, MemberKind::File | MemberKind::Symlink);
    let total = members.iter().filter(|member| is_read(member.kind)).map(|member| member.len);
    let total = total.fold(0, u64::saturating_add);
    let bar = context.progress("loading", Unit::Bytes, Some(total));
    let numbers: Vec<u64> =
        members.iter().filter(|member| is_read(member.kind)).map(|member| member.number).collect();
    let others = members.iter().filter(|member| !is_read(member.kind)).count() as u64;
    let mut outcome = Outcome { records: others, ..Outcome::default() };
    let (mut failures, mut held) = (0, Vec::new());
    let count = numbers.len();
    let mut reading = archive.read(numbers)?;
    for _ in 0..count {
        let Some(member) = reading.next()? else { break };
        let (mut len, mut holes) = (0, 0);
        let failed = loop {
            interrupt::check()?;
            match reading.piece() {
                // What is stored nowhere is not loaded either: a few bytes may say that they are a terabyte.
                Ok(Some(Piece::Hole(hole))) => {
                    len += hole;
                    holes += hole;
                }
                Ok(Some(Piece::Bytes(bytes))) => {
                    len += bytes.len() as u64;
                    if args.in_memory {
                        held.push(bytes.to_vec());
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        match failed {
            None => {
                outcome.records += 1;
                outcome.bytes += len;
                outcome.hole_bytes += holes;
            }
            Some(error) => {
                failures += 1;
                let key = crate::output::printable(member.key);
                context.failure(anyhow::anyhow!("{key}: {}", exit::chain(&error)).as_ref());
            }
        }
        bar.add(len);
    }
    while reading.verify()? {
        interrupt::check()?;
    }
    drop((bar, held));
    archive.check_unchanged()?;
    Ok((outcome, failures))
}
