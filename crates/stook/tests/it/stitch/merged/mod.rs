//! Merged copies: the bytes of a virtual file and no others, whatever becomes of the cache, of its
//! sources, and of who builds a copy.

mod damage;
mod keys;
mod killed;
mod room;
mod routed;
mod sharing;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Source, read_range};
use stook::stitch::{
    Laid, MergeRule, MergedCache, MergedCacheOptions, MergedFile, MergedStatistics, Pieces, VirtualFile,
};

use super::{read_through, tar_of, zip_of};

const ALWAYS: MergedCacheOptions = MergedCacheOptions {
    rule: MergeRule::Always,
    budget_bytes: 1 << 30,
    unused_max: Duration::from_secs(14 * 24 * 60 * 60),
    verify_content: false,
};

/// Files, and a cache beside them.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// With so many files, of which none changed a moment ago.
    fn of(count: usize) -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(place.tree()).unwrap();
        for number in 0..count {
            fs::write(place.file(number), body(number)).unwrap();
        }
        settle();
        place
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    fn file(&self, number: usize) -> PathBuf {
        self.tree().join(format!("{number:04}"))
    }

    fn cache_path(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn cache_with(&self, options: MergedCacheOptions) -> Arc<MergedCache> {
        MergedCache::open(self.cache_path(), options).unwrap()
    }

    fn cache(&self) -> Arc<MergedCache> {
        self.cache_with(ALWAYS)
    }

    fn tar(&self) -> Laid {
        tar_of(&self.tree())
    }

    /// The files of the cache whose names end so.
    fn files(&self, end: &str) -> Vec<PathBuf> {
        files(&self.cache_path(), end)
    }
}

fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    all.sort();
    all
}

/// Until no later change of a file leaves its times as they are.
fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}

fn body(number: usize) -> Vec<u8> {
    (0..1000 + number * 37).map(|at| (at * 7 + number * 31) as u8).collect()
}

fn merged(cache: &MergedCache, file: &VirtualFile) -> MergedFile {
    cache.merged(file, &mut |_| true).unwrap()
}

fn all_of(source: &dyn Source) -> stook::Result<Bytes> {
    read_range(&Backend::Auto, source, ByteRange::to(source.len()), Access::Cached)
}

/// Whether a file has a copy, after its bytes were compared.
fn check(cache: &MergedCache, laid: &Laid, expected: &[u8]) -> bool {
    let file = merged(cache, &laid.file);
    assert!(all_of(&file).unwrap() == expected);
    file.is_merged()
}

#[test]
fn a_copy_is_made_once_and_found_by_the_next() {
    let place = Place::of(30);
    for lay_out in [tar_of, zip_of] {
        let expected = read_through(&lay_out(&place.tree()).file).unwrap();
        let cache = place.cache();
        assert!(check(&cache, &lay_out(&place.tree()), &expected));
        assert!(check(&cache, &lay_out(&place.tree()), &expected));
        // Another process.
        let other = place.cache();
        let file = merged(&other, &lay_out(&place.tree()).file);
        assert!(file.is_merged());
        let copy = file.copy().unwrap();
        assert_eq!(fs::read(copy.path()).unwrap(), expected, "a file with exactly these bytes");
        let statistics = MergedStatistics { built: 1, found: 1, ..MergedStatistics::default() };
        assert_eq!(cache.statistics(), statistics);
        assert_eq!(other.statistics(), MergedStatistics { found: 1, ..MergedStatistics::default() });
        assert_eq!((cache.take_notes(), other.take_notes()), (vec![], vec![]));
    }
    assert_eq!((place.files(".record").len(), place.files(".merged").len()), (2, 2));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.cache_path()), 0o700);
    assert!(place.files("").iter().all(|file| mode(file) == 0o600));
}

#[test]
fn a_copy_is_a_source_like_any_other() {
    let place = Place::of(30);
    let (file, laid) = (merged(&place.cache(), &place.tar().file), place.tar());
    settle();
    assert!(file.is_merged() && file.is_proven() && file.len() == place.tar().file.len());
    assert_eq!(file.path(), Path::new("x.tar"));
    let stitched =
        merged(&place.cache_with(MergedCacheOptions { rule: MergeRule::Never, ..ALWAYS }), &place.tar().file);
    assert!(!stitched.is_merged() && !stitched.is_proven());
    let past = ByteRange::new(0, file.len() + 1).unwrap();
    for source in [&file, &stitched] {
        assert!(all_of(source).unwrap() == read_through(source.file()).unwrap());
        let error = read_range(&Backend::Auto, source, past, Access::Cached).unwrap_err();
        assert!(matches!(error, stook::Error::OutOfBounds { .. }), "{error}");
        source.check_unchanged().unwrap();
    }
    // Its bytes are read without any of the files that they came from.
    fs::remove_dir_all(place.tree()).unwrap();
    all_of(&file).unwrap();
    let gone = merged(&place.cache_with(MergedCacheOptions { rule: MergeRule::Never, ..ALWAYS }), &laid.file);
    assert!(all_of(&gone).is_err());
}

#[test]
fn what_is_not_meant_is_not_looked_for() {
    let place = Place::of(30);
    for rule in [MergeRule::Never, MergeRule::Auto] {
        // A temporary directory lies on nothing that is known to rotate, or is not short of time.
        let cache = place.cache_with(MergedCacheOptions { rule, ..ALWAYS });
        let long = Place::of(3);
        assert!(!merged(&cache, &long.tar().file).is_merged(), "three parts are few");
        assert_eq!(cache.statistics(), MergedStatistics { stitched: 1, ..MergedStatistics::default() });
        assert_eq!(cache.take_notes(), Vec::<String>::new());
    }
    assert_eq!(place.files(".record"), Vec::<PathBuf>::new());
}

/// A piece, and the bytes that it has.
#[derive(Debug, Clone)]
enum Piece {
    Body { number: u32, offset: usize, len: usize },
    Bytes(Vec<u8>),
    Fill(u8, u16),
}

const BODIES: u32 = 5;

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (0..BODIES, 0..1000_usize, 0..1000_usize).prop_map(|(number, one, other)| {
            let (offset, end) = (one.min(other), one.max(other));
            Piece::Body { number, offset, len: end - offset }
        }),
        proptest::collection::vec(any::<u8>(), 0..50).prop_map(Piece::Bytes),
        (any::<u8>(), 0..500_u16).prop_map(|(byte, len)| Piece::Fill(byte, len)),
    ]
}

fn built(place: &Place, all: &[Piece]) -> (VirtualFile, Vec<u8>) {
    let (mut pieces, mut flat) = (Pieces::new(), Vec::new());
    for piece in all {
        match piece {
            Piece::Body { number, offset, len } => {
                pieces.body(*number, *offset as u64, *len as u64);
                flat.extend_from_slice(&body(*number as usize)[*offset..offset + len]);
            }
            Piece::Bytes(bytes) => {
                pieces.bytes(Bytes::copy_from_slice(bytes));
                flat.extend_from_slice(bytes);
            }
            Piece::Fill(byte, len) => {
                pieces.fill(*byte, u64::from(*len));
                flat.resize(flat.len() + usize::from(*len), *byte);
            }
        }
    }
    let open = |number: u32| stook::source::FileSource::open(place.file(number as usize)).unwrap();
    let bodies: Vec<Arc<dyn Source>> = (0..BODIES).map(|number| Arc::new(open(number)) as _).collect();
    (VirtualFile::new("made", pieces, Arc::new(bodies)).unwrap(), flat)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// All of them have one path and one set of sources, so that only their pieces tell them apart.
    #[test]
    fn any_layout_has_the_bytes_of_the_flat_file(
        layouts in proptest::collection::vec(proptest::collection::vec(piece(), 0..20), 1..6),
        reads in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let place = Place::of(BODIES as usize);
        let cache = place.cache();
        for _ in 0..2 {
            for layout in &layouts {
                let (file, flat) = built(&place, layout);
                let file = merged(&cache, &file);
                prop_assert!(file.is_merged());
                prop_assert!(all_of(&file).unwrap() == flat);
                for (one, other) in &reads {
                    let (one, other) = (one.index(flat.len() + 1), other.index(flat.len() + 1));
                    let range = ByteRange::new(one.min(other) as u64, one.max(other) as u64).unwrap();
                    let read = read_range(&Backend::Auto, &file, range, Access::Cached).unwrap();
                    prop_assert!(read == flat[one.min(other)..one.max(other)]);
                }
            }
        }
        prop_assert!(cache.statistics().built <= layouts.len() as u64);
        prop_assert_eq!(cache.take_notes(), Vec::<String>::new());
    }
}

/// Something happens when the first bytes were read.
fn while_built(cache: &MergedCache, laid: &Laid, mut act: impl FnMut()) -> stook::stitch::Result<MergedFile> {
    let mut is_done = false;
    cache.merged(&laid.file, &mut |_| {
        if !std::mem::replace(&mut is_done, true) {
            act();
        }
        true
    })
}

/// A tree with files so long that the last of them is not read when the first bytes come.
fn long_place() -> Place {
    let place = Place::of(3);
    (3..9).for_each(|number| fs::write(place.file(number), vec![number as u8; 6 << 20]).unwrap());
    settle();
    place
}

#[test]
fn of_a_source_that_changes_while_a_copy_is_made_there_is_no_copy_and_the_error_names_it() {
    for how in ["rewritten", "rewritten at the same time", "truncated", "grown"] {
        let (place, path) = (long_place(), PathBuf::new());
        let path = path.join(place.file(8));
        let (cache, laid) = (place.cache(), place.tar());
        let made = while_built(&cache, &laid, || {
            let file = File::options().write(true).open(&path).unwrap();
            let before = path.metadata().unwrap().modified().unwrap();
            match how {
                "truncated" => file.set_len(5).unwrap(),
                "grown" => (&File::options().append(true).open(&path).unwrap()).write_all(b"more").unwrap(),
                _ => (&file).write_all(&vec![0xee; 6 << 20]).unwrap(),
            }
            if how == "rewritten at the same time" {
                file.set_modified(before).unwrap();
            }
        });
        let said = stook::error::chain(&made.unwrap_err());
        assert!(said.contains("/0008"), "{how}: {said}");
        assert_eq!(place.files(".record"), Vec::<PathBuf>::new(), "{how}");
        assert_eq!(place.files(".part"), Vec::<PathBuf>::new(), "{how}");
        // What it is now has a copy of its own.
        settle();
        let expected = read_through(&place.tar().file).unwrap();
        assert!(check(&place.cache(), &place.tar(), &expected), "{how}");
    }
}

#[test]
fn what_changed_a_moment_ago_has_no_copy_yet() {
    let place = Place::of(12);
    let path = place.file(3);
    // Its times are those of now for the next milliseconds, whatever is written then.
    let mut tries = 0;
    loop {
        fs::write(&path, body(3)).unwrap();
        let (cache, laid) = (place.cache(), place.tar());
        let file = merged(&cache, &laid.file);
        tries += 1;
        if !file.is_merged() {
            let notes = cache.take_notes();
            assert!(notes.len() == 1 && notes[0].contains("0003 changed a moment ago"), "{notes:?}");
            assert!(all_of(&file).unwrap() == read_through(&place.tar().file).unwrap());
            break;
        }
        assert!(tries < 100, "20 ms passed each time");
    }
}

#[test]
fn who_wants_no_more_ends_it_and_no_copy_stays() {
    let place = long_place();
    let cache = place.cache();
    let ended = cache.merged(&place.tar().file, &mut |_| false);
    assert!(matches!(ended, Err(stook::stitch::Error::Interrupted)));
    assert_eq!(place.files(".record").len() + place.files(".merged").len() + place.files(".part").len(), 0);
}

#[test]
fn a_member_that_is_gone_before_is_no_error_before_it_is_read() {
    let place = Place::of(20);
    let laid = place.tar();
    fs::remove_file(place.file(7)).unwrap();
    let cache = place.cache();
    let file = merged(&cache, &laid.file);
    assert!(!file.is_merged());
    let notes = cache.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("/0007"), "{notes:?}");
    let first = ByteRange::at(laid.starts[0], 100).unwrap();
    assert_eq!(read_range(&Backend::Auto, &file, first, Access::Cached).unwrap(), body(0)[..100]);
    assert!(all_of(&file).is_err());
}
