//! `stook pack`: runs of it again, killed, interrupted, refused, without doing anything.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::packs::{Place, documented, make_long_file};
use super::{ended, send, stook, wait_until};

fn write(place: &Place, name: &str, bytes: impl AsRef<[u8]>) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// `stook ARGS…` in the directory of the place.
fn run(place: &Place, args: &[&str]) -> (i32, String, String) {
    ended(stook(args).current_dir(place.dir.path()))
}

fn json(place: &Place, args: &[&str]) -> (i32, serde_json::Value) {
    let (code, stdout, _) = run(place, &[args, &["--json"]].concat());
    (code, serde_json::from_str(&stdout).unwrap())
}

fn same(place: &Place, left: &str, right: &str) {
    let mut diff = Command::new("diff");
    let diff =
        diff.args(["-r", "--no-dereference"]).arg(place.path(left)).arg(place.path(right)).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
}

#[test]
fn a_tree_goes_in_and_comes_out_and_a_second_run_adds_what_is_new() {
    let place = Place::new();
    write(&place, "tree/a", "one");
    write(&place, "tree/b/c", vec![7; 3_000_000]);
    fs::hard_link(place.path("tree/a"), place.path("tree/d")).unwrap();
    std::os::unix::fs::symlink("a", place.path("tree/l")).unwrap();
    let (code, stdout, stderr) = run(&place, &["pack", "tree", "p.stook"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("Packed 2 files, 2 directories, 2 links: 3.00 MB in "), "{stdout}");
    assert_eq!(run(&place, &["check", "p.stook"]).0, 0);
    let (code, report) = json(&place, &["pack", "tree", "p.stook"]);
    documented("pack", &report);
    assert_eq!((code, &report["unchanged"], &report["complete"]), (0, &6.into(), &true.into()), "{report}");
    write(&place, "tree/new", "x");
    let (_, report) = json(&place, &["pack", "tree", "p.stook"]);
    // Its directory has a new time.
    assert_eq!(
        (&report["files"], &report["directories"], &report["replaced"]),
        (&1.into(), &1.into(), &1.into())
    );
    let (code, report) = json(&place, &["unpack", "p.stook", "out"]);
    documented("unpack", &report);
    assert_eq!((code, &report["files"], &report["hard_links"]), (0, &3.into(), &1.into()), "{report}");
    same(&place, "tree", "out");
    assert_eq!(run(&place, &["pack", "tree", "p.stook", "--quiet"]), (0, String::new(), String::new()));
}

#[test]
fn a_run_that_is_killed_goes_on_at_the_next() {
    let place = Place::new();
    for number in 0..1500u32 {
        let body: Vec<u8> = (0..number % 5000).flat_map(|n| (n * number).to_le_bytes()).collect();
        write(&place, &format!("tree/{}/{number}", number % 7), body);
    }
    let large: Vec<u8> =
        (0..6_000_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    write(&place, "tree/3/large", large);
    for (turn, delay_ms) in [2, 5, 9, 15, 25, 40, 60, 90, 130, 30, 70].into_iter().enumerate() {
        let mut child = stook(["pack", "tree", "p.stook", "--segment-size", "4MiB"])
            .current_dir(place.dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        if !place.pack.join("manifest-0000000000000001").exists() && fs::read_dir(&place.pack).is_err() {
            continue;
        }
        // Something else to do in every turn, so that no run finds all done.
        write(&place, &format!("tree/{turn}/again"), vec![turn as u8; 100_000]);
    }
    let (code, stdout, stderr) = run(&place, &["pack", "tree", "p.stook"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(run(&place, &["check", "p.stook"]).0, 0);
    let (code, report) = json(&place, &["load", "p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()));
    assert_eq!(run(&place, &["unpack", "p.stook", "out"]).0, 0);
    same(&place, "tree", "out");
    let (_, report) = json(&place, &["pack", "tree", "p.stook"]);
    assert_eq!((&report["files"], &report["replaced"]), (&0.into(), &0.into()), "{report}");
}

#[test]
fn ctrl_c_leaves_a_pack_that_says_it_is_incomplete() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    make_long_file(&place);
    let mut child = stook(["pack", "tree", "p.stook"])
        .current_dir(place.dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(&mut child, || segment_in(&place.pack));
    send("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted, run it again to continue"));
    fs::File::create(place.path("tree/long")).unwrap().set_len(5).unwrap();
    let (code, report) = json(&place, &["load", "p.stook"]);
    assert_eq!((code, &report["complete"]), (1, &false.into()));
    assert_eq!(run(&place, &["pack", "tree", "p.stook"]).0, 0);
    assert_eq!(run(&place, &["unpack", "p.stook", "out"]).0, 0);
    same(&place, "tree", "out");
}

fn segment_in(pack: &Path) -> bool {
    let Ok(files) = fs::read_dir(pack) else { return false };
    files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("segment-"))
}

#[test]
fn a_dry_run_makes_nothing() {
    let place = Place::new();
    write(&place, "tree/a", "one");
    let (code, stdout, _) = run(&place, &["pack", "tree", "p.stook", "--dry-run"]);
    assert_eq!((code, stdout.as_str()), (0, "Would pack 1 file, 1 directory, 0 links: 3 B\n"));
    assert!(!place.pack.exists());
    run(&place, &["pack", "tree", "p.stook"]);
    let files = || {
        let mut all: Vec<_> = fs::read_dir(&place.pack).unwrap().map(|f| f.unwrap().file_name()).collect();
        all.sort();
        all
    };
    let before = files();
    write(&place, "tree/b", "two");
    let (_, report) = json(&place, &["pack", "tree", "p.stook", "--dry-run"]);
    assert_eq!((&report["files"], &report["dry_run"]), (&1.into(), &true.into()));
    assert_eq!(files(), before);
}

#[test]
fn patterns_say_what_goes_in_and_what_comes_out() {
    let place = Place::new();
    for name in ["tree/a.jpg", "tree/b.txt", "tree/tmp/c.jpg", "tree/d/e.jpg"] {
        write(&place, name, name);
    }
    let args = ["pack", "tree", "p.stook", "--include", "*.jpg", "--exclude", "tmp", "--group-by", "top"];
    let (code, report) = json(&place, &args);
    assert_eq!((code, &report["files"]), (0, &2.into()), "{report}");
    let keys = run(&place, &["ls", "p.stook"]).1;
    assert!(keys.contains("a.jpg") && keys.contains("d/e.jpg") && !keys.contains("tmp"), "{keys}");
    assert_eq!(run(&place, &["unpack", "p.stook", "out", "--group", "d"]).0, 0);
    assert!(place.path("out/d/e.jpg").exists() && !place.path("out/a.jpg").exists());
    assert_eq!(run(&place, &["unpack", "p.stook", "out2", "--prefix", "a", "--exclude", "e.jpg"]).0, 0);
    assert!(place.path("out2/a.jpg").exists() && !place.path("out2/d").exists());
    for wrong in
        [["--include", "["], ["--group-by", "hash:0"], ["--group-by", "size"], ["--segment-size", "1000KiB"]]
    {
        let args = [&["pack", "tree", "q.stook"], &wrong[..]].concat();
        assert_eq!(run(&place, &args).0, 2, "{wrong:?}");
        assert!(!place.path("q.stook").exists());
    }
}

#[test]
fn a_slash_at_the_end_means_directories_and_a_dot_at_the_front_the_root() {
    let place = Place::new();
    for name in ["tree/2018/a", "tree/2018/deep/b", "tree/x/2018", "tree/2019/c", "tree/y/2019/d"] {
        write(&place, name, name);
    }
    let packed = |args: &[&str]| {
        let (code, stdout, stderr) = run(&place, &[&["pack"], args].concat());
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}: {stdout}");
        run(&place, &["ls", args[1]]).1
    };
    let left_out = ["tree", "p.stook", "--exclude", "2018/", "--exclude", "./2019"];
    assert_eq!(packed(&left_out), "bytes:\nx\nx/2018\ny\ny/2019\ny/2019/d\n");
    let taken = packed(&["tree", "q.stook", "--include", "2018/", "--include", "./y/"]);
    assert_eq!(taken, "bytes:\n2018\n2018/a\n2018/deep\n2018/deep/b\ny\ny/2019\ny/2019/d\n");
    let mut tar = Command::new("tar");
    tar.args(["cf", "t.tar", "-C", "tree", "2018", "x"]).current_dir(place.dir.path());
    assert!(tar.status().unwrap().success());
    assert_eq!(packed(&["t.tar", "r.stook", "--exclude", "2018/"]), "x\nx/2018\n");
}

#[test]
fn all_may_be_left_out_and_an_exclusion_that_matches_nothing_is_reported() {
    let place = Place::new();
    write(&place, "tree/b", "x");
    fs::create_dir(place.path("empty")).unwrap();
    let (code, stdout, stderr) = run(&place, &["pack", "tree", "p.stook", "--exclude", "b"]);
    assert_eq!((code, stderr.as_str()), (0, "nothing to pack: --exclude leaves nothing of tree\n"));
    assert!(stdout.starts_with("Packed 0 files, 1 directory, 0 links"), "{stdout}");
    assert_eq!(json(&place, &["load", "p.stook"]).1["complete"], true);
    let misspelt = ["--exclude", "*.tmp", "--exclude", "b/", "--exclude", "x", "--exclude", "*x"];
    write(&place, "tree/x", "x");
    let (code, _, stderr) = run(&place, &[&["pack", "tree", "q.stook"], &misspelt[..]].concat());
    let reported = "--exclude '*.tmp' matched nothing.\n--exclude 'b/' matched nothing.\n";
    assert_eq!((code, stderr.as_str()), (0, reported));
    let quiet = [&["pack", "tree", "q.stook", "--quiet"], &misspelt[..]].concat();
    assert_eq!(run(&place, &quiet), (0, String::new(), String::new()));
    assert_eq!(run(&place, &["pack", "empty", "r.stook", "--exclude", "c"]).0, 0);
    // An inclusion that selects nothing is another thing.
    let (code, _, stderr) = run(&place, &["pack", "tree", "s.stook", "--include", "c", "--exclude", "b"]);
    assert!(code == 1 && stderr.contains("tree has no path for --include 'c' --exclude 'b'"), "{stderr}");
}

#[test]
fn patterns_that_take_nothing_of_an_archive_are_reported_as_those_of_trees_are() {
    let place = Place::new();
    write(&place, "tree/d/b", "x");
    for (archive, members) in [("one.tar", "d"), ("two.tar", "d/b"), ("three.tar", ".")] {
        let mut tar = Command::new("tar");
        tar.args(["cf", archive, "-C", "tree", members]).current_dir(place.dir.path());
        assert!(tar.status().unwrap().success());
        for (patterns, code, reported) in [
            (&["--include", "c"][..], 1, format!("stook: {archive} has no path for --include 'c'\n")),
            (&["--exclude", "d"], 0, format!("nothing to pack: --exclude leaves nothing of {archive}\n")),
            (&["--exclude", "b", "--exclude", "c"], 0, "--exclude 'c' matched nothing.\n".into()),
        ] {
            let args = [&["pack", archive, "p.stook", "--dry-run"][..], patterns].concat();
            let (ended, _, stderr) = run(&place, &args);
            assert_eq!(ended, code, "{members} {patterns:?}: {stderr}");
            // Without its directory all of it may be left out.
            assert!(stderr.starts_with(&reported), "{members} {patterns:?}: {stderr}");
        }
    }
}

#[test]
fn what_cannot_be_packed_is_reported_and_the_pack_is_not_complete() {
    let place = Place::new();
    write(&place, "tree/good", "x");
    // Keys are at most 65,535 bytes long.
    let script = format!(
        "d={}; cd tree && for i in $(seq 260); do mkdir $d && cd -P $d || exit 1; done",
        "d".repeat(255)
    );
    assert!(
        Command::new("sh").arg("-c").arg(script).current_dir(place.dir.path()).status().unwrap().success()
    );
    let (code, stdout, stderr) = run(&place, &["pack", "tree", "p.stook"]);
    assert_eq!(code, 1, "{stdout}");
    assert!(
        stderr.contains("65535") && stdout.contains(" failed"),
        "{stdout} {}",
        &stderr[stderr.len() - 200..]
    );
    assert_eq!(json(&place, &["load", "p.stook"]).1["complete"], false);
    fs::remove_dir_all(place.path("tree").join("d".repeat(255))).unwrap();
    let (code, report) = json(&place, &["pack", "tree", "p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()));
}

#[test]
fn places_that_make_no_sense_are_refused_before_anything_is_made() {
    let place = Place::new();
    write(&place, "tree/a", "x");
    write(&place, "other/tree/a", "x");
    fs::create_dir(place.path("empty")).unwrap();
    for (args, reported) in [
        (&["absent", "p.stook"][..], "absent"),
        (&["tree", "tree"], "into itself"),
        (&["empty", "empty"], "into itself"),
        (&["tree", "other"], "is not a pack"),
        (&["tree", "tree/a"], "tree/a"),
        (&["tree", "other/tree", "p.stook"], "same name"),
        (&["tree", "no/such/p.stook"], "no/such"),
    ] {
        let (code, stdout, stderr) = run(&place, &[&["pack"], args].concat());
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(reported), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let mut left: Vec<_> = fs::read_dir(place.dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["empty", "other", "tree"]);
    assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 0);
}

#[test]
fn a_pack_inside_its_tree_is_left_out() {
    let place = Place::new();
    write(&place, "tree/a", "x");
    for _ in 0..2 {
        let (code, _, stderr) = run(&place, &["pack", "tree", "tree/p.stook"]);
        assert_eq!((code, stderr.as_str()), (0, "Left out: p.stook is the pack itself.\n"));
    }
    let keys = run(&place, &["ls", "tree/p.stook"]).1;
    assert!(!keys.contains("segment") && keys.contains('a'), "{keys}");
    write(&place, "other/b", "x");
    for dry_run in [&[][..], &["--dry-run"]] {
        let (code, _, stderr) = run(&place, &[&["pack", "tree", "other", "tree/q.stook"], dry_run].concat());
        assert_eq!(code, 0, "{stderr}");
    }
}

#[test]
fn files_that_are_gone_from_directories_that_stay_are_not_deleted_unasked() {
    let place = Place::new();
    for number in 0..10 {
        write(&place, &format!("tree/{number}/data.bin"), format!("{number}"));
    }
    assert_eq!(run(&place, &["pack", "tree", "p.stook"]).0, 0);
    for number in 0..10 {
        fs::remove_file(place.path(&format!("tree/{number}/data.bin"))).unwrap();
    }
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete"]);
    assert_eq!((code, &report["deleted"]), (1, &0.into()), "{report}");
    assert!(report["refused"].as_str().unwrap().contains("10 of the 10 records of files"), "{report}");
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--max-delete", "10"]);
    assert_eq!((code, &report["deleted"]), (0, &10.into()), "{report}");
}
