//! `stook cat`.

use std::fs;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use stook::pack::{Attributes, FileKind};
use stook_testing::conformance::pattern;
use stook_testing::web::{End, Page, Reply, WebRequest, WebServer};

use super::packs::{Place, fed, key, long_body};
use super::{ended, send, stook, wait_until};

#[test]
fn a_file_and_ranges_of_it_go_to_stdout_in_the_order_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let bytes = pattern(20_000_000, 5);
    fs::write(&path, &bytes).unwrap();
    let whole = stook(["cat"]).arg(&path).output().unwrap();
    assert!(whole.status.success() && whole.stdout == bytes);
    let mut command = stook(["cat"]);
    command.arg(&path).args(["--range", "19MB..", "--range", "0..4KiB", "--range", "7..7", "--stats"]);
    let parts = command.output().unwrap();
    assert!(parts.status.success());
    assert_eq!(parts.stdout, [&bytes[19_000_000..], &bytes[..4096]].concat());
    let reported = String::from_utf8(parts.stderr).unwrap();
    assert!(reported.contains("1.00 MB written; 2 requests"), "{reported}");
    let json = stook(["--json", "cat"]).arg(&path).args(["--range", "10..20", "--stats"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(document["schema"], "stook.cat/1");
    assert_eq!((&document["bytes_written"], &document["requests"]), (&10.into(), &1.into()));
}

#[test]
fn what_cannot_be_is_refused_before_a_byte_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    for (range, code, expected) in [
        ("11..", 1, "the range 11.. begins past the end (10 bytes)"),
        ("11..12", 1, "the range 11..12 begins past the end (10 bytes)"),
        ("5", 2, "expected A..B, as in 0..4KiB"),
        ("9..3", 2, "it ends before it begins"),
    ] {
        let (ended_with, stdout, stderr) =
            ended(stook(["cat"]).arg(&path).args(["--range", "0..2", "--range", range]));
        assert_eq!((ended_with, stdout.as_str()), (code, ""), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let (code, _, stderr) = ended(&mut stook(["cat", "ftp://host/file"]));
    assert!(code == 1 && stderr.contains("`ftp` is not among what is known"), "{stderr}");
    let (code, _, stderr) = ended(&mut stook(["cat", "http://127.0.0.1:1/file"]));
    assert!(code == 1 && stderr.contains("http://127.0.0.1:1/file"), "{stderr}");
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert_eq!(ended(stook(["cat"]).arg(&empty)), (0, String::new(), String::new()));
}

#[test]
fn what_was_fetched_is_kept_in_the_cache_directory_until_the_source_changes() {
    let directory = tempfile::tempdir().unwrap();
    let (path, cache) = (directory.path().join("file"), directory.path().join("cache"));
    let bytes = pattern(3_000_000, 6);
    fs::write(&path, &bytes).unwrap();
    let cat = || {
        let mut command = stook(["--json", "cat", "--range", "1MB..2MB", "--stats"]);
        let output = command.arg(&path).arg("--cache-dir").arg(&cache).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        (output.stdout, document["requests"].as_u64(), document["bytes_from_disk"].as_u64())
    };
    let (read, requests, _) = cat();
    assert!(read == bytes[1_000_000..2_000_000] && requests == Some(1));
    // What was written a moment ago could change within the tick of the clock, and is not kept.
    let kept = (0..100).map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        cat()
    });
    let (read, _, from_disk) = kept.into_iter().find(|(_, requests, _)| *requests == Some(0)).unwrap();
    assert!(read == bytes[1_000_000..2_000_000] && from_disk >= Some(1_000_000));
    let other = pattern(3_000_000, 8);
    fs::write(&path, &other).unwrap();
    let (read, requests, _) = cat();
    assert!(read == other[1_000_000..2_000_000] && requests == Some(1));
}

#[test]
fn a_cache_directory_that_has_no_room_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (path, cache) = (directory.path().join("file"), directory.path().join("cache"));
    fs::write(&path, pattern(3_000_000, 7)).unwrap();
    let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&path).unwrap().set_modified(an_hour_ago).unwrap();
    // Its inode was changed just now.
    std::thread::sleep(Duration::from_millis(100));
    for (size, is_reported) in [("1MB", true), ("0", true), ("10MB", false)] {
        let cat = |more: &[&str]| {
            let mut command = stook(more);
            command.arg("cat").arg(&path).arg("--cache-dir").arg(&cache).args([
                "--cache-size",
                size,
                "--stats",
            ]);
            String::from_utf8(command.output().unwrap().stderr).unwrap()
        };
        let reported = cat(&[]);
        assert_eq!(
            reported.contains("too small for the 3.00 MB of the source"),
            is_reported,
            "{size}: {reported}"
        );
        let reported = cat(&["--json"]);
        let document: serde_json::Value = serde_json::from_str(&reported).unwrap();
        assert_eq!(document["disk_remark"].is_string(), is_reported, "{size}: {reported}");
    }
}

#[test]
fn a_record_of_a_pack_and_ranges_of_it_go_to_stdout() {
    let place = Place::filled();
    let long = long_body();
    let cat = |name: &str, ranges: &[&str]| {
        let mut command = stook(["cat"]);
        command.arg(format!("{}//{name}", place.pack.display()));
        command.args(ranges.iter().flat_map(|range| ["--range", range]));
        let output = command.output().unwrap();
        (output.status.code().unwrap(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(cat("a/two", &[]), (0, b"second".to_vec(), String::new()));
    assert_eq!(cat("empty", &[]), (0, Vec::new(), String::new()));
    assert!(cat("long", &[]).1 == long);
    let (code, bytes, _) =
        cat("long", &["10..20", "2MB..3MB", "3MB..", "5..5", "0..4", "4..4", "4..6", "1..3"]);
    let expected = [&long[10..20], &long[2_000_000..], &long[..6], &long[1..3]].concat();
    assert!(code == 0 && bytes == expected);
    assert_eq!(cat("id:7", &["1..3"]).1, b"ev");
    // A record of unknown length when it was put.
    let put = fed(&mut place.command("put", &["piped", "-"]), b"from a pipe");
    assert_eq!(put.0, 0, "{put:?}");
    assert_eq!(cat("piped", &["5.."]).1, b"a pipe");
    assert_eq!(cat("a/two", &["3..64KiB", "6..9"]), (0, b"ond".to_vec(), String::new()), "as far as it goes");
    for (name, range, expected) in [
        ("a/two", "7..9", "the range 7..9 begins past the end (6 bytes)"),
        ("piped", "12..", "the range 12.. begins past the end (11 bytes)"),
    ] {
        let (code, bytes, reported) = cat(name, &["0..1", range]);
        assert!(code == 1 && bytes.is_empty() && reported.contains(expected), "{reported}");
    }
    let (code, _, reported) = cat("none", &[]);
    assert!(code == 1 && reported.contains("has no record none"), "{reported}");
}

#[test]
fn of_a_damaged_record_no_unverified_byte_goes_to_stdout() {
    let place = Place::filled();
    place.hurt(&key("long"), 3_000_000);
    let address = format!("{}//long", place.pack.display());
    let output = stook(["cat", &address, "--range", "1MB.."]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.len() < 2_000_001 && long_body()[1_000_000..].starts_with(&output.stdout));
    let (code, _, reported) = ended(&mut stook(["cat", &address, "--stats"]));
    assert!(code == 2 && reported.contains("are for what is fetched"), "{reported}");
}

#[test]
fn of_a_range_that_reaches_past_the_end_comes_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    for (range, expected) in [("0..64KiB", "0123456789"), ("8..11", "89"), ("10..11", ""), ("10..", "")] {
        let mut command = stook(["cat", "--range", range]);
        assert_eq!(ended(command.arg(&path)), (0, expected.to_owned(), String::new()), "{range}");
    }
    fs::write(&path, "").unwrap();
    assert_eq!(ended(stook(["cat", "--range", "0..64KiB"]).arg(&path)).0, 0, "of nothing, nothing");
    let help = ended(&mut stook(["cat", "--help"])).1;
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("one that begins at the end is empty"), "{help}");
}

#[test]
fn a_server_that_sends_no_parts_is_read_as_a_whole_where_that_is_wanted() {
    let page = Page::new(pattern(50_000, 9));
    let bytes = page.bytes.clone();
    let server = WebServer::start(move |_, _| page.whole());
    let cat =
        |more: &[&str]| stook(["cat", &server.url("/file?signature=hidden")]).args(more).output().unwrap();
    let whole = cat(&[]);
    assert!(whole.status.success() && whole.stdout == bytes, "nothing but the whole is wanted");
    let part = cat(&["--range", "100..200", "--whole-file"]);
    assert!(part.status.success() && part.stdout == bytes[100..200]);
    let refused = cat(&["--range", "100..200"]);
    let reported = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{reported}");
    assert!(reported.contains("--whole-file does that") && !reported.contains("RemoteOptions"), "{reported}");
    assert!(!reported.contains("hidden"), "{reported}");
}

#[test]
fn no_command_shows_what_may_be_a_secret_in_an_address() {
    let server = WebServer::start(|_, _| Reply::status(404));
    let address = server.url("/x.stook?signature=hidden").replace("://", "://me:word@");
    let directory = tempfile::tempdir().unwrap();
    let pack = directory.path().join("new.stook");
    for command in ["ls", "info", "check", "load", "unpack", "pack"] {
        let (code, _, reported) = ended(stook([command, &address]).arg(&pack).current_dir(directory.path()));
        assert!(code != 0 && !reported.is_empty(), "{command}");
        assert!(!reported.contains("word") && !reported.contains("hidden"), "{command}: {reported}");
    }
}

#[test]
fn a_cache_is_not_kept_in_a_pack() {
    let place = Place::filled();
    fs::write(place.path("file"), vec![7; 10_000]).unwrap();
    for directory in ["p.stook", "p.stook/cache"] {
        let args = ["cat", "file", "--range", "0..10", "--cache-dir", directory];
        let (code, _, stderr) = ended(stook(args).current_dir(place.dir.path()));
        assert!(code == 1 && stderr.contains("is a pack"), "{directory}: {code} {stderr}");
    }
    assert_eq!(place.run("check", &[]).1.lines().count(), 1, "nothing was left in it");
}

#[test]
fn of_an_object_that_is_read_as_a_whole_all_that_came_is_reported() {
    let page = Page::new(pattern(50_000, 9));
    let server = WebServer::start(move |_, _| page.whole());
    let cache = tempfile::tempdir().unwrap();
    let cat = |more: &[&str]| {
        let mut command = stook(["cat", &server.url("/file"), "--range", "0..3", "--whole-file", "--stats"]);
        let output = command.arg("--cache-dir").arg(cache.path()).args(more).output().unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(0), pattern(50_000, 9)[..3].to_vec()));
        String::from_utf8(output.stderr).unwrap()
    };
    for from_disk in [false, true] {
        let reported = cat(&[]);
        assert!(reported.contains("/file: 50,000 bytes, ETag \"first\"\n"), "{reported}");
        assert!(reported.contains("3 B written; 1 request of 50.0 KB together\n"), "{reported}");
        assert_eq!(reported.contains("3 B came from the cache directory\n"), from_disk, "{reported}");
    }
    let document: serde_json::Value = serde_json::from_str(&cat(&["--json"])).unwrap();
    assert_eq!((&document["requests"], &document["bytes_fetched"]), (&1.into(), &50_000.into()));
}

#[test]
fn a_directory_in_a_pack_is_reported_and_a_link_gives_its_target_as_with_get() {
    let place = Place::new();
    let mut writer = place.writer();
    for (name, kind, body) in [
        ("2018", FileKind::Directory, ""),
        ("2018/cat.jpg", FileKind::File, "a cat"),
        ("2018/latest", FileKind::Symlink, "cat.jpg"),
        ("again.jpg", FileKind::HardLink, "2018/cat.jpg"),
    ] {
        let attributes = Attributes::of_file(kind, 0o755, 0, None);
        writer.put("", &key(name), &attributes, body.as_bytes()).unwrap();
    }
    writer.finish(true).unwrap();
    let run = |command: &str, name: &str, more: &[&str]| {
        ended(stook([command, &format!("p.stook//{name}")]).args(more).current_dir(place.dir.path()))
    };
    for range in ["0..", "0..1", "0..0"] {
        let (code, stdout, stderr) = run("cat", "2018", &["--range", range]);
        assert_eq!((code, stdout.as_str()), (1, ""), "{range}: {stderr}");
        assert!(stderr.contains("2018 is a directory; `stook unpack p.stook DIR"), "{range}: {stderr}");
    }
    for (name, code, body) in [("2018", 1, ""), ("2018/latest", 0, "cat.jpg"), ("again.jpg", 0, "a cat")] {
        let reported = run("cat", name, &[]);
        assert_eq!(reported, run("get", name, &[]), "{name}");
        assert_eq!((reported.0, reported.1.as_str()), (code, body), "{name}");
    }
}

#[test]
fn a_pack_without_a_key_a_directory_and_an_empty_address_are_reported_as_that() {
    let place = Place::filled();
    fs::create_dir(place.path("folder")).unwrap();
    let file = format!("file://{}", place.pack.display());
    for (address, expected) in [
        ("p.stook", "p.stook is a pack, and a record of it is p.stook//KEY"),
        ("p.stook//", "stook: p.stook is a pack, and a record of it is p.stook//KEY"),
        (file.as_str(), "p.stook is a pack, and a record of it is "),
        ("folder", "stook: cannot open folder: Is a directory"),
        ("", "the address is empty"),
    ] {
        let (code, stdout, stderr) = ended(stook(["cat", address]).current_dir(place.dir.path()));
        assert_eq!((code, stdout.as_str()), (1, ""), "{address}: {stderr}");
        assert!(stderr.contains(expected) && !stderr.contains("offset"), "{address}: {stderr}");
    }
}

/// How `stook cat` ended, and what it wrote, if Ctrl-C came after this many requests and written
/// bytes.
fn interrupted(server: &WebServer, args: &[&str], requests: usize, written: u64) -> (Output, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut command = stook(["cat", &server.url("/file")]);
    command.args(args).stdout(fs::File::create(&out).unwrap()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_until(&mut child, || {
        server.requests().len() >= requests && fs::metadata(&out).unwrap().len() >= written
    });
    let pressed = Instant::now();
    send("-INT", &child);
    let output = child.wait_with_output().unwrap();
    // Far less than what the server takes, and far more than a machine that is busy does.
    assert!(pressed.elapsed() < Duration::from_secs(8), "{args:?}: {:?}", pressed.elapsed());
    (output, fs::read(&out).unwrap())
}

#[test]
fn the_first_ctrl_c_ends_it_whatever_a_server_does() {
    let bytes = pattern((32 << 20) + 100_000, 11);
    let page = Page::new(bytes.clone());
    // Some requests, by what they are and how many came before, are answered much later.
    let start = |is_slow: fn(&WebRequest, usize) -> bool| {
        let page = page.clone();
        WebServer::start(move |request, nth| {
            let latency = if is_slow(request, nth) { Duration::from_secs(60) } else { Duration::ZERO };
            page.reply(request).latency(latency)
        })
    };
    let stalled = page.clone();
    let whole = WebServer::start(move |_, nth| match nth {
        0 => stalled.whole(),
        _ => stalled.whole().end(End::Stalled(1000)),
    });
    let is_after =
        |request: &WebRequest, _: usize| request.range().is_some_and(|(first, _)| first >= 32 << 20);
    for (what, server, range, requests, written) in [
        ("opening", start(|_, _| true), "..", 1, 0),
        ("reading it as a whole", whole, "..", 2, 0),
        ("the first ranges", start(|_, nth| nth > 0), "0..20MB", 2, 0),
        ("ranges after others", start(is_after), "..", 6, 32 << 20),
    ] {
        let args = ["--whole-file", "--range", range];
        let (output, read) = interrupted(&server, &args, requests, written);
        let reported = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), reported.as_str()), (Some(130), "stook: interrupted\n"), "{what}");
        assert!(read == bytes[..written as usize], "{what}: {} bytes", read.len());
    }
}

#[test]
fn a_cache_is_not_kept_among_files_of_others() {
    let place = Place::new();
    fs::write(place.path("file"), vec![7; 10_000]).unwrap();
    fs::create_dir(place.path("photos")).unwrap();
    fs::write(place.path("photos/cat.jpg"), "cat").unwrap();
    let args = ["cat", "file", "--range", "0..10", "--cache-dir", "photos"];
    let (code, stdout, stderr) = ended(stook(args).current_dir(place.dir.path()));
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("cannot keep a cache in photos: it holds other files"), "{stderr}");
    assert_eq!(fs::read_dir(place.path("photos")).unwrap().count(), 1);
}
