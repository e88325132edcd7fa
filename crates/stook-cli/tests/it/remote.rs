//! Archives that are objects, given to the commands that read archives.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use stook_testing::conformance::noise;
use stook_testing::s3::S3Server;
use stook_testing::web::{Page, WebServer};
use tempfile::TempDir;

use super::{ended, stook};

/// A bucket with a tree as `x.tar`, `x.tar.gz` and `x.zip`, which lie beside the tree, too.
struct Place {
    dir: TempDir,
    server: S3Server,
}

const NAMES: [&str; 3] = ["x.tar", "x.tar.gz", "x.zip"];

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (root, bucket) = (dir.path().join("t"), dir.path().join("server/bucket"));
        fs::create_dir_all(root.join("d")).unwrap();
        fs::create_dir_all(&bucket).unwrap();
        fs::write(root.join("a"), b"alpha").unwrap();
        fs::write(root.join("d/words"), "many words ".repeat(10_000)).unwrap();
        fs::write(root.join("d/noise"), noise(1, 3_000_000)).unwrap();
        let made = |program: &str, args: &[&str]| {
            assert!(Command::new(program).args(args).current_dir(&root).status().unwrap().success());
        };
        made("tar", &["--sort=name", "-cf", "../x.tar", "a", "d"]);
        made("tar", &["--sort=name", "-czf", "../x.tar.gz", "a", "d"]);
        made("zip", &["-qr", "../x.zip", "a", "d"]);
        for name in NAMES {
            fs::copy(dir.path().join(name), bucket.join(name)).unwrap();
        }
        let server = S3Server::start(&dir.path().join("server"), Duration::ZERO);
        Self { dir, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = stook(args);
        command.current_dir(self.dir.path()).envs(self.server.settings());
        command
    }

    fn stook(&self, args: &[&str]) -> (i32, String, String) {
        ended(&mut self.command(args))
    }

    fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

#[test]
fn an_archive_in_s3_is_read_by_every_command_as_the_file_is() {
    let place = Place::new();
    for name in NAMES {
        let object = format!("s3://bucket/{name}");
        let (here, there) = (place.stook(&["ls", name, "-l"]), place.stook(&["ls", &object, "-l"]));
        assert_eq!((there.0, &there.1), (0, &here.1), "{name}: {}", there.2);
        assert!(!there.2.contains("index"), "there is no place for one: {}", there.2);
        assert!(place.output(&["get", &object, "d/noise"]).stdout == noise(1, 3_000_000), "{name}");
        assert_eq!(place.stook(&["get", &format!("{object}//a")]).1, "alpha", "{name}");
        let out = format!("{name}-out");
        let (code, stdout, stderr) = place.stook(&["unpack", &object, &out]);
        assert_eq!(code, 0, "{name}: {stdout} {stderr}");
        assert_eq!(fs::read(place.path(&out).join("a")).unwrap(), b"alpha");
        assert!(fs::read(place.path(&out).join("d/noise")).unwrap() == noise(1, 3_000_000));
        let (code, stdout, stderr) = place.stook(&["load", &object]);
        assert!(code == 0 && stdout.contains("records"), "{name}: {stdout} {stderr}");
        let (_, stdout, _) = place.stook(&["info", &object, "--json"]);
        let info: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(info.get("index_path").is_none() && info["files"] == 3, "{info}");
    }
}

#[test]
fn a_member_of_an_archive_goes_to_stdout_whole_or_in_ranges() {
    let place = Place::new();
    let (words, noise) = ("many words ".repeat(10_000).into_bytes(), noise(1, 3_000_000));
    for name in NAMES {
        for archive in [name.to_owned(), format!("s3://bucket/{name}")] {
            let cat = |member: &str, ranges: &[&str]| {
                let address = format!("{archive}//{member}");
                let mut args = vec!["cat", address.as_str()];
                args.extend(ranges.iter().flat_map(|range| ["--range", range]));
                let output = place.output(&args);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                (output.status.code(), output.stdout, said)
            };
            for (member, bytes) in [("d/words", &words), ("d/noise", &noise)] {
                let (code, stdout, said) = cat(member, &[]);
                assert!(code == Some(0) && stdout == *bytes, "{archive} {member}: {said}");
                let (code, stdout, said) = cat(member, &["100KB..", "5..9", "7..7", "8..20"]);
                let wanted = [&bytes[100_000..], &bytes[5..9], &bytes[8..20]].concat();
                assert!(code == Some(0) && stdout == wanted, "{archive} {member}: {said}");
            }
            for (member, ranges, said) in [
                ("gone", &[][..], "has no member gone"),
                ("d", &[][..], "is a directory"),
                ("a", &["6.."][..], "begins past the end (5 bytes)"),
            ] {
                let (code, stdout, stderr) = cat(member, ranges);
                assert!(code == Some(1) && stdout.is_empty() && stderr.contains(said), "{archive}: {stderr}");
            }
        }
    }
}

#[test]
fn what_means_nothing_is_refused_and_what_helps_is_said() {
    let place = Place::new();
    let object = "s3://bucket/x.tar";
    for (args, said) in [
        (vec!["ls", object, "--follow"], "--follow is for packs"),
        (vec!["ls", object, "--group", "g"], "--group is for packs"),
        (vec!["load", object, "--device-share"], "--device-share is for files"),
        (vec!["ls", "x.tar", "--whole-file"], "are for what is fetched"),
        (vec!["get", "x.tar", "a", "--cache-dir", "cache"], "are for what is fetched"),
        (vec!["cat", "s3://bucket/x.tar//a", "--stats"], "--stats is for objects"),
    ] {
        let (code, stdout, stderr) = place.stook(&args);
        assert!(code == 2 && stdout.is_empty() && stderr.contains(said), "{args:?}: {code} {stderr}");
    }
    let page = Page::new(fs::read(place.path("x.zip")).unwrap());
    let server = WebServer::start(move |_, _| page.whole());
    let address = server.url("/x.zip");
    let (code, _, stderr) = place.stook(&["ls", &address]);
    assert!(code == 1 && stderr.contains("--whole-file does that"), "{stderr}");
    let (code, stdout, stderr) = place.stook(&["ls", &address, "--whole-file"]);
    assert!(code == 0 && stdout.contains("d/noise\n"), "{stderr}");
    let member = format!("{address}//a");
    assert_eq!(place.stook(&["cat", &member, "--whole-file"]).1, "alpha");
    // What may be a secret in an address is in no message.
    let secret = format!("{}?signature=secret", server.url("/x.zip"));
    let (code, _, stderr) = place.stook(&["unpack", &secret, "out", "--whole-file", "--include", "none"]);
    assert!(code == 1 && !stderr.contains("secret") && stderr.contains("x.zip"), "{stderr}");
}

#[test]
fn what_was_fetched_of_an_archive_is_kept_for_the_next_command() {
    let place = Place::new();
    let object = "s3://bucket/x.tar";
    for (round, args) in [vec!["ls", object], vec!["ls", object], vec!["get", object, "a"]].iter().enumerate()
    {
        place.server.take_log();
        let (code, _, stderr) = place.stook(&[&args[..], &["--cache-dir", "cache"]].concat());
        assert_eq!(code, 0, "{stderr}");
        let requests = place.server.take_log().len();
        assert!(round == 0 || requests == 1, "round {round}: {requests} requests");
    }
}

#[test]
fn an_archive_at_an_address_is_packed_as_the_file_is() {
    let place = Place::new();
    for name in NAMES {
        let (object, pack) = (format!("s3://bucket/{name}"), format!("{name}.stook"));
        let (code, stdout, stderr) = place.stook(&["pack", &object, &pack]);
        assert_eq!(code, 0, "{name}: {stdout} {stderr}");
        let local = format!("local {name}.stook");
        assert_eq!(place.stook(&["pack", name, &local]).0, 0);
        assert_eq!(place.stook(&["ls", &pack, "-l"]).1, place.stook(&["ls", &local, "-l"]).1, "{name}");
        assert!(place.output(&["get", &pack, "d/noise"]).stdout == noise(1, 3_000_000), "{name}");
        // Once more: all of it is there.
        let (code, stdout, stderr) = place.stook(&["pack", &object, &pack, "--json"]);
        let again: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(code == 0 && again["files"] == 0 && again["complete"] == true, "{again} {stderr}");
    }
    let page = Page::new(fs::read(place.path("x.zip")).unwrap());
    let server = WebServer::start(move |request, _| page.reply(request));
    let secret = format!("{}?signature=secret", server.url("/x.zip"));
    let (code, stdout, stderr) = place.stook(&["pack", &secret, "web.stook"]);
    assert_eq!(code, 0, "{stdout} {stderr}");
    assert!(!stdout.contains("secret") && !stderr.contains("secret"), "{stdout} {stderr}");
    for entry in fs::read_dir(place.path("web.stook")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"secret"), "the pack remembers what is secret");
    }
    assert_eq!(place.stook(&["get", "web.stook", "a"]).1, "alpha");
    // What cannot be packed from there is refused before a pack is made, and what helps is said.
    let (code, _, stderr) = place.stook(&["pack", "s3://bucket/x.tar", "no.stook", "--as-file"]);
    assert!(code == 2 && stderr.contains("fetch anything else first"), "{code} {stderr}");
    let (code, _, stderr) = place.stook(&["pack", "s3://bucket/x.tar", "t", "no.stook"]);
    assert!(code == 2 && stderr.contains("not together"), "{code} {stderr}");
    let (code, _, stderr) = place.stook(&["pack", "s3://bucket/gone.tar", "no.stook"]);
    assert!(code == 1 && stderr.contains("s3://bucket/gone.tar"), "{code} {stderr}");
    assert!(!place.path("no.stook").exists());
}

#[test]
fn a_load_speaks_of_the_page_cache_only_where_there_is_one() {
    let place = Place::new();
    for name in NAMES {
        let object = format!("s3://bucket/{name}");
        let (code, stdout, stderr) = place.stook(&["load", &object]);
        assert!(code == 0 && !stdout.contains("page cache"), "{name}: {stdout} {stderr}");
        let (_, stdout, _) = place.stook(&["load", &object, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert!(report["cached_share"].is_null(), "{name}: {report}");
        let (code, stdout, _) = place.stook(&["load", name]);
        assert!(code == 0 && stdout.contains("page cache"), "{name}: {stdout}");
    }
}

#[test]
fn each_command_on_an_archive_in_s3_takes_few_requests() {
    let place = Place::new();
    for name in ["x.zip", "x.tar"] {
        let object = format!("s3://bucket/{name}");
        let member = format!("{object}//d/words");
        let out = format!("{name} out");
        // Nothing says where the members of a tar are: each head is read, unless heads lie close to
        // each other.
        let more = if name == "x.tar" { 4 } else { 0 };
        for (args, most) in [
            (vec!["ls", &object], 3),
            (vec!["ls", &object, "-l"], 3),
            (vec!["get", &object, "a"], 4),
            (vec!["get", &object, "d/words"], 4),
            (vec!["cat", &member], 5),
            (vec!["cat", &member, "--range", "5..9"], 5),
            (vec!["unpack", &object, &out], 5),
        ] {
            place.server.take_log();
            let (code, _, stderr) = place.stook(&args);
            let requests = place.server.take_log();
            assert_eq!(code, 0, "{args:?}: {stderr}");
            assert!(requests.len() <= most + more, "{args:?}: {} requests: {requests:#?}", requests.len());
        }
    }
}
