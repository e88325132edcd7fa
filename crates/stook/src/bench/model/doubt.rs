//! [`doubts()`]: why cells may not be believed, each reason reported once with all cells that have
//! it.

use crate::bench::gates::State;
use crate::bench::result::CellResult;
use crate::bench::workload::Workload;

/// Cells that share reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt<'a> {
    /// The cells, in their order.
    pub cells: Vec<&'a CellResult>,
    /// Whether these are all cells.
    pub is_all: bool,
    /// What all of them have for a reason; where these differ in their figures, that of the first
    /// cell.
    pub reasons: Vec<&'a str>,
}

impl Doubt<'_> {
    /// The reasons, for people: which of them have other figures in other cells is said.
    pub fn reason_texts(&self) -> Vec<String> {
        let is_same = |reason: &str| {
            self.cells.iter().all(|cell| cell.reasons.iter().any(|other| other.as_str() == reason))
        };
        let text = |reason: &&str| match is_same(reason) {
            true => (*reason).to_owned(),
            false => format!("{reason} (these are the figures of the first)"),
        };
        self.reasons.iter().map(text).collect()
    }

    /// Which cells these are, for people; `name` returns the name of one.
    pub fn named(&self, name: impl Fn(&Workload) -> String) -> String {
        match self.cells.as_slice() {
            [one] => name(&one.workload),
            _ if self.is_all => "all cells".to_owned(),
            cells => {
                let names: Vec<String> = cells.iter().map(|cell| name(&cell.workload)).collect();
                format!("{} cells ({})", cells.len(), names.join("; "))
            }
        }
    }
}

/// A reason without its figures: the check that it comes from, and its outcome.
fn without_figures(reason: &str) -> String {
    reason.chars().filter(|letter| !(letter.is_ascii_digit() || matches!(letter, '.' | ','))).collect()
}

/// Why cells are in this state. Reasons that differ only in their figures are one. Reasons of the
/// same cells are grouped, in the order of the first cell that has them; a cell with several
/// reasons may be in several groups.
pub fn doubts<'a>(cells: &[&'a CellResult], state: State) -> Vec<Doubt<'a>> {
    let mut reasons: Vec<(&'a str, String, Vec<usize>)> = Vec::new();
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.state == state) {
        for reason in &cell.reasons {
            let kind = without_figures(reason);
            match reasons.iter_mut().find(|(_, known, _)| *known == kind) {
                Some((_, _, members)) if members.last() == Some(&at) => {}
                Some((_, _, members)) => members.push(at),
                None => reasons.push((reason.as_str(), kind, vec![at])),
            }
        }
    }
    let mut groups: Vec<(Vec<usize>, Vec<&'a str>)> = Vec::new();
    for (reason, _, members) in reasons {
        match groups.iter_mut().find(|(known, _)| *known == members) {
            Some((_, shared)) => shared.push(reason),
            None => groups.push((members, vec![reason])),
        }
    }
    let doubt = |(members, reasons): (Vec<usize>, Vec<&'a str>)| Doubt {
        is_all: members.len() == cells.len(),
        cells: members.iter().filter_map(|&at| cells.get(at).copied()).collect(),
        reasons,
    };
    groups.into_iter().map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Figures;

    fn cell(depth: u32, state: State, reasons: &[&str]) -> CellResult {
        CellResult {
            rw: "randread".to_owned(),
            workload: Workload { depth, ..Workload::default() },
            total: Figures::default(),
            read: None,
            write: None,
            sync: None,
            sizes: Vec::new(),
            state,
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            long_run: None,
            runs: Vec::new(),
        }
    }

    fn reported(cells: &[CellResult], state: State) -> Vec<(String, Vec<&str>)> {
        let cells: Vec<&CellResult> = cells.iter().collect();
        let found = doubts(&cells, state).into_iter();
        found.map(|doubt| (doubt.named(|cell| cell.depth.to_string()), doubt.reasons)).collect()
    }

    #[test]
    fn reasons_that_cells_share_are_reported_once_and_each_cell_that_has_one_is_named() {
        let cells = [
            cell(1, State::Unverified, &["memory", "short", "one alone"]),
            cell(2, State::Valid, &[]),
            cell(4, State::Unverified, &["memory", "short"]),
            cell(8, State::Invalid, &["memory", "cached"]),
        ];
        let expected =
            [("2 cells (1; 4)".to_owned(), vec!["memory", "short"]), ("1".to_owned(), vec!["one alone"])];
        assert_eq!(reported(&cells, State::Unverified), expected);
        assert_eq!(reported(&cells, State::Invalid), [("8".to_owned(), vec!["memory", "cached"])]);
        assert!(reported(&cells, State::Valid).is_empty());
    }

    /// Before: a paragraph for every cell, each with other figures.
    #[test]
    fn reasons_that_differ_in_their_figures_only_are_reported_once_and_that_they_do_is_said() {
        let read = |share: &str| format!("the device read {share} of the bytes requested");
        let cells = [("0.05", 1), ("0.10", 2), ("0.05", 4)]
            .map(|(share, depth)| cell(depth, State::Invalid, &[read(share).as_str(), "memory"]));
        let cells: Vec<&CellResult> = cells.iter().collect();
        let found = doubts(&cells, State::Invalid);
        let first = format!("{} (these are the figures of the first)", read("0.05"));
        assert_eq!(found.iter().map(Doubt::reason_texts).collect::<Vec<_>>(), [[first, "memory".to_owned()]]);
        assert!(found[0].is_all);
    }

    #[test]
    fn a_reason_of_all_cells_names_none_of_them_unless_there_is_only_one() {
        let cells = [1, 2, 3].map(|depth| cell(depth, State::Unverified, &["memory", "memory"]));
        assert_eq!(reported(&cells, State::Unverified), [("all cells".to_owned(), vec!["memory"])]);
        assert_eq!(reported(&cells[..1], State::Unverified), [("1".to_owned(), vec!["memory"])]);
    }
}
