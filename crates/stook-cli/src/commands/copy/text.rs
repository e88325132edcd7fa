//! A copy for people: what went wrong, what was done, and how near it came to what the devices can.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use stook::copy::{Beginning, CopyReport, DestinationReport, HeldUpBy, Item, Leftover, ReadAgain, Side};
use stook::device::Attachment;
use stook::ops::verify::newest_list;
use stook::report::units;

use super::Args;
use crate::context::Context;
use crate::failures;
use crate::lies_on::why_cached;
use crate::output::{Output, OutputError, capitalised, printable};

/// What takes less time, or moves fewer bytes, says nothing of a device.
const MEANS_SOMETHING_FROM: Duration = Duration::from_secs(1);
const MEANS_SOMETHING_BYTES: u64 = 1_000_000;

/// What would make a copy faster that takes this long over the links that were found.
pub(super) fn advice(beginning: &Beginning, long_s: f64) -> Vec<String> {
    let Some(bytes) = beginning.total_bytes else { return Vec::new() };
    let takes_long = |limit: Option<f64>| limit.is_some_and(|limit| bytes as f64 / limit > long_s);
    let sources = beginning.sources.iter().map(|source| (source, source.read_limit_bytes_per_s()));
    let destinations = beginning.destinations.iter().map(|one| (one, one.write_limit_bytes_per_s()));
    let slow = sources.chain(destinations).filter(|(_, limit)| takes_long(*limit));
    let mut all: Vec<String> = slow.flat_map(|(attachment, _)| attachment.advice()).collect();
    // One disk may be source and destination.
    all.sort();
    all.dedup();
    all
}

/// What is wrong, on stderr.
pub(in crate::commands) fn print_failures(report: &CopyReport, verbose: bool, context: &Context) {
    failures::print(context, &report.failures, verbose);
    for one in &report.destinations {
        print_destination(one, verbose, context);
    }
    let (reported, more) = failures::few(&report.not_copied, verbose);
    for left in reported {
        context.note(format_args!("{} is {}, and was not copied.", printable(&left.key), left.kind.noun()));
    }
    if let Some(more) = more {
        context.note(format_args!("{more} more special files were not copied; `--verbose` names them all."));
    }
}

/// What no list and no proof has of what was copied.
fn note_lists(report: &CopyReport, args: &Args, context: &Context) {
    for one in report.destinations.iter().filter(|one| args.proof && one.proofs.is_none() && one.files > 0) {
        if !report.interrupted && one.failures.is_empty() {
            context.note(format_args!(
                "No proofs were written in {}: no file that was copied is longer than 1 MiB, and shorter ones need \
                 none.",
                printable(one.path.as_os_str().as_bytes())
            ));
        }
    }
    for one in report.destinations.iter().filter(|one| one.files > 0 && one.lists.is_empty()) {
        // They stay right for a repair only until something of theirs is replaced.
        if let Some(list) = newest_list(&one.path) {
            context.note(format_args!(
                "{} was made earlier, and does not have what was copied now: `--list` writes one of it.",
                printable(list.as_os_str().as_bytes())
            ));
        }
    }
}

/// What is wrong in a destination.
fn print_destination(one: &DestinationReport, verbose: bool, context: &Context) {
    failures::print(context, &one.failures, verbose);
    if let Some(why) = &one.stopped {
        let path = one.path.display();
        context.failure(anyhow::anyhow!("nothing more was written to {path}: {why}").as_ref());
    }
    let (reported, more) = failures::few(&one.kept, verbose);
    for kept in reported {
        let place = one.path.join(OsStr::from_bytes(&kept.key));
        let text =
            format!("{} is there with other content, and was kept", printable(place.as_os_str().as_bytes()));
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
    if let Some(more) = more {
        context.failure(anyhow::anyhow!("{more} more were kept; `--verbose` names them all").as_ref());
    }
    if !one.kept.is_empty() {
        context.note("`--overwrite different` replaces what is there with other content.");
    }
    if let Some(why) = one.not_mirrored {
        let (path, why) = (one.path.display(), why.text());
        context.failure(anyhow::anyhow!("nothing was deleted from {path}: {why}").as_ref());
    }
    for left in &one.leftovers {
        context.note(leftover_line(one, left));
    }
    for left in &one.unfinished {
        let place = one.path.join(OsStr::from_bytes(&left.key));
        let (place, there) = (printable(place.as_os_str().as_bytes()), units::bytes_decimal(left.bytes));
        context.note(format_args!("{place} continues from {there} at the next run."));
    }
    super::super::unpack::report_unset(&one.unset_xattrs, context);
}

/// What is said of a file that a killed run left under another name.
fn leftover_line(one: &DestinationReport, left: &Leftover) -> String {
    let place = |key: &[u8]| printable(one.path.join(OsStr::from_bytes(key)).as_os_str().as_bytes());
    let what = match &left.replaced_by {
        Some(key) => format!("what {} replaced", place(key)),
        None => "what was replaced".to_owned(),
    };
    format!("{} is {what} when a run was killed. It is yours to look at, and stays.", place(&left.key))
}

/// What was done with a path, or would be: `copy      new      a/b`. Of several destinations it
/// says which.
pub(super) fn item_line(item: &Item, destinations: &[PathBuf]) -> String {
    let (action, why) = (item.action.name(), item.why.name());
    format!("{action:<9} {why:<8} {}", place_of(item, destinations))
}

/// What was computed of the bytes of a file, as programs that compute it print it: `DIGEST  a/b`.
/// Of several functions each line says which: `sha256:DIGEST  a/b`.
pub(super) fn digest_lines<'a>(
    item: &'a Item,
    destinations: &[PathBuf],
) -> impl Iterator<Item = String> + use<'a> {
    let place = place_of(item, destinations);
    let has_several = item.digests.len() > 1;
    item.digests.iter().map(move |digest| match has_several {
        true => format!("{}:{digest}  {place}", digest.kind.name()),
        false => format!("{digest}  {place}"),
    })
}

/// Where something went, as it is printed.
fn place_of(item: &Item, destinations: &[PathBuf]) -> String {
    // The destination itself has no path in it.
    let key: &[u8] = if item.key.is_empty() { b"." } else { &item.key };
    let key = OsStr::from_bytes(key);
    let place = match destinations {
        [_] => key.to_os_string(),
        several => several.get(item.destination).map_or_else(|| key.into(), |one| one.join(key).into()),
    };
    printable(place.as_bytes())
}

/// What was done, on stdout.
pub(super) fn print(
    report: &CopyReport,
    args: &Args,
    output: &mut Output,
    context: &Context,
) -> Result<(), OutputError> {
    let has_several = report.destinations.len() > 1;
    let plan = Plan { dry_run: args.dry_run, has_backups: args.existing.backup.is_some() };
    // With --verbose they were named when they were deleted, and by a dry run in any case.
    for one in report.destinations.iter().filter(|_| !args.verbose && !args.dry_run) {
        for key in &one.deleted {
            let what = if plan.has_backups { "renamed" } else { "deleted" };
            output.line(format_args!("{what} {}", printable(key)))?;
        }
    }
    if context.quiet() {
        return Ok(());
    }
    for one in &report.destinations {
        output.line(summary(one, report, has_several, plan))?;
        if let Some(read) = one.read_again.filter(|read| read.files > 0 || read.bytes > 0) {
            output.line(read_again(one, read, has_several))?;
        }
        for list in &one.lists {
            let path = one.path.join(OsStr::from_bytes(list));
            output.line(format_args!("listed in {}", printable(path.as_os_str().as_bytes())))?;
            context.note_ahead(&path);
        }
        if let Some((proofs, files)) = &one.proofs {
            let path = one.path.join(OsStr::from_bytes(proofs));
            let files = units::count_of(*files, "file", "files");
            output.line(format_args!("proofs of {files} in {}", printable(path.as_os_str().as_bytes())))?;
        }
    }
    if !args.dry_run {
        note_lists(report, args, context);
    }
    if report.destinations.iter().any(|one| one.unlisted > 0) {
        context.note("`--checksum` reads what is there already, and lists it, too.");
    }
    if !args.dry_run && report.elapsed >= MEANS_SOMETHING_FROM && report.read_bytes >= MEANS_SOMETHING_BYTES {
        for line in how_near(report) {
            output.line(line)?;
        }
    }
    Ok(())
}

/// What of it was only planned, and what becomes of extra files.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    dry_run: bool,
    has_backups: bool,
}

fn summary(one: &DestinationReport, report: &CopyReport, has_several: bool, plan: Plan) -> String {
    let dry_run = plan.dry_run;
    let links = one.symlinks + one.hard_links + one.linked;
    let mut text = format!(
        "{} {}, {}, {}: {}",
        if dry_run { "Would copy" } else { "Copied" },
        units::count_of(one.files, "file", "files"),
        units::count_of(one.directories, "directory", "directories"),
        units::count_of(links, "link", "links"),
        units::bytes_decimal(one.bytes),
    );
    // What was there already was not copied in that time.
    let written = one.bytes.saturating_sub(one.resumed_bytes);
    if written > MEANS_SOMETHING_BYTES && !dry_run {
        let (took, rate) = (units::duration(report.elapsed), units::rate_of(written, report.elapsed));
        text.push_str(&format!(" in {took}, {rate}"));
    }
    if has_several {
        text.push_str(&format!(" to {}", one.path.display()));
    }
    text.push_str(&what_else(one, report, plan));
    if one.resumed_bytes > 0 {
        text.push_str(&format!("; {} were there already", units::bytes_decimal(one.resumed_bytes)));
    }
    match one.made.as_slice() {
        [] => {}
        [only] => text.push_str(&format!("; made the directory {}", only.display())),
        [first, .., last] => {
            text.push_str(&format!("; made the directories {} to {}", first.display(), last.display()));
        }
    }
    match (report.interrupted, dry_run) {
        (true, true) => text.push_str("; interrupted, so this is not all"),
        (true, false) => text.push_str("; interrupted, every file written is complete"),
        (false, _) => {}
    }
    text
}

/// `Read back from the medium: 258 files (252 GB read in 12 min 2 s, 349 MB/s) are as copied`
fn read_again(one: &DestinationReport, read: ReadAgain, has_several: bool) -> String {
    let place = if has_several { format!(" in {}", one.path.display()) } else { String::new() };
    let is_same = if read.files == 1 { "is" } else { "are" };
    let mut bytes = format!("{} read", units::bytes_decimal(read.bytes));
    if read.bytes > MEANS_SOMETHING_BYTES {
        let (took, rate) = (units::duration(read.elapsed), units::rate_of(read.bytes, read.elapsed));
        bytes.push_str(&format!(" in {took}, {rate}"));
    }
    let files = units::count_of(read.files, "file", "files");
    let what = format!("{files}{place} ({bytes}) {is_same} as copied");
    let rest = if read.interrupted { "; interrupted, the rest was not read back" } else { "" };
    match read.is_past_cache {
        Some(false) => format!(
            "Read back, but not past the cache{}: {what}{rest}",
            why_cached(&one.attachment).map_or_else(String::new, |why| format!(" ({why})"))
        ),
        Some(true) => format!("Read back from the medium: {what}{rest}"),
        // Files without bytes.
        None => format!("Read back: {what}{rest}"),
    }
}

/// What became of all that was not copied, or would: `; 3 unchanged; 1 failed`.
fn what_else(one: &DestinationReport, report: &CopyReport, plan: Plan) -> String {
    let deleted = match plan.has_backups {
        true => ("extra kept under another name", "extra would be kept under another name"),
        false => ("deleted", "would be deleted"),
    };
    let counts = [
        (one.unchanged, "unchanged", "unchanged"),
        (one.corrected, "with corrected mode, owner or time", "whose mode, owner or time would be corrected"),
        (one.kept.len() as u64, "kept with other content", "would be kept with other content"),
        (one.backups, "kept under another name", "would be kept under another name"),
        (one.deleted.len() as u64, deleted.0, deleted.1),
        (one.unlisted, "there already and in no new list", "there already and would be in no new list"),
        (report.failures.len() as u64, "could not be read", "could not be read"),
        (one.unlistable, "copied, but not in the ASC MHL", "copied, but not in the ASC MHL"),
        ((one.failures.len() as u64).saturating_sub(one.unlistable), "failed", "failed"),
    ];
    let some = counts.iter().filter(|(count, ..)| *count > 0);
    some.map(|(count, done, planned)| {
        format!("; {} {}", units::count(*count), if plan.dry_run { planned } else { done })
    })
    .collect()
}

/// How near it came to what the links carry, and what it waited for: what of that is known.
fn how_near(report: &CopyReport) -> Vec<String> {
    let place = |side: Side| match side {
        Side::Sources => "source".to_owned(),
        Side::Destination(index) => name_of(report, index),
    };
    let uses = report.link_uses();
    let mut shares: Vec<String> = uses
        .iter()
        .map(|one| {
            let (percent, most) = (percent(one.share), units::rate(one.limit_bytes_per_s));
            format!("{percent} of {} ({most}, {})", one.link, place(one.side))
        })
        .collect();
    shares.extend(servers(report));
    let waited = report.held_up_by().and_then(|by| match by {
        HeldUpBy::Sources => Some("the source was waited for".to_owned()),
        HeldUpBy::Destination(index) => Some(format!("{} was waited for", the_destination(report, index))),
        HeldUpBy::Limit => Some("`--bwlimit` was waited for".to_owned()),
        _ => None,
    });
    let within = report.destinations.iter().any(|one| report.is_within_disks(one));
    let within = within.then(|| "source and destination are on the same disk".to_owned());
    let more: Vec<String> = waited.into_iter().chain(within).collect();
    if !more.is_empty() {
        shares.push(more.join("; "));
    }
    shares.iter().map(|line| capitalised(line)).collect()
}

/// Servers that are read from or written to.
fn servers(report: &CopyReport) -> Vec<String> {
    let named = |attachment: &Attachment, place: &str| {
        let server = printable(attachment.server.as_ref()?.as_bytes());
        Some(format!("over the network: server {server} ({place})"))
    };
    let sources = report.sources.iter().filter_map(|source| named(source, "source"));
    let destinations = report.destinations.iter().enumerate();
    let destinations =
        destinations.filter_map(|(index, one)| named(&one.attachment, &name_of(report, index)));
    sources.chain(destinations).collect()
}

/// What a destination is called in parentheses.
fn name_of(report: &CopyReport, index: usize) -> String {
    match report.destinations.as_slice() {
        [_] => "destination".to_owned(),
        several => {
            several.get(index).map(|one| printable(one.path.as_os_str().as_bytes())).unwrap_or_default()
        }
    }
}

/// What a destination is called in a sentence.
fn the_destination(report: &CopyReport, index: usize) -> String {
    match report.destinations.len() {
        1 => "the destination".to_owned(),
        _ => format!("the destination {}", name_of(report, index)),
    }
}

/// Without digits that mean nothing: `59%`, `under 1%`.
fn percent(share: f64) -> String {
    match share {
        share if share < 0.01 => "under 1%".to_owned(),
        share => format!("{:.0}%", share * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use stook::copy::Waits;

    use super::*;

    fn report(sources_s: u64, destinations_s: &[u64], limit_s: u64) -> CopyReport {
        let seconds = Duration::from_secs;
        let one = |at: usize| {
            let path = PathBuf::from(format!("/mnt/{at}"));
            DestinationReport { path, ..DestinationReport::default() }
        };
        CopyReport {
            destinations: (0..destinations_s.len()).map(one).collect(),
            elapsed: seconds(100),
            waits: Waits {
                sources: seconds(sources_s),
                destinations: destinations_s.iter().copied().map(seconds).collect(),
                limit: seconds(limit_s),
            },
            ..CopyReport::default()
        }
    }

    #[test]
    fn what_was_waited_for_is_named_and_nothing_else_is_made_up() {
        assert_eq!(how_near(&report(90, &[5], 0)), ["The source was waited for"]);
        assert_eq!(how_near(&report(5, &[90], 0)), ["The destination was waited for"]);
        assert_eq!(how_near(&report(5, &[9, 90], 0)), ["The destination /mnt/1 was waited for"]);
        assert_eq!(how_near(&report(5, &[9], 80)), ["`--bwlimit` was waited for"]);
        assert_eq!(how_near(&report(50, &[50], 0)), Vec::<String>::new());
        let mut far = report(5, &[90], 0);
        far.destinations[0].attachment.server = Some("nas\x1b[2J".to_owned());
        let lines = ["Over the network: server nas\\x1b[2J (destination)", "The destination was waited for"];
        assert_eq!(how_near(&far), lines);
    }

    #[test]
    fn shares_have_no_digits_that_mean_nothing() {
        assert_eq!([0.001, 0.01, 0.594, 1.0].map(percent), ["under 1%", "1%", "59%", "100%"]);
    }

    #[test]
    fn the_summary_says_how_much_how_fast_and_what_else_there_was() {
        let mut report = report(0, &[0, 0], 0);
        let one = &mut report.destinations[0];
        (one.files, one.bytes, one.directories, one.unchanged) = (258, 252_000_000_000, 1, 3);
        report.elapsed = Duration::from_secs(855);
        let text =
            "Copied 258 files, 1 directory, 0 links: 252 GB in 14 min 15 s, 295 MB/s to /mnt/0; 3 unchanged";
        assert_eq!(summary(&report.destinations[0], &report, true, Plan::default()), text);
        assert_eq!(
            summary(&report.destinations[1], &report, false, Plan::default()),
            "Copied 0 files, 0 directories, 0 links: 0 B"
        );
        report.destinations[0].deleted = vec![b"a".to_vec(), b"b".to_vec()];
        let planned = "Would copy 258 files, 1 directory, 0 links: 252 GB to /mnt/0; 3 unchanged; \
                       2 would be deleted";
        let plan = Plan { dry_run: true, ..Plan::default() };
        assert_eq!(summary(&report.destinations[0], &report, true, plan), planned);
    }

    #[test]
    fn the_rate_is_that_of_what_was_written_in_that_time() {
        let mut report = report(0, &[0], 0);
        let one = &mut report.destinations[0];
        (one.files, one.bytes, one.resumed_bytes) = (1, 70_000_000, 50_000_000);
        report.elapsed = Duration::from_secs(2);
        let text =
            "Copied 1 file, 0 directories, 0 links: 70.0 MB in 2.00 s, 10.0 MB/s; 50.0 MB were there already";
        assert_eq!(summary(&report.destinations[0], &report, false, Plan::default()), text);
    }

    #[test]
    fn digests_are_printed_as_programs_that_compute_them_do() {
        let digest = |kind, value: &[u8]| stook::copy::Digest { kind, value: value.to_vec() };
        let sha = digest(stook::copy::HashKind::Sha256, &[0xab, 0x01]);
        let item = |digests: Vec<stook::copy::Digest>| Item { digests: digests.into(), ..item() };
        let to = [PathBuf::from("/mnt/0"), PathBuf::from("/mnt/1")];
        let lines = |item: &Item, to: &[PathBuf]| digest_lines(item, to).collect::<Vec<_>>();
        assert_eq!(lines(&item(vec![sha.clone()]), &to[..1]), ["ab01  a\\x0ab"]);
        let xxh = digest(stook::copy::HashKind::Xxh3, &[7]);
        let both = item(vec![xxh, sha]);
        assert_eq!(lines(&both, &to), ["xxh3:07  /mnt/1/a\\x0ab", "sha256:ab01  /mnt/1/a\\x0ab"]);
        assert_eq!(lines(&item(Vec::new()), &to), Vec::<String>::new());
    }

    fn item() -> Item {
        Item {
            destination: 1,
            key: b"a\nb".to_vec(),
            kind: stook::tree::Kind::File,
            len: 1,
            action: stook::copy::Action::Copy,
            why: stook::copy::Why::New,
            digests: std::sync::Arc::default(),
        }
    }

    #[test]
    fn what_a_killed_run_left_is_named_with_what_took_its_place() {
        let one = &report(0, &[0], 0).destinations[0];
        let left = Leftover { key: b"d/x\n~".to_vec(), replaced_by: Some(b"d/x\n".to_vec()) };
        let end = "when a run was killed. It is yours to look at, and stays.";
        assert_eq!(
            leftover_line(one, &left),
            format!("/mnt/0/d/x\\x0a~ is what /mnt/0/d/x\\x0a replaced {end}")
        );
        let left = Leftover { replaced_by: None, ..left };
        assert_eq!(leftover_line(one, &left), format!("/mnt/0/d/x\\x0a~ is what was replaced {end}"));
    }

    #[test]
    fn of_several_destinations_a_line_says_which() {
        let item = item();
        let destinations = [PathBuf::from("/mnt/0"), PathBuf::from("/mnt/1")];
        assert_eq!(item_line(&item, &destinations), "copy      new      /mnt/1/a\\x0ab");
        assert_eq!(item_line(&item, &destinations[..1]), "copy      new      a\\x0ab");
    }
}
