//! Archives: made by other people's tools, read by ours.

mod checksums;
mod hostile;
mod index;
mod made;
mod spooled;
mod tars;
mod trees;
mod unpacking;
mod written_zips;
mod zips;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use stook::archive::{Archive, Error, MemberKind, OpenOptions};

/// Runs a program that the test needs, and fails with its message.
fn run(program: &str, args: &[&str], folder: &Path) -> Vec<u8> {
    let output = Command::new(program).args(args).current_dir(folder).env("TZ", "UTC").output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    output.stdout
}

/// Opens without an index beside the archive.
fn open(path: &Path) -> Result<Archive, Error> {
    Archive::open(path, OpenOptions { sidecar: false, ..OpenOptions::default() })
}

/// What a member is, and its bytes.
type Content = (MemberKind, Vec<u8>);

/// All that is in an archive. Members that cannot be read are left out.
fn contents(archive: &Archive) -> BTreeMap<Vec<u8>, Content> {
    let numbers = (0..archive.len()).collect();
    let mut reading = archive.read(numbers).unwrap();
    let mut all = BTreeMap::new();
    while let Some(member) = reading.next().unwrap() {
        let mut bytes = Vec::new();
        let whole = loop {
            match reading.chunk() {
                Ok(Some(chunk)) => bytes.extend_from_slice(chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        if whole {
            assert_eq!(bytes.len() as u64, member.node.len);
            all.insert(member.key.to_vec(), (member.kind(), bytes));
        }
    }
    all
}
