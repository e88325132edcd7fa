//! The same in Java, with the reads that the document describes: a program of our own, which is
//! compiled here.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::super::numbered;
use super::super::readers::{Amount, Data};
use crate::environment::version_of;
use crate::sample;

/// The program.
const SOURCE: &str = include_str!("ReadRecords.java");
const CLASS: &str = "ReadRecords";

/// What it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JavaReads {
    /// The plain file with a buffer of 64 KiB.
    OneFile,
    /// Every file by its number, with a buffer of its length.
    Files,
}

/// What it found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JavaRead {
    /// Time within the program: that of starting Java is not part of it.
    pub(super) seconds: f64,
    /// Records, and bytes of them.
    pub(super) amount: Amount,
    /// The sum of all bytes, in the order of the records; only what [`Java::sum`] returns has one.
    pub(super) sum: u64,
}

/// The compiled program.
#[derive(Debug)]
pub(super) struct Java {
    /// What Java calls itself.
    pub(super) version: String,
    directory: PathBuf,
}

impl Java {
    /// Compiles the program into this directory. `Err` within says why Java is not to be had.
    ///
    /// # Errors
    /// Returns an error if the program cannot be written.
    pub(super) fn compile(directory: &Path) -> anyhow::Result<Result<Self, String>> {
        let Some(version) = version_of("java", "--version") else {
            return Ok(Err("no Java is installed (`java --version`)".to_owned()));
        };
        sample::remove(directory)?;
        // From here on what is made is removed.
        let java = Self { version, directory: directory.to_path_buf() };
        let source = directory.join(format!("{CLASS}.java"));
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&source, SOURCE))
            .with_context(|| format!("cannot write {}", source.display()))?;
        let mut compile = Command::new("javac");
        compile.args(["-encoding", "UTF-8", "-d"]).arg(directory).arg(&source);
        if let Err(error) = output_of(&mut compile) {
            return Ok(Err(format!(
                "{} is installed, and cannot compile the program: {error:#}",
                java.version
            )));
        }
        Ok(match java.run("time", "nothing", &[]) {
            Ok(_) => Ok(java),
            Err(error) => Err(format!("{} cannot run the program: {error:#}", java.version)),
        })
    }

    /// JavaReads the records, and measures it.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn read(&self, reads: JavaReads, data: &Data, record_bytes: u64) -> anyhow::Result<JavaRead> {
        self.read_as("time", reads, data, record_bytes)
    }

    /// JavaReads the records, and sums all of their bytes.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub(super) fn sum(&self, reads: JavaReads, data: &Data, record_bytes: u64) -> anyhow::Result<JavaRead> {
        self.read_as("sum", reads, data, record_bytes)
    }

    fn read_as(
        &self,
        how: &str,
        reads: JavaReads,
        data: &Data,
        record_bytes: u64,
    ) -> anyhow::Result<JavaRead> {
        let files = data.numbered.context("the files have no numbers")?;
        match reads {
            JavaReads::OneFile => self.run(how, "one", std::slice::from_ref(&data.plain)),
            JavaReads::Files => {
                let data_len = record_bytes.saturating_sub(numbered::HEAD_LEN);
                let numbers = [files, data_len].map(|number| PathBuf::from(number.to_string()));
                self.run(how, "files", &[std::slice::from_ref(&data.tree), &numbers].concat())
            }
        }
    }

    fn run(&self, how: &str, what: &str, words: &[PathBuf]) -> anyhow::Result<JavaRead> {
        let mut command = Command::new("java");
        command.arg("-cp").arg(&self.directory).args([CLASS, how, what]).args(words);
        let text = output_of(&mut command)?;
        parse(&text).with_context(|| format!("the program in Java printed something else: {text:?}"))
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // Only this run has a use for it. What stays is replaced by the next, and --clean removes
        // it.
        let _ = sample::remove(&self.directory);
    }
}

/// What a program prints.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{name} is not installed"),
        other => other.with_context(|| format!("cannot start {name}"))?,
    };
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", reported.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn parse(text: &str) -> Option<JavaRead> {
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse::<u64>().ok();
    let (time_ns, records, bytes, sum) = (next()?, next()?, next()?, next()?);
    Some(JavaRead { seconds: time_ns as f64 / 1e9, amount: Amount { records, bytes }, sum })
}

/// The sum that the program in Java makes of the same bytes: FNV-1a with 64 bits.
#[derive(Debug)]
pub(super) struct FnvSum(pub(super) u64);

impl Default for FnvSum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl FnvSum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let one = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        self.0 = bytes.iter().fold(self.0, one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_is_understood() {
        let amount = Amount { records: 3, bytes: 84 };
        let found = JavaRead { seconds: 1.5, amount, sum: u64::MAX };
        assert_eq!(parse("1500000000 3 84 18446744073709551615\n"), Some(found));
        assert_eq!(parse("1500000000 3 84"), None);
        assert_eq!(parse("Usage: java"), None);
    }

    #[test]
    fn the_sum_is_that_of_its_authors() {
        // From the tables of test vectors of FNV.
        for (text, sum) in [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c)] {
            let mut found = FnvSum::default();
            found.add(text.as_bytes());
            assert_eq!(found.0, sum, "{text:?}");
        }
    }
}
