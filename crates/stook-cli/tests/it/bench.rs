//! `stook bench`.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::packs::documented;
use super::{ended, send, stook, wait_until};

/// Runs it in a directory, on a small file, through the page cache so that any file system will do.
fn bench(directory: &Path, flags: &[&str]) -> (i32, String, String) {
    let small = ["--file-size", "4M", "--buffered", "--ramp", "0"];
    ended(stook(["bench", "."].iter().chain(&small).chain(flags)).current_dir(directory))
}

/// Without the options that make the other runs short.
fn plain(directory: &Path, flags: &[&str]) -> (i32, String, String) {
    ended(stook(["bench", "."].iter().chain(flags)).current_dir(directory))
}

fn json(directory: &Path, flags: &[&str]) -> Value {
    let (code, stdout, stderr) = bench(directory, &[flags, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_sweep_prints_a_line_for_each_cell_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--rw", "randread,randrw", "--block-size", "4K,64K", "--depth", "1,8", "--size", "1M"];
    let (code, stdout, stderr) = bench(directory.path(), &flags);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("a test file of 4.00 MiB"), "{stdout}");
    for column in ["requests/s", "MB/s", "p99.9", "CPU/request"] {
        assert!(stdout.contains(column), "{stdout}");
    }
    let lines = |start: &str| stdout.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(
        (lines("randread buffered  "), lines("randrw 50% read buffered  "), lines("  write ")),
        (4, 4, 4)
    );
    assert!(is_empty(directory.path()));
}

#[test]
fn json_has_every_cell_with_its_fields_documented() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--rw", "randrw", "--read-share", "70", "--depth", "1,8", "--size", "1M", "--repeats", "2"];
    let report = json(directory.path(), &[&flags[..], &["--fsync-every", "16", "--rate", "100000"]].concat());
    documented("bench", &report);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!((cells.len(), &report["interrupted"]), (2, &false.into()));
    for (cell, depth) in cells.iter().zip([1, 8]) {
        assert_eq!((&cell["rw"], &cell["depth"]), (&"randrw".into(), &depth.into()));
        assert_eq!((&cell["block_size"], &cell["read_share"]), (&4096.into(), &70.into()));
        assert_eq!(cell["runs"].as_array().unwrap().len(), 2);
        for part in ["total", "read", "write"] {
            for field in ["iops", "bandwidth_bytes_per_s", "latency_mean_ns"] {
                assert!(cell[part][field].as_f64().unwrap() > 0.0, "{part} {field}");
            }
        }
    }
}

#[test]
fn what_is_swept_is_fitted_or_says_why_not() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--rw", "randread", "--block-size", "4K,16K,64K,256K", "--depth", "1,2,4", "--size", "1M"];
    let report = json(directory.path(), &flags);
    documented("bench", &report);
    let models = &report["models"];
    let all: Vec<&Value> =
        ["blocks", "depths"].iter().flat_map(|kind| models[kind].as_array().unwrap()).collect();
    assert_eq!(all.len(), 3 + 4, "one for each depth, one for each block size");
    assert_eq!(models["mixes"].as_array().unwrap().len(), 0);
    let cells = report["cells"].as_array().unwrap();
    for model in all {
        assert!(model["model"].is_null() != model["refused"].is_null(), "{model}");
        let swept: Vec<&Value> = model["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| &cells[at.as_u64().unwrap() as usize])
            .collect();
        let same = |field: &str| swept.iter().all(|cell| cell[field] == swept[0][field]);
        assert!(same("block_size") != same("depth"), "{model}");
    }
    let (code, stdout, _) = bench(directory.path(), &flags);
    assert_eq!(code, 0);
    let lines = |start: &str| stdout.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((lines("Latency against block size ("), lines("Throughput against depth (")), (3, 4));
}

#[test]
fn csv_has_a_header_and_as_many_values_in_every_line() {
    let directory = tempfile::tempdir().unwrap();
    let (code, stdout, _) = bench(directory.path(), &["--csv", "--rw", "read,randrw", "--size", "1M"]);
    assert_eq!(code, 0);
    let rows: Vec<Vec<&str>> = stdout.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0][0], rows[1][0], rows[2][0]), (3, "rw", "read", "randrw"));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    // Too little was measured for a valid figure, whatever else is found.
    let at = rows[0].iter().position(|name| *name == "state").unwrap();
    assert!(rows[1..].iter().all(|row| ["unverified", "invalid"].contains(&row[at])), "{stdout}");
    let at = rows[0].iter().position(|name| *name == "write_iops").unwrap();
    assert!(rows[1][at].is_empty() && rows[2][at].parse::<f64>().unwrap() > 0.0);
}

#[test]
fn long_runs_are_reported_before_they_begin_and_kept_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--rw", "randread,randwrite", "--time", "500ms", "--long-run", "1s"];
    let (code, stdout, stderr) = bench(directory.path(), &flags);
    assert_eq!(
        (code, stderr.as_str()),
        (0, "Measuring takes 2.00 s, long runs of the cells that write included\n")
    );
    let line = |line: &&str| line.starts_with("randwrite buffered, 4.00 KiB, depth 1, long run: ");
    assert_eq!(stdout.lines().filter(line).count(), 1, "{stdout}");
    let (_, stdout, _) = bench(directory.path(), &[&flags[..], &["--csv"]].concat());
    let rows: Vec<Vec<&str>> = stdout.lines().map(|line| line.split(',').collect()).collect();
    let at = rows[0].iter().position(|name| *name == "long_run_sustained_bytes_per_s").unwrap();
    assert!(rows[1][at].is_empty() && rows[2][at].parse::<f64>().unwrap() > 0.0, "{stdout}");
    let job = "long_run = \"1s\"\n[[cell]]\nrw = \"randwrite\"\nsize = \"1M\"\n";
    fs::write(directory.path().join("job.toml"), job).unwrap();
    let report = json(directory.path(), &["--job", "job.toml"]);
    documented("bench", &report);
    let long_run = &report["cells"][0]["long_run"];
    assert_eq!(
        (&long_run["window_s"], long_run["rates_bytes_per_s"].as_array().unwrap().len()),
        (&0.1.into(), 10)
    );
    // The command line has the last word.
    let report = json(directory.path(), &["--job", "job.toml", "--long-run", "0"]);
    assert!(report["cells"][0]["long_run"].is_null(), "{report}");
}

#[test]
fn both_engines_can_be_named() {
    let directory = tempfile::tempdir().unwrap();
    let report =
        json(directory.path(), &["--engine", "threads", "--size", "1M", "--verify", "--rw", "randwrite"]);
    let run = &report["cells"][0]["runs"][0];
    assert_eq!((&run["engine"], &run["verified_bytes"]), (&"threads".into(), &(4 << 20).into()));
}

#[test]
fn blocks_of_several_sizes_are_shown_with_the_figures_of_each() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--bssplit", "4k/60:16k", "--size", "1M", "--seed", "3"];
    let report = json(directory.path(), &flags);
    documented("bench", &report);
    let cell = &report["cells"][0];
    assert_eq!(cell["block_split"][1], serde_json::json!({"block_size": 16384, "percent": 40}));
    let counts = |report: &Value| -> Vec<u64> {
        let sizes = report["cells"][0]["sizes"].as_array().unwrap();
        sizes.iter().map(|size| size["count"].as_u64().unwrap()).collect()
    };
    assert_eq!(counts(&report), counts(&json(directory.path(), &flags)), "the same of the same seed");
    let (_, stdout, _) = bench(directory.path(), &flags);
    assert!(stdout.contains("4096/60:16384/40") && stdout.contains("  of these  "), "{stdout}");
    let (code, stdout, _) = bench(directory.path(), &["--bssplit", "4k/60:16k", "--fio-job"]);
    assert!(code == 0 && stdout.contains("bssplit=4096/60:16384/40\n"), "{stdout}");
    let (code, _, stderr) = bench(directory.path(), &["--bssplit", "4k/60:16k/60"]);
    assert!(code == 2 && stderr.contains("--bssplit") && stderr.contains("add up to 120%"), "{stderr}");
}

#[test]
fn a_search_for_the_highest_rate_says_what_was_tried_and_what_the_limit_was() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--slo", "p50=1s", "--time", "50ms", "--depth", "4", "--repeats", "1"];
    let report = json(directory.path(), &[&flags[..], &["--html", "slo.html"]].concat());
    documented("bench_slo", &report);
    let cell = &report["cells"][0];
    assert_eq!(report["objective"], serde_json::json!({"statistic": "p50", "latency_ns": 1_000_000_000}));
    assert!(cell["trials"].as_array().unwrap().len() > 1 && cell["rate_per_s"].is_null(), "{cell}");
    let html = fs::read_to_string(directory.path().join("slo.html")).unwrap();
    for part in ["The highest rate with p50 ≤ 1.00 s", "<svg", "stook.bench_slo/1", "What kept it"] {
        assert!(html.contains(part), "{part}");
    }
    let (code, stdout, stderr) = bench(directory.path(), &flags);
    assert_eq!(code, 0, "{stderr}");
    for part in ["The highest rate with p50 ≤ 1.00 s", "requests/s", "interval", "limit", "Of one round"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    for (options, named) in [
        (&["--slo", "p98=1ms"][..], "--slo"),
        (&["--slo", "p99=1ms", "--rate", "5"], "--rate"),
        (&["--slo", "p99=1ms", "--size", "1M"], "--size"),
        (&["--slo", "p99=1ms", "--preset", "quick"], "--preset"),
    ] {
        let (code, _, stderr) = plain(directory.path(), options);
        assert!(code == 2 && stderr.contains(named), "{options:?}: {stderr}");
    }
}

/// The report as of five rounds of three seconds, with so many reads in each.
fn lengthened(report: &Value, reads: u64) -> Value {
    let mut report = report.clone();
    for cell in report["cells"].as_array_mut().unwrap() {
        let mut run = cell["runs"][0].clone();
        let second =
            |reads: u64| serde_json::json!({"reads": reads, "writes": 0, "bytes": 0, "latency_sum_ns": 1});
        run["series"] = (0..3).map(|at| second(reads + at)).collect();
        (run["seconds"], run["steady_s"], run["state"]) = (3.0.into(), 3.0.into(), "valid".into());
        cell["state"] = "valid".into();
        cell["runs"] = vec![run; 5].into();
    }
    report
}

#[test]
fn a_result_is_a_page_too_and_so_are_two_of_them_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let sweep = ["--block-size", "4K,16K,64K", "--depth", "1,2,4", "--size", "256K", "--html", "page.html"];
    let first = json(directory.path(), &sweep);
    let html = fs::read_to_string(directory.path().join("page.html")).unwrap();
    for part in [
        "Storage measured: ",
        "What the size of blocks changes (randread, depth 1, buffered)",
        "What depth changes (randread, 4.00 KiB, buffered)",
        "Block and depth together",
        "May these figures be believed?",
        "rw=randread",
        "stook.bench/1",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let compare = ["bench", "compare", "a.json", "b.json", "--html", "two.html"];
    let compared = |first: &Value, second: &Value| {
        for (name, report) in [("a.json", first), ("b.json", second)] {
            fs::write(directory.path().join(name), report.to_string()).unwrap();
        }
        let (code, _, stderr) = ended(stook(compare).current_dir(directory.path()));
        (code, stderr, fs::read_to_string(directory.path().join("two.html")).ok())
    };
    // Cells that are too short say nothing, and then there is no page.
    let (code, stderr, page) = compared(&first, &first);
    assert!(code == 1 && stderr.contains("nothing was compared") && page.is_none(), "{stderr}");
    let (code, stderr, page) = compared(&lengthened(&first, 1000), &lengthened(&first, 1200));
    assert_eq!(code, 0, "{stderr}");
    let page = page.unwrap();
    for part in [
        "Two measurements: a.json and b.json",
        "Of the cells that both have (9): in 9 the second is faster.",
        "the second is faster",
        "+20.0%",
        "Latencies side by side",
        "stook.bench_compare/1",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let (code, _, stderr) = bench(directory.path(), &["--size", "1M", "--html", "."]);
    assert!(code == 1 && stderr.contains("it is a directory"), "{stderr}");
}

#[test]
fn a_job_file_says_what_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let job = directory.path().join("job.toml");
    fs::write(&job, "[defaults]\nsize = \"1M\"\nramp = 0\n[[cell]]\nrw = \"read\"\ndepth = [1, 2]\n")
        .unwrap();
    let report = json(directory.path(), &["--job", "job.toml"]);
    let depths: Vec<_> =
        report["cells"].as_array().unwrap().iter().map(|cell| cell["depth"].clone()).collect();
    assert_eq!(depths, [1, 2]);
    fs::write(&job, "[[cell]]\nrw = \"read\"\ndepht = 3\n").unwrap();
    let (code, _, stderr) = bench(directory.path(), &["--job", "job.toml"]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("stook: job.toml, line 3: unknown field `depht`"), "{stderr}");
}

#[test]
fn jobs_of_fio_are_measured_as_fio_means_them() {
    let directory = tempfile::tempdir().unwrap();
    let job = directory.path().join("reads.fio");
    let text = "[global]\nsize=1m\nfilename=elsewhere\n[one]\nrw=randread\nioengine=libaio\niodepth=2\n[two]\nstonewall\n";
    fs::write(&job, text).unwrap();
    let (code, stdout, stderr) = plain(directory.path(), &["--from-fio", "reads.fio", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let cells = report["cells"].as_array().unwrap();
    let seen: Vec<_> = cells.iter().map(|cell| (cell["rw"].as_str().unwrap(), &cell["depth"])).collect();
    assert_eq!(seen, [("randread", &2.into()), ("read", &1.into())]);
    assert!(!directory.path().join("elsewhere").exists());
    fs::write(&job, "[one]\nsize=1m\n[two]\nsize=1m\n").unwrap();
    let (code, _, stderr) = plain(directory.path(), &["--from-fio", "reads.fio"]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("stook: reads.fio, line 3: ") && stderr.contains("stonewall"), "{stderr}");
    let (code, _, stderr) = plain(directory.path(), &["--from-fio", "reads.fio", "--depth", "3"]);
    assert!(code == 2 && stderr.contains("--depth"), "{stderr}");
}

#[test]
fn the_job_of_fio_is_printed_and_nothing_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let (code, stdout, _) = bench(directory.path(), &["--fio-job", "--depth", "1,32", "--time", "5s"]);
    assert_eq!(code, 0);
    let lines = |line: &str| stdout.lines().filter(|found| *found == line).count();
    assert_eq!(
        (lines("[01-randread-b4096-d32-j1]"), lines("iodepth=32"), lines("runtime=5000ms")),
        (1, 1, 2)
    );
    assert_eq!((lines("filename=./stook-bench.dat"), lines("size=4194304"), lines("direct=0")), (2, 2, 2));
    assert!(is_empty(directory.path()));
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_was_expected() {
    let directory = tempfile::tempdir().unwrap();
    for (flags, part) in [
        (&["--block-size", "0"][..], "the block size is 0 bytes; expected 1 byte to 1.00 GiB"),
        (&["--block-size", "4x"], "expected a whole number of bytes"),
        (&["--block-size", "8M"], "expected a block that fits in the file"),
        (&["--depth", "0"], "the depth is 0; expected 1 to 4096"),
        (&["--read-share", "101"], "the read share is 101%; expected 0 to 100"),
        (&["--rw", "trim"], "expected one of read, write, rw, randread, randwrite, randrw"),
        (&["--rw", "read", "--read-share", "50"], "expected rw or randrw"),
        (&["--time", "soon"], "expected a number with an optional unit"),
        (&["--time", "0"], "the time is 0 s; expected more than 0"),
        (&["--fsync-every", "4"], "nothing is written"),
        (&["--preset", "quick", "--depth", "4"], "cannot be used with"),
        (&["--long-run", "20s"], "a long run was asked for, and nothing is written"),
        (&["--rw", "write", "--long-run", "5s"], "expected a long run that is longer"),
    ] {
        let (code, stdout, stderr) = bench(directory.path(), flags);
        assert_eq!((code, stdout.as_str()), (2, ""), "{flags:?}: {stderr}");
        assert!(stderr.contains(part), "{flags:?}: {stderr}");
    }
    assert!(is_empty(directory.path()));
}

#[test]
fn places_that_cannot_be_measured_on_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let reported = |path: &str, flags: &[&str]| {
        let (code, stdout, stderr) =
            ended(stook(["bench", path].iter().chain(flags)).current_dir(directory.path()));
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        stderr
    };
    let missing = reported("missing", &[]);
    assert!(missing.starts_with("stook: cannot open missing: No such file"), "{missing}");
    assert!(
        reported("/dev/null", &[]).contains("is a character device: expected a directory, a regular file")
    );
    fs::write(directory.path().join("mine"), vec![1; 1 << 20]).unwrap();
    assert!(reported("mine", &["--rw", "randwrite"]).contains("expected --overwrite-file"));
    assert!(reported(".", &["--file-size", "4000000T"]).contains(" free, and the test file needs "));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// Waits until the process has a file open that has no name any more.
fn has_test_file(pid: u32) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().filter_map(|file| fs::read_link(file.path()).ok()).any(|path| {
        let path = path.to_string_lossy().into_owned();
        path.contains(".stook-bench-") && path.ends_with("(deleted)")
    })
}

#[test]
fn neither_ctrl_c_nor_a_kill_leaves_a_file() {
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = stook(["bench", ".", "--file-size", "4M", "--buffered", "--time", "1h", "--json"]);
        command.current_dir(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        wait_until(&mut child, || has_test_file(pid));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code);
        assert!(is_empty(directory.path()));
    }
}

/// The JSON of a result with one cell of as many seconds as there are rates in each of some rounds,
/// all in one state.
fn result(rates: &[u64], state: &str, rounds: usize) -> String {
    let directory = tempfile::tempdir().unwrap();
    let mut report = json(directory.path(), &["--size", "1M"]);
    let cell = &mut report["cells"][0];
    let series: Vec<Value> = rates
        .iter()
        .map(
            |rate| serde_json::json!({"reads": rate, "writes": 0, "bytes": rate * 4096, "latency_sum_ns": 1}),
        )
        .collect();
    cell["state"] = state.into();
    cell["runs"][0]["state"] = state.into();
    cell["runs"][0]["steady_s"] = (rates.len() as f64).into();
    cell["runs"][0]["series"] = series.into();
    cell["runs"] = vec![cell["runs"][0].clone(); rounds].into();
    report.to_string()
}

#[test]
fn two_results_are_compared_cell_by_cell() {
    let directory = tempfile::tempdir().unwrap();
    let slow: Vec<u64> = (0..20).map(|at| 1000 + at * 7 % 5).collect();
    let fast: Vec<u64> = slow.iter().map(|rate| rate * 2).collect();
    for (name, rates, state, rounds) in [
        ("a", &slow, "valid", 5),
        ("b", &fast, "valid", 5),
        ("c", &fast, "invalid", 5),
        ("memory", &fast, "unverified", 5),
        ("once", &fast, "valid", 1),
    ] {
        fs::write(directory.path().join(name), result(rates, state, rounds)).unwrap();
    }
    let compare = |first: &str, second: &str, flags: &[&str]| {
        let arguments = ["bench", "compare", first, second].into_iter().chain(flags.iter().copied());
        ended(stook(arguments).current_dir(directory.path()))
    };
    for (first, second, verdict) in [
        ("a", "b", "the second is faster"),
        ("b", "a", "the second is slower"),
        ("a", "a", "no difference is shown"),
        ("a", "c", "the second is not valid"),
        ("c", "memory", "the first is not valid"),
        ("c", "c", "both are not valid"),
        ("a", "memory", "the second is faster; the second is unverified"),
        ("memory", "a", "the second is slower; the first is unverified"),
        ("memory", "memory", "no difference is shown; both are unverified"),
        ("a", "once", "cannot tell: 1 of 1 round counts; it takes 5 on each side (--repeats 5)"),
    ] {
        let (code, stdout, stderr) = compare(first, second, &[]);
        // Before: 0, as if something had been compared.
        let why = match verdict.strip_prefix("cannot tell: ") {
            None => verdict.ends_with("not valid").then_some(verdict),
            why => why,
        };
        let expected = match why {
            Some(why) => (1, format!("stook: nothing was compared: of the cells in both results, {why}\n")),
            None => (0, String::new()),
        };
        assert_eq!((code, stderr), expected);
        assert!(stdout.contains(verdict), "{stdout}");
    }
    let (code, stdout, _) = compare("a", "b", &["--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &report["schema"]), (0, &"stook.bench_compare/1".into()));
    let difference = report["cells"][0]["comparison"]["difference"]["value"].as_f64().unwrap();
    assert!((difference - 1.0).abs() < 1e-9, "{report}");
    assert_eq!(report["cells"][0]["comparison"]["measure"], "iops");
    assert_eq!(report["cells"][0]["states"], serde_json::json!(["valid", "valid"]));
    let (_, stdout, _) = compare("memory", "c", &["--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let cell = &report["cells"][0];
    assert_eq!(cell["states"], serde_json::json!(["unverified", "invalid"]));
    assert_eq!((&cell["comparison"], &cell["reason"]), (&Value::Null, &"the second is not valid".into()));
    let mut other: Value = serde_json::from_str(&result(&slow, "valid", 5)).unwrap();
    other["cells"][0]["depth"] = 7.into();
    fs::write(directory.path().join("deep"), other.to_string()).unwrap();
    let (code, stdout, stderr) = compare("a", "deep", &[]);
    let only = "only in a: randread buffered, 4.00 KiB, depth 1\nonly in deep: randread buffered, 4.00 KiB, depth 7\n";
    assert_eq!((code, stdout.as_str()), (1, only));
    assert_eq!(stderr, "stook: nothing was compared: no cell is in both results\n");
    fs::write(directory.path().join("d"), "{\"schema\": \"stook.load/1\"}").unwrap();
    let (code, _, stderr) = compare("a", "d", &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("d is no result of `stook bench --json`: expected the schema"), "{stderr}");
}

/// Before: nothing was said of two results with other files, engines, devices, or of one that was
/// interrupted; and what bypassed the page cache was compared with what did not.
#[test]
fn results_that_were_measured_otherwise_are_said_to_be_so() {
    let directory = tempfile::tempdir().unwrap();
    let rates: Vec<u64> = (0..20).map(|at| 1000 + at * 7 % 5).collect();
    let one: Value = serde_json::from_str(&result(&rates, "valid", 5)).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut other = one.clone();
        change(&mut other);
        other.to_string()
    };
    let otherwise = changed(&|other| {
        (other["file_bytes"], other["interrupted"]) = (123_456.into(), true.into());
        other["environment"]["file_system"] = "otherfs".into();
        other["environment"]["device"] = "other0".into();
        for run in other["cells"][0]["runs"].as_array_mut().unwrap() {
            run["engine"] = "other".into();
        }
    });
    let direct = changed(&|other| {
        for run in other["cells"][0]["runs"].as_array_mut().unwrap() {
            run["direct"] = (!run["direct"].as_bool().unwrap()).into();
        }
    });
    for (name, text) in [("a", one.to_string()), ("b", otherwise), ("direct", direct)] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let compare =
        |files: &[&str]| ended(stook(["bench", "compare"].iter().chain(files)).current_dir(directory.path()));
    let (code, stdout, stderr) = compare(&["a", "b"]);
    assert_eq!(code, 0, "{stderr}");
    for name in ["file bytes", "interrupted", "file system", "device", "engine"] {
        assert!(stdout.contains(&format!("\ndifferent {name}: ")), "{name}: {stdout}");
    }
    let (_, stdout, _) = compare(&["a", "b", "--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let names: Vec<&str> =
        report["differences"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["file_bytes", "engine", "device", "file_system", "interrupted"]);
    let (code, stdout, stderr) = compare(&["a", "direct"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("that is not the same workload") && stdout.contains("different direct: "),
        "{stderr}"
    );
    assert!(!compare(&["a", "a"]).1.contains("different "));
}

#[test]
fn results_that_were_measured_in_turn_count_as_one_each() {
    let directory = tempfile::tempdir().unwrap();
    // A device that gets faster by 1% from one result to the next, and another that is half as
    // fast.
    for at in 0..6_u64 {
        for (name, factor) in [("a", 200), ("b", 100)] {
            let rates: Vec<u64> = (0..20).map(|second| factor * (100 + 2 * at) + second * 7 % 5).collect();
            fs::write(directory.path().join(format!("{name}{at}")), result(&rates, "valid", 1)).unwrap();
        }
    }
    let compare =
        |files: &[&str]| ended(stook(["bench", "compare"].iter().chain(files)).current_dir(directory.path()));
    let turns = ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"];
    let (code, stdout, stderr) = compare(&turns);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("the second is slower"), "{stdout}");
    let (code, stdout, _) = compare(&["a0", "a1", "a2", "a3", "a4", "a5", "a0", "a1", "a2", "a3"]);
    assert!(code == 0 && stdout.contains("no difference is shown"), "{stdout}");
    let (code, _, stderr) = compare(&turns[..6]);
    assert!(code == 1 && stderr.contains("3 results on each side are too few; it takes 5"), "{stderr}");
    let (code, _, stderr) = compare(&turns[..3]);
    assert!(code == 2 && stderr.contains("3 results were named"), "{stderr}");
    let (_, stdout, _) = compare(&[&turns[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["first"], &report["files"][1][4]), (&"a0".into(), &"b4".into()));
    assert_eq!(report["cells"][0]["comparison"]["interleaved"], true);
}

/// The same result with a rate of 100 requests a second, which all are completed after so long.
fn open_loop(result: &str, latency_ns: u64) -> String {
    let mut report: Value = serde_json::from_str(result).unwrap();
    let cell = &mut report["cells"][0];
    cell["rate_per_s"] = 100.0_f64.into();
    for run in cell["runs"].as_array_mut().unwrap() {
        for second in run["series"].as_array_mut().unwrap() {
            second["latency_sum_ns"] = (second["reads"].as_u64().unwrap() * latency_ns).into();
        }
    }
    report.to_string()
}

/// Before: what keeps up with the rate was equal, however long it took.
#[test]
fn results_with_a_rate_are_compared_by_their_latency() {
    let directory = tempfile::tempdir().unwrap();
    let rates: Vec<u64> = (0..20).map(|at| 98 + at * 7 % 5).collect();
    let five = result(&rates, "valid", 5);
    for (name, text) in [
        ("quick", open_loop(&five, 50_000)),
        ("slow", open_loop(&five, 150_000)),
        ("once", open_loop(&result(&rates, "valid", 1), 50_000)),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let compare = |first: &str, second: &str, flags: &[&str]| {
        let arguments = ["bench", "compare", first, second].into_iter().chain(flags.iter().copied());
        ended(stook(arguments).current_dir(directory.path()))
    };
    for (first, second, verdict, code) in [
        ("quick", "slow", "the second is slower", 0),
        ("slow", "quick", "the second is faster", 0),
        ("slow", "slow", "no difference is shown", 0),
        ("slow", "once", "cannot tell: 1 of 1 round counts", 1),
    ] {
        let (ended, stdout, stderr) = compare(first, second, &[]);
        assert_eq!(ended, code, "{stderr}");
        assert!(stdout.contains(verdict), "{stdout}");
        assert!(stdout.contains("Cells with a rate are compared by their mean latency"), "{stdout}");
        assert!(stdout.contains(" µs"), "{stdout}");
    }
    let (code, stdout, stderr) = compare("quick", "slow", &["--json"]);
    assert_eq!(code, 0, "{stderr}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let found = &report["cells"][0]["comparison"];
    assert_eq!((&found["measure"], &found["verdict"]), (&"latency_mean_ns".into(), &"slower".into()));
    for (field, expected) in [("first_mean", 50e3), ("second_mean", 150e3)] {
        assert!((found[field].as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{found}");
    }
    assert!((found["difference"]["value"].as_f64().unwrap() - 2.0).abs() < 1e-9, "{found}");
}

#[test]
fn what_the_page_cache_served_is_not_called_the_speed_of_a_device() {
    let directory = tempfile::tempdir().unwrap();
    let report = json(directory.path(), &["--time", "1s"]);
    let run = &report["cells"][0]["runs"][0];
    let gate =
        run["gates"].as_array().unwrap().iter().find(|gate| gate["name"] == "device_bytes_read").unwrap();
    let (outcome, state) = (gate["outcome"].as_str().unwrap(), report["cells"][0]["state"].as_str().unwrap());
    let (code, stdout, _) = bench(directory.path(), &["--time", "1s"]);
    let reported = |state: &str| stdout.contains(&format!("randread buffered, 4.00 KiB, depth 1: {state}\n"));
    assert_eq!(code, 0);
    if run["device"].is_null() || outcome == "unverified" {
        // No device is known whose speed it could be taken for. It may fail another check, too.
        assert_eq!(outcome, "unverified", "{report}");
        assert!(state != "valid" && (reported("unverified") || reported("not valid")), "{state}: {stdout}");
    } else {
        assert_eq!((outcome, state), ("failed", "invalid"), "{report}");
        assert!(reported("not valid"), "{stdout}");
    }
}

#[test]
fn a_pack_is_no_place_for_a_test_file() {
    let place = super::packs::Place::filled();
    fs::create_dir(place.pack.join("below")).unwrap();
    let names =
        || -> Vec<_> { fs::read_dir(&place.pack).unwrap().map(|entry| entry.unwrap().path()).collect() };
    let before = names().len();
    for directory in [place.pack.clone(), place.pack.join("below")] {
        for flags in [&["--keep", "--size", "1M"][..], &["--size", "1M"]] {
            let (code, stdout, stderr) = bench(&directory, flags);
            assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
            assert!(stderr.contains("is a pack, and only its writer"), "{stderr}");
        }
    }
    assert_eq!(names().len(), before);
    assert!(is_empty(&place.pack.join("below")));
}
