//! Job files of fio: the cells that mean the same here.
//!
//! A section is a cell. What would be another measurement here, or is not known, is refused with
//! its line, never passed over: jobs that run at the same time, a `sync` engine at a depth that it
//! does not have, sizes in units that fio reads in two ways. Keys that change nothing of what is
//! measured ([`IDLE`]) are allowed. Defaults are those of fio: through the page cache, reads in
//! order, an engine that waits for each request, one depth. Source: fio's documentation, 3.33.

use super::super::job::Job;
use super::super::split::BlockSplit;
use super::super::workload::{Arrival, Pattern, Workload};

/// Keys that say how fio goes about it, or what it prints, and change nothing of what is measured.
/// The file is the one that is named on the command line.
const IDLE: [&str; 26] = [
    "allow_file_create",
    "allow_mounted_write",
    "clocksource",
    "create_on_open",
    "create_serialize",
    "description",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "end_fsync",
    "exitall",
    "fallocate",
    "file_service_type",
    "filename",
    "group_reporting",
    "invalidate",
    "lat_percentiles",
    "clat_percentiles",
    "name",
    "norandommap",
    "overwrite",
    "percentile_list",
    "randrepeat",
    "refill_buffers",
    "thread",
];

/// Engines that keep more than one request in flight.
const AT_DEPTH: [&str; 3] = ["io_uring", "libaio", "posixaio"];
/// Engines that have one request at a time, whatever depth is asked for.
const ONE_BY_ONE: [&str; 5] = ["sync", "psync", "vsync", "pvsync", "pvsync2"];

/// A key with its value, and the line that it stands in.
#[derive(Debug, Clone)]
struct Entry {
    line: usize,
    key: String,
    value: String,
}

#[derive(Debug)]
struct Section {
    line: usize,
    name: String,
    entries: Vec<Entry>,
}

/// An error and its line.
type At = (usize, String);

/// The cells of a job file of fio; the seed is for those that say none.
///
/// # Errors
/// The line and what was expected, for whatever has no meaning here.
pub(in super::super) fn read(text: &str, seed: u64) -> Result<Job, At> {
    let sections = sections(text)?;
    let mut global = Vec::new();
    let (mut cells, mut file_bytes) = (Vec::new(), None);
    for section in sections {
        if section.name == "global" {
            global.extend(section.entries);
            continue;
        }
        let mut keys = FioKeys::new(&global, &section);
        let alone = keys.flag("stonewall")? || keys.flag("wait_for_previous")?;
        if !cells.is_empty() && !alone {
            let what = "jobs without stonewall run at the same time; here cells run one after another: expected \
                        stonewall=1";
            return Err((section.line, what.to_owned()));
        }
        let (cell, bytes) = cell(&mut keys, seed)?;
        keys.check_rest()?;
        cell.check().map_err(|error| (section.line, error.to_string()))?;
        if file_bytes.is_some_and(|other| other != bytes) {
            let what =
                format!("the file has {bytes} bytes in this job, and another length in the one before");
            return Err((section.line, what));
        }
        file_bytes = Some(bytes);
        cells.push(cell);
    }
    if cells.is_empty() {
        return Err((
            text.lines().count().max(1),
            "there is no job; expected at least one [section]".to_owned(),
        ));
    }
    Ok(Job { cells, repeats: None, file_bytes, long_run_s: None })
}

fn sections(text: &str) -> Result<Vec<Section>, At> {
    let mut sections: Vec<Section> = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.trim();
        if words.is_empty() || words.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = words.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| (line, "expected ] at the end".to_owned()))?;
            sections.push(Section { line, name: name.to_owned(), entries: Vec::new() });
            continue;
        }
        let (key, value) = words.split_once('=').unwrap_or((words, "1"));
        let entry = Entry { line, key: key.trim().to_owned(), value: value.trim().to_owned() };
        let section = sections.last_mut();
        section.ok_or_else(|| (line, "expected a [section] before it".to_owned()))?.entries.push(entry);
    }
    Ok(sections)
}

/// The keys that count for a section: its own, and global ones.
struct FioKeys {
    entries: Vec<Entry>,
    line: usize,
}

impl FioKeys {
    fn new(global: &[Entry], section: &Section) -> Self {
        let mut entries = global.to_vec();
        entries.extend(section.entries.iter().cloned());
        Self { entries, line: section.line }
    }

    /// Takes a key under any of its names: the last one counts.
    fn take(&mut self, names: &[&str]) -> Option<Entry> {
        let (found, rest) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition(|entry| names.contains(&entry.key.as_str()));
        self.entries = rest;
        Vec::into_iter(found).next_back()
    }

    fn flag(&mut self, name: &str) -> Result<bool, At> {
        match self.take(&[name]) {
            None => Ok(false),
            Some(entry) => match entry.value.as_str() {
                "1" => Ok(true),
                "0" => Ok(false),
                other => Err((entry.line, format!("{name}={other}: expected 0 or 1"))),
            },
        }
    }

    fn number<T: TryFrom<u64>>(&mut self, names: &[&str]) -> Result<Option<T>, At> {
        self.take(names).map(|entry| number_of(&entry)).transpose()
    }

    fn size(&mut self, names: &[&str]) -> Result<Option<u64>, At> {
        self.take(names).map(|entry| size_of(&entry)).transpose()
    }

    fn seconds(&mut self, name: &str) -> Result<Option<f64>, At> {
        self.take(&[name]).map(|entry| seconds_of(&entry)).transpose()
    }

    fn check_rest(&self) -> Result<(), At> {
        let rest = self.entries.iter().find(|entry| !IDLE.contains(&entry.key.as_str()));
        rest.map_or(Ok(()), |entry| Err((entry.line, format!("{} has no meaning here", entry.key))))
    }
}

fn number_of<T: TryFrom<u64>>(entry: &Entry) -> Result<T, At> {
    let number = entry.value.parse().ok().and_then(|number: u64| T::try_from(number).ok());
    number.ok_or_else(|| (entry.line, format!("{}={}: expected a whole number", entry.key, entry.value)))
}

/// What `k` means in fio depends on another key for longer units (`KiB` is 1,000 bytes by default),
/// so only single letters are read.
fn size_of(entry: &Entry) -> Result<u64, At> {
    size_of_text(&entry.value).map_err(|message| (entry.line, format!("{}={message}", entry.key)))
}

fn size_of_text(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let bytes =
        number.parse::<u64>().ok().zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("{text}: expected a number with k, m, g, t or nothing after it"))
}

fn seconds_of(entry: &Entry) -> Result<f64, At> {
    let text = entry.value.as_str();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    // How many seconds each is, or how many of them are a second: a quotient is exact.
    let factor = match unit {
        "" | "s" => Some((1.0, 1.0)),
        "us" => Some((1.0, 1e6)),
        "ms" => Some((1.0, 1e3)),
        "m" => Some((60.0, 1.0)),
        "h" => Some((3600.0, 1.0)),
        "d" => Some((86_400.0, 1.0)),
        _ => None,
    };
    let number = number.parse::<u32>().ok().zip(factor);
    let seconds = number.map(|(number, (times, parts))| f64::from(number) * times / parts);
    seconds.ok_or_else(|| {
        (
            entry.line,
            format!("{}={text}: expected a number with us, ms, s, m, h, d or nothing after it", entry.key),
        )
    })
}

/// The cell, and how long the file has to be.
fn cell(keys: &mut FioKeys, seed: u64) -> Result<(Workload, u64), At> {
    let (pattern, share) = direction(keys)?;
    let (depth, batch) = depth(keys)?;
    let jobs = keys.number(&["numjobs"])?.unwrap_or(1);
    let (size, file_bytes) = range(keys, pattern, jobs)?;
    let (time_s, size_bytes) = end(keys, size, jobs)?;
    let buffered = match (keys.take(&["direct"]), keys.take(&["buffered"])) {
        (Some(direct), _) => number_of::<u8>(&direct)? == 0,
        (None, Some(buffered)) => number_of::<u8>(&buffered)? != 0,
        (None, None) => true,
    };
    let workload = Workload {
        pattern,
        zipf: zipf(keys)?,
        read_share: share,
        block_size: keys.size(&["bs", "blocksize"])?.unwrap_or(4096),
        block_split: None,
        depth,
        batch,
        jobs,
        buffered,
        fsync_every: keys.number(&["fdatasync", "fsync"])?.filter(|&every| every > 0),
        ramp_s: keys.seconds("ramp_time")?.unwrap_or(0.0),
        time_s,
        size_bytes,
        rate_per_s: keys.number::<u32>(&["rate_iops"])?.map(|rate| f64::from(rate) * f64::from(jobs)),
        arrival: arrival(keys)?,
        verify: verify(keys)?,
        seed: keys.number(&["randseed"])?.unwrap_or(seed),
        compressibility: keys.number(&["buffer_compress_percentage"])?.unwrap_or(0),
    };
    // To fio the one size counts for nothing then.
    let split = split(keys)?;
    Ok((if split.is_some() { workload.of_sizes(split) } else { workload }, file_bytes))
}

fn direction(keys: &mut FioKeys) -> Result<(Pattern, u8), At> {
    let line = keys.line;
    let rw = keys.take(&["rw", "readwrite"]);
    let (line, rw) = rw.as_ref().map_or((line, "read"), |entry| (entry.line, entry.value.as_str()));
    let (pattern, share) = match rw {
        "read" => (Pattern::Sequential, Some(100)),
        "write" => (Pattern::Sequential, Some(0)),
        "rw" | "readwrite" => (Pattern::Sequential, None),
        "randread" => (Pattern::Random, Some(100)),
        "randwrite" => (Pattern::Random, Some(0)),
        "randrw" => (Pattern::Random, None),
        other => {
            let what = format!("rw={other}: expected read, write, rw, randread, randwrite or randrw");
            return Err((line, what));
        }
    };
    let reads = keys.take(&["rwmixread"]);
    let writes = keys.take(&["rwmixwrite"]);
    let mix = match (&reads, &writes) {
        (Some(reads), _) => number_of(reads)?,
        (None, Some(writes)) => {
            let writes_share = number_of::<u8>(writes)?;
            let share = 100_u8.checked_sub(writes_share);
            share.ok_or_else(|| (writes.line, format!("rwmixwrite={writes_share}: expected 0 to 100")))?
        }
        (None, None) => 50,
    };
    // fio has no use for a mix where the direction says it all.
    Ok((pattern, share.unwrap_or(mix)))
}

/// Depth, and how many are handed over and taken at once.
fn depth(keys: &mut FioKeys) -> Result<(u32, u32), At> {
    let line = keys.line;
    let engine = keys.take(&["ioengine"]);
    let (line, name) = engine.as_ref().map_or((line, "psync"), |entry| (entry.line, entry.value.as_str()));
    let asked = keys.number(&["iodepth"])?.unwrap_or(1);
    let batch = keys.number(&["iodepth_batch", "iodepth_batch_submit"])?.unwrap_or(1);
    let most = keys.number(&["iodepth_batch_complete_max", "iodepth_batch_complete"])?.unwrap_or(batch);
    if most != batch {
        return Err((line, "completions are taken by as many as requests are handed over here".to_owned()));
    }
    if AT_DEPTH.contains(&name) {
        return Ok((asked, batch));
    }
    if !ONE_BY_ONE.contains(&name) {
        let known = [&AT_DEPTH[..], &ONE_BY_ONE[..]].concat().join(", ");
        return Err((line, format!("ioengine={name}: expected one of {known}")));
    }
    match asked {
        1 => Ok((1, 1)),
        _ => {
            let what =
                format!("{name} has one request at a time: iodepth={asked} has no effect in fio; expected 1");
            Err((line, what))
        }
    }
}

/// The bytes that each job goes through, and how long the file of all is.
fn range(keys: &mut FioKeys, pattern: Pattern, jobs: u32) -> Result<(u64, u64), At> {
    let line = keys.line;
    let is_shared = keys.entries.iter().any(|entry| entry.key == "filename");
    let size = keys.size(&["size"])?;
    let size = size.ok_or_else(|| (line, "there is no size; expected the length of the file".to_owned()))?;
    let spans = keys.size(&["offset_increment"])?;
    let all = size.checked_mul(u64::from(jobs));
    let all =
        all.ok_or_else(|| (line, format!("{jobs} jobs of {size} bytes are more than a file may have")))?;
    match spans {
        Some(span) if span == size && pattern == Pattern::Sequential => Ok((size, all)),
        Some(_) => {
            Err((line, "offset_increment: expected the size, for reads and writes in order".to_owned()))
        }
        None if jobs > 1 && is_shared && pattern == Pattern::Sequential => {
            let what = "these jobs would all go through the same bytes; here each has a part of its own: expected \
                        offset_increment with the size";
            Err((line, what.to_owned()))
        }
        None if is_shared => Ok((size, size)),
        // Each has a file of its own: here they share one that is as long as all.
        None => Ok((size, all)),
    }
}

/// When it ends: after a time, and after bytes over all jobs.
fn end(keys: &mut FioKeys, size: u64, jobs: u32) -> Result<(Option<f64>, Option<u64>), At> {
    let time_s = keys.seconds("runtime")?;
    let bytes = keys.size(&["io_size"])?;
    let is_timed = keys.flag("time_based")?;
    let all = bytes.unwrap_or(size).saturating_mul(u64::from(jobs));
    match (time_s, is_timed) {
        (None, true) => Err((keys.line, "time_based wants a runtime".to_owned())),
        (Some(time_s), true) => Ok((Some(time_s), bytes.map(|_| all))),
        (time_s, false) => Ok((time_s, Some(all))),
    }
}

/// How unlike blocks are.
fn zipf(keys: &mut FioKeys) -> Result<Option<f64>, At> {
    let Some(entry) = keys.take(&["random_distribution"]) else { return Ok(None) };
    match entry.value.split_once(':') {
        None if entry.value == "random" => Ok(None),
        Some(("zipf", theta)) if theta.parse::<f64>().is_ok() => Ok(theta.parse().ok()),
        _ => Err((entry.line, format!("random_distribution={}: expected random, or zipf:θ", entry.value))),
    }
}

/// Blocks of several sizes.
fn split(keys: &mut FioKeys) -> Result<Option<BlockSplit>, At> {
    let Some(entry) = keys.take(&["bssplit"]) else { return Ok(None) };
    let split = BlockSplit::parse(&entry.value, size_of_text);
    split.map(Some).map_err(|error| (entry.line, format!("bssplit={}: {error}", entry.value)))
}

fn arrival(keys: &mut FioKeys) -> Result<Arrival, At> {
    match keys.take(&["rate_process"]) {
        None => Ok(Arrival::Constant),
        Some(entry) => match entry.value.as_str() {
            "linear" => Ok(Arrival::Constant),
            "poisson" => Ok(Arrival::Poisson),
            other => Err((entry.line, format!("rate_process={other}: expected linear or poisson"))),
        },
    }
}

fn verify(keys: &mut FioKeys) -> Result<bool, At> {
    match keys.take(&["verify"]) {
        None => Ok(false),
        Some(entry) => match entry.value.as_str() {
            "0" | "null" => Ok(false),
            "crc32c" | "crc32c-intel" | "md5" | "sha256" | "xxhash" => Ok(true),
            other => Err((entry.line, format!("verify={other}: expected crc32c, md5, sha256, xxhash or 0"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::fio_jobs;
    use super::*;

    fn refused(text: &str) -> At {
        read(text, 1).unwrap_err()
    }

    #[test]
    fn a_usual_job_is_a_cell() {
        let text = "; a comment\n[global]\nioengine=libaio\ndirect=1\nruntime=30\ntime_based\nsize=1g\nfilename=/dev/x\n\n\
                    [reads]\nrw=randread\nbs=4k\niodepth=32\n# another\n[mix]\nstonewall\nrw=randrw\nrwmixwrite=30\nbs=16K\n\
                    numjobs=4\nramp_time=500ms\ngroup_reporting\n";
        let job = read(text, 1).unwrap();
        assert_eq!((job.cells.len(), job.file_bytes), (2, Some(1 << 30)));
        let [reads, mix] = &job.cells[..] else { panic!("{job:?}") };
        assert_eq!(
            (reads.rw(), reads.block_size, reads.depth, reads.buffered),
            ("randread", 4096, 32, false)
        );
        assert_eq!((reads.time_s, reads.size_bytes, reads.ramp_s), (Some(30.0), None, 0.0));
        assert_eq!((mix.rw(), mix.read_share, mix.jobs, mix.ramp_s), ("randrw", 70, 4, 0.5));
    }

    #[test]
    fn what_is_not_said_is_as_in_fio() {
        let job = read("[a]\nsize=64m\n", 1).unwrap();
        let [cell] = &job.cells[..] else { panic!("{job:?}") };
        assert_eq!((cell.rw(), cell.block_size, cell.depth, cell.buffered), ("read", 4096, 1, true));
        assert_eq!((cell.time_s, cell.size_bytes, cell.ramp_s), (None, Some(64 << 20), 0.0));
    }

    #[test]
    fn what_would_be_another_measurement_is_refused_with_its_line() {
        for (text, line, part) in [
            ("[a]\nsize=1m\n[b]\nsize=1m\n", 3, "expected stonewall=1"),
            ("[a]\nsize=1m\niodepth=4\n", 1, "psync has one request at a time"),
            ("[a]\nsize=1m\nioengine=mmap\n", 3, "ioengine=mmap: expected one of io_uring"),
            ("[a]\nsize=1m\nbs=4KiB\n", 3, "bs=4KiB: expected a number with k"),
            ("[a]\nsize=1m\nrw=trim\n", 3, "rw=trim: expected read"),
            ("[a]\nsize=1m\nzonemode=zbd\n", 3, "zonemode has no meaning here"),
            ("[a]\nrw=read\n", 1, "there is no size"),
            ("[a]\nsize=1m\nnumjobs=2\nfilename=x\n", 1, "would all go through the same bytes"),
            ("[a]\nsize=1m\ntime_based\n", 1, "time_based wants a runtime"),
            ("[a]\nsize=1m\nruntime=1w\n", 3, "runtime=1w: expected a number with us"),
            ("[a]\nsize=1m\nrwmixwrite=200\n", 3, "rwmixwrite=200: expected 0 to 100"),
            ("size=1m\n", 1, "expected a [section] before it"),
            ("[a\n", 1, "expected ] at the end"),
            ("[global]\nsize=1m\n", 2, "there is no job"),
            ("", 1, "there is no job"),
            ("[a]\nsize=1m\nbs=2m\n", 1, "at least one block"),
            ("[a]\nsize=1m\nbssplit=4k/60:8KiB/40\n", 3, "8KiB: expected a number with k"),
            ("[a]\nsize=1m\nbssplit=4k/60:8k/30\n", 3, "add up to 90%"),
            ("[a]\nsize=1m\nbssplit=4k/100,8k/100\n", 3, "one list of block sizes"),
            ("[a]\nsize=1m\nbssplit=4k/60:8k\nverify=md5\nrw=write\n", 1, "in flight twice"),
            ("[a]\nsize=18446744073709551615\nnumjobs=9\n", 1, "more than a file may have"),
            ("[a]\nsize=1m\n[b]\nstonewall\nsize=2m\n", 3, "another length"),
        ] {
            let (found, message) = refused(text);
            assert!(found == line && message.contains(part), "{text}: line {found}: {message}");
        }
    }

    #[test]
    fn sizes_with_shares_are_read_as_fio_means_them() {
        let job = read("[a]\nsize=64m\nbs=2k\nbssplit=4k/50:1k/:32k/\n", 1).unwrap();
        let cell = &job.cells[0];
        assert_eq!(cell.block_split.as_ref().unwrap().to_string(), "4096/50:1024/25:32768/25");
        assert_eq!(cell.block_size, 32 << 10);
    }

    proptest! {
        /// What is written for fio is read as the same cells.
        #[test]
        fn jobs_that_are_written_are_read_again(
            (share, is_random, depth, jobs) in (0_u8..=100, any::<bool>(), 1_u32..64, 1_u32..5),
            (blocks, is_split, buffered, ramp_ms, time_ms) in (1_u64..64, any::<bool>(), any::<bool>(), 0_u32..5000, 1_u32..90_000),
            (size_blocks, rate, verify) in (proptest::option::of(1_u64..100), proptest::option::of(1_u32..9999), any::<bool>()),
        ) {
            let block_size = blocks * 512;
            let writes = share < 100;
            let cell = Workload {
                zipf: (is_random && !verify).then_some(1.2),
                pattern: if is_random { Pattern::Random } else { Pattern::Sequential },
                block_size,
                block_split: None,
                read_share: share,
                depth,
                batch: depth.min(2),
                jobs,
                buffered,
                fsync_every: writes.then_some(7),
                ramp_s: f64::from(ramp_ms) / 1000.0,
                time_s: Some(f64::from(time_ms) / 1000.0),
                size_bytes: size_blocks.map(|blocks| blocks * block_size * u64::from(jobs)),
                rate_per_s: rate.map(|rate| f64::from(rate * jobs)),
                arrival: Arrival::Constant,
                verify: verify && writes,
                seed: 5,
                compressibility: if writes { 30 } else { 0 },
            };
            // Of two sizes the one from above is the longer.
            let split = (is_split && !cell.verify).then(|| format!("256/30:{block_size}/70").parse().unwrap());
            let cell = cell.of_sizes(split);
            let file_bytes = block_size * u64::from(jobs) * 1000;
            let text = fio_jobs(std::slice::from_ref(&cell), Path::new("/a file"), file_bytes);
            let job = read(&text, 1).unwrap();
            prop_assert_eq!(&job.cells, &[cell]);
            prop_assert_eq!(job.file_bytes, Some(file_bytes));
        }

        #[test]
        fn no_text_makes_it_panic(text in "(\\[[a-z]{0,6}\\]?\n|[a-z_]{1,12}=?[0-9a-z:/.-]{0,21}\n|size=[0-9]{1,20}[kmgtp]?\n|numjobs=[0-9]{1,11}\n){0,12}") {
            let _any = read(&text, 1);
        }
    }
}
