//! What every command gets besides its arguments.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stook::pack::{Damage, DamageLog, Error};

use crate::cli::Global;
use crate::output::{Output, one_line, printable};
use crate::progress::{Lines, Progress, Unit};

/// The global flags, and where results and progress go.
#[derive(Debug)]
pub struct Context {
    json: bool,
    quiet: bool,
    draws_progress: bool,
    known: Mutex<Known>,
}

/// Damage that was found: no command may end as if there were none.
#[derive(Debug, Default)]
struct Known {
    /// The damage logs of opened packs, and how much of each is in `all`.
    logs: Vec<(DamageLog, usize)>,
    all: Vec<Damage>,
    seen: HashSet<Damage>,
    reported: HashSet<Damage>,
    /// Whether it was said what helps.
    has_advised: bool,
    /// Whether an archive is damaged, which was reported.
    is_archive_damaged: bool,
}

/// Damages shown at the end of a command; `stook check` shows all.
pub const SHOWN_MAX: usize = 10;

impl Context {
    /// A context for these flags and this process's terminal.
    pub fn new(global: &Global) -> Self {
        let draws_progress = !global.quiet && io::stderr().is_terminal();
        Self { json: global.json, quiet: global.quiet, draws_progress, known: Mutex::default() }
    }

    /// Whether results are to be JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Whether notes are unwanted.
    pub fn quiet(&self) -> bool {
        self.quiet
    }

    /// Whether progress is drawn: stderr is a terminal, and it is wanted.
    pub fn draws_progress(&self) -> bool {
        self.draws_progress
    }

    /// Standard output, locked and buffered. Call [`Output::finish`] at the end.
    pub fn output(&self) -> Output {
        Output::stdout()
    }

    /// A line on stderr that is no result and no error. Left out with `--quiet`.
    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            // A note that cannot be printed must not end the work.
            let _ =
                io::Write::write_fmt(&mut io::stderr(), format_args!("{}\n", one_line(&text.to_string())));
        }
    }

    /// That a list was made with a date that is still to come, if it is so.
    pub fn note_ahead(&self, list: &Path) {
        if stook::ops::verify::is_dated_ahead(list) {
            self.note(format_args!(
                "{} is dated one second after the newest list there, whose date is still to come, so that it counts \
                 for more than that.",
                printable(list.as_os_str().as_bytes())
            ));
        }
    }

    /// A failure of one entry, while the command continues. Printed even with `--quiet`.
    pub fn failure(&self, error: &(dyn std::error::Error + 'static)) {
        let damage = error.downcast_ref::<Error>().and_then(Error::damage);
        let chain = match damage {
            Some(damage) => self.damage_text(damage),
            None => crate::exit::chain(error),
        };
        let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("stook: {}\n", one_line(&chain)));
    }

    /// Notes the damage that a pack has found, and will find.
    pub fn watch(&self, log: DamageLog) {
        self.known().logs.push((log, 0));
    }

    /// Damage that opening or reading a pack found. Unless the command reports it in its own way,
    /// it is reported when it ends; the exit code is never 0 then.
    pub fn damaged(&self, damages: &[Damage]) {
        let mut known = self.known();
        for damage in damages {
            if known.seen.insert(damage.clone()) {
                known.all.push(damage.clone());
            }
        }
    }

    /// Notes that an archive is damaged, which was reported: the exit code is not 0.
    pub fn note_damaged_archive(&self) {
        self.known().is_archive_damaged = true;
    }

    /// The message for a damage that is reported now: the advice, only with the first.
    pub fn damage_text(&self, damage: &Damage) -> String {
        self.mark_reported(std::slice::from_ref(damage));
        match std::mem::replace(&mut self.known().has_advised, true) {
            true => damage.to_string(),
            false => Error::Damaged(damage.clone()).to_string(),
        }
    }

    /// Damage that the command has reported, or is about to.
    pub fn mark_reported(&self, damages: &[Damage]) {
        self.damaged(damages);
        self.known().reported.extend(damages.iter().cloned());
    }

    /// All damage that is known.
    pub fn damages(&self) -> Vec<Damage> {
        self.known().all.clone()
    }

    /// Prints damage that is known and was not reported; whether there is any at all.
    pub(crate) fn print_damages(&self) -> bool {
        let known = self.known();
        let unreported: Vec<&Damage> =
            known.all.iter().filter(|damage| !known.reported.contains(*damage)).collect();
        let say = |text: std::fmt::Arguments<'_>| {
            // What cannot be printed on stderr still shows in the exit code.
            let _ = io::Write::write_fmt(
                &mut io::stderr(),
                format_args!("stook: {}\n", one_line(&text.to_string())),
            );
        };
        match unreported.as_slice() {
            [] => {}
            [damage] if !known.has_advised => say(format_args!("{}", Error::Damaged((*damage).clone()))),
            many => {
                many.iter().take(SHOWN_MAX).for_each(|damage| say(format_args!("{damage}")));
                let more = match many.len().saturating_sub(SHOWN_MAX) {
                    0 => String::new(),
                    more => format!("… and {more} more; "),
                };
                match known.has_advised {
                    true if more.is_empty() => {}
                    true => say(format_args!("{}", more.trim_end_matches("; "))),
                    false => say(format_args!(
                        "{more}`stook check` lists all damage, and what is whole can still be read"
                    )),
                }
            }
        }
        !known.all.is_empty() || known.is_archive_damaged
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { logs, all, seen, .. } = &mut *known;
        for (log, taken) in logs {
            let new = log.since(*taken);
            *taken += new.len();
            all.extend(new.into_iter().filter(|damage| seen.insert(damage.clone())));
        }
        known
    }

    /// A progress bar for that many units, or for an unknown number. It draws only on a terminal,
    /// only without `--quiet`, and only once a second has passed.
    pub fn progress(&self, what: impl Into<Cow<'static, str>>, unit: Unit, total: Option<u64>) -> Progress {
        Progress::new(what, unit, total, self.draws_progress)
    }

    /// The same for work that has more to show than one bar does.
    pub fn lines(&self) -> Lines {
        Lines::new(self.draws_progress)
    }
}
