//! The parts of the page about what is beside the cells: what the document does not state, what is
//! advertised, how long speed and drive last, and a simulated disk.

use stook::report::page::Block;
use stook::report::units::percent;

use super::long_run::Lasting;
use super::unstated::Unstated;
use super::{Findings, charts, explained, tables};
use crate::verdict::Verdict;

/// What the page cache and the engine change.
pub(super) fn unstated_section(findings: &Findings) -> Vec<Block> {
    if findings.unstated.is_empty() {
        return vec![Block::Text("It was not measured in another way.".to_owned())];
    }
    let mut blocks = vec![
        Block::Text(explained::UNSTATED.to_owned()),
        Block::Table(
            tables::unstated(findings)
                .for_page("The published cells: past the page cache as everywhere else, and in other ways"),
        ),
    ];
    blocks.extend(findings.unstated.iter().map(|way| Block::Text(differs(way))));
    blocks
}

/// Which conclusions another way would change.
pub(super) fn differs(way: &Unstated) -> String {
    let of = |verdict: Verdict| {
        let those = way.differs.iter().filter(move |one| one.verdict == verdict);
        those.map(|one| format!("“{}”", one.published)).collect::<Vec<String>>()
    };
    let name = format!("{} ({})", way.way.label(), way.engine);
    let changed: Vec<String> = [Verdict::Holds, Verdict::DoesNotHold, Verdict::NotMeasured]
        .into_iter()
        .map(|verdict| (verdict, of(verdict)))
        .filter(|(_, those)| !those.is_empty())
        .map(|(verdict, those)| format!("{}: {}", verdict.text(), those.join(", ")))
        .collect();
    match changed.is_empty() {
        true => format!("Measured {name}, every conclusion about cells comes out the same."),
        false => {
            format!(
                "Measured {name}, these conclusions about cells come out otherwise: {}.",
                changed.join("; ")
            )
        }
    }
}

/// What is advertised, and how long speed and drive last.
pub(super) fn lasting_section(findings: &Findings) -> Vec<Block> {
    let mut blocks = vec![
        Block::Text(explained::ADVERTISED.to_owned()),
        Block::Table(tables::advertised(findings).for_page("Advertised and reached")),
        Block::Text(long_runs(&findings.long_runs)),
    ];
    if !findings.long_runs.is_empty() {
        blocks.push(Block::Lines(charts::long_run(findings)));
    }
    blocks.extend([
        Block::Text(explained::ENDURANCE.to_owned()),
        Block::Table(tables::endurance(findings).for_page("What may be written, for each TB of capacity")),
        Block::Text(findings.wear.said()),
    ]);
    blocks
}

/// What the long runs found.
pub(super) fn long_runs(runs: &[Lasting]) -> String {
    match runs.is_empty() {
        true => "How long the speed lasts was not measured: it takes minutes (--long-run 5m).".to_owned(),
        false => runs.iter().map(Lasting::said).collect::<Vec<String>>().join(" "),
    }
}

/// Reads on a simulated disk.
pub(super) fn simulated_section(findings: &Findings) -> Vec<Block> {
    vec![
        Block::Note(explained::SIMULATED.to_owned()),
        Block::Lines(charts::simulated_disk(findings)),
        Block::Table(tables::simulated(findings).for_page("Mean latency, simulated")),
        Block::Text(simulated(findings)),
    ]
}

/// Which curve the simulated latencies follow.
pub(super) fn simulated(findings: &Findings) -> String {
    let Some(curves) = findings.simulated_curves else {
        return "Too few blocks were simulated to say more.".to_owned();
    };
    let nearer = if curves.is_logarithmic() { "a logarithm" } else { "a line" };
    format!(
        "At random places the simulated latencies are nearer to {nearer}: the one furthest from a line is {} away, the one \
         furthest from a logarithm {}. A long wait and then bytes at a constant rate are a line that begins high: drawn \
         against growing factors, as here, its left part is level.",
        percent(curves.line_residual_max),
        percent(curves.logarithm_residual_max)
    )
}

#[cfg(test)]
mod tests {
    use super::super::cells::Profile;
    use super::super::published;
    use super::super::unstated::{Differs, OtherWay};
    use super::*;

    fn way(differs: Vec<Differs>) -> Unstated {
        let profile: Profile = published::profile();
        Unstated { way: OtherWay::Buffered, engine: "uring".to_owned(), profile, differs }
    }

    #[test]
    fn what_comes_out_otherwise_is_named_with_its_verdict() {
        let same = differs(&way(Vec::new()));
        assert_eq!(
            same,
            "Measured through the page cache, cold (uring), every conclusion about cells comes out the same."
        );
        let one = Differs { published: "It grows.", verdict: Verdict::DoesNotHold };
        assert!(differs(&way(vec![one])).ends_with("otherwise: does not hold: “It grows.”."));
        let all = ["A.", "B."].map(|published| Differs { published, verdict: Verdict::NotMeasured });
        let said = differs(&way(all.into()));
        assert!(said.ends_with("otherwise: not measured here: “A.”, “B.”."), "{said}");
    }

    #[test]
    fn without_long_runs_the_option_is_named() {
        assert!(long_runs(&[]).contains("--long-run"));
    }
}
