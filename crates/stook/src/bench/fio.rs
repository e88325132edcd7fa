//! The fio job for a cell, to check a figure with another tool; and cells from jobs of fio.

pub(super) mod read;

use std::path::Path;

use super::workload::{Arrival, Pattern, Workload};

/// Notes for a comparison.
const HEAD: &str = "; the same cells for fio 3.33 or newer\n; stook's buffers lie in pages of 2 MiB: with some of them in \
                    store (sysctl vm.nr_hugepages), the line iomem=shmhuge in each job gives fio the same\n";

/// The whole job file: one section for each cell, run one after another.
pub fn fio_jobs(cells: &[Workload], file: &Path, file_bytes: u64) -> String {
    let mut text = String::from(HEAD);
    for (number, cell) in cells.iter().enumerate() {
        text.push('\n');
        section(&mut text, number, cell, file, file_bytes);
    }
    text
}

fn section(text: &mut String, number: usize, cell: &Workload, file: &Path, file_bytes: u64) {
    let mut lines = vec![
        format!("[{number:02}-{}-b{}-d{}-j{}]", cell.rw(), cell.block_size, cell.depth, cell.jobs),
        "stonewall".to_owned(),
        // A colon separates names of files.
        format!("filename={}", file.display().to_string().replace(':', "\\:")),
        format!("rw={}", cell.rw()),
        match &cell.block_split {
            None => format!("bs={}", cell.block_size),
            Some(split) => format!("bssplit={split}"),
        },
        "ioengine=io_uring".to_owned(),
        format!("iodepth={}", cell.depth),
        // As many are submitted at once, and as many completions taken.
        format!("iodepth_batch={}", cell.batch),
        format!("iodepth_batch_complete_max={}", cell.batch),
        format!("numjobs={}", cell.jobs),
        "thread=1".to_owned(),
        "group_reporting=1".to_owned(),
        format!("direct={}", u8::from(!cell.buffered)),
    ];
    if (1..100).contains(&cell.read_share) {
        lines.push(format!("rwmixread={}", cell.read_share));
    }
    if let Some(theta) = cell.zipf {
        lines.push(format!("random_distribution=zipf:{theta}"));
    }
    lines.extend(range(cell, file_bytes));
    lines.extend(duration(cell));
    lines.extend(rate(cell));
    lines.extend(writes(cell));
    lines.extend(
        [format!("randseed={}", cell.seed), "randrepeat=0".to_owned()].into_iter().chain(
            ["norandommap=1", "lat_percentiles=1", "percentile_list=50:90:99:99.9"].map(str::to_owned),
        ),
    );
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
}

/// Which part of the file: jobs of a sequence have a span each, as ours do.
fn range(cell: &Workload, file_bytes: u64) -> Vec<String> {
    if cell.pattern == Pattern::Random || cell.jobs == 1 {
        return vec![format!("size={file_bytes}")];
    }
    let span = file_bytes / u64::from(cell.jobs.max(1)) / cell.block_size.max(1) * cell.block_size;
    vec![format!("size={span}"), format!("offset_increment={span}")]
}

fn duration(cell: &Workload) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(time_s) = cell.time_s {
        lines.extend(["time_based=1".to_owned(), format!("runtime={}ms", (time_s * 1000.0).round())]);
    }
    if let Some(size) = cell.size_bytes {
        lines.push(format!("io_size={}", size / u64::from(cell.jobs.max(1))));
    }
    if cell.ramp_s > 0.0 {
        lines.push(format!("ramp_time={}ms", (cell.ramp_s * 1000.0).round()));
    }
    lines
}

fn rate(cell: &Workload) -> Vec<String> {
    let Some(rate) = cell.rate_per_s else { return Vec::new() };
    vec![
        // Its rate is per job, and a whole number. It drains before it sleeps and starts the clock
        // when it issues, so its latencies leave out what a request waited: this is as near as it
        // comes.
        format!("rate_iops={}", (rate / f64::from(cell.jobs.max(1))).round().max(1.0)),
        format!("rate_process={}", process(cell.arrival)),
    ]
}

fn writes(cell: &Workload) -> Vec<String> {
    if !cell.writes() {
        return Vec::new();
    }
    let mut lines = vec!["overwrite=1".to_owned()];
    if let Some(every) = cell.fsync_every {
        lines.push(format!("fdatasync={every}"));
    }
    if cell.compressibility > 0 {
        lines.push(format!("buffer_compress_percentage={}", cell.compressibility));
    }
    if cell.verify {
        lines.push("verify=crc32c".to_owned());
    }
    lines
}

/// What fio calls the arrival of requests.
fn process(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::Constant => "linear",
        Arrival::Poisson => "poisson",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_cell_is_this_job() {
        let cell = Workload { depth: 32, time_s: Some(10.0), ..Workload::default() };
        let text = fio_jobs(&[cell], Path::new("/data/test:file"), 1 << 30);
        assert_eq!(
            text,
            HEAD.to_owned()
                + "\n\
             [00-randread-b4096-d32-j1]\nstonewall\nfilename=/data/test\\:file\nrw=randread\nbs=4096\n\
             ioengine=io_uring\niodepth=32\niodepth_batch=1\niodepth_batch_complete_max=1\nnumjobs=1\nthread=1\ngroup_reporting=1\ndirect=1\nsize=1073741824\n\
             time_based=1\nruntime=10000ms\nramp_time=1000ms\nrandseed=1\nrandrepeat=0\nnorandommap=1\n\
             lat_percentiles=1\npercentile_list=50:90:99:99.9\n"
        );
    }

    #[test]
    fn everything_that_a_cell_may_ask_for_is_said() {
        let cell = Workload {
            pattern: Pattern::Sequential,
            read_share: 70,
            jobs: 4,
            buffered: true,
            fsync_every: Some(8),
            ramp_s: 0.0,
            time_s: None,
            size_bytes: Some(1 << 20),
            rate_per_s: Some(1000.0),
            arrival: Arrival::Poisson,
            verify: true,
            compressibility: 30,
            ..Workload::default()
        };
        let text = fio_jobs(&[cell], Path::new("f"), 4 << 20);
        for line in [
            "rw=rw",
            "rwmixread=70",
            "direct=0",
            "size=1048576",
            "offset_increment=1048576",
            "io_size=262144",
            "rate_iops=250",
            "rate_process=poisson",
            "overwrite=1",
            "fdatasync=8",
            "verify=crc32c",
            "buffer_compress_percentage=30",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let split = Workload::default().of_sizes(Some("4k/60:64k/40".parse().unwrap()));
        let split = fio_jobs(&[split], Path::new("f"), 4 << 20);
        assert!(split.contains("\nbssplit=4096/60:65536/40\n") && !split.contains("\nbs="), "{split}");
        assert!(!text.contains("ramp_time") && !text.contains("time_based"), "{text}");
    }
}
