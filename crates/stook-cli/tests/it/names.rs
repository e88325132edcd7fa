//! Names as people give them: keys as they are shown, patterns that mean one thing, and what is not
//! there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use proptest::collection::btree_set;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::{prop_assert_eq, proptest};
use stook::pack::{Attributes, Key};

use super::packs::{Place, fed, key};
use super::{ended, stook};

/// Keys with all that is awkward in them.
fn keys() -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
    let piece = prop_oneof![
        Just(b"\\".to_vec()),
        Just(b"\\x41".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"id:".to_vec()),
        Just(b"bytes:".to_vec()),
        Just("ü\u{9b}\u{2028}".as_bytes().to_vec()),
        Just(b"\xff\xc3".to_vec()),
        Just(b" '\"$*[".to_vec()),
        proptest::collection::vec(1..=255u8, 0..4),
    ];
    let bytes = proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    btree_set(bytes, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn what_ls_prints_of_a_key_finds_exactly_that_key(bytes in keys(), id in any::<u64>()) {
        let place = Place::new();
        let mut writer = place.writer();
        let mut all: Vec<Key> = bytes.iter().map(key).collect();
        all.push(Key::id(id));
        for key in &all {
            writer.put("", key, &Attributes::new(), key.sort_form()).unwrap();
        }
        writer.finish(true).unwrap();
        let (code, stdout, _) = place.run("ls", &[]);
        let shown: Vec<&str> = stdout.lines().collect();
        prop_assert_eq!((code, shown.len()), (0, all.len()), "{}", stdout);
        for (key, shown) in all.iter().zip(&shown) {
            let got = place.command("get", &["--", shown]).output().unwrap();
            prop_assert_eq!(&got.stdout, key.sort_form(), "{}", shown);
            let from = place.run("ls", &["--from", shown]).1;
            prop_assert_eq!(from.lines().next(), Some(*shown));
            let removed = place.run("rm", &["--dry-run", "--", shown]).1;
            prop_assert_eq!(removed.lines().next(), Some(*shown));
        }
        let wanted: Vec<u8> = all.iter().flat_map(|key| key.sort_form().to_vec()).collect();
        let listed = place.command("ls", &[]).output().unwrap().stdout;
        let got = fed(&mut place.command("get", &["--from-file", "-", "--concat"]), &listed);
        prop_assert_eq!((got.0, &got.1), (0, &wanted), "{}", got.2);
        let listed = place.command("ls", &["-0"]).output().unwrap().stdout;
        let got = fed(&mut place.command("get", &["--from-file", "-", "-0", "--concat"]), &listed);
        prop_assert_eq!((got.0, &got.1), (0, &wanted), "{}", got.2);
        let gone = fed(&mut place.command("rm", &["--from-file", "-", "-0"]), &listed);
        prop_assert_eq!((gone.0, place.run("ls", &[]).1), (0, String::new()), "{}", gone.2);
    }
}

#[test]
fn keys_as_ls_prints_them_and_bytes_beside_wildcards_are_patterns() {
    let place = Place::new();
    let mut writer = place.writer();
    let shown = ["bytes:", "a[1].txt", r"a\\x41", r"bad\xff.txt", r"d/new\x0aline.txt", "id:7"];
    let bytes = [&b""[..], br"a\x41", b"a[1].txt", b"bad\xff.txt", b"d/new\nline.txt"];
    for key in bytes.into_iter().map(key).chain([Key::id(7)]) {
        writer.put("", &key, &Attributes::new(), b"body").unwrap();
    }
    writer.finish(true).unwrap();
    assert_eq!(place.run("ls", &[]).1.lines().collect::<Vec<_>>(), shown);
    for shown in shown {
        let (code, stdout, stderr) = place.run("ls", &[shown]);
        assert_eq!((code, stdout), (0, format!("{shown}\n")), "{stderr}");
        let (code, stdout, stderr) = place.run("rm", &["--dry-run", "--glob", shown]);
        assert_eq!((code, stdout.lines().next()), (0, Some(shown)), "{stderr}");
    }
    for (pattern, found) in [(r"bad\xff*", r"bad\xff.txt"), (r"*\x0aline*", r"d/new\x0aline.txt")] {
        assert_eq!(place.run("ls", &[pattern]).1, format!("{found}\n"));
        assert_eq!(place.run("rm", &["--glob", pattern]).0, 0);
        assert_eq!(place.run("ls", &[pattern]).0, 1);
    }
    assert_eq!(place.run("ls", &[]).1.lines().count(), 4, "nothing else went");
}

#[test]
fn a_backslash_that_is_no_escape_is_refused_and_not_guessed_at() {
    let place = Place::filled();
    for args in [&["get", r"a\b"][..], &["rm", r"a\b"], &["ls", "--prefix", r"a\b"]] {
        let (code, stdout, stderr) = place.run(args[0], &args[1..]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains(r"a\b begins no escape; expected `\xNN`"), "{stderr}");
    }
}

#[test]
fn a_key_that_is_empty_is_refused_and_the_empty_key_has_a_form() {
    let place = packed();
    fs::write(place.path("in"), "four").unwrap();
    let before = place.run("ls", &["-l"]).1;
    for (command, args) in [
        ("rm", &[""][..]),
        ("put", &["", "in"]),
        ("get", &[""]),
        ("get", &["one.txt", "", "--concat"]),
        ("ls", &["--from", ""]),
        ("load", &["--to", ""]),
    ] {
        let (code, stdout, stderr) = place.run(command, args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{command} {args:?}: {stderr}");
        assert!(stderr.contains("the key is empty (is a variable not set?)"), "{command}: {stderr}");
        assert!(stderr.contains("the empty key is written `bytes:`"), "{command}: {stderr}");
    }
    assert_eq!(place.run("ls", &["-l"]).1, before);
    // A prefix is no key, and lines of a list may be empty.
    assert_eq!(place.run("ls", &["--prefix", "", "-l"]).1, before);
    let list = fed(&mut place.command("get", &["--from-file", "-", "--concat"]), b"\none.txt\n\n");
    assert_eq!((list.0, list.1), (0, b"one.txt".to_vec()), "{}", list.2);
    let (code, stdout, _) = place.run("put", &["bytes:", "in"]);
    assert_eq!((code, stdout.as_str()), (0, "put 4 B as bytes:, in place of an older record\n"));
    assert_eq!(place.run("get", &["bytes:"]).1, "four");
}

/// A directory with a tree in it, and its pack.
fn packed() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("tree/a/b")).unwrap();
    fs::create_dir_all(place.path("tree/cache/deep")).unwrap();
    for name in ["one.txt", "two.jpg", "a/three.txt", "a/b/four.txt", "cache/five.txt", "cache/deep/six.jpg"]
    {
        fs::write(place.path("tree").join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("a/three.txt", place.path("tree/link")).unwrap();
    fs::hard_link(place.path("tree/one.txt"), place.path("tree/other.bin")).unwrap();
    let packed = ended(stook(["pack", "tree", "p.stook"]).current_dir(place.dir.path()));
    assert_eq!(packed.0, 0, "{packed:?}");
    place
}

#[test]
fn a_tree_that_is_listed_can_be_got() {
    let place = packed();
    for flags in [&["-0"][..], &[]] {
        let listed = place.command("ls", flags).output().unwrap().stdout;
        let to = place.path(&format!("out{}", flags.len()));
        let mut get = place.command("get", &["--from-file", "-", "--output"]);
        let (code, _, stderr) = fed(get.arg(&to).args(flags), &listed);
        assert_eq!(code, 0, "{stderr}");
        for name in ["one.txt", "other.bin", "a/b/four.txt", "cache/deep/six.jpg"] {
            assert_eq!(fs::read(to.join(name)).unwrap(), fs::read(place.path("tree").join(name)).unwrap());
        }
    }
    let listed = place.run("ls", &[]).1;
    assert_eq!(listed.lines().next(), Some("bytes:"), "the root has a line that is a key");
}

/// Files below a directory, by their paths.
fn files(below: &Path, at: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() && !path.is_symlink() {
            true => files(below, &path, all),
            false => drop(all.insert(path.strip_prefix(below).unwrap().to_str().unwrap().to_owned())),
        }
    }
}

#[test]
fn patterns_mean_the_same_everywhere() {
    for (pattern, wanted) in [
        ("*.jpg", &["cache/deep/six.jpg", "two.jpg"][..]),
        ("/*.txt", &["one.txt"]),
        ("a/*", &["a/three.txt"]),
        ("a/**", &["a/b/four.txt", "a/three.txt"]),
        ("**/deep/*", &["cache/deep/six.jpg"]),
        ("{one,four}.txt", &["a/b/four.txt", "one.txt"]),
        ("f[io]*.txt", &["a/b/four.txt", "cache/five.txt"]),
        ("./*.txt", &["one.txt"]),
        ("a/", &["a/b/four.txt", "a/three.txt"]),
        ("deep/", &["cache/deep/six.jpg"]),
        ("./cache/", &["cache/deep/six.jpg", "cache/five.txt"]),
    ] {
        let place = packed();
        let is_file = |name: &&str| !["a/b", "a", "cache", "cache/deep"].contains(name);
        let lines = |text: &str| text.lines().filter(is_file).map(str::to_owned).collect::<BTreeSet<_>>();
        let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(lines(&place.run("ls", &[pattern]).1), wanted, "ls {pattern}");
        let removed = place.run("rm", &["--glob", pattern, "--dry-run", "--quiet"]).1;
        assert_eq!(lines(&removed), wanted, "rm {pattern}");
        let mut found = BTreeSet::new();
        let unpacked = place.run("unpack", &["out", "--include", pattern]);
        assert_eq!(unpacked.0, 0, "{unpacked:?}");
        files(&place.path("out"), &place.path("out"), &mut found);
        assert_eq!(found, wanted, "unpack {pattern}");
        let part = ["pack", "tree", "part.stook", "--include", pattern];
        assert_eq!(ended(stook(part).current_dir(place.dir.path())).0, 0);
        let listed = ended(stook(["ls", "part.stook"]).current_dir(place.dir.path())).1;
        assert_eq!(lines(&listed.replace("bytes:\n", "")), wanted, "pack {pattern}");
    }
}

#[test]
fn a_slash_at_the_end_means_the_directory_itself_too_and_no_file() {
    let place = packed();
    let run = |line: &str| ended(stook(line.split(' ')).current_dir(place.dir.path()));
    assert_eq!(run("unpack p.stook --tar t.tar").0, 0);
    let below = "cache\ncache/deep\ncache/deep/six.jpg\ncache/five.txt\n";
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    for pattern in ["cache/", "./cache/", "/cache/"] {
        for from in ["p.stook", "t.tar"] {
            assert_eq!(run(&format!("ls {from} {pattern}")).1, below, "{from} {pattern}");
            assert_eq!(run(&format!("ls {from} {pattern} -l")).1.lines().count(), 4, "{from} {pattern}");
        }
        let on_disk = run(&format!("ls p.stook --order disk {pattern}")).1;
        assert_eq!(sorted(&on_disk), sorted(below), "{pattern}");
        assert_eq!(run(&format!("rm p.stook --dry-run -q --glob {pattern}")).1, below, "{pattern}");
    }
    for (from, out) in [("p.stook", "out"), ("t.tar", "out2")] {
        assert_eq!(run(&format!("unpack {from} {out} --exclude cache/")).0, 0);
        assert!(!place.path(out).join("cache").exists() && place.path(out).join("a/b").exists(), "{from}");
        let only = format!("{out}-only");
        assert_eq!(run(&format!("unpack {from} {only} --include cache/deep/")).0, 0);
        assert!(
            place.path(&only).join("cache/deep/six.jpg").exists() && !place.path(&only).join("a").exists()
        );
    }
    assert_eq!(run("unpack p.stook --tar u.tar --exclude cache/").0, 0);
    assert!(!run("ls u.tar").1.contains("cache"));
    // A file is not a directory, whatever its name.
    let (code, _, stderr) = run("ls p.stook one.txt/");
    assert!(code == 1 && stderr.contains("p.stook has no record for 'one.txt/'"), "{stderr}");
    let (code, _, stderr) = run("unpack p.stook out3 --exclude one.txt/");
    assert_eq!((code, stderr.as_str()), (0, "--exclude 'one.txt/' matched nothing.\n"));
    assert_eq!(run("rm p.stook --glob cache/").0, 0);
    assert!(!run("ls p.stook").1.contains("cache"));
}

#[test]
fn what_is_not_there_is_reported_and_exits_1() {
    let place = packed();
    let mut tar = stook(["unpack"]);
    assert_eq!(ended(tar.arg(&place.pack).args(["--tar", "t.tar"]).current_dir(place.dir.path())).0, 0);
    for (line, reported) in [
        ("ls p.stook *.png", "p.stook has no record for '*.png'"),
        ("ls p.stook --prefix b/ -l", "p.stook has no record for --prefix 'b/'"),
        ("ls p.stook --from zz --json", "p.stook has no record for --from 'zz'"),
        ("ls p.stook --group h", "p.stook: the pack has no group \"h\""),
        ("ls t.tar *.png", "t.tar has no member for '*.png'"),
        ("rm p.stook --glob *.png", "p.stook has no record for --glob '*.png'"),
        ("rm p.stook --prefix b/ --dry-run", "p.stook has no record for --prefix 'b/'"),
        ("rm p.stook --from-file /dev/null", "the list of keys is empty"),
        ("get p.stook --from-file /dev/null --concat", "the list of keys is empty"),
        ("get t.tar --from-file /dev/null --concat", "the list of keys is empty"),
        ("load p.stook --prefix b/", "p.stook has no record for --prefix 'b/'"),
        ("unpack p.stook o1 --include *.png", "p.stook has no path for --include '*.png'"),
        ("unpack p.stook o2 --prefix b/", "p.stook has no path for --prefix 'b/'"),
        ("unpack t.tar o3 --include *.png", "t.tar has no path for --include '*.png'"),
        ("unpack p.stook o4 --group h", "the pack has no group \"h\""),
        ("pack tree q.stook --include *.png", "tree has no path for --include '*.png'"),
    ] {
        let (code, _, stderr) = ended(stook(line.split(' ')).current_dir(place.dir.path()));
        assert_eq!(code, 1, "{line}: {stderr}");
        assert!(stderr.contains(reported), "{line}: {stderr}");
    }
    for made in ["o1", "o2", "o3", "o4", "q.stook"] {
        assert!(!place.path(made).exists(), "{made} was made for nothing");
    }
}

#[test]
fn a_directory_of_the_tree_is_told_to_be_one_with_what_gets_it() {
    let place = packed();
    for args in [&["a"][..], &["a", "--output", "file"]] {
        let (code, stdout, stderr) = place.run("get", args);
        assert_eq!((code, stdout.as_str()), (1, ""));
        assert!(
            stderr.contains("a is a directory; `stook unpack") && stderr.contains("--prefix 'a/'`"),
            "{stderr}"
        );
    }
    assert!(!place.path("file").exists());
    assert_eq!(place.run("unpack", &["out", "--prefix", "a/"]).0, 0);
    assert_eq!(fs::read(place.path("out/a/b/four.txt")).unwrap(), b"a/b/four.txt");
}

#[test]
fn long_lines_tell_where_links_lead() {
    let place = packed();
    let (_, stdout, _) = place.run("ls", &["-l"]);
    assert!(stdout.contains("  link -> a/three.txt\n"), "{stdout}");
    let first = ["one.txt", "other.bin"].map(|name| stdout.contains(&format!("  {name} link to ")));
    assert_eq!(first.iter().filter(|&&is| is).count(), 1, "{stdout}");
    let (_, stdout, _) = place.run("ls", &["-l", "--json", "link"]);
    let line: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(line["link"], "a/three.txt");
    super::packs::documented("ls", &line);
}
