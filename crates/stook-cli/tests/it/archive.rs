//! Archives given to the commands that read packs.

mod names;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::{ended, send, stook, wait_until};

struct Place {
    dir: TempDir,
}

impl Place {
    /// A folder with a tree `t` in it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("t");
        fs::create_dir_all(root.join("d/e")).unwrap();
        fs::write(root.join("a"), b"alpha").unwrap();
        fs::write(root.join("d/b"), vec![b'b'; 200_000]).unwrap();
        fs::write(root.join("d/e/c"), b"").unwrap();
        fs::hard_link(root.join("a"), root.join("further")).unwrap();
        std::os::unix::fs::symlink("d/b", root.join("link")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tar(&self, args: &[&str]) {
        let status = Command::new("tar").args(args).current_dir(self.dir.path()).status();
        assert!(status.unwrap().success(), "tar {args:?}");
    }

    fn stook(&self, args: &[&str]) -> (i32, String, String) {
        ended(stook(args).current_dir(self.dir.path()))
    }
}

#[test]
fn a_time_that_no_number_holds_is_said_to_be_farther_away() {
    let place = Place::new();
    let made = r#"
import io, tarfile
for name, form in [("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)]:
    with tarfile.open(name + ".tar", "w", format=form) as tar:
        for member, time in [("far", 2**40), ("early", -2**40)]:
            info = tarfile.TarInfo(member)
            info.size, info.mtime = 2, time
            tar.addfile(info, io.BytesIO(b"x\n"))
"#;
    let made = Command::new("python3").args(["-c", made]).current_dir(place.dir.path()).status();
    assert!(made.unwrap().success());
    for form in ["gnu", "pax"] {
        let tar = format!("{form}.tar");
        let (code, listed, stderr) = place.stook(&["ls", "-l", &tar]);
        assert!(
            code == 0 && listed.contains("before 1677-09-21") && listed.contains("after 2262-04-11"),
            "{listed}"
        );
        assert!(!listed.contains("1970"), "{listed} {stderr}");
        // Who writes files says of which the nearest time was set.
        for (args, to) in [(&["unpack", &tar][..], "unpacked"), (&["copy", &format!("{tar}//")], "copied")] {
            let to = format!("{form}-{to}");
            let (code, stdout, stderr) = place.stook(&[args, &[to.as_str()]].concat());
            assert!(stderr.contains("the nearest was set"), "{args:?} {code}: {stdout} {stderr}");
            let set = fs::metadata(place.path(&to).join("far")).unwrap().modified().unwrap();
            let since_1970 = set.duration_since(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(since_1970.as_secs(), i64::MAX as u64 / 1_000_000_000);
        }
    }
}

#[test]
fn a_pipe_in_a_tar_is_one_wherever_the_tar_is_shown() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::new();
    let made = Command::new("mkfifo").arg(place.path("t/pipe")).status().unwrap();
    assert!(made.success());
    place.tar(&["cf", "x.tar", "t"]);
    // From the tar itself, and from the index that the first look at it left.
    for round in ["first", "second"] {
        let (_, _, stderr) = place.stook(&["stitch", "tar", "x.tar//", "--write", &format!("{round}.tar")]);
        assert!(stderr.contains("t/pipe is a named pipe, and is not in it"), "{round}: {stderr}");
        let (code, _, stderr) = place.stook(&["copy", "x.tar//", round, "--specials"]);
        let copied = fs::symlink_metadata(place.path(round).join("t/pipe")).unwrap();
        assert!(code == 0 && copied.file_type().is_fifo(), "{round}: {stderr}");
        assert_eq!(place.stook(&["ls", "x.tar"]).0, 0);
        assert!(place.path("x.tar.stook-index").exists());
    }
}

#[test]
fn a_tar_is_listed_like_a_pack() {
    let place = Place::new();
    place.tar(&["--format=pax", "-cf", "x.tar", "-C", "t", "a", "d", "link"]);
    let (code, stdout, stderr) = place.stook(&["ls", "x.tar"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "a\nd\nd/b\nd/e\nd/e/c\nlink\n", ""));
    assert!(place.path("x.tar.stook-index").exists());
    assert_eq!(place.stook(&["ls", "x.tar", "--prefix", "d/", "*/b"]).1, "d/b\n");
    assert_eq!(place.stook(&["ls", "x.tar", "-0", "a"]).1, "a\0");
    assert_eq!(place.stook(&["ls", "x.tar", "--prefix", "id:"]).1, "");
    let (_, stdout, _) = place.stook(&["ls", "x.tar", "--long", "--json", "d/b"]);
    let line: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&line["key"], &line["kind"], &line["group"]), (&"d/b".into(), &"file".into(), &"".into()));
    assert_eq!((line["body_bytes"].as_u64(), line["stored_bytes"].as_u64()), (Some(200_000), Some(200_000)));
    // Before: `--follow` was passed over, and the list ended.
    for option in [&["--group", "g"][..], &["--follow"]] {
        let (code, _, stderr) = place.stook(&[&["ls", "x.tar"], option].concat());
        assert_eq!(code, 2);
        assert!(stderr.contains(&format!("{} is for packs", option[0])), "{stderr}");
    }
}

#[test]
fn members_are_got_by_key() {
    let place = Place::new();
    place.tar(&["-cf", "x.tar", "-C", "t", "."]);
    assert_eq!(place.stook(&["get", "x.tar", "a"]), (0, "alpha".into(), String::new()));
    assert_eq!(place.stook(&["get", "x.tar//further"]).1, "alpha", "a hard link gives the file's content");
    let (code, _, stderr) = place.stook(&["get", "x.tar", "a", "d/b", "d/e", "nothing", "--output", "out"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("x.tar has no member nothing"), "{stderr}");
    assert_eq!(fs::read(place.path("out/d/b")).unwrap(), fs::read(place.path("t/d/b")).unwrap());
    assert!(place.path("out/d/e").is_dir());
    assert_eq!(place.stook(&["get", "x.tar", "d/e/c", "a", "further", "--concat"]).1, "alphaalpha");
    let (code, stdout, _) = place.stook(&["get", "x.tar", "a", "no", "--output", "o2/", "--json"]);
    assert_eq!(code, 1);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&"ok".into(), &"missing".into()));
    assert_eq!(place.stook(&["get", "x.tar", "a", "--group", "g"]).0, 2);
}

#[test]
fn of_a_member_of_a_zip_nothing_is_written_before_its_checksum_was_right() {
    let place = Place::new();
    let script = "
import zipfile
with zipfile.ZipFile('x.zip', 'w') as z:
    for name in ['1', '2', '3']:
        z.writestr(name, 'body' + name)
    z.writestr('empty', '')
    z.writestr('long', b'l' * 17_000_000)
made = open('x.zip', 'rb').read().replace(b'body2', b'bodi2')
last = made.rindex(b'l' * 1000) + 999
open('x.zip', 'wb').write(made[:last] + b'L' + made[last + 1:])
";
    let python = Command::new("python3").args(["-c", script]).current_dir(place.dir.path()).status();
    assert!(python.unwrap().success());
    // Before: the wrong bytes were written, to stdout and into a file that others had a part in.
    let (code, stdout, stderr) = place.stook(&["get", "x.zip", "2"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("x.zip"), "{stderr}");
    let keys = ["get", "x.zip", "1", "2", "empty", "3", "1", "--concat"];
    assert_eq!(place.stook(&keys).1, "body1body3body1");
    fs::write(place.path("out"), "GOOD").unwrap();
    let (code, _, stderr) = place.stook(&[&keys[..], &["--output", "out"]].concat());
    assert_eq!((code, fs::read_to_string(place.path("out")).unwrap().as_str()), (1, "GOOD"), "{stderr}");
    // A long one comes as it is read; a file takes it back.
    let (code, stdout, _) = place.stook(&["get", "x.zip", "long"]);
    assert!(code == 1 && stdout.len() <= 17_000_000);
    assert_eq!(place.stook(&["get", "x.zip", "1", "long", "3", "--concat", "--output", "new"]).0, 1);
    assert_eq!(fs::read_to_string(place.path("new")).unwrap(), "body1body3");
}

#[test]
fn a_stale_or_missing_index_and_a_cut_archive_are_remarked_on() {
    let place = Place::new();
    place.tar(&["-cf", "x.tar", "-C", "t", "a"]);
    assert_eq!(place.stook(&["ls", "x.tar"]).2, "");
    place.tar(&["-rf", "x.tar", "-C", "t", "link"]);
    let (code, stdout, stderr) = place.stook(&["ls", "x.tar"]);
    assert_eq!((code, stdout.as_str()), (0, "a\nlink\n"));
    assert!(
        stderr.contains("Rebuilt the index") && stderr.contains("x.tar.stook-index: the archive has changed"),
        "{stderr}"
    );
    let bytes = fs::read(place.path("x.tar")).unwrap();
    fs::write(place.path("cut.tar"), &bytes[..1024]).unwrap();
    let (code, stdout, stderr) = place.stook(&["ls", "cut.tar"]);
    assert_eq!((code, stdout.as_str()), (0, "a\n"));
    assert!(stderr.contains("cut.tar does not end as a tar does"), "{stderr}");
    // Before: nothing of such a tar was had, and what came through stdin was.
    fs::write(place.path("torn.tar"), &bytes[..1500]).unwrap();
    for args in [&["ls"][..], &["get", "a"], &["load"], &["unpack", "out"], &["cat", "a"]] {
        let args = match args {
            ["cat", key] => vec!["cat".to_owned(), format!("torn.tar//{key}")],
            [command, rest @ ..] => {
                [*command, "torn.tar"].into_iter().chain(rest.iter().copied()).map(String::from).collect()
            }
            [] => continue,
        };
        let (code, stdout, stderr) = place.stook(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code, 1, "{args:?}: {stderr}");
        assert!(stdout.contains('a'), "{args:?}: {stdout}");
        assert_eq!(stderr.matches("torn.tar: damaged at offset").count(), 1, "{args:?}: {stderr}");
    }
    assert_eq!(fs::read(place.path("out/a")).unwrap(), b"alpha");
    let (code, _, stderr) = place.stook(&["pack", "torn.tar", "torn.stook"]);
    assert!(code == 1 && stderr.contains("torn.tar: damaged at offset"), "{stderr}");
    assert_eq!(place.stook(&["get", "torn.stook", "a"]).1, "alpha");
    fs::write(place.path("bad.tar"), &bytes[..514]).unwrap();
    let (code, stdout, stderr) = place.stook(&["ls", "bad.tar"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("bad.tar") && stderr.contains("offset 0"), "{stderr}");
    assert!(!place.path("bad.tar.stook-index").exists());
}

#[test]
fn a_file_that_is_no_archive_is_called_so() {
    let place = Place::new();
    let (code, _, stderr) = place.stook(&["ls", "t/a"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("t/a is no archive"), "{stderr}");
    // And an archive by commands that are for packs.
    place.tar(&["cf", "x.tar", "-C", "t", "a"]);
    for args in [
        &["check", "x.tar"][..],
        &["check", "x.tar", "--repair", "new.stook"],
        &["compact", "x.tar"],
        &["put", "x.tar", "k", "t/a"],
        &["rm", "x.tar", "a"],
        &["pack", "t", "x.tar"],
        &["pack", "t", "x.tar", "--dry-run"],
    ] {
        let (code, _, stderr) = place.stook(args);
        assert!(code == 1 && stderr.contains("it is an archive (tar)"), "{args:?}: {code} {stderr}");
    }
    let (code, _, stderr) = place.stook(&["get", "nowhere.tar", "a"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("nowhere.tar"), "{stderr}");
}

/// Whether two trees hold the same, times of directories included.
fn same(a: &std::path::Path, b: &std::path::Path) {
    let output = Command::new("diff").args(["-r", "--no-dereference"]).args([a, b]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let reported = |root: &std::path::Path| {
        let find =
            Command::new("find").args([".", "-printf", "%p %y %m %T@ %n %l\n"]).current_dir(root).output();
        let mut lines: Vec<String> =
            String::from_utf8_lossy(&find.unwrap().stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(reported(a), reported(b));
}

#[test]
fn archives_are_unpacked_as_their_own_programs_do() {
    let place = Place::new();
    place.tar(&["--format=pax", "-cf", "x.tar", "-C", "t", "."]);
    place.tar(&["--format=pax", "-czf", "x.tar.gz", "-C", "t", "."]);
    for name in ["x.tar", "x.tar.gz"] {
        let (code, stdout, stderr) = place.stook(&["unpack", name, &format!("{name}.out")]);
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.contains("Unpacked 3 files, 3 directories, 2 links"), "{stdout}");
        same(&place.path("t"), &place.path(&format!("{name}.out")));
    }
    let zip = Command::new("zip").args(["-qry", "../x.zip", "."]).current_dir(place.path("t")).status();
    assert!(zip.unwrap().success());
    assert_eq!(place.stook(&["unpack", "x.zip", "z"]).0, 0);
    let unzip =
        Command::new("unzip").args(["-q", "x.zip", "-d", "z2"]).current_dir(place.dir.path()).status();
    assert!(unzip.unwrap().success());
    // Times of links and of the folder itself are beyond unzip.
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", "z", "z2"])
        .current_dir(place.dir.path())
        .output();
    assert!(diff.unwrap().status.success());
    assert_eq!(place.stook(&["unpack", "x.tar", "o", "--include", "d/**", "--exclude", "e"]).0, 0);
    assert!(place.path("o/d/b").exists() && !place.path("o/d/e").exists() && !place.path("o/a").exists());
    let (code, stdout, stderr) = place.stook(&["unpack", "x.tar", "o"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "what is there has the same content");
    assert!(stdout.contains("1 unchanged"), "{stdout}");
    assert_eq!(place.stook(&["unpack", "x.tar", "o", "--group", "g"]).0, 2);
}

#[test]
fn unpacking_a_tar_again_makes_links_to_files_that_it_made_before() {
    let place = Place::new();
    place.tar(&["--format=pax", "-cf", "x.tar", "-C", "t", "a", "further", "d"]);
    assert_eq!(place.stook(&["unpack", "x.tar", "u"]).0, 0);
    let inodes = || ["u/a", "u/further"].map(|name| fs::metadata(place.path(name)).unwrap().ino());
    fs::remove_file(place.path("u/further")).unwrap();
    // Before: "1 file", with an inode of its own; from a pack it was a link.
    let (code, stdout, stderr) = place.stook(&["unpack", "x.tar", "u"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("Unpacked 0 files, 0 directories, 1 link:"), "{stdout}");
    let [first, further] = inodes();
    assert_eq!(first, further);
    // A name that became a separate file, though with the same bytes, gets no hard link.
    fs::remove_file(place.path("u/further")).unwrap();
    fs::set_permissions(place.path("u/a"), fs::Permissions::from_mode(0o606)).unwrap();
    assert_eq!(place.stook(&["unpack", "x.tar", "u"]).0, 0);
    let [first, further] = inodes();
    assert_ne!(first, further);
    assert_eq!(fs::read(place.path("u/further")).unwrap(), b"alpha");
}

#[test]
fn nothing_is_written_outside_the_directory() {
    let place = Place::new();
    let script = "
import io, tarfile
t = tarfile.open('evil.tar', 'w')
def file(name, body=b'evil'):
    i = tarfile.TarInfo(name); i.size = len(body); t.addfile(i, io.BytesIO(body))
def link(name, to, kind=tarfile.SYMTYPE):
    i = tarfile.TarInfo(name); i.type = kind; i.linkname = to; t.addfile(i)
file('../outside'); file('/tmp/stook-evil-absolute'); file('a/../../outside')
link('away', '..'); file('away/outside'); link('hard', '../t/a', tarfile.LNKTYPE)
link('hard2', 'away/t/a', tarfile.LNKTYPE)
file('good', b'good'); t.close()
";
    let python = Command::new("python3").args(["-c", script]).current_dir(place.dir.path()).status();
    assert!(python.unwrap().success());
    let (code, _, stderr) = place.stook(&["unpack", "evil.tar", "out"]);
    assert_eq!(code, 1);
    for name in ["../outside", "/tmp/stook-evil-absolute", "a/../../outside", "away:", "hard", "hard2"] {
        assert!(stderr.contains(name), "{name}: {stderr}");
    }
    assert_eq!(fs::read(place.path("out/good")).unwrap(), b"good");
    assert!(!place.path("outside").exists() && !PathBuf::from("/tmp/stook-evil-absolute").exists());
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 2, "a directory and the good file");
    assert!(fs::symlink_metadata(place.path("out/away")).unwrap().is_dir(), "what lies below it counts");
}

#[test]
fn info_and_load_tell_what_is_in_an_archive() {
    let place = Place::new();
    place.tar(&["-czf", "x.tar.gz", "-C", "t", "."]);
    place.tar(&["-cf", "x.tar", "-C", "t", "."]);
    let json = |args: &[&str]| -> serde_json::Value {
        let (code, stdout, stderr) = place.stook(args);
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let info = json(&["info", "x.tar.gz", "--json"]);
    assert_eq!((&info["format"], &info["sequential"]), (&"tar.gz".into(), &true.into()));
    assert_eq!((&info["members"], &info["files"], &info["hard_links"]), (&8.into(), &3.into(), &1.into()));
    assert!(place.stook(&["info", "x.tar.gz"]).1.contains("a get reads it from its front"));
    let info = place.stook(&["info", "x.tar"]).1;
    assert!(info.contains("members are read where they lie"), "{info}");
    // Before: "200 KB of bodies in 200 KB".
    assert!(info.contains(" of bodies; the file has "), "{info}");
    for args in [&["load", "x.tar", "--json"][..], &["load", "x.tar.gz", "--json", "--in-memory"]] {
        let load = json(args);
        assert_eq!((&load["records"], &load["bytes"]), (&8.into(), &200_008.into()), "{load}");
    }
    assert_eq!(place.stook(&["load", "x.tar", "--group", "g"]).0, 2);
    let (code, _, stderr) = place.stook(&["get", "x.tar.gz", "a"]);
    assert_eq!(code, 0);
    assert!(stderr.contains("read from its front"), "{stderr}");
}

#[test]
fn importing_an_archive_gives_what_packing_the_unpacked_tree_gives() {
    let place = Place::new();
    place.tar(&["--format=pax", "-cf", "x.tar", "-C", "t", "."]);
    fs::create_dir(place.path("u")).unwrap();
    place.tar(&["-xpf", "x.tar", "-C", "u"]);
    let (code, stdout, stderr) = place.stook(&["pack", "x.tar", "i.stook"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("Packed 3 files, 3 directories, 2 links"), "{stdout}");
    assert_eq!(place.stook(&["pack", "u", "p.stook"]).0, 0);
    let long = |pack: &str| {
        let stdout = place.stook(&["ls", "-l", "--json", pack]).1;
        let lines = stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let fields = ["key", "mode", "mtime_ns", "owner_user_id", "owner_group_id"];
        lines.map(|line| fields.map(|field| line[field].clone())).collect::<Vec<_>>()
    };
    assert_eq!(long("i.stook"), long("p.stook"));
    assert_eq!(place.stook(&["unpack", "i.stook", "out"]).0, 0);
    same(&place.path("t"), &place.path("out"));
    let (_, stdout, _) = place.stook(&["pack", "x.tar", "i.stook"]);
    assert!(stdout.contains("Packed 0 files") && stdout.contains("8 unchanged"), "{stdout}");
    assert_eq!(place.stook(&["check", "i.stook"]).0, 0);
    assert_eq!(place.stook(&["pack", "x.tar", "t", "m.stook"]).0, 2, "archives and directories do not mix");
    assert_eq!(place.stook(&["pack", "x.tar", "g.stook", "--group-by", "top"]).0, 2);
}

#[test]
fn a_tar_from_stdin_is_imported() {
    let place = Place::new();
    let sparse = fs::File::create(place.path("t/sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 3 << 20).unwrap();
    for (pack, option) in [("a.stook", "-cf"), ("b.stook", "-czf")] {
        place.tar(&["--format=pax", "--sparse", option, "x", "-C", "t", "."]);
        let input = fs::File::open(place.path("x")).unwrap();
        let (code, _, stderr) = ended(stook(["pack", "-", pack]).stdin(input).current_dir(place.dir.path()));
        assert_eq!(code, 0, "{stderr}");
        let out = format!("{pack}.out");
        assert_eq!(place.stook(&["unpack", pack, &out]).0, 0);
        same(&place.path("t"), &place.path(&out));
    }
    let bytes = fs::read(place.path("x")).unwrap();
    fs::write(place.path("cut"), &bytes[..bytes.len() / 2]).unwrap();
    let input = fs::File::open(place.path("cut")).unwrap();
    let (code, _, stderr) = ended(stook(["pack", "-", "c.stook"]).stdin(input).current_dir(place.dir.path()));
    assert_eq!(code, 1);
    assert!(stderr.contains("cut off"), "{stderr}");
}

/// Before: what had come whole was lost with the writer's buffer, and a stream is read once.
#[test]
fn what_came_whole_of_a_stream_that_ends_early_is_kept() {
    let place = Place::new();
    place.tar(&["-cf", "x.tar", "-C", "t", "a", "d/b", "link"]);
    let whole = fs::read(place.path("x.tar")).unwrap();
    let cut = &whole[..whole.len() / 2];
    for (round, before) in [("made", 0), ("added to", 1)] {
        let pack = format!("{before}.stook");
        if before > 0 {
            assert_eq!(
                super::packs::fed(stook(["put", &pack, "old", "-"]).current_dir(place.dir.path()), b"x").0,
                0
            );
        }
        let mut command = stook(["pack", "-", &pack]);
        let (code, _, stderr) = super::packs::fed(command.current_dir(place.dir.path()), cut);
        assert!(code == 1 && stderr.contains("cut off"), "{round}: {stderr}");
        let (code, got, _) = place.stook(&["get", &pack, "a"]);
        assert_eq!((code, got.as_str()), (0, "alpha"), "{round}");
        let (code, _, stderr) = place.stook(&["check", &pack]);
        assert!(code == 1 && stderr.contains("incomplete"), "{round}: {stderr}");
        let mut command = stook(["pack", "-", &pack]);
        assert_eq!(super::packs::fed(command.current_dir(place.dir.path()), &whole).0, 0, "{round}");
        assert_eq!(place.stook(&["get", &pack, "link"]).0, 0, "{round}");
    }
}

#[test]
fn a_pack_is_exported_as_a_tar_that_others_read_and_that_is_always_the_same() {
    let place = Place::new();
    let long = "n".repeat(180);
    fs::write(place.path("t").join(&long), b"long").unwrap();
    let strange: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"d/\xff\xfe".to_vec());
    fs::write(place.path("t").join(strange), b"bytes").unwrap();
    fs::hard_link(place.path("t/d/b"), place.path("t/0-first")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_234_567_890_123_456_789);
    fs::File::options().write(true).open(place.path("t/a")).unwrap().set_modified(time).unwrap();
    assert_eq!(place.stook(&["pack", "t", "p.stook"]).0, 0);
    let (code, stdout, stderr) = place.stook(&["unpack", "p.stook", "--tar", "one.tar"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("5 files"), "{stdout}");
    let output = stook(["unpack", "p.stook", "--tar", "-"]).current_dir(place.dir.path()).output().unwrap();
    assert!(output.stdout == fs::read(place.path("one.tar")).unwrap(), "the same bytes each time");
    // A pack that came about in another way gives the same tar.
    assert_eq!(place.stook(&["pack", "one.tar", "q.stook"]).0, 0);
    assert_eq!(place.stook(&["unpack", "q.stook", "--tar", "two.tar"]).0, 0);
    assert!(fs::read(place.path("two.tar")).unwrap() == output.stdout);
    fs::create_dir(place.path("gnu")).unwrap();
    let tar =
        Command::new("tar").args(["-xpf", "one.tar", "-C", "gnu"]).current_dir(place.dir.path()).output();
    let tar = tar.unwrap();
    assert!(tar.status.success() && tar.stderr.is_empty(), "{}", String::from_utf8_lossy(&tar.stderr));
    same(&place.path("t"), &place.path("gnu"));
    let script = "import tarfile; tarfile.open('one.tar').extractall('py')";
    let python =
        Command::new("python3").args(["-W", "ignore", "-c", script]).current_dir(place.dir.path()).status();
    assert!(python.unwrap().success());
    let output = Command::new("diff")
        .args(["-r", "--no-dereference", "t", "py"])
        .current_dir(place.dir.path())
        .output();
    assert!(output.unwrap().status.success());
    assert_eq!(place.stook(&["unpack", "p.stook", "d", "--tar", "x.tar"]).0, 2);
}

/// Time that a process worked for itself, in hundredths of a second.
fn worked(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').nth(11).unwrap().parse().unwrap()
}

#[test]
fn ctrl_c_inside_a_long_member_ends_packing_with_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("first"), "whole").unwrap();
    // It has to fit on the disk, or packing is refused.
    let len = (stook::storage::free_bytes(dir.path()).unwrap() / 4).min(1 << 40);
    fs::File::create(dir.path().join("hole")).unwrap().set_len(len).unwrap();
    let tar = ["--format=gnu", "--sparse", "-cf", "t.tar", "first", "hole"];
    assert!(Command::new("tar").args(tar).current_dir(dir.path()).status().unwrap().success());
    for (source, pack) in [("t.tar", "file.stook"), ("-", "stdin.stook")] {
        let mut command = stook(["pack", source, pack]);
        let input = fs::File::open(dir.path().join("t.tar")).unwrap();
        let command =
            command.current_dir(dir.path()).stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // A hole is nowhere on the disk. But summing it up is work, and all else is next to none.
        let worker = child.id();
        wait_until(&mut child, || worked(worker) >= 50);
        send("-INT", &child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{source}");
        let listed = ended(stook(["ls", pack]).current_dir(dir.path()));
        assert_eq!((listed.0, listed.1.as_str()), (0, "first\n"), "{source}");
        assert!(listed.2.contains("is incomplete"), "{source}: {}", listed.2);
        let checked = ended(stook(["check", pack]).current_dir(dir.path()));
        assert!(checked.0 == 1 && checked.2.contains("is incomplete"), "{source}: {checked:?}");
    }
}

#[test]
fn a_member_that_is_a_hole_is_got_as_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 40).unwrap();
    let tar = ["--format=pax", "--sparse", "-cf", "t.tar", "hole"];
    assert!(Command::new("tar").args(tar).current_dir(dir.path()).status().unwrap().success());
    let (code, _, stderr) = ended(stook(["get", "t.tar", "hole", "--output", "got"]).current_dir(dir.path()));
    let got = fs::metadata(dir.path().join("got")).unwrap();
    assert!(code == 0 && got.len() == 1 << 40 && got.blocks() < 2048, "{stderr}");
    let (code, stdout, _) = ended(stook(["load", "t.tar"]).current_dir(dir.path()));
    assert!(code == 0 && stdout.starts_with("1 record, 1.10 TB"), "{stdout}");
}

/// Makes an archive whose members have the time that they always have.
const FIXED: &str = "
import io, sys, tarfile, zipfile
path, *members = sys.argv[1:]
members = [(name, text.encode() * int(times)) for name, text, times in zip(*[iter(members)] * 3)]
if path.endswith('.zip'):
    with zipfile.ZipFile(path, 'w') as out:
        for name, body in members:
            out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), body)
else:
    with tarfile.open(path, 'w') as out:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            out.addfile(info, io.BytesIO(body))
";

fn fixed(place: &Place, name: &str, members: &[&str]) {
    let made = Command::new("python3")
        .args(["-c", FIXED, name])
        .args(members)
        .current_dir(place.dir.path())
        .status();
    assert!(made.unwrap().success());
}

/// Packs an archive, by its name or through stdin, and gives what was said.
fn import(place: &Place, name: &str, through_stdin: bool, options: &[&str]) -> serde_json::Value {
    let mut command = stook(["pack"]);
    command.args(options).args([if through_stdin { "-" } else { name }, "p.stook", "--json"]);
    command.current_dir(place.dir.path());
    let (code, stdout, stderr) = match through_stdin {
        true => super::packs::fed(&mut command, &fs::read(place.path(name)).unwrap()),
        false => {
            let (code, stdout, stderr) = ended(&mut command);
            (code, stdout.into_bytes(), stderr)
        }
    };
    assert_eq!(code, 0, "{name}: {stderr}");
    serde_json::from_slice(&stdout).unwrap()
}

#[test]
fn a_member_that_changed_is_packed_again_whatever_its_time_says() {
    for (name, through_stdin) in [("x.zip", false), ("x.tar", false), ("x.tar", true)] {
        let place = Place::new();
        let reported = |report: &serde_json::Value| {
            ["files", "unchanged", "replaced"].map(|field| report[field].as_u64().unwrap())
        };
        let long = ["same", "s", "5", "short", "a", "5", "long", "a", "5000000"];
        fixed(&place, name, &long);
        assert_eq!(reported(&import(&place, name, through_stdin, &[])), [3, 0, 0], "{name}");
        assert_eq!(reported(&import(&place, name, through_stdin, &[])), [0, 3, 0], "{name}");
        assert_eq!(reported(&import(&place, name, through_stdin, &["--checksum"])), [0, 3, 0], "{name}");
        let changed = ["same", "s", "5", "short", "b", "5", "long", "b", "5000000"];
        fixed(&place, name, &changed);
        if !through_stdin {
            assert_eq!(reported(&import(&place, name, through_stdin, &["--dry-run"])), [2, 1, 2], "{name}");
        }
        assert_eq!(reported(&import(&place, name, through_stdin, &[])), [2, 1, 2], "{name}");
        let (_, stdout, _) = ended(stook(["get", "p.stook", "short"]).current_dir(place.dir.path()));
        assert_eq!(stdout, "bbbbb", "{name}");
        let (_, stdout, _) = ended(stook(["get", "p.stook", "long"]).current_dir(place.dir.path()));
        assert!(stdout.len() == 5_000_000 && stdout.bytes().all(|byte| byte == b'b'), "{name}");
        assert_eq!(reported(&import(&place, name, through_stdin, &[])), [0, 3, 0], "{name}");
    }
}

#[test]
fn what_one_archive_put_is_not_taken_for_what_was_there_before() {
    let place = Place::new();
    fixed(&place, "old.tar", &["m", "a", "5"]);
    fixed(&place, "new.tar", &["m", "b", "5"]);
    import(&place, "old.tar", false, &[]);
    let mut command = stook(["pack", "new.tar", "old.tar", "p.stook"]);
    assert_eq!(ended(command.current_dir(place.dir.path())).0, 0);
    let (_, stdout, _) = ended(stook(["get", "p.stook", "m"]).current_dir(place.dir.path()));
    assert_eq!(stdout, "aaaaa", "the last one counts");
}

/// Before: "name one directory", which is impossible for two trees.
#[test]
fn deleting_by_two_trees_from_what_was_made_from_an_archive_is_refused_with_what_helps() {
    let place = Place::new();
    place.tar(&["cf", "x.tar", "-C", "t", "."]);
    assert_eq!(place.stook(&["pack", "x.tar", "p.stook"]).0, 0);
    let (code, _, stderr) = place.stook(&["pack", "t", "t/d", "p.stook", "--delete"]);
    assert!(
        code == 2 && stderr.contains("the pack was made from /") && stderr.contains("/x.tar, and"),
        "{stderr}"
    );
    assert!(stderr.contains("name one directory, or make another pack of these"), "{stderr}");
}

/// Before: every run wrote common files again, from the one and then from the other.
#[test]
fn of_what_two_archives_have_the_last_counts_and_is_unchanged_the_next_time() {
    let place = Place::new();
    for name in ["one", "two"] {
        fs::create_dir(place.path(name)).unwrap();
        fs::write(place.path(name).join("k"), name).unwrap();
    }
    // A name that belongs to another file in the end keeps its content.
    fs::hard_link(place.path("one/k"), place.path("one/l")).unwrap();
    place.tar(&["cf", "one.tar", "-C", "one", "."]);
    place.tar(&["cf", "two.tar", "-C", "two", "."]);
    let pack = || {
        let mut command = stook(["pack", "one.tar", "two.tar", "p.stook", "--json"]);
        let (code, stdout, stderr) = ended(command.current_dir(place.dir.path()));
        assert_eq!(code, 0, "{stderr}");
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        ["files", "directories", "hard_links", "unchanged", "replaced"]
            .map(|field| report[field].as_u64().unwrap())
    };
    assert_eq!(pack(), [2, 1, 0, 0, 0]);
    assert_eq!(pack(), [0, 0, 0, 3, 0]);
    for (key, body) in [("k", "two"), ("l", "one")] {
        assert_eq!(place.stook(&["get", "p.stook", key]).1, body, "{key}");
    }
}

/// A tar of one member of this type, and a file after it.
fn tar_of_type(place: &Place, type_flag: u8, len: u64) {
    let header = |name: &str, type_flag, len: u64| {
        let mut block = [0u8; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[100..107].copy_from_slice(b"0000644");
        block[124..135].copy_from_slice(format!("{len:011o}").as_bytes());
        block[136..147].copy_from_slice(b"14524770400");
        block[148..156].fill(b' ');
        block[156] = type_flag;
        block[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    };
    let body = |len: u64| {
        let mut body = vec![b'x'; len as usize];
        body.resize(len.next_multiple_of(512) as usize, 0);
        body
    };
    let odd = [&header("odd", type_flag, len)[..], &body(len)].concat();
    let file = [&header("file", b'0', 4)[..], &body(4)].concat();
    fs::write(place.path("odd.tar"), [odd, file, vec![0; 1024]].concat()).unwrap();
}

#[test]
fn a_member_of_an_unknown_type_is_a_file_as_for_tar_and_one_whose_bytes_are_missed_is_reported() {
    let place = Place::new();
    let archive = fs::read;
    for source in ["odd.tar", "-"] {
        let pack = |name: &str| {
            let _ = fs::remove_dir_all(place.path(name));
            let mut command = stook(["pack", source, name]);
            super::packs::fed(command.current_dir(place.dir.path()), &archive(place.path("odd.tar")).unwrap())
        };
        // An unknown type: GNU tar takes it for a file, as POSIX specifies.
        tar_of_type(&place, b'Z', 700);
        assert_eq!(pack("p.stook").0, 0, "{source}");
        let gnu = Command::new("tar").args(["-xOf", "odd.tar", "odd"]).current_dir(place.dir.path()).output();
        assert_eq!(place.stook(&["get", "p.stook", "odd"]).1.as_bytes(), gnu.unwrap().stdout, "{source}");
        // Long names of old GNU tar; a pipe and the name of a volume miss nothing.
        tar_of_type(&place, b'N', 700);
        let (code, _, stderr) = pack("p.stook");
        assert!(code == 1 && stderr.contains("odd: ") && stderr.contains("700 bytes"), "{source}: {stderr}");
        assert_eq!(place.stook(&["get", "p.stook", "file"]).1, "xxxx", "{source}");
        for harmless in [b'6', b'V'] {
            tar_of_type(&place, harmless, 0);
            let (code, _, stderr) = pack("p.stook");
            assert!(code == 0 && stderr.contains("Left out: odd"), "{source}: {code} {stderr}");
        }
    }
}

#[test]
fn what_is_called_an_archive_and_cannot_be_imported_is_refused_and_makes_no_pack() {
    let place = Place::new();
    place.tar(&["cf", "x.tar", "-C", "t", "a", "d"]);
    fs::write(place.path("broken.zip"), b"PK\x03\x04 and no more").unwrap();
    fs::write(place.path("text.tar"), b"no tar").unwrap();
    fs::write(place.path("a.tar.bz2"), b"BZh9").unwrap();
    for name in ["text.tar", "a.tar.bz2"] {
        let (code, _, stderr) = place.stook(&["pack", name, "p.stook"]);
        assert!(
            code == 2 && stderr.contains(name) && stderr.contains("--as-file"),
            "{name}: {code} {stderr}"
        );
        assert!(!place.path("p.stook").exists(), "{name}");
    }
    // The command line is valid: these archives are truncated or damaged.
    let whole = fs::read(place.path("x.tar")).unwrap();
    let mut hit = whole.clone();
    hit[3] ^= 1;
    fs::write(place.path("hit.tar"), hit).unwrap();
    for (name, why) in [("broken.zip", "was cut off"), ("hit.tar", "its first header")] {
        let (code, _, stderr) = place.stook(&["pack", name, "p.stook"]);
        assert!(code == 1 && stderr.contains(name) && stderr.contains(why), "{name}: {code} {stderr}");
        assert!(!stderr.contains("unpack it first") && !place.path("p.stook").exists(), "{name}: {stderr}");
    }
    // Of one that ends early, as of one through stdin, what is whole is packed, and the pack is
    // incomplete. Before: nothing of it was.
    fs::write(place.path("cut.tar"), &whole[..whole.len() / 4]).unwrap();
    let (code, _, stderr) = place.stook(&["pack", "cut.tar", "cut.stook"]);
    assert!(code == 1 && stderr.contains("reaches past the end of the archive"), "{stderr}");
    assert_eq!(place.stook(&["get", "cut.stook", "a"]).1, "alpha");
    assert!(place.stook(&["check", "cut.stook"]).2.contains("incomplete"));
    let (code, _, stderr) = place.stook(&["pack", "broken.zip", "p.stook", "--as-file"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(place.stook(&["load", "p.stook"]).1.starts_with("1 record"));
}
