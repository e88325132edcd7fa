//! Hard links of a tar: names of files that were there when it was written.

use std::fs;
use std::process::Command;

use super::super::packs::fed;
use super::super::{ended, stook};
use super::{Place, import};

#[test]
fn names_of_a_tar_from_stdin_keep_their_content_too() {
    let place = Place::new();
    fs::create_dir(place.path("u")).unwrap();
    fs::write(place.path("u/a"), "shared").unwrap();
    fs::hard_link(place.path("u/a"), place.path("u/b")).unwrap();
    let made =
        Command::new("tar").args(["cf", "x.tar", "-C", "u", "a", "b"]).current_dir(place.dir.path()).status();
    assert!(made.unwrap().success());
    import(&place, "x.tar", true, &[]);
    assert_eq!(import(&place, "x.tar", true, &[])["unchanged"], 2);
    fs::write(place.path("new"), "newer").unwrap();
    assert_eq!(ended(stook(["put", "p.stook", "a", "new"]).current_dir(place.dir.path())).0, 0);
    assert_eq!(ended(stook(["unpack", "p.stook", "out"]).current_dir(place.dir.path())).0, 0);
    assert_eq!(fs::read_to_string(place.path("out/b")).unwrap(), "shared");
}

#[test]
fn a_name_keeps_the_file_that_was_there_when_the_tar_was_written() {
    let place = Place::new();
    let sh = |script: &str| {
        let done = Command::new("sh").args(["-ec", script]).current_dir(place.dir.path()).status();
        assert!(done.unwrap().success(), "{script}");
    };
    // The file that `b` and `c` are names of is replaced by a later member, twice.
    sh("mkdir u; cd u; echo 1111 >a; ln a b; ln a c; tar cf ../x.tar a b c; rm a
        echo 2222 >a; tar rf ../x.tar a; rm a; echo 3333 >a; ln a d; tar rf ../x.tar a d
        mkdir ../gnu; tar xf ../x.tar -C ../gnu");
    for through_stdin in [false, true] {
        // The second time nothing of it is new; the third time all of it is in another order.
        for round in 0..2 {
            import(&place, "x.tar", through_stdin, &[]);
            sh("rm -rf out");
            let (code, _, stderr) = place.stook(&["unpack", "p.stook", "out"]);
            assert_eq!(code, 0, "stdin {through_stdin}, round {round}: {stderr}");
            sh("diff -r gnu out; test out/b -ef out/c; test out/a -ef out/d");
        }
        sh("rm -rf p.stook");
    }
    for name in ["a", "b", "c", "d"] {
        let gnu = fs::read_to_string(place.path("gnu").join(name)).unwrap();
        assert_eq!(place.stook(&["get", "x.tar", name]).1, gnu);
    }
}

#[test]
fn a_name_of_a_file_that_is_left_out_is_the_file_or_reported() {
    let place = Place::new();
    let archive = Command::new("tar")
        .args(["cf", "x.tar", "-C", "t", "a", "further"])
        .current_dir(place.dir.path())
        .status();
    assert!(archive.unwrap().success());
    assert_eq!(place.stook(&["pack", "x.tar", "p.stook", "--exclude", "a"]).0, 0);
    assert_eq!(place.stook(&["get", "p.stook", "further"]).1, "alpha");
    // A stream is read once, and what was passed over is gone.
    let mut command = stook(["pack", "-", "q.stook", "--exclude", "a"]);
    let tar = fs::read(place.path("x.tar")).unwrap();
    let (code, _, stderr) = fed(command.current_dir(place.dir.path()), &tar);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("further: it is a hard link to a, which was not packed before it"), "{stderr}");
    // A link to what is not in the archive at all.
    place.tar(&["--delete", "-f", "x.tar", "a"]);
    for source in ["x.tar", "-"] {
        let mut command = stook(["pack", source, "r.stook", "--json"]);
        let tar = fs::read(place.path("x.tar")).unwrap();
        let (code, stdout, stderr) = fed(command.current_dir(place.dir.path()), &tar);
        assert_eq!(code, 1, "{source}: {stderr}");
        let report: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(report["failures"][0]["key"], "further", "{source}: {report}");
        assert_eq!(place.stook(&["ls", "r.stook"]).1, "", "{source}");
    }
    // Before: a range of what has no bytes was empty, with exit code 0.
    for args in [&["cat", "x.tar//further"][..], &["cat", "x.tar//further", "--range", "0..3"]] {
        let (code, stdout, stderr) = place.stook(args);
        assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}");
        assert!(stderr.contains("further is a hard link to a"), "{args:?}: {stderr}");
    }
}

#[test]
fn names_of_names_come_from_a_stream_as_gnu_tar_unpacks_them() {
    let place = Place::new();
    // GNU tar itself writes links to symbolic links; chains of names others do.
    let script = "
import io, sys, tarfile
steps = [('b', None, b'data'), ('e', 'b', None), ('d', 'e', None), ('e', None, b'NEWE'), ('s', '->to', None),
         ('s2', 's', None), ('f', 'd', None), ('b', None, b'last'), ('d', None, b'newd'), ('g', 'f', None)]
with tarfile.open('x.tar', 'w') as tar:
    for name, link, body in steps:
        info = tarfile.TarInfo(name)
        info.mtime = 1700000000
        if body is not None:
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
        elif link.startswith('->'):
            info.type, info.linkname = tarfile.SYMTYPE, link[2:]
            tar.addfile(info)
        else:
            info.type, info.linkname = tarfile.LNKTYPE, link
            tar.addfile(info)
";
    let made = Command::new("python3").args(["-c", script]).current_dir(place.dir.path()).status();
    assert!(made.unwrap().success());
    fs::create_dir(place.path("gnu")).unwrap();
    place.tar(&["xf", "x.tar", "-C", "gnu"]);
    for through_stdin in [false, true] {
        for _ in 0..2 {
            import(&place, "x.tar", through_stdin, &[]);
            assert_eq!(place.stook(&["unpack", "p.stook", "out"]).0, 0);
            let diff = Command::new("diff")
                .args(["-r", "--no-dereference", "gnu", "out"])
                .current_dir(place.dir.path())
                .output();
            let diff = diff.unwrap();
            assert!(
                diff.status.success(),
                "stdin {through_stdin}: {}",
                String::from_utf8_lossy(&diff.stdout)
            );
            fs::remove_dir_all(place.path("out")).unwrap();
        }
        fs::remove_dir_all(place.path("p.stook")).unwrap();
    }
}

#[test]
fn a_link_in_a_stream_is_never_to_an_older_file_of_the_pack() {
    let place = Place::new();
    place.tar(&["cf", "x.tar", "-C", "t", "a", "further"]);
    let feed = || {
        let mut command = stook(["pack", "-", "p.stook"]);
        fed(command.current_dir(place.dir.path()), &fs::read(place.path("x.tar")).unwrap())
    };
    assert_eq!(feed().0, 0);
    assert_eq!(feed().0, 0, "what is unchanged was met, too");
    assert_eq!(place.stook(&["rm", "p.stook", "further"]).0, 0);
    place.tar(&["--delete", "-f", "x.tar", "a"]);
    let (code, _, stderr) = feed();
    assert!(code == 1 && stderr.contains("further: it is a hard link to a"), "{stderr}");
    assert_eq!(place.stook(&["get", "p.stook", "further"]).0, 1);
}

#[test]
fn names_that_lead_to_one_another_are_the_file_as_for_tar() {
    let place = Place::new();
    // a, b a name of a, a a name of b, and a a name of itself.
    for names in [&["a", "b:a", "a:b"][..], &["a", "a:a"], &["a", "b:a", "b:b"]] {
        let script = "import tarfile,io,sys\nt=tarfile.open(sys.argv[1],'w')\n\
            for name in sys.argv[2:]:\n\
            \x20n,_,l=name.partition(':')\n\
            \x20i=tarfile.TarInfo(n)\n\
            \x20if l: i.type=tarfile.LNKTYPE; i.linkname=l; t.addfile(i)\n\
            \x20else: i.size=3; t.addfile(i,io.BytesIO(b'AAA'))\n\
            t.close()";
        let mut python = Command::new("python3");
        python.args(["-c", script, "x.tar"]).args(names).current_dir(place.dir.path());
        assert!(python.status().unwrap().success());
        for source in ["x.tar", "-"] {
            let _ = fs::remove_dir_all(place.path("p.stook"));
            let mut command = stook(["pack", source, "p.stook"]);
            let tar = fs::read(place.path("x.tar")).unwrap();
            let (code, _, stderr) = fed(command.current_dir(place.dir.path()), &tar);
            assert_eq!(code, 0, "{names:?} {source}: {stderr}");
            assert_eq!(place.stook(&["check", "p.stook"]).0, 0, "{names:?} {source}");
            for name in names.iter().map(|name| &name[..1]) {
                assert_eq!(place.stook(&["get", "p.stook", name]).1, "AAA", "{names:?} {source} {name}");
            }
        }
    }
}
