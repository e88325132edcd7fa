//! All studies, one after the other, and a page that leads to them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use serde::{Serialize, Serializer};
use stook::report::json::Document;
use stook::report::page::{Block, Figure, Link, Page};
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use crate::brief::{counted, table};
use crate::bulk_copy::BulkCopy;
use crate::driver::{RESULTS, Report, lock, prepare_out, run_locked};
use crate::frame::first_sentence;
use crate::many_small_files::ManySmallFiles;
use crate::place::{PlaceLock, remove_left};
use crate::progress::{Expected, Pace};
use crate::sample::{Cleaned, Sample, check_publish, check_space, publish, remove};
use crate::solid_reads::SolidReads;
use crate::sparse_file::SparseFileStudy;
use crate::ssd_profile::{Ratings, SsdProfile};
use crate::text::duration_s;
use crate::{Hooks, OptionError, Study, Text};

/// The names of all studies, and what each measures.
pub const STUDIES: [(&str, &str); 5] = [
    (ManySmallFiles::NAME, "Loose files against one file and against a pack"),
    (SsdProfile::NAME, "Block size, depth and mix, and whether the figures add up"),
    (BulkCopy::NAME, "Copies of a large file: block, queue, and what caches make of it"),
    (SolidReads::NAME, "Archives that are read out of many files, against one file"),
    (SparseFileStudy::NAME, "Sparse files in memory: reads, writes, needs and threads"),
];

/// Files of the sample of small files, at most, and bytes of each, as published.
const SMALL_FILES: Sample = Sample { files: 50_000, size: 20_000 };

/// The directory of the small files.
const KEPT: &str = "stook-study";

/// The files that lead to the others.
const INDEX: [&str; 2] = ["index.json", "index.html"];

/// Rounds of sparse files.
const ROUNDS: usize = 5;

/// What all studies need to be told.
#[derive(Debug, Clone)]
pub struct All {
    /// A directory on the storage that is measured.
    pub work: PathBuf,
    /// Data that each study makes, about.
    pub size_bytes: u64,
    /// How long each cell of the SSD is measured in each round.
    pub time_s: f64,
    /// File systems on which small files are measured as well, by the names of `--on`.
    pub on: Vec<String>,
    /// The Python in which stook and svfsc are looked for.
    pub python: String,
    /// Whether the caches of other programs are left alone.
    pub keep_caches: bool,
    /// Names of studies that are left out.
    pub skip: Vec<String>,
}

/// What came of a study.
#[derive(Debug, Clone, Serialize)]
pub struct Done {
    /// Its name.
    pub name: &'static str,
    /// The answer; absent if it failed.
    pub verdict: Option<String>,
    /// Conclusions that hold, that do not, and that were not measured.
    #[serde(serialize_with = "by_verdict")]
    pub conclusions: [usize; 3],
    /// Why it failed.
    pub error: Option<String>,
    /// Its page, from the directory of the result; absent if it failed.
    pub page: Option<String>,
    /// The figures that are to be seen first.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// All that a terminal shows of it.
    #[serde(skip)]
    pub text: Vec<Text>,
}

/// Figures of each study where all of them are shown.
const FIGURES_MAX: usize = 3;

/// Each number under the name of its verdict.
fn by_verdict<S: Serializer>(counts: &[usize; 3], serializer: S) -> Result<S::Ok, S::Error> {
    let [holds, does_not_hold, not_measured] = counts;
    let names = [("holds", holds), ("does_not_hold", does_not_hold), ("not_measured", not_measured)];
    serializer.collect_map(names)
}

impl Done {
    fn of(name: &'static str, result: anyhow::Result<Report>) -> Self {
        let failed = Self {
            name,
            verdict: None,
            conclusions: [0; 3],
            error: None,
            page: None,
            figures: Vec::new(),
            text: Vec::new(),
        };
        match result {
            Ok(Report { frame, figures, text, unwritten, .. }) => Self {
                conclusions: frame.counts(),
                verdict: Some(frame.verdict),
                page: unwritten.is_none().then(|| format!("{name}/study.html")),
                error: unwritten.map(|error| format!("{error:#}")),
                figures,
                text,
                ..failed
            },
            Err(error) => Self { error: Some(format!("{error:#}")), ..failed },
        }
    }

    /// The answer in a sentence, or why there is none.
    fn answer(&self) -> String {
        let verdict = self.verdict.as_deref().map(first_sentence);
        let failed = self.error.as_ref().map(|error| format!("failed: {error}"));
        [verdict.map(str::to_owned), failed].into_iter().flatten().collect::<Vec<String>>().join(" ")
    }

    /// For a terminal: the answer, some figures, how many conclusions hold, and where the page is.
    fn brief(&self, out: &Path) -> Vec<Text> {
        let mut text = vec![Text::line(self.name), Text::line(self.answer())];
        if let Some(shown) = self.figures.get(..FIGURES_MAX.min(self.figures.len()))
            && !shown.is_empty()
        {
            text.push(Text::Table(table(shown)));
        }
        if let Some(page) = &self.page {
            let counts = counted(self.conclusions);
            text.push(Text::line(format_args!("{counts} {}", out.join(page).display())));
        }
        text
    }
}

/// What came of all of them.
#[derive(Debug, Clone, Serialize)]
pub struct AllDone {
    /// `all`.
    pub name: &'static str,
    /// Each study.
    pub studies: Vec<Done>,
}

impl AllDone {
    /// Those that failed.
    pub fn failed(&self) -> usize {
        self.studies.iter().filter(|done| done.error.is_some()).count()
    }

    /// As JSON.
    ///
    /// # Errors
    /// Returns an error if it cannot be written as JSON.
    pub fn json(&self) -> serde_json::Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(&Document::new("study", self))?;
        json.push(b'\n');
        Ok(json)
    }

    /// For a terminal: some lines of each study, whose pages lie below `out`.
    pub fn brief(&self, out: &Path) -> Vec<Text> {
        let each = self.studies.iter().enumerate();
        each.flat_map(|(number, done)| {
            (number > 0).then(|| Text::line("")).into_iter().chain(done.brief(out))
        })
        .collect()
    }

    /// For a terminal: all of each study under its name.
    pub fn text(&self) -> Vec<Text> {
        let of = |done: &Done| -> Vec<Text> {
            let failed = done.error.as_ref().map(|_| Text::line(done.answer()));
            let rest = done.text.iter().cloned().chain(failed);
            [Text::line(format_args!("\n{}\n", done.name))].into_iter().chain(rest).collect()
        };
        self.studies.iter().flat_map(of).collect()
    }

    /// As a table.
    pub fn table(&self, caption: &str) -> Table {
        let head = Table::new(caption).column("Study", Align::Left);
        let counts = ["Hold here", "Do not hold", "Not measured"];
        let head = counts.into_iter().fold(head, |table, name| table.column(name, Align::Right));
        let rows = self.studies.iter();
        let head = head.column("Answer", Align::Left).stacked();
        rows.fold(head, |table, done| {
            let counts = done.conclusions.map(|count| count.to_string());
            let cells = [done.name.to_owned()].into_iter().chain(counts).chain([done.answer()]);
            let table = table.row(cells, Tone::Plain);
            if done.error.is_none() { table.link(format!("{}/study.html", done.name)) } else { table }
        })
    }

    fn page(&self) -> Page {
        let link = |done: &Done| {
            let path = done.page.clone()?;
            Some(Link { path, name: done.name.to_owned(), detail: about(done.name).to_owned() })
        };
        let links = self.studies.iter().filter_map(link).collect();
        Page::new("Published studies, made again here")
            .lead("Each page lays what was published beside what was measured here, and says of every conclusion whether it holds.")
            .section("Studies", vec![Block::Links(links)])
            .section("Conclusions", vec![Block::Table(self.table(""))])
    }
}

fn about(name: &str) -> &'static str {
    STUDIES.iter().find(|(study, _)| *study == name).map_or("", |(_, about)| about)
}

impl All {
    /// Runs all studies, each into a directory of its own below `out`, and writes `index.html` and
    /// `index.json` there. One that fails is reported, and the others run all the same.
    ///
    /// # Errors
    /// Returns an error if the result cannot be written, or the error of [`Hooks::check`].
    pub fn run(&self, out: &Path, hooks: &dyn Hooks) -> anyhow::Result<AllDone> {
        if self.size_bytes == 0 {
            return Err(OptionError::new("--size: no data is made of 0 bytes").into());
        }
        if !self.work.is_dir() {
            return Err(OptionError::new(format!("{}: expected a directory", self.work.display())).into());
        }
        self.check()?;
        std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        INDEX.iter().try_for_each(|name| check_publish(&out.join(name)))?;
        let mut wanted = STUDIES.iter().filter(|(name, _)| self.is_wanted(name));
        wanted.try_for_each(|(name, _)| prepare_out(&out.join(name)))?;
        let _locks = self.lock(hooks)?;
        // What was found before is no answer to this run, whatever comes of it.
        INDEX.iter().try_for_each(|name| remove(&out.join(name)))?;
        let done = AllDone { name: "all", studies: self.each(out, hooks)? };
        let json = done.json()?;
        let page = done.page().data(&Document::new("study", &done))?.render();
        for (name, bytes) in INDEX.iter().zip([&json[..], page.as_bytes()]) {
            publish(&out.join(name), bytes)?;
        }
        Ok(done)
    }

    /// Runs those that are wanted, one after the other, and says how long all of it takes.
    fn each(&self, out: &Path, hooks: &dyn Hooks) -> anyhow::Result<Vec<Done>> {
        let wanted: Vec<(&'static str, Expected)> = STUDIES
            .iter()
            .filter(|(name, _)| self.is_wanted(name))
            .map(|(name, _)| (*name, self.expected(name)))
            .collect();
        let (mut pace, mut studies) = (Pace::default(), Vec::new());
        hooks.note(&takes(&wanted, pace));
        for (number, (name, expected)) in wanted.iter().copied().enumerate() {
            let left: f64 = wanted.iter().skip(number).map(|(_, expected)| pace.seconds(*expected)).sum();
            let left = whole_s(left);
            hooks.note(&format!(
                "{name} ({} of {}), all of them end in about {left}",
                number + 1,
                wanted.len()
            ));
            let began = Instant::now();
            let result = self.one(name, &out.join(name), hooks);
            // What stops this one stops all of them.
            hooks.check()?;
            if result.is_ok() {
                pace.learn(expected, began.elapsed().as_secs_f64());
            }
            studies.push(Done::of(name, result));
        }
        Ok(studies)
    }

    /// How long a study takes.
    fn expected(&self, name: &str) -> Expected {
        match name {
            ManySmallFiles::NAME => self.many_small_files().expected(),
            BulkCopy::NAME => self.bulk_copy().expected(),
            SolidReads::NAME => self.solid_reads().expected(),
            SsdProfile::NAME => self.ssd_profile().expected(),
            _ => self.sparse_file().expected(),
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        !self.skip.iter().any(|skipped| skipped == name)
    }

    /// What cannot succeed is said before the first of them begins.
    fn check(&self) -> anyhow::Result<()> {
        self.many_small_files().check_on()?;
        for (name, _) in STUDIES.iter().filter(|(name, _)| self.is_wanted(name)) {
            let checked = match *name {
                ManySmallFiles::NAME => self.many_small_files().check(),
                BulkCopy::NAME => self.bulk_copy().check(),
                SolidReads::NAME => self.solid_reads().check(),
                SsdProfile::NAME => self.ssd_profile().check(),
                _ => self.sparse_file().check(),
            };
            checked.map_err(|error| match error.downcast::<OptionError>() {
                Ok(error) => {
                    OptionError::new(format!("{name}: {error} (--skip {name} leaves it out)")).into()
                }
                Err(error) => error.context(format!("{name} cannot run")),
            })?;
        }
        // The small files stay while the others make and remove theirs, of which a copy beside its
        // source is the most.
        let kept =
            if self.is_wanted(ManySmallFiles::NAME) { self.many_small_files().needed_bytes() } else { 0 };
        let others = [
            (BulkCopy::NAME, self.size_bytes.saturating_mul(2)),
            (SolidReads::NAME, self.solid_reads().needed_bytes()),
            (SsdProfile::NAME, self.size_bytes),
        ];
        let most = others.iter().filter(|(name, _)| self.is_wanted(name)).map(|(_, bytes)| *bytes).max();
        check_space(&self.work, kept.saturating_add(most.unwrap_or(self.size_bytes)))
            .context("data of --size does not fit")
    }

    /// The places of all of them.
    fn lock(&self, hooks: &dyn Hooks) -> anyhow::Result<Vec<PlaceLock>> {
        let mut locks = PlaceLock::take_all([self.work.as_path()])?;
        for removed in locks.iter().map(remove_left).collect::<anyhow::Result<Vec<_>>>()?.concat() {
            hooks.note(&format!("Removed what a run had left that was killed: {}", removed.display()));
        }
        if self.is_wanted(ManySmallFiles::NAME) {
            locks.extend(lock(&self.many_small_files(), hooks)?);
        }
        Ok(locks)
    }

    /// Where in such a directory the small files are made, and kept for the next run.
    pub fn kept_in(work: &Path) -> PathBuf {
        work.join(KEPT)
    }

    /// Removes what runs made below a directory, and what those left that were killed; `None` if
    /// there is nothing that is kept.
    ///
    /// # Errors
    /// Returns an error if a study works there, or something cannot be removed.
    pub fn clean(work: &Path) -> anyhow::Result<Option<Cleaned>> {
        let lock = PlaceLock::take(work)?;
        remove_left(&lock)?;
        crate::many_small_files::clean(&Self::kept_in(work))
    }

    /// Runs the study of this name.
    fn one(&self, name: &str, out: &Path, hooks: &dyn Hooks) -> anyhow::Result<Report> {
        prepare_out(out)?;
        RESULTS.iter().try_for_each(|name| remove(&out.join(name)))?;
        match name {
            ManySmallFiles::NAME => run_locked(&self.many_small_files(), out, hooks),
            BulkCopy::NAME => run_locked(&self.bulk_copy(), out, hooks),
            SolidReads::NAME => run_locked(&self.solid_reads(), out, hooks),
            SsdProfile::NAME => run_locked(&self.ssd_profile(), out, hooks),
            _ => run_locked(&self.sparse_file(), out, hooks),
        }
    }

    fn sparse_file(&self) -> SparseFileStudy {
        SparseFileStudy { rounds: ROUNDS, python: self.python.clone() }
    }

    fn many_small_files(&self) -> ManySmallFiles {
        let files = (self.size_bytes / SMALL_FILES.size).clamp(1, SMALL_FILES.files);
        ManySmallFiles {
            tree: None,
            work: Self::kept_in(&self.work),
            sample: Sample { files, ..SMALL_FILES },
            runs: None,
            keep_caches: self.keep_caches,
            on: self.on.clone(),
        }
    }

    fn bulk_copy(&self) -> BulkCopy {
        BulkCopy {
            from: self.work.clone(),
            to: self.work.clone(),
            file_bytes: self.size_bytes,
            rounds: 3,
            rated_read_bytes_per_s: None,
            rated_write_bytes_per_s: None,
            keep_caches: self.keep_caches,
        }
    }

    fn solid_reads(&self) -> SolidReads {
        SolidReads {
            work: self.work.clone(),
            file_bytes: self.size_bytes,
            archives: 1,
            time_s: self.time_s,
            rounds: 3,
            keep_caches: self.keep_caches,
        }
    }

    fn ssd_profile(&self) -> SsdProfile {
        SsdProfile {
            work: self.work.clone(),
            file_bytes: self.size_bytes,
            // Of two, one that was disturbed spoils the cell.
            rounds: 3,
            time_s: self.time_s,
            ramp_s: 0.5_f64.min(self.time_s),
            p99_target_s: 1e-3,
            long_run_s: None,
            rated: Ratings::default(),
        }
    }
}

/// A time that is estimated: in whole seconds.
fn whole_s(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.0} s") } else { duration_s(seconds.round()) }
}

/// What is said before the first of them begins.
fn takes(wanted: &[(&'static str, Expected)], pace: Pace) -> String {
    let each = wanted.iter().map(|(name, expected)| (*name, pace.seconds(*expected)));
    let total = whole_s(each.clone().map(|(_, seconds)| seconds).sum::<f64>());
    let each: Vec<String> = each.map(|(name, seconds)| format!("{name} {}", whole_s(seconds))).collect();
    let studies = units::count_of(wanted.len() as u64, "study", "studies");
    format!("{studies}, in about {total}: {}. How fast the device is shows as they run", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::frame::Frame;
    use crate::sparse_file::published::DOCUMENT;

    /// Before: three numbers without names, all of a long answer, and names that led nowhere.
    #[test]
    fn the_index_has_short_answers_that_lead_to_the_pages() {
        let one = |name, error: Option<&str>| {
            let found = match error {
                None => Ok(Report {
                    brief: Vec::new(),
                    text: vec![Text::line("Every table.")],
                    figures: vec![Figure { value: "1.5×".to_owned(), label: "as fast".to_owned() }; 5],
                    json: Vec::new(),
                    paths: [PathBuf::new(), PathBuf::new()],
                    unwritten: None,
                    frame: Frame {
                        verdict: "It is 1.5 times as fast. What is wrong is said below.".to_owned(),
                        ..Frame::of(DOCUMENT, &[], &Environment::default())
                    },
                }),
                Some(error) => Err(anyhow::anyhow!("{error}")),
            };
            Done { conclusions: [7, 1, 6], ..Done::of(name, found) }
        };
        let done = AllDone {
            name: "all",
            studies: vec![one("bulk-copy", None), one("ssd-profile", Some("no room"))],
        };
        let json: serde_json::Value = serde_json::from_slice(&done.json().unwrap()).unwrap();
        let counts = &json["studies"][0]["conclusions"];
        assert_eq!([&counts["holds"], &counts["does_not_hold"], &counts["not_measured"]], [7, 1, 6]);
        let html = done.page().render();
        let (_, table) = html.split_once("<table>").unwrap();
        assert!(table.contains("<a href=\"bulk-copy/study.html\">bulk-copy</a>"), "{table}");
        assert!(!table.contains("ssd-profile/study.html") && table.contains("failed: no room"), "{table}");
        assert!(table.contains("It is 1.5 times as fast.<") && !table.contains("said below"), "{table}");
        // The same on a terminal: not more than some lines of each.
        let lines = |text: Vec<Text>| {
            let line = |text| match text {
                Text::Line(line) => line,
                Text::Table(table) => format!("{} figures", table.rows().count()),
            };
            text.into_iter().map(line).collect::<Vec<String>>()
        };
        let counts = "Conclusions of the document: 7 hold here, 1 does not, 6 were not measured.";
        assert_eq!(
            lines(done.brief(Path::new("out"))),
            [
                "bulk-copy",
                "It is 1.5 times as fast.",
                "3 figures",
                &format!("{counts} out/bulk-copy/study.html"),
                "",
                "ssd-profile",
                "failed: no room"
            ]
        );
        assert_eq!(
            lines(done.text()),
            ["\nbulk-copy\n", "Every table.", "\nssd-profile\n", "failed: no room"]
        );
    }

    #[test]
    fn how_long_all_of_it_takes_is_said_before_it_begins() {
        let wanted = [
            ("one", Expected { time_s: 10.0, bytes: 25_000_000_000 }),
            ("two", Expected { time_s: 61.0, bytes: 0 }),
        ];
        let said = takes(&wanted, Pace::default());
        assert!(
            said.starts_with("2 studies, in about 2 min 01 s: one 1 min 00 s, two 1 min 01 s."),
            "{said}"
        );
    }
}
