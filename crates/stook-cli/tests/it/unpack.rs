//! `stook unpack`.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use stook::pack::format::attributes::{KIND, Name, Value};
use stook::pack::{Attributes, FileKind, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};

use super::packs::{Place, documented, key, refuses_what_is_no_pack};
use super::{send, stook, wait_until};

#[test]
fn records_that_were_put_come_out_as_files_and_numbers_are_reported() {
    let place = Place::filled();
    let (code, stdout, stderr) = place.run("unpack", &["out"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("Unpacked 5 files") && stdout.contains("1 failed"), "{stdout}");
    assert!(stderr.contains("id:7") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!(fs::read(place.path("out/a/two")).unwrap(), b"second");
    assert_eq!(fs::read(place.path("out/long")).unwrap(), super::packs::long_body());
}

#[test]
fn what_is_there_is_kept_and_reported() {
    let place = Place::filled();
    fs::create_dir_all(place.path("out/a")).unwrap();
    fs::write(place.path("out/a/one"), "mine").unwrap();
    let (_, stdout, stderr) = place.run("unpack", &["out"]);
    assert!(stderr.contains("a/one is there with other content, and was kept"), "{stderr}");
    assert!(stdout.contains("1 kept with other content"), "{stdout}");
    assert_eq!(fs::read(place.path("out/a/one")).unwrap(), b"mine");
    let (_, report) = place.json("unpack", &["out", "--overwrite", "always"]);
    documented("unpack", &report);
    assert_eq!((&report["kept"], &report["files"]), (&serde_json::json!([]), &5.into()));
    assert_eq!(fs::read(place.path("out/a/one")).unwrap(), b"first of all");
}

#[test]
fn files_are_made_durable_when_that_is_asked_and_a_tar_has_no_say_in_it() {
    let place = Place::filled();
    for when in ["file", "batch", "none"] {
        let _ = fs::remove_dir_all(place.path("out"));
        let (code, stdout, stderr) = place.run("unpack", &["out", "--durability", when]);
        assert_eq!(code, 1, "{stderr}");
        assert!(stdout.contains("Unpacked 5 files"), "{when}: {stdout}");
        assert_eq!(fs::read(place.path("out/a/two")).unwrap(), b"second", "{when}");
    }
    for wrong in [&["out", "--durability", "soon"][..], &["--tar", "x.tar", "--durability", "none"]] {
        let (code, _, stderr) = place.run("unpack", wrong);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("--durability"), "{stderr}");
    }
}

/// Before: it was said to be there with other content, and what was named for it changed nothing.
#[test]
fn a_directory_that_more_may_enter_is_said_to_be_one_and_what_sets_its_mode() {
    for archive in [false, true] {
        let place = Place::new();
        fs::create_dir_all(place.path("tree/d")).unwrap();
        fs::write(place.path("tree/d/a"), "packed").unwrap();
        let set_mode = |name: &str, mode: u32| {
            fs::set_permissions(place.path(name), std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
        };
        set_mode("tree/d", 0o750);
        let mut tar = std::process::Command::new("tar");
        tar.args(["cf", "x.tar", "-C", "tree", "d"]).current_dir(place.dir.path());
        assert!(tar.status().unwrap().success());
        assert_eq!(super::ended(stook(["pack", "tree", "p.stook"]).current_dir(place.dir.path())).0, 0);
        let from = if archive { "x.tar" } else { "p.stook" };
        let unpack = |more: &[&str]| {
            let args = [&["unpack", from, "out"][..], more].concat();
            super::ended(stook(args).current_dir(place.dir.path()))
        };
        assert_eq!(unpack(&[]).0, 0);
        set_mode("out/d", 0o777);
        for overwrite in ["never", "different"] {
            let (code, stdout, stderr) = unpack(&["--overwrite", overwrite]);
            assert_eq!(code, 1, "{stderr}");
            assert!(stderr.contains("d: more users may enter it than was recorded"), "{stderr}");
            assert!(stderr.contains("`--overwrite always` sets"), "{stderr}");
            assert!(!stderr.contains("other content"), "{stderr}");
            assert!(stdout.contains("; 1 directory that more may enter than was recorded"), "{stdout}");
        }
        // Before: the document did not say why.
        let (_, stdout, _) = unpack(&["--json"]);
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        documented("unpack", &report);
        assert_eq!(report["kept"], serde_json::json!([{ "key": "d", "why": "too_open" }]), "{report}");
        let (code, _, stderr) = unpack(&["--overwrite", "always"]);
        assert_eq!(code, 0, "{stderr}");
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(place.path("out/d")).unwrap());
        assert_eq!(mode & 0o777, 0o750);
    }
}

/// Before: of a pack only the name was said, and of a link that it is no directory.
#[test]
fn what_is_in_the_way_is_said_with_its_path_and_as_what_it_is() {
    for from in ["x.tar", "p.stook"] {
        let place = Place::new();
        fs::create_dir_all(place.path("tree/d")).unwrap();
        fs::write(place.path("tree/d/a"), "packed").unwrap();
        let mut tar = std::process::Command::new("tar");
        tar.args(["cf", "x.tar", "-C", "tree", "d"]).current_dir(place.dir.path());
        assert!(tar.status().unwrap().success());
        assert_eq!(super::ended(stook(["pack", "tree", "p.stook"]).current_dir(place.dir.path())).0, 0);
        fs::create_dir_all(place.path("o/d/a")).unwrap();
        let unpack = |target: &str| {
            let args = ["unpack", from, target, "--overwrite", "always"];
            let (code, _, stderr) = super::ended(stook(args).current_dir(place.dir.path()));
            assert_eq!(code, 1, "{from}: {stderr}");
            stderr
        };
        let stderr = unpack("o");
        assert!(stderr.contains("cannot write o/d/a: is a directory"), "{from}: {stderr}");
        fs::create_dir(place.path("linked")).unwrap();
        std::os::unix::fs::symlink("/tmp", place.path("linked/d")).unwrap();
        let stderr = unpack("linked");
        let is_said = stderr.contains("linked/d is a symbolic link, and links are not followed");
        assert!(is_said && stderr.contains("for linked/d/a: "), "{from}: {stderr}");
    }
}

#[test]
fn a_damaged_record_is_reported_and_leaves_nothing() {
    let place = Place::filled();
    place.hurt(&key("long"), 3_000_000);
    place.hurt(&key("a/one"), 0);
    let (code, report) = place.json("unpack", &["out"]);
    assert_eq!(code, 1);
    let failures = report["failures"].as_array().unwrap();
    for name in ["long", "a/one"] {
        let of = |f: &&serde_json::Value| f["key"] == name;
        let failure = failures.iter().find(of).unwrap();
        assert!(failure["error"].as_str().unwrap().contains("is damaged at offset"), "{failure}");
        assert!(!place.path("out").join(name).exists());
    }
    assert_eq!(fs::read(place.path("out/a/two")).unwrap(), b"second");
}

#[test]
fn an_incomplete_pack_gives_what_it_has() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &key("x"), &Attributes::new(), b"x").unwrap();
    writer.finish(false).unwrap();
    let (code, _, stderr) = place.run("unpack", &["out"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("is incomplete"), "{stderr}");
    assert_eq!(fs::read(place.path("out/x")).unwrap(), b"x");
}

#[test]
fn exclusions_are_reported_as_pack_reports_them() {
    let place = a_tree();
    let run = |args: &[&str]| super::ended(stook(args).current_dir(place.dir.path()));
    let mut tar = std::process::Command::new("tar");
    assert!(
        tar.args(["cf", "x.tar", "-C", "tree", "."])
            .current_dir(place.dir.path())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(run(&["pack", "tree", "p.stook"]).0, 0);
    for from in ["p.stook", "x.tar"] {
        let nothing = format!("nothing to unpack: --exclude leaves nothing of {from}\n");
        let unmatched = "--exclude 'none' matched nothing.\n";
        for (number, (patterns, code, reported)) in [
            (&["--exclude", "*"][..], 0, nothing.clone()),
            (&["--exclude", "*", "--exclude", "none"], 0, [unmatched, &nothing].concat()),
            (&["--exclude", "none"], 0, unmatched.into()),
            (&["--exclude", "d", "--exclude", "long"], 0, String::new()),
            (&["--prefix", "d/", "--exclude", "d"], 0, nothing.clone()),
            (&["--prefix", "e/", "--exclude", "*"], 1, "--exclude '*' matched nothing.\n".into()),
            (&["--include", "none", "--exclude", "*"], 1, String::new()),
        ]
        .into_iter()
        .enumerate()
        {
            let out = format!("{from}-{number}");
            let (ended, _, stderr) = run(&[&["unpack", from, &out][..], patterns].concat());
            let reported = match code {
                0 => reported,
                _ => format!("{reported}stook: {from} has no path for "),
            };
            assert!(ended == code && stderr.starts_with(&reported), "{from} {patterns:?}: {ended} {stderr}");
            assert!(code != 0 || stderr == reported, "{from} {patterns:?}: {stderr}");
        }
        assert!(place.path(&format!("{from}-2/d/new")).exists());
        assert!(
            !place.path(&format!("{from}-3/d")).exists() && place.path(&format!("{from}-3/same")).exists()
        );
    }
    assert_eq!(
        run(&["unpack", "p.stook", "quiet", "--exclude", "*", "-q"]),
        (0, String::new(), String::new())
    );
    let (code, stdout, stderr) = run(&["unpack", "p.stook", "--tar", "-", "--exclude", "*"]);
    assert!(code == 0 && !stdout.contains("same") && stderr.starts_with("nothing to unpack"), "{stderr}");
}

/// Before: the summary was written into the tar, with exit code 0, and `--json` was ignored.
#[test]
fn a_tar_to_stdout_by_another_name_is_nothing_but_the_tar() {
    let place = Place::filled();
    let tar_to = |name: &str| {
        let output = place.command("unpack", &["--tar", name]).current_dir(place.dir.path()).output();
        output.unwrap().stdout
    };
    let tar = tar_to("-");
    assert!(tar.len() > super::packs::long_body().len());
    std::os::unix::fs::symlink("/proc/self/fd/1", place.path("own")).unwrap();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "own"] {
        assert!(tar_to(name) == tar, "{name}");
    }
    let mut command = place.command("unpack", &["--tar", "/dev/stdout"]);
    command.stdout(fs::File::create(place.path("x.tar")).unwrap()).stderr(Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(1), "the number is no path");
    assert!(fs::read(place.path("x.tar")).unwrap() == tar);
    for name in ["-", "/dev/stdout"] {
        let (code, stdout, stderr) = place.run("unpack", &["--tar", name, "--json"]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{name}: {stderr}");
        assert!(stderr.contains("the report goes to stdout: give --tar FILE"), "{stderr}");
    }
    let (code, stdout, stderr) = place.run("get", &["a/one", "--output", "/dev/stdout", "--json"]);
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
}

#[test]
fn the_document_says_whether_the_pack_is_complete() {
    for complete in [true, false] {
        let place = Place::new();
        let mut writer = place.writer();
        writer.put("", &key("x"), &Attributes::new(), b"x").unwrap();
        writer.set_complete(complete);
        writer.finish(complete).unwrap();
        for to in [&["out"][..], &["--tar", "x.tar"]] {
            let (code, report) = place.json("unpack", to);
            documented("unpack", &report);
            assert_eq!((code, &report["complete"]), (i32::from(!complete), &complete.into()), "{report}");
        }
        // Of an archive it says whether that ends as it should.
        let mut command = stook(["unpack", "x.tar", "again", "--json"]);
        let (code, stdout, _) = super::ended(command.current_dir(place.dir.path()));
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &report["complete"]), (0, &true.into()), "{report}");
    }
}

#[test]
fn places_that_make_no_sense_are_refused() {
    let place = Place::filled();
    fs::write(place.path("file"), "x").unwrap();
    let before = fs::read_dir(&place.pack).unwrap().count();
    for (target, reported) in
        [("p.stook", "inside the pack"), ("p.stook/out", "inside the pack"), ("file", "file")]
    {
        let (code, stdout, stderr) = place.run("unpack", &[target]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{target}: {stderr}");
        assert!(stderr.contains(reported), "{stderr}");
    }
    assert_eq!(fs::read_dir(&place.pack).unwrap().count(), before);
    assert_eq!(place.run("unpack", &["out", "--group", "absent"]).0, 1);
    assert_eq!(place.run("unpack", &["out", "--include", "["]).0, 2);
    assert!(!place.path("out").exists());
}

#[test]
fn what_is_no_pack_is_refused() {
    refuses_what_is_no_pack("unpack", &["out"]);
}

#[test]
fn ctrl_c_leaves_no_half_file() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &key("small"), &Attributes::new(), b"x").unwrap();
    // Long enough for a signal to come in time, and without a byte on the disk.
    let zeros = vec![0; 4 << 20];
    let none = Attributes::new();
    let mut record = writer.begin("", &key("long"), &none, Some(4 << 30)).unwrap();
    (0..(4 << 30) / zeros.len()).for_each(|_| record.write(&zeros).unwrap());
    record.finish().unwrap();
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let mut command = stook(["unpack", "p.stook", "out"]);
    let child = command.current_dir(place.dir.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let id = child.id();
    wait_until(&mut child, || files_without_their_names(&place, id) >= 2);
    send("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted, every file written is complete"));
    let left: Vec<_> = fs::read_dir(place.path("out")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["small"]);
}

/// How many files of the target the program has open that do not have their names yet: where the
/// file system has files without names, these, otherwise temporary ones.
fn files_without_their_names(place: &Place, process: u32) -> usize {
    let out = place.path("out").canonicalize().unwrap_or_default();
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return 0 };
    let paths = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    let is_waiting = |path: &std::path::Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.parent() == Some(&*out) && (name.ends_with(".part") || name.ends_with(" (deleted)"))
    };
    paths.filter(|path| is_waiting(path)).count()
}

#[test]
fn outputs_never_take_the_place_of_files_of_a_pack() {
    let place = Place::filled();
    let segment = fs::read_dir(&place.pack).unwrap().map(|file| file.unwrap().path());
    let segment = segment.into_iter().find(|path| path.to_string_lossy().contains("/segment-")).unwrap();
    let before = fs::read(&segment).unwrap();
    let segment = segment.to_str().unwrap();
    let refused = |command: &str, args: &[&str]| {
        let (code, _, stderr) = place.run(command, args);
        assert_eq!(code, 1, "{command} {args:?}: {stderr}");
        assert!(
            stderr.contains("only its writer puts files inside the pack"),
            "{command} {args:?}: {stderr}"
        );
        assert_eq!(fs::read(segment).unwrap(), before, "{command} {args:?}");
    };
    refused("unpack", &["--tar", segment]);
    refused("get", &["a/one", "-o", segment]);
    refused("get", &["a/one", "a/two", "--concat", "-o", segment]);
    refused("get", &["a/one", "a/two", "-o", "p.stook/"]);
    refused("get", &["a/one", "a/two", "-o", "p.stook/new/"]);
    refused("unpack", &["p.stook/new", "--overwrite", "always"]);
    refused("unpack", &["new/../p.stook"]);
    refused("get", &["a/one", "a/two", "-o", "new2/../p.stook"]);
    // A pack below the target: a manifest of another would make it unreadable.
    let mut writer = PackWriter::create(
        Arc::new(LocalStorage::create(place.path("evil"), LocalStorageOptions::default()).unwrap()),
        WriterOptions::default(),
    )
    .unwrap();
    for name in [
        "p.stook/manifest-0000000000000099",
        "p.stook/segment-0000000000000099",
        "fresh/manifest-0000000000000001",
        "fresh/segment-0000000000000001",
    ] {
        writer.put("", &key(name), &Attributes::new(), b"evil").unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let sh = |script: &str| {
        let done =
            std::process::Command::new("sh").args(["-ec", script]).current_dir(place.dir.path()).status();
        assert!(done.unwrap().success(), "{script}");
    };
    for target in [".", "linked"] {
        sh("rm -rf fresh linked; mkdir linked; cp -r p.stook linked/p.stook");
        let (code, report) = {
            let mut command = stook(["unpack", "evil", target, "--json", "--overwrite", "always"]);
            let (code, stdout, _) = super::ended(command.current_dir(place.dir.path()));
            (code, serde_json::from_str::<serde_json::Value>(&stdout).unwrap())
        };
        assert_eq!((code, report["failures"].as_array().unwrap().len()), (1, 2), "{report}");
        // What makes up a pack comes out where none was.
        assert_eq!(report["files"], 2, "{report}");
    }
    let mut command = stook([
        "get",
        "evil",
        "p.stook/manifest-0000000000000099",
        "fresh/manifest-0000000000000001",
        "-o",
        ".",
    ]);
    assert_eq!(super::ended(command.current_dir(place.dir.path())).0, 1);
    assert!(!place.pack.join("manifest-0000000000000099").exists());
    assert_eq!(place.run("check", &[]).0, 0);
}

/// Records, some of which cannot be files of one tree.
fn awkward() -> Place {
    let place = Place::new();
    let mut writer = place.writer();
    let plain = Attributes::new();
    let kind = |kind| Attributes::of_file(kind, 0o644, 1_700_000_000_000_000_000, None);
    writer.put("", &key("h/i"), &plain, b"whole").unwrap();
    writer.put("", &key("h//i"), &plain, b"empty part").unwrap();
    writer.put("", &key("./dot"), &plain, b"dot").unwrap();
    writer.put("", &key("d"), &plain, b"a file").unwrap();
    writer.put("", &key("d-beside"), &plain, b"beside").unwrap();
    writer.put("", &key("d/x"), &plain, b"below a file").unwrap();
    for (name, first) in [("ring1", "ring2"), ("ring2", "ring1"), ("own", "own"), ("nowhere", "gone")] {
        writer.put("", &key(name), &kind(FileKind::HardLink), first.as_bytes()).unwrap();
    }
    writer.put("", &key("dir"), &kind(FileKind::Directory), b"").unwrap();
    writer.put("", &key("of-dir"), &kind(FileKind::HardLink), b"dir").unwrap();
    writer.put("", &key("file"), &kind(FileKind::File), b"shared").unwrap();
    writer.put("", &key("name1"), &kind(FileKind::HardLink), b"file").unwrap();
    writer.put("", &key("name2"), &kind(FileKind::HardLink), b"name1").unwrap();
    let mut fifo = kind(FileKind::File);
    fifo.set(Name::Id(KIND), Value::U8(5));
    writer.put("", &key("fifo"), &fifo, b"x").unwrap();
    writer.put("", &key("cut-link"), &kind(FileKind::Symlink), b"a\0b").unwrap();
    writer.put("", &key("no-link"), &kind(FileKind::Symlink), b"").unwrap();
    writer.put("", &key("link"), &kind(FileKind::Symlink), b"h/i").unwrap();
    writer.put("apart", &key("elsewhere"), &kind(FileKind::File), b"other group").unwrap();
    writer.put("", &key("name3"), &kind(FileKind::HardLink), b"elsewhere").unwrap();
    writer.set_complete(true);
    writer.finish(true).unwrap();
    place
}

#[test]
fn a_tar_has_what_unpacking_makes_and_fails_where_that_fails() {
    let place = awkward();
    let reported = |report: &serde_json::Value| -> Vec<String> {
        let failures = report["failures"].as_array().unwrap().iter();
        let mut keys: Vec<String> = failures.map(|one| one["key"].as_str().unwrap().to_owned()).collect();
        // Of `d` and `d/x` one is in the way of the other: which one depends on the order of
        // writing.
        keys.iter_mut().filter(|key| *key == "d").for_each(|key| key.push_str("/x"));
        keys.sort();
        keys
    };
    for group in [&[][..], &["--group", ""]] {
        let (code, unpacked) = place.json("unpack", &[&["out"][..], group].concat());
        assert_eq!(code, 1, "{unpacked}");
        let (code, exported) = place.json("unpack", &[&["--tar", "x.tar", "--force"][..], group].concat());
        assert_eq!(code, 1, "{exported}");
        assert_eq!(reported(&exported), reported(&unpacked), "{group:?}");
        assert_eq!(
            reported(&exported),
            [
                "./dot", "cut-link", "d/x", "fifo", "h//i", "no-link", "nowhere", "of-dir", "own", "ring1",
                "ring2"
            ]
        );
        fs::create_dir(place.path("gnu")).unwrap();
        let mut tar = std::process::Command::new("tar");
        assert!(
            tar.args(["xf", "x.tar", "-C", "gnu"]).current_dir(place.dir.path()).status().unwrap().success()
        );
        let mut diff = std::process::Command::new("diff");
        assert!(
            diff.args(["-r", "--no-dereference", "--exclude=d", "out", "gnu"])
                .current_dir(place.dir.path())
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(fs::read(place.path("gnu/name2")).unwrap(), b"shared");
        assert_eq!(fs::read(place.path("gnu/name3")).unwrap(), b"other group");
        fs::remove_dir_all(place.path("gnu")).unwrap();
        fs::remove_dir_all(place.path("out")).unwrap();
    }
    // A check reports names that lead to no file, and a repair those that it cannot save.
    let (code, report) = place.json("check", &[]);
    let damages = report["damages"].as_array().unwrap();
    let keys: Vec<_> = damages.iter().map(|damage| damage["key"].as_str().unwrap()).collect();
    assert_eq!((code, keys), (1, vec!["nowhere", "of-dir", "own", "ring1", "ring2"]), "{report}");
    let (code, report) = place.json("check", &["--repair", "new.stook"]);
    assert_eq!((code, report["damages"].as_array().unwrap().len()), (1, 5), "{report}");
}

#[test]
fn a_tar_that_is_there_is_kept_where_the_new_one_would_have_less() {
    let place = Place::new();
    let mut writer = place.writer();
    for name in ["a", "b"] {
        writer.put("", &key(name), &Attributes::new(), format!("body of {name}").as_bytes()).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let tar = |to: &str, more: &[&str]| place.run("unpack", &[&["--tar", to][..], more].concat());
    let listed = |name: &str| {
        let mut tar = std::process::Command::new("tar");
        let (code, stdout, stderr) = super::ended(tar.arg("-tf").arg(place.path(name)));
        assert_eq!((code, stderr.as_str()), (0, ""), "{name}");
        stdout
    };
    // A link that the user made is followed: its target is made, and then replaced.
    std::os::unix::fs::symlink("real.tar", place.path("link.tar")).unwrap();
    for _ in 0..2 {
        assert_eq!(tar("link.tar", &[]).0, 0);
        assert!(fs::symlink_metadata(place.path("link.tar")).unwrap().is_symlink());
        assert_eq!(listed("real.tar"), "a\nb\n");
        fs::write(place.path("real.tar"), "no tar").unwrap();
    }
    assert_eq!(tar("x.tar", &[]).0, 0);
    // Before: where exclusions left nothing the file stayed, and the exit code was 0.
    for (patterns, says) in
        [(["--include", "zz"], "has no path"), (["--exclude", "*"], "not replacing x.tar")]
    {
        let (code, stdout, stderr) = tar("x.tar", &patterns);
        assert_eq!((code, listed("x.tar").as_str()), (1, "a\nb\n"), "{patterns:?}: {stderr}");
        assert!(stdout.contains(" 0 directories") && stderr.contains(says), "{stdout}{stderr}");
    }
    assert_eq!((tar("new.tar", &["--include", "zz"]).0, place.path("new.tar").exists()), (1, false));
    place.hurt(&key("a"), 0);
    let (code, stdout, stderr) = tar("x.tar", &[]);
    assert_eq!((code, listed("x.tar").as_str()), (1, "a\nb\n"), "{stdout}{stderr}");
    assert!(
        stdout.contains("Unpacked 0 files") && stderr.contains("is damaged at offset"),
        "{stdout}{stderr}"
    );
    let kept = "x.tar: the new one would be empty or incomplete";
    assert!(stderr.contains(kept) && stderr.contains("--force"), "{stderr}");
    let (code, report) = place.json("unpack", &["--tar", "x.tar"]);
    documented("unpack", &report);
    // Before: "1 kept with other content".
    assert!(stdout.contains("; the file that was there is kept") && !stdout.contains("content"), "{stdout}");
    let kept = serde_json::json!([{ "key": "x.tar", "why": "incomplete" }]);
    assert_eq!((code, &report["kept"]), (1, &kept), "{report}");
    assert_eq!((&report["files"], report["failures"].as_array().unwrap().len()), (&0.into(), 1), "{report}");
    for more in [&[][..], &["--force"]] {
        assert_eq!((tar("new.tar", more).0, listed("new.tar").as_str()), (1, "b\n"), "{more:?}");
        fs::write(place.path("new.tar"), "of before").unwrap();
    }
    // Before: a pack of which all records were deleted took the place of a tar of all of them.
    let run = |args: &[&str]| super::ended(stook(args).current_dir(place.dir.path()));
    assert_eq!(run(&["put", "empty.stook", "a", "/dev/null"]).0, 0);
    assert_eq!(run(&["rm", "empty.stook", "a"]).0, 0);
    fs::copy(place.path("x.tar"), place.path("y.tar")).unwrap();
    for (more, code, left) in [(&[][..], 1, "a\nb\n"), (&["--force"], 0, "")] {
        let (ended, _, stderr) = run(&[&["unpack", "empty.stook", "--tar", "y.tar"], more].concat());
        assert_eq!((ended, listed("y.tar").as_str()), (code, left), "{stderr}");
    }
    fs::remove_file(place.path("p.stook/segment-0000000000000001")).unwrap();
    for patterns in [&[][..], &["--include", "zz"]] {
        let (code, stdout, stderr) = tar("x.tar", patterns);
        assert_eq!((code, listed("x.tar").as_str()), (1, "a\nb\n"), "{patterns:?}: {stdout}{stderr}");
    }
}

/// A tree with files of all kinds, and nothing made of it yet.
fn a_tree() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("tree/d")).unwrap();
    for (name, text) in [("same", "same"), ("older", "packed"), ("newer", "packed"), ("d/new", "new")] {
        fs::write(place.path("tree").join(name), text).unwrap();
    }
    let long: Vec<u8> = super::packs::long_body();
    fs::write(place.path("tree/long"), &long).unwrap();
    fs::hard_link(place.path("tree/older"), place.path("tree/name")).unwrap();
    std::os::unix::fs::symlink("same", place.path("tree/link")).unwrap();
    place
}

#[test]
fn what_is_there_is_compared_and_replaced_as_it_is_said() {
    let contents = |place: &Place, name: &str| fs::read_to_string(place.path(name)).unwrap();
    for archive in [false, true] {
        let place = a_tree();
        let long: Vec<u8> = super::packs::long_body();
        let sh = |script: &str| {
            let done =
                std::process::Command::new("sh").args(["-ec", script]).current_dir(place.dir.path()).status();
            assert!(done.unwrap().success(), "{script}");
        };
        sh("find tree -exec touch -h -d 2020-01-01 {} +; tar cf x.tar -C tree .");
        assert_eq!(super::ended(stook(["pack", "tree", "p.stook"]).current_dir(place.dir.path())).0, 0);
        let from = if archive { "x.tar" } else { "p.stook" };
        let unpack = |more: &[&str]| -> (i32, serde_json::Value) {
            let args = [&["unpack", from, "out", "--json"][..], more].concat();
            let (code, stdout, _) = super::ended(stook(args).current_dir(place.dir.path()));
            (code, serde_json::from_str(&stdout).unwrap())
        };
        let kept = |report: &serde_json::Value| -> Vec<String> {
            let mut all: Vec<String> = report["kept"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["key"].as_str().unwrap().into())
                .collect();
            all.sort();
            all
        };
        let begin = || {
            sh("rm -rf out; mkdir -p out/d; cp -a tree/same tree/long tree/link out
                echo other >out/older; touch -d 2019-01-01 out/older; echo other >out/newer
                echo other >out/name; touch -d 2019-01-01 out/name");
        };
        begin();
        let (code, report) = unpack(&[]);
        assert_eq!(
            (code, kept(&report)),
            (1, vec!["name".into(), "newer".into(), "older".into()]),
            "{report}"
        );
        assert_eq!((&report["unchanged"], &report["files"]), (&3.into(), &1.into()), "{report}");
        assert_eq!(contents(&place, "out/older"), "other\n");
        let (code, report) = unpack(&["--overwrite", "older"]);
        assert_eq!((code, kept(&report)), (1, vec!["newer".into()]), "{report}");
        assert_eq!(
            (contents(&place, "out/older"), contents(&place, "out/name")),
            ("packed".into(), "packed".into())
        );
        sh(
            "rm out/link; ln -s elsewhere out/link; printf x | dd of=out/long bs=1 seek=4999999 conv=notrunc 2>&1",
        );
        let inode =
            |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.path(name)).unwrap());
        let same = inode("out/same");
        let (code, report) = unpack(&["--overwrite", "different"]);
        assert_eq!((code, &report["files"], &report["symlinks"]), (0, &2.into(), &1.into()), "{report}");
        assert!(inode("out/same") == same && fs::read(place.path("out/long")).unwrap() == long);
        sh("diff -r --no-dereference tree out");
        begin();
        assert_eq!(unpack(&["--overwrite", "always"]).0, 0);
        sh("diff -r --no-dereference tree out; test out/older -ef out/name");
        let (code, report) = unpack(&[]);
        assert_eq!((code, &report["files"], kept(&report).len()), (0, &0.into(), 0), "{report}");
        // What is in the way and no file is never taken for one.
        sh("rm out/same; mkfifo out/same; rm out/newer; mkdir out/newer");
        let (code, report) = unpack(&[]);
        assert_eq!((code, kept(&report)), (1, vec!["same".into()]), "{report}");
        assert_eq!(report["failures"][0]["key"], "newer", "{report}");
    }
}

#[test]
fn of_many_files_that_stay_a_few_are_named() {
    let place = Place::new();
    let mut writer = place.writer();
    fs::create_dir(place.path("out")).unwrap();
    for number in 0..25 {
        writer.put("", &key(format!("{number:02}")), &Attributes::new(), b"packed").unwrap();
        fs::write(place.path("out").join(format!("{number:02}")), "mine").unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let (code, _, stderr) = place.run("unpack", &["out", "-q"]);
    assert_eq!((code, stderr.lines().count()), (1, 11), "{stderr}");
    assert!(stderr.contains("15 more were kept; `--verbose` names them all"), "{stderr}");
    let (_, _, stderr) = place.run("unpack", &["out", "-q", "--verbose"]);
    assert_eq!(stderr.matches("is there with other content").count(), 25, "{stderr}");
}
