//! [`Frame`]: what every study says in the same way: the figures of a document as it prints them,
//! beside ours; what of its procedure is the same here; and whether each of its conclusions holds.

mod page;
mod text;

use serde::Serialize;

use crate::environment::Environment;
use crate::verdict::Verdict;

pub(crate) use self::page::framed;
pub(crate) use self::text::lines;

/// A published document: what it is, and every table in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Document {
    /// Its title.
    pub title: &'static str,
    /// Who wrote it or what it belongs to.
    pub of: &'static str,
    /// What it was measured on, as far as it says so.
    pub on: &'static str,
    /// Its tables, and the figures that stand in its text.
    #[serde(skip)]
    pub tables: &'static [Printed],
}

/// Figures of a document, as they are printed in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Printed {
    /// The section that they stand in.
    pub section: &'static str,
    /// What they are.
    pub caption: &'static str,
    /// The headers.
    pub columns: &'static [&'static str],
    /// The rows.
    pub rows: &'static [&'static [&'static str]],
}

impl Printed {
    /// A printed cell as a number; thousands may be separated by commas. `None` where none is
    /// printed.
    pub fn number(&self, row: usize, column: usize) -> Option<f64> {
        let text = self.rows.get(row)?.get(column)?;
        let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.' | ',')).unwrap_or(text.len());
        text.get(..end)?.replace(',', "").parse().ok()
    }
}

/// Printed figures, and ours beside each row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// As printed.
    #[serde(flatten)]
    pub printed: Printed,
    /// The headers of our columns.
    pub here_columns: Vec<String>,
    /// Our cells for each row. A dash is what was not measured.
    pub here: Vec<Vec<String>>,
    /// Our cells of a device that does not say of which kind it is, where rows are of kinds of
    /// devices: they stand beside none of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_kind: Option<Vec<String>>,
}

impl Beside {
    /// Our cells, which `here` returns for the number of a row.
    pub fn new<const N: usize>(
        printed: Printed,
        columns: [&str; N],
        here: impl Fn(usize) -> [String; N],
    ) -> Self {
        let rows = 0..printed.rows.len();
        Self {
            printed,
            here_columns: columns.map(str::to_owned).into(),
            here: rows.map(|row| here(row).into()).collect(),
            unknown_kind: None,
        }
    }

    /// The same with a row for a device of unknown kind.
    pub fn with_unknown_kind<const N: usize>(self, here: Option<[String; N]>) -> Self {
        Self { unknown_kind: here.map(Into::into), ..self }
    }
}

/// A plot of the document: what it shows is repeated; its figures are known only where they are
/// printed as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plot {
    /// The section.
    pub section: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What shows the same here, or why nothing does.
    pub here: &'static str,
}

/// A step of the published procedure, and what is done here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What the document did.
    pub published: &'static str,
    /// What is done here.
    pub here: String,
    /// Why that differs; absent where it does not.
    pub differs_because: Option<&'static str>,
}

impl Step {
    /// A step that is done here as it was there.
    pub fn same(published: &'static str, here: impl Into<String>) -> Self {
        Self { published, here: here.into(), differs_because: None }
    }

    /// How often it is measured, where the document does not say how often it was.
    pub(crate) fn rounds(here: String) -> Self {
        Self::other("How many runs is not stated", here, "single figures are noise, and a device drifts")
    }

    /// A step that is done otherwise here.
    pub fn other(published: &'static str, here: impl Into<String>, because: &'static str) -> Self {
        Self { published, here: here.into(), differs_because: Some(because) }
    }
}

/// A verdict, and the figures or the reason for it.
pub type Judgement = (Verdict, String);

/// What could not be measured, and why.
pub(crate) fn not_measured(because: impl Into<String>) -> Judgement {
    (Verdict::NotMeasured, because.into())
}

/// A conclusion of the document, and the result of its check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conclusion {
    /// The section that it stands in.
    pub section: &'static str,
    /// The conclusion, in our words.
    pub published: &'static str,
    /// What is checked.
    pub check: &'static str,
    /// The verdict of the check on the figures of the document.
    pub verdict_of_published: Verdict,
    /// Those figures.
    pub figures_of_published: String,
    /// Its verdict on the measurements here.
    pub verdict: Verdict,
    /// The figures that show it, or why nothing was measured.
    pub here: String,
}

/// A conclusion before it is checked, by what was measured.
pub(crate) struct Claim<F: 'static> {
    pub(crate) section: &'static str,
    pub(crate) published: &'static str,
    pub(crate) check: &'static str,
    /// On the figures of the document.
    pub(crate) there: fn() -> Judgement,
    /// On ours.
    pub(crate) here: fn(&F) -> Judgement,
}

/// Checks every claim.
pub(crate) fn judged<F>(claims: &[Claim<F>], found: &F) -> Vec<Conclusion> {
    let judge = |claim: &Claim<F>| {
        let (verdict_of_published, figures_of_published) = (claim.there)();
        let (verdict, here) = (claim.here)(found);
        Conclusion {
            section: claim.section,
            published: claim.published,
            check: claim.check,
            verdict_of_published,
            figures_of_published,
            verdict,
            here,
        }
    };
    claims.iter().map(judge).collect()
}

/// A document that says prints no figures by which it could be checked.
pub(crate) fn no_figures() -> Judgement {
    not_measured("It prints no figures for it.")
}

/// Where a document does not agree with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// The sections.
    pub section: &'static str,
    /// What it says.
    pub says: &'static str,
    /// What its own figures or another place in it say.
    pub but: &'static str,
}

/// Something that we measured on another machine or in another way than this study; it is never
/// called published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Elsewhere {
    /// What was measured, and what was found.
    pub what: &'static str,
    /// Where it is written down.
    pub written_in: &'static str,
}

/// What every study says.
#[derive(Debug, Clone, Serialize)]
pub struct Frame {
    /// The answer in a few sentences.
    pub verdict: String,
    /// What was published.
    pub document: Document,
    /// Its tables, and ours.
    pub tables: Vec<Beside>,
    /// Its plots.
    pub plots: Vec<Plot>,
    /// Its procedure, and ours.
    pub procedure: Vec<Step>,
    /// Its conclusions, and whether they hold here.
    pub conclusions: Vec<Conclusion>,
    /// Where it contradicts itself.
    pub contradictions: Vec<Contradiction>,
    /// What was measured by us elsewhere.
    pub elsewhere: Vec<Elsewhere>,
    /// On what it was measured here.
    pub environment: Environment,
    /// More about that, for the page.
    #[serde(skip)]
    pub facts: Vec<(String, String)>,
}

/// In the place of a figure that was not measured, or is not printed.
pub(crate) const NONE: &str = "–";

impl Frame {
    /// What a document says, and on what it is repeated; what was found is still to be added.
    pub(crate) fn of(
        document: Document,
        contradictions: &[Contradiction],
        environment: &Environment,
    ) -> Self {
        Self {
            verdict: String::new(),
            document,
            tables: Vec::new(),
            plots: Vec::new(),
            procedure: Vec::new(),
            conclusions: Vec::new(),
            contradictions: contradictions.to_vec(),
            elsewhere: Vec::new(),
            environment: environment.clone(),
            facts: Vec::new(),
        }
    }

    /// Number of conclusions of each verdict: that hold, that do not, that were not measured.
    pub fn counts(&self) -> [usize; 3] {
        let verdicts = [Verdict::Holds, Verdict::DoesNotHold, Verdict::NotMeasured];
        verdicts.map(|verdict| self.conclusions.iter().filter(|one| one.verdict == verdict).count())
    }
}

/// Up to the first full stop that ends a sentence: a capital follows.
pub(crate) fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at + 1);
    let is_end = |at: &usize| {
        text.get(at + 1..).is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()))
    };
    ends.into_iter().find(is_end).and_then(|at| text.get(..at)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_ends_where_another_begins() {
        assert_eq!(first_sentence("It takes 1.5 s. And so on. More."), "It takes 1.5 s.");
        assert_eq!(first_sentence("One in 1. 5 of 2."), "One in 1. 5 of 2.");
        assert_eq!(first_sentence(""), "");
    }

    #[test]
    fn printed_figures_are_numbers_where_numbers_are_printed() {
        let printed = Printed {
            section: "",
            caption: "",
            columns: &[],
            rows: &[&["2,174 MB/s", "44.1", "98.4% `1`", "NA", "MG10 271", ""]],
        };
        let numbers = |columns: [usize; 7]| columns.map(|column| printed.number(0, column));
        assert_eq!(
            numbers([0, 1, 2, 3, 4, 5, 6]),
            [Some(2174.0), Some(44.1), Some(98.4), None, None, None, None]
        );
    }

    #[test]
    fn every_claim_is_judged_by_its_own_check() {
        let claims = [Claim::<f64> {
            section: "Reading",
            published: "It grows.",
            check: "It is more than 1.",
            there: no_figures,
            here: |found| (Verdict::of(*found > 1.0), format!("{found}.")),
        }];
        for (found, verdict) in [(2.0, Verdict::Holds), (0.5, Verdict::DoesNotHold)] {
            let all = judged(&claims, &found);
            assert_eq!((all.len(), all[0].verdict, all[0].here.clone()), (1, verdict, format!("{found}.")));
            assert_eq!(all[0].verdict_of_published, Verdict::NotMeasured);
        }
    }
}
