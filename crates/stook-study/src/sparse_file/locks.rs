//! What it costs that a sparse file is safe to be used by threads.

use stook::report::table::{Table, Tone};
use stook::report::units;

use super::work::{LOCKED_SIZES, THREADS, TOTAL_BYTES, Work};
use super::{Findings, row};
use crate::frame::NONE;
use crate::text::{duration_s, numbers};

/// What is compared, in words.
pub(super) const EXPLAINED: &str = "Every call of Stook takes a lock, and there is no form of it without. So reads are \
     made once with a lock for each, and once through a reader that keeps one lock for all of them. Of writes it is \
     computed what is left without as many locks of the standard library, of the kind that each write takes, as were \
     measured beside, wanted by no other thread. And threads write all of 1 MiB into one file, where they wait for one \
     another, and each into a file that no other uses. svfsc has a lock where it is compiled with `SVF_THREAD_SAFE`, \
     and none otherwise; its package for Python is built without, and takes a lock of Python in its place. Neither \
     form can be chosen from here.";

/// A comparison of the same work with locks and without.
struct Pair {
    what: String,
    with_s: f64,
    /// What it is held against.
    against: &'static str,
    without_s: f64,
}

fn pairs(findings: &Findings) -> Vec<Pair> {
    let seconds = |work| row(&findings.rows, work).map(|row| row.seconds);
    let mut pairs = Vec::new();
    let mut add = |work: Work, against: &'static str, without_s: Option<f64>| {
        let pair = |(with_s, without_s)| Pair { what: work.label(), with_s, against, without_s };
        pairs.extend(seconds(work).zip(without_s).map(pair));
    };
    for block_bytes in LOCKED_SIZES {
        add(Work::ReadApart { block_bytes }, "one lock for all", seconds(Work::ReadOneLock { block_bytes }));
    }
    let lock_s = seconds(Work::Locks { count: TOTAL_BYTES }).map(|all| all / TOTAL_BYTES as f64);
    for block_bytes in LOCKED_SIZES {
        for work in [Work::WriteApart { block_bytes }, Work::WriteJoined { block_bytes }] {
            let locks_s = lock_s.map(|lock_s| lock_s * (TOTAL_BYTES / block_bytes) as f64);
            let without_s = seconds(work).zip(locks_s).map(|(all, locks)| all - locks);
            add(work, "less as many locks", without_s);
        }
    }
    for is_joined in [false, true] {
        for threads in THREADS {
            let own_s = seconds(Work::Own { threads, is_joined });
            add(Work::Overwrite { threads, is_joined }, "a file for each", own_s);
        }
    }
    pairs
}

/// All comparisons.
pub(super) fn table(findings: &Findings) -> Table {
    let head = numbers("", ["", "As it is", "Against", "That takes", "Ratio"]);
    pairs(findings).into_iter().fold(head, |table, Pair { what, with_s, against, without_s }| {
        // Locks that were measured apart may take longer than a write with its own does.
        let is_known = without_s > 0.0;
        let without = if is_known { duration_s(without_s) } else { NONE.to_owned() };
        let ratio = if is_known { units::factor(with_s / without_s) } else { NONE.to_owned() };
        table.row([what, duration_s(with_s), against.to_owned(), without, ratio], Tone::Plain)
    })
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    #[test]
    fn locks_are_taken_off_once_for_each_write_and_readers_stand_beside_reads() {
        let seconds = |work| match work {
            // A lock takes 10 ns, a write 50.
            Work::Locks { count } => count as f64 * 10e-9,
            Work::WriteApart { block_bytes } => (TOTAL_BYTES / block_bytes) as f64 * 50e-9,
            // Here the locks would take longer than the writes.
            Work::WriteJoined { block_bytes } => (TOTAL_BYTES / block_bytes) as f64 * 5e-9,
            Work::ReadApart { .. } => 3.0,
            Work::ReadOneLock { .. } => 2.0,
            Work::Overwrite { threads, .. } => 4.0 * threads as f64,
            _ => 1.0,
        };
        let findings = Findings::of_rows(Row::all_taking(seconds, |_| None));
        let rows: Vec<Vec<String>> = table(&findings).rows().map(<[String]>::to_vec).collect();
        let ratio = |work: Work| rows.iter().find(|row| row[0] == work.label()).unwrap()[4].clone();
        assert_eq!(ratio(Work::ReadApart { block_bytes: 8 }), "1.50×");
        assert_eq!(ratio(Work::WriteApart { block_bytes: 8 }), "1.25×");
        assert_eq!(ratio(Work::WriteJoined { block_bytes: 8 }), NONE);
        assert_eq!(ratio(Work::Overwrite { threads: 8, is_joined: true }), "32.0×");
        assert_eq!(rows.len(), 4 + 8 + 8);
    }
}
