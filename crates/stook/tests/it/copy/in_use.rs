//! Sources that other programs use: each name gets the bytes that it has in the source.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination, HashKind};
use stook::engine;
use stook::source::Source;
use stook::tree::{Cursor, Holes, Node, NodeId, Overwrite, Page, Tree};
use stook::walk::DirectoryTree;

const SMALL: usize = 2_000;
const LARGE: usize = 700_000;

type Deed = Box<dyn FnOnce(&DirectoryTree) + Send>;

/// A directory in which another program does something when its names were listed to be copied.
struct InUse {
    tree: DirectoryTree,
    lists: AtomicUsize,
    deed: Mutex<Option<Deed>>,
}

impl fmt::Debug for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InUse")
    }
}

impl Tree for InUse {
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
        let next = self.tree.list(directory, from, page)?;
        // It is listed first to be counted.
        if directory == self.root() && self.lists.fetch_add(1, Ordering::Relaxed) == 1 {
            let deed = self.deed.lock().unwrap_or_else(PoisonError::into_inner).take();
            deed.unwrap()(&self.tree);
        }
        Ok(next)
    }

    fn node(&self, id: NodeId) -> stook::Result<Node> {
        self.tree.node(id)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.tree.path_of(id)
    }

    fn link_target(&self, id: NodeId) -> stook::Result<Vec<u8>> {
        self.tree.link_target(id)
    }

    fn holes(&self, id: NodeId) -> stook::Result<Holes> {
        self.tree.holes(id)
    }

    fn open(&self, id: NodeId) -> stook::Result<Arc<dyn Source>> {
        self.tree.open(id)
    }

    fn whole_file(&self, id: NodeId) -> stook::Result<Option<Arc<engine::File>>> {
        self.tree.whole_file(id)
    }
}

struct Place(tempfile::TempDir);

impl Place {
    /// A directory with another one in it.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.at("from/z")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn copy(&self, options: CopyOptions, deed: impl FnOnce(&DirectoryTree) + Send + 'static) -> CopyReport {
        let tree = DirectoryTree::open(self.at("from")).unwrap();
        let deed = Mutex::new(Some(Box::new(deed) as Deed));
        let source = CopySource::tree(Arc::new(InUse { tree, lists: AtomicUsize::new(0), deed }), "from");
        let copy = Copy::new(vec![source], vec![Destination::new(self.at("to"))]);
        copy.with_options(options).run(&mut ()).unwrap()
    }

    #[track_caller]
    fn assert_copied(&self, names: &[&str], case: &str) {
        for name in names {
            let (wanted, copied) = (fs::read(self.at("from").join(name)), fs::read(self.at("to").join(name)));
            assert!(wanted.unwrap() == copied.unwrap(), "{case}: {name}");
        }
    }
}

/// Saves a file as editors do: a new one takes its name.
fn save(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("new");
    fs::write(&beside, bytes).unwrap();
    fs::rename(&beside, path).unwrap();
}

#[test]
fn a_name_never_gets_the_bytes_of_what_has_its_inode_later() {
    for len in [SMALL, LARGE] {
        let place = Place::new();
        let (path, other) = (place.at("from/f"), place.at("from/z/other"));
        fs::write(&path, vec![b'f'; len]).unwrap();
        let report = place.copy(CopyOptions::default(), move |tree| {
            // Who only looks at the inode takes this for the file that was listed.
            fs::rename(&path, &other).unwrap();
            fs::write(&other, vec![b'p'; len]).unwrap();
            fs::write(&path, vec![b's'; len]).unwrap();
            assert!(tree.find(b"z/other").unwrap().is_some());
        });
        assert_eq!(report.undone(), 0, "{report:?}");
        place.assert_copied(&["f", "z/other"], &format!("{len} bytes"));
    }
}

#[test]
fn a_file_that_another_took_the_place_of_is_copied_as_it_is_then() {
    let different = Overwrite::Different;
    for len in [SMALL, LARGE] {
        let hashes = vec![HashKind::Xxh3];
        for (options, is_there) in [
            (CopyOptions::default(), false),
            (CopyOptions { hashes, ..CopyOptions::default() }, false),
            (CopyOptions { overwrite: different, ..CopyOptions::default() }, false),
            (CopyOptions { overwrite: different, ..CopyOptions::default() }, true),
            (CopyOptions { overwrite: different, checksum: true, ..CopyOptions::default() }, true),
        ] {
            let place = Place::new();
            let path = place.at("from/f");
            fs::write(&path, vec![b'f'; len]).unwrap();
            if is_there {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
                fs::create_dir(place.at("to")).unwrap();
                fs::write(place.at("to/f"), vec![b'f'; len]).unwrap();
                for path in [&path, &place.at("to/f")] {
                    fs::File::open(path).unwrap().set_modified(time).unwrap();
                }
            }
            let case = format!("{len} bytes, {options:?}, {is_there}");
            let report = place.copy(options, move |_| save(&path, &vec![b's'; len + 1]));
            assert_eq!((report.undone(), report.read_files), (0, 1), "{case}: {report:?}");
            place.assert_copied(&["f"], &case);
        }
    }
}

#[test]
fn names_of_one_file_that_are_names_of_two_by_now_are_copied_as_two() {
    for changed in ["a", "b", "c"] {
        let place = Place::new();
        fs::write(place.at("from/a"), "one file").unwrap();
        fs::hard_link(place.at("from/a"), place.at("from/b")).unwrap();
        fs::hard_link(place.at("from/a"), place.at("from/c")).unwrap();
        let path = place.at("from").join(changed);
        let report = place.copy(CopyOptions::default(), move |_| save(&path, b"saved"));
        assert_eq!(report.undone(), 0, "{changed}: {report:?}");
        place.assert_copied(&["a", "b", "c"], changed);
    }
}

#[test]
fn a_name_that_is_gone_is_a_failure_and_no_link_to_what_it_was() {
    let place = Place::new();
    fs::write(place.at("from/a"), "one file").unwrap();
    fs::hard_link(place.at("from/a"), place.at("from/b")).unwrap();
    let path = place.at("from/b");
    let report = place.copy(CopyOptions::default(), move |_| fs::remove_file(&path).unwrap());
    let keys: Vec<_> = report.failures.iter().map(|failure| failure.key.as_slice()).collect();
    assert_eq!((report.undone(), keys), (1, vec![&b"b"[..]]), "{report:?}");
    place.assert_copied(&["a"], "the other name");
    assert!(!place.at("to/b").exists());
}
