//! [`run`]: takes any study from its options to its files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use stook::report::json::Document;
use stook::report::page::Figure;

use crate::brief::brief;
use crate::frame::{Frame, framed, lines};
use crate::place::{PlaceLock, remove_left};
use crate::sample::{check_publish, publish};
use crate::study::{Hooks, Study};
use crate::text::Text;

/// The files of a result.
pub(crate) const RESULTS: [&str; 2] = ["study.json", "study.html"];

/// The result of a study.
#[derive(Debug)]
pub struct Report {
    /// For a terminal: the answer, the first figures and how many conclusions hold.
    pub brief: Vec<Text>,
    /// For a terminal, all of it: every table and every conclusion.
    pub text: Vec<Text>,
    /// The figures that are to be seen first.
    pub figures: Vec<Figure>,
    /// The bytes of `study.json`.
    pub json: Vec<u8>,
    /// Where `study.json` and `study.html` are.
    pub paths: [PathBuf; 2],
    /// What all studies say.
    pub frame: Frame,
    /// Why the files could not be written, if they were not: what was found is here alone.
    pub unwritten: Option<anyhow::Error>,
}

/// The shape of `study.json`, the same for every study.
#[derive(Debug, Serialize)]
struct Result<'a, F> {
    name: &'static str,
    #[serde(flatten)]
    frame: &'a Frame,
    data: &'a F,
}

/// Runs a study, and writes `study.json` and `study.html` into the directory `out`.
///
/// # Errors
/// Returns an error if making or measuring fails, or the error of [`Hooks::check`]. Where only the
/// files cannot be written the report says so.
pub fn run<S: Study>(study: &S, out: &Path, hooks: &dyn Hooks) -> anyhow::Result<Report> {
    study.check()?;
    prepare_out(out)?;
    let _locks = lock(study, hooks)?;
    run_locked(study, out, hooks)
}

/// Locks the places of a study, and removes what killed runs left there.
///
/// # Errors
/// Returns an error if another study works there, or something that is left cannot be removed.
pub(crate) fn lock<S: Study>(study: &S, hooks: &dyn Hooks) -> anyhow::Result<Vec<PlaceLock>> {
    let locks = study.lock()?;
    for removed in locks.iter().map(remove_left).collect::<anyhow::Result<Vec<_>>>()?.concat() {
        hooks.note(&format!("Removed what a run had left that was killed: {}", removed.display()));
    }
    Ok(locks)
}

/// The rest of [`run`], in places that are locked.
pub(crate) fn run_locked<S: Study>(study: &S, out: &Path, hooks: &dyn Hooks) -> anyhow::Result<Report> {
    let mut state = study.prepare(hooks)?;
    study.measure(&mut state, hooks)?;
    study.check_bytes(&mut state, hooks)?;
    while study.wants_round(&state, hooks) {
        study.measure(&mut state, hooks)?;
    }
    let findings = study.conclude(state)?;
    let Rendered { frame, json, html, figures } = render::<S>(&findings)?;
    let paths = RESULTS.map(|name| out.join(name));
    let files = [&json[..], html.as_bytes()];
    // What was measured for minutes is not lost to a disk that has filled meanwhile.
    let written = paths.iter().zip(files).try_for_each(|(path, bytes)| publish(path, bytes));
    let unwritten = written.err();
    let text = S::text(&findings).into_iter().chain(lines(&frame)).collect();
    Ok(Report { brief: brief(&frame, &figures), text, figures, json, paths, frame, unwritten })
}

/// What was found, in the forms in which it is written.
#[derive(Debug)]
pub struct Rendered {
    /// What all studies say.
    pub frame: Frame,
    /// The bytes of `study.json`.
    pub json: Vec<u8>,
    /// The page, which embeds the same.
    pub html: String,
    /// The figures that stand first on the page.
    pub figures: Vec<Figure>,
}

/// What was found as JSON and as a page.
///
/// # Errors
/// Returns an error if it cannot be written as JSON.
pub fn render<S: Study>(findings: &S::Findings) -> anyhow::Result<Rendered> {
    let frame = S::frame(findings);
    let document = Document::new("study", Result { name: S::NAME, frame: &frame, data: findings });
    let mut json = serde_json::to_vec_pretty(&document)?;
    json.push(b'\n');
    let footer = format!(
        "Made by stook {}. {} embedded in this page as JSON, in the element with the id `data`.",
        env!("CARGO_PKG_VERSION"),
        S::EMBEDDED
    );
    let page = S::page(findings);
    let figures = page.figures().cloned().collect();
    let html = framed(page, &frame).footer(footer).data(&document)?.render();
    Ok(Rendered { frame, json, html, figures })
}

/// A missing place for the result must not be discovered only after the measurement.
pub(crate) fn prepare_out(out: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    RESULTS.iter().try_for_each(|name| check_publish(&out.join(name)))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use stook::report::page::{Block, Page};

    use super::*;
    use crate::{Expected, OptionError};

    /// Measures this many rounds, and fails in one of its steps.
    struct Steps {
        rounds: usize,
        fails_in: &'static str,
    }

    #[derive(serde::Serialize)]
    struct Found {
        rounds: usize,
    }

    const DOCUMENT: crate::frame::Document =
        crate::frame::Document { title: "Stairs", of: "nobody", on: "On foot.", tables: &[] };

    /// The notes, which are the steps.
    #[derive(Default)]
    struct Noted(Mutex<Vec<String>>);

    impl Hooks for Noted {
        fn note(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }

        fn check(&self) -> anyhow::Result<()> {
            Ok(())
        }
    }

    impl Steps {
        fn step(&self, name: &str, hooks: &dyn Hooks) -> anyhow::Result<()> {
            hooks.note(name);
            anyhow::ensure!(name != self.fails_in, "{name} fails");
            Ok(())
        }
    }

    impl Study for Steps {
        type State = usize;
        type Findings = Found;

        const NAME: &'static str = "steps";
        const EMBEDDED: &'static str = "All steps are";

        fn check(&self) -> anyhow::Result<()> {
            anyhow::ensure!(self.rounds > 0, OptionError::new("no rounds"));
            Ok(())
        }

        fn expected(&self) -> Expected {
            Expected::default()
        }

        fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<usize> {
            self.step("prepare", hooks)?;
            Ok(0)
        }

        fn measure(&self, measured: &mut usize, hooks: &dyn Hooks) -> anyhow::Result<()> {
            *measured += 1;
            self.step("measure", hooks)
        }

        fn check_bytes(&self, _: &mut usize, hooks: &dyn Hooks) -> anyhow::Result<()> {
            self.step("check_bytes", hooks)
        }

        fn wants_round(&self, measured: &usize, _: &dyn Hooks) -> bool {
            *measured < self.rounds
        }

        fn conclude(&self, rounds: usize) -> anyhow::Result<Found> {
            Ok(Found { rounds })
        }

        fn frame(found: &Found) -> Frame {
            let one = |says| crate::frame::Contradiction { section: "Up", says, but: "down" };
            Frame {
                verdict: format!("{} rounds.", found.rounds),
                document: DOCUMENT,
                tables: Vec::new(),
                plots: Vec::new(),
                procedure: vec![crate::frame::Step::same("Walk", "walk")],
                conclusions: Vec::new(),
                contradictions: vec![one("up")],
                elsewhere: Vec::new(),
                environment: crate::environment::Environment::default(),
                facts: vec![("Shoes".to_owned(), "none".to_owned())],
            }
        }

        fn text(found: &Found) -> Vec<Text> {
            vec![Text::line(found.rounds)]
        }

        fn page(_: &Found) -> Page {
            let figure = Figure { value: "12".to_owned(), label: "steps (11 to 13)".to_owned() };
            Page::new("Steps").section("", vec![Block::Figures(vec![figure])])
        }
    }

    #[test]
    fn bytes_are_checked_once_after_the_first_round_and_the_result_is_written() {
        let place = tempfile::tempdir().unwrap();
        let (out, noted) = (place.path().join("a/out"), Noted::default());
        let report = run(&Steps { rounds: 3, fails_in: "" }, &out, &noted).unwrap();
        let steps = noted.0.into_inner().unwrap();
        assert_eq!(steps, ["prepare", "measure", "check_bytes", "measure", "measure"]);
        assert!(matches!(report.text.as_slice(), [Text::Line(first), .., Text::Line(last)]
            if first == "3" && last == "\n3 rounds."));
        assert_eq!(report.figures.len(), 1);
        assert!(matches!(report.brief.as_slice(), [Text::Line(answer), _, Text::Table(_), Text::Line(last)]
            if answer == "3 rounds." && last.contains("0 hold here")));
        let json: serde_json::Value = serde_json::from_slice(&report.json).unwrap();
        assert_eq!((&json["schema"], &json["name"]), (&"stook.study/1".into(), &"steps".into()));
        assert_eq!((&json["data"]["rounds"], &json["verdict"]), (&3.into(), &"3 rounds.".into()));
        assert_eq!(json["document"]["title"], "Stairs");
        assert_eq!(std::fs::read(out.join("study.json")).unwrap(), report.json);
        let html = std::fs::read_to_string(out.join("study.html")).unwrap();
        let footer = format!(
            "Made by stook {}. All steps are embedded in this page as JSON, in the element with the id",
            env!("CARGO_PKG_VERSION")
        );
        assert!(html.contains(&footer) && html.contains("{\"schema\":\"stook.study/1\""), "{html}");
        for part in ["<dt>Shoes</dt><dd>none</dd>", "<td>the same</td>", "contradicts itself", "“Stairs”"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("measured elsewhere"), "an empty section is left out");
        assert_eq!(report.paths, ["study.json", "study.html"].map(|name| out.join(name)));
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
    }

    /// Before: what had been measured was nowhere then.
    #[test]
    fn what_was_found_is_reported_where_it_cannot_be_written() {
        let place = tempfile::tempdir().unwrap();
        let steps = Steps { rounds: 1, fails_in: "" };
        // The place goes while it is measured.
        let report = run_locked(&steps, &place.path().join("gone"), &Noted::default()).unwrap();
        assert!(report.unwritten.unwrap().to_string().contains("gone/study.json"));
        assert!(!report.text.is_empty() && report.json.starts_with(b"{"));
    }

    #[test]
    fn a_step_that_fails_is_the_last_and_nothing_is_written() {
        for (fails_in, steps) in [("prepare", 1), ("measure", 2), ("check_bytes", 3)] {
            let (place, noted) = (tempfile::tempdir().unwrap(), Noted::default());
            let error = run(&Steps { rounds: 2, fails_in }, place.path(), &noted).unwrap_err();
            assert_eq!(error.to_string(), format!("{fails_in} fails"));
            assert_eq!(noted.0.into_inner().unwrap().len(), steps);
            assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_makes_no_sense_and_what_has_no_place_is_refused_before_anything_is_made() {
        let (place, noted) = (tempfile::tempdir().unwrap(), Noted::default());
        let out = place.path().join("out");
        let error = run(&Steps { rounds: 0, fails_in: "" }, &out, &noted).unwrap_err();
        assert!(error.is::<OptionError>() && !out.exists());
        std::fs::write(&out, "a file").unwrap();
        let error = run(&Steps { rounds: 1, fails_in: "" }, &out, &noted).unwrap_err();
        assert!(error.to_string().contains("out"), "{error}");
        assert_eq!(noted.0.into_inner().unwrap(), [""; 0]);
    }
}
