//! Two destinations of which one is slower: they should take no longer than the slower alone, and
//! read the source once.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Instant;

use stook::report::{stats, units};
use stook_study::sample::{self, Sample};
use stook_testing::privileged::{Attached, EXT4, LoopDevice, WriteLimit};

use super::tools::Copier;
use super::{Bench, SMALL_BYTES, same};
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};
use crate::unpack::ended;

const ALONE: &str = "`stook copy` to the slower alone";
const BOTH: &str = "`stook copy` to both";
const TWICE: &str = "`cp -r` to one, then to the other";

/// What a file system needs for itself, at most.
const FILE_SYSTEM_BYTES: u64 = 96 << 20;

struct Volumes<'a> {
    bench: &'a Bench<'a>,
    // Of the two destinations; first, because they go before their devices.
    _limits: [WriteLimit; 2],
    source: LoopDevice,
    slower: LoopDevice,
    faster: LoopDevice,
    /// Bytes of all files.
    bytes: u64,
    /// What `BOTH` and `TWICE` read of the source's device.
    read: RefCell<[Vec<f64>; 2]>,
}

/// Measures it.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    let args = bench.args;
    let rate = |bytes_per_s: u64| units::rate(bytes_per_s as f64);
    let section = format!(
        "{} to destinations of {} and {}",
        units::bytes_decimal(args.two),
        rate(args.slower),
        rate(args.faster)
    );
    eprintln!("Making {section}");
    let volumes = Volumes::make(bench)?;
    let source = volumes.source.path();
    let (alone, both) = ([&volumes.slower], [&volumes.slower, &volumes.faster]);
    let mut ways = vec![
        Way::cold(ALONE, source, || volumes.ours(&alone)).then(|| volumes.look(Copier::Stook, &alone)),
        Way::cold(BOTH, source, || volumes.counted(0, || volumes.ours(&both)))
            .then(|| volumes.look(Copier::Stook, &both)),
        Way::cold(TWICE, source, || volumes.counted(1, || volumes.cp_twice(&both)))
            .then(|| volumes.look(Copier::Cp, &both)),
    ];
    let series = interleave(&bench.cold, &section, bench.rounds(), &mut ways)?;
    drop(ways);
    results.raw.insert(section.clone(), series);
    let goal = format!("{section}: time, against the slower alone");
    results.longer(&section, &goal, Target::AtMost(1.05), BOTH, ALONE)?;
    results.faster(&section, &format!("{section}: {BOTH} against {TWICE}"), Target::None, BOTH, TWICE)?;
    let read = volumes.read.borrow();
    let note = "what its device counted, over the bytes of the files; the file system's own reads are in it";
    // Its tables and directories are less than a hundredth.
    for ((way, times), target) in
        [BOTH, TWICE].into_iter().zip(&*read).zip([Target::AtMost(1.01), Target::None])
    {
        let note = format!("{note}; each round {times:.3?}");
        results.figure(
            &format!("{section}: reads of the source, {way}"),
            target,
            stats::median(times)?,
            "×",
            note,
        );
    }
    Ok(())
}

impl<'a> Volumes<'a> {
    fn make(bench: &'a Bench<'a>) -> anyhow::Result<Self> {
        let bytes = bench.args.two;
        let len_bytes = bytes + bytes / 4 + FILE_SYSTEM_BYTES;
        // Past the page cache, which would take what the devices have to take.
        let make =
            || LoopDevice::mount_on(Attached::below(bench.work, len_bytes, 512, true)?, EXT4, "defaults");
        let (source, slower, faster) = (make()?, make()?, make()?);
        let tree = source.path().join("tree");
        std::fs::create_dir(&tree)?;
        // An eighth of the bytes in small files.
        let small = Sample { files: (bytes / 8 / SMALL_BYTES).max(2), size: SMALL_BYTES };
        let large = Sample { files: 1, size: bytes.saturating_sub(small.bytes()).max(1) };
        small.tree(&tree, || Ok(()))?;
        large.tree(&tree, || Ok(()))?;
        let _limits =
            [WriteLimit::of(&slower, bench.args.slower)?, WriteLimit::of(&faster, bench.args.faster)?];
        let bytes = small.bytes() + large.bytes();
        Ok(Self { bench, _limits, source, slower, faster, bytes, read: RefCell::default() })
    }

    fn tree(&self) -> PathBuf {
        self.source.path().join("tree")
    }

    /// Seconds of `stook copy` to one or several.
    fn ours(&self, destinations: &[&LoopDevice]) -> anyhow::Result<Option<f64>> {
        let [first, others @ ..] = destinations else { return Ok(None) };
        let mut command = self.bench.copiers.command(Copier::Stook, &self.tree(), &copied(first))?;
        for other in others {
            command.arg("--to").arg(copied(other));
        }
        let started = Instant::now();
        ended(&mut WriteLimit::command(&command))?;
        destinations.iter().try_for_each(|destination| sample::sync(destination.path()))?;
        Ok(Some(started.elapsed().as_secs_f64()))
    }

    fn cp_twice(&self, destinations: &[&LoopDevice]) -> anyhow::Result<Option<f64>> {
        let started = Instant::now();
        for destination in destinations {
            let command = self.bench.copiers.command(Copier::Cp, &self.tree(), &copied(destination))?;
            ended(&mut WriteLimit::command(&command))?;
            sample::sync(destination.path())?;
        }
        Ok(Some(started.elapsed().as_secs_f64()))
    }

    /// The same, and what was read meanwhile.
    fn counted(
        &self,
        way: usize,
        run: impl FnOnce() -> anyhow::Result<Option<f64>>,
    ) -> anyhow::Result<Option<f64>> {
        let before = self.source.read_bytes()?;
        let taken = run()?;
        let read = self.source.read_bytes()?.saturating_sub(before);
        self.read.borrow_mut()[way].push(read as f64 / self.bytes as f64);
        Ok(taken)
    }

    /// Compares the copies with the source, and removes them.
    fn look(&self, copier: Copier, destinations: &[&LoopDevice]) -> anyhow::Result<()> {
        for destination in destinations {
            let copied = copied(destination);
            same::compare(copier, &self.tree(), &copied)?;
            sample::remove(&copied)?;
            sample::sync(destination.path())?;
        }
        Ok(())
    }
}

fn copied(destination: &LoopDevice) -> PathBuf {
    destination.path().join("copied")
}
