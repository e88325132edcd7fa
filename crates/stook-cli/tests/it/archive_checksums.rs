//! What a compressed tar says at its end of all its bytes, and what becomes of members that fail.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::packs::fed;
use super::{ended, stook};

/// Two members that no program makes shorter: one wrong bit is a wrong byte and nothing else.
const MAKE: &str = "
import gzip, io, random, subprocess, tarfile
plain = io.BytesIO()
with tarfile.open(fileobj=plain, mode='w') as out:
    for name in ['a', 'z']:
        info = tarfile.TarInfo(name)
        body = random.Random(name).randbytes(300_000)
        info.size = len(body)
        out.addfile(info, io.BytesIO(body))
open('x.tar', 'wb').write(plain.getvalue())
open('x.tar.gz', 'wb').write(gzip.compress(plain.getvalue(), 0))
subprocess.run(['zstd', '-q', 'x.tar'], check=True)
";

/// A folder with `x.tar`, `x.tar.gz` and `x.tar.zst`.
fn made() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("python3").args(["-c", MAKE]).current_dir(dir.path()).status();
    assert!(made.unwrap().success());
    dir
}

fn reported(dir: &Path, args: &[&str]) -> (i32, String, String) {
    ended(stook(args).current_dir(dir))
}

fn packed(dir: &Path, pack: &str, input: &[u8]) -> (i32, String) {
    let (code, _, stderr) = fed(stook(["pack", "-", pack]).current_dir(dir), input);
    (code, stderr)
}

fn is_incomplete(dir: &Path, pack: &str) -> bool {
    reported(dir, &["check", pack]).2.contains("is incomplete")
}

#[test]
fn the_checksum_of_a_tar_from_stdin_is_read_and_has_to_be_there() {
    let dir = made();
    for (name, checksum_len) in [("x.tar.gz", 8), ("x.tar.zst", 4)] {
        let good = fs::read(dir.path().join(name)).unwrap();
        let pack = format!("{name}.good");
        assert_eq!(packed(dir.path(), &pack, &good), (0, String::new()), "{name}");
        assert!(!is_incomplete(dir.path(), &pack), "{name}");
        let mut flipped = good.clone();
        flipped[good.len() / 4] ^= 1;
        let cut = &good[..good.len() - checksum_len];
        for (what, bad) in [("flipped", &flipped[..]), ("cut", cut), ("cut by one", &good[..good.len() - 1])]
        {
            let pack = format!("{name}.{what}");
            let (code, stderr) = packed(dir.path(), &pack, bad);
            assert_eq!(code, 1, "{pack}: {stderr}");
            assert!(stderr.contains("the compressed bytes are damaged or cut off"), "{pack}: {stderr}");
            assert!(is_incomplete(dir.path(), &pack), "{pack}");
        }
    }
}

#[test]
fn a_writer_of_a_tar_to_stdin_gets_rid_of_all_of_it() {
    let dir = made();
    let mut long = fs::read(dir.path().join("x.tar")).unwrap();
    long.resize(long.len() + (8 << 20), 0);
    let mut command = stook(["pack", "-", "p.stook"]);
    let mut child =
        command.current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // A pipe without a reader is an error of writing.
    child.stdin.take().unwrap().write_all(&long).unwrap();
    assert!(child.wait().unwrap().success());
}

/// The checksum of an index, and of a header.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum: u32, byte| {
        let step = |sum: u32, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1));
        (0..8).fold(sum ^ u32::from(*byte), step)
    })
}

/// Changes one bit like bit rot of a device: no time of the file shows it. Its index gets the
/// change time that this write leaves.
fn rot(archive: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(archive).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.set_modified(time).unwrap();
    let found = file.metadata().unwrap();
    let mut index = archive.as_os_str().to_os_string();
    index.push(".stook-index");
    let mut bytes = fs::read(&index).unwrap();
    let ctime_ns = found.ctime() * 1_000_000_000 + found.ctime_nsec();
    bytes[40..48].copy_from_slice(&ctime_ns.to_le_bytes());
    let sum = crc32c(&bytes[..108]);
    bytes[108..112].copy_from_slice(&sum.to_le_bytes());
    fs::write(&index, bytes).unwrap();
}

#[test]
fn a_compressed_tar_that_rotted_under_its_index_is_no_success() {
    for name in ["x.tar.gz", "x.tar.zst"] {
        let dir = made();
        let archive = dir.path().join(name);
        assert_eq!(reported(dir.path(), &["ls", name]), (0, "a\nz\n".into(), String::new()));
        // Good as it is, all of them take it.
        assert_eq!(reported(dir.path(), &["load", name]).0, 0);
        assert_eq!(reported(dir.path(), &["unpack", name, "good"]).0, 0);
        assert_eq!(reported(dir.path(), &["get", name, "a", "--output", "good-a"]).0, 0);
        assert_eq!(reported(dir.path(), &["pack", name, "good.stook"]).0, 0);
        rot(&archive, fs::metadata(&archive).unwrap().len() * 3 / 4);
        // The index is believed: nothing of the file shows that it is another.
        assert_eq!(reported(dir.path(), &["ls", name]), (0, "a\nz\n".into(), String::new()));
        for args in [
            &["unpack", name, "out"][..],
            &["unpack", name, "out-a", "--include", "a"],
            &["load", name],
            &["get", name, "z", "--output", "got"],
            // Before the damage: but only the end shows where that is.
            &["get", name, "a", "--output", "got"],
            &["get", name, "z", "a", "--output", "got-both"],
            &["pack", name, "p.stook"],
        ] {
            let (code, _, stderr) = reported(dir.path(), args);
            assert_eq!(code, 1, "{args:?}: {stderr}");
            assert!(stderr.contains("the compressed bytes are damaged or cut off"), "{args:?}: {stderr}");
        }
        assert!(!dir.path().join("got").exists(), "what is not vouched for gets no name");
        assert!(is_incomplete(dir.path(), "p.stook"));
        // What is in the pack already is compared, which does not hide the damage.
        assert_eq!(reported(dir.path(), &["pack", name, "good.stook"]).0, 1);
        assert!(is_incomplete(dir.path(), "good.stook"));
    }
}

#[test]
fn a_name_of_a_member_that_failed_is_not_the_older_file_of_that_key() {
    let dir = tempfile::tempdir().unwrap();
    // More than a pack holds in one record, and stored nowhere.
    File::create(dir.path().join("a")).unwrap().set_len(8 << 40).unwrap();
    fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
    fs::write(dir.path().join("c"), "good").unwrap();
    let tar = ["--format=gnu", "--sparse", "-cf", "t.tar", "a", "b", "c"];
    assert!(Command::new("tar").args(tar).current_dir(dir.path()).status().unwrap().success());
    fs::write(dir.path().join("old"), "older").unwrap();
    for source in ["t.tar", "-"] {
        assert_eq!(reported(dir.path(), &["pack", "old", "p.stook"]).0, 0);
        assert_eq!(reported(dir.path(), &["put", "p.stook", "a", "old"]).0, 0);
        let mut command = stook(["pack", source, "p.stook", "--json"]);
        let tar = fs::read(dir.path().join("t.tar")).unwrap();
        let (code, stdout, stderr) = fed(command.current_dir(dir.path()), &tar);
        assert_eq!(code, 1, "{source}: {stderr}");
        let report: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        let failures = report["failures"].as_array().unwrap();
        let keys: Vec<_> = failures.iter().map(|failure| failure["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["a", "b"], "{source}: {report}");
        assert_eq!((&report["hard_links"], &report["files"]), (&0.into(), &1.into()), "{source}: {report}");
        assert_eq!(reported(dir.path(), &["get", "p.stook", "b"]).0, 1, "{source}: there is no such record");
        assert_eq!(reported(dir.path(), &["get", "p.stook", "a"]).1, "older", "{source}");
        fs::remove_dir_all(dir.path().join("p.stook")).unwrap();
    }
}

#[test]
fn what_is_no_tar_on_stdin_is_called_so_and_leaves_no_pack() {
    let dir = made();
    let zip = "import zipfile; zipfile.ZipFile('x.zip', 'w').writestr('a', b'alpha' * 300)";
    assert!(Command::new("python3").args(["-c", zip]).current_dir(dir.path()).status().unwrap().success());
    let text = "no tar at all\n".repeat(100);
    fs::write(dir.path().join("text"), &text).unwrap();
    let gzip = Command::new("gzip").args(["-kc", "text"]).current_dir(dir.path()).output().unwrap();
    let tar = fs::read(dir.path().join("x.tar")).unwrap();
    for (input, why) in [
        (&b""[..], "stdin is no archive: it is empty"),
        (text.as_bytes(), "stdin is no archive: it is not a tar, tar.gz, tar.zst or tar.xz"),
        (&text.as_bytes()[..20], "stdin is no archive: it is not a tar, tar.gz, tar.zst or tar.xz"),
        (&tar[..511], "stdin is no archive: it ends within the first header"),
        (&gzip.stdout, "stdin is no archive: what is compressed in it is no tar"),
        (
            &fs::read(dir.path().join("x.zip")).unwrap(),
            "stdin is no archive: it is a zip, which has to be a file",
        ),
    ] {
        let (code, stderr) = packed(dir.path(), "p.stook", input);
        assert_eq!(code, 1, "{why}: {stderr}");
        assert!(stderr.contains(why), "{why}: {stderr}");
        assert!(!dir.path().join("p.stook").exists(), "{why}");
    }
}
