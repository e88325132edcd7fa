//! Archives with members replaced, added and deleted: against naive builders, byte for byte, and
//! against the tools that everybody has.

mod afs;
mod hostile;
mod rules;
mod tar;
mod zip;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use stook::extent::ByteRange;
use stook::source::{FileSource, MemorySource, Source};
use stook::stitch::{Error, Laid, Layout as _, Members, Patch};
use stook::tree::CaseRule;
use stook::walk::DirectoryTree;

use super::read_through;

/// When files of folders were modified.
const TIME: u64 = 1_234_567_890;

/// The members of folders.
fn folders(paths: &[&Path]) -> Members {
    let mut members = Members::new();
    for path in paths {
        members.add_tree(Arc::new(DirectoryTree::open(path).unwrap()), true, b"", &mut |_| true).unwrap();
    }
    members
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        put(place.path(), name, bytes);
    }
    place
}

fn put(place: &Path, name: &str, bytes: &[u8]) {
    let path = place.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(time()).unwrap();
}

fn time() -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_secs(TIME)
}

fn patched(archive: Arc<dyn Source>, paths: &[&Path], case: CaseRule) -> Result<Laid, Error> {
    Patch::open(archive, case, &mut |_| true)?.lay_out("patched".into(), folders(paths))
}

fn in_memory(bytes: &[u8]) -> Arc<dyn Source> {
    Arc::new(MemorySource::new("archive", bytes.to_vec()))
}

fn on_disk(path: &Path) -> Arc<dyn Source> {
    Arc::new(FileSource::open(path).unwrap())
}

/// All bytes of a patched archive; those at many places read by themselves are the same.
fn bytes_of(archive: &[u8], paths: &[&Path]) -> Vec<u8> {
    let laid = patched(in_memory(archive), paths, CaseRule::Exact).unwrap();
    // From the end, where what is there is computed of the rest.
    let len = laid.file.len();
    let last = laid.file.read_at(ByteRange::new(len.saturating_sub(300), len).unwrap()).unwrap();
    let whole = read_through(&laid.file).unwrap();
    assert!(whole.ends_with(&last));
    for step in 0..100_usize {
        let start = step * 7_919_333 % whole.len();
        let end = (start + 1 + step * 97).min(whole.len());
        let range = ByteRange::new(start as u64, end as u64).unwrap();
        assert!(laid.file.read_at(range).unwrap() == whole[start..end], "{range}");
    }
    assert_eq!(laid.members.all().len(), laid.starts.len());
    whole
}

/// Why an archive cannot be patched.
fn refusal(archive: &[u8], paths: &[&Path]) -> String {
    match patched(in_memory(archive), paths, CaseRule::Exact) {
        Ok(laid) => panic!("{} members", laid.members.all().len()),
        Err(error) => stook::error::chain(&error),
    }
}

/// Runs a script in a directory.
fn script(place: &Path, script: &str) {
    let output = Command::new("bash").args(["-euo", "pipefail", "-c", script]).current_dir(place).output();
    let output = output.unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&said));
}
