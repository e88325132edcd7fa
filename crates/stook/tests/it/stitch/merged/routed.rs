//! Copies of archives that routes change: found when one is opened, made after it was read, and
//! never of another state than that of all that it is made of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use stook::stitch::{Bodies, MergedOpener, MergedUse, Parts, RouteFolder, Routed, Routes, routed};
use stook::tree::{CaseRule, Tree as _};
use stook::walk::DirectoryTree;

use super::*;

const FILES: usize = 40;
/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// A game whose archives a folder changes.
struct Game {
    place: Place,
}

impl Game {
    /// With a tar, a zip, and a tar in a tar.
    fn new() -> Self {
        let game = Self { place: Place::of(FILES) };
        fs::create_dir(game.path("game")).unwrap();
        for (name, laid) in [("one.tar", game.place.tar()), ("two.zip", zip_of(&game.place.tree()))] {
            fs::write(game.path("game").join(name), read_through(&laid.file).unwrap()).unwrap();
        }
        fs::copy(game.path("game/one.tar"), game.place.tree().join("inner.tar")).unwrap();
        let outer = read_through(&game.place.tar().file).unwrap();
        fs::write(game.path("game/outer.tar"), outer).unwrap();
        for archive in ["one.tar", "two.zip", "outer.tar", "outer.tar/inner.tar"] {
            fs::create_dir_all(game.path("mod").join(archive)).unwrap();
            for number in (0..FILES).step_by(3) {
                let name = format!("{archive}/{number:04}");
                fs::write(game.path("mod").join(name), body(number + 1)).unwrap();
            }
        }
        settle();
        game
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.directory.path().join(name)
    }

    fn routed(&self) -> Routed {
        let tree = Arc::new(DirectoryTree::open(self.path("mod")).unwrap());
        let folder = RouteFolder { id: tree.root(), tree, is_on_disk: true };
        let routes = Routes::of([folder], CaseRule::Exact, &mut |_| true).unwrap();
        routed(Arc::new(DirectoryTree::open(self.path("game")).unwrap()), routes, &mut |_| true).unwrap()
    }

    /// As a mount has it, whose tree is used for long.
    fn with(&self, cache: &Arc<MergedCache>) -> Routed {
        let routed = self.routed();
        routed.use_merged(MergedOpener::new(cache.clone()));
        routed
    }

    /// The bytes of an archive, by another way than a copy.
    fn expected(&self, name: &str) -> Vec<u8> {
        all_of(&*open(&self.routed(), name)).unwrap().into()
    }
}

fn open(routed: &Routed, name: &str) -> Arc<dyn Source> {
    let tree = routed.tree();
    let id = tree.find(name.as_bytes()).unwrap().unwrap();
    tree.open(id).unwrap()
}

/// Reads all of an archive, and says whether that came from a copy.
fn read(routed: &Routed, name: &str, expected: &[u8]) -> bool {
    let source = open(routed, name);
    assert!(all_of(&*source).unwrap() == expected, "{name}");
    source.check_unchanged().unwrap();
    if let Some(whole) = source.whole_file() {
        assert!(fs::read(whole.path()).unwrap() == expected, "{name}: a file with exactly these bytes");
    }
    source.whole_file().is_some()
}

/// Waits for what a thread does.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads an archive, which has no copy, and waits until it has one.
fn make(cache: &MergedCache, routed: &Routed, name: &str, expected: &[u8]) {
    let before = cache.statistics().built;
    assert!(!read(routed, name, expected), "{name}");
    until("a copy is made", || {
        read(routed, name, expected);
        cache.statistics().built > before
    });
}

#[test]
fn an_archive_that_was_read_has_a_copy_the_next_time() {
    let game = Game::new();
    let cache = game.place.cache();
    let routed = game.with(&cache);
    for (number, name) in (1..).zip(["one.tar", "two.zip", "outer.tar"]) {
        let expected = game.expected(name);
        make(&cache, &routed, name, &expected);
        assert!(read(&routed, name, &expected), "{name}");
        // Another mount, and another process.
        assert!(read(&game.with(&cache), name, &expected), "{name}");
        let other = game.place.cache();
        assert!(read(&game.with(&other), name, &expected), "{name}");
        assert_eq!(other.statistics(), MergedStatistics { found: 1, ..MergedStatistics::default() });
        let counted = cache.statistics();
        assert!(counted.built == number && counted.stitched >= number && counted.found >= 2 * number);
    }
    assert_eq!(cache.take_notes(), Vec::<String>::new());
    // Who copies the tree does not get hold of files of the cache.
    let tree = routed.tree();
    let id = tree.find(b"one.tar").unwrap().unwrap();
    assert!(tree.whole_file(id).unwrap().is_none());
}

#[test]
fn of_what_is_hardly_read_no_copy_is_made() {
    let game = Game::new();
    let cache = game.place.cache();
    let routed = game.with(&cache);
    let part = |name: &str, range: ByteRange| {
        let source = open(&routed, name);
        read_range(&Backend::Auto, &*source, range, Access::Cached).unwrap()
    };
    let (one, two) = (game.expected("one.tar"), game.expected("two.zip"));
    for _ in 0..3 {
        assert!(part("one.tar", ByteRange::to(512)) == one[..512]);
    }
    // One thread makes them in turn: that of the first would be there by now.
    make(&cache, &routed, "two.zip", &two);
    assert_eq!((place_records(&game), cache.statistics().built), (1, 1));
    // Half of it is enough, by however many.
    let half = one.len() as u64 / 2;
    assert!(part("one.tar", ByteRange::new(half, one.len() as u64).unwrap()) == one[half as usize..]);
    until("a copy is made", || cache.statistics().built == 2);
    assert!(read(&routed, "one.tar", &one));
    // By the rule short files on fast disks have none, whatever is read of them.
    let cache = game.place.cache_with(MergedCacheOptions { rule: MergeRule::Never, ..ALWAYS });
    let routed = game.with(&cache);
    assert!(!read(&routed, "one.tar", &one) && !read(&routed, "one.tar", &one));
    assert_eq!(cache.statistics(), MergedStatistics { stitched: 2, ..MergedStatistics::default() });
}

fn place_records(game: &Game) -> usize {
    game.place.files(".record").len()
}

#[test]
fn as_long_as_it_is_open_from_its_parts_it_is_the_same_for_all() {
    let game = Game::new();
    let (cache, expected) = (game.place.cache(), game.expected("one.tar"));
    let routed = game.with(&cache);
    let first = open(&routed, "one.tar");
    // Another makes the copy meanwhile.
    let other = game.place.cache();
    make(&other, &game.with(&other), "one.tar", &expected);
    let second = open(&routed, "one.tar");
    assert!(second.whole_file().is_none() && first.identity().same_content(&second.identity()));
    assert!(all_of(&*first).unwrap() == expected && all_of(&*second).unwrap() == expected);
    drop((first, second));
    assert!(read(&routed, "one.tar", &expected));
    // And from a copy, by the same one.
    let (first, second) = (open(&routed, "one.tar"), open(&routed, "one.tar"));
    assert!(first.whole_file().is_some() && first.identity() == second.identity());
}

/// What happens to something that an archive is made of.
type Change = (&'static str, fn(&Path));

const CHANGES: [Change; 4] = [
    ("replaced by another", |path| {
        let beside = path.with_extension("new");
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&beside, bytes).unwrap();
        fs::rename(beside, path).unwrap();
    }),
    ("written over", |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }),
    ("cut", |path| {
        let len = path.metadata().unwrap().len();
        File::options().write(true).open(path).unwrap().set_len(len - 1).unwrap();
    }),
    ("gone", |path| fs::remove_file(path).unwrap()),
];

#[test]
fn after_a_change_nothing_old_is_read() {
    for changed in ["game/one.tar", "mod/one.tar/0003"] {
        for (what, change) in CHANGES {
            let game = Game::new();
            let (cache, old) = (game.place.cache(), game.expected("one.tar"));
            let routed = game.with(&cache);
            make(&cache, &routed, "one.tar", &old);
            let (open_before, what) = (open(&routed, "one.tar"), format!("{changed} {what}"));
            assert!(open_before.whole_file().is_some());
            change(&game.path(changed));
            settle();
            // What is open stays as it was, all of it.
            assert!(all_of(&*open_before).unwrap() == old, "{what}");
            // Who opens it now gets an error, as without a copy.
            let tree = routed.tree();
            let id = tree.find(b"one.tar").unwrap().unwrap();
            let read_now = tree.open(id).and_then(|source| {
                assert!(source.whole_file().is_none(), "{what}");
                all_of(&*source)
            });
            assert!(read_now.is_err(), "{what}");
            drop(open_before);
            // And who looks at the folders anew what they make of it now.
            if changed.starts_with("mod") && !what.contains("gone") && !what.contains("cut") {
                let new = game.expected("one.tar");
                assert!(new != old && new.len() == old.len(), "{what}");
                let routed = game.with(&cache);
                make(&cache, &routed, "one.tar", &new);
                assert!(read(&routed, "one.tar", &new), "{what}");
                assert_eq!(place_records(&game), 2, "{what}");
            }
        }
    }
}

#[test]
fn a_damaged_copy_costs_the_copy_alone() {
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[700] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let game = Game::new();
    let (cache, expected) = (game.place.cache(), game.expected("one.tar"));
    let routed = game.with(&cache);
    make(&cache, &routed, "one.tar", &expected);
    // While nobody has it open: it is thrown away, and made again after it was read.
    flip(&game.place.files(".merged")[0]);
    make(&cache, &routed, "one.tar", &expected);
    assert_eq!(cache.statistics().discarded, 1);
    assert!(cache.take_notes()[0].contains("thrown away"));
    // While it is open.
    let source = open(&routed, "one.tar");
    assert!(source.whole_file().is_some() && all_of(&*source).unwrap() == expected);
    settle();
    flip(&game.place.files(".merged")[0]);
    assert!(all_of(&*source).unwrap() == expected);
    assert!(cache.take_notes()[0].contains("cannot be used any more"));
    // It is in use by us: another gets the parts.
    assert!(!read(&routed, "one.tar", &expected));
    drop(source);
    make(&cache, &routed, "one.tar", &expected);
    assert!(read(&routed, "one.tar", &expected));
}

#[test]
fn a_full_cache_is_tried_once() {
    let game = Game::new();
    let cache = game.place.cache_with(MergedCacheOptions { budget_bytes: 8192, ..ALWAYS });
    let (routed, expected) = (game.with(&cache), game.expected("one.tar"));
    assert!(!read(&routed, "one.tar", &expected));
    until("it is tried", || cache.statistics().failures == 1);
    assert!(cache.take_notes()[0].contains("more than the cache may have"));
    assert!(!read(&routed, "one.tar", &expected));
    // One thread tries them in turn.
    assert!(!read(&routed, "two.zip", &game.expected("two.zip")));
    until("the other is tried", || cache.statistics().failures == 2);
    assert_eq!((cache.statistics().built, place_records(&game)), (0, 0));
}

#[test]
fn a_file_that_changed_a_moment_ago_has_no_copy_yet() {
    let game = Game::new();
    let cache = game.place.cache();
    let path = game.path("mod/one.tar/0003");
    let bytes = fs::read(&path).unwrap();
    File::options().write(true).open(&path).unwrap().write_all(&bytes).unwrap();
    let expected = game.expected("one.tar");
    // Whether it is settled by now or not, the bytes are right.
    read(&game.with(&cache), "one.tar", &expected);
    settle();
    let routed = game.with(&cache);
    until("a copy is made and used", || read(&routed, "one.tar", &expected));
    assert_eq!(place_records(&game), 1);
}

#[test]
fn two_mounts_with_one_cache_make_one_copy() {
    let game = Game::new();
    let expected = game.expected("two.zip");
    let caches = [game.place.cache(), game.place.cache()];
    let mounts = caches.each_ref().map(|cache| game.with(cache));
    std::thread::scope(|scope| {
        for routed in &mounts {
            scope.spawn(|| {
                for _ in 0..20 {
                    read(routed, "two.zip", &expected);
                }
            });
        }
    });
    until("a copy is there", || mounts.iter().all(|routed| read(routed, "two.zip", &expected)));
    assert_eq!((place_records(&game), game.place.files(".merged").len()), (1, 1));
    assert_eq!(caches.each_ref().map(|cache| cache.statistics().failures), [0, 0]);
}

/// Files, and how often one of them was opened.
#[derive(Debug)]
struct Counted {
    files: Vec<PathBuf>,
    opened: AtomicU64,
}

impl Parts for Counted {
    fn open(&self, number: u32) -> stook::Result<Arc<dyn Source>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(stook::source::FileSource::open(&self.files[number as usize])?))
    }

    fn make(&self, _: u32, _: &Bodies) -> stook::Result<Bytes> {
        unreachable!("nothing of it is computed")
    }
}

#[test]
fn nothing_is_looked_at_of_a_file_that_has_no_copy() {
    let place = Place::of(FILES);
    let counted = Arc::new(Counted {
        files: (0..FILES).map(|number| place.file(number)).collect(),
        opened: AtomicU64::new(0),
    });
    let file = |name: &str| {
        let mut pieces = Pieces::new();
        (0..FILES as u32).for_each(|number| pieces.body(number, 0, 1000));
        VirtualFile::new(name, pieces, counted.clone()).unwrap()
    };
    let opened = || counted.opened.swap(0, Ordering::Relaxed) as usize;
    let cache = place.cache();
    let (opener, used) = (MergedOpener::new(cache.clone()), Arc::new(MergedUse::default()));
    let expected = read_through(&file("one")).unwrap();
    opened();
    drop(opener.open(&file("one"), &used));
    assert_eq!(opened(), 0);
    assert!(all_of(&*opener.open(&file("one"), &used)).unwrap() == expected);
    until("a copy is made", || cache.statistics().built == 1);
    opened();
    // Of one with another name still nothing, whatever directory it was looked for in.
    for cache in [cache.clone(), place.cache()] {
        drop(MergedOpener::new(cache).open(&file("two"), &Arc::default()));
        assert_eq!(opened(), 0);
    }
    let source = opener.open(&file("one"), &used);
    assert!(source.whole_file().is_some() && all_of(&*source).unwrap() == expected);
    assert_eq!(opened(), FILES, "all are what they were");
    // A record that cannot be read may be that of any file.
    let record = place.files(".record").remove(0);
    fs::write(record.with_file_name(format!("{}.record", "0".repeat(64))), "no record").unwrap();
    drop(opener.open(&file("two"), &Arc::default()));
    assert_eq!(opened(), FILES);
}

#[test]
fn more_files_than_may_be_open_hold_nothing_up() {
    let game = Game::new();
    for number in 0..1500 {
        fs::write(game.path(&format!("mod/one.tar/new{number}")), body(number % 7)).unwrap();
    }
    settle();
    let (cache, expected) = (game.place.cache(), game.expected("one.tar"));
    let routed = game.with(&cache);
    make(&cache, &routed, "one.tar", &expected);
    assert!(read(&routed, "one.tar", &expected));
}
