//! `stook verify`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::packs::{Place, documented};
use super::stook;

/// A place with a tree.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("disk/d")).unwrap();
    fs::write(place.path("disk/d/one"), "first").unwrap();
    fs::write(place.path("disk/two"), vec![7; 1_200_000]).unwrap();
    fs::write(place.path("disk/empty"), "").unwrap();
    place
}

fn verify(place: &Place, args: &[&str]) -> (i32, String, String) {
    super::ended(stook(["verify"]).args(args).current_dir(place.dir.path()))
}

fn report(place: &Place, args: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = verify(place, &[args, &["--json"]].concat());
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    documented("verify", &report);
    (code, report)
}

/// A list as `sha256sum` makes it.
fn sha256sum(place: &Place, directory: &str, list: &str) {
    let script = format!(
        "cd {directory} && find . -type f -printf '%P\\0' | xargs -0 sha256sum > ../all && mv ../all {list}"
    );
    let status = Command::new("sh").args(["-c", &script]).current_dir(place.dir.path()).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_tree_without_lists_is_told_what_to_do_and_with_a_list_it_matches() {
    let place = place();
    let (code, stdout, stderr) = verify(&place, &["disk"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    for way in ["--list", "--against", "--make-list"] {
        assert!(stderr.contains(way), "{stderr}");
    }
    assert_eq!(verify(&place, &[]).0, 2);
    let (code, stdout, stderr) = verify(&place, &["disk", "--make-list"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("3 new files") && stdout.contains("Wrote disk/checksums-"), "{stdout}");
    let (code, stdout, stderr) = verify(&place, &["disk"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.starts_with("All 3 files match (1.20 MB)"), "{stdout}");
    let (code, stdout, _) = verify(&place, &["disk", "--quiet"]);
    assert_eq!((code, stdout.as_str()), (0, ""));
}

#[test]
fn lists_that_are_made_are_read_by_the_tools_that_everybody_has() {
    let place = place();
    fs::write(place.path("disk/d/a\\b\nc"), "odd").unwrap();
    let (code, made) = report(&place, &["disk", "--make-list=sha256,md5,sha1"]);
    assert_eq!((code, made["made"].as_array().unwrap().len()), (0, 3));
    for one in made["made"].as_array().unwrap() {
        let tool = format!("{}sum", one["hash"].as_str().unwrap());
        let name = one["path"].as_str().unwrap().strip_prefix("disk/").unwrap().to_owned();
        let check = |name: &str| {
            let args = ["-c", "--strict", "--quiet", name];
            Command::new(&tool).args(args).current_dir(place.path("disk")).output().unwrap().status.success()
        };
        assert!(check(&name), "{tool}");
    }
    // A second time in the same second: another name, and nothing is replaced.
    let before = fs::read_dir(place.path("disk")).unwrap().count();
    assert_eq!(verify(&place, &["disk", "--make-list"]).0, 0);
    assert_eq!(fs::read_dir(place.path("disk")).unwrap().count(), before + 1);
}

#[test]
fn each_kind_of_failure_is_named_and_counted_in_text_and_in_json() {
    let place = place();
    for number in 0..14 {
        fs::write(place.path(&format!("disk/n{number:02}")), "n").unwrap();
    }
    sha256sum(&place, "disk", "SHA256SUMS");
    fs::write(place.path("disk/two"), vec![8; 1_200_000]).unwrap();
    fs::remove_file(place.path("disk/d/one")).unwrap();
    fs::write(place.path("disk/d/more"), "x").unwrap();
    for number in 0..14 {
        fs::write(place.path(&format!("disk/n{number:02}")), "m").unwrap();
    }
    let list = fs::read_to_string(place.path("disk/SHA256SUMS")).unwrap() + "nonsense\n";
    fs::write(place.path("disk/SHA256SUMS"), list).unwrap();
    let (code, stdout, stderr) = verify(&place, &["disk"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("SHA256SUMS, line 18: not a line of a checksum list"), "{stderr}");
    for line in [
        "mismatch    n00: its sha256 is not the one in the list",
        "mismatch    … and 5 more; `--verbose` names them all",
        "missing     d/one",
        "extra       d/more",
        "1 file matches (0 B), 15 mismatching, 1 missing, 1 extra; 1 bad line in 1 list",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let (_, stdout, _) = verify(&place, &["disk", "--verbose"]);
    assert!(stdout.contains("mismatch    two: sha256 is ") && !stdout.contains("--verbose"), "{stdout}");
    let (code, found) = report(&place, &["disk"]);
    let tree = &found["trees"][0];
    let count = |name: &str| tree[name].as_array().unwrap().len();
    let counts = ["mismatching", "missing", "extra", "unreadable"].map(count);
    assert_eq!((code, counts, &found["wrong"]), (1, [15, 1, 1, 0], &18.into()));
    assert_eq!((&tree["matching"], &found["lists"][0]["bad_lines"]), (&1.into(), &1.into()));
    assert_eq!(tree["mismatching"][14]["key"], "two");
    assert_eq!(tree["mismatching"][14]["difference"], "digest");
}

#[test]
fn extras_alone_are_a_failure_unless_they_are_allowed() {
    let place = place();
    sha256sum(&place, "disk", "sums.sha256");
    fs::write(place.path("disk/more"), "x").unwrap();
    assert_eq!(verify(&place, &["disk"]).0, 1);
    let (code, stdout, _) = verify(&place, &["disk", "--allow-extra"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("1 extra, which is allowed") && !stdout.contains("more\n"), "{stdout}");
}

#[test]
fn a_list_alone_is_for_the_directory_that_it_is_in_and_for_others_if_they_are_named() {
    let place = place();
    sha256sum(&place, "disk", "sums.sha256");
    let (code, stdout, _) = verify(&place, &["--list", "disk/sums.sha256"]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("All 3 files match"), "{stdout}");
    assert_eq!(verify(&place, &["--list", "disk/missing"]).0, 1);
    assert_eq!(super::ended(stook(["copy", "disk", "spare"]).current_dir(place.dir.path())).0, 0);
    fs::rename(place.path("disk/sums.sha256"), place.path("sums.sha256")).unwrap();
    fs::remove_file(place.path("spare/sums.sha256")).unwrap();
    let (code, stdout, stderr) = verify(&place, &["disk", "spare", "--list", "sums.sha256"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("disk: all 3 files match") && stdout.contains("spare: all 3 files"), "{stdout}");
    fs::write(place.path("spare/two"), "x").unwrap();
    let (code, stdout, _) = verify(&place, &["disk", "spare", "--list", "sums.sha256"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("mismatch    spare/two"), "{stdout}");
}

#[test]
fn any_two_trees_are_compared_and_a_mismatch_has_its_place() {
    let place = place();
    for args in [&["copy", "disk", "spare"][..], &["pack", "disk", "p.stook"]] {
        assert_eq!(super::ended(stook(args).current_dir(place.dir.path())).0, 0);
    }
    let tar =
        Command::new("tar").args(["cf", "x.tar", "-C", "disk", "."]).current_dir(place.dir.path()).status();
    assert!(tar.unwrap().success());
    for (one, other) in [("spare", "disk"), ("p.stook", "disk"), ("disk", "p.stook"), ("x.tar//", "p.stook")]
    {
        let (code, stdout, stderr) = verify(&place, &[one, "--against", other]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{one} {other}: {stdout}");
        assert!(stdout.starts_with("All 3 files match"), "{stdout}");
    }
    let mut bytes = vec![7; 1_200_000];
    bytes[1_100_000] = 8;
    fs::write(place.path("spare/two"), bytes).unwrap();
    let (code, stdout, _) = verify(&place, &["spare", "--against", "disk"]);
    assert_eq!(code, 1);
    let line = "mismatch    two: it has other bytes; the first difference is at byte 1,100,000";
    assert!(stdout.contains(line), "{stdout}");
    assert_eq!(verify(&place, &["disk/two", "--against", "spare/two"]).0, 1);
    assert_eq!(verify(&place, &["disk/d/one", "--against", "spare/d/one"]).0, 0);
    let (code, _, stderr) = verify(&place, &["disk", "--against", "spare/two"]);
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn a_list_that_is_newer_than_a_damage_does_not_hide_it() {
    let place = place();
    assert_eq!(verify(&place, &["disk", "--make-list"]).0, 0);
    fs::write(place.path("disk/d/one"), "worse").unwrap();
    fs::write(place.path("disk/three"), "new").unwrap();
    let (code, stdout, _) = verify(&place, &["disk", "--make-list=blake3"]);
    assert_eq!(code, 1);
    assert!(
        stdout.contains("mismatch    d/one")
            && stdout.contains("2 files match (1.20 MB), 1 new, 1 mismatching"),
        "{stdout}"
    );
    let (code, stdout, _) = verify(&place, &["disk"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("mismatch    d/one: its sha256 is"), "{stdout}");
    assert!(stdout.contains("3 files match"), "{stdout}");
}

#[test]
fn what_was_read_from_memory_is_not_said_to_be_read_from_the_medium() {
    let place = Place::new();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(memory.path().join("a"), vec![1; 5000]).unwrap();
    let path = memory.path().to_str().unwrap();
    let (code, stdout, _) = verify(&place, &[path, "--make-list"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("not past the cache: tmpfs keeps files in memory"), "{stdout}");
    let (code, found) = report(&place, &[path]);
    assert_eq!((code, &found["trees"][0]["past_cache"]), (0, &false.into()));
    let (_, stdout, _) = verify(&place, &[path, "--cached"]);
    assert!(stdout.contains("read through the page cache"), "{stdout}");
}

#[test]
fn what_was_meant_otherwise_is_told_apart() {
    let place = place();
    let (code, _, stderr) = verify(&place, &["disk", "--make-list", "blake3"]);
    assert!(code == 2 && stderr.contains("--make-list=blake3"), "{stderr}");
    let (code, _, stderr) =
        super::ended(stook(["copy", "disk", "copy", "--list", "sha256"]).current_dir(place.dir.path()));
    assert!(code == 2 && stderr.contains("--list=sha256") && !place.path("sha256").exists(), "{stderr}");
    let (code, _, stderr) = verify(&place, &["disk", "--against", "disk/."]);
    assert!(code == 2 && stderr.contains("compared with itself"), "{stderr}");
    std::os::unix::fs::symlink("disk", place.path("same")).unwrap();
    for other in ["./disk/", "same"] {
        let (code, _, stderr) = verify(&place, &["disk", "--against", other]);
        assert!(code == 2 && stderr.contains("compared with itself"), "{other}: {stderr}");
    }
    // Lists of two copies are their own.
    for copy in ["one", "two"] {
        let args = ["copy", "disk", copy, "--list=sha256,md5", "--mhl", "--proof"];
        assert_eq!(super::ended(stook(args).current_dir(place.dir.path())).0, 0);
    }
    let (code, stdout, _) = verify(&place, &["one", "--against", "two"]);
    assert!(code == 0 && stdout.contains("All 3 files match"), "{stdout}");
}

#[test]
fn what_is_beyond_the_end_of_a_file_is_bad_and_an_empty_one_is_not() {
    let place = place();
    fs::write(place.path("disk/film"), vec![7; 3_500_000]).unwrap();
    assert_eq!(verify(&place, &["disk", "--proof"]).0, 0);
    let (code, stdout, _) = verify(&place, &["--range", "..", "disk/empty"]);
    assert!(code == 0 && stdout.contains("0 B"), "{stdout}");
    fs::write(place.path("disk/film"), vec![7; 3_600_000]).unwrap();
    for range in ["3500000..", "3MiB..", "3MiB..3550000", "3500000..3500001"] {
        let (code, stdout, stderr) = verify(&place, &["--range", range, "disk/film"]);
        assert!(code == 1 && stdout.contains("too long"), "{range}: {stdout} {stderr}");
    }
    // What is listed of it is as listed, and it is not.
    let (code, stdout, _) = verify(&place, &["--range", "3MiB..3500000", "disk/film"]);
    assert!(code == 1 && stdout.contains("3,500,000 bytes; these bytes are as listed"), "{stdout}");
    let (_, stdout, _) = verify(&place, &["disk"]);
    assert!(stdout.contains("it is 100,000 bytes too long"), "{stdout}");
}

#[test]
fn bad_megabytes_are_named_and_a_part_of_a_file_is_verified_by_itself() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/film"), vec![7; 3_500_000]).unwrap();
    let run = |args: &[&str]| super::ended(stook(["verify"]).args(args).current_dir(place.dir.path()));
    let (code, _, stderr) = run(&["--range", "1MiB..2MiB", "disk/film"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("`stook verify --proof`"), "{stderr}");
    let (code, _, stderr) = run(&["disk", "--range", "0..1"]);
    assert!(code == 1 && stderr.contains("a directory"), "{stderr}");
    let (code, stdout, stderr) = run(&["disk", "--make-list=blake3", "--proof"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(".proofs: proofs of 1 file"), "{stdout}");
    let (code, stdout, _) = run(&["--range", "1MiB..1500KiB", "disk/film"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("disk/film: bytes 1,048,576 to 2,097,152 are what disk/checksums-"), "{stdout}");
    assert!(stdout.contains(".blake3 says; 1.00 MiB read"), "{stdout}");
    let mut bytes = vec![7; 3_500_000];
    bytes[2_500_000] = 8;
    fs::write(place.path("disk/film"), bytes).unwrap();
    let bad = "bad: 2MiB..3MiB (1 of 4 blocks of 1 MiB)";
    let (code, stdout, _) = run(&["disk"]);
    assert_eq!(code, 1);
    assert!(stdout.contains(bad), "{stdout}");
    let (code, stdout, _) = run(&["--range", "2MiB..", "disk/film"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("mismatch    disk/film: bad: 2MiB..3MiB (1 of 2 blocks of 1 MiB)"), "{stdout}");
    let (code, _, stderr) = run(&["disk"]);
    assert!(code == 1 && stderr.contains("`stook copy GOOD disk --repair`"), "{stderr}");
    for (range, said) in [
        ("3..3", "the part has no bytes"),
        (
            "1MiB..5MiB",
            "cannot verify bytes 1,048,576 to 5,242,880 of disk/film: the file has 3,500,000 bytes",
        ),
        ("4MiB..", "cannot verify what follows byte 4,194,304 of disk/film: the file has 3,500,000 bytes"),
    ] {
        let (code, _, stderr) = run(&["--range", range, "disk/film"]);
        assert!(code == 1 && stderr.contains(said), "{range}: {stderr}");
    }
    let (code, stdout, _) = run(&["disk", "--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    documented("verify", &report);
    assert_eq!(
        report["trees"][0]["mismatching"][0]["bad_blocks"]["ranges"][0][0],
        2 << 20,
        "{code} {report}"
    );
    let (_, stdout, _) = run(&["--range", "..1MiB", "disk/film", "--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    documented("verify_range", &report);
    assert_eq!(report["files"][0]["matches"], true, "{report}");
}

#[test]
fn a_part_of_a_disk_and_a_list_from_standard_input_are_verified() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    let (code, stdout, stderr) = verify(&place, &["disk/d", "disk/d/one"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.starts_with("disk/d: 1 file matches (5 B)"), "{stdout}");
    let piped = |script: &str| {
        let script = format!("cat disk/SHA256SUMS | {script}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(place.dir.path()).env("STOOK", env!("CARGO_BIN_EXE_stook"));
        super::ended(&mut shell)
    };
    for script in [
        "$STOOK verify disk --list -",
        "(cd disk && $STOOK verify --list -)",
        "(cd disk && $STOOK verify --list /dev/stdin)",
    ] {
        let (code, stdout, stderr) = piped(script);
        assert_eq!(code, 0, "{script}: {stdout} {stderr}");
        assert!(stdout.starts_with("All 3 files match"), "{stdout}");
    }
    let (code, _, stderr) = piped("$STOOK verify disk disk/d --list -");
    assert!(code == 2 && stderr.contains("name one TREE"), "{stderr}");
    let (code, stdout, stderr) = verify(&place, &["disk", "nothing"]);
    assert!(code == 1 && stdout.starts_with("3 files match"), "{stdout} {stderr}");
    assert!(stdout.contains("; 1 failure"), "{stdout}");
    assert!(stderr.contains("cannot verify nothing: "), "{stderr}");
    let (code, _, stderr) = verify(&place, &["nothing", "nor this"]);
    assert!(code == 1 && stderr.contains("cannot open nothing"), "{stderr}");
    fs::write(place.path("disk/d/one"), "f1rst").unwrap();
    let (code, stdout, stderr) = verify(&place, &["disk/d"]);
    assert!(code == 1 && stdout.contains("mismatch    one: "), "{stdout} {stderr}");
    assert!(stderr.contains("`stook copy GOOD ") && stderr.contains("/disk --repair`"), "{stderr}");
    // The paths begin elsewhere.
    let (code, _, stderr) = verify(&place, &["disk/d", "--list", "disk/SHA256SUMS"]);
    assert!(code == 1 && stderr.contains("none of the paths of the list is in disk/d"), "{stderr}");
}

#[test]
fn files_are_named_as_they_were_given() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    fs::write(place.path("disk/d/one"), "f1rst").unwrap();
    let (_, stdout, _) = verify(&place, &["disk/d/one", "disk/two"]);
    assert!(stdout.contains("mismatch    disk/d/one: its sha256"), "{stdout}");
    assert!(stdout.contains("\ndisk/two: 1 file matches"), "{stdout}");
    let (_, stdout, _) = verify(&place, &["disk/d/one"]);
    assert!(stdout.contains("mismatch    disk/d/one: its sha256"), "{stdout}");
    let (_, found) = report(&place, &["disk/d/one"]);
    assert_eq!(found["trees"][0]["path"], "disk/d/one");
}

#[test]
fn all_files_match_only_where_nothing_is_wrong() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    let list = fs::read_to_string(place.path("disk/SHA256SUMS")).unwrap() + "nonsense\n";
    fs::write(place.path("disk/SHA256SUMS"), list).unwrap();
    let (code, stdout, _) = verify(&place, &["disk"]);
    assert!(code == 1 && stdout.starts_with("3 files match (1.20 MB); 1 bad line in 1 list"), "{stdout}");
}

#[test]
fn a_list_that_is_given_as_a_tree_is_told_how_it_is_meant() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    for (args, said) in [
        (&["disk/SHA256SUMS"][..], "`stook verify --list disk/SHA256SUMS`"),
        (&["--check", "disk/SHA256SUMS"], "'--list FILE' verifies"),
        (&["-c", "disk/SHA256SUMS"], "'--list FILE' verifies"),
        (&[], "name a TREE (`stook verify .`), or a list with --list FILE"),
        (&["user@host:/x"], "looks like a path on another machine"),
        (&["--range", "0..1", "user@host:/x"], "looks like a path on another machine"),
        (&["disk", "--mhl=sha1,foo"], "expected c4, md5, sha1, xxh128, xxh3, xxh64"),
        (&["disk", "--mhl", "md5"], "--mhl=md5"),
    ] {
        let (code, _, stderr) = verify(&place, args);
        assert!(code == 2 && stderr.contains(said), "{args:?}: {code} {stderr}");
    }
    let (code, _, stderr) = verify(&place, &["disk", "--list", "disk"]);
    assert!(code == 1 && stderr.contains("it is a directory, and a list is a file"), "{stderr}");
    fs::remove_file(place.path("disk/SHA256SUMS")).unwrap();
    assert_eq!(verify(&place, &["disk", "--mhl"]).0, 0);
    let (code, _, stderr) = verify(&place, &["disk/ascmhl"]);
    assert!(code == 2 && stderr.contains("as in `stook verify disk`"), "{code} {stderr}");
    // Lists of one function are one.
    let (code, made) = report(&place, &["disk", "--make-list=md5,sha256,md5"]);
    assert_eq!((code, made["made"].as_array().unwrap().len()), (0, 2), "{made}");
}

#[test]
fn a_repair_is_proposed_of_what_it_can_repair() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    assert_eq!(super::ended(stook(["copy", "disk", "spare"]).current_dir(place.dir.path())).0, 0);
    fs::remove_file(place.path("spare/two")).unwrap();
    fs::write(place.path("disk/d/one"), "f1rst").unwrap();
    fs::remove_file(place.path("disk/two")).unwrap();
    let (code, _, stderr) = verify(&place, &["disk", "spare"]);
    assert_eq!(code, 1);
    for said in [
        "To repair 2 files of disk from a good copy: `stook copy GOOD disk --repair` (first with `--dry-run`)",
        "To repair 1 file of spare from a good copy: `stook copy GOOD spare --repair`",
    ] {
        assert!(stderr.contains(said), "{stderr}");
    }
    // What is in an archive is not repaired.
    let tar = ["cf", "x.tar", "-C", "disk", "."];
    assert!(Command::new("tar").args(tar).current_dir(place.dir.path()).status().unwrap().success());
    let (code, _, stderr) = verify(&place, &["x.tar//"]);
    assert!(code == 1 && !stderr.contains("--repair"), "{stderr}");
    // The first report is that of a chain.
    let place = self::place();
    assert_eq!(verify(&place, &["disk", "--mhl"]).0, 0);
    fs::write(place.path("disk/ascmhl/ascmhl_chain.xml"), "no chain").unwrap();
    fs::write(place.path("disk/d/one"), "f1rst").unwrap();
    let (_, stdout, stderr) = verify(&place, &["disk"]);
    assert!(stderr.contains("`stook copy GOOD disk --repair`"), "{stdout} {stderr}");
}

#[test]
fn of_extra_files_the_option_that_allows_them_is_named() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    fs::write(place.path("disk/more"), "more").unwrap();
    let (_, _, stderr) = verify(&place, &["disk"]);
    assert!(stderr.contains("With `--allow-extra`, what is extra is no failure."), "{stderr}");
    assert!(!verify(&place, &["disk", "--allow-extra"]).2.contains("--allow-extra"));
}

#[test]
fn that_nothing_is_listed_or_proven_is_said_with_why() {
    let place = place();
    fs::create_dir(place.path("nothing")).unwrap();
    let (code, stdout, stderr) = verify(&place, &["nothing", "--make-list"]);
    assert!(code == 0 && stderr.contains("No list of nothing was made: it has no file to list."), "{stderr}");
    assert!(stdout.starts_with("0 files match (0 B)"), "{stdout}");
    let (code, _, stderr) = verify(&place, &["disk/d", "--proof"]);
    assert!(code == 0 && stderr.contains("No proofs of disk/d were made: no file in the list"), "{stderr}");
    let copy = ["copy", "disk/d", "copy", "--proof"];
    let (code, _, stderr) = super::ended(stook(copy).current_dir(place.dir.path()));
    assert!(code == 0 && stderr.contains("No proofs were written in copy: no file that"), "{stderr}");
    let (code, _, stderr) = verify(&place, &["disk", "--proof"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn of_two_files_that_differ_a_proof_says_which_is_right() {
    let place = place();
    assert_eq!(verify(&place, &["disk", "--proof"]).0, 0);
    assert_eq!(super::ended(stook(["copy", "disk", "spare"]).current_dir(place.dir.path())).0, 0);
    let mut bytes = vec![7; 1_200_000];
    bytes[1_100_000] = 8;
    fs::write(place.path("spare/two"), &bytes).unwrap();
    let (_, stdout, _) = verify(&place, &["disk", "--against", "spare"]);
    let said = "; the first difference is at byte 1,100,000; two is right by its own proof, so that spare is damaged, \
                or was changed\n";
    assert!(stdout.contains(said), "{stdout}");
}

#[test]
fn how_much_too_long_a_file_is_is_said_once() {
    let place = place();
    assert_eq!(verify(&place, &["disk", "--proof", "--mhl"]).0, 0);
    fs::write(place.path("disk/two"), vec![7; 1_200_001]).unwrap();
    let (_, stdout, _) = verify(&place, &["disk"]);
    assert!(stdout.contains("two: it has 1,200,001 bytes, and should have 1,200,000 bytes\n"), "{stdout}");
}

#[test]
fn nothing_is_said_of_the_cache_where_it_is_not_known() {
    let place = place();
    sha256sum(&place, "disk", "SHA256SUMS");
    let tar = ["czf", "x.tar.gz", "-C", "disk", "."];
    assert!(Command::new("tar").args(tar).current_dir(place.dir.path()).status().unwrap().success());
    let (code, stdout, stderr) = verify(&place, &["x.tar.gz//"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(!stdout.contains("0 B came through it"), "{stdout}");
}

/// Runs a script with `$S` in a place of its own: how it ended, and what it said.
fn script(script: &str) -> (i32, String, String) {
    let place = Place::new();
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).env("S", env!("CARGO_BIN_EXE_stook"));
    super::ended(shell.current_dir(place.dir.path()))
}

/// What has code 1, and not 0 or a panic.
const FAILS: &str = "fails() { \"$@\" && exit 9; [ $? = 1 ]; }\n";

#[test]
fn no_new_list_covers_up_what_a_list_knows_that_is_not_used() {
    for how in ["--list l.sha256", "--against good", "--against bad"] {
        for make in ["--make-list", "--mhl", "--proof"] {
            for own in ["--make-list", "--mhl"] {
                // The next generation is held against all before it.
                let continues = (own, make) == ("--mhl", "--mhl");
                let same = if continues { "cat" } else { "cmp - before" };
                let (code, stdout, stderr) = script(&format!(
                    "{FAILS} mkdir t; echo a > t/a; echo b > t/b; cp -r t good; $S verify t {own} -q
                     (cd t; sha256sum b > ../l.sha256); echo BAD > t/a; cp -r t bad; rm -rf bad/check* bad/asc*
                     find t | sort > before; $S verify t {how} {make} && exit 9; find t | sort | {same}
                     fails $S verify t"
                ));
                assert!(
                    code == 0 && (continues || stderr.contains("is not used")),
                    "{how} {make} {own}: {stdout} {stderr}"
                );
            }
        }
    }
    // All that it has may be named, and so may a list of one that has none.
    let (code, stdout, stderr) = script(&format!(
        "{FAILS} mkdir t; echo a > t/a; (cd t; sha256sum a > ../l.sha256); $S verify t --list l.sha256 --make-list
         $S verify t --list t/checks*.sha256 --make-list=md5; $S verify t --list t/checks*.sha256 --list t/checks*.md5 --mhl
         ls t | wc -l | grep -x 4"
    ));
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn no_list_is_made_while_one_of_a_history_is_lost_or_one_of_its_own_is_cut() {
    for hurt in [
        "rm t/ascmhl/*.mhl",
        "sed -i /bbb/d t/ascmhl/*.mhl",
        "truncate -s -3 t/check*",
        "truncate -s 0 t/check*",
    ] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir t; echo a > t/aaa; echo b > t/bbb.MOV; case \"{hurt}\" in *check*) $S verify t --make-list -q;;
             *) $S verify t --mhl -q;; esac; {hurt}; echo BAD > t/aaa; echo BAD > t/bbb.MOV
             find t | sort > before; $S verify t && exit 9; $S verify t --make-list=md5 && exit 9
             $S verify t --make-list=md5 --accept bbb.MOV && exit 9; find t | sort | cmp - before"
        ));
        assert_eq!(code, 0, "{hurt}: {stdout} {stderr}");
    }
}

#[test]
fn a_list_that_its_chain_does_not_vouch_for_repairs_nothing() {
    for forged in [
        "sed -i \"s#\\(<xxh128[^>]*>\\)[0-9a-f]*#\\1$h#\" t/ascmhl/0001*",
        "cp g/ascmhl/0001*.mhl t/ascmhl/0002_g_2026-12-01_000000Z.mhl",
    ] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir t g; echo good > t/a; $S verify t --mhl -q; echo evil > g/a; $S verify g --mhl -q
             h=$(grep -o '<xxh128[^<]*' g/ascmhl/0001* | sed 's/.*>//'); {forged}
             fails $S copy g t --repair; grep -x good t/a"
        ));
        assert_eq!(code, 0, "{forged}: {stdout} {stderr}");
    }
}

#[test]
fn no_list_below_that_its_own_chain_or_the_list_above_does_not_vouch_for_repairs_anything() {
    let hash = "h=$(grep -o '<xxh128[^<]*' g/sub/ascmhl/0001* | sed 's/.*>//;q')";
    for forged in [
        // A list that was changed, and one that was put there.
        "sed -i \"s#\\(<xxh128[^>]*>\\)[0-9a-f]*#\\1$h#\" t/sub/ascmhl/0001*",
        "cp g/sub/ascmhl/0001*.mhl t/sub/ascmhl/0002_g_2036-12-01_000000Z.mhl",
        // The whole history, with a chain that vouches for it.
        "rm -r t/sub/ascmhl; cp -r g/sub/ascmhl t/sub; mv t/sub/ascmhl/0001* t/sub/ascmhl/$old
         sed -i \"s#<path>.*</path>#<path>$old</path>#\" t/sub/ascmhl/ascmhl_chain.xml",
    ] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir -p t/sub/deep g/sub/deep; echo good > t/sub/a; echo good > t/sub/deep/b; echo top > t/c
             $S verify t/sub/deep --mhl -q; $S verify t/sub --mhl -q; $S verify t --mhl -q
             cp -r t whole; cp t/c g; echo evil > g/sub/a; echo good > g/sub/deep/b; sleep 1; $S verify g/sub --mhl -q
             old=$(cd t/sub/ascmhl; ls 0001*); {hash}; {forged}
             fails $S copy g t --repair; grep -x good t/sub/a; grep -x good t/sub/deep/b
             echo BAD > t/c; fails $S copy g t --repair; grep -x top t/c
             echo BAD > whole/c; $S copy t whole --repair"
        ));
        assert_eq!(code, 0, "{forged}: {stdout} {stderr}");
    }
}

#[test]
fn a_destination_keeps_its_history_whole() {
    let cards = "mkdir card; echo a > card/a; $S verify card --mhl -q; $S copy card disk --mhl -q; sleep 1";
    for overwrite in ["", "--overwrite different", "--mirror", "--overwrite always"] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} {cards}; $S verify card --mhl -q; find disk/ascmhl -type f | sort | xargs sha256sum > before
             fails $S copy card disk {overwrite}; sha256sum -c --quiet before; find disk/ascmhl -type f | sort > after
             cut -c 67- before | cmp - after; $S verify disk; $S verify disk --mhl"
        ));
        let is_said = stderr.contains("a history of its own");
        assert!(code == 0 && is_said, "{overwrite}: {stdout} {stderr}");
    }
    // Another card, and one that continues what is there, or is continued by it.
    let (code, stdout, stderr) = script(&format!(
        "{FAILS} {cards}; mkdir other; echo b > other/b; $S verify other --mhl -q; fails $S copy other disk
         test -e disk/b; $S verify disk --mhl --allow-extra; $S copy card disk; $S copy disk third; sleep 1
         $S verify disk --mhl; $S copy disk third --overwrite different; $S verify third; $S copy third disk; $S verify disk"
    ));
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn a_list_from_an_hour_ahead_is_named() {
    let (code, stdout, stderr) = script(
        "mkdir t; echo a > t/a; $S verify t --make-list -q
         mv t/check* t/checksums-$(date -u -d '+1 hour' +%Y-%m-%d_%H%M%S)Z.sha256; $S verify t",
    );
    assert!(code == 0 && stderr.contains("still to come"), "{stdout} {stderr}");
}

#[test]
fn a_new_list_counts_for_more_than_one_that_a_clock_ahead_has_dated() {
    let ahead = "mv t/check*.sha256 t/checksums-2199-12-31_235959Z.sha256";
    for (make, new) in [
        ("$S verify t --proof --accept a", "t/checksums-2200-01-01_000000Z.sha256"),
        ("rm t/a; $S copy good t --proof", "t/checksums-2200-01-01_000000Z.blake3"),
    ] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir t good; head -c 2M /dev/zero > t/a; $S verify t --make-list -q; {ahead}
             head -c 3M /dev/zero > t/a; cp t/a good; fails $S verify t -q; {make}
             test -e {new}; test -d t/checksums-2200-01-01_000000Z.proofs; $S verify t -q
             $S verify t --mhl -q; ls t/ascmhl | {{ ! grep 2200; }}"
        ));
        let note = format!("{new} is dated one second after the newest list there");
        assert!(code == 0 && stderr.contains(&note), "{make}: {stdout} {stderr}");
    }
}

#[test]
fn extras_are_named_beside_a_broken_chain_unless_a_list_is_lost() {
    for (hurt, said) in [
        ("echo nonsense > t/ascmhl/ascmhl_chain.xml", "t/ascmhl/ascmhl_chain.xml"),
        ("rm t/ascmhl/ascmhl_chain.xml", "which should have the hashes"),
        ("echo '<!-- -->' >> t/ascmhl/0001*", "is not the list that the chain has the hash of"),
    ] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir t; echo a > t/a; $S verify t --mhl -q; echo m > t/more; {hurt}; fails $S verify t"
        ));
        let is_named = stdout.contains("extra       more") && stderr.contains(said);
        assert!(code == 0 && is_named, "{hurt}: {stdout} {stderr}");
    }
    // What it said may be all that there is of a file.
    let (code, stdout, stderr) = script(&format!(
        "{FAILS} mkdir t; echo a > t/a; $S verify t --mhl -q; echo m > t/more; sleep 1; $S verify t --mhl -q
         rm t/ascmhl/0002*; fails $S verify t"
    ));
    assert!(code == 0 && !stdout.contains("extra") && stderr.contains("is not there"), "{stdout} {stderr}");
}

#[test]
fn each_name_of_a_file_is_listed_whichever_was_first_met() {
    for kept in ["a", "b", "c"] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir s d; echo aa > s/a; ln s/a s/b; ln s/a s/c; echo other > d/{kept}
             fails $S copy s d --list --mhl; sed -E 's/^[0-9a-f]+ [ *]//' d/check*.sha256 | sort > listed
             ls d | grep -v -e check -e ascmhl -e {kept} | cmp - listed; $S verify d --allow-extra"
        ));
        assert_eq!(code, 0, "{kept}: {stdout} {stderr}");
    }
}

#[test]
fn what_is_accepted_is_accepted_or_it_is_said_what_keeps_it() {
    let (code, stdout, stderr) = script(&format!(
        "{FAILS} mkdir s; echo a > s/a; echo b > s/b; $S verify s --make-list -q; old=$(cd s; ls check*); sleep 1
         $S copy s d --list -q; rm d/b; sleep 1; find d | sort > before
         $S verify d --make-list --accept b && exit 9; find d | sort | cmp - before
         $S verify d --make-list --accept b --accept $old; test ! -e d/$old; $S verify d
         sleep 1; echo more >> d/a; $S verify d --make-list --accept a; $S verify d"
    ));
    assert!(code == 0 && stderr.contains("because another list has it"), "{stdout} {stderr}");
}

#[test]
fn a_part_of_a_file_of_another_length_does_not_match() {
    for (len, said) in [("3M", "as listed"), ("7M", "as listed")] {
        let (code, stdout, stderr) = script(&format!(
            "{FAILS} mkdir t; head -c 5M /dev/urandom > t/f; $S verify t --proof -q; $S verify --range 0..1MiB t/f
             truncate -s {len} t/f; fails $S verify --range 0..1MiB t/f; fails $S verify --range 0.. t/f
             fails $S verify --range 0..1MiB t/f --json | grep '\"other_size\": *5242880'"
        ));
        let is_said = stdout.contains("the list is of a file of 5,242,880 bytes") && stdout.contains(said);
        assert!(code == 0 && is_said, "{len}: {stdout} {stderr}");
    }
}
