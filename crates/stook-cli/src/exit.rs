//! How the program ends: exit codes, and the one form that error messages have.

use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use stook::ops::{contents, copy, repair};
use stook::pack;

use crate::interrupt::{Interrupted, interrupted};
use crate::output::one_line;

/// Everything was done.
pub const DONE: u8 = 0;
/// The command finished; what failed or is damaged was listed.
pub const FAILURES: u8 = 1;
/// The arguments make no sense.
pub const USAGE: u8 = 2;
/// The reader of stdout closed it: the shell's number for `SIGPIPE`, which other programs get then.
pub const READER_LEFT: u8 = 141;
/// Ctrl-C or a request to terminate, as shells number it.
pub const INTERRUPTED: u8 = 130;

/// [`DONE`] when nothing failed, else [`FAILURES`].
pub fn code_for(failures: u64) -> ExitCode {
    ExitCode::from(if failures == 0 { DONE } else { FAILURES })
}

/// An argument that clap cannot judge is wrong. Ends the program with [`USAGE`].
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// Says what is wrong and what was expected.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Checks that paths are one or several to `verb`, and the last where that goes.
///
/// # Errors
/// Returns a [`UsageError`] if only one is given.
pub(crate) fn check_places(paths: &[PathBuf], verb: &str, last: &str) -> Result<(), UsageError> {
    match paths {
        [only] => {
            let only = one_line(&only.display().to_string()).into_owned();
            Err(UsageError::new(format!("what to {verb} is wanted, and then {last}: only {only} was given")))
        }
        _ => Ok(()),
    }
}

/// What people write out of habit, and what does it here: of which command, the option, and the
/// advice.
const HABITS: [(&str, &[&str], &str); 10] = [
    ("copy", &["-a", "--archive"], "modes, times, owners, links and attributes are copied anyway"),
    ("copy", &["-r", "-R", "--recursive"], "directories are copied with all that is in them anyway"),
    ("copy", &["-p", "--preserve"], "modes, times and owners are copied anyway"),
    ("copy", &["-v"], "'--verbose' names each path that is copied"),
    ("copy", &["-n"], "'--dry-run' shows what would be done"),
    ("copy", &["-u", "--update"], "'--overwrite older' replaces what is older"),
    ("copy", &["-c"], "'--checksum' compares bytes"),
    ("copy", &["--delete"], "'--mirror' deletes what only the destination has"),
    ("copy", &["-P", "--progress"], "how far it is is shown on a terminal anyway"),
    ("verify", &["-c", "--check"], "'--list FILE' verifies what a list of checksums has"),
];

/// Prints what clap has to say (help, version, or what is wrong with the arguments), of a command
/// where it got as far as that.
pub(crate) fn answer(mut answer: clap::Error, command: Option<&str>) -> ExitCode {
    if answer.kind() == ErrorKind::UnknownArgument {
        advise(&mut answer, command);
    }
    match answer.print() {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return ExitCode::from(READER_LEFT),
        // There is no channel left to report it.
        Err(_) => return ExitCode::from(FAILURES),
    }
    ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(USAGE))
}

/// Says what does here what an unknown option does elsewhere. That it could be given as a value,
/// after `--`, is never what was meant: it would be copied, or packed, as a file of that name.
fn advise(answer: &mut clap::Error, command: Option<&str>) {
    let Some(ContextValue::String(option)) = answer.get(ContextKind::InvalidArg) else { return };
    let is_habit =
        |(of, options, _): &&(&str, &[&str], &str)| command == Some(of) && options.contains(&option.as_str());
    let advice = HABITS.iter().find(is_habit).map(|(.., advice)| StyledStr::from(*advice));
    if advice.is_some() {
        answer.remove(ContextKind::SuggestedArg);
    }
    match advice {
        Some(advice) => answer.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice])),
        None => answer.remove(ContextKind::Suggested),
    };
}

/// Prints the error that ended a command, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if reader_left(error) {
        // `stook ls | head`: the reader has read enough. Not 0: half of an export is no export.
        return ExitCode::from(READER_LEFT);
    }
    let _ = writeln!(io::stderr(), "stook: {}", one_line(&chain(error.as_ref())));
    ExitCode::from(code_of(error))
}

fn code_of(error: &anyhow::Error) -> u8 {
    // An error of reading that carries it does not show it as its cause.
    let carries = |e: &(dyn std::error::Error + 'static)| {
        let inner = e.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.is_some_and(|inner| inner.is::<Interrupted>())
    };
    let stopped = |e: &(dyn std::error::Error + 'static)| {
        matches!(e.downcast_ref(), Some(contents::Error::Interrupted))
    };
    // A wait for the reader of a pipe ends so.
    let waited = |e: &(dyn std::error::Error + 'static)| {
        let kind = e.downcast_ref().and_then(stook::Error::io_kind);
        kind == Some(io::ErrorKind::Interrupted) && interrupted()
    };
    if error.chain().any(|e| e.is::<Interrupted>() || carries(e) || stopped(e) || waited(e)) {
        INTERRUPTED
    } else if error.chain().any(|e| e.is::<UsageError>() || is_no_path(e)) {
        USAGE
    } else {
        FAILURES
    }
}

/// Whether an address was given where a path is wanted.
fn is_no_path(error: &(dyn std::error::Error + 'static)) -> bool {
    let of_pack = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(contents::Error::Pack(error)), _) | (_, Some(repair::Error::Pack(error))) => Some(error),
        _ => error.downcast_ref(),
    };
    let of_copy = match error.downcast_ref() {
        Some(copy::Error::Core(core)) => Some(core),
        _ => None,
    };
    let core = match (of_pack, error.downcast_ref()) {
        (Some(pack::Error::Core(core)), _) | (_, Some(repair::Error::Core(core))) => Some(core),
        _ => of_copy.or_else(|| error.downcast_ref()),
    };
    matches!(core, Some(stook::Error::NotAPath { .. }))
}

/// Whether the reader of our output closed its end. Only errors of
/// [`Output`](crate::output::Output) count: a broken pipe elsewhere is a failure like any other.
fn reader_left(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        e.downcast_ref::<crate::output::OutputError>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// An error and its causes in one line. Programs open again what has changed; people run the
/// command again.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let text = stook::error::chain(error);
    match text.strip_suffix("; open it again") {
        Some(what) => format!("{what}; run the command again"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_message_is_one_chain_of_what_and_why() {
        let io = io::Error::from(io::ErrorKind::NotFound);
        let error = anyhow::Error::new(stook::Error::io("open", "/a/b", io)).context("packing");
        assert_eq!(chain(error.as_ref()), "packing: cannot open /a/b: entity not found");
    }

    #[test]
    fn the_user_is_advised_to_run_the_command_again() {
        let file = |len| stook::source::Identity { len, ..Default::default() };
        let error = stook::Error::changed("a", file(1), file(2));
        assert!(error.to_string().ends_with("; open it again"), "{error}");
        let reported = chain(anyhow::Error::new(error).context("packing").as_ref());
        assert!(reported.starts_with("packing: a changed"), "{reported}");
        assert!(reported.ends_with("; run the command again"), "{reported}");
    }

    #[test]
    fn the_cause_decides_the_code_however_deep_it_is() {
        let usage = Err::<(), _>(UsageError::new("no")).context("a").context("b").unwrap_err();
        assert_eq!(code_of(&usage), USAGE);
        let stopped = Err::<(), _>(Interrupted).context("a").unwrap_err();
        assert_eq!(code_of(&stopped), INTERRUPTED);
        assert_eq!(code_of(&anyhow::anyhow!("x")), FAILURES);
    }

    #[test]
    fn only_our_own_output_may_break_quietly() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(reader_left(&anyhow::Error::new(crate::output::OutputError::from(broken())).context("x")));
        assert!(!reader_left(&anyhow::Error::new(broken())));
    }
}
