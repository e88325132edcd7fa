//! `stook get`.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use stook::pack::{Attributes, FileKind, Key};

use super::packs::{Place, documented, fed, key, long_body, refuses_what_is_no_pack};

#[test]
fn one_record_goes_to_stdout_whatever_its_key_and_length() {
    let place = Place::filled();
    assert_eq!(place.run("get", &["a/two"]), (0, "second".into(), String::new()));
    assert_eq!(place.run("get", &["id:7"]).1, "seven");
    assert_eq!(place.run("get", &["empty"]), (0, String::new(), String::new()));
    let output = place.command("get", &["long"]).output().unwrap();
    assert!(output.status.success() && output.stdout == long_body());
    let address = format!("{}//a/one", place.pack.display());
    assert_eq!(super::ended(&mut super::stook(["get", &address])).1, "first of all");
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let place = Place::filled();
    fs::write(place.path("out"), "before").unwrap();
    place.hurt(&key("a/two"), 0);
    let (code, stdout, stderr) = place.run("get", &["a/two", "--output", "out"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("(record a/two)") && stderr.contains("is damaged at offset"), "{stderr}");
    assert_eq!(fs::read(place.path("out")).unwrap(), b"before");
    assert_eq!(place.run("get", &["a/one", "-o", "out"]).0, 0);
    assert_eq!(fs::read(place.path("out")).unwrap(), b"first of all");
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 2, "no draft stays");
}

#[test]
fn damage_gives_no_unverified_byte_and_the_others_are_got() {
    let place = Place::filled();
    place.hurt(&key("a/one"), 5);
    assert_eq!(place.run("get", &["a/one"]).1, "");
    let (code, stdout, stderr) = place.run("get", &["a/one", "a/two", "--concat"]);
    assert_eq!((code, stdout.as_str()), (1, "second"));
    assert!(stderr.contains("a/one"), "{stderr}");
    place.hurt(&key("long"), 3_000_000);
    let output = place.command("get", &["long"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.len() < 3_000_001 && long_body().starts_with(&output.stdout));
}

#[test]
fn damage_in_a_segment_without_an_index_is_reported_as_damage_and_not_as_absence() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &key("hit"), &Attributes::new(), b"a body").unwrap();
    writer.put("", &key("whole"), &Attributes::new(), b"another").unwrap();
    writer.publish().unwrap();
    drop(writer);
    place.hurt(&key("hit"), 3);
    let (code, stdout, stderr) = place.run("get", &["hit"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("(record hit)"), "{stderr}");
    assert_eq!(place.run("get", &["whole"]).1, "another");
    let (_, _, stderr) = place.run("get", &["absent"]);
    assert!(stderr.contains("has no record absent; the pack is damaged"), "{stderr}");
}

#[test]
fn many_records_become_files_below_a_directory() {
    let place = Place::filled();
    let list = b"a/one\0a/two\0b\n\xff\0empty\0long\0id:7\0absent\0";
    let mut command = place.command("get", &["--from-file", "-", "-0", "--output"]);
    let (code, stdout, stderr) = fed(command.arg(place.path("out")), list);
    assert_eq!((code, stdout.as_slice()), (1, &b""[..]));
    assert!(stderr.contains("has no record absent"), "{stderr}");
    assert!(stderr.contains("got 6 records, 5.00 MB"), "{stderr}");
    assert_eq!(fs::read(place.path("out/a/one")).unwrap(), b"first of all");
    assert_eq!(fs::read(place.path("out/id:7")).unwrap(), b"seven");
    assert_eq!(fs::read(place.path("out/long")).unwrap(), long_body());
    let odd = std::ffi::OsStr::from_bytes(b"b\n\xff");
    assert_eq!(fs::read(place.path("out").join(odd)).unwrap(), b"odd");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 5);
}

#[test]
fn bodies_are_joined_in_the_order_asked_for() {
    let place = Place::filled();
    let (code, stdout, _) = place.run("get", &["id:7", "a/two", "empty", "a/one", "a/two", "--concat"]);
    assert_eq!((code, stdout.as_str()), (0, "sevensecondfirst of allsecond"));
    let (code, stdout, _) = place.run("get", &["a/two", "id:7", "--concat", "-o", "joined"]);
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert_eq!(fs::read(place.path("joined")).unwrap(), b"secondseven");
}

#[test]
fn a_joined_file_that_is_there_is_replaced_only_by_all_that_was_asked_for() {
    let place = Place::filled();
    let get = |to: &str, keys: &[&str], more: &[&str]| {
        place.run("get", &[keys, &["--concat", "--output", to][..], more].concat())
    };
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    fs::write(place.path("out"), "GOOD").unwrap();
    place.hurt(&key("long"), 3_000_000);
    // Before: it was empty, had what was left of it, or the beginning of a damaged record too.
    for keys in [&["absent"][..], &["a/one", "absent", "a/two"], &["a/one", "long", "a/two"]] {
        let (code, _, stderr) = get("out", keys, &[]);
        assert_eq!((code, read("out").as_str()), (1, "GOOD"), "{keys:?}: {stderr}");
        assert!(stderr.contains("not replacing out") && stderr.contains("--force"), "{stderr}");
        assert!(!stderr.contains("got "), "{stderr}");
    }
    let list = fed(&mut place.command("get", &["--from-file", "-", "--concat", "--output", "out"]), b"");
    assert_eq!((list.0, read("out").as_str()), (1, "GOOD"));
    // Another name gets what is whole; nothing at all is no file.
    assert_eq!((get("new", &["absent"], &[]).0, place.path("new").exists()), (1, false));
    assert_eq!(get("new", &["a/one", "long", "absent", "a/two"], &[]).0, 1);
    assert_eq!(read("new"), "first of allsecond");
    assert_eq!(get("out", &["long", "a/two", "absent"], &["--force"]).0, 1);
    assert_eq!(read("out"), "second");
    assert_eq!((get("out", &["a/one"], &[]).0, read("out").as_str()), (0, "first of all"));
    assert_eq!(place.run("get", &["a/one", "--force"]).0, 2, "there is nothing to force");
    let files = fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.count(), 3, "no draft stays");
}

#[test]
fn a_long_list_of_keys_is_got_in_order() {
    let place = Place::new();
    let mut writer = place.writer();
    let all: Vec<u64> = (0..20_000).collect();
    for id in &all {
        writer.put("", &Key::id(*id), &Attributes::new(), format!("{id},").as_bytes()).unwrap();
    }
    writer.finish(true).unwrap();
    let list: String = all.iter().rev().map(|id| format!("id:{id}\n")).collect();
    let (code, stdout, _) =
        fed(&mut place.command("get", &["--from-file", "-", "--concat"]), list.as_bytes());
    assert_eq!(code, 0);
    let expected: String = all.iter().rev().map(|id| format!("{id},")).collect();
    assert!(stdout == expected.as_bytes());
}

#[test]
fn keys_and_links_never_lead_out_of_the_directory() {
    let place = Place::new();
    let mut writer = place.writer();
    let bad = ["../escaped", "/tmp/escaped", "a/../../escaped", "link/escaped", ""];
    for name in bad.iter().chain(&["good"]) {
        writer.put("", &key(name), &Attributes::new(), b"x").unwrap();
    }
    writer.finish(true).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    fs::create_dir(place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("out/link")).unwrap();
    let list = "../escaped\0/tmp/escaped\0a/../../escaped\0link/escaped\0bytes:\0good\0";
    let mut command = place.command("get", &["--from-file", "-", "-0", "--json", "--output"]);
    let (code, stdout, stderr) = fed(command.arg(place.path("out")), list.as_bytes());
    assert_eq!(code, 1);
    let lines: Vec<serde_json::Value> = stdout
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    lines.iter().for_each(|line| documented("get", line));
    let status: Vec<_> = lines.iter().map(|line| line["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["refused", "refused", "refused", "refused", "refused", "ok"], "{stderr}");
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
    assert!(!place.path("escaped").exists());
    assert_eq!(fs::read(place.path("out/good")).unwrap(), b"x");
}

/// Before: the file was reported as got, and did not get its name; that ended the run, and named no
/// key.
#[test]
fn of_two_keys_of_which_one_is_a_directory_above_the_other_one_is_refused_in_either_order() {
    let place = Place::new();
    let mut writer = place.writer();
    for name in ["x", "x/y", "z"] {
        writer.put("", &key(name), &Attributes::new(), name.as_bytes()).unwrap();
    }
    writer.finish(true).unwrap();
    for (out, keys) in [("one", ["x", "x/y", "z"]), ("two", ["z", "x/y", "x"])] {
        let args = [&keys[..], &["--output", out, "--json"]].concat();
        let (code, stdout, stderr) = place.run("get", &args);
        assert_eq!((code, stdout.lines().count()), (1, 3), "{stdout}{stderr}");
        assert!(stderr.contains("cannot get x: "), "{stderr}");
        for line in stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
            documented("get", &line);
            let path = place.path(out).join(line["key"].as_str().unwrap());
            assert_eq!(line["status"] == "ok", path.is_file(), "{line}");
        }
        assert_eq!(fs::read(place.path(out).join("x/y")).unwrap(), b"x/y");
    }
}

#[test]
fn a_hard_link_of_a_file_gives_the_file() {
    let place = Place::new();
    let mut writer = place.writer();
    let link = Attributes::of_file(FileKind::HardLink, 0o644, 0, None);
    writer.put("", &key("first"), &Attributes::new(), b"content").unwrap();
    writer.put("", &key("second"), &link, b"first").unwrap();
    writer.put("", &key("lost"), &link, b"nowhere").unwrap();
    writer.finish(true).unwrap();
    assert_eq!(place.run("get", &["second"]).1, "content");
    assert_eq!(place.run("get", &["first", "second", "--concat"]).1, "contentcontent");
    let (code, _, stderr) = place.run("get", &["lost"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("nowhere"), "{stderr}");
}

#[test]
fn what_is_asked_for_wrongly_exits_2_and_what_is_not_there_1() {
    let place = Place::filled();
    let (code, _, stderr) = place.run("get", &["a/one", "a/two"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--output"), "{stderr}");
    assert_eq!(place.run("get", &["id:x"]).0, 2);
    assert_eq!(place.run("get", &["a/one", "--json"]).0, 2);
    assert_eq!(place.run("get", &[]).0, 2);
    let (code, stdout, stderr) = place.run("get", &["absent"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("has no record absent"), "{stderr}");
    let (code, _, stderr) = place.run("get", &["a/one", "--group", "g"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("has no record a/one in g"), "{stderr}");
}

#[test]
fn a_device_is_written_to_and_stays_a_device() {
    let place = Place::filled();
    assert_eq!(place.run("get", &["long", "--output", "/dev/null"]).0, 0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_reader_that_has_read_enough_shows_in_the_exit_code_alone() {
    let place = Place::filled();
    let mut child =
        place.command("get", &["long"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(141), &b""[..]));
}

#[test]
fn what_is_no_pack_is_refused() {
    refuses_what_is_no_pack("get", &["key"]);
}

/// A FIFO with a reader: the bytes that the command wrote to it.
fn read_by(pipe: &std::path::Path) -> std::process::Child {
    std::process::Command::new("cat").arg(pipe).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn nothing_outside_the_directory_is_written_through_what_is_in_it() {
    let place = Place::filled();
    fs::create_dir_all(place.path("out/a")).unwrap();
    let [pipe, file] = ["pipe", "file"].map(|name| place.path(name));
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    fs::write(&file, "of somebody else").unwrap();
    symlink(&pipe, place.path("out/a/one")).unwrap();
    symlink(&file, place.path("out/a/two")).unwrap();
    symlink("/dev/full", place.path("out/empty")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("out/id:7"), rustix::fs::Mode::from_raw_mode(0o600))
        .unwrap();
    let mut reader = read_by(&pipe);
    let keys = ["a/one", "a/two", "empty", "id:7", "--output", "out"];
    let got = place.run("get", &keys);
    reader.kill().unwrap();
    let heard = reader.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&heard), "", "written to a pipe outside of the directory");
    assert_eq!(got.0, 0, "{got:?}");
    assert_eq!(fs::read(&file).unwrap(), b"of somebody else");
    for (name, body) in [("a/one", "first of all"), ("a/two", "second"), ("empty", ""), ("id:7", "seven")] {
        let path = place.path("out").join(name);
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{name} is replaced by a file of its own");
        assert_eq!(fs::read(&path).unwrap(), body.as_bytes());
    }
}

#[test]
fn a_link_that_somebody_names_leads_to_the_file_that_is_made_or_replaced() {
    let place = Place::filled();
    fs::create_dir(place.path("d")).unwrap();
    symlink("d/next", place.path("link")).unwrap();
    symlink("../after", place.path("d/next")).unwrap();
    for (name, body) in [("a/one", "first of all"), ("a/two", "second")] {
        let (code, _, stderr) = place.run("get", &[name, "--output", "link"]);
        assert_eq!(code, 0, "{stderr}");
        for link in ["link", "d/next"] {
            assert!(fs::symlink_metadata(place.path(link)).unwrap().is_symlink());
        }
        assert!(fs::symlink_metadata(place.path("after")).unwrap().is_file());
        assert_eq!(fs::read_to_string(place.path("after")).unwrap(), body);
    }
    for (name, leads_to) in [("in-pack", "p.stook/new"), ("nowhere", "none/new"), ("ring", "ring")] {
        symlink(leads_to, place.path(name)).unwrap();
        assert_eq!(place.run("get", &["a/one", "--output", name]).0, 1, "{name}");
        assert!(fs::symlink_metadata(place.path(name)).unwrap().is_symlink(), "{name}");
    }
    assert!(!place.path("p.stook/new").exists());
}

#[test]
fn a_pipe_and_an_open_file_that_somebody_names_are_written_to() {
    let place = Place::filled();
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let reader = read_by(&pipe);
    assert_eq!(place.run("get", &["a/one", "--output", "pipe"]).0, 0);
    assert_eq!(reader.wait_with_output().unwrap().stdout, b"first of all");
    // As a shell does for `stook get … --output /dev/stdout >> log`, with our own link of that
    // kind.
    fs::write(place.path("log"), "before, ").unwrap();
    symlink("/proc/self/fd/1", place.path("stdout")).unwrap();
    let log = fs::OpenOptions::new().append(true).open(place.path("log")).unwrap();
    let mut command = place.command("get", &["a/one", "--output"]);
    assert!(command.arg(place.path("stdout")).stdout(log).status().unwrap().success());
    assert_eq!(fs::read(place.path("log")).unwrap(), b"before, first of all");
    assert!(fs::symlink_metadata(place.path("stdout")).unwrap().is_symlink());
    // Before: its room was looked for in `/proc`, where there is none.
    let program = super::stook(["get"]).get_program().to_os_string();
    let script = "\"$0\" get p.stook a/one -o /dev/fd/3 3>out && \"$0\" get p.stook a/one -o - > stdout.copy";
    let done = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .current_dir(place.dir.path())
        .status();
    assert!(done.unwrap().success());
    for name in ["out", "stdout.copy"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"first of all", "{name}");
    }
    assert!(!place.path("-").exists());
}

#[test]
fn several_records_do_not_go_into_one_file_that_is_there() {
    let place = Place::filled();
    fs::write(place.path("file"), "x").unwrap();
    let (code, _, stderr) = place.run("get", &["a/one", "a/two", "--output", "file"]);
    assert!(code == 2 && stderr.contains("several records need --output DIRECTORY"), "{stderr}");
    assert_eq!(fs::read(place.path("file")).unwrap(), b"x");
}

/// Before: it took two signals to end one that waited for a reader, or for one that does not read.
#[test]
fn the_first_signal_ends_a_wait_for_the_reader_of_a_pipe() {
    let place = Place::filled();
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for is_open in [false, true] {
        // Opened for both, as Linux allows, it has a reader, which does not read.
        let reader = is_open.then(|| fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
        for (command, args) in [
            ("get", &["long", "--output", "pipe"][..]),
            ("get", &["long", "a/one", "--concat", "--output", "pipe"]),
            ("unpack", &["--tar", "pipe"]),
        ] {
            let mut command = place.command(command, args);
            let mut child = command.current_dir(place.dir.path()).stderr(Stdio::null()).spawn().unwrap();
            // Until it listens to signals, and waits: nothing shows it from outside.
            std::thread::sleep(std::time::Duration::from_millis(300));
            super::send("-INT", &child);
            assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}, opened: {is_open}");
        }
        drop(reader);
    }
    // More than fits into the pipe between `cat` and this test, too.
    let reader = read_by(&pipe);
    let reader = std::thread::spawn(|| reader.wait_with_output().unwrap().stdout);
    assert_eq!(place.run("get", &["long", "--output", "pipe"]).0, 0);
    assert!(reader.join().unwrap() == long_body());
}

#[test]
fn two_records_of_one_file_name_do_not_become_one_file() {
    let place = Place::new();
    let mut writer = place.writer();
    writer.put("", &Key::id(7), &Attributes::new(), b"the number").unwrap();
    writer.put("", &key("id:7"), &Attributes::new(), b"the text").unwrap();
    writer.put("", &key("id:07"), &Attributes::new(), b"another text").unwrap();
    writer.finish(true).unwrap();
    for (first, second, kept) in [("id:7", "bytes:id:7", "the number"), ("bytes:id:7", "id:7", "the text")] {
        let out = format!("out-{}", kept.replace(' ', "-"));
        let (code, _, stderr) = place.run("get", &[first, second, first, "bytes:id:07", "--output", &out]);
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains(&format!("cannot get {second}: maps to the same file name as {first}")));
        assert!(stderr.contains("got 3 records"), "{stderr}");
        assert_eq!(fs::read(place.path(&out).join("id:7")).unwrap(), kept.as_bytes());
        assert_eq!(fs::read(place.path(&out).join("id:07")).unwrap(), b"another text");
    }
    assert_eq!(place.run("get", &["id:7", "bytes:id:7", "--concat"]).1, "the numberthe text");
}

/// Before: nothing was said but that there is no such record.
#[test]
fn what_looks_like_a_pattern_or_a_directory_is_said_to_be_got_in_another_way() {
    let place = Place::new();
    fs::create_dir_all(place.path("tree/2024")).unwrap();
    fs::write(place.path("tree/2024/cat.jpg"), "cat").unwrap();
    let run = |args: &[&str]| super::ended(super::stook(args).current_dir(place.dir.path()));
    assert_eq!(run(&["pack", "tree", "p"]).0, 0);
    let (code, stdout, stderr) = run(&["get", "p", "2024/*.jpg"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    let pipe = "stook ls p PATTERN -0 | stook get p --from-file - -0 --output DIR";
    assert!(stderr.contains("no record 2024/*.jpg") && stderr.contains(pipe), "{stderr}");
    let (_, _, alike) = run(&["get", "p", "2024"]);
    for more in [&[][..], &["--output", "out"]] {
        let (code, stdout, stderr) = run(&[&["get", "p", "2024/"][..], more].concat());
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.starts_with(&alike), "{stderr}");
    }
    for absent in ["2025/", "2025", "2024/cat.jpg/"] {
        let (code, _, stderr) = run(&["get", "p", absent]);
        assert_eq!((code, stderr), (1, format!("stook: p has no record {absent}\n")));
    }
    // As it was said; the shell would take the pattern apart.
    let pipe = pipe.replace("PATTERN", "'2024/*.jpg'").replace("stook", env!("CARGO_BIN_EXE_stook"));
    let mut shell = std::process::Command::new("sh");
    let (code, _, stderr) =
        super::ended(shell.args(["-c", &pipe.replace("DIR", "out")]).current_dir(place.dir.path()));
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(fs::read(place.path("out/2024/cat.jpg")).unwrap(), b"cat");
}

#[test]
fn an_address_without_a_key_is_refused() {
    let place = Place::filled();
    for address in ["p.stook//", "p.stook///", "absent//"] {
        let (code, stdout, stderr) =
            super::ended(super::stook(["get", address, "a/one"]).current_dir(place.dir.path()));
        assert_eq!((code, stdout.as_str()), (2, ""), "{address}: {stderr}");
        assert!(stderr.contains("is a variable not set?"), "{address}: {stderr}");
    }
}
