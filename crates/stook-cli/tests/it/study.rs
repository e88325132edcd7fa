//! `stook study`: all ways read the same bytes, and its input is unchanged.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::packs::{Place, documented};
use super::trees::{described, nasty};
use super::{ended, send, stook, wait_until};

/// `stook study many-small-files ARGS…` in a place, without emptying the caches of the machine that
/// tests.
fn study<S: AsRef<OsStr>>(place: &Place, args: impl IntoIterator<Item = S>) -> (i32, String, String) {
    let mut command = stook(["study", "many-small-files", "--verbose", "--keep-caches"]);
    command.args(["--work", "work", "--out", "out"]);
    ended(command.args(args).current_dir(place.dir.path()))
}

/// A small sample, one round.
const SMALL: [&str; 6] = ["--files", "120", "--size", "3000", "--runs", "1"];

fn result(place: &Place) -> Value {
    serde_json::from_slice(&fs::read(place.path("out/study.json")).unwrap()).unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Every way of reading was measured in every round, and returned these records.
fn assert_whole(study: &Value, runs: usize, records: u64, bytes: u64) {
    let study = &study["data"];
    let returned = &study["returned"];
    assert_eq!((&returned["records"], &returned["bytes"]), (&records.into(), &bytes.into()));
    let rows = study["rows"].as_array().unwrap();
    let ways: Vec<_> = rows.iter().map(|row| row["reader"]["way"].as_str().unwrap_or("limit")).collect();
    // Files of anybody's have no numbers.
    let is_sample = study["method"]["tree"].as_str().is_some_and(|tree| tree.ends_with("-numbered.tree"));
    let numbered = is_sample.then_some("numbered");
    let others = ["files", "plain", "plain", "pack_stream", "pack_memory", "limit"];
    assert_eq!(ways, ["files"].into_iter().chain(numbered).chain(others).collect::<Vec<_>>());
    for row in rows {
        let limit = row["reader"].is_null();
        assert_eq!(&row["returned"], if limit { &Value::Null } else { returned }, "{row}");
        assert_eq!(row["runs"].as_array().unwrap().len(), runs);
        assert!(row["seconds"].as_f64().unwrap() > 0.0 && row["speedup"].as_f64().unwrap() > 0.0, "{row}");
    }
}

/// What has rounds of its own was measured, each after what it is compared with; Java where it is
/// installed.
fn assert_further(study: &Value, is_sample: bool) {
    let data = &study["data"];
    let rows = data["further"].as_array().unwrap();
    let java = usize::from(!data["method"]["java"].is_null());
    assert_eq!(rows.len(), if is_sample { 11 + 2 * java } else { 3 });
    let left_out = data["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), if is_sample { 1 - java } else { 1 });
    assert!(left_out.iter().all(|left| !left["because"].as_str().unwrap().is_empty()), "{left_out:?}");
    for row in rows {
        assert!(row["seconds"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["against"].is_null(), row["times"].is_null(), "{row}");
        assert_eq!(&row["runs"].as_array().unwrap().len(), &data["method"]["further_runs"], "{row}");
    }
}

/// Nothing is loaded from anywhere, and the figures are in it.
fn assert_self_contained(page: &str, study: &Value) {
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(page.contains("<svg") && page.contains("<table"), "{page}");
    let (before, data) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    let (data, after) = data.split_once("</script>").unwrap();
    assert_eq!(&serde_json::from_str::<Value>(data).unwrap(), study);
    for shown in [before, after] {
        for loads in ["http:", "https:", "src=", "<link", "<script", "<iframe", "@import", "url("] {
            assert!(!shown.contains(loads), "{loads}");
        }
    }
}

#[test]
fn a_sample_is_made_measured_and_reported() {
    let place = Place::new();
    let (code, stdout, stderr) = study(&place, SMALL);
    assert_eq!(code, 0, "{stderr}");
    for line in [
        "Files, one reader",
        "Files, by their numbers",
        "Plain file, 64 KiB reads",
        "Plain file, 1 MiB reads",
        "Pack, streaming",
        "Pack, kept in memory",
        "Limit of the device",
        "120 files of 3,000 pseudo-random bytes after their number and length, ten in a directory",
        "All of them returned the same 120 records.",
        "Published: “Single file vs multi file storage” (Mikhail Vorontsov).",
        "ext4, 50K files",
        "63.381 sec",
        "The pack loads ",
        "Plain file, without read-ahead",
        "Plain file, by another program after this one",
        "Plain file with history, history skipped",
        "Files of an aged tree",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let written = result(&place);
    documented("study", &written);
    assert_whole(&written, 1, 120, 120 * 3008);
    assert_further(&written, true);
    assert_self_contained(&fs::read_to_string(place.path("out/study.html")).unwrap(), &written);
    assert_eq!(names(&place.path("out")), ["study.html", "study.json"]);
}

/// Before: every table and conclusion came each time, 230 lines and more.
#[test]
fn without_verbose_it_prints_the_answer_its_figures_and_how_many_conclusions_hold() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let mut command = stook(["study"]);
        command.args(args).args(["--keep-caches", "--work", "work", "--out", "out"]);
        ended(command.current_dir(place.dir.path()))
    };
    let (code, stdout, stderr) = run(&[&["many-small-files"][..], &SMALL].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.lines().count() <= 10, "{stdout}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[0].contains("The pack loads "), "{stdout}");
    assert!(stdout.contains("as fast as the files with one reader"), "{stdout}");
    assert!(lines.last().unwrap().starts_with("Conclusions of the document: "), "{stdout}");
    assert!(stderr.contains("Written: out/study.json\nWritten: out/study.html\n"), "{stderr}");
    assert!(!stderr.contains("MB/s"), "figures are for --verbose: {stderr}");
    let before = place.path("work");
    fs::create_dir(place.path("place")).unwrap();
    fs::rename(before, place.path("place/stook-study")).unwrap();
    fs::rename(place.path("place"), place.path("work")).unwrap();
    let skipped = ["bulk-copy", "solid-reads", "ssd-profile", "sparse-file"].map(|name| ["--skip", name]);
    let args = [&["all", "--size", "200K"][..], skipped.as_flattened()].concat();
    let (code, stdout, stderr) = run(&args);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.lines().count() <= 8 && stdout.starts_with("many-small-files\n"), "{stdout}");
    assert!(stdout.contains("out/many-small-files/study.html"), "{stdout}");
    assert!(
        stderr.contains("1 study, in about ") && stderr.contains("(1 of 1), all of them end in about"),
        "{stderr}"
    );
    let (code, verbose, _) = run(&[&args[..], &["-v"]].concat());
    assert!(code == 0 && verbose.contains("All of them returned the same 10 records."), "{verbose}");
}

#[test]
fn what_was_made_is_kept_for_the_next_run() {
    let place = Place::new();
    assert_eq!(study(&place, SMALL).0, 0);
    let first = result(&place);
    let made = [
        "120x3000-numbered.aged",
        "120x3000-numbered.history",
        "120x3000-numbered.plain",
        "120x3000-numbered.stook",
        "120x3000-numbered.tree",
        "made-by-stook-study",
    ];
    assert_eq!(names(&place.path("work")), made);
    let modified = || made.map(|name| place.path("work").join(name).metadata().unwrap().modified().unwrap());
    let before = modified();
    let (code, stdout, stderr) =
        study(&place, ["--files", "120", "--size", "3000", "--runs", "2", "--json", "--quiet"]);
    assert_eq!((code, stderr.as_str(), modified()), (0, "", before));
    let printed: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(printed, result(&place), "stdout is study.json");
    assert_whole(&printed, 2, 120, 120 * 3008);
    assert_eq!(printed["data"]["returned"]["bytes"], first["data"]["returned"]["bytes"]);
    assert_eq!(
        printed["data"]["returned"]["sum"], first["data"]["returned"]["sum"],
        "the same bytes every time"
    );
}

/// Regular files below a directory, every name of a file once, and their bytes.
fn files(directory: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        let (files, bytes) = match (kind.is_dir(), kind.is_file()) {
            (true, _) => files(&entry.path()),
            (_, true) => (1, entry.metadata().unwrap().len()),
            _ => (0, 0),
        };
        sum = (sum.0 + files, sum.1 + bytes);
    }
    sum
}

#[test]
fn a_tree_of_ones_own_is_measured_and_stays_as_it_was() {
    let place = Place::new();
    // The path of the tree and the names in it are not text.
    let tree = place.dir.path().join(OsStr::from_bytes(b"my\ntree <\xff>"));
    fs::create_dir(&tree).unwrap();
    nasty(&tree);
    for number in 0..200 {
        fs::write(tree.join(format!("a/b/{number}")), vec![number; usize::from(number) * 31]).unwrap();
    }
    let before = described(&tree);
    let args = [OsStr::new("--runs"), OsStr::new("1"), OsStr::new("--dir"), tree.as_os_str()];
    let (code, stdout, stderr) = study(&place, args);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(described(&tree), before);
    let (records, bytes) = files(&tree);
    assert!(stdout.contains(&format!("All of them returned the same {records} records.")), "{stdout}");
    let written = result(&place);
    documented("study", &written);
    assert_whole(&written, 1, records, bytes);
    assert_further(&written, false);
    let path = stook::report::json::base64(tree.as_os_str().as_bytes());
    assert_eq!(written["data"]["method"]["tree_b64"], path);
    assert_self_contained(&fs::read_to_string(place.path("out/study.html")).unwrap(), &written);
    // What changed since is measured as it is now.
    fs::remove_file(tree.join("a/b/100")).unwrap();
    fs::write(tree.join("a/b/101"), "other").unwrap();
    let args = [OsStr::new("--runs"), OsStr::new("1"), OsStr::new("--dir"), tree.as_os_str()];
    assert_eq!(study(&place, args).0, 0);
    assert_whole(&result(&place), 1, records - 1, bytes - 100 * 31 - 101 * 31 + 5);
}

#[test]
fn nothing_but_empty_files_can_be_measured() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    for name in ["one", "two"] {
        fs::write(place.path("tree").join(name), "").unwrap();
    }
    let (code, _, stderr) = study(&place, ["--dir", "tree", "--runs", "1"]);
    assert_eq!(code, 0, "{stderr}");
    assert_whole(&result(&place), 1, 2, 0);
}

#[test]
fn clean_removes_what_was_made_and_nothing_else() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "x").unwrap();
    assert_eq!(study(&place, SMALL).0, 0);
    // Of a run with --dir that was killed: whatever runs next removes it.
    fs::write(place.path("work/given.plain"), "private").unwrap();
    assert_eq!(study(&place, SMALL).0, 0);
    assert!(!place.path("work/given.plain").exists());
    assert_eq!(study(&place, ["--dir", "tree", "--runs", "1"]).0, 0);
    // Before: copies of what was given, which may be private, stayed for everybody to read.
    assert!(!place.path("work/given.plain").exists() && !place.path("work/given.stook").exists());
    let (results, tree) = (described(&place.path("out")), described(&place.path("tree")));
    // Something of the user's that happens to lie there.
    fs::write(place.path("work/notes"), "mine").unwrap();
    let (code, stdout, stderr) = study(&place, ["--clean"]);
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert!(stderr.contains("Removed what was made in work (") && stderr.contains("it stays"), "{stderr}");
    assert_eq!(names(&place.path("work")), ["notes"]);
    // It is no longer a directory of the study.
    let (code, _, stderr) = study(&place, ["--clean"]);
    assert!(code == 1 && stderr.contains("nothing was removed"), "{stderr}");
    let (code, _, stderr) = study(&place, SMALL);
    assert!(code == 1 && stderr.contains("work has something else in it"), "{stderr}");
    fs::remove_file(place.path("work/notes")).unwrap();
    assert_eq!(study(&place, SMALL).0, 0);
    let (code, _, stderr) = study(&place, ["--clean"]);
    assert!(code == 0 && stderr.starts_with("Removed work ("), "{stderr}");
    assert_eq!(names(place.dir.path()), ["out", "tree"]);
    let (code, _, stderr) = study(&place, ["--clean"]);
    assert_eq!((code, stderr.as_str()), (0, "work is not there\n"));
    assert_eq!(described(&place.path("tree")), tree);
    assert_eq!(described(&place.path("out")).len(), results.len());
}

#[test]
fn results_may_lie_beside_the_data() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let mut command = stook(["study", "many-small-files", "--keep-caches", "--work", "w", "--out", "w"]);
        ended(command.args(args).current_dir(place.dir.path()))
    };
    for _ in 0..2 {
        assert_eq!(run(&SMALL).0, 0);
    }
    assert!(place.path("w/study.html").exists());
    assert_eq!(run(&["--clean"]).0, 0);
    assert_eq!(names(place.dir.path()), Vec::<String>::new());
}

#[test]
fn the_work_directory_is_found_in_the_cache_of_the_user() {
    let place = Place::new();
    let clean = |variable: &str, value: &Path| {
        let mut command = stook(["study", "many-small-files", "--clean"]);
        ended(command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env(variable, value))
    };
    for (variable, below) in [("XDG_CACHE_HOME", "stook/study"), ("HOME", ".cache/stook/study")] {
        let work = place.path(variable).join(below);
        fs::create_dir_all(&work).unwrap();
        fs::write(work.join("made-by-stook-study"), "").unwrap();
        fs::write(work.join("120x3000.plain"), "12345").unwrap();
        let (code, _, stderr) = clean(variable, &place.path(variable));
        assert_eq!((code, stderr), (0, format!("Removed {} (5 B)\n", work.display())));
        assert!(!work.exists());
    }
    let (code, _, stderr) = clean("UNRELATED", Path::new("x"));
    assert!(code == 2 && stderr.contains("--work"), "{stderr}");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_made() {
    let place = Place::new();
    fs::write(place.path("file"), "x").unwrap();
    fs::create_dir_all(place.path("empty/sub")).unwrap();
    fs::create_dir_all(place.path("tree/sub")).unwrap();
    fs::write(place.path("tree/file"), "x").unwrap();
    let before = described(place.dir.path());
    for (args, code, reported) in [
        (&["--dir", "absent"][..], 1, "absent"),
        (&["--dir", "file"], 2, "file is not a directory"),
        (&["--dir", "empty"], 2, "empty has no files to read"),
        (&["--dir", "tree", "--work", "tree/sub/work"], 2, "must not lie in one another"),
        (&["--dir", "tree", "--work", "tree"], 2, "must not lie in one another"),
        (&["--dir", "tree/sub", "--work", "tree"], 2, "must not lie in one another"),
        (&["--dir", "tree", "--out", "file"], 1, "file"),
        (&["--dir", "tree", "--files", "7"], 2, "--files"),
        (&["--dir", "tree", "--runs", "0"], 2, "--runs"),
        (&["--files", "0"], 2, "--files"),
        (&["--size", "much"], 2, "--size"),
        (&["--on", "ext4,nonsense"], 2, "--on: no file system “nonsense” is known"),
        (&["--on", "ext4,"], 2, "--on: no file system “” is known"),
        (&["--dir", "tree", "--on", "ext4"], 2, "--on"),
    ] {
        let mut command = stook(["study", "many-small-files", "--keep-caches"]);
        // An option that is given twice is an error of its own.
        for (option, default) in [("--work", "work"), ("--out", "out")] {
            if !args.contains(&option) {
                command.args([option, default]);
            }
        }
        let ended = ended(command.args(args).current_dir(place.dir.path()));
        assert_eq!((ended.0, ended.1.as_str()), (code, ""), "{args:?}: {}", ended.2);
        assert!(ended.2.contains(reported), "{args:?}: {}", ended.2);
        assert_eq!(described(place.dir.path()), before, "{args:?}");
    }
}

#[test]
fn ctrl_c_ends_it_and_what_is_left_is_cleaned() {
    let place = Place::new();
    let args = ["study", "many-small-files", "--keep-caches", "--work", "work", "--out", "out"];
    // Enough files that the signal comes while they are made.
    let mut command = stook(args);
    let log = fs::File::create(place.path("log")).unwrap();
    command.args(["--files", "5000000", "--size", "0"]).current_dir(place.dir.path()).stderr(log);
    let mut child = command.spawn().unwrap();
    let partial: PathBuf = place.path("work/5000000x0-numbered.tree.partial");
    wait_until(&mut child, || partial.exists());
    send("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.path("out/study.json").exists() && !place.path("work/5000000x0-numbered.tree").exists());
    // Before: 4 to 6 GB stayed without a word.
    let said = fs::read_to_string(place.path("log")).unwrap();
    assert!(said.contains("(stook study many-small-files --clean --work 'work' removes it)"), "{said}");
    assert_eq!(study(&place, ["--clean"]).0, 0);
    assert!(!place.path("work").exists());
}

/// Before: the second took what the first was writing for something that was left, and removed it.
#[test]
fn a_second_study_in_the_same_place_is_refused_at_once() {
    let place = Place::new();
    assert_eq!(study(&place, SMALL).0, 0);
    let before = described(&place.path("work"));
    let held = fs::File::open(place.path("work")).unwrap();
    held.try_lock().unwrap();
    for args in [&SMALL[..], &["--clean"]] {
        let (code, _, stderr) = study(&place, args);
        assert!(code == 1 && stderr.contains("work: a study is running there ("), "{stderr}");
    }
    assert_eq!(described(&place.path("work")), before);
    held.unlock().unwrap();
    let held = fs::File::open(place.dir.path()).unwrap();
    held.try_lock().unwrap();
    for args in [
        &["bulk-copy", "--size", "1M", "--from", ".", "--runs", "1"][..],
        &["solid-reads", "--size", "64M", "--work", "."],
        &["all", "--skip", "ssd-profile", "--size", "70M", "--work", "."],
        &["all", "--clean", "--work", "."],
    ] {
        let (code, _, stderr) = ended(
            stook(["study"])
                .args(args)
                .args(if args.contains(&"--clean") { &[][..] } else { &["--out", "out"] })
                .current_dir(place.dir.path()),
        );
        assert!(code == 1 && stderr.contains(": a study is running there ("), "{args:?}: {stderr}");
    }
    assert_eq!(described(&place.path("work")), before);
}

/// Before: it was refused, and deleted all the same.
#[test]
fn what_lies_where_a_copy_would_go_is_refused_and_stays() {
    let place = Place::new();
    for (name, what) in [("stook-bulk-copy-copies", "thesis.txt"), ("stook-bulk-copy-source", "data")] {
        fs::create_dir(place.path(name)).unwrap();
        fs::write(place.path(name).join(what), "precious").unwrap();
        let mut command = stook(["study", "bulk-copy", "--keep-caches", "--size", "1M", "--out", "out"]);
        let (code, _, stderr) = ended(command.args(["--runs", "1"]).current_dir(place.dir.path()));
        assert!(code == 1 && stderr.contains("left as it is"), "{stderr}");
        assert_eq!(fs::read_to_string(place.path(name).join(what)).unwrap(), "precious");
        fs::remove_dir_all(place.path(name)).unwrap();
    }
}

/// Before: it was made, and filled.
#[test]
fn a_place_that_is_not_there_is_refused_by_all() {
    let place = Place::new();
    fs::write(place.path("file"), "x").unwrap();
    std::os::unix::fs::symlink("nothing", place.path("nowhere")).unwrap();
    let before = described(place.dir.path());
    for args in [
        &["all", "--work", "nope"][..],
        &["all", "--work", "file"],
        &["many-small-files", "--work", "nope/x"],
        &["many-small-files", "--work", "file"],
        &["many-small-files", "--work", "nowhere"],
        &["solid-reads", "--work", "nope"],
        &["bulk-copy", "--from", "nope"],
        // What cannot succeed is known before the first of them begins.
        &["all", "--work", ".", "--size", "20M"],
        &["all", "--work", ".", "--size", "0"],
        &["bulk-copy", "--size", "1"],
    ] {
        let mut command = stook(["study"]);
        let (code, stdout, stderr) =
            ended(command.args(args).args(["--out", "out"]).current_dir(place.dir.path()));
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert_eq!(described(place.dir.path()), before, "{args:?}");
    }
}

/// Before: the studies before it were measured first.
#[test]
fn all_of_them_have_a_place_for_their_results_before_the_first_begins() {
    let place = Place::new();
    fs::create_dir(place.path("out")).unwrap();
    fs::write(place.path("out/sparse-file"), "mine").unwrap();
    let mut command =
        stook(["study", "all", "--keep-caches", "--size", "200K", "--work", ".", "--out", "out"]);
    command.args(["--skip", "solid-reads", "--skip", "ssd-profile"]).current_dir(place.dir.path());
    let (code, stdout, stderr) = ended(&mut command);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("out/sparse-file") && !place.path("stook-study").exists(), "{stderr}");
}

#[test]
fn studies_are_listed_with_what_they_repeat() {
    let (code, stdout, stderr) = ended(&mut stook(["study"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    for (name, measures) in stook_study::all::STUDIES {
        assert!(stdout.contains(name) && stdout.contains(measures), "{name}: {stdout}");
    }
    let (code, stdout, _) = ended(&mut stook(["study", "--json"]));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    documented("study", &document);
    let listed = document["studies"].as_array().unwrap();
    assert_eq!((code, listed.len()), (0, stook_study::all::STUDIES.len()));
    assert!(listed.iter().all(|one| !one["document"]["title"].as_str().unwrap().is_empty()));
}

/// The two that take long have tests of their own.
#[test]
fn all_studies_have_one_page_that_leads_to_them_and_one_that_fails_stops_no_other() {
    let place = Place::new();
    let mut command =
        stook(["study", "all", "--keep-caches", "--size", "200K", "--work", ".", "--out", "out"]);
    command.args(["--skip", "sparse-file", "--skip", "solid-reads", "--skip", "ssd-profile", "--json"]);
    // That makes one of them fail. What an older run found is no answer to this one.
    fs::create_dir(place.path("stook-bulk-copy-copies")).unwrap();
    fs::write(place.path("stook-bulk-copy-copies/thesis.txt"), "precious").unwrap();
    fs::create_dir_all(place.path("out/bulk-copy")).unwrap();
    fs::write(place.path("out/bulk-copy/study.html"), "old").unwrap();
    let (code, stdout, stderr) = ended(command.current_dir(place.dir.path()));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("(stook study all --clean --work '.' removes it)"), "{stderr}");
    assert!(!place.path("out/bulk-copy/study.html").exists());
    assert!(place.path("stook-bulk-copy-copies/thesis.txt").exists());
    let document: Value = serde_json::from_str(&stdout).unwrap();
    documented("study", &document);
    let studies = document["studies"].as_array().unwrap();
    assert_eq!((&studies[0]["name"], &studies[0]["error"]), (&"many-small-files".into(), &Value::Null));
    assert!(studies[1]["error"].as_str().unwrap().contains("thesis.txt"), "{studies:?}");
    assert_eq!((&studies[1]["name"], &studies[1]["page"]), (&"bulk-copy".into(), &Value::Null));
    assert_eq!((studies.len(), &studies[0]["page"]), (2, &"many-small-files/study.html".into()));
    let index = fs::read_to_string(place.path("out/index.html")).unwrap();
    // Of the one that did not fail: in the list, and in the table of conclusions.
    assert_eq!(index.matches("<a href=").count(), 2);
    assert!(
        index.contains("<a href=\"many-small-files/study.html\">") && index.contains("failed: "),
        "{index}"
    );
    let page = fs::read_to_string(place.path("out/many-small-files/study.html")).unwrap();
    let result: Value =
        serde_json::from_slice(&fs::read(place.path("out/many-small-files/study.json")).unwrap()).unwrap();
    assert_self_contained(&page, &result);
    documented("study", &result);
    let clean = ended(stook(["study", "all", "--clean", "--work", "."]).current_dir(place.dir.path()));
    assert!(clean.0 == 0 && !place.path("stook-study").exists(), "{}", clean.2);
}

/// In the build directory, because it bypasses the page cache.
#[test]
fn archives_are_made_read_in_every_order_and_removed() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = stook([
        "study",
        "solid-reads",
        "-v",
        "--keep-caches",
        "--work",
        ".",
        "--out",
        "out",
        "--size",
        "64M",
    ]);
    command.args(["--archives", "1", "--runs", "1", "--time", "50ms"]).current_dir(place.path());
    let (code, stdout, stderr) = ended(&mut command);
    assert_eq!(code, 0, "{stderr}");
    for line in [
        "512 files of 128 KiB",
        "16 of 32 from other files: 17 files",
        "3466MB/s",
        "A merged copy of 512 files",
        "stitched, one read after the other",
        "stitched, 16 reads at once",
        "The jobs on a simulated hard disk, which is no measurement",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let result: Value =
        serde_json::from_slice(&fs::read(place.path().join("out/study.json")).unwrap()).unwrap();
    documented("study", &result);
    assert_self_contained(&fs::read_to_string(place.path().join("out/study.html")).unwrap(), &result);
    let data = &result["data"];
    assert_eq!((data["jobs"].as_array().unwrap().len(), data["rows"].as_array().unwrap().len()), (5, 40));
    assert!(data["rows"].as_array().unwrap().iter().all(|row| row["bytes_per_s"].as_f64().unwrap() > 0.0));
    let merged = data["merged"].as_array().unwrap();
    assert_eq!(merged.iter().map(|one| &one["files"]).collect::<Vec<_>>(), [16, 64, 128, 512]);
    assert!(
        merged
            .iter()
            .all(|one| one["made_s"].as_f64().unwrap() > 0.0 && one["read_s"].as_f64().unwrap() > 0.0)
    );
    let simulated = data["simulated"].as_array().unwrap();
    assert_eq!((simulated.len(), &data["simulated_disk"]["turns_per_minute"]), (5, &7200.0.into()));
    assert_eq!(names(place.path()), ["out"]);
}

#[test]
fn a_trace_is_replayed_and_held_against_a_reader_that_knows_it() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, file) = (directory.path().join("trace.csv"), directory.path().join("file"));
    fs::write(&file, vec![7; 3_000_000]).unwrap();
    fs::write(&trace, "# reads; file size 3000000\n0,4\n4,4\n2000000,100\n2000100,100\n").unwrap();
    let mut replay = stook(["--json", "study", "sparse-file", "--trace"]);
    let output = replay.arg(&trace).arg("--source").arg(&file).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "stook.study/1");
    assert_eq!(document["optimum"], serde_json::json!({ "requests": 2, "bytes": 208 }));
    let replay = &document["replay"];
    assert_eq!((&replay["requests"], &replay["bytes_asked"]), (&2.into(), &208.into()));
    let (code, stdout, stderr) =
        ended(stook(["study", "sparse-file", "--latency", "1ms", "--trace"]).arg(&trace));
    assert!(code == 0 && stdout.contains("known beforehand"), "{stdout}{stderr}");
    fs::write(&file, "too short").unwrap();
    let (code, _, stderr) =
        ended(stook(["study", "sparse-file", "--trace"]).arg(&trace).arg("--source").arg(&file));
    assert!(code == 1 && stderr.contains("has 9 bytes, and the trace is of a file of 3000000"), "{stderr}");
    fs::write(&trace, "0,4\n").unwrap();
    let (code, _, stderr) = ended(stook(["study", "sparse-file", "--trace"]).arg(&trace));
    assert!(code == 1 && stderr.contains("expected `# …; file size N`"), "{stderr}");
}
