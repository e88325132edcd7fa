//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::ends::DriveKind;
use super::published::{CHECKS, DETAILS, DISKS, DOCUMENT, LOCAL, MEMORY, NOTES, OPTIONS, SYSTEMS};
use super::ways::{PUBLISHED_BLOCK_BYTES, Way};
use super::{End, Findings, Row};
use crate::frame::{Beside, Contradiction, Elsewhere, Frame, NONE, Step, judged};

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: verdict(findings),
        tables: tables(findings),
        procedure: procedure(findings),
        conclusions: findings.of_devices(judged(&CLAIMS, findings)),
        elsewhere: ELSEWHERE.into(),
        facts: facts(findings),
        ..Frame::of(DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

fn verdict(findings: &Findings) -> String {
    let rate = |way| findings.rate(way).map_or_else(|| NONE.to_owned(), units::rate);
    let note = findings.note().map(|note| format!(" {note}")).unwrap_or_default();
    let places = if findings.is_between_drives { "from one drive to another" } else { "within a drive" };
    format!(
        "Two threads with blocks of 128 KiB and a queue of 10 copy a large file {places} at {}, stook copy at {}, cp at {}: \
         cold, and down to the medium.{note}",
        rate(Way::PUBLISHED),
        rate(Way::Stook),
        rate(Way::Cp)
    )
}

/// MB, and MiB apart from them.
fn both(rate: Option<f64>) -> String {
    rate.map_or_else(
        || NONE.to_owned(),
        |rate| format!("{:.1} MB/s, {:.1} MiB/s", rate / 1e6, rate / f64::from(1 << 20)),
    )
}

/// Where there is no room for both.
fn in_decimal(rate: Option<f64>) -> String {
    rate.map_or_else(|| NONE.to_owned(), |rate| format!("{:.1} MB/s", rate / 1e6))
}

/// MB/s and MiB/s, each to three places, as the document prints rates.
fn apart(rate: Option<f64>, mark: &str) -> [String; 2] {
    [1e6, f64::from(1 << 20)]
        .map(|unit| rate.map_or_else(|| NONE.to_owned(), |rate| format!("{:.3}{mark}", rate / unit)))
}

/// What ours is held against, and how large it is.
fn note(findings: &Findings, row: usize) -> String {
    let rating = match row {
        0 => return format!("one file of {}", units::bytes_binary(findings.file_bytes)),
        2 => findings.rated_read_bytes_per_s,
        _ => findings.rated_write_bytes_per_s,
    };
    rating.map_or_else(|| NONE.to_owned(), units::rate)
}

fn tables(findings: &Findings) -> Vec<Beside> {
    let own = findings.rate(Way::PUBLISHED);
    let cached = |row: usize| findings.cached.get(row).and_then(|cached| cached.seconds);
    let rate_of = |seconds: Option<f64>| Some(findings.file_bytes as f64 / seconds?);
    let outlier = rate_of(cached(0));
    vec![
        Beside::new(DISKS, ["Here, MB/s", "Here, MiB/s", "Of the rating"], |row| disks(findings, row))
            .with_unknown_kind(is_of_no_kind(findings, &findings.destination, true).then(|| {
                let [decimal, binary] = apart(own, "");
                [decimal, binary, share_of_rating(own, findings.rated_write_bytes_per_s)]
            })),
        Beside::new(NOTES, ["Here"], |row| [note(findings, row)]),
        Beside::new(LOCAL, ["Here, MB/s", "Here, MiB/s", "From memory, by cp"], |row| {
            let rate = own.filter(|_| is_of_local(findings, row));
            let [decimal, binary] = apart(rate, findings.mark());
            [decimal, binary, in_decimal(rate.and(outlier))]
        })
        .with_unknown_kind(is_of_no_kind(findings, &findings.source, false).then(|| {
            let [decimal, binary] = apart(own, "");
            [decimal, binary, in_decimal(own.and(outlier))]
        })),
        Beside::new(MEMORY, ["Here, cp"], |row| [both(rate_of(cached(row)))]),
        Beside::new(CHECKS, ["Here, by", "Rate", "Twice, of the limit"], |row| {
            let (by, rate) = match row {
                0 => ("two threads", own),
                1 => ("cp", findings.rate(Way::Cp)),
                _ => ("cp, from memory", outlier),
            };
            let rate = rate.filter(|_| findings.is_within_disks);
            let share = rate.filter(|_| findings.is_shared()).and_then(|rate| findings.of_limit(rate));
            [by.to_owned(), both(rate), share.map_or_else(|| NONE.to_owned(), units::percent)]
        }),
        Beside::new(DETAILS, ["Here"], |_| [NONE.to_owned()]),
        Beside::new(OPTIONS, ["Here", "Against its default"], |row| option(findings, row)),
        Beside::new(SYSTEMS, ["Here, cp against it"], |row| {
            let ratio = own.zip(findings.rate(Way::Cp)).filter(|_| row == 1);
            [ratio.map_or_else(|| NONE.to_owned(), |(own, cp)| units::factor(cp / own))]
        }),
    ]
}

/// A copy from drive to drive, beside the rows whose rated drive is of the same kind.
fn disks(findings: &Findings, row: usize) -> [String; 3] {
    // Of the card as a source it is reads that are rated.
    let (end, kind, rating) = match row {
        3 => (&findings.source, DriveKind::Card, findings.rated_read_bytes_per_s),
        4 => (&findings.destination, DriveKind::Card, findings.rated_write_bytes_per_s),
        _ => (&findings.destination, DriveKind::HardDisk, findings.rated_write_bytes_per_s),
    };
    let is_of_row = end.kind == Some(kind) || findings.is_simulated();
    let rate = findings.rate(Way::PUBLISHED).filter(|_| findings.is_between_drives && is_of_row);
    let [decimal, binary] = apart(rate, findings.mark());
    [decimal, binary, share_of_rating(rate, rating)]
}

fn share_of_rating(rate: Option<f64>, rating: Option<f64>) -> String {
    let share = rate.zip(rating).map(|(rate, rating)| units::percent(rate / rating));
    share.unwrap_or_else(|| NONE.to_owned())
}

/// Whether this copy belongs into a table of copies between drives, or within one, and this end of
/// it is a device that does not say of which kind it is.
fn is_of_no_kind(findings: &Findings, end: &End, is_between: bool) -> bool {
    findings.is_between_drives == is_between && end.kind.is_none() && !findings.is_simulated()
}

/// Whether a row of [`LOCAL`] is of a drive of the same kind.
fn is_of_local(findings: &Findings, row: usize) -> bool {
    let kind = if row == 0 { DriveKind::NvmeSsd } else { DriveKind::SataSsd };
    !findings.is_between_drives && (findings.source.kind == Some(kind) || findings.is_simulated())
}

/// What the rows of [`OPTIONS`] name; of 1M to 8M the first.
const NAMED: [(u64, usize); 7] = [
    (PUBLISHED_BLOCK_BYTES, 10),
    (PUBLISHED_BLOCK_BYTES, 1),
    (PUBLISHED_BLOCK_BYTES, 1000),
    (PUBLISHED_BLOCK_BYTES, 10),
    (1 << 20, 10),
    (1 << 10, 10),
    (1 << 30, 10),
];

fn option(findings: &Findings, row: usize) -> [String; 2] {
    let way = NAMED.get(row).map(|&(block_bytes, queue)| Way::Threads { block_bytes, queue });
    let rate = way.and_then(|way| findings.rate(way));
    let share = rate.zip(findings.rate(Way::PUBLISHED)).map(|(rate, own)| units::percent(rate / own));
    [both(rate), share.unwrap_or_else(|| NONE.to_owned())]
}

/// Both ends, in place of the one that the environment is of.
fn facts(findings: &Findings) -> Vec<(String, String)> {
    let ends = [("Source", &findings.source), ("Destination", &findings.destination)];
    let fact = |(name, end): (&str, &End)| {
        let simulated = end.simulated.as_ref().map(|why| format!("simulated: {why}"));
        let parts = [&end.file_system, &end.device, &end.link].into_iter().cloned().chain(simulated);
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        (name.to_owned(), parts.join("; "))
    };
    ends.map(fact).into()
}

fn procedure(findings: &Findings) -> Vec<Step> {
    // As they are, and not as they were typed.
    let places =
        [&findings.from, &findings.to].map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    let places = format!("{} to {}", places[0].display(), places[1].display());
    vec![
        Step::other(
            "Blocks are queued up between threads: 128K each, and 10 of them",
            "One thread reads and one writes; stook copy and cp beside it, which is ours",
            "how many threads there are is not stated",
        ),
        Step::other(
            "Blocks of 1K, 128K, 1M to 8M and 1G, queues of 1, 10 and 1000",
            "These, and 4 KiB, 16 KiB and 64 MiB; a block that needs more than a quarter of the free memory is left out",
            "those between are ours; memory must not run out",
        ),
        Step::other(
            "Few very large files, up to a full card",
            format!("One file of {}", units::bytes_binary(findings.file_bytes)),
            "--size makes it larger; caches are emptied instead of being outgrown",
        ),
        Step::other(
            "From drive to drive, and within a drive",
            format!(
                "From {places}, {}",
                if findings.is_between_drives { "from one drive to another" } else { "within one drive" }
            ),
            "--from and --to name others; a loop device with a file system of its own counts as another, and is marked as \
             simulated",
        ),
        Step::other(
            "18 and 147 GiB of files with 64 GiB of memory",
            "0.3 and 2.3 of the memory of a control group, in which cp runs",
            "a file need not be larger than the memory of the machine",
        ),
        Step::other(
            "Whether a copy is on the medium when the time ends is not stated",
            "It is: each way ends with a sync of the file",
            "what is still in memory is not copied",
        ),
        Step::other(
            "Whether caches are emptied before a copy is not stated",
            findings.cold.clone(),
            "what is still in memory is copied faster, as the document itself shows",
        ),
        Step::other("Windows, Robocopy, WSL", "Linux, cp", "not measured: none of them is here"),
        Step::rounds(format!(
            "{}, every way in turn, every second time in the opposite order; medians, and verdicts that every round comes to",
            units::count_of(findings.rounds as u64, "round", "rounds")
        )),
    ]
}

const CONTRADICTIONS: [Contradiction; 9] = [
    Contradiction {
        section: "Local tests, Additional details",
        says: "the Samsung EVO 870 copies within itself at 235.847 MB/s",
        but: "further below at 266.553, which is the rate of another pair of drives to the digit, and at 471.692 and 482.924",
    },
    Contradiction {
        section: "Benchmarking is hard, Additional details",
        says: "471.7 MB/s is twice 235.847, reading and writing together",
        but: "471.692 MB/s is then named as a rate that was observed, and called nonsensical",
    },
    Contradiction {
        section: "Benchmarking is hard",
        says: "SATA-II is 600 MB/s",
        but: "SATA II carries 300 MB/s; 600 is SATA III (6 Gbit/s)",
    },
    Contradiction {
        section: "External disk-to-disk tests",
        says: "the EVO 870 as a source gives 195.027 MB/s to the disk that takes 266.553 from another, and 194.394 to a card",
        but: "as a destination it takes 295.218: what holds its reads at 195 is not said, so neither is what the card can take",
    },
    Contradiction {
        section: "External disk-to-disk tests",
        says: "that its tests are very large is to let caches affect them",
        but: "the opposite must be meant: a word is missing",
    },
    Contradiction {
        section: "Performance tuning, Additional details",
        says: "all tests are made with few very large files",
        but: "its line of progress counts 258 files, of 978 MB each",
    },
    Contradiction {
        section: "Additional details",
        says: "295.218 MB/s are 105% of the 280 MB/s on the card, which gives more than it promises",
        but: "in MiB/s, which it prints beside, they are 100.6% of 280: which of the two the card means is not said",
    },
    Contradiction {
        section: "Additional details",
        says: "98.4% is of the theoretical maximum of the disk",
        but: "its table calls the same 271 MBps what the disk is rated at",
    },
    Contradiction {
        section: "Block size",
        says: "128K is close to optimal",
        but: "1M to 8M are then called as good, and no rates of other blocks are printed",
    },
];

const ELSEWHERE: [Elsewhere; 1] = [Elsewhere {
    what: "Copies beside cp, rsync and the program of the document were measured by us on another machine. Those figures \
           are ours, and not published.",
    written_in: "docs/BENCHMARKS.md",
}];

impl Row {
    /// Whether it is above 100% of the limit, so that it did not come from the device.
    pub(super) fn is_cached(&self) -> bool {
        self.of_limit.is_some_and(|share| share > 1.0)
    }

    /// How it is marked.
    pub(super) fn mark(&self) -> &'static str {
        if self.is_cached() { "cached" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cached, Limit, progress};
    use super::*;

    fn here(found: &Findings, printed: crate::frame::Printed) -> Vec<Vec<String>> {
        let tables = tables(found);
        tables.into_iter().find(|table| table.printed == printed).unwrap().here
    }

    /// A copy stands in one of the two tables, beside drives of its kind, with MB and MiB apart.
    #[test]
    fn a_copy_stands_beside_drives_of_its_kind() {
        let of = |kind| End { kind, ..End::default() };
        let found = Findings { rated_write_bytes_per_s: Some(271e6), ..Findings::copying(200e6) };
        let local = |kind| here(&Findings { source: of(kind), ..found.clone() }, LOCAL);
        assert_eq!(here(&found, DISKS)[0], [NONE; 3]);
        assert_eq!(local(Some(DriveKind::NvmeSsd))[0][..2], ["200.000", "190.735"]);
        assert_eq!(local(Some(DriveKind::NvmeSsd))[1][..2], [NONE; 2]);
        assert_eq!(local(Some(DriveKind::SataSsd))[1][..2], ["200.000", "190.735"]);
        assert_eq!(local(None), [[NONE; 3]; 2], "a virtual disk is of no kind");
        let found = Findings { is_between_drives: true, is_within_disks: false, ..found };
        let to = |kind| here(&Findings { destination: of(kind), ..found.clone() }, DISKS);
        assert_eq!(to(Some(DriveKind::HardDisk))[0], ["200.000", "190.735", "73.8%"]);
        assert_eq!(to(Some(DriveKind::HardDisk))[4], [NONE; 3]);
        assert_eq!(to(Some(DriveKind::Card))[4], ["200.000", "190.735", "73.8%"]);
        assert_eq!(to(None), [[NONE; 3]; 5]);
        let unknown = |found: &Findings| {
            [DISKS, LOCAL].map(|printed| {
                tables(found).into_iter().find(|table| table.printed == printed).unwrap().unknown_kind
            })
        };
        let rated = |share: &str| Some(["200.000", "190.735", share].map(str::to_owned).to_vec());
        assert_eq!(unknown(&found), [rated("73.8%"), None]);
        let within = Findings { is_between_drives: false, ..found.clone() };
        assert_eq!(unknown(&within), [None, rated(NONE)]);
        let known = Findings { source: of(Some(DriveKind::NvmeSsd)), ..within };
        assert_eq!(unknown(&known), [None, None]);
        assert_eq!(here(&found, LOCAL)[0][..2], [NONE; 2]);
        let destination = End { simulated: Some("loop0 is a file".to_owned()), ..End::default() };
        let simulated = Findings { destination, ..found };
        assert_eq!(here(&simulated, DISKS)[0][0], "200.000 (simulated)");
        // That row is held against reads, whose rating is not known.
        assert_eq!(here(&simulated, DISKS)[3][2], NONE);
        assert!(verdict(&simulated).contains("The destination is simulated"), "{}", verdict(&simulated));
    }

    /// Twice a rate is held against what carries both directions of a copy within a drive.
    #[test]
    fn only_a_copy_within_a_drive_is_held_against_the_link_twice() {
        let cached = vec![Cached::of(0.3, &[[2.0, 1.0]])];
        let found = Findings { cached, file_bytes: 450_000_000, ..Findings::copying(200e6) };
        let shares = |found: &Findings| here(found, CHECKS).into_iter().map(|cells| cells[2].clone());
        assert_eq!(shares(&found).collect::<Vec<_>>(), ["66.7%", "66.7%", "150.0%"]);
        assert_eq!(here(&found, CHECKS)[2][..2], ["cp, from memory", "450.0 MB/s, 429.2 MiB/s"]);
        let limit = found.limit.clone().map(|limit| Limit { is_shared: false, ..limit });
        let both_ways = Findings { limit, ..found.clone() };
        assert_eq!(shares(&both_ways).collect::<Vec<_>>(), [NONE; 3]);
        let between = Findings { is_within_disks: false, ..found };
        assert_eq!(here(&between, CHECKS)[0][1..], [NONE; 2]);
    }

    /// What contradictions say in numbers.
    #[test]
    fn figures_of_contradictions_are_those_of_the_document() {
        let says = |words: &str| {
            CONTRADICTIONS.iter().any(|one| one.but.contains(words) || one.says.contains(words))
        };
        let bytes = progress::copied_bytes().unwrap() as f64;
        assert!(says(&format!("{} files", progress::copied_files())));
        assert!(says(&format!("{:.0} MB each", bytes / progress::copied_files() / 1e6)));
        let binary = progress::computed().into_iter().find(|one| one.what.starts_with("Of 280")).unwrap();
        assert!(says(&format!("{:.1}%", binary.value)));
        for row in [0, 1, 3, 4] {
            let rate = DISKS.number(row, 2).unwrap().to_string();
            assert!(says(&rate), "{rate}");
        }
        assert!(says(&format!("{}", LOCAL.number(1, 1).unwrap())));
    }
}
