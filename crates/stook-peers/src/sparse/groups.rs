//! What is compared with what, and what was hoped for.

use super::work::{Pattern, Work};
use super::{Section, systems};
use crate::result::Target;

/// One that is measured within this process: its name, and what does the work.
pub(crate) type System = (&'static str, fn(&Work) -> anyhow::Result<f64>);

const STOOK: System = ("Stook", systems::stook);
const RANGE_CACHE: System = ("range-cache", systems::range_cache);
const RANGEMAP: System = ("rangemap (no bytes)", systems::range_set);

/// Work that everyone does in turn.
#[derive(Debug)]
pub(crate) struct Row {
    /// What distinguishes it from the others of its group.
    pub(crate) suffix: String,
    /// What is done.
    pub(crate) work: Work,
    /// Who does it, beside svfsc.
    pub(crate) systems: Vec<System>,
    /// How many times as fast as svfsc.
    pub(crate) target: Target,
}

/// Rows that are measured in turn.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its name.
    pub(crate) name: String,
    /// The rows.
    pub(crate) rows: Vec<Row>,
    /// Rows of ours, and how many times as long the first may take as the second.
    pub(crate) doublings: Vec<(String, String, Target)>,
    /// Rows of ours, and how many times as fast the first is to be as the second.
    pub(crate) scalings: Vec<(String, String, Target)>,
}

impl Group {
    fn of(name: impl Into<String>, rows: Vec<Row>) -> Self {
        Self { name: name.into(), rows, doublings: Vec::new(), scalings: Vec::new() }
    }
}

/// What was hoped for by the size of the blocks.
fn target(block_bytes: u64) -> Target {
    Target::AtLeast(if block_bytes <= 64 { 3.0 } else { 1.0 })
}

/// The groups of a section that is timed.
pub(crate) fn of(section: Section) -> Vec<Group> {
    match section {
        Section::Read => [1, 8, 512].map(read).into(),
        Section::Write => {
            [1, 8, 512].into_iter().flat_map(|bytes| [write(bytes, 1), write(bytes, 0)]).collect()
        }
        Section::Need => [32, 512, 16_384].map(need).into(),
        Section::Patterns => {
            let named = [
                ("reverse", Pattern::Reverse),
                ("filling gaps", Pattern::Fill),
                ("bridging", Pattern::Bridge),
                ("evicting at every write", Pattern::Evict),
            ];
            named.map(|(name, pattern)| patterns(name, pattern)).into()
        }
        Section::Threads => vec![thread_writes(), thread_reads()],
        Section::Memory | Section::Trace => Vec::new(),
    }
}

fn row(work: Work, systems: &[System], target: Target) -> Row {
    Row { suffix: String::new(), work, systems: systems.to_vec(), target }
}

fn read(bytes: u64) -> Group {
    let row = row(Work::read(bytes), &[STOOK, RANGE_CACHE], target(bytes));
    Group::of(format!("read 1 MiB in blocks of {bytes} B"), vec![row])
}

fn write(bytes: u64, gap: u64) -> Group {
    // Where blocks touch, range-cache copies all that is held at each write: for a MiB of single
    // bytes that is 550 GB.
    let copies_all = gap == 0 && bytes < 512;
    let systems: &[System] = if copies_all { &[STOOK, RANGEMAP] } else { &[STOOK, RANGE_CACHE, RANGEMAP] };
    let touch = if gap == 0 { "touch" } else { "do not touch" };
    let row = row(Work::write(bytes, gap), systems, target(bytes));
    Group::of(format!("write 1 MiB in blocks of {bytes} B that {touch}"), vec![row])
}

fn need(bytes: u64) -> Group {
    let row = row(Work::need(bytes), &[STOOK, RANGE_CACHE, RANGEMAP], target(bytes));
    Group::of(format!("ask what is needed, {bytes} B at a time"), vec![row])
}

fn patterns(name: &str, pattern: Pattern) -> Group {
    let sizes = [8_u64, 16, 32];
    let rows = sizes.map(|thousands| {
        let mut systems = vec![STOOK];
        // It copies all that it holds at each of these writes but the evicting: 34 GB for the most.
        if thousands < 32 || pattern == Pattern::Evict {
            systems.push(RANGE_CACHE);
        }
        if pattern != Pattern::Evict {
            systems.push(RANGEMAP);
        }
        let work = Work::pattern(pattern, thousands << 10);
        Row { suffix: format!("{thousands}k"), work, systems, target: target(64) }
    });
    let doubled = |one: u64| (format!("{}k", 2 * one), format!("{one}k"), Target::AtMost(2.3));
    let name = format!("writes of 64 B, {name}");
    Group { doublings: vec![doubled(8), doubled(16)], ..Group::of(name, rows.into()) }
}

const THREADS: [u64; 2] = [1, 8];

fn label(threads: u64) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn threads(name: &str, work: fn(u64) -> Work, scaling: Target) -> Group {
    let systems = vec![STOOK, RANGE_CACHE];
    let rows = THREADS.map(|threads| {
        let systems = systems.clone();
        Row { suffix: label(threads), work: work(threads), systems, target: target(8) }
    });
    let scalings = vec![(label(8), label(1), scaling)];
    Group { scalings, ..Group::of(name, rows.into()) }
}

fn thread_writes() -> Group {
    // Writers wait for one another: nothing was promised but that svfsc is slower.
    threads("write 1 MiB in blocks of 8 B that do not touch, by threads", Work::thread_writes, Target::None)
}

fn thread_reads() -> Group {
    threads("a million reads of 8 B in no order, by threads", Work::thread_reads, Target::AtLeast(1.6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_measured() {
        let timed = [Section::Read, Section::Write, Section::Need, Section::Patterns, Section::Threads];
        let groups: Vec<Group> = timed.into_iter().flat_map(of).collect();
        assert_eq!(groups.len(), 3 + 6 + 3 + 4 + 2);
        for group in &groups {
            let has = |name: &String| group.rows.iter().any(|row| row.suffix == *name);
            for (one, other, _) in group.doublings.iter().chain(&group.scalings) {
                assert!(has(one) && has(other), "{}", group.name);
            }
        }
    }
}
