//! `stook stitch`: archives that are not written, and the tools that read them.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::packs::{Place, documented};
use super::{ended, stook};

fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("project/src/deep")).unwrap();
    fs::write(place.path("project/readme"), "read me").unwrap();
    fs::write(place.path("project/src/main"), vec![5; 300_000]).unwrap();
    fs::write(place.path("project/src/deep/x"), "").unwrap();
    std::os::unix::fs::symlink("src/main", place.path("project/main")).unwrap();
    place
}

fn run(place: &Place, args: &[&str]) -> (i32, String, String) {
    ended(stook(["stitch"]).args(args).current_dir(place.dir.path()))
}

/// Runs a script with `$STOOK`.
fn script(place: &Place, script: &str) -> (i32, String, String) {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]);
    ended(shell.current_dir(place.dir.path()).env("STOOK", env!("CARGO_BIN_EXE_stook")))
}

#[test]
fn a_tar_comes_from_the_pipe_and_a_zip_from_a_file_as_the_tree() {
    let place = place();
    for of in [
        "mkdir t; $STOOK stitch tar project | tar xf - -C t; diff -r --no-dereference t project",
        "$STOOK stitch zip project --write p.zip; unzip -q p.zip -d z; diff -r --no-dereference z project",
        "$STOOK stitch zip project > q.zip; cmp p.zip q.zip",
        "$STOOK stitch tar project --write p.tar; $STOOK stitch tar project | cmp - p.tar",
        "$STOOK verify project --against p.tar//; $STOOK verify p.zip// --against project",
        // A pack and an archive are trees as well.
        "$STOOK pack -q project p.stook; $STOOK stitch tar p.stook --deterministic > one
         $STOOK stitch tar p.tar// --deterministic > two; cmp one two
         $STOOK stitch tar project --deterministic | cmp - one",
    ] {
        let (code, stdout, stderr) = script(&place, of);
        assert_eq!(code, 0, "{of}: {stdout} {stderr}");
    }
    let (code, stdout, stderr) = run(&place, &["tar", "project", "--write", "p.tar"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("Wrote p.tar: 6 members, 317 KB in "), "{stdout}");
}

#[test]
fn several_trees_are_in_it_under_their_names_and_a_file_under_its_own() {
    let place = place();
    fs::create_dir(place.path("other")).unwrap();
    fs::write(place.path("other/y"), "y").unwrap();
    let (code, stdout, stderr) = run(&place, &["tar", "project", "other", "other/y", "--list"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let paths: Vec<&str> = stdout.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    let expected =
        ["other", "other/y", "project", "project/main", "project/readme", "project/src", "project/src/deep"];
    assert_eq!(&paths[..7], expected);
    assert_eq!(paths.last(), Some(&"y"));
    let (code, _, stderr) = run(&place, &["zip", "other", "other/y", "other/y", "--list"]);
    assert!(code == 2 && stderr.contains("two of the trees"), "{stderr}");
    // Where the bytes of a member are.
    let (code, stdout, _) = run(&place, &["tar", "project", "--list", "--json"]);
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(|line| documented("stitch_member", line));
    let readme = lines.iter().find(|line| line["key"] == "readme").unwrap();
    let (offset, size) = (readme["offset"].as_u64().unwrap(), readme["size"].as_u64().unwrap());
    let cut = format!("$STOOK stitch tar project | tail -c +{} | head -c {size}", offset + 1);
    let (_, stdout, _) = script(&place, &format!("{cut} || true"));
    assert_eq!((code, stdout.as_str()), (0, "read me"));
}

#[test]
fn what_it_is_written_into_is_left_out_and_nothing_half_made_stays() {
    let place = place();
    let (code, _, stderr) = run(&place, &["zip", "project", "--write", "project/all.zip"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    // Again: the zip that is there is not in the new one.
    let (code, stdout, stderr) = run(&place, &["zip", "project", "--write", "project/all.zip", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let report: Value = serde_json::from_str(&stdout).unwrap();
    documented("stitch", &report);
    assert_eq!(report["members"], 6, "{report}");
    // What no archive holds: what is there is not replaced by less.
    assert!(Command::new("mkfifo").arg(place.path("project/fifo")).status().unwrap().success());
    let before = fs::read(place.path("project/all.zip")).unwrap();
    let (code, stdout, stderr) = run(&place, &["zip", "project", "--write", "project/all.zip"]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("fifo is a named pipe, and is not in it"), "{stderr}");
    assert!(stderr.contains("not replacing project/all.zip") && stderr.contains("--force"), "{stderr}");
    assert_eq!(fs::read(place.path("project/all.zip")).unwrap(), before);
    assert_eq!(run(&place, &["zip", "project", "--write", "project/all.zip", "--force"]).0, 1);
    let names = fs::read_dir(place.path("project")).unwrap().count();
    assert_eq!(names, 5);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_written() {
    let place = place();
    for (args, code, said) in [
        (&["tar", "nowhere"][..], 1, "nowhere"),
        (&["tar", "project", "--json"], 2, "give --write FILE"),
        (&["tar"], 2, "TREE"),
        (&["tar", "project", "--force"], 2, "--write"),
        (&["tar", "project", "--list", "--write", "x"], 2, "cannot be used with"),
        (&["tar", "project", "--write", "no/such/directory/x.tar"], 1, "no/such/directory"),
        (&["rar", "project"], 2, "rar"),
    ] {
        let (found, stdout, stderr) = run(&place, args);
        assert!(found == code && stdout.is_empty() && stderr.contains(said), "{args:?}: {found} {stderr}");
    }
    let (code, stdout, stderr) = script(&place, "$STOOK stitch tar project > /dev/full");
    assert!(code == 1 && stderr.contains("cannot write to stdout"), "{stdout} {stderr}");
}

/// A shard with one tensor of bytes.
fn shard(place: &Place, path: &str, tensor: &str, bytes: &[u8]) {
    let header =
        format!(r#"{{"{tensor}":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}}"#, bytes.len());
    let all = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), bytes].concat();
    fs::write(place.path(path), all).unwrap();
}

#[test]
fn files_are_an_afs_and_shards_are_one_file() {
    let place = Place::new();
    for directory in ["sound", "model"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    fs::write(place.path("sound/00_theme.adx"), "theme").unwrap();
    fs::write(place.path("sound/01_step.adx"), "step").unwrap();
    let (code, stdout, stderr) = run(&place, &["afs", "sound", "--list"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains(" 2,048 ") && stdout.contains("01_step.adx"), "{stdout}");
    let (code, _, stderr) = run(&place, &["afs", "sound", "--write", "sound.afs"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let afs = fs::read(place.path("sound.afs")).unwrap();
    assert_eq!(
        (&afs[..8], &afs[2048..2053], &afs[4096..4100]),
        (&b"AFS\0\x02\0\0\0"[..], &b"theme"[..], &b"step"[..])
    );
    let (_, stdout, _) = run(&place, &["afs", "sound", "--write", "no.afs", "--without-names", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()["members"], 2, "{stdout}");
    shard(&place, "model/1.safetensors", "a", b"one");
    shard(&place, "model/2.safetensors", "b", b"second");
    let (code, _, stderr) = run(&place, &["safetensors", "model", "--write", "all.safetensors"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let whole = fs::read(place.path("all.safetensors")).unwrap();
    assert!(whole.ends_with(b"onesecond"));
    let header: Value = serde_json::from_slice(&whole[8..whole.len() - 9]).unwrap();
    assert_eq!(header["b"]["data_offsets"], serde_json::json!([3, 9]), "{header}");
    // What is no shard is named, and nothing is made.
    shard(&place, "model/3.safetensors", "b", b"again");
    let (code, _, stderr) = run(&place, &["safetensors", "model", "--write", "no.safetensors"]);
    assert!(code == 2 && stderr.contains("3.safetensors") && stderr.contains("another shard"), "{stderr}");
    assert!(!place.path("no.safetensors").exists());
}

#[test]
fn an_archive_is_patched_into_a_pipe_a_file_and_itself() {
    let place = place();
    fs::create_dir_all(place.path("over/src")).unwrap();
    fs::write(place.path("over/src/main"), "another main").unwrap();
    fs::write(place.path("over/src/new"), "new").unwrap();
    fs::write(place.path("over/main.del"), "").unwrap();
    fs::create_dir(place.path("more")).unwrap();
    fs::write(place.path("more/README"), "read more").unwrap();
    let both = "
        (cd project; tar cf ../p.tar *; zip -qr ../p.zip readme src)
        $STOOK stitch patch p.tar --with over | tar xf - -C x
        rm project/main; cp -r over/. y; cp -r project/readme y; cp -r project/src/deep y/src; rm y/main.del
        diff -r x y
        rm over/main.del; $STOOK stitch patch p.zip --with over more --ignore-case --write p.zip
        unzip -tq p.zip; unzip -q p.zip -d z; cmp z/readme more/README; cmp z/src/main over/src/main
        $STOOK verify p.zip// --against z
        tar cf outer.tar p.zip; $STOOK stitch patch outer.tar//p.zip --with over > q.zip; unzip -tq q.zip
        $STOOK stitch tar over --write over.tar
        $STOOK stitch patch p.tar --with over.tar// | tar xf - -O src/main | cmp - over/src/main";
    let (code, stdout, stderr) = script(&place, &format!("mkdir x y z; {both}"));
    assert_eq!(code, 0, "{stdout} {stderr}");
    let (code, stdout, stderr) = run(&place, &["patch", "p.tar", "--with", "over", "--list", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(|line| documented("stitch_member", line));
    let sizes = |key: &str| lines.iter().find(|line| line["key"] == key).unwrap()["size"].clone();
    assert_eq!((sizes("src/main"), sizes("src/new"), sizes("readme")), (12.into(), 3.into(), 7.into()));
    // The archive may be in the folder, and becomes no member. What is there is a change.
    let (code, _, stderr) = run(&place, &["patch", "p.tar", "--with", "over", "--write", "over/out.tar"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    fs::copy(place.path("p.tar"), place.path("over/p.tar")).unwrap();
    let args = ["patch", "over/p.tar", "--with", "over", "--write", "over/out.tar"];
    assert_eq!(run(&place, &args).0, 1);
    fs::remove_file(place.path("over/out.tar")).unwrap();
    let (code, stdout, stderr) = run(&place, &args);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains(": 6 members") || stdout.contains(": 7 members"), "{stdout}");
}

#[test]
fn what_cannot_be_patched_is_named_and_nothing_is_written() {
    let place = place();
    fs::create_dir(place.path("over")).unwrap();
    fs::write(place.path("over/none.del"), "").unwrap();
    let (code, _, stderr) = script(&place, "tar cf p.tar project; gzip -k p.tar; printf text > text");
    assert_eq!(code, 0, "{stderr}");
    for (args, code, said) in [
        (&["patch", "p.tar", "--with", "over"][..], 2, "none.del: there is no member none to delete"),
        (&["patch", "p.tar"], 2, "--with"),
        (&["patch", "p.tar", "--with", "text"], 1, "text is no folder"),
        (&["patch", "p.tar", "--with", "nowhere"], 1, "nowhere"),
        (&["patch", "p.tar.gz", "--with", "project"], 1, "compressed as a whole (gzip)"),
        (&["patch", "text", "--with", "project"], 1, "no tar, zip or AFS"),
        (&["patch", "project", "--with", "project"], 1, "project is no archive"),
        (&["patch", "nowhere", "--with", "project"], 1, "nowhere"),
        (&["patch", "p.tar", "--with", "project"], 2, "main: it is a link"),
    ] {
        let args = [args, &["--write", "new"]].concat();
        let (found, stdout, stderr) = run(&place, &args);
        assert!(found == code && stdout.is_empty() && stderr.contains(said), "{args:?}: {found} {stderr}");
        assert!(!place.path("new").exists());
    }
}

#[test]
fn archives_that_folders_name_are_changed_in_a_tree() {
    let place = Place::new();
    let made = "
        mkdir -p game/data game/more mod/Sound.zip mod/texts.tar/in.zip mod/data; cd game
        echo old > a; echo kept > b; zip -q0 data/Sound.zip a b; zip -q0 in.zip a b
        tar cf more/texts.tar in.zip b; rm a in.zip; ln more/texts.tar more/other.tar; cd ..
        echo new > mod/Sound.zip/a; touch mod/texts.tar/in.zip/b.del; echo new > mod/texts.tar/in.zip/c
        cp -r game before; cp -r mod mod-before";
    let (code, _, stderr) = script(&place, made);
    assert_eq!(code, 0, "{stderr}");
    let (code, stdout, stderr) = run(&place, &["routes", "game", "--with", "mod", "--write", "out"]);
    // The empty directory is for nothing.
    assert!(code == 1 && stderr.contains("mod/data is for nothing"), "{stderr}");
    assert!(stdout.contains("Wrote out: 4 files") && stdout.contains("name 2 of them"), "{stdout}");
    let same = "
        diff -r game before; diff -r mod mod-before; cmp out/b game/b; cmp out/more/other.tar game/more/texts.tar
        unzip -tq out/data/Sound.zip; unzip -p out/data/Sound.zip a | cmp - mod/Sound.zip/a
        unzip -p out/data/Sound.zip b | cmp - game/b; tar xf out/more/texts.tar; unzip -tq in.zip
        test $(zipinfo -1 in.zip | tr '\\n' ' ' | tee got | wc -w) = 2; grep -x 'a c ' got
        $STOOK pack -q game game.stook; rmdir mod/data
        $STOOK stitch routes game.stook --with mod --write two; diff -r out two
        $STOOK stitch tar mod --write mod.tar; cp -rp mod MOD; mv MOD/Sound.zip MOD/sound.ZIP
        $STOOK stitch routes game --with MOD mod.tar// --ignore-case --write three; diff -r out three";
    let (code, stdout, stderr) = script(&place, same);
    assert_eq!(code, 0, "{stdout} {stderr}");
    fs::write(place.path("game/more/Sound.zip"), "PK\x03\x04, and no more").unwrap();
    let (code, stdout, stderr) = run(&place, &["routes", "game", "--with", "mod", "--list", "--json"]);
    assert!(code == 1 && stderr.contains("more/Sound.zip"), "{stderr}");
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    documented("stitch_routes", &listed);
    assert_eq!(listed["files"][0]["size"], fs::metadata(place.path("out/data/Sound.zip")).unwrap().len());
    assert_eq!(listed["files"][0]["routes"][0]["path"], "mod/Sound.zip");
    assert!(listed["files"][1]["error"].as_str().unwrap().contains("cut off"), "{listed}");
    let (code, stdout, _) = run(&place, &["routes", "game", "--with", "mod", "--write", "four", "--json"]);
    let written: Value = serde_json::from_str(&stdout).unwrap();
    documented("stitch_routes", &written);
    assert_eq!((code, &written["written"]["files"]), (1, &4.into()), "the rest is there");
    for (args, code, said) in [
        (&["routes", "game", "--with", "mod"][..], 2, "--write"),
        (&["routes", "game", "--list"], 2, "--with"),
        (&["routes", "game", "--with", "game/b", "--list"], 1, "game/b is no folder"),
        (&["routes", "game/b", "--with", "mod", "--list"], 1, "not all of a directory"),
        (&["routes", "game", "--with", "mod", "--write", "out"], 2, "out is not empty"),
        (&["routes", "nowhere", "--with", "mod", "--list"], 1, "nowhere"),
    ] {
        let (found, _, stderr) = run(&place, args);
        assert!(found == code && stderr.contains(said), "{args:?}: {found} {stderr}");
    }
}

/// Commands that would write over what they read from, each in a place of its own.
const OVER_SOURCES: [&str; 20] = [
    "stitch patch l.toml//l.tar --with f --write t/a",
    "stitch tar l.toml// --write t/a",
    "stitch zip l.toml//l.tar// --write t/a",
    "stitch raw raw.toml// --write t/a",
    "stitch raw l.toml//l.tar --write t/a",
    "stitch tar l.toml// t/b --write t/a",
    "stitch tar l.toml// -o t/a --force",
    "stitch patch x.tar --with l.toml//l.tar// --write t/a",
    "stitch patch nest.toml//nest.tar//x.tar --with f --write tx/x.tar",
    "stitch wds w.toml// --write w --force",
    "get x.tar a b --concat -o x.tar",
    "get x.tar a -o x.tar",
    "get o.zip x.zip -o o.zip",
    "get raw.toml raw -o t/a",
    "get swap.toml a b -o s",
    "get s/x.tar x.tar -o s",
    "unpack swap.toml s --overwrite always",
    "unpack s/x.tar s --overwrite always",
    "unpack s/x.tgz s --overwrite always",
    "copy swap.toml// s --overwrite always --mirror",
];

#[test]
fn what_is_read_from_is_never_written_over() {
    let made = r#"
        mkdir t f tx w s; echo ORIGINAL > t/a; echo b > t/b; echo NEW > f/a; cp t/a tx/q
        $STOOK stitch tar t -o l.toml; tar cf tx/x.tar -C tx q; $STOOK stitch raw t/a -o raw.toml
        $STOOK stitch tar tx -o nest.toml; tar cf x.tar -C t a b; tar cf w/000000.tar -C t a
        $STOOK stitch wds w -o w.toml; echo one > s/a; echo two > s/b; echo x > x.zip; zip -q o.zip x.zip
        printf 'stook-layout = 1\n[[file]]\nname = "a"\npieces = [{ path = "s/b" }]\n' > swap.toml
        printf '[[file]]\nname = "b"\npieces = [{ path = "s/a" }]\n' >> swap.toml
        tar cf s/x.tar x.tar; cp x.tar x.tgz; tar czf s/x.tgz x.tgz
        find . -type f | sort | xargs sha256sum > ../sums"#;
    for command in OVER_SOURCES {
        let place = Place::new();
        let script_of =
            |then: &str| format!("mkdir here; cd here; {made}; {then}; sha256sum --quiet -c ../sums");
        let then = format!("$STOOK -q {command} && exit 9 || test $? = 1");
        let (code, stdout, stderr) = script(&place, &script_of(&then));
        assert_eq!(code, 0, "{command}: {stdout} {stderr}");
        assert!(["read from", "made of", "copied from"].iter().any(|why| stderr.contains(why)), "{stderr}");
    }
}

#[test]
fn a_file_that_is_replaced_gives_its_mode_and_owner_to_the_new_one() {
    let place = Place::new();
    let of = "
        mkdir t; echo a > t/a; umask 022; for out in s.tar l.toml got; do
            echo old > $out; chmod 640 $out; if [ $(id -u) = 0 ]; then chown 5:6 $out; fi
            stat -c '%a %u %g' $out > before; case $out in
            s.tar) $STOOK stitch tar t --write s.tar;; l.toml) $STOOK stitch tar t -o l.toml --force;;
            got) $STOOK get s.tar a -o got;; esac
            stat -c '%a %u %g' $out | cmp - before
        done; $STOOK stitch tar t --write new.tar; stat -c %a new.tar | grep -x 644";
    let (code, stdout, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn a_time_far_ahead_is_in_a_tar() {
    let place = Place::new();
    let of = "mkdir t; echo x > t/f; for time in 8589934591 8589934592 9000000000 -5; do
        touch -d @$time t/f; $STOOK stitch tar t > s.tar
        tar --full-time -tvf s.tar > ours; tar --format=pax -C t -cf - f | tar --full-time -tvf - > theirs
        awk '{print $4, $5}' ours | cmp - <(awk '{print $4, $5}' theirs); done";
    let (code, stdout, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn more_archives_than_descriptors_are_changed_and_copied() {
    let place = Place::new();
    let made = "
        echo old > a; zip -q0 x.zip a; mkdir -p mod/x.zip; echo new > mod/x.zip/a
        for number in $(seq 500); do mkdir -p many/$number; cp x.zip many/$number; done
        tar cf many.tar many; $STOOK pack -q many p; ulimit -n 128
        $STOOK stitch routes many --with mod --write out
        test $(find out -name x.zip | wc -l) = 500; unzip -p out/1/x.zip a | cmp - mod/x.zip/a
        for number in $(seq 500); do cmp out/1/x.zip out/$number/x.zip; done
        $STOOK copy many.tar// --to one two; diff -r one/many many; diff -r two/many many
        $STOOK copy p// three; diff -r three many; $STOOK unpack many.tar four; diff -r four/many many";
    let (code, stdout, stderr) = script(&place, made);
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn many_more_files_than_descriptors_are_one_file() {
    let place = Place::new();
    fs::create_dir(place.path("many")).unwrap();
    for number in 0..3000 {
        fs::write(place.path(&format!("many/{number:04}")), number.to_string()).unwrap();
    }
    let limited = "ulimit -n 64; mkdir t; $STOOK stitch tar many | tar xf - -C t; diff -r t many
                   $STOOK stitch zip many --write m.zip; unzip -tq m.zip";
    let (code, stdout, stderr) = script(&place, limited);
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn a_layout_stands_for_what_was_stitched_and_every_command_opens_it() {
    let place = place();
    let made = run(&place, &["tar", "project", "-o", "p.toml"]);
    assert_eq!(
        made,
        (0, "Wrote p.toml: it stands for 6 members, 317 KB. `stook ls p.toml`\n".into(), "".into())
    );
    for of in [
        "[ $($STOOK ls p.toml) = p.tar ]; $STOOK get p.toml p.tar -o - > got.tar; diff <(tar tvf got.tar) \
         <($STOOK stitch tar project | tar tvf -)",
        "$STOOK cat p.toml//p.tar | cmp - got.tar; $STOOK stitch raw p.toml// | cmp - got.tar
         cmp <($STOOK cat p.toml//p.tar --range 1000..20000) <(tail -c +1001 got.tar | head -c 19000)",
        "$STOOK copy p.toml// out --list -q; cmp out/p.tar got.tar; $STOOK verify p.toml// --list out/*.sha256
         $STOOK verify out --against p.toml//",
        "$STOOK pack -q p.toml p.stook; $STOOK get p.stook p.tar -o - | cmp - got.tar",
        // An archive that a layout describes is one.
        "$STOOK ls p.toml//p.tar | cmp - <($STOOK ls got.tar); $STOOK copy -q p.toml//p.tar// tree
         diff -r --no-dereference tree project; $STOOK cat p.toml//p.tar//readme | cmp - project/readme
         $STOOK get p.toml//p.tar//src/main -o - | cmp - project/src/main",
        // So is a layout of layouts.
        "$STOOK stitch zip p.toml// -o z.toml; $STOOK copy -q z.toml// z; unzip -p z/z.zip p.tar | cmp - got.tar",
        "$STOOK stitch zip project -o - > /dev/null && exit 1 || true; $STOOK info p.toml | grep -q layout",
    ] {
        let (code, stdout, stderr) = script(&place, of);
        assert_eq!(code, 0, "{of}: {stdout} {stderr}");
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(place.path("project/readme"), "read it").unwrap();
    let (code, _, stderr) = ended(stook(["cat", "p.toml//p.tar"]).current_dir(place.dir.path()));
    assert_eq!(code, 1);
    assert!(stderr.contains("project/readme: it was modified at another time"), "{stderr}");
}

#[test]
fn what_no_layout_can_say_is_refused_and_nothing_is_written() {
    let place = place();
    fs::create_dir(place.path("elsewhere")).unwrap();
    fs::write(place.path("later.toml"), "stook-layout = 2\n").unwrap();
    fs::write(
        place.path("hostile.toml"),
        "stook-layout = 1\n[[file]]\nname = \"x\"\npieces = [{ path = \"/etc/passwd\" }]\n",
    )
    .unwrap();
    let (code, _, stderr) = run(&place, &["tar", "project", "-o", "elsewhere/p.toml"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("write it into a directory above"), "{stderr}");
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
    for (file, why) in [("later.toml", "version 2"), ("hostile.toml", "absolute")] {
        let (code, stdout, stderr) = ended(stook(["ls", file]).current_dir(place.dir.path()));
        assert_eq!((code, stdout.as_str()), (1, ""));
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn shards_have_whole_samples_and_are_written_or_described() {
    let place = Place::new();
    for sample in ["a/1", "a/1-b", "a/2", "b/1", "c"] {
        for (ending, len) in [("jpg", 3000), ("cls", 2), ("b.txt", 100)] {
            let path = place.path("set").join(format!("{sample}.{ending}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b's'; len]).unwrap();
        }
    }
    // It stands between files of a sample by its path, and is none of it.
    fs::create_dir(place.path("set/a/1.d")).unwrap();
    fs::write(place.path("set/a/1.d/x"), "x").unwrap();
    for of in [
        "$STOOK stitch wds set --shard-size 20KB --write shards -q; ls shards > names
         printf '000000.tar\\n000001.tar\\n000002.tar\\n000003.tar\\n000004.tar\\n000005.tar\\n' | cmp - names
         for shard in shards/*; do tar tf $shard; done > members; [ $(wc -l < members) = 16 ]
         grep -v 1.d/x members | sed 's,\\([^/.]*\\)\\..*,\\1,' | uniq > samples; sort samples | uniq -d | grep . && exit 1
         for shard in shards/*; do [ $(stat -c %s $shard) -le 20480 ]; done",
        "$STOOK stitch wds set --shard-size 20KB --prefix t- -o t.toml -q; $STOOK ls t.toml | tail -1 | grep -x t-000005.tar
         $STOOK copy -q t.toml// copied; for n in 0 1 2 3 4 5; do cmp copied/t-00000$n.tar shards/00000$n.tar; done
         $STOOK ls t.toml//t-000000.tar | head -1 | grep '^a/1'",
        "$STOOK stitch wds set | tar tf - | wc -l | grep -x 16; $STOOK stitch wds set --list | wc -l | grep -x 18",
    ] {
        let (code, stdout, stderr) = script(&place, of);
        assert_eq!(code, 0, "{of}: {stdout} {stderr}");
    }
    let (code, _, stderr) = run(&place, &["wds", "set", "--shard-size", "20KB", "--write", "shards"]);
    assert_eq!((code, stderr.contains("shards is not empty")), (1, true), "{stderr}");
    // Shards of another set would be taken for these, and what a killed run left in a tree is none
    // of its files.
    let of = "cp -r shards more; mkdir one; echo 1 > one/a; $STOOK stitch wds one --write more --force -q && exit 1
              ls more | cmp - names; cmp more/000000.tar shards/000000.tar; rm more/00000[1-9].tar
              $STOOK stitch wds one --write more --force -q; tar tf more/000000.tar | grep -x a
              mkdir one/sh; echo x > one/sh/000000.tar.unfinished; $STOOK stitch wds one --write one/sh -q
              tar tf one/sh/000000.tar | grep -x a; test $(ls one/sh) = 000000.tar; rm -r more one";
    let (code, _, stderr) = script(&place, of);
    assert!(code == 0 && stderr.contains("more has 000001.tar, too"), "{stderr}");
    // What a killed run left is replaced, and said to be unfinished.
    let of = "mv shards/000005.tar shards/000005.tar.unfinished
              $STOOK stitch wds set --shard-size 20KB --write shards -q && exit 1
              rm shards/*.tar; $STOOK stitch wds set --shard-size 20KB --write shards -q; ls shards | cmp - names";
    let (code, _, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = script(&place, "$STOOK stitch wds set --shard-size 1 | cat");
    assert!(code == 2 && stderr.contains("are no one file"), "{stderr}");
    let report = packs_json(&place, &["wds", "set", "--shard-size", "20KB", "--write", "new", "--json"]);
    assert_eq!((report["shards"].as_u64(), report["members"].as_u64()), (Some(6), Some(16)));
    fs::create_dir(place.path("bare")).unwrap();
    let (code, _, stderr) = run(&place, &["wds", "bare", "--write", "none"]);
    assert!(code == 2 && stderr.contains("there is no file in the trees"), "{stderr}");
    assert!(!place.path("none").exists());
    std::os::unix::fs::symlink("c.jpg", place.path("set/link.jpg")).unwrap();
    assert_eq!(run(&place, &["wds", "set", "--write", "none"]).0, 2);
}

fn packs_json(place: &Place, args: &[&str]) -> Value {
    let (code, stdout, stderr) = run(place, args);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    documented("stitch", &document);
    document
}

#[test]
fn nothing_is_written_over_that_it_is_made_of() {
    let place = place();
    fs::write(place.path("a"), "AAAA").unwrap();
    fs::write(place.path("b"), "BBBB").unwrap();
    std::os::unix::fs::symlink("a", place.path("la")).unwrap();
    std::os::unix::fs::symlink("nowhere/x.toml", place.path("dangling.toml")).unwrap();
    fs::create_dir(place.path("changes")).unwrap();
    fs::write(place.path("changes/readme"), "changed").unwrap();
    assert_eq!(run(&place, &["zip", "project", "--write", "p.zip"]).0, 0);
    for args in [
        &["raw", "a", "b", "--write", "a"][..],
        &["raw", "a", "--write", "la"],
        &["tar", "a", "--write", "a", "--force"],
        &["raw", "a", "b", "-o", "a"],
        &["tar", "project", "-o", "a"],
        &["tar", "project", "-o", "project/readme"],
        &["tar", "project", "-o", "dangling.toml"],
        &["patch", "p.zip", "--with", "changes", "-o", "p.zip"],
        &["patch", "p.zip", "--with", "changes", "-o", "p.zip", "--force"],
        &["patch", "p.zip", "--with", "changes", "--write", "changes/readme"],
    ] {
        let (code, stdout, stderr) = run(&place, args);
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}: {stderr}");
    }
    let kept = [("a", "AAAA"), ("b", "BBBB"), ("changes/readme", "changed"), ("project/readme", "read me")];
    for (path, text) in kept {
        assert_eq!(fs::read_to_string(place.path(path)).unwrap(), text, "{path}");
    }
    // A layout is replaced by another one, and an archive by itself with changes.
    for args in [
        &["tar", "project", "-o", "p.toml"][..],
        &["zip", "project", "-o", "p.toml"],
        &["patch", "p.zip", "--with", "changes", "--write", "p.zip"],
    ] {
        assert_eq!(run(&place, args).0, 0, "{args:?}");
    }
    let (code, _, stderr) =
        script(&place, "$STOOK ls p.toml | grep -x p.zip; unzip -p p.zip readme | grep -x changed");
    assert_eq!(code, 0, "{stderr}");
    // A directory without a name, and a name that only ends as the archive.
    let of = "cd project; $STOOK stitch zip . -o x.toml -q; $STOOK ls x.toml | grep -x x.zip; rm x.toml
              cd ..; $STOOK stitch tar project -o atar.toml -q; $STOOK ls atar.toml | grep -x atar.tar";
    let (code, _, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn there_may_be_many_more_files_than_descriptors() {
    let place = Place::new();
    fs::create_dir(place.path("many")).unwrap();
    for number in 0..3000 {
        fs::write(place.path("many").join(format!("{number:05}.txt")), format!("{number}")).unwrap();
    }
    let of = "ulimit -n 128; $STOOK stitch raw many > flat; [ $(stat -c %s flat) = 10890 ]
              $STOOK stitch raw many -o many.toml -q; $STOOK copy -q many.toml// out; cmp out/many.raw flat
              $STOOK cat many.toml//many.raw | cmp - flat; $STOOK get many.toml many.raw -o - | cmp - flat
              $STOOK stitch tar many -o t.toml -q; $STOOK cat t.toml//t.tar//02999.txt | grep -x 2999
              $STOOK stitch wds many --shard-size 100KB --write shards -q
              for shard in shards/*; do tar tf $shard; done | wc -l | grep -x 3000
              $STOOK stitch zip many --write many.zip -q; unzip -tq many.zip";
    let (code, stdout, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stdout} {stderr}");
}

#[test]
fn what_is_in_an_archive_or_a_layout_is_packed() {
    let place = Place::new();
    fs::create_dir_all(place.path("set/below")).unwrap();
    for (path, text) in [("set/one", "1"), ("set/below/two", "22"), ("set/none", "")] {
        fs::write(place.path(path), text).unwrap();
    }
    let of = "$STOOK stitch tar set --write set.tar -q; $STOOK stitch tar set -o t.toml -q
              for given in set.tar// set.tar t.toml//t.tar// t.toml//t.tar; do
                  rm -rf p.stook out; $STOOK pack -q $given p.stook; $STOOK unpack -q p.stook out; diff -r set out
              done
              rm -rf p.stook out; $STOOK pack -q t.toml// p.stook; $STOOK unpack -q p.stook out
              cmp out/t.tar set.tar; ls out | grep -x t.tar";
    let (code, stdout, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stdout} {stderr}");
    for given in ["set.tar//below", "set.tar//gone", "set//"] {
        let (code, stdout, stderr) = script(&place, &format!("$STOOK pack {given} q.stook"));
        match given {
            "set.tar//below" | "set.tar//gone" => {
                assert!(code == 2 && stderr.contains("only all of one is packed"), "{stderr}");
            }
            _ => assert_eq!(code, 0, "a directory: {stdout} {stderr}"),
        }
    }
}

#[test]
fn what_was_changed_is_counted_and_what_is_listed_is_in_it() {
    let place = Place::new();
    let of = r#"
        echo a > a; echo b > b; echo c > c; zip -q0 x.zip a b c; tar cf x.tar a b c; mkdir mod none; echo new > mod/a
        echo added > mod/d; touch mod/b.del; $STOOK stitch afs a b c --write x.afs -q
        for kind in zip tar afs; do
            if [ $kind = afs ]; then rm mod/b.del; touch mod/00001.del; mv mod/d mod/00003.d; fi
            $STOOK stitch patch x.$kind --with mod --write new.$kind | grep '(1 replaced, 1 added, 1 deleted)'
            $STOOK stitch patch x.$kind --with mod --write new.$kind --json | tr -d ' \n' |
                grep '"changed":{"replaced":1,"added":1,"deleted":1}'
            $STOOK stitch patch x.$kind --with none --write new.$kind | grep '(0 replaced, 0 added, 0 deleted)'
        done
        python3 - <<'EOF'
import json, struct
for name, tensor, size in ("1", "a", 12), ("2", "b", 5):
    head = json.dumps({tensor: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    open(f"{name}.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + bytes(size))
EOF
        $STOOK stitch safetensors 1.safetensors 2.safetensors --write all.safetensors
        len=$(stat -c %s all.safetensors)
        $STOOK stitch safetensors 1.safetensors 2.safetensors --list | tail -2 | tr -d , > listed
        echo "$((len - 17)) 12 1.safetensors $((len - 5)) 5 2.safetensors" > wanted; xargs < listed | cmp - wanted
        mkdir set; for n in 1 2; do yes text | head -c 9000 > set/$n.jpg || true; done
        $STOOK stitch wds set --shard-size 12KB --list | grep -c '^00000[01].tar:' | grep -x 2
        $STOOK stitch wds set --shard-size 12KB --list --json | grep -c '"shard": *"000001.tar"' | grep -x 1"#;
    let (code, stdout, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stdout} {stderr}");
    let of = "$STOOK stitch tar set -o l.toml; ($STOOK ls l.toml//set.tar 2>&1 || true) | grep 'file set.tar, but l.tar'";
    let (code, stdout, stderr) = script(&place, of);
    assert_eq!(code, 0, "{stdout} {stderr}");
    for (args, code, said) in [
        (&["tar", "set", "--write", "nowhere/"][..], 1, "nowhere/"),
        (&["safetensors", "set", "--write", "w"], 2, "no file of safetensors"),
        (&["tar", "set", "-o", "a"], 1, "`--force`"),
    ] {
        let (found, _, stderr) = run(&place, args);
        assert!(found == code && stderr.contains(said), "{args:?}: {found} {stderr}");
        assert!(!place.path("w").exists() && !place.path("nowhere").exists());
    }
}
