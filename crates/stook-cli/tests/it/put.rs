//! `stook put`.

use std::fs;

use super::packs::{Place, documented, fed, long_body, refuses_what_is_no_pack};
use super::{send, stook, wait_until};

#[test]
fn a_file_and_stdin_come_back_and_a_missing_pack_is_made() {
    let place = Place::new();
    fs::write(place.path("in"), long_body()).unwrap();
    let (code, stdout, stderr) = place.run("put", &["file", "in"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("put 5.00 MB as file;") && stdout.contains("made "), "{stdout}");
    let (code, _, stderr) = fed(&mut place.command("put", &["id:9"]), &long_body());
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (code, _, _) = fed(&mut place.command("put", &["nothing", "-"]), b"");
    assert_eq!(code, 0);
    for (key, body) in [("file", long_body()), ("id:9", long_body()), ("nothing", Vec::new())] {
        assert!(place.command("get", &[key]).output().unwrap().stdout == body, "{key}");
    }
    let (code, report) = place.json("load", &[]);
    assert_eq!((code, &report["records"]), (0, &3.into()), "what put makes is complete: {report}");
}

#[test]
fn a_record_takes_the_place_of_an_older_one_and_numbers_rise() {
    let place = Place::new();
    fs::write(place.path("in"), "one").unwrap();
    let (code, first) = place.json("put", &["k", "in", "--group", "g"]);
    assert_eq!(code, 0);
    documented("put", &first);
    assert_eq!(
        (&first["created"], &first["replaced"], &first["group"]),
        (&true.into(), &false.into(), &"g".into())
    );
    fs::write(place.path("in"), "other").unwrap();
    let (_, second) = place.json("put", &["k", "in"]);
    assert_eq!((&second["created"], &second["replaced"]), (&false.into(), &true.into()));
    assert_eq!(second["body_bytes"], 5);
    assert!(second["sequence"].as_u64() > first["sequence"].as_u64());
    assert_eq!(place.run("get", &["k"]).1, "other");
    assert_eq!(place.run("check", &[]).0, 0);
}

#[test]
fn a_file_takes_its_mode_along_and_attributes_are_kept() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    fs::set_permissions(place.path("in"), fs::Permissions::from_mode(0o4711)).unwrap();
    assert_eq!(place.run("put", &["k", "in", "--attr", "source=a=b"]).0, 0);
    assert_eq!(place.json("ls", &["-l"]).1["mode"], 0o4711);
    let pack = stook::pack::Pack::open_path(&place.pack, stook::pack::OpenOptions::default()).unwrap();
    let record = pack.get(&super::packs::key("k")).unwrap().unwrap();
    let name = stook::pack::format::attributes::Name::Text("source".into());
    let value = stook::pack::format::attributes::Value::Text("a=b".into());
    assert_eq!(record.head.attributes.get(&name), Some(&value));
}

#[test]
fn what_cannot_be_put_changes_nothing() {
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    let long = "g".repeat(300);
    for (args, code) in [
        (&["k", "absent"][..], 1),
        (&["k", "in", "--group", long.as_str()], 1),
        (&["k", "."], 2),
        (&["id:x", "in"], 2),
        (&["k", "in", "--attr", "novalue"], 2),
        (&["k", "in", "--attr", "kind=x"], 2),
        (&["k", "in", "--attr", "inode=7"], 2),
        (&["k", "in", "--no-create"], 1),
    ] {
        assert_eq!(place.run("put", args).0, code, "{args:?}");
        assert!(!place.pack.exists(), "{args:?}");
    }
}

#[test]
fn an_unfinished_pack_stays_unfinished() {
    let place = Place::new();
    place.writer().finish(true).unwrap();
    fs::write(place.path("in"), "x").unwrap();
    assert_eq!(place.run("put", &["k", "in"]).0, 0);
    let (code, report) = place.json("load", &[]);
    assert_eq!((code, &report["records"], &report["complete"]), (1, &1.into(), &false.into()));
}

#[test]
fn another_writer_is_named() {
    let place = Place::new();
    let writer = place.writer();
    fs::write(place.path("in"), "x").unwrap();
    let (code, _, stderr) = place.run("put", &["k", "in"]);
    assert_eq!(code, 1);
    assert!(stderr.contains(&format!("process {}", std::process::id())), "{stderr}");
    drop(writer);
}

#[test]
fn what_is_no_pack_is_refused() {
    let place = Place::new();
    fs::write(place.path("in"), "x").unwrap();
    refuses_what_is_no_pack("put", &["k", place.path("in").to_str().unwrap(), "--no-create"]);
    fs::create_dir_all(place.pack.join("holidays")).unwrap();
    let (code, _, stderr) = place.run("put", &["k", "in"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("is not a pack"), "{stderr}");
}

/// The stream that the example in Python of `docs/formats/records-v1.md` writes.
fn python_stream() -> Vec<u8> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/records-v1.md");
    let page = fs::read_to_string(page).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let output = std::process::Command::new("python3").args(["-c", program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn entry(kind: u8, key: &[u8], body: &[u8]) -> Vec<u8> {
    let key_len = (key.len() as u16).to_le_bytes();
    [&[kind, 1][..], &key_len, &[0; 2], &(body.len() as u64).to_le_bytes(), key, body].concat()
}

fn end(entries: u64) -> Vec<u8> {
    [&[255, 0, 0, 0, 0, 0][..], &entries.to_le_bytes()].concat()
}

#[test]
fn the_documented_writer_in_python_fills_a_pack() {
    let place = Place::new();
    let stream = python_stream();
    let (code, stdout, stderr) = fed(&mut place.command("put", &["--batch", "--json"]), &stream);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let report = serde_json::from_slice(&stdout).unwrap();
    documented("put_batch", &report);
    assert_eq!(
        (&report["put"], &report["body_bytes"], &report["created"]),
        (&3.into(), &10.into(), &true.into())
    );
    assert_eq!(place.run("get", &["id:7"]).1, "seven");
    assert_eq!(place.run("get", &["greeting"]).1, "hello");
    // Again from a file, and everything is replaced.
    fs::write(place.path("stream"), &stream).unwrap();
    let (code, report) = place.json("put", &["--batch", "stream", "--group", "g"]);
    assert_eq!((code, &report["replaced"], &report["group"]), (0, &3.into(), &"g".into()));
    assert_eq!(place.run("check", &[]).0, 0);
}

#[test]
fn a_stream_that_is_cut_or_wrong_changes_nothing() {
    let place = Place::filled();
    let whole = [
        b"stook-records 1\n".to_vec(),
        entry(1, b"new", &[7; 100_000]),
        entry(2, b"a/one", b""),
        entry(1, b"a/two", b"newer"),
        entry(2, b"nobody", b""),
        end(4),
    ]
    .concat();
    let before = place.run("ls", &["-l"]).1;
    let wrong_count = [&whole[..whole.len() - 14], &end(5)].concat();
    let followed = [&whole[..], b"x"].concat();
    for (stream, said) in [
        (&whole[..whole.len() - 1], "cut short"),
        (&whole[..whole.len() - 14], "cut short"),
        (&whole[..5_000], "at offset 5000: it ends within a body"),
        (&whole[..10], "at offset 10"),
        (b"", "at offset 0"),
        (&wrong_count, "there were 4"),
        (&followed, "something follows"),
        (b"PK\x03\x04 and so on and on", "does not begin with"),
    ] {
        let (code, _, stderr) = fed(&mut place.command("put", &["--batch"]), stream);
        assert!(code == 1 && stderr.contains(said) && stderr.contains("stdin"), "{code}: {stderr}");
        assert_eq!(place.run("ls", &["-l"]).1, before);
        assert_eq!(place.run("check", &[]).0, 0);
    }
    let (code, stdout, stderr) = fed(&mut place.command("put", &["--batch", "-", "--json"]), &whole);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let report: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(
        (&report["put"], &report["replaced"], &report["deleted"], &report["missing"]),
        (&2.into(), &1.into(), &1.into(), &1.into())
    );
    let listed = place.run("ls", &[]).1;
    assert!(listed.contains("new\n") && !listed.contains("a/one"), "{listed}");
    assert_eq!(place.run("put", &["key", "--batch"]).0, 2);
    assert_eq!(place.run("put", &[]).0, 2);
}

#[test]
fn a_signal_ends_a_wait_for_input_and_what_its_producer_left_is_not_put() {
    use std::io::Write as _;
    let place = Place::filled();
    let before = place.run("ls", &["-l"]).1;
    let fifo = place.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    // Its progress shows in its output; a producer that is stopped as well closes its end.
    for (command, args, closes) in [
        ("put", &["k"][..], false),
        ("put", &["k"], true),
        ("put", &["k", fifo], false),
        ("put", &["--batch"], false),
        ("rm", &["--from-file", "-"], false),
        ("get", &["--from-file", "-", "--concat"], false),
    ] {
        for signal in ["-INT", "-TERM"] {
            let mut command = place.command(command, args);
            let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(b"stook-records 1\n").unwrap();
            // Until it handles signals, and waits: this cannot be observed from outside.
            std::thread::sleep(std::time::Duration::from_millis(300));
            send(signal, &child);
            if closes {
                drop(stdin);
                assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?} {signal}, and its input ended");
            } else {
                assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?} {signal}");
                drop(stdin);
            }
        }
    }
    assert_eq!(place.run("ls", &["-l"]).1, before);
    assert_eq!(place.run("check", &[]).0, 0);
}

/// Before: `timeout` signals the program and its group, and the second signal ended it before the
/// room was given back.
#[test]
fn two_signals_at_once_are_one_and_the_room_is_given_back() {
    use std::io::Write as _;
    let place = Place::filled();
    let length = || -> u64 {
        let files = fs::read_dir(&place.pack).unwrap().map(|entry| entry.unwrap().metadata());
        // One may go away meanwhile.
        files.filter_map(Result::ok).map(|metadata| metadata.len()).sum()
    };
    let before = (place.run("ls", &["-l"]).1, length());
    let mut child = place.command("put", &["k"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || while stdin.write_all(&long_body()).is_ok() {});
    wait_until(&mut child, || length() >= before.1 + (16 << 20));
    // Two that are not the same: one of two equal ones may be lost.
    let both = "kill -TERM $0; kill -HUP $0";
    let kill = std::process::Command::new("sh").args(["-c", both, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    feeder.join().unwrap();
    assert_eq!(place.run("ls", &["-l"]).1, before.0);
    assert!(length() < before.1 + (1 << 20), "{} of {}", length(), before.1);
}

#[test]
fn an_interrupted_stream_changes_nothing() {
    use std::io::Write as _;
    let place = Place::filled();
    let before = place.run("ls", &["-l"]).1;
    let mut command = place.command("put", &["--batch"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"stook-records 1\n").unwrap();
    stdin.write_all(&entry(1, b"new", &[7; 3_000_000])).unwrap();
    send("-INT", &child);
    // A read in progress continues: the next input is examined after the signal.
    let rest = [entry(1, b"more", b"x"), end(2)].concat();
    let written = stdin.write_all(&rest);
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{written:?}");
    assert_eq!(place.run("ls", &["-l"]).1, before);
    assert_eq!(place.run("check", &[]).0, 0);
}

/// Before: an empty pack was left, which said that it was complete.
#[test]
fn what_was_made_for_a_put_that_fails_is_taken_back() {
    use std::io::Write as _;
    let place = Place::new();
    for args in [&["k"][..], &["--batch"]] {
        let mut child = place.command("put", args).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"stook-records 1\n").unwrap();
        wait_until(&mut child, || place.pack.exists());
        send("-INT", &child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
        drop(stdin);
        assert!(!place.pack.exists(), "{args:?}");
    }
    // A directory that was there stays, without a file, and so does a pack.
    fs::create_dir(&place.pack).unwrap();
    let cut = [b"stook-records 1\n".to_vec(), entry(1, b"k", b"body")].concat();
    assert_eq!(fed(&mut place.command("put", &["--batch"]), &cut).0, 1);
    assert_eq!(fs::read_dir(&place.pack).unwrap().count(), 0);
    assert_eq!(fed(&mut place.command("put", &["k"]), b"x").0, 0);
    assert_eq!(fed(&mut place.command("put", &["--batch"]), &cut).0, 1);
    assert_eq!(place.run("get", &["k"]).1, "x");
}

#[test]
fn no_command_makes_a_pack_within_a_pack() {
    let place = Place::filled();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "x").unwrap();
    fs::write(place.path("in"), "x").unwrap();
    let mut tar = std::process::Command::new("tar");
    assert!(tar.args(["cf", "x.tar", "tree"]).current_dir(place.dir.path()).status().unwrap().success());
    // Also if a directory for it exists.
    for inner in ["p.stook/inner", "p.stook/made/below"] {
        fs::create_dir_all(place.path("p.stook/made/below")).unwrap();
        for args in [
            &["put", inner, "key", "in"][..],
            &["pack", "tree", inner],
            &["pack", "x.tar", inner],
            &["check", "p.stook", "--repair", inner],
        ] {
            let (code, _, stderr) = super::ended(stook(args).current_dir(place.dir.path()));
            let is_refused = stderr.contains("is a pack") || stderr.contains("is already there");
            assert!(code != 0 && is_refused, "{args:?}: {code} {stderr}");
        }
    }
    assert!(!place.path("p.stook/inner").exists());
    fs::remove_dir_all(place.path("p.stook/made")).unwrap();
    assert_eq!(place.run("check", &[]).1.lines().count(), 1, "nothing was left in it");
}

#[test]
fn an_address_is_refused_before_anything_is_read_or_made() {
    let place = Place::filled();
    let mut command = stook(["put", "p.stook//new/key", "in"]);
    // A pipe that is neither written nor closed.
    let child = command.current_dir(place.dir.path()).stdin(std::process::Stdio::piped());
    let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let ended = child.wait_with_output().unwrap();
    drop(stdin);
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("stook put p.stook new/key FILE"), "{stderr}");
    assert!(!place.path("p.stook/new").exists());
}

#[test]
fn an_address_without_a_key_is_not_taken_for_the_path_of_a_pack() {
    let place = Place::filled();
    let before = place.run("ls", &["-l"]).1;
    for pack in ["p.stook//", "new//"] {
        let mut command = stook(["put", pack, "in"]);
        let (code, stdout, stderr) = fed(command.current_dir(place.dir.path()), b"");
        assert_eq!((code, stdout.as_slice()), (2, &b""[..]), "{stderr}");
        assert!(stderr.contains("is a variable not set?"), "{stderr}");
    }
    assert_eq!(place.run("ls", &["-l"]).1, before);
    assert!(!place.path("new").exists());
}

#[test]
fn a_stdin_that_is_closed_is_not_put_as_nothing() {
    let place = Place::filled();
    for args in [&["a/one"][..], &["a/one", "-"]] {
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" put \"$@\" <&-", env!("CARGO_BIN_EXE_stook")])
            .arg(&place.pack)
            .args(args);
        let (code, _, stderr) = super::ended(&mut shell);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("stdin is closed"), "{stderr}");
        assert_eq!(place.run("get", &["a/one"]).1, "first of all");
    }
    // An explicit empty input may be put.
    let null = place.command("put", &["a/one"]).stdin(fs::File::open("/dev/null").unwrap()).output().unwrap();
    assert!(null.status.success());
    assert_eq!(place.run("put", &["a/two", "/dev/null"]).0, 0);
    for key in ["a/one", "a/two"] {
        assert_eq!(place.run("get", &[key]).1, "");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_without_a_length_is_read_to_its_end_and_an_empty_one_stays_a_file() {
    let place = Place::new();
    let version = fs::read("/proc/version").unwrap();
    assert!(!version.is_empty() && fs::metadata("/proc/version").unwrap().len() == 0);
    assert_eq!(place.run("put", &["version", "/proc/version"]).0, 0);
    assert_eq!(place.command("get", &["version"]).output().unwrap().stdout, version);
    fs::write(place.path("empty"), "").unwrap();
    let (code, report) = place.json("put", &["empty", "empty"]);
    assert_eq!((code, &report["body_bytes"]), (0, &0.into()));
    assert_eq!(place.json("ls", &["-l", "empty"]).1["kind"], "file");
}

/// Before: the pack stayed, empty and called complete, with a note that "the writer stopped".
#[test]
fn a_pack_that_is_made_for_what_does_not_fit_is_taken_back() {
    let place = Place::new();
    fs::write(place.path("in"), long_body()).unwrap();
    let mut limited = std::process::Command::new("sh");
    // No file may become as long as the body; that is an error of the write, not a signal.
    limited.args([
        "-c",
        "trap '' XFSZ; ulimit -f 200; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_stook"),
        "put",
    ]);
    limited.arg(&place.pack).args(["k", "in"]).current_dir(place.dir.path());
    let (code, stdout, stderr) = super::ended(&mut limited);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("File too large") && stderr.lines().count() == 1, "{stderr}");
    assert!(!place.pack.exists(), "{stderr}");
}
