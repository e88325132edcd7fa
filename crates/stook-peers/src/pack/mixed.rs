//! A load of a pack that is partly in the page cache: the rule that decides for each span, against
//! always going past the page cache and always through it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::ensure;
use stook::pack::{OpenOptions, Pack, ScanOptions};
use stook::source::AccessRule;

use super::{Bench, SAMPLE, Way};
use crate::result::Target;

/// Spans that are in memory, or are not, in turn: as long as what the rule decides for at once.
const SPAN_LEN: u64 = 64 << 20;

/// Reads every `nth` span of the pack into the page cache.
fn warm(segments: &[PathBuf], nth: u64) -> anyhow::Result<()> {
    let mut block = vec![0; 1 << 20];
    for path in segments {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        for start in (0..len).step_by(SPAN_LEN as usize).step_by(nth as usize) {
            for at in (start..(start + SPAN_LEN).min(len)).step_by(block.len()) {
                file.read_at(&mut block, at)?;
            }
        }
    }
    Ok(())
}

fn load(bench: &Bench, access: AccessRule) -> anyhow::Result<f64> {
    let options = OpenOptions { access, ..OpenOptions::default() };
    let began = Instant::now();
    let pack = Pack::open_path(&bench.data.pack, options)?;
    let mut scan = pack.scan(ScanOptions::default());
    let mut bytes = 0;
    while let Some(record) = scan.next()? {
        bytes += record.body().map_or(0, |body| body.len() as u64);
    }
    ensure!(bytes == SAMPLE.bytes(), "{bytes} bytes were read");
    Ok(began.elapsed().as_secs_f64())
}

/// Loads it half and a quarter in memory.
pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (name, nth) in [("half in memory", 2), ("a quarter in memory", 4)] {
        let section = format!("mixed, {name}");
        let series = {
            let bench = &*bench;
            let way = |name: &str, access: AccessRule| {
                Way::cold(name, &bench.data.pack, move || {
                    warm(&bench.segments, nth)?;
                    load(bench, access).map(Some)
                })
            };
            let mut ways = [
                way("by the rule", AccessRule::Auto),
                way("always directly", AccessRule::Direct),
                way("always cached", AccessRule::Cached),
            ];
            bench.interleave(&section, bench.rounds, &mut ways)?
        };
        bench.results.raw.insert(section.clone(), series);
        for other in ["always directly", "always cached"] {
            let goal = format!("{name}: the rule against {other}");
            bench.results.faster(&section, &goal, Target::AtLeast(1.0), "by the rule", other)?;
        }
    }
    Ok(())
}
