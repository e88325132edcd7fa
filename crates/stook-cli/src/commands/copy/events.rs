//! What is done with each event of a copy: a terminal shows progress, `--events` prints JSON lines,
//! a dry run and `--verbose` name paths.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stook::copy::{Action, Beginning, CopyEvents, CopyFailure, Item, Progress};
use stook::report::json::Document;

use super::bar::Bar;
use super::{Args, json, text};
use crate::context::Context;
use crate::interrupt::interrupted;
use crate::output::{Output, OutputError};

/// Lines of progress come no more often than this.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What a slower link costs is said where a copy over it takes longer than this.
const LONG_S: f64 = 10.0;

/// Takes events.
pub(super) struct Events<'a> {
    context: &'a Context,
    bar: Bar,
    output: Output,
    destinations: &'a [PathBuf],
    /// Whether they are printed as JSON lines.
    streams: bool,
    /// Whether every path is named.
    names_items: bool,
    items: Vec<Item>,
    last_progress: Option<Instant>,
    /// The first error of stdout: nothing more is printed, and the copy ends.
    failed: Option<OutputError>,
}

impl<'a> Events<'a> {
    pub(super) fn new(args: &Args, destinations: &'a [PathBuf], context: &'a Context) -> Self {
        Self {
            context,
            bar: Bar::new(destinations, context),
            output: context.output(),
            destinations,
            streams: args.events,
            names_items: args.dry_run || args.verbose,
            items: Vec::new(),
            last_progress: None,
            failed: None,
        }
    }

    /// Stdout, or the error of it that ended the copy; and what was kept.
    pub(super) fn finish(self) -> (Result<Output, OutputError>, Vec<Item>) {
        let Self { output, items, failed, .. } = self;
        (failed.map_or(Ok(output), Err), items)
    }

    fn text(&mut self, line: &str) {
        if self.failed.is_some() {
            return;
        }
        let Self { output, bar, .. } = self;
        let mut written = Ok(());
        bar.above(|| written = output.line(line));
        self.failed = written.err();
    }

    fn line(&mut self, name: &str, body: impl serde::Serialize) {
        if self.failed.is_none() {
            let written =
                self.output.json_line(&Document::new(name, body)).and_then(|()| self.output.flush());
            self.failed = written.err();
        }
    }
}

impl CopyEvents for Events<'_> {
    fn begin(&mut self, beginning: &Beginning) {
        if self.streams {
            let start = json::Start::new(beginning, self.destinations);
            self.line("copy_start", start);
        }
        let advice = text::advice(beginning, LONG_S);
        self.bar.above(|| advice.iter().for_each(|advice| self.context.note(advice)));
    }

    fn go_on(&mut self, progress: &Progress) -> bool {
        let is_due = self.last_progress.is_none_or(|last| last.elapsed() >= PROGRESS_EVERY);
        if self.streams && is_due {
            self.last_progress = Some(Instant::now());
            self.line("copy_progress", json::Far::new(progress));
        }
        self.bar.show(progress);
        !interrupted() && self.failed.is_none()
    }

    fn item(&mut self, item: &Item) {
        let is_news = item.action != Action::Skip;
        if !self.names_items || !is_news && item.digests.is_empty() {
            return;
        }
        match (self.context.json(), self.streams) {
            (true, true) => self.line("copy_item", json::Named::new(item)),
            (true, false) => self.items.push(item.clone()),
            (false, _) => {
                if is_news {
                    self.text(&text::item_line(item, self.destinations));
                }
                text::digest_lines(item, self.destinations).for_each(|line| self.text(&line));
            }
        }
    }

    fn needs_items(&self) -> bool {
        self.names_items
    }

    fn failure(&mut self, failure: &CopyFailure) {
        if self.streams {
            self.line("copy_failure", json::Failing::new(failure));
        }
    }
}
