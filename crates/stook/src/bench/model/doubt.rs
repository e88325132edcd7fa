//! [`doubts()`]: why cells may not be believed, each reason told once with all cells that have it.

use crate::bench::gates::State;
use crate::bench::result::CellResult;
use crate::bench::workload::Workload;

/// Cells that share reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt<'a> {
    /// The cells, in their order.
    pub cells: Vec<&'a CellResult>,
    /// Whether these are all that there are.
    pub is_all: bool,
    /// What all of them have for a reason.
    pub reasons: Vec<&'a str>,
}

impl Doubt<'_> {
    /// Which cells these are, for people; `name` says what one is called.
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

/// Why cells are in this state. Reasons that the same cells have stand together, in the order of the first cell that has
/// them; a cell with several reasons may be in several groups.
pub fn doubts<'a>(cells: &[&'a CellResult], state: State) -> Vec<Doubt<'a>> {
    let mut reasons: Vec<(&'a str, Vec<usize>)> = Vec::new();
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.state == state) {
        for reason in &cell.reasons {
            match reasons.iter_mut().find(|(known, _)| *known == reason.as_str()) {
                Some((_, members)) if members.last() == Some(&at) => {}
                Some((_, members)) => members.push(at),
                None => reasons.push((reason.as_str(), vec![at])),
            }
        }
    }
    let mut groups: Vec<(Vec<usize>, Vec<&'a str>)> = Vec::new();
    for (reason, members) in reasons {
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
            state,
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            long_run: None,
            runs: Vec::new(),
        }
    }

    fn told(cells: &[CellResult], state: State) -> Vec<(String, Vec<&str>)> {
        let cells: Vec<&CellResult> = cells.iter().collect();
        let found = doubts(&cells, state).into_iter();
        found.map(|doubt| (doubt.named(|cell| cell.depth.to_string()), doubt.reasons)).collect()
    }

    #[test]
    fn reasons_that_cells_share_are_told_once_and_each_cell_that_has_one_is_named() {
        let cells = [
            cell(1, State::Unverified, &["memory", "short", "depth 1"]),
            cell(2, State::Valid, &[]),
            cell(4, State::Unverified, &["memory", "short"]),
            cell(8, State::Invalid, &["memory", "cached"]),
        ];
        let expected =
            [("2 cells (1; 4)".to_owned(), vec!["memory", "short"]), ("1".to_owned(), vec!["depth 1"])];
        assert_eq!(told(&cells, State::Unverified), expected);
        assert_eq!(told(&cells, State::Invalid), [("8".to_owned(), vec!["memory", "cached"])]);
        assert!(told(&cells, State::Valid).is_empty());
    }

    #[test]
    fn a_reason_of_all_cells_names_none_of_them_unless_there_is_only_one() {
        let cells = [1, 2, 3].map(|depth| cell(depth, State::Unverified, &["memory", "memory"]));
        assert_eq!(told(&cells, State::Unverified), [("all cells".to_owned(), vec!["memory"])]);
        assert_eq!(told(&cells[..1], State::Unverified), [("1".to_owned(), vec!["memory"])]);
    }
}
