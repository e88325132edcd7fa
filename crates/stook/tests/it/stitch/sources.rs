//! Many more sources than descriptors.

use std::fs;
use std::path::Path;
use std::process::Command;

use stook::extent::ByteRange;
use stook::source::Source as _;
use stook::stitch::{Layout as _, Raw, VirtualFile};
use stook_testing::sweep::stride;

use super::{faults, members, read_through};

/// Says to this program, started again, where the files are.
const FILES: &str = "STOOK_TEST_MANY_SOURCES";
const DESCRIPTORS: usize = 1024;

/// What a file has: a few bytes, and none now and then.
fn bytes_of(at: usize) -> Vec<u8> {
    format!("{at}.").repeat(at % 4).into_bytes()
}

fn name_of(at: usize) -> String {
    format!("{:03}/{at:06}", at / 1000)
}

/// 100,000 files, and a tenth of them where not all sweeps are whole.
fn count() -> usize {
    100_000 / stride(10)
}

#[test]
fn a_hundred_thousand_sources_are_read_with_a_thousand_descriptors() {
    if let Some(files) = std::env::var_os(FILES) {
        return check(Path::new(&files));
    }
    let place = tempfile::tempdir().unwrap();
    for at in 0..count() {
        if at % 1000 == 0 {
            fs::create_dir(place.path().join(format!("{:03}", at / 1000))).unwrap();
        }
        fs::write(place.path().join(name_of(at)), bytes_of(at)).unwrap();
    }
    let name = "stitch::sources::a_hundred_thousand_sources_are_read_with_a_thousand_descriptors";
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" --exact {name} --nocapture");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(FILES, place.path());
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
}

/// All of it, look-ups, and parts from several threads at once, against the bytes of all files.
fn check(files: &Path) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(limit, Some(DESCRIPTORS as u64));
    assert!(count() > 5 * DESCRIPTORS);
    let (mut flat, mut starts) = (Vec::new(), Vec::new());
    for at in 0..count() {
        let bytes = bytes_of(at);
        if !bytes.is_empty() {
            starts.push(flat.len());
        }
        flat.extend(bytes);
    }
    let laid = Raw.lay_out("many.raw".into(), members(files)).unwrap();
    let file = &laid.file;
    assert_eq!((file.pieces(), file.len()), (starts.len(), flat.len() as u64));
    for at in (0..flat.len()).step_by(61) {
        let piece = starts.partition_point(|start| *start <= at) - 1;
        assert_eq!(file.piece_at(at as u64), Some(piece), "{at}");
    }
    assert!(read_through(file).unwrap() == flat);
    faults::changes_are_errors_of_their_own_file(file);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let flat = &flat;
            scope.spawn(move || parts(file, flat, thread));
        }
    });
    assert!(read_through(file).unwrap() == flat);
}

/// Parts of all lengths, anywhere.
fn parts(file: &VirtualFile, flat: &[u8], mut chance: u64) {
    for at in 0..60 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (chance >> 16) as usize % flat.len();
        let end = (start + (1 << (at % 15))).min(flat.len());
        let range = ByteRange::new(start as u64, end as u64).unwrap();
        assert!(file.read_at(range).unwrap() == flat[start..end], "{range:?}");
    }
}
