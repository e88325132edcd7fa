//! Walking trees: against a plain reference walk, and against trees that were made to be awkward.

mod awkward;
mod changing;
mod order;
mod reading;
mod reference;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use stook::Error;
use stook::walk::{Content, Kind, Walk, WalkError, WalkItem, WalkOptions, WalkSummary};

/// What was found under a key, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Directory { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
    Symlink { target: Vec<u8> },
    Special { kind: Kind },
}

type Tree = BTreeMap<Vec<u8>, Found>;

/// Everything a walk reports.
#[derive(Debug, Default)]
struct Report {
    items: Vec<WalkItem>,
    errors: Vec<WalkError>,
    summary: WalkSummary,
}

impl Report {
    fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.items.iter().map(|i| std::str::from_utf8(&i.key).unwrap()).collect();
        keys.sort_unstable();
        keys
    }

    fn item(&self, key: &str) -> &WalkItem {
        self.items.iter().find(|i| i.key == key.as_bytes()).unwrap()
    }

    fn tree(&self) -> Tree {
        self.items.iter().map(|item| (item.key.clone(), found(item))).collect()
    }
}

fn found(item: &WalkItem) -> Found {
    let mode = item.status.node.mode.unwrap();
    match (&item.content, item.kind()) {
        (Content::Bytes(bytes), Kind::File) => Found::File { mode, bytes: bytes.to_vec() },
        (Content::Large(large), Kind::File) => {
            let mut bytes = Vec::new();
            let mut file = large.open().unwrap();
            std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
            large.check(&file).unwrap();
            Found::File { mode, bytes }
        }
        (Content::Target(target), Kind::Symlink) => Found::Symlink { target: target.clone() },
        (Content::None, Kind::Directory) => Found::Directory { mode },
        (Content::None, kind) => Found::Special { kind },
        (content, kind) => panic!("{kind} with {content:?}"),
    }
}

fn small(threads: usize) -> WalkOptions {
    WalkOptions { threads, read_up_to: 1000, buffered_bytes_max: 64 << 10, ..WalkOptions::default() }
}

/// Walks and collects.
fn report(walk: &Walk<'_>) -> Report {
    let mut report = Report::default();
    let summary = walk
        .run::<Error>(|event| {
            match event {
                Ok(item) => report.items.push(item),
                Err(error) => report.errors.push(error),
            }
            Ok(())
        })
        .unwrap();
    report.summary = summary;
    report
}

fn walk_of(root: &Path) -> Walk<'static> {
    Walk::new([root]).unwrap().options(small(4))
}

/// The slow and obvious walk.
fn reference(root: &Path) -> Tree {
    fn add(path: &Path, key: Vec<u8>, tree: &mut Tree) {
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.mode() & 0o7777;
        if metadata.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let mut below = key.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(entry.file_name().as_encoded_bytes());
                add(&entry.path(), below, tree);
            }
            tree.insert(key, Found::Directory { mode });
        } else if metadata.is_symlink() {
            let target = path.read_link().unwrap().into_os_string().into_encoded_bytes();
            tree.insert(key, Found::Symlink { target });
        } else {
            assert!(metadata.is_file());
            tree.insert(key, Found::File { mode, bytes: std::fs::read(path).unwrap() });
        }
    }
    let mut tree = Tree::new();
    add(root, Vec::new(), &mut tree);
    tree
}
