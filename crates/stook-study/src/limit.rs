//! The limit of the device: the better of the engine of this program and, where it is installed,
//! `fio`.
//!
//! Both read the same files past the page cache. This module never writes.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;
use stook::engine::File;
use stook::extent::ByteRange;
use stook::ops::raw::{DEPTH, READ_LEN, RawRead, read_raw};

use crate::environment::version_of;

/// A measurement of a tool.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Speed {
    /// The tool, its version and how it read.
    pub tool: String,
    /// Bytes read.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Time, seconds.
    pub seconds: f64,
}

impl Speed {
    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }

    /// Requests per second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// What `bytes` take at this speed, seconds.
    pub fn seconds_for(&self, bytes: u64) -> f64 {
        bytes as f64 / self.bytes_per_s()
    }
}

/// A run of fio that only reads.
#[derive(Debug, Clone)]
pub struct Fio {
    /// `read` or `randread`.
    pub pattern: &'static str,
    /// Bytes of a request.
    pub block_len: usize,
    /// Requests in flight.
    pub depth: usize,
    /// Requests after which it ends; all files once if `None`.
    pub requests: Option<u64>,
    /// How long it runs instead, again from the beginning where there is no more, seconds.
    pub time_s: Option<f64>,
    /// Through the page cache instead of past it.
    pub cached: bool,
}

impl Fio {
    /// Large reads in order: the limit that loading is compared with.
    pub const SEQUENTIAL: Self = Self {
        pattern: "read",
        block_len: READ_LEN as usize,
        depth: DEPTH,
        requests: None,
        time_s: None,
        cached: false,
    };

    /// The version of fio, or `None` if it is not installed.
    pub fn version() -> Option<String> {
        version_of("fio", "--version").filter(|version| !version.is_empty())
    }

    /// Runs it over these files.
    ///
    /// # Errors
    /// Returns an error if it is missing, fails, or its output cannot be parsed.
    pub fn run(&self, files: &[PathBuf]) -> anyhow::Result<Speed> {
        let mut command = self.command(files);
        let output = match command.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("fio is not installed"),
            other => other.context("cannot start fio")?,
        };
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("fio failed: {}{}", String::from_utf8_lossy(&output.stderr).trim(), text.trim());
        }
        let kind = if self.cached { "cached" } else { "direct" };
        let how = format!("io_uring, {kind}, {} bytes, depth {}", self.block_len, self.depth);
        parse(&text, &how).with_context(|| format!("fio said something else than expected: {text}"))
    }

    fn command(&self, files: &[PathBuf]) -> Command {
        let mut command = Command::new("fio");
        command
            .args(["--name=limit", "--ioengine=io_uring", "--readonly", "--thread", "--output-format=json"])
            .args([
                "--file_service_type=sequential",
                "--allow_file_create=0",
                "--invalidate=0",
                "--randrepeat=0",
            ])
            .arg(format!("--rw={}", self.pattern))
            .arg(format!("--bs={}", self.block_len))
            .arg(format!("--iodepth={}", self.depth))
            .arg(if self.cached { "--direct=0" } else { "--direct=1" })
            .arg(file_names(files))
            .stdin(Stdio::null());
        if let Some(requests) = self.requests {
            command.arg(format!("--number_ios={requests}"));
        }
        if let Some(time_s) = self.time_s {
            let time_ms = (time_s * 1e3).ceil().max(1.0);
            command.arg("--time_based").arg(format!("--runtime={time_ms:.0}ms"));
        }
        command
    }
}

/// fio separates names by colons, and takes `\:` for one that belongs to a name.
fn file_names(files: &[PathBuf]) -> OsString {
    let mut names = b"--filename=".to_vec();
    for (number, file) in files.iter().enumerate() {
        if number > 0 {
            names.push(b':');
        }
        for &byte in file.as_os_str().as_bytes() {
            if matches!(byte, b':' | b'\\') {
                names.push(b'\\');
            }
            names.push(byte);
        }
    }
    OsString::from_vec(names)
}

fn parse(text: &str, how: &str) -> Option<Speed> {
    // Warnings may precede the document.
    let document: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let version = document.get("fio version")?.as_str()?;
    let job = document.get("jobs")?.get(0)?;
    if job.get("error")?.as_u64()? != 0 {
        return None;
    }
    let read = job.get("read")?;
    // Milliseconds are coarse for a short run; bytes per second were computed from finer times.
    let (bytes, rate) = (read.get("io_bytes")?.as_u64()?, read.get("bw_bytes")?.as_f64()?);
    let requests = read.get("total_ios")?.as_u64()?;
    (bytes > 0 && rate > 0.0).then(|| Speed {
        tool: format!("{version} ({how})"),
        bytes,
        requests,
        seconds: bytes as f64 / rate,
    })
}

/// The limit of large reads in order over these files: the rate of our engine, or of fio if it is
/// faster.
///
/// Neither is always: fio reads into ordinary pages, and where memory is in pieces each of its
/// reads goes to the device in many segments, which may cost it more than half of its speed.
///
/// # Errors
/// Returns an error if reading fails.
pub fn sequential(files: &[PathBuf], with_fio: bool) -> anyhow::Result<Speed> {
    let own = own(files)?;
    if !with_fio {
        return Ok(own);
    }
    let fio = Fio::SEQUENTIAL.run(files)?;
    Ok(if fio.bytes_per_s() >= own.bytes_per_s() { fio } else { own })
}

/// Reads all of the files with the engine of this program, past the page cache.
fn own(files: &[PathBuf]) -> anyhow::Result<Speed> {
    let whole = |path: &PathBuf| {
        let file = File::open(path)?;
        let range = ByteRange::to(file.len()?);
        Ok((Arc::new(file), range))
    };
    let ranges = files.iter().map(whole).collect::<stook::Result<Vec<_>>>()?;
    let RawRead { engine, bytes, requests, time } = read_raw(&ranges, &mut |_| true)?;
    let tool = format!("Stook's own engine ({engine}, direct, {READ_LEN} bytes, depth {DEPTH})");
    Ok(Speed { tool, bytes, requests, seconds: time.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_says_is_understood() {
        let text = r#"fio: a note
            {"fio version": "fio-3.33", "jobs": [{"error": 0, "read": {"io_bytes": 2097152, "bw_bytes": 1048576,
             "total_ios": 2}}]}"#;
        let speed = parse(text, "x").unwrap();
        assert_eq!((speed.tool.as_str(), speed.bytes, speed.requests), ("fio-3.33 (x)", 2 << 20, 2));
        assert_eq!((speed.seconds, speed.requests_per_s(), speed.seconds_for(1 << 20)), (2.0, 1.0, 1.0));
        assert_eq!(parse("fio: no such file", "x"), None);
        assert_eq!(parse(&text.replace("\"error\": 0", "\"error\": 5"), "x"), None);
    }

    /// Before: it ran for a third of a second where ours ran for four.
    #[test]
    fn fio_runs_as_long_as_it_is_asked_to() {
        let args = |fio: &Fio| {
            let command = fio.command(&["a".into()]);
            command.get_args().map(|one| one.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let timed = args(&Fio { time_s: Some(0.25), ..Fio::SEQUENTIAL });
        assert!(timed.contains(&"--time_based".to_owned()) && timed.contains(&"--runtime=250ms".to_owned()));
        assert!(!args(&Fio::SEQUENTIAL).contains(&"--time_based".to_owned()));
    }

    #[test]
    fn names_with_colons_stay_one_name() {
        let names = file_names(&["a:b".into(), "c\\d".into()]);
        assert_eq!(names, OsString::from("--filename=a\\:b:c\\\\d"));
    }
}
