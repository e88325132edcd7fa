//! `stook study ssd-profile` on a real file.

use std::fs;
use std::path::Path;

use serde_json::Value;
use stook_study::ssd_profile::charts::{CHARTS, LONG_RUN};
use stook_testing::conformance::page_conformance;

use super::packs::documented;
use super::{ended, stook};

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

/// Cells too short for any statement about the device; in the build directory, because it bypasses
/// the page cache, which not every file system for temporary files allows.
#[test]
fn a_file_is_measured_reported_and_removed() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::create_dir(place.path().join("work")).unwrap();
    let short =
        ["--verbose", "--work", "work", "--out", "out", "--time", "200ms", "--ramp", "0", "--size", "24M"];
    let mut command = stook(["study", "ssd-profile"].iter().chain(&short));
    let (code, stdout, stderr) = ended(command.current_dir(place.path()));
    assert_eq!(code, 0, "{stderr}");
    for line in [
        "The device in four lines",
        "RND4K Q32",
        "Random reads by block and depth, MB/s",
        "– 256 reads of 1 MiB at once take 256 MiB of memory, and the study keeps to 64 MiB",
        "Reads one at a time, of growing blocks",
        "512 KiB",
        "1,024",
        "100% writes",
        "writes of 4.00 KiB",
        "131",
        "5363.49",
        "39428.57143",
        "check: The law says",
        "its own figures: does not hold. Of the depth: 0.96 at 1, 0.74 at 4, 0.53 at 32, 0.50 at 256, 0.49 at 1,024.",
        "What the document does not state: the published cells past the page cache, and in other ways",
        "Little's law: X·W, and what it is of the depth",
        "Advertised and reached",
        "How long the speed lasts was not measured: it takes minutes (--long-run 5m).",
        "Published, for servers, 8800 TB of 6.4 TB",
        "Mean latency of reads on a simulated hard disk, which is no measurement",
        // None was measured for long enough, whatever else is found.
        "None of the 38 measurements passed their checks",
        "\n\n✓ passed every check. ? is unverified",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let mut study: Value =
        serde_json::from_slice(&fs::read(place.path().join("out/study.json")).unwrap()).unwrap();
    let page = fs::read_to_string(place.path().join("out/study.html")).unwrap();
    let data: Value = serde_json::from_str(page_conformance(&page, &CHARTS)).unwrap();
    // All of it would be too long for a message.
    assert!(data == study, "the data of the page is not the result");
    assert!(is_empty(&place.path().join("work")), "the test file is gone");
    let bench = study["data"].as_object_mut().unwrap().remove("bench").unwrap();
    documented("bench", &bench);
    documented("study", &study);
    assert_eq!(study["name"], "ssd-profile");
    expect_head(&stdout, &bench);
    assert_eq!(bench["file_bytes"], 24 << 20);
    for list in ["blocks", "mixes", "depths"] {
        assert_eq!(study["data"]["profile"][list].as_array().unwrap().len(), 5, "{list}");
    }
    assert_eq!(study["data"]["fio_job"].as_str().unwrap().matches("ioengine=io_uring").count(), 38);
    expect_summary(study["data"]["summary"].as_array().unwrap());
    expect_other_ways(&study["data"]);
    let map = study["data"]["map"].as_array().unwrap();
    let left_out: Vec<_> = map.iter().filter(|field| field["cell"].is_null()).collect();
    assert_eq!((map.len(), left_out.len()), (16, 1));
    assert_eq!((&left_out[0]["block_bytes"], &left_out[0]["depth"]), (&(1 << 20).into(), &256.into()));
    assert!(stderr.contains("Measuring takes about 25.6 s: 38 cells, 3 rounds each, and then"), "{stderr}");
}

/// The environment, as `bench` prints it, and then what is not known.
fn expect_head(stdout: &str, bench: &Value) {
    let cells = bench["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 38);
    let unverified = cells.iter().filter(|cell| cell["state"] == "unverified").count();
    let (head, _) = stdout.split_once("\n\n").unwrap();
    let is_no_device = !bench["environment"]["device_doubt"].is_null();
    assert_eq!(
        head.contains("\nNo device is known for any of the 38 measurements: "),
        is_no_device,
        "{head}"
    );
    assert_eq!(head.contains(" unverified: "), unverified > 0 && !is_no_device, "{head}");
    let place = head.lines().next().unwrap();
    let device = bench["environment"]["file_system"].as_str().unwrap_or_default();
    assert!(place.contains(" on ") && place.contains(device), "{place}");
    assert!(place.ends_with(", a test file of 24.0 MiB"), "{place}");
    assert_eq!(head.contains("\nIn doubt: "), is_no_device, "{head}");
}

/// The published cells were measured in both, and what was not asked for is not there.
fn expect_other_ways(data: &Value) {
    let ways = data["unstated"].as_array().unwrap();
    assert_eq!(ways.iter().map(|way| &way["way"]).collect::<Vec<_>>(), ["threads", "buffered"]);
    assert_eq!(ways[0]["engine"], "threads");
    for way in ways {
        for list in ["blocks", "mixes", "depths"] {
            let cells = way["profile"][list].as_array().unwrap();
            assert_eq!(cells.len(), 5, "{list}");
            let rate = |cell: &Value| cell["rate_per_s"]["value"].as_f64().unwrap();
            assert!(cells.iter().all(|cell| rate(cell) > 0.0), "{list}");
        }
        assert!(way["profile"]["small_writes"]["rate_per_s"]["value"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(
        (&data["long_runs"], &data["rated"]["read_bytes_per_s"]),
        (&serde_json::json!([]), &Value::Null)
    );
    let blocks = data["simulated"].as_array().unwrap();
    assert_eq!((blocks.len(), &data["simulated_disk"]["queue"]), (5, &32.into()));
}

/// Too short to say whether the speed lasts, which is said.
#[test]
fn a_long_run_and_ratings_are_measured_where_they_are_asked_for() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let args = ["--time", "20ms", "--ramp", "0", "--size", "16M", "--runs", "1", "--long-run", "1s"];
    let mut command = stook(["study", "ssd-profile", "-v", "--rated-read", "7100M", "--rated-write", "6G"]);
    let (code, stdout, stderr) = ended(command.args(args).current_dir(place.path()));
    assert_eq!(code, 0, "{stderr}");
    let mut study: Value =
        serde_json::from_slice(&fs::read(place.path().join("study.json")).unwrap()).unwrap();
    let page = fs::read_to_string(place.path().join("study.html")).unwrap();
    page_conformance(&page, &[CHARTS.as_slice(), &[LONG_RUN]].concat());
    let bench = study["data"].as_object_mut().unwrap().remove("bench").unwrap();
    let data = &study["data"];
    let runs = data["long_runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| &run["rw"]).collect::<Vec<_>>(), ["read", "write"]);
    for run in runs {
        assert!(run["seconds"].as_f64().unwrap() >= 1.0 && run["bytes"].as_u64().unwrap() > 0, "{run}");
        assert!(!run["rates_bytes_per_s"].as_array().unwrap().is_empty(), "{run}");
    }
    let conclusions = study["conclusions"].as_array().unwrap();
    let of = |words: &str| {
        conclusions.iter().find(|one| one["published"].as_str().unwrap().contains(words)).unwrap()
    };
    assert_eq!(of("a minute or so")["verdict"], "not_measured");
    assert_eq!(data["rated"], serde_json::json!({ "read_bytes_per_s": 7.1e9, "write_bytes_per_s": 6e9 }));
    // One cell more: writes as drives are rated.
    let cells = bench["cells"].as_array().unwrap();
    let last = cells.last().unwrap();
    assert_eq!((cells.len(), &last["rw"], &last["block_size"]), (39, &"write".into(), &(1 << 20).into()));
    assert!(stdout.contains("Here, writes in order"), "{stdout}");
    documented("study", &study);
}

fn expect_summary(summary: &[Value]) {
    let names: Vec<&str> = summary.iter().filter_map(|line| line["name"].as_str()).collect();
    assert_eq!(names, ["SEQ1M Q8", "SEQ1M Q1", "RND4K Q32", "RND4K Q1"]);
    for figure in ["bandwidth_bytes_per_s", "latency_mean_s", "latency_p99_s"] {
        assert!(summary.iter().all(|line| line["cell"][figure].as_f64().unwrap() > 0.0), "{figure}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_made() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "mine").unwrap();
    for (args, code, reported) in [
        (&["--work", "file"][..], 2, "file: expected a directory"),
        (&["--work", "absent"], 2, "absent: expected a directory"),
        (&["--time", "0"], 2, "the time is 0 s; expected more than 0"),
        (&["--long-run", "10ms"], 2, "--long-run: expected 1 s or more"),
        (&["--rated-read", "much"], 2, "--rated-read"),
        (&["--size", "256K"], 2, "expected a block that fits in the file"),
        (&["--out", "file"], 1, "file"),
        (&["--dir", "tree"], 2, "--dir"),
    ] {
        let mut command = stook(["study", "ssd-profile"].iter().chain(args));
        let (ended, stdout, stderr) = ended(command.current_dir(place.path()));
        assert_eq!((ended, stdout.as_str()), (code, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(reported), "{args:?}: {stderr}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "{args:?}");
    }
    assert_eq!(fs::read(place.path().join("file")).unwrap(), b"mine");
}
