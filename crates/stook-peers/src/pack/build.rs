//! Building a pack from cold files, final sync included, against merely reading them.

use stook_cli::study::plain;
use stook_cli::study::sample;

use super::load::best_readers;
use super::{Bench, Way};
use crate::result::Target;

/// Measures it.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "build";
    let reader = best_readers(bench)?;
    let pack = bench.work.join("built.stook");
    let name = "pack, final sync included";
    let series = {
        let tree = bench.data.tree.clone();
        let mut ways = vec![
            bench.reader_way(reader),
            Way::cold(name, &tree, || {
                let started = std::time::Instant::now();
                plain::pack(&tree, &pack, || {})?;
                let seconds = started.elapsed().as_secs_f64();
                sample::remove(&pack)?;
                Ok(Some(seconds))
            }),
        ];
        bench.interleave(section, bench.rounds, &mut ways)?
    };
    bench.results.raw.insert(section.to_owned(), series);
    let goal = "time to build from cold files, against merely reading them";
    bench.results.longer(section, goal, Target::AtMost(1.25), name, &reader.label())
}
