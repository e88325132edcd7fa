//! What the document says beside its tables: other disks, what is advertised, how long a drive
//! lasts.

use stook::report::units::{percent, rate};

use super::conclusions::{Here, sentence};
use super::needed::Sweep;
use super::published;
use super::simulated::Curves;
use crate::environment::DeviceKind;
use crate::frame::{self, Judgement};
use crate::text::duration_s;
use crate::verdict::Verdict;

/// Where no rate of reads in order counts.
const NO_READS: &str = "No reads in order passed their checks.";

/// A figure in the text of the document.
fn printed(row: usize) -> f64 {
    published::TEXT.number(row, 1).unwrap_or(f64::NAN)
}

/// Rates that it prints as advertised and as reached.
pub(super) fn printed_rates() -> [f64; 2] {
    [2, 3].map(|row| printed(row) * 1e6)
}

/// On a disk that rotates it is measured. Elsewhere one is simulated, which decides nothing.
pub(super) fn rotating_disk(here: &Here<'_>) -> Judgement {
    let said = |curves: Curves| {
        format!(
            "The latency furthest from a line is {} away, the one furthest from a logarithm {}.",
            percent(curves.line_residual_max),
            percent(curves.logarithm_residual_max)
        )
    };
    if here.kind == DeviceKind::HardDisk {
        let counted = here.random.blocks.iter().filter(|cell| cell.counts());
        let points: Vec<_> = counted.map(|cell| (cell.block_bytes as f64, cell.latency_mean_s)).collect();
        let Some(found) = Curves::of(&points) else {
            return Sweep::Blocks.all_missing(here.random).too_few();
        };
        return Sweep::Blocks.all_missing(here.random).judge_best(found.is_logarithmic(), said(found));
    }
    let (Some(found), [small, .., large]) = (Curves::of_reads(here.simulated), here.simulated) else {
        return frame::not_measured("No disk is known to rotate here.");
    };
    let would = if found.is_logarithmic() { "would hold" } else { "would not hold" };
    frame::not_measured(format!(
        "No disk is known to rotate here. On a simulated one it {would}: from {} to {} from the smallest block to the \
         largest. {}",
        duration_s(small.latency_mean_s),
        duration_s(large.latency_mean_s),
        said(found)
    ))
}

/// What its tables reach of what it calls advertised.
pub(super) fn advertised() -> Judgement {
    let [advertised, reached] = printed_rates();
    let profile = published::profile();
    let cells = profile.blocks.iter().chain(&profile.depths);
    let most = cells.map(|cell| cell.bandwidth_bytes_per_s).fold(0.0, f64::max);
    let figures = format!(
        "The highest rate in its tables is {}, {}; {} would be {}.",
        rate(most),
        percent(most / advertised),
        rate(reached),
        percent(reached / advertised)
    );
    (Verdict::of(most >= reached), figures)
}

pub(super) fn advertised_here(here: &Here<'_>) -> Judgement {
    let [advertised, reached] = printed_rates();
    let of_rating = |what: &str, best: Option<f64>, rated: Option<f64>| {
        let (best, rated) = best.zip(rated)?;
        Some((best / rated, format!("{what}: {} of {}, {}", rate(best), rate(rated), percent(best / rated))))
    };
    let [reads, writes] = here.best_bytes_per_s;
    let writes = of_rating("writes", writes, here.rated.write_bytes_per_s).map(|(_, said)| said);
    let Some(rated) = here.rated.read_bytes_per_s else {
        let beside = writes.map_or_else(String::new, |said| format!(" {}", sentence(&said)));
        return frame::not_measured(format!(
            "The system does not say what is advertised of this device: --rated-read does.{beside}"
        ));
    };
    let Some((share, said)) = of_rating("reads", reads, Some(rated)) else {
        return frame::not_measured(NO_READS);
    };
    let said: Vec<String> = [Some(said), writes].into_iter().flatten().collect();
    (Verdict::of(share >= reached / advertised), sentence(&said.join("; ")))
}

pub(super) fn gigabytes_there() -> Judgement {
    in_a_minute(printed_rates()[1])
}

pub(super) fn gigabytes_here(here: &Here<'_>) -> Judgement {
    let [reads, _] = here.best_bytes_per_s;
    reads.map_or_else(|| frame::not_measured(NO_READS), in_a_minute)
}

fn in_a_minute(bytes_per_s: f64) -> Judgement {
    let gigabytes = bytes_per_s * 60.0 / 1e9;
    (Verdict::of(gigabytes >= 200.0), format!("{} are {gigabytes:.0} GB in a minute.", rate(bytes_per_s)))
}

/// TB that may be written for each TB of capacity, of the SSD that it measured and of the one for
/// servers. Both capacities stand in the text beside what may be written.
pub(super) fn endurance_of_published() -> [f64; 2] {
    [printed(5) / 8.0, printed(6) / 6.4]
}

pub(super) fn endurance() -> Judgement {
    let [consumer, server] = endurance_of_published();
    let times = server / consumer;
    let figures = format!(
        "{server:.0} against {consumer:.0} TB for each TB: {times:.2} times, if its 1400 TB are of 8 TB, as it supposes."
    );
    (Verdict::of((7.5..8.0).contains(&times)), figures)
}

/// One device decides nothing about two; what it says of itself stands beside both.
pub(super) fn endurance_here(here: &Here<'_>) -> Judgement {
    let [consumer, server] = endurance_of_published();
    let beside = match here.wear.endurance_tb_per_tb() {
        Some(_) => format!(" The two of the document have {consumer:.0} and {server:.0}."),
        None => String::new(),
    };
    frame::not_measured(format!("One device is here, and not one of each kind. {}{beside}", here.wear.said()))
}

#[cfg(test)]
mod tests {
    use super::super::Ratings;
    use super::super::wear::Wear;
    use super::*;
    use crate::disk::SimulatedDisk;
    use crate::ssd_profile::simulated;

    fn judged(judge: fn(&Here<'_>) -> Judgement, change: impl FnOnce(&mut Here<'_>)) -> Judgement {
        let (profile, wear) = (published::profile(), Wear::default());
        let simulated = simulated::reads(&SimulatedDisk::ORDINARY, &profile);
        let mut here = Here {
            ordered: &profile,
            random: &profile,
            best_bytes_per_s: [Some(3e9), Some(2e9)],
            rated: Ratings::default(),
            long_runs: &[],
            wear: &wear,
            kind: DeviceKind::Unknown,
            simulated: &simulated,
        };
        change(&mut here);
        judge(&here)
    }

    #[test]
    fn what_the_document_says_beside_its_tables_is_checked_by_arithmetic() {
        let (verdict, figures) = endurance();
        assert_eq!(verdict, Verdict::Holds);
        assert!(figures.starts_with("1375 against 175 TB for each TB: 7.86 times, "), "{figures}");
        assert_eq!(
            advertised(),
            (
                Verdict::DoesNotHold,
                "The highest rate in its tables is 3,958 MB/s, 55.7%; 6,000 MB/s would be 84.5%.".to_owned()
            )
        );
        assert_eq!(gigabytes_there(), (Verdict::Holds, "6,000 MB/s are 360 GB in a minute.".to_owned()));
        assert_eq!(
            judged(gigabytes_here, |_| {}),
            (Verdict::DoesNotHold, "3,000 MB/s are 180 GB in a minute.".to_owned())
        );
        assert_eq!(judged(gigabytes_here, |here| here.best_bytes_per_s[0] = Some(4e9)).0, Verdict::Holds);
        let none = judged(gigabytes_here, |here| here.best_bytes_per_s = [None, Some(4e9)]);
        assert_eq!(none.0, Verdict::NotMeasured);
    }

    #[test]
    fn rates_are_held_against_what_is_advertised_where_that_is_given() {
        let with = |read, write| {
            judged(advertised_here, |here| {
                here.rated = Ratings { read_bytes_per_s: read, write_bytes_per_s: write };
            })
        };
        let (verdict, said) = with(None, None);
        assert_eq!(verdict, Verdict::NotMeasured);
        assert!(said.contains("--rated-read"), "{said}");
        assert_eq!(
            with(Some(3.5e9), None),
            (Verdict::Holds, "Reads: 3,000 MB/s of 3,500 MB/s, 85.7%.".to_owned())
        );
        let (verdict, said) = with(Some(7e9), Some(4e9));
        assert_eq!(verdict, Verdict::DoesNotHold);
        assert_eq!(said, "Reads: 3,000 MB/s of 7,000 MB/s, 42.9%; writes: 2,000 MB/s of 4,000 MB/s, 50.0%.");
        assert!(with(None, Some(4e9)).1.ends_with(" Writes: 2,000 MB/s of 4,000 MB/s, 50.0%."));
    }

    #[test]
    fn a_disk_that_rotates_is_judged_and_a_simulated_one_only_described() {
        let (verdict, said) = judged(rotating_disk, |_| {});
        assert_eq!(verdict, Verdict::NotMeasured);
        let begin =
            "No disk is known to rotate here. On a simulated one it would not hold: from 5.96 ms to 10.7 ms";
        assert!(said.starts_with(begin), "{said}");
        // The latencies of its SSD are a line, too.
        assert_eq!(judged(rotating_disk, |here| here.kind = DeviceKind::HardDisk).0, Verdict::DoesNotHold);
        let none = judged(rotating_disk, |here| here.simulated = &[]);
        assert_eq!(none, (Verdict::NotMeasured, "No disk is known to rotate here.".to_owned()));
    }

    #[test]
    fn what_a_drive_lasts_for_stands_beside_those_of_the_document() {
        let worn = Wear {
            used_share: Some(0.10),
            written_bytes: Some(50_000_000_000_000),
            capacity_bytes: Some(1_000_000_000_000),
            ..Wear::default()
        };
        let (verdict, said) = judged(endurance_here, |_| {});
        assert_eq!(verdict, Verdict::NotMeasured);
        assert!(said.ends_with("Wear is not reported here."), "{said}");
        let profile = published::profile();
        let here = Here {
            ordered: &profile,
            random: &profile,
            best_bytes_per_s: [None; 2],
            rated: Ratings::default(),
            long_runs: &[],
            wear: &worn,
            kind: DeviceKind::Unknown,
            simulated: &[],
        };
        let (_, said) = endurance_here(&here);
        assert!(
            said.ends_with(
                "lasts for 500 TB for each TB of its capacity. The two of the document have 175 and 1375."
            ),
            "{said}"
        );
    }
}
