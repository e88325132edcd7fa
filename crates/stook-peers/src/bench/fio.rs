//! One cell with fio: the job that `bench` itself prints for it, and what fio says it measured.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::Value;
use stook::bench::{Workload, fio_jobs};
use stook_study::sample;

use super::sample::Sample;

/// Reads and writes of a mix as one figure, as ours are. Nothing may be made that is not there.
const MORE: &str = "unified_rw_reporting=1\nallow_file_create=0\n";
/// What [`read_and_write_s`] measures.
pub(crate) const READING_AND_WRITING: &str = "fio, reading and writing at once";
const LARGE_PAGE_BYTES: u64 = 2 << 20;

/// Where the buffers of fio lie. Ours lie in pages of 2 MiB where the system has them: a large
/// request into pages of 4 KiB has up to five hundred pieces, for which some devices need several
/// times as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Memory {
    /// In pages of 2 MiB, as ours.
    LargePages,
    /// In what `malloc` gives, because the system has too few large pages in store.
    Malloc,
}

impl Memory {
    /// Large pages if there are enough for buffers of this many bytes.
    pub(crate) fn available(bytes: u64) -> Self {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        if free_large_bytes(&text) >= bytes + LARGE_PAGE_BYTES { Self::LargePages } else { Self::Malloc }
    }

    fn lines(self) -> &'static str {
        match self {
            Self::LargePages => "iomem=shmhuge\n",
            Self::Malloc => "",
        }
    }
}

/// Of `MemFree` and its like: how much lies ready in large pages. 0 unless they are of 2 MiB.
fn free_large_bytes(meminfo: &str) -> u64 {
    let value = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    match value("Hugepagesize:") {
        Some(kib) if kib << 10 == LARGE_PAGE_BYTES => {
            value("HugePages_Free:").unwrap_or(0) * LARGE_PAGE_BYTES
        }
        _ => 0,
    }
}

/// Runs a cell on a file that is there.
pub(crate) fn run(
    cell: &Workload,
    file: &Path,
    file_bytes: u64,
    memory: Memory,
    job: &Path,
) -> anyhow::Result<Sample> {
    let jobs = fio_jobs(std::slice::from_ref(cell), file, file_bytes) + MORE + memory.lines();
    sample::publish(job, jobs.as_bytes())?;
    let text = output(Command::new("fio").arg("--output-format=json").arg(job))?;
    parse(&text).with_context(|| format!("fio said something else than expected: {text}"))
}

/// Runs jobs that stand on the command line, at once, with JSON as their output; seconds that the
/// longest took, its last sync included and the start of fio not.
pub(crate) fn longest_job_s(command: &mut Command) -> anyhow::Result<f64> {
    let text = output(command)?;
    longest(&text).with_context(|| format!("fio said something else than expected: {text}"))
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().context("cannot start fio")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("fio failed: {}{}", String::from_utf8_lossy(&output.stderr).trim(), text.trim());
    }
    Ok(text.into_owned())
}

fn longest(text: &str) -> anyhow::Result<f64> {
    let mut longest_ms = None;
    for job in document(text)?["jobs"].as_array().context("no jobs")? {
        if job["error"].as_i64() != Some(0) {
            bail!("a job failed");
        }
        longest_ms = longest_ms.max(Some(job["job_runtime"].as_u64().context("no time")?));
    }
    Ok(longest_ms.context("no job")? as f64 / 1e3)
}

/// The JSON in what fio printed: warnings may precede it.
fn document(text: &str) -> anyhow::Result<Value> {
    let document = text.find('{').and_then(|begin| text.get(begin..)).context("no JSON")?;
    Ok(serde_json::from_str(document)?)
}

/// Reads the JSON of one job with unified reporting. Latencies are total ones: from when a request
/// was prepared until it was reaped.
fn parse(text: &str) -> anyhow::Result<Sample> {
    let document = document(text)?;
    let job = document.get("jobs").and_then(|jobs| jobs.get(0)).context("no job")?;
    let number = |value: &Value, path: &[&str]| {
        let found = path.iter().try_fold(value, |value, key| value.get(key));
        found.and_then(Value::as_f64).with_context(|| format!("no number {}", path.join(".")))
    };
    if number(job, &["error"])? != 0.0 {
        bail!("the job failed");
    }
    let all = job.get("mixed").context("no unified report")?;
    let requests = number(all, &["total_ios"])?;
    if requests < 1.0 {
        bail!("nothing was measured");
    }
    // Shares of the time that the job ran, in per cent.
    let cpu_share = (number(job, &["usr_cpu"])? + number(job, &["sys_cpu"])?) / 100.0;
    let runtime_ns = number(job, &["job_runtime"])? * 1e6;
    let percentile = |which| number(all, &["lat_ns", "percentile", which]);
    Ok(Sample {
        requests: requests as u64,
        seconds: number(all, &["runtime"])? / 1e3,
        iops: number(all, &["iops"])?,
        bandwidth_bytes_per_s: number(all, &["bw_bytes"])?,
        latency_mean_ns: number(all, &["lat_ns", "mean"])?,
        latency_p50_ns: percentile("50.000000")?,
        latency_p99_ns: percentile("99.000000")?,
        latency_p999_ns: percentile("99.900000")?,
        cpu_per_request_ns: cpu_share * runtime_ns / requests,
        state: None,
        reasons: Vec::new(),
    })
}

/// Seconds that fio takes for reading a file and, at the same time, writing as much to another.
pub(crate) fn read_and_write_s(read: &Path, written: &Path, len_bytes: u64) -> anyhow::Result<f64> {
    let mut command = Command::new("fio");
    command
        .args(["--output-format=json", "--ioengine=io_uring", "--direct=1", "--thread", "--invalidate=0"])
        .args(["--bs=1M", "--iodepth=16", &format!("--size={len_bytes}")])
        .args(["--name=reads", "--rw=read", "--allow_file_create=0"])
        .arg(format!("--filename={}", read.display()))
        .args(["--name=writes", "--rw=write", "--end_fsync=1"])
        .arg(format!("--filename={}", written.display()));
    longest_job_s(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fio 3.33 wrote for a mix, shortened.
    const REPORT: &str = r#"fio: a warning
{"fio version": "fio-3.33", "jobs": [{
  "jobname": "a", "error": 0, "job_runtime": 2000, "usr_cpu": 3.0, "sys_cpu": 17.0,
  "mixed": {"io_bytes": 81920000, "bw_bytes": 40939530, "bw": 39980, "iops": 9995.25, "runtime": 2001,
    "total_ios": 20000,
    "clat_ns": {"mean": 1.0, "percentile": {"50.000000": 1, "99.000000": 1, "99.900000": 1}},
    "lat_ns": {"min": 48681, "max": 36931043, "mean": 1099117.5, "stddev": 2866623.2, "N": 20007,
      "percentile": {"50.000000": 264192, "90.000000": 2113536, "99.000000": 15663104, "99.900000": 25034752}}}
}]}"#;

    #[test]
    fn total_latency_rates_and_processor_time_are_read() {
        let expected = Sample {
            requests: 20_000,
            seconds: 2.001,
            iops: 9995.25,
            bandwidth_bytes_per_s: 40_939_530.0,
            latency_mean_ns: 1_099_117.5,
            latency_p50_ns: 264_192.0,
            latency_p99_ns: 15_663_104.0,
            latency_p999_ns: 25_034_752.0,
            cpu_per_request_ns: 20_000.0,
            state: None,
            reasons: Vec::new(),
        };
        assert_eq!(parse(REPORT).unwrap(), expected);
    }

    #[test]
    fn the_longest_job_counts_and_none_may_fail() {
        let two = "fio: a note\n{\"jobs\": [{\"error\": 0, \"job_runtime\": 1500}, {\"error\": 0, \"job_runtime\": 2250}]}";
        assert_eq!(longest(two).unwrap(), 2.25);
        let failed = two.replacen("\"error\": 0", "\"error\": 28", 1);
        assert_eq!(longest(&failed).unwrap_err().to_string(), "a job failed");
        assert_eq!(longest("{\"jobs\": []}").unwrap_err().to_string(), "no job");
    }

    #[test]
    fn large_pages_are_counted_if_they_have_the_size_of_ours() {
        let meminfo = "MemFree: 1 kB\nHugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB\n";
        assert_eq!(free_large_bytes(meminfo), 120 << 20);
        for other in [meminfo.replace("2048", "16384"), meminfo.replace("HugePages_Free", "x"), String::new()]
        {
            assert_eq!(free_large_bytes(&other), 0);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (wrong, reported) in [
            (REPORT.replace("\"error\": 0", "\"error\": 5"), "the job failed"),
            (REPORT.replace("total_ios\": 20000", "total_ios\": 0"), "nothing was measured"),
            (REPORT.replace("\"lat_ns\"", "\"other\""), "no number lat_ns.mean"),
            (REPORT.replace("\"mixed\"", "\"read\""), "no unified report"),
            ("fio: no such file".to_owned(), "no JSON"),
        ] {
            assert_eq!(parse(&wrong).unwrap_err().to_string(), reported);
        }
    }
}
