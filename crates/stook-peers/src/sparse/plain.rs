//! The same work with svfsc as it is, without Python: its published source, built with the C++
//! compiler of the system.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use stook_study::environment::version_of;

use super::work::{Calls, Kind, Work};

/// Does one piece of work, given on stdin.
const DRIVER: &str = include_str!("svfsc.cpp");
/// As its own build does it, but with the lock that makes it safe for threads, as Stook always is.
const FLAGS: [&str; 5] = ["-std=c++17", "-O3", "-DNDEBUG", "-DSVF_THREAD_SAFE", "-pthread"];
/// What is made in the work directory.
pub(crate) const MADE: [&str; 2] = ["svfsc.cpp", "svfsc-plain"];

/// A program that does work with svfsc.
#[derive(Debug)]
pub(crate) struct Plain {
    program: PathBuf,
    /// The compiler and its options.
    pub(crate) built: String,
}

impl Plain {
    /// Builds it from the unpacked source distribution in `source`.
    pub(crate) fn build(source: &Path, work: &Path) -> anyhow::Result<Self> {
        let (driver, program) = (work.join(MADE[0]), work.canonicalize()?.join(MADE[1]));
        std::fs::write(&driver, DRIVER).with_context(|| format!("cannot write {}", driver.display()))?;
        let folder = source.join("src/cpp");
        let mut command = Command::new("c++");
        command.args(FLAGS).arg("-I").arg(&folder).arg(&driver).arg(folder.join("svf.cpp"));
        let output = command.arg("-o").arg(&program).output().context("cannot run c++")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "c++ failed on svfsc in {}: {said}", source.display());
        let compiler = version_of("c++", "--version").unwrap_or_else(|| "c++".to_owned());
        Ok(Self { program, built: format!("{compiler} {}", FLAGS.join(" ")) })
    }

    /// Does the work; how many seconds that took.
    pub(crate) fn seconds(&self, work: &Work) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdin.take().context("stdin is a pipe")?.write_all(driver_text(work)?.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "svfsc in C++ ended with {}", output.status);
        String::from_utf8(output.stdout)?.trim().parse().context("svfsc in C++ prints a time")
    }
}

/// The work in the words of the driver.
fn driver_text(work: &Work) -> anyhow::Result<String> {
    let kind = match work.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Need => "need",
    };
    let mut text = format!("work {kind} {} {}\n", work.budget_bytes.unwrap_or(0), work.repeats);
    let mut line = |word: &str, calls: &Calls| {
        let Calls { first, step, count, len, around } = calls;
        writeln!(text, "{word} {first} {step} {count} {len} {around}")
    };
    work.before.iter().try_for_each(|calls| line("before", calls))?;
    for calls in &work.threads {
        line("thread", &Calls { first: 0, step: 0, count: 0, len: 0, around: 0 })?;
        calls.iter().try_for_each(|calls| line("calls", calls))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_written_in_lines_of_words() {
        let text = driver_text(&Work::need(16_384)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "work need 0 1");
        assert_eq!(lines[1], "before 0 800 238310 4 0");
        assert_eq!(lines[2..], ["thread 0 0 0 0 0", "calls 0 16384 11637 16384 0"]);
    }
}
