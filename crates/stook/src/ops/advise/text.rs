//! An advice in a dozen lines.

use super::archive::ArchiveAdvice;
use super::confirm::Confirmed;
use super::predict::{Action, Basis, Prediction, Way, WayKind};
use super::{AdviceReport, SampleFacts, TreeAdvice, TreeFacts};
use crate::names::escaped;
use crate::report::units;

/// What there is to say, for a terminal.
pub fn lines(report: &AdviceReport) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = escaped(report.path.as_bytes()).to_string();
    if let Some(archive) = &report.archive {
        of_archive(&shown, archive, &mut lines);
    }
    if let Some(tree) = &report.tree {
        of_tree(&shown, tree, &mut lines);
    }
    lines
}

fn of_archive(shown: &str, archive: &ArchiveAdvice, lines: &mut Vec<String>) {
    let ArchiveAdvice { format, files, compressed_files, .. } = archive;
    lines.push(format!(
        "{shown}: {format}, {}, {} with {} in them",
        units::bytes_decimal(archive.archive_bytes),
        units::count_of(*files, "file", "files"),
        units::bytes_decimal(archive.bytes),
    ));
    let index = if archive.has_index { "an index lies beside it" } else { "no index lies beside it" };
    let indexed = archive.indexed_open_s.map(|open_s| format!(", {} with it", time(open_s)));
    lines.push(format!(
        "  opening without an index: {}{}; {index}; {} compressed",
        time(archive.open_s),
        indexed.unwrap_or_default(),
        units::count_of(*compressed_files, "member is", "members are"),
    ));
    lines.push(format!("  {}", archive.why));
    lines.push(match &archive.command {
        Some(command) => format!("Run: {command}"),
        None => "Nothing helps: leave it as it is".to_owned(),
    });
}

fn of_tree(shown: &str, advice: &TreeAdvice, lines: &mut Vec<String>) {
    of_facts(shown, advice, lines);
    match (&advice.prediction, &advice.warm_because) {
        (Some(prediction), _) => of_prediction(prediction, advice, lines),
        (None, because) => {
            let because = because.as_deref().unwrap_or("caches were not emptied");
            lines.push(format!(
                "warm: the caches of the system could not be emptied ({because}), so how long reading takes from the \
                 device is not known, and is not guessed. Run as root for cold figures"
            ));
        }
    }
    let SampleFacts { rounds, files, bytes, files_together, missed, pack_records, .. } = advice.sample;
    let packed = match pack_records {
        0 => "no pack".to_owned(),
        records => format!("a pack of {}", units::count_of(records, "file", "files")),
    };
    let missed = match missed {
        0 => String::new(),
        missed => format!("; {} gone or not to be read", units::count_of(missed, "file was", "files were")),
    };
    lines.push(format!(
        "Sampled in {}: {} ({}) by one reader, {} by several, {packed}{missed}",
        units::count_of(rounds as u64, "round", "rounds"),
        units::count_of(files as u64, "file", "files"),
        units::bytes_decimal(bytes),
        units::count(files_together as u64),
    ));
    if let Some(confirmed) = &advice.confirmed {
        lines.push(of_confirmed(confirmed));
    }
    lines.extend(advice.notes.iter().map(|note| format!("Note: {note}")));
}

fn of_facts(shown: &str, advice: &TreeAdvice, lines: &mut Vec<String>) {
    let TreeFacts { names, hard_links, bytes, directories, symlinks, specials, depth_max, .. } = advice.facts;
    let files = advice.facts.files;
    let mut first = format!(
        "{shown}: {} in {}, {}, {} on average, {} deep",
        units::count_of(names, "file", "files"),
        units::count_of(directories, "directory", "directories"),
        units::bytes_decimal(bytes as u64),
        units::bytes_decimal((bytes / files.max(1.0)) as u64),
        depth_max,
    );
    for (number, one, many) in [
        (hard_links, "is one of several names of a file", "are names of files with several"),
        (symlinks, "link is not followed", "links are not followed"),
        (specials, "pipe or device is left out", "pipes or devices are left out"),
        (advice.facts.unreadable, "entry cannot be looked at", "entries cannot be looked at"),
    ] {
        if number > 0 {
            first.push_str(&format!("; {}", units::count_of(number, one, many)));
        }
    }
    lines.push(first);
    lines.extend(advice.facts.unreadable_examples.first().map(|example| format!("  first: {example}")));
    let mut second =
        format!("  on {}", advice.storage.of.as_deref().unwrap_or("storage that nothing identifies"));
    second.push_str(if advice.storage.has_profile {
        ", whose profile is kept"
    } else {
        ", no profile is kept"
    });
    if let Some(share) = advice.facts.cached_share {
        second.push_str(&format!("; {} in memory", units::percent(share)));
    }
    if let Some(extents) = advice.facts.extents_mean {
        second.push_str(&format!("; {} pieces a file on the medium", units::significant(extents)));
    }
    lines.push(second);
}

fn of_prediction(prediction: &Prediction, advice: &TreeAdvice, lines: &mut Vec<String>) {
    lines.extend(prediction.ways.iter().map(of_way));
    lines.push(format!(
        "Why: a file costs {} before its bytes, {} of the time of one reader",
        time(prediction.file.file_s),
        units::percent(prediction.file_share),
    ));
    if let (Some(bytes), Some(files), Some(device)) =
        (prediction.threshold_bytes, prediction.files_below, prediction.device_bytes_per_s)
    {
        let drift =
            prediction.drift.map(|drift| format!(" (it drifted by {} meanwhile)", units::percent(drift)));
        lines.push(format!(
            "Packing pays below {}: {} of {} files are; the device gives {} in order{}",
            units::bytes_decimal(bytes as u64),
            units::count(files as u64),
            units::count(advice.facts.files as u64),
            units::rate(device),
            drift.unwrap_or_default(),
        ));
    }
    if let Some(making) = prediction.making {
        let pays = match making.pays_after_reads {
            Some(reads) if reads < 1.0 => "less than one read".to_owned(),
            Some(reads) => format!("{} reads", units::significant(reads)),
            None => "no number of reads".to_owned(),
        };
        lines.push(format!(
            "Making a pack takes about {} and {}: it has paid after {pays}",
            time(making.seconds),
            units::bytes_decimal(making.bytes as u64),
        ));
    }
    lines.push(advised(advice));
}

/// What to do, in a sentence.
pub(super) fn advised(advice: &TreeAdvice) -> String {
    let Some(prediction) = &advice.prediction else {
        return "nothing is advised, as nothing could be read cold".to_owned();
    };
    match (prediction.action, &advice.command) {
        (Action::Pack, Some(command)) => format!("Run: {command}"),
        (Action::Readers, Some(command)) => format!("Run with several readers: {command}"),
        (Action::Readers, None) => "Read it by several readers".to_owned(),
        _ if prediction.way(WayKind::Pack).is_none() => {
            "Nothing is advised: how long a pack takes is not known".to_owned()
        }
        _ => "Nothing would be much faster: leave it as it is".to_owned(),
    }
}

/// What a way is called.
pub(super) fn name_of(way: &Way) -> String {
    match (way.way, way.readers) {
        (WayKind::Files, _) => "one reader".to_owned(),
        (WayKind::Readers, Some(readers)) => format!("{readers} readers"),
        (WayKind::Readers, None) => "several readers".to_owned(),
        (WayKind::Stitched, _) => "stitched, not copied".to_owned(),
        (WayKind::Merged, _) => "copied into one file".to_owned(),
        (WayKind::Pack, _) => "as a pack".to_owned(),
        (WayKind::MountedPack, _) => "as a pack, mounted".to_owned(),
    }
}

fn of_way(way: &Way) -> String {
    let what = match way.way {
        WayKind::Files => format!("Reading all of it, cold, {}", name_of(way)),
        _ => format!("  {}", name_of(way)),
    };
    let basis = match way.basis {
        Basis::Sampled => "",
        Basis::Profile => ", by the profile",
        Basis::Assumed => ", partly assumed",
    };
    let gain = match way.way {
        WayKind::Files => String::new(),
        _ => format!(
            ", {} ({} to {})",
            units::factor(way.speedup.value),
            units::significant(way.speedup.low),
            units::factor(way.speedup.high)
        ),
    };
    format!(
        "{what}: {} ({} to {}), {}{gain}{basis}",
        time(way.seconds.value),
        time(way.seconds.low),
        time(way.seconds.high),
        units::rate(way.bytes_per_s),
    )
}

fn of_confirmed(confirmed: &Confirmed) -> String {
    format!(
        "Confirmed on {} ({}): files {} (predicted {}), as a pack {} times as fast (predicted {}): {} off",
        units::count_of(confirmed.files as u64, "file", "files"),
        units::bytes_decimal(confirmed.bytes),
        time(confirmed.files_s),
        time(confirmed.predicted_files_s.value),
        units::significant(confirmed.speedup),
        units::significant(confirmed.predicted_speedup),
        units::percent(confirmed.error.abs()),
    )
}

fn time(seconds: f64) -> String {
    units::duration_ns((seconds * 1e9).max(0.0) as u64)
}
