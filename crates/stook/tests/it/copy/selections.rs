//! Lists of paths, what is left out of a source, what a dry run says of links, and how a copy
//! ends.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use stook::copy::{
    Action, Copy, CopyEvents, CopyOptions, CopyReport, CopySource, Destination, Progress, Why,
};
use stook::names::{Patterns, Selection};
use stook::source::Source;
use stook::tree::{Cursor, Node, NodeId, Page, Tree};
use stook::walk::DirectoryTree;
use stook_testing::fault::AlteredCalls;

use super::{copy, heard};

struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in files {
            let path = place.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn listed(&self, sources: &[&str], only: &[&str]) -> CopyReport {
        let only = only.iter().map(|path| path.as_bytes().to_vec()).collect::<BTreeSet<_>>();
        let options = CopyOptions { only: Some(only), ..CopyOptions::default() };
        let sources = sources.iter().map(|name| CopySource::directory(self.at(name)).unwrap()).collect();
        let copy = Copy::new(sources, vec![Destination::new(self.at("to"))]).with_options(options);
        copy.run(&mut ()).unwrap()
    }
}

#[test]
fn a_listed_path_that_no_source_has_is_named_however_many_there_are() {
    let place = Place::new(&["one/a", "two/b"]);
    let report = place.listed(&["one", "two"], &["a", "b", "c", "d/e"]);
    let failed: Vec<_> = report.failures.iter().map(|failure| failure.key.as_slice()).collect();
    assert_eq!(failed, [&b"c"[..], b"d/e"], "{report:?}");
    assert!(format!("{:?}", report.failures[0].error).contains("no source has it"));
    assert!(place.at("to/one/a").exists() && place.at("to/two/b").exists());
}

/// Before: a dry run said that all was copied where a directory was not there yet, and of names of
/// one file that each was copied.
#[test]
fn a_dry_run_says_which_files_become_links() {
    let place = Place::new(&["from/d/same", "from/d/other"]);
    fs::hard_link(place.at("from/d/other"), place.at("from/d/twin")).unwrap();
    assert_eq!(copy(&place.at("from"), &place.at("monday")).undone(), 0);
    fs::write(place.at("from/d/other"), "changed since then").unwrap();
    let whats = |dry_run| {
        let link_dest = Some(place.at("monday"));
        let options = CopyOptions { dry_run, link_dest, ..CopyOptions::default() };
        let (report, events) = heard(&place.at("from"), &place.at("tuesday"), options);
        assert_eq!(report.undone(), 0, "{report:?}");
        let files = events.items.iter().filter(|item| item.kind == stook::tree::Kind::File);
        let mut all: Vec<_> = files.map(|item| (item.action, item.why)).collect();
        all.sort_by_key(|(action, _)| format!("{action:?}"));
        all
    };
    let dry = whats(true);
    assert_eq!(
        dry,
        [(Action::Copy, Why::New), (Action::HardLink, Why::New), (Action::LinkEarlier, Why::New)]
    );
    assert_eq!(whats(false), dry);
}

#[test]
fn a_destination_in_what_is_left_out_is_not_inside() {
    let place = Place::new(&["disk/file", "disk/mnt/other/kept"]);
    let run = |exclude: &str, to: &str| {
        let selection = Selection::of(Patterns::default(), Patterns::new([exclude]).unwrap());
        let sources = vec![CopySource::directory(place.at("disk")).unwrap()];
        let copy = Copy::new(sources, vec![Destination::new(place.at(to))]);
        copy.with_options(CopyOptions { selection, ..CopyOptions::default() }).run(&mut ())
    };
    assert!(run("file", "disk/mnt/backup").is_err());
    assert!(run("mn", "disk/mnt/backup").is_err());
    assert!(!place.at("disk/mnt/backup").exists());
    for to in ["disk/mnt/backup", "disk/mnt/other"] {
        let report = run("/mnt", to).unwrap();
        assert_eq!((report.undone(), report.destinations[0].files), (0, 1), "{report:?}");
        assert!(place.at(to).join("file").exists() && !place.at(to).join("mnt").exists());
    }
}

#[test]
fn directories_that_are_made_to_have_the_copy_are_named() {
    let place = Place::new(&["from/x"]);
    let made = |to: &str| copy(&place.at("from"), &place.at(to)).destinations[0].made.clone();
    assert_eq!(made("a/b/c"), ["a", "a/b", "a/b/c"].map(|name| place.at(name)));
    assert_eq!(made("a/b/d"), [place.at("a/b/d")]);
    assert!(made("a/b").is_empty());
}

/// Counts how often it was asked since the copy was to end; 0 before that.
struct Ending(Arc<AtomicU32>);

impl CopyEvents for Ending {
    fn go_on(&mut self, _: &Progress) -> bool {
        let asked = self.0.load(Ordering::SeqCst);
        if asked > 0 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        asked == 0
    }
}

/// Before: every directory was still finished, which of a tree without an end took for ever.
#[test]
fn an_interrupted_copy_does_not_go_through_all_directories_once_more() {
    let place = Place::new(&["from/d/x"]);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    fs::File::open(place.at("from/d")).unwrap().set_modified(time).unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let ends = asked.clone();
    // While the file gets its name the copy is interrupted, and asked a second time after that.
    let interrupt: Box<dyn FnOnce() + Send> = Box::new(move || {
        ends.store(1, Ordering::SeqCst);
        while ends.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
    });
    let calls = Arc::new(AlteredCalls::new().before_naming("x", [interrupt]));
    let destination = Destination { calls, ..Destination::new(place.at("to")) };
    let sources = vec![CopySource::directory(place.at("from")).unwrap()];
    let report = Copy::new(sources, vec![destination]).run(&mut Ending(asked)).unwrap();
    assert!(report.interrupted && report.undone() == 0, "{report:?}");
    assert_eq!(fs::read(place.at("to/d/x")).unwrap(), b"from/d/x");
    assert_ne!(fs::metadata(place.at("to/d")).unwrap().modified().unwrap(), time);
    assert_eq!(copy(&place.at("from"), &place.at("to")).undone(), 0);
    assert_eq!(fs::metadata(place.at("to/d")).unwrap().modified().unwrap(), time);
}

/// A tree of which one directory is gone after it was listed in the one above.
#[derive(Debug)]
struct Vanishing {
    tree: DirectoryTree,
    gone: NodeId,
}

impl Vanishing {
    fn check(&self, id: NodeId) -> stook::Result<()> {
        match id == self.gone {
            true => Err(stook::Error::io("open", self.tree.path_of(id), io::ErrorKind::NotFound.into())),
            false => Ok(()),
        }
    }
}

impl Tree for Vanishing {
    fn path(&self) -> &Path {
        self.tree.path()
    }

    fn root(&self) -> NodeId {
        self.tree.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> stook::Result<Option<NodeId>> {
        self.tree.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> stook::Result<Option<Cursor>> {
        self.check(directory)?;
        self.tree.list(directory, from, page)
    }

    fn node(&self, id: NodeId) -> stook::Result<Node> {
        self.check(id)?;
        self.tree.node(id)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.tree.path_of(id)
    }

    fn link_target(&self, id: NodeId) -> stook::Result<Vec<u8>> {
        self.tree.link_target(id)
    }

    fn open(&self, id: NodeId) -> stook::Result<Arc<dyn Source>> {
        self.tree.open(id)
    }
}

#[test]
fn a_directory_that_is_gone_is_one_failure() {
    let place = Place::new(&["from/d/x", "from/y"]);
    let tree = DirectoryTree::open(place.at("from")).unwrap();
    let gone = tree.lookup(tree.root(), b"d").unwrap().unwrap();
    let source = CopySource::tree(Arc::new(Vanishing { tree, gone }), "from");
    let report = Copy::new(vec![source], vec![Destination::new(place.at("to"))]).run(&mut ()).unwrap();
    assert_eq!((report.failures.len(), report.undone()), (1, 1), "{report:?}");
    assert_eq!(report.failures[0].key, b"d");
    assert!(place.at("to/y").exists());
}
