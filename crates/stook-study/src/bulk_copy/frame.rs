//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::published::{CHECKS, DETAILS, DISKS, DOCUMENT, LOCAL, MEMORY, OPTIONS, SYSTEMS};
use super::ways::{PUBLISHED_BLOCK_BYTES, Way};
use super::{End, Findings, Row};
use crate::frame::{Beside, Contradiction, Elsewhere, Frame, NONE, Step, judged};

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: verdict(findings),
        tables: tables(findings),
        procedure: procedure(findings),
        conclusions: judged(&CLAIMS, findings),
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

/// MB/s and MiB/s, each to three places, as the document prints rates.
fn apart(rate: Option<f64>, mark: &str) -> [String; 2] {
    [1e6, f64::from(1 << 20)]
        .map(|unit| rate.map_or_else(|| NONE.to_owned(), |rate| format!("{:.3}{mark}", rate / unit)))
}

fn tables(findings: &Findings) -> Vec<Beside> {
    let own = findings.rate(Way::PUBLISHED);
    let (disks, local) = if findings.is_between_drives { (own, None) } else { (None, own) };
    let share = |rating: Option<f64>| match (disks, rating) {
        (Some(rate), Some(rating)) => units::percent(rate / rating),
        _ => NONE.to_owned(),
    };
    let rating = |row: usize| {
        if row == 3 { findings.rated_read_bytes_per_s } else { findings.rated_write_bytes_per_s }
    };
    let cached = |row: usize| findings.cached.get(row).and_then(|cached| cached.seconds);
    let rate_of = |seconds: Option<f64>| Some(findings.file_bytes as f64 / seconds?);
    vec![
        Beside::new(DISKS, ["Here, MB/s", "Here, MiB/s", "Of the rating"], |row| {
            let [decimal, binary] = apart(disks, findings.mark());
            [decimal, binary, share(rating(row))]
        }),
        Beside::new(LOCAL, ["Here, MB/s", "Here, MiB/s", "From memory"], |_| {
            let [decimal, binary] = apart(local, findings.mark());
            [decimal, binary, both(local.and_then(|_| rate_of(cached(0))))]
        }),
        Beside::new(MEMORY, ["Here, cp"], |row| [both(rate_of(cached(row)))]),
        Beside::new(CHECKS, ["Here", "Of the limit"], |row| {
            let way = if row == 1 { Way::Cp } else { Way::PUBLISHED };
            let found = findings.rows.iter().find(|one| one.way == way).filter(|_| row < 2);
            let share = found.and_then(|found| found.of_limit);
            [
                both(found.and_then(|found| found.bytes_per_s)),
                share.map_or_else(|| NONE.to_owned(), units::percent),
            ]
        }),
        Beside::new(DETAILS, ["Here"], |_| [NONE.to_owned()]),
        Beside::new(OPTIONS, ["Here", "Against its default"], |row| option(findings, row)),
        Beside::new(SYSTEMS, ["Here, cp against it"], |row| {
            let ratio = own.zip(findings.rate(Way::Cp)).filter(|_| row == 1);
            [ratio.map_or_else(|| NONE.to_owned(), |(own, cp)| units::factor(cp / own))]
        }),
    ]
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
    let places = format!("{} to {}", findings.from.display(), findings.to.display());
    vec![
        Step::same(
            "A thread that reads and one that writes, with a queue between, blocks of 128K and a queue of 10",
            "The same, written anew from this description; stook copy and cp beside it, which is ours",
        ),
        Step::same(
            "Blocks of 1K to 1G, queues of 1, 10 and 1000",
            "The same; a block that needs more than a quarter of the free memory is left out",
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
            "Caches are as the last run left them",
            findings.cold.clone(),
            "the document itself shows what comes of that",
        ),
        Step::other("Windows, Robocopy, WSL", "Linux, cp", "not measured: none of them is here"),
        Step::rounds(format!("{} rounds, every way in turn; medians", findings.rounds)),
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
    /// Whether it is above 100% of the limit, so that it came from memory.
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
    use super::super::progress;
    use super::*;

    fn here(found: &Findings, printed: crate::frame::Printed) -> Vec<Vec<String>> {
        let tables = tables(found);
        tables.into_iter().find(|table| table.printed == printed).unwrap().here
    }

    /// A copy stands in one of the two tables, with MB and MiB apart.
    #[test]
    fn a_copy_is_within_a_drive_or_from_one_to_another() {
        let found = Findings { rated_write_bytes_per_s: Some(271e6), ..Findings::copying(200e6) };
        assert_eq!(here(&found, DISKS)[0], [NONE; 3]);
        assert_eq!(here(&found, LOCAL)[0][..2], ["200.000", "190.735"]);
        let found = Findings { is_between_drives: true, ..found };
        assert_eq!(here(&found, DISKS)[0], ["200.000", "190.735", "73.8%"]);
        // That row is held against reads, whose rating is not known.
        assert_eq!(here(&found, DISKS)[3], ["200.000", "190.735", NONE]);
        assert_eq!(here(&found, LOCAL)[0][..2], [NONE; 2]);
        let destination = End { simulated: Some("loop0 is a file".to_owned()), ..End::default() };
        let simulated = Findings { destination, ..found };
        assert_eq!(here(&simulated, DISKS)[0][0], "200.000 (simulated)");
        assert!(verdict(&simulated).contains("The destination is simulated"), "{}", verdict(&simulated));
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
