//! The conclusions of the published study of many small files, and which of them hold here.

use stook::report::units;

use super::further::{FurtherReader, FurtherRow};
use super::on::OnFileSystem;
use super::published::pairs;
use crate::frame::{Claim, Judgement, no_figures, not_measured};
use crate::meter::Taken;
use crate::verdict::Verdict;

/// The figures that the conclusions are judged by, in seconds.
#[derive(Debug, Clone)]
pub struct Found {
    /// Files.
    pub files: u64,
    /// Loose files, one reader.
    pub files_s: f64,
    /// Loose files, the best number of readers.
    pub files_parallel_s: f64,
    /// Readers of that.
    pub readers: usize,
    /// The plain file with the published buffer.
    pub plain_s: f64,
    /// Processor time of that.
    pub plain_cpu_s: f64,
    /// The same a second time, without emptying caches.
    pub plain_again_s: f64,
    /// The pack, streaming.
    pub pack_s: f64,
    /// Speed of the plain file against large reads of the device in order.
    pub plain_of_limit: f64,
    /// Bytes read at the device ÷ bytes of the files, where that is known.
    pub files_amplification: Option<f64>,
    /// What was measured in rounds of its own.
    pub further: Vec<FurtherFigures>,
    /// The file systems that were asked for.
    pub file_systems: Vec<OnFigures>,
    /// What reading took below --work, with the name of the file system there.
    pub below_work: Option<(String, OnSeconds)>,
    /// Rounds of the comparison.
    pub rounds: usize,
    /// The slowest ÷ the quickest round of the files; `None` of one round.
    pub spread: Option<f64>,
}

/// Figures of a way of reading that has rounds of its own.
#[derive(Debug, Clone, Copy)]
pub struct FurtherFigures {
    /// The way.
    pub reader: FurtherReader,
    /// What it took, seconds.
    pub seconds: f64,
    /// How many times as long as what it is compared with.
    pub times: Option<f64>,
    /// Its rounds.
    pub rounds: usize,
    /// The slowest ÷ the quickest of them.
    pub spread: f64,
}

impl From<&FurtherRow> for FurtherFigures {
    fn from(row: &FurtherRow) -> Self {
        Self {
            reader: row.reader,
            seconds: row.seconds,
            times: row.times.as_ref().map(|times| times.ratio),
            rounds: row.runs.len(),
            spread: spread_of(&row.runs).unwrap_or(1.0),
        }
    }
}

/// The slowest ÷ the quickest of several rounds.
pub(super) fn spread_of(runs: &[Taken]) -> Option<f64> {
    let (least, most) = ends(&runs.iter().map(|run| run.seconds).collect::<Vec<f64>>());
    (runs.len() > 1 && least > 0.0).then(|| most / least)
}

/// Figures of a file system, or why it is not to be had.
#[derive(Debug, Clone)]
pub struct OnFigures {
    /// Its name.
    pub name: &'static str,
    /// What reading took there.
    pub figures: Result<OnSeconds, String>,
}

/// What reading took on a file system.
#[derive(Debug, Clone, Copy)]
pub struct OnSeconds {
    /// The one file, seconds.
    pub one_file_s: f64,
    /// The files, seconds.
    pub files_s: f64,
    /// Bytes read at the device ÷ bytes of the files, where that is known.
    pub files_amplification: Option<f64>,
}

impl From<&OnFileSystem> for OnFigures {
    fn from(on: &OnFileSystem) -> Self {
        let figures = on.measured.as_ref().map(|measured| OnSeconds {
            one_file_s: measured.one_file.seconds,
            files_s: measured.loose_files.seconds,
            files_amplification: measured.loose_files.read_amplification,
        });
        Self { name: on.name, figures: figures.ok_or_else(|| on.not_had.clone().unwrap_or_default()) }
    }
}

impl Found {
    fn further(&self, reader: FurtherReader) -> Option<FurtherFigures> {
        self.further.iter().copied().find(|figures| figures.reader == reader)
    }

    /// Those file systems that were measured.
    fn measured(&self) -> impl Iterator<Item = (&'static str, OnSeconds)> {
        self.file_systems.iter().filter_map(|on| Some((on.name, on.figures.as_ref().ok().copied()?)))
    }

    /// The first of these file systems that was measured, or why none was.
    fn on(&self, names: &[&'static str]) -> Result<OnSeconds, String> {
        // As in the table: that below --work counts where there is no other.
        let is_any = self.measured().next().is_some();
        let own = self.below_work.as_ref().filter(|(name, _)| !is_any && names.contains(&name.as_str()));
        let found = self.measured().find(|(name, _)| names.contains(name));
        found.map(|(_, figures)| figures).or(own.map(|(_, figures)| *figures)).ok_or_else(|| {
            let asked = self.file_systems.iter().find(|on| names.contains(&on.name));
            let name = names.first().copied().unwrap_or_default();
            match asked.map(|on| &on.figures) {
                Some(Err(because)) => format!("{name} is not to be had here: {because}."),
                _ => format!("{name} was not measured: --on {name} does, as root."),
            }
        })
    }
}

/// The names of NTFS.
const NTFS: [&str; 3] = ["ntfs", "ntfs3", "fuseblk"];

/// File systems that Linux has of its own, and others.
const OF_LINUX: [&str; 3] = ["ext4", "xfs", "btrfs"];
const OF_OTHERS: [&str; 4] = ["vfat", "exfat", "ntfs", "ntfs3"];

/// A difference smaller than this share decides nothing.
const NOTICEABLE: f64 = 1.2;

/// What is above this share of the speed of the device is not believed.
const IMPOSSIBLE: f64 = 1.1;

pub(super) const CLAIMS: [Claim<Found>; 16] = [
    Claim {
        section: "Introduction, Testing",
        published: "The same data is read more slowly from many files than from one.",
        check: "Reading the files takes at least 1.2 times as long as reading one file.",
        there: ratios,
        here: |found| {
            let ratio = found.files_s / found.plain_s;
            let extra_ms = (found.files_s - found.plain_s) / found.files.max(1) as f64 * 1e3;
            let figures = format!("{ratio:.2} times: {extra_ms:.3} ms more for each file.");
            beyond(found, ratio, found.rounds, 1.0, figures)
        },
    },
    Claim {
        section: "Solution",
        published: "Most of the time goes into locating and opening the files, not into reading them.",
        check: "More than half of the time is gone when the same bytes come from one file.",
        there: || {
            let shares = pairs().into_iter().map(|pair| 1.0 - pair.one_file_s / pair.files_s);
            let shares: Vec<f64> = shares.collect();
            let (least, most) = ends(&shares);
            let figures = format!(
                "{:.0}% to {:.0}% of the time by its table, of a disk; its profile of an SSD is not printed.",
                least * 100.0,
                most * 100.0
            );
            (Verdict::of(least > 0.5), figures)
        },
        here: |found| {
            let overhead = 1.0 - found.plain_s / found.files_s;
            (Verdict::of(overhead > 0.5), format!("{:.0}% of the time.", overhead.max(0.0) * 100.0))
        },
    },
    Claim {
        section: "Solution",
        published: "Loading one file gets very close to what the device needs for reading in order.",
        check: "The plain file is read at 80% of the speed of large reads in order past the page cache, or more.",
        there: no_figures,
        here: |found| {
            let figures = format!("At {:.0}% of it, with reads of 64 KiB.", found.plain_of_limit * 100.0);
            // What is faster than the device did not come from it.
            if found.plain_of_limit > IMPOSSIBLE {
                return not_measured(format!(
                    "{figures} That is more than the device gave: from a cache, or too short."
                ));
            }
            (Verdict::of(found.plain_of_limit >= 0.8), figures)
        },
    },
    Claim {
        section: "Solution",
        published: "A used flag lets a program skip historical records without parsing them.",
        check: "Of a file half of whose records are history, parsing all takes 1.2 times as long as skipping history, or more, beyond \
                the spread of rounds.",
        there: no_figures,
        here: skipped,
    },
    Claim {
        section: "Testing",
        published: "One file takes nearly the same time on all file systems and operating systems.",
        check: "The slowest takes at most 1.2 times as long as the quickest.",
        there: || {
            let seconds: Vec<f64> = pairs().into_iter().map(|pair| pair.one_file_s).collect();
            let (least, most) = ends(&seconds);
            let figures = format!("{least:.3} to {most:.3} s: {:.2} times.", most / least);
            (Verdict::of(most / least <= NOTICEABLE), figures)
        },
        here: same_everywhere,
    },
    Claim {
        section: "Testing",
        published: "It is limited mostly by the disk, and less by processor and memory.",
        check: "Reading the plain file takes less processor time than half of its time.",
        there: no_figures,
        here: |found| {
            let share = found.plain_cpu_s / found.plain_s;
            (Verdict::of(share < 0.5), format!("Processors worked for {:.0}% of the time.", share * 100.0))
        },
    },
    Claim {
        section: "Testing",
        published: "On Ubuntu ext4 and NTFS take about the same time for many files.",
        check: "The slower takes at most 1.2 times as long.",
        there: || {
            let (ext4, ntfs) = (files_s("ext4, Ubuntu 12"), files_s("ntfs, Ubuntu 12"));
            let ratio = ext4.max(ntfs) / ext4.min(ntfs);
            (Verdict::of(ratio <= NOTICEABLE), format!("{ext4:.3} and {ntfs:.3} s: {ratio:.2} times."))
        },
        here: |found| {
            let (ext4, ntfs) = match (found.on(&["ext4"]), found.on(&NTFS)) {
                (Ok(ext4), Ok(ntfs)) => (ext4.files_s, ntfs.files_s),
                (Err(because), _) | (_, Err(because)) => return not_measured(because),
            };
            let ratio = ext4.max(ntfs) / ext4.min(ntfs);
            (Verdict::of(ratio <= NOTICEABLE), format!("{ext4:.3} and {ntfs:.3} s: {ratio:.2} times."))
        },
    },
    Claim {
        section: "Testing",
        published: "FAT32 takes approximately 3 times as long as both.",
        check: "2.5 to 3.5 times as long as each.",
        there: || {
            let of = |label| files_s("fat32, Ubuntu 12") / files_s(label);
            let (ext4, ntfs) = (of("ext4, Ubuntu 12"), of("ntfs, Ubuntu 12"));
            let holds = [ext4, ntfs].iter().all(|times| (2.5..=3.5).contains(times));
            (Verdict::of(holds), format!("{ext4:.2} times ext4, {ntfs:.2} times NTFS."))
        },
        here: three_times,
    },
    Claim {
        section: "Testing",
        published: "That is because 64 KB are read for each file of 20 KB.",
        check: "With sectors of 64 KB at least 2.5 times the bytes of the files are read at the device.",
        there: no_figures,
        here: read_at_device,
    },
    Claim {
        section: "Testing",
        published: "Ubuntu reads ahead and hides much of that; Windows 7 hardly does, on NTFS.",
        check: "Many files on NTFS take 1.2 times as long on Windows as on Linux, or more. That read-ahead is why is not shown by it.",
        there: || {
            let (ubuntu, windows) = (files_s("ntfs, Ubuntu 12"), files_s("ntfs, Windows 7"));
            let ratio = windows / ubuntu;
            (Verdict::of(ratio > NOTICEABLE), format!("NTFS takes {ratio:.2} times as long on Windows."))
        },
        here: read_ahead,
    },
    Claim {
        section: "Testing",
        published: "In real life it is worse, because small files do not lie beside each other.",
        check: "A tree that was written in turn with others, deleted in part and written again takes 1.2 times as long, or more.",
        there: no_figures,
        here: |found| match found.further(FurtherReader::Aged) {
            Some(FurtherFigures { seconds, times: Some(times), rounds, spread, .. }) => {
                let figures = format!("{times:.2} times as long as a fresh tree: {seconds:.3} s.");
                beyond(found, times, rounds, spread, figures)
            }
            _ => not_measured("The tree is that of --dir, as it has become."),
        },
    },
    Claim {
        section: "Summary",
        published: "Avoid storing data in a large number of files.",
        check: "Even with the best number of threads, reading the files takes 1.2 times as long as a pack, or more.",
        there: || not_measured("It tried one thread, and has no pack."),
        here: |found| {
            let ratio = found.files_parallel_s / found.pack_s;
            let figures = format!(
                "{} threads at once took {ratio:.2} times as long as the pack with all checksums verified.",
                found.readers
            );
            beyond(found, ratio, found.rounds, 1.0, figures)
        },
    },
    Claim {
        section: "Solution",
        published: "Sharding the data into groups allows a system to be spread over several machines.",
        check: "Whether groups of records can be read by machines that share nothing.",
        there: no_figures,
        here: |_| not_measured("There is one machine here, and one group."),
    },
    Claim {
        section: "Summary",
        published: "At least limit the number of files, so that it does not grow with the data.",
        check: "The time that each file adds, of which the number of files would decide: what is read from many files takes 1.2 \
                times as long as the same from one, or more.",
        there: ratios,
        here: |found| {
            let ratio = found.files_s / found.plain_s;
            let extra_ms = (found.files_s - found.plain_s) / found.files.max(1) as f64 * 1e3;
            let figures = format!(
                "Each of {} adds {extra_ms:.3} ms to {:.3} s of one file.",
                units::count_of(found.files, "file", "files"),
                found.plain_s
            );
            beyond(found, ratio, found.rounds, 1.0, figures)
        },
    },
    Claim {
        section: "Summary",
        published: "If it must be many files: Linux, and a file system of its own with sectors of 4K.",
        check: "The files take less on each file system of Linux than on every other.",
        there: || {
            let (own, others): (Vec<_>, Vec<_>) =
                pairs().into_iter().partition(|pair| pair.label.starts_with("ext4"));
            let slowest = own.iter().max_by(|one, other| one.files_s.total_cmp(&other.files_s));
            let quickest = others.iter().min_by(|one, other| one.files_s.total_cmp(&other.files_s));
            let Some((slowest, quickest)) = slowest.zip(quickest) else { return no_figures() };
            let figures = format!(
                "{:.3} s ({}) against {:.3} s ({}).",
                slowest.files_s, slowest.label, quickest.files_s, quickest.label
            );
            (Verdict::of(slowest.files_s < quickest.files_s), figures)
        },
        here: linux_first,
    },
    Claim {
        section: "Summary",
        published: "Once read, or written by another program, the files may be expected in the file cache.",
        check: "Cold the plain file takes 1.2 times as long as right after that, or more: by the same program, and by another after this one read or wrote what it reads.",
        there: no_figures,
        here: found_in_cache,
    },
];

fn files_s(label: &str) -> f64 {
    pairs().into_iter().find(|pair| pair.label == label).map_or(f64::NAN, |pair| pair.files_s)
}

fn ends(figures: &[f64]) -> (f64, f64) {
    let wider = |(least, most): (f64, f64), figure: &f64| (figure.min(least), figure.max(most));
    figures.iter().fold((f64::INFINITY, 0.0), wider)
}

/// Many files against one, in every pair of the table.
fn ratios() -> Judgement {
    let ratios: Vec<f64> = pairs().into_iter().map(|pair| pair.files_s / pair.one_file_s).collect();
    let (least, most) = ends(&ratios);
    (Verdict::of(least > NOTICEABLE), format!("{least:.2} to {most:.2} times."))
}

/// History that is skipped, against all that is parsed.
fn skipped(found: &Found) -> Judgement {
    let [parsed, skipped] =
        [FurtherReader::HistoryParsed, FurtherReader::HistorySkipped].map(|reader| found.further(reader));
    let (Some(parsed), Some(skipped)) = (parsed, skipped) else {
        return not_measured("A tree given with --dir has no history; without --dir it is measured.");
    };
    let Some(times) = skipped.times.map(f64::recip) else { return not_measured("Not both were measured.") };
    let figures = format!(
        "Parsing all takes {times:.2} times as long as skipping history ({:.3} and {:.3} s).",
        parsed.seconds, skipped.seconds
    );
    beyond(found, times, skipped.rounds, parsed.spread.max(skipped.spread), figures)
}

/// Whether something takes noticeably longer: no verdict where rounds differ by as much as decides
/// it, and the number of rounds beside it.
fn beyond(found: &Found, ratio: f64, rounds: usize, own_spread: f64, figures: String) -> Judgement {
    let figures = format!("{figures} {}.", units::count_of(rounds as u64, "round", "rounds"));
    let Some(spread) = found.spread.map(|spread| spread.max(own_spread)) else {
        return not_measured(format!("{figures} One round has no spread: --runs 2 or more."));
    };
    if (NOTICEABLE / spread..NOTICEABLE * spread).contains(&ratio) {
        let spread = units::percent(spread - 1.0);
        return not_measured(format!("{figures} That is within the spread of rounds, {spread}."));
    }
    (Verdict::of(ratio > NOTICEABLE), figures)
}

fn same_everywhere(found: &Found) -> Judgement {
    let all: Vec<(&str, OnSeconds)> = found.measured().collect();
    if all.len() < 2 {
        return not_measured("Fewer than two file systems were measured: --on FS,… does, as root.");
    }
    let (least, most) = ends(&all.iter().map(|(_, on)| on.one_file_s).collect::<Vec<f64>>());
    let each: Vec<String> = all.iter().map(|(name, on)| format!("{name} {:.3} s", on.one_file_s)).collect();
    let figures = format!("{}: {:.2} times. All of them on Linux.", each.join(", "), most / least);
    (Verdict::of(most / least <= NOTICEABLE), figures)
}

fn three_times(found: &Found) -> Judgement {
    let (vfat, ext4, ntfs) = (found.on(&["vfat"]), found.on(&["ext4"]), found.on(&NTFS));
    let vfat = match vfat {
        Ok(vfat) => vfat.files_s,
        Err(because) => return not_measured(because),
    };
    let of = |other: &Result<OnSeconds, String>, name: &str| match other {
        Ok(other) => format!("{:.2} times {name}", vfat / other.files_s),
        Err(because) => because.trim_end_matches('.').to_owned(),
    };
    let figures = format!("{}, {}.", of(&ext4, "ext4"), of(&ntfs, "NTFS"));
    let known = [&ext4, &ntfs].into_iter().filter_map(|other| Some(vfat / other.as_ref().ok()?.files_s));
    let known: Vec<f64> = known.collect();
    let all_hold = known.iter().all(|times| (2.5..=3.5).contains(times));
    // One that does not hold is enough, and one that holds is not.
    if all_hold && known.len() < 2 { not_measured(figures) } else { (Verdict::of(all_hold), figures) }
}

fn read_at_device(found: &Found) -> Judgement {
    let others: Vec<String> = found
        .measured()
        .filter(|(name, _)| *name != "vfat")
        .filter_map(|(name, on)| Some(format!("{name} {:.2} times", on.files_amplification?)))
        .collect();
    let below = found.files_amplification.map(|times| format!("below --work {times:.2} times"));
    let others = [below.into_iter().collect(), others].concat().join(", ");
    let others = if others.is_empty() { others } else { format!(" Read elsewhere: {others}.") };
    match found.on(&["vfat"]).map(|vfat| vfat.files_amplification) {
        Err(because) => not_measured(format!("{because}{others}")),
        Ok(None) => not_measured(format!("What the device below vfat reads is not counted.{others}")),
        Ok(Some(times)) => {
            (Verdict::of(times >= 2.5), format!("{times:.2} times, with clusters of 64 KiB.{others}"))
        }
    }
}

/// What can be turned off here is the read-ahead within each file.
fn read_ahead(found: &Found) -> Judgement {
    const WHY: &str = "Windows was not measured, and read-ahead from one file into the next is the drive's: it cannot be turned \
                       off here.";
    let times = |reader: FurtherReader| found.further(reader)?.times;
    let of = (times(FurtherReader::NumberedWithoutReadAhead), times(FurtherReader::PlainWithoutReadAhead));
    let (Some(files), Some(plain)) = of else { return not_measured(WHY) };
    not_measured(format!(
        "{WHY} Without the read-ahead of the kernel within each file the files take {files:.2} times as long, and one file \
         {plain:.2} times."
    ))
}

fn linux_first(found: &Found) -> Judgement {
    let of = |names: &[&str]| {
        let all = found.measured().filter(|(name, _)| names.contains(name));
        all.map(|(_, on)| on.files_s).collect::<Vec<f64>>()
    };
    let (own, others) = (of(&OF_LINUX), of(&OF_OTHERS));
    if own.is_empty() || others.is_empty() {
        let unmet = found.file_systems.iter().filter(|on| OF_OTHERS.contains(&on.name));
        let unmet = unmet.filter_map(|on| Some(format!("{}: {}", on.name, on.figures.as_ref().err()?)));
        let unmet: Vec<String> = unmet.collect();
        return match unmet.is_empty() {
            true => not_measured("No two such file systems were measured: --on FS,… does, as root."),
            false => not_measured(format!("Only those of Linux are to be had here. {}.", unmet.join("; "))),
        };
    }
    let (slowest, quickest) = (ends(&own).1, ends(&others).0);
    let figures = format!("{slowest:.3} s at most on those of Linux, {quickest:.3} s at least on others.");
    (Verdict::of(slowest < quickest), figures)
}

/// By the same program, and by another.
fn found_in_cache(found: &Found) -> Judgement {
    let own = found.plain_s / found.plain_again_s;
    let mut all = vec![own];
    let mut figures = format!("By the same program {own:.2} times");
    let others = [
        (FurtherReader::OtherAfterReading, "by another after this one read it"),
        (FurtherReader::OtherAfterWriting, "by another after this one wrote it"),
    ];
    for (reader, label) in others {
        if let Some(times) = found.further(reader).and_then(|figures| figures.times) {
            all.push(times.recip());
            figures += &format!(", {label} {:.2} times", times.recip());
        }
    }
    let least = all.into_iter().fold(f64::INFINITY, f64::min);
    let of = |reader| found.further(reader).map_or(1.0, |figures| figures.spread);
    let own_spread = of(FurtherReader::OtherAfterReading).max(of(FurtherReader::OtherAfterWriting));
    let rounds =
        found.further(FurtherReader::OtherAfterReading).map_or(found.rounds, |figures| figures.rounds);
    // What comes from memory differs much from round to round, and is quicker in all of them.
    let own_spread = if least > NOTICEABLE * own_spread { 1.0 } else { own_spread };
    beyond(found, least, rounds.min(found.rounds), own_spread, figures + ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::judged;

    const FOUND: Found = Found {
        files: 1000,
        files_s: 8.0,
        files_parallel_s: 1.2,
        readers: 32,
        plain_s: 1.0,
        plain_cpu_s: 0.2,
        plain_again_s: 0.2,
        pack_s: 0.6,
        plain_of_limit: 0.9,
        files_amplification: Some(1.1),
        further: Vec::new(),
        file_systems: Vec::new(),
        below_work: None,
        rounds: 3,
        spread: Some(1.0),
    };

    /// The conclusion that begins with these words.
    fn judged_of(begin: &str, found: &Found) -> (Verdict, String) {
        let all = judged(&CLAIMS, found);
        let one = all.iter().find(|one| one.published.starts_with(begin)).unwrap();
        (one.verdict, one.here.clone())
    }

    fn on(name: &'static str, one_file_s: f64, files_s: f64, amplification: f64) -> OnFigures {
        let figures = OnSeconds { one_file_s, files_s, files_amplification: Some(amplification) };
        OnFigures { name, figures: Ok(figures) }
    }

    #[test]
    fn file_systems_decide_what_is_said_of_them() {
        let ntfs = || on("ntfs", 1.1, 4.4, 1.1);
        let published = Found {
            file_systems: vec![on("ext4", 1.0, 4.0, 1.0), on("vfat", 1.1, 12.8, 3.2), ntfs()],
            ..FOUND
        };
        let begins = ["One file takes", "On Ubuntu ext4", "FAT32 takes", "That is because", "If it must"];
        for begin in begins {
            let (verdict, here) = judged_of(begin, &published);
            assert_eq!(verdict, Verdict::Holds, "{begin}: {here}");
        }
        assert_eq!(judged_of("FAT32 takes", &published).1, "3.20 times ext4, 2.91 times NTFS.");
        let others = Found {
            file_systems: vec![on("ext4", 1.0, 8.0, 1.0), on("vfat", 1.5, 6.0, 1.1), ntfs()],
            ..FOUND
        };
        for begin in begins {
            let (verdict, here) = judged_of(begin, &others);
            assert_eq!(verdict, Verdict::DoesNotHold, "{begin}: {here}");
        }
        let read = judged_of("That is because", &others).1;
        let expected = "1.10 times, with clusters of 64 KiB. Read elsewhere: below --work 1.10 times, ext4 1.00 \
                        times, ntfs 1.10 times.";
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_not_to_be_had_is_the_reason_and_one_that_fails_is_enough() {
        let none = |name| OnFigures { name, figures: Err(format!("this kernel has no {name}")) };
        let linux = Found {
            file_systems: vec![
                on("ext4", 1.0, 4.0, 1.0),
                on("xfs", 1.0, 4.0, 1.0),
                none("vfat"),
                none("ntfs"),
            ],
            ..FOUND
        };
        assert_eq!(judged_of("One file takes", &linux).0, Verdict::Holds);
        for begin in ["On Ubuntu ext4", "FAT32 takes", "That is because", "If it must"] {
            let (verdict, here) = judged_of(begin, &linux);
            assert_eq!(verdict, Verdict::NotMeasured, "{begin}: {here}");
            assert!(here.contains("this kernel has no "), "{begin}: {here}");
        }
        let fat = |files_s| Found {
            file_systems: vec![on("ext4", 1.0, 4.0, 1.0), on("vfat", 1.0, files_s, 1.0), none("ntfs")],
            ..FOUND
        };
        assert_eq!(judged_of("FAT32 takes", &fat(12.0)).0, Verdict::NotMeasured);
        assert_eq!(judged_of("FAT32 takes", &fat(5.0)).0, Verdict::DoesNotHold);
        let (verdict, here) = judged_of("FAT32 takes", &FOUND);
        assert!(verdict == Verdict::NotMeasured && here.contains("--on vfat"), "{here}");
    }

    #[test]
    fn what_has_rounds_of_its_own_decides_what_is_said_of_it() {
        let figures =
            |reader, times, spread| FurtherFigures { reader, seconds: 2.0, times, rounds: 2, spread };
        let found = |times: f64, spread: f64| Found {
            further: vec![
                figures(FurtherReader::HistoryParsed, None, spread),
                figures(FurtherReader::HistorySkipped, Some(1.0 / times), spread),
                figures(FurtherReader::PlainWithoutReadAhead, Some(times), 1.0),
                figures(FurtherReader::NumberedWithoutReadAhead, Some(times), 1.0),
                figures(FurtherReader::Aged, Some(times), spread),
                figures(FurtherReader::OtherAfterReading, Some(1.0 / times), spread),
                figures(FurtherReader::OtherAfterWriting, Some(1.0 / times), spread),
            ],
            ..FOUND
        };
        let begins = ["A used flag", "In real life", "Once read"];
        for (found, verdict) in [
            (found(2.0, 1.1), Verdict::Holds),
            (found(1.1, 1.01), Verdict::DoesNotHold),
            // Before: one round decided, whatever the others would have said.
            (found(1.3, 1.2), Verdict::NotMeasured),
            (Found { spread: None, ..found(2.0, 1.0) }, Verdict::NotMeasured),
        ] {
            for begin in begins {
                let (found, here) = judged_of(begin, &found);
                assert_eq!(found, verdict, "{begin}: {here}");
            }
        }
        let (verdict, here) = judged_of("Ubuntu reads ahead", &found(2.0, 1.0));
        assert_eq!(verdict, Verdict::NotMeasured);
        assert!(here.contains("the files take 2.00 times as long"), "{here}");
        let used = judged_of("A used flag", &found(2.0, 1.1)).1;
        assert_eq!(
            used,
            "Parsing all takes 2.00 times as long as skipping history (2.000 and 2.000 s). 2 rounds."
        );
    }

    /// Before: ext4 was "not measured" though it lies below --work and stands in the table.
    #[test]
    fn the_file_system_below_work_counts_and_the_missing_one_is_named() {
        let own = OnSeconds { one_file_s: 1.0, files_s: 4.0, files_amplification: None };
        let found = Found { below_work: Some(("ext4".to_owned(), own)), ..FOUND };
        let (verdict, here) = judged_of("On Ubuntu ext4", &found);
        assert_eq!(
            (verdict, here.as_str()),
            (Verdict::NotMeasured, "ntfs was not measured: --on ntfs does, as root.")
        );
        let with = Found { file_systems: vec![on("ntfs", 1.0, 4.0, 1.0)], ..found };
        assert!(judged_of("On Ubuntu ext4", &with).1.contains("ext4 was not measured"));
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let verdicts = |found: &Found, wanted| {
            judged(&CLAIMS, found).iter().filter(|conclusion| conclusion.verdict == wanted).count()
        };
        assert_eq!((verdicts(&FOUND, Verdict::Holds), verdicts(&FOUND, Verdict::NotMeasured)), (7, 9));
        let cached = Found { plain_of_limit: 2.0, ..FOUND };
        assert_eq!((verdicts(&cached, Verdict::Holds), verdicts(&cached, Verdict::NotMeasured)), (6, 10));
        assert!(judged(&CLAIMS, &FOUND)[0].here.contains("7.000 ms more for each file."));
        let fast = Found {
            files_s: 1.0,
            files_parallel_s: 0.5,
            plain_again_s: 1.0,
            plain_cpu_s: 0.9,
            plain_of_limit: 0.3,
            ..FOUND
        };
        assert_eq!((verdicts(&fast, Verdict::Holds), verdicts(&fast, Verdict::DoesNotHold)), (0, 7));
    }

    #[test]
    fn its_own_table_contradicts_four_of_its_conclusions() {
        let judged = judged(&CLAIMS, &FOUND);
        let not = judged.iter().filter(|one| one.verdict_of_published == Verdict::DoesNotHold);
        let not: Vec<&str> = not.map(|one| one.figures_of_published.as_str()).collect();
        assert_eq!(
            not,
            [
                "44% to 82% of the time by its table, of a disk; its profile of an SSD is not printed.",
                "29.342 to 38.383 s: 1.31 times.",
                "2.35 times ext4, 2.72 times NTFS.",
                "63.381 s (ext4, Ubuntu 12) against 54.629 s (ntfs, Ubuntu 12).",
            ]
        );
    }
}
