//! `stook pack --delete`: records of files that are gone from the tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::Arc;

use stook::pack::format::attributes::{CTIME_NS, INODE, Name, Value};
use stook::pack::{OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};

use super::packs::{Place, documented, make_long_file};
use super::{ended, send, stook, wait_until};

fn write(place: &Place, name: &str, bytes: impl AsRef<[u8]>) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// `stook ARGS…` in the directory of the place; nothing may fail.
fn run(place: &Place, args: &[&str]) -> (String, String) {
    let (code, stdout, stderr) = ended(stook(args).current_dir(place.dir.path()));
    assert_eq!(code, 0, "{args:?}: {stdout}{stderr}");
    (stdout, stderr)
}

fn json(place: &Place, args: &[&str]) -> (i32, serde_json::Value) {
    let (code, stdout, stderr) = ended(stook([args, &["--json"]].concat()).current_dir(place.dir.path()));
    let value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{args:?}: {stdout}{stderr}"));
    documented("pack", &value);
    (code, value)
}

/// The keys of the pack but the empty one.
fn keys(place: &Place) -> Vec<String> {
    run(place, &["ls", "p.stook"]).0.lines().filter(|key| *key != "bytes:").map(str::to_owned).collect()
}

fn same(place: &Place, left: &str, right: &str) {
    let mut diff = Command::new("diff");
    let diff = diff.args(["-r", "--no-dereference"]).arg(place.path(left)).arg(place.path(right));
    let output = diff.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn what_is_gone_is_deleted_and_nothing_else_and_a_second_run_does_nothing() {
    let place = Place::new();
    for name in ["tree/a", "tree/b/c", "tree/b/d", "tree/e/f/g"] {
        write(&place, name, name);
    }
    symlink("a", place.path("tree/l")).unwrap();
    run(&place, &["pack", "tree", "p.stook"]);
    run(&place, &["put", "p.stook", "id:7", "tree/a"]);
    let put = super::packs::fed(stook(["put", "p.stook", "note", "-"]).current_dir(place.dir.path()), b"x");
    assert_eq!(put.0, 0, "{}", put.2);
    fs::remove_file(place.path("tree/b/c")).unwrap();
    fs::remove_file(place.path("tree/l")).unwrap();
    fs::remove_dir_all(place.path("tree/e")).unwrap();
    let before = keys(&place);
    assert_eq!(before, ["a", "b", "b/c", "b/d", "e", "e/f", "e/f/g", "l", "note", "id:7"]);

    let (stdout, _) = run(&place, &["pack", "tree", "p.stook", "--delete", "--force", "--dry-run"]);
    let reported: Vec<&str> = stdout.lines().collect();
    assert_eq!(reported[..5], ["b/c", "e", "e/f", "e/f/g", "l"], "{stdout}");
    assert!(reported[5].ends_with("; 5 deleted") && reported[5].starts_with("Would"), "{stdout}");
    let (_, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force", "--dry-run"]);
    assert_eq!(report["gone"][0], serde_json::json!({ "key": "b/c" }), "{report}");
    assert_eq!(keys(&place), before, "nothing was done");
    let (_, report) = json(&place, &["pack", "tree", "p.stook"]);
    assert_eq!((&report["deleted"], keys(&place)), (&0.into(), before), "only if it is asked for");

    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!((code, &report["deleted"], &report["complete"]), (0, &5.into(), &true.into()), "{report}");
    assert_eq!(keys(&place), ["a", "b", "b/d", "note", "id:7"]);
    run(&place, &["check", "p.stook"]);
    let (_, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!((&report["deleted"], &report["replaced"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(report["unchanged"], 4);
}

#[test]
fn a_directory_that_became_a_file_or_a_link_takes_its_records_along() {
    let place = Place::new();
    for name in ["tree/file/x", "tree/link/x", "tree/other/x"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "tree", "p.stook"]);
    fs::remove_dir_all(place.path("tree/file")).unwrap();
    fs::remove_dir_all(place.path("tree/link")).unwrap();
    write(&place, "tree/file", "now a file");
    symlink("other", place.path("tree/link")).unwrap();
    let (_, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!(report["deleted"], 2, "{report}");
    assert_eq!(keys(&place), ["file", "link", "other", "other/x"]);
    run(&place, &["unpack", "p.stook", "out"]);
    same(&place, "tree", "out");
}

#[test]
fn a_root_that_became_a_file_takes_the_records_below_it_along() {
    let place = Place::new();
    for name in ["a/x", "b/x", "b/deep/y"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "a", "b", "p.stook"]);
    fs::remove_dir_all(place.path("b")).unwrap();
    write(&place, "b", "now a file");
    let (_, report) = json(&place, &["pack", "a", "b", "p.stook", "--delete", "--force"]);
    assert_eq!(report["deleted"], 3, "{report}");
    assert_eq!(keys(&place), ["a", "a/x", "b"]);
}

#[test]
fn what_was_left_out_is_not_gone() {
    let place = Place::new();
    for name in ["tree/tmp/a", "tree/tmp/deep/b", "tree/c.txt", "tree/d.jpg", "tree/e/f.jpg"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "tree", "p.stook"]);
    for name in ["tmp/a", "tmp/deep/b", "c.txt", "d.jpg", "e/f.jpg"] {
        fs::remove_file(place.path("tree").join(name)).unwrap();
    }
    run(
        &place,
        &["pack", "tree", "p.stook", "--delete", "--force", "--exclude", "tmp", "--include", "*.jpg"],
    );
    assert_eq!(keys(&place), ["c.txt", "e", "tmp", "tmp/a", "tmp/deep", "tmp/deep/b"]);
    fs::remove_dir_all(place.path("tree/tmp")).unwrap();
    run(&place, &["pack", "tree", "p.stook", "--delete", "--force", "--exclude", "deep"]);
    assert_eq!(keys(&place), ["e", "tmp/deep", "tmp/deep/b"]);
    run(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!(keys(&place), ["e"]);
}

#[test]
fn nothing_is_deleted_beside_what_failed() {
    let place = Place::new();
    for name in ["tree/bad/gone", "tree/bad/sub/gone", "tree/good/gone", "tree/good/stays", "tree/gone"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "tree", "p.stook"]);
    for name in ["bad/gone", "bad/sub/gone", "good/gone", "gone"] {
        fs::remove_file(place.path("tree").join(name)).unwrap();
    }
    // Keys are at most 65,535 bytes long: that fails even for root.
    let part = "d".repeat(255);
    let script =
        format!("d={part}; cd tree/bad && for i in $(seq 260); do mkdir $d && cd -P $d || exit 1; done");
    let mut shell = Command::new("sh");
    assert!(shell.arg("-c").arg(script).current_dir(place.dir.path()).status().unwrap().success());
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!((code, &report["deleted"], &report["uncertain"]), (1, &2.into(), &2.into()), "{report}");
    let left = |key: &str| keys(&place).iter().any(|left| left == key);
    assert!(left("bad/gone") && left("gone") && left("good/stays"));
    // Where it is missing all was read: what failed lies elsewhere.
    assert!(!left("bad/sub/gone") && !left("good/gone"));
    fs::remove_dir_all(place.path("tree/bad").join(&part)).unwrap();
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!((code, &report["uncertain"], &report["complete"]), (0, &0.into(), &true.into()), "{report}");
    assert_eq!(keys(&place), ["bad", "bad/sub", "good", "good/stays"]);
}

#[test]
fn an_interrupted_run_and_one_without_its_root_delete_nothing() {
    let place = Place::new();
    write(&place, "tree/gone", "x");
    run(&place, &["pack", "tree", "p.stook"]);
    fs::remove_file(place.path("tree/gone")).unwrap();
    fs::rename(place.path("tree"), place.path("away")).unwrap();
    let (code, ..) =
        ended(stook(["pack", "tree", "p.stook", "--delete", "--force"]).current_dir(place.dir.path()));
    assert_eq!((code, keys(&place)), (1, vec!["gone".to_owned()]));
    fs::rename(place.path("away"), place.path("tree")).unwrap();
    make_long_file(&place);
    let segments = || {
        let files = fs::read_dir(&place.pack).unwrap().map(|file| file.unwrap());
        files.filter(|file| file.file_name().to_string_lossy().starts_with("segment-")).count()
    };
    let before = segments();
    let mut command = stook(["pack", "tree", "p.stook", "--delete", "--force"]);
    let child = command.current_dir(place.dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    wait_until(&mut child, || segments() != before);
    send("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(keys(&place), ["gone"]);
}

#[test]
fn a_name_that_held_the_content_of_others_leaves_it_to_them() {
    let place = Place::new();
    for (first, others) in [("tree/a", &["tree/b"][..]), ("tree/k", &["tree/l", "tree/m"])] {
        write(&place, first, first);
        for other in others {
            fs::hard_link(place.path(first), place.path(other)).unwrap();
        }
    }
    run(&place, &["pack", "tree", "p.stook", "--threads", "1"]);
    // Whichever of them holds the content, one of these removals hits it.
    for (gone, deleted) in [("tree/a", 1), ("tree/k", 1), ("tree/l", 1)] {
        fs::remove_file(place.path(gone)).unwrap();
        let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
        assert_eq!((code, &report["deleted"]), (0, &deleted.into()), "{report}");
        assert_eq!(report["held"], serde_json::json!([]), "{report}");
        let out = format!("out-{}", gone.replace('/', "-"));
        run(&place, &["unpack", "p.stook", &out]);
        same(&place, "tree", &out);
    }
    assert_eq!(keys(&place), ["b", "m"]);
}

#[test]
fn content_that_a_name_outside_needs_stays_and_is_reported() {
    let place = Place::new();
    write(&place, "tree/a", "shared");
    fs::hard_link(place.path("tree/a"), place.path("tree/b")).unwrap();
    run(&place, &["pack", "tree", "p.stook"]);
    // Either may have been found first.
    let a_holds_it = json_line(&run(&place, &["ls", "-l", "--json", "p.stook", "a"]).0)["kind"] == "file";
    let (gone, left) = if a_holds_it { ("a", "b") } else { ("b", "a") };
    fs::remove_file(place.path("tree").join(gone)).unwrap();
    let args = ["pack", "tree", "p.stook", "--delete", "--force", "--exclude", left];
    let (stdout, stderr) = run(&place, &args);
    assert!(!stdout.contains("deleted"), "{stdout}");
    assert_eq!(stderr, format!("Kept: {gone} is gone, but holds the content of {left}, which stays.\n"));
    let (_, report) = json(&place, &args);
    assert_eq!(report["held"], serde_json::json!([{ "key": gone, "link": left }]), "{report}");
    assert_eq!(run(&place, &["get", "p.stook", gone]).0, "shared");
    run(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!(
        (keys(&place), run(&place, &["get", "p.stook", left]).0),
        (vec![left.into()], "shared".into())
    );
}

fn json_line(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn several_roots_answer_for_what_is_below_them() {
    let place = Place::new();
    for name in ["train/a", "train/b", "test/a", "loose"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "train", "test", "loose", "p.stook"]);
    run(&place, &["put", "p.stook", "other/a", "loose"]);
    fs::remove_file(place.path("train/b")).unwrap();
    fs::remove_file(place.path("test/a")).unwrap();
    let (_, report) = json(&place, &["pack", "train", "loose", "p.stook", "--delete", "--force"]);
    assert_eq!(report["deleted"], 1, "{report}");
    assert_eq!(keys(&place), ["loose", "other/a", "test", "test/a", "train", "train/a"]);
    // With one root all keys would be others.
    let (code, _, stderr) =
        ended(stook(["pack", "train", "p.stook", "--delete", "--force"]).current_dir(place.dir.path()));
    assert_eq!(code, 2, "{stderr}");
    assert!(["/train ", "/test ", "/loose,"].iter().all(|root| stderr.contains(root)), "{stderr}");
    assert_eq!(keys(&place).len(), 6);
}

#[test]
fn a_group_is_all_that_is_looked_at() {
    let place = Place::new();
    for name in ["tree/x/a", "tree/x/b", "tree/y/c"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "tree", "p.stook", "--group-by", "top"]);
    run(&place, &["put", "p.stook", "x/by-hand", "tree/x/a", "--group", "mine"]);
    fs::remove_file(place.path("tree/x/a")).unwrap();
    fs::remove_file(place.path("tree/y/c")).unwrap();
    run(&place, &["pack", "tree", "p.stook", "--group", "y", "--delete", "--force"]);
    assert_eq!(keys(&place), ["x", "x/a", "x/b", "x/by-hand", "y"]);
    run(&place, &["pack", "tree", "p.stook", "--group-by", "top", "--delete", "--force"]);
    assert_eq!(keys(&place), ["x", "x/b", "x/by-hand", "y"]);
    run(&place, &["pack", "tree", "p.stook", "--delete", "--force"]);
    assert_eq!(keys(&place), ["x", "x/b", "y"], "without a group all of them");
}

#[test]
fn an_empty_group_is_a_variable_that_is_not_set_until_more_is_said() {
    let place = Place::new();
    for name in ["tree/a", "tree/b", "tree/c", "note"] {
        write(&place, name, name);
    }
    run(&place, &["pack", "tree", "p.stook"]);
    run(&place, &["put", "p.stook", "x", "note", "--group", "mine"]);
    fs::remove_file(place.path("tree/a")).unwrap();
    let before = keys(&place);
    let delete = ["pack", "tree", "p.stook", "--delete", "--group", ""];
    for more in [&[][..], &["--dry-run"]] {
        let (code, _, stderr) = ended(stook([&delete[..], more].concat()).current_dir(place.dir.path()));
        assert!(code == 2 && stderr.contains("--group '' means the default group"), "{code} {stderr}");
        assert!(stderr.contains("is a variable not set?"), "{stderr}");
        assert_eq!(keys(&place), before);
    }
    run(&place, &[&delete[..], &["--max-delete", "1"]].concat());
    assert_eq!(keys(&place), ["b", "c", "x"]);
    run(&place, &["pack", "tree", "p.stook", "--group", ""]);
}

/// All paths below a directory, sorted.
fn paths(place: &Place, name: &str) -> Vec<String> {
    let mut find = Command::new("find");
    let output = find.args([name, "-mindepth", "1"]).current_dir(place.dir.path()).output().unwrap();
    let mut all: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    all.sort();
    all
}

#[test]
fn a_tree_moves_into_the_pack_and_comes_back() {
    let place = Place::new();
    for name in ["tree/a", "tree/b/c", "tree/b/deep/d", "tree/keep/e"] {
        write(&place, name, name);
    }
    write(&place, "tree/large", vec![9; 5_000_000]);
    fs::create_dir(place.path("tree/empty")).unwrap();
    fs::hard_link(place.path("tree/a"), place.path("tree/b/other")).unwrap();
    symlink("nowhere", place.path("tree/b/l")).unwrap();
    let made = Command::new("mkfifo").arg(place.path("tree/keep/pipe")).status().unwrap();
    assert!(made.success());
    let copied =
        Command::new("cp").args(["-a", "tree", "copy"]).current_dir(place.dir.path()).status().unwrap();
    assert!(copied.success());
    let before = paths(&place, "tree");
    let (_, report) = json(&place, &["pack", "tree", "p.stook", "--move", "--dry-run"]);
    assert_eq!((&report["moved"], paths(&place, "tree")), (&serde_json::Value::Null, before));

    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--move"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()), "{report}");
    let moved = &report["moved"];
    assert_eq!(
        (&moved["files"], &moved["symlinks"], &moved["directories"]),
        (&6.into(), &1.into(), &3.into())
    );
    assert_eq!(moved["bytes"], 5_000_000 + 6 + 8 + 13 + 11, "{report}");
    assert_eq!(paths(&place, "tree"), ["tree/keep", "tree/keep/pipe"]);
    run(&place, &["unpack", "p.stook", "out"]);
    fs::remove_file(place.path("copy/keep/pipe")).unwrap();
    same(&place, "copy", "out");
    let (stdout, _) = run(&place, &["pack", "tree", "p.stook", "--move"]);
    assert!(
        stdout.ends_with("; verified and removed 0 files, 0 symbolic links, 0 directories\n"),
        "{stdout}"
    );
    run(&place, &["unpack", "p.stook", "again"]);
    same(&place, "copy", "again");
}

#[test]
fn what_the_pack_does_not_hold_is_not_removed() {
    let place = Place::new();
    for name in ["tree/good", "tree/sub/secret", "tree/sub/hurt"] {
        write(&place, name, name);
    }
    let large: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    write(&place, "tree/large", &large);
    run(&place, &["pack", "tree", "p.stook"]);
    // Records that say to be of these very inodes, with other bytes: packing takes the files for
    // unchanged.
    forge(&place, "sub/secret", b"tree/sub/SECRET");
    forge(&place, "large", &[&large[..large.len() - 1], b"x"].concat());
    forge(&place, "sub/hurt", b"tree/sub/hurt");
    place.hurt(&super::packs::key("sub/hurt"), 3);
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--move"]);
    assert_eq!((code, &report["moved"]["files"]), (1, &1.into()), "{report}");
    let failures = report["failures"].as_array().unwrap();
    let failed: Vec<&str> = failures.iter().map(|failure| failure["key"].as_str().unwrap()).collect();
    assert_eq!(failed.len(), 3, "{report}");
    for key in ["large", "sub/hurt", "sub/secret"] {
        assert!(failed.contains(&key), "{report}");
    }
    assert_eq!(paths(&place, "tree"), ["tree/large", "tree/sub", "tree/sub/hurt", "tree/sub/secret"]);
    assert_eq!(fs::read(place.path("tree/sub/secret")).unwrap(), b"tree/sub/secret");
    // Compared by their bytes they are packed, and may go. That a record of them was damaged is
    // reported all the same.
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--move", "--checksum"]);
    assert_eq!((code, &report["files"], &report["moved"]["files"]), (1, &3.into(), &3.into()), "{report}");
    let damages = report["damages"].as_array().unwrap();
    assert!(damages.len() == 1 && damages[0]["key"] == "sub/hurt", "{report}");
}

/// Puts a record for a file of the tree that says to be of its inode as it is.
fn forge(place: &Place, key: &str, body: &[u8]) {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(place.path("tree").join(key)).unwrap();
    let key = super::packs::key(key);
    let path = place.path("p.stook");
    let pack = Pack::open_path(&path, OpenOptions::default()).unwrap();
    let mut attributes = pack.get(&key).unwrap().unwrap().head.attributes;
    let changed_ns = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
    attributes.set(Name::Id(CTIME_NS), Value::I64(changed_ns));
    attributes.set(Name::Id(INODE), Value::U64(metadata.ino()));
    let storage = Arc::new(LocalStorage::open(&path, LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::open(storage, WriterOptions::default()).unwrap();
    writer.put("", &key, &attributes, body).unwrap();
    writer.finish(true).unwrap();
}

#[test]
fn a_move_keeps_what_was_left_out_and_the_roots() {
    let place = Place::new();
    for name in ["one/a", "one/tmp/b", "one/c.txt", "two/d", "file"] {
        write(&place, name, name);
    }
    let args = ["pack", "one", "two", "file", "one/p.stook", "--exclude", "tmp", "--exclude", "*.txt"];
    let (_, report) = json(&place, &[&args[..], &["--move"]].concat());
    assert_eq!(
        (&report["moved"]["files"], &report["failures"]),
        (&3.into(), &serde_json::json!([])),
        "{report}"
    );
    assert!(place.path("two").is_dir() && !place.path("file").exists() && !place.path("one/a").exists());
    assert_eq!(fs::read(place.path("one/tmp/b")).unwrap(), b"one/tmp/b");
    assert_eq!(fs::read(place.path("one/c.txt")).unwrap(), b"one/c.txt");
    for (key, body) in [("one/a", "one/a"), ("two/d", "two/d"), ("file", "file")] {
        assert_eq!(run(&place, &["get", "one/p.stook", key]).0, body);
    }
    let both = ["pack", "one", "two", "one/p.stook", "--move", "--delete"];
    assert_eq!(ended(stook(both).current_dir(place.dir.path())).0, 2);
}

#[test]
fn archives_are_no_trees_to_mirror_or_to_remove() {
    let place = Place::new();
    write(&place, "tree/a", "x");
    let tar =
        Command::new("tar").args(["cf", "t.tar", "tree"]).current_dir(place.dir.path()).status().unwrap();
    assert!(tar.success());
    for option in ["--delete", "--move"] {
        let (code, _, stderr) =
            ended(stook(["pack", "t.tar", "p.stook", option]).current_dir(place.dir.path()));
        assert_eq!((code, place.pack.exists()), (2, false), "{stderr}");
    }
    assert!(place.path("t.tar").exists());
}

#[test]
fn more_than_half_of_a_tree_is_deleted_only_when_that_is_said() {
    let place = Place::new();
    for name in ["a", "b", "c", "d"] {
        write(&place, &format!("tree/{name}"), name);
    }
    run(&place, &["pack", "tree", "p.stook"]);
    let before = keys(&place);
    let refused = |args: &[&str], reported: &str| {
        let (code, report) = json(&place, args);
        assert_eq!((code, &report["deleted"]), (1, &0.into()), "{args:?}: {report}");
        assert!(report["refused"].as_str().unwrap().contains(reported), "{args:?}: {report}");
        let (_, _, stderr) = ended(stook(args).current_dir(place.dir.path()));
        assert!(stderr.contains("--max-delete N") && !stderr.contains('?'), "{stderr}");
        assert_eq!(keys(&place), before, "{args:?}");
    };
    // A mount point on which nothing is mounted, and another tree by mistake.
    fs::create_dir(place.path("empty")).unwrap();
    refused(&["pack", "empty", "p.stook", "--delete"], "4 of the 4 records");
    refused(&["pack", "empty", "p.stook", "--delete", "--max-delete", "3"], "more than the 3");
    let (code, report) = json(&place, &["pack", "empty", "p.stook", "--delete", "--dry-run"]);
    assert_eq!((code, report["gone"].as_array().unwrap().len()), (1, 4), "what would go is shown: {report}");
    // Nothing of that tree is packed then, and the dry run knows it.
    write(&place, "other/x", "x");
    for more in [&["--dry-run"][..], &[]] {
        let args = [&["pack", "other", "p.stook", "--delete"][..], more].concat();
        let (code, report) = json(&place, &args);
        let counts = ["files", "directories", "replaced", "unchanged", "bytes"].map(|name| &report[name]);
        assert!(code == 1 && counts.iter().all(|count| **count == 0), "{args:?}: {report}");
    }
    fs::remove_file(place.path("tree/a")).unwrap();
    fs::remove_file(place.path("tree/b")).unwrap();
    assert_eq!(json(&place, &["pack", "tree", "p.stook", "--delete"]).1["deleted"], 2, "half of them");
    assert_eq!(json(&place, &["pack", "empty", "p.stook", "--delete", "--max-delete", "2"]).1["deleted"], 2);
    for wrong in [&["--max-delete", "2"][..], &["--delete", "--force", "--max-delete", "2"]] {
        let mut command = stook([&["pack", "tree", "p.stook"], wrong].concat());
        assert_eq!(ended(command.current_dir(place.dir.path())).0, 2, "{wrong:?}");
    }
}

#[test]
fn a_pack_that_files_were_moved_into_remembers_that_it_may_hold_the_only_copy() {
    let place = Place::new();
    for name in ["a", "b", "c", "d", "e"] {
        write(&place, &format!("tree/{name}"), name);
    }
    run(&place, &["pack", "tree", "p.stook", "--move", "--exclude", "[bcde]"]);
    assert!(!place.path("tree/a").exists());
    run(&place, &["pack", "tree", "p.stook"]);
    run(&place, &["compact", "p.stook"]);
    let before = keys(&place);
    // One of five would go, and it is the only copy.
    let (code, report) = json(&place, &["pack", "tree", "p.stook", "--delete"]);
    assert_eq!(code, 1);
    assert!(report["refused"].as_str().unwrap().contains("moved into the pack"), "{report}");
    assert_eq!(keys(&place), before);
    run(&place, &["check", "p.stook", "--repair", "new.stook"]);
    let (code, _) = json(&place, &["pack", "tree", "new.stook", "--delete"]);
    assert_eq!(code, 1, "a repaired pack knows it too");
    assert_eq!(json(&place, &["pack", "tree", "p.stook", "--delete", "--max-delete", "1"]).1["deleted"], 1);
}
