//! Copying trees: what comes out is what was there, whatever is in the way.

mod attributes;
mod backups;
mod dry_runs;
mod events;
mod faults;
mod given;
mod histories;
mod in_use;
mod lengths;
mod links;
mod lists;
mod mirrors;
mod places;
mod private;
mod read_back;
mod replacing;
mod resume;
mod roundtrip;
mod rules;
mod selections;
mod shared;
mod sharing;
mod times;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use stook::copy::{
    Action, Copy, CopyEvents, CopyOptions, CopyReport, CopySource, Destination, Item, Progress, Why,
};

/// Copies a directory with these options.
pub(crate) fn copy_with(from: &Path, to: &[&Path], options: CopyOptions) -> CopyReport {
    let destinations = to.iter().map(Destination::new).collect();
    let sources = vec![CopySource::directory(from).unwrap()];
    Copy::new(sources, destinations).with_options(options).run(&mut ()).unwrap()
}

fn copy(from: &Path, to: &Path) -> CopyReport {
    copy_with(from, &[to], CopyOptions::default())
}

/// What is known of a path: kind and mode, owner, time, length, number of names, and the bytes.
type Known = (u32, (u32, u32), i128, u64, u64, Vec<u8>);

/// Everything below a directory, with its metadata.
fn state_of(root: &Path) -> BTreeMap<Vec<u8>, Known> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let status = path.symlink_metadata().unwrap();
            let kind = status.file_type();
            let bytes = if kind.is_symlink() {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if kind.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            let mtime = i128::from(status.mtime()) * 1_000_000_000 + i128::from(status.mtime_nsec());
            let (len, links) = if kind.is_dir() { (0, 1) } else { (status.len(), status.nlink()) };
            let known = (status.mode(), (status.uid(), status.gid()), mtime, len, links, bytes);
            let key = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if kind.is_dir() {
                folders.push(path);
            }
            found.insert(key, known);
        }
    }
    found
}

/// Two directories are the same, with all metadata.
#[track_caller]
fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (state_of(one), state_of(other));
    let names = |state: &BTreeMap<Vec<u8>, Known>| -> Vec<String> {
        state.keys().map(|key| key.escape_ascii().to_string()).collect()
    };
    assert_eq!(names(&one), names(&other));
    for (key, known) in &one {
        let copied = &other[key];
        let short = |known: &Known| (known.0, known.1, known.2, known.3, known.4);
        assert_eq!(short(known), short(copied), "{}", key.escape_ascii());
        assert!(known.5 == copied.5, "{} has other bytes", key.escape_ascii());
    }
}

/// Keeps what it hears; ends the copy after so many reports of progress.
#[derive(Debug, Default)]
struct Heard {
    items: Vec<Item>,
    last: Progress,
    stops: bool,
}

impl CopyEvents for Heard {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.last = progress.clone();
        !self.stops
    }

    fn item(&mut self, item: &Item) {
        self.items.push(item.clone());
    }
}

impl Heard {
    /// What became of each path, in the order of paths.
    fn whats(&self) -> Vec<(String, Action, Why)> {
        let mut all: Vec<_> = self
            .items
            .iter()
            .map(|item| (String::from_utf8_lossy(&item.key).into_owned(), item.action, item.why))
            .collect();
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }
}

/// Copies, and keeps what is heard.
fn heard(from: &Path, to: &Path, options: CopyOptions) -> (CopyReport, Heard) {
    let mut events = Heard::default();
    let sources = vec![CopySource::directory(from).unwrap()];
    let copy = Copy::new(sources, vec![Destination::new(to)]).with_options(options);
    (copy.run(&mut events).unwrap(), events)
}
