//! What a copy is found by: whatever else changes, it is another one.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};
use stook::error;
use stook::source::{Identity, Leaf, MemorySource, Origin};
use stook::stitch::{Bodies, MadeBy, Parts};

use super::*;

/// Bytes in memory of which everything can be said.
#[derive(Debug, Clone)]
struct Said {
    bytes: MemorySource,
    identity: Identity,
    origin: &'static str,
}

impl Source for Said {
    stook_testing::forward_source!(bytes: path len);

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        self.bytes.resolve(range, leaves)
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn current_identity(&self) -> stook::Result<Identity> {
        Ok(self.identity())
    }

    fn origin(&self) -> Origin {
        Origin::new("said", self.origin).with("which", self.origin)
    }
}

/// Sources, and what is made of them.
#[derive(Debug, Clone)]
struct Made {
    sources: Vec<Said>,
    made_by: Option<MadeBy>,
    path: PathBuf,
    offset: u64,
    fill: u8,
}

impl Parts for Made {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        Ok(Arc::new(self.sources[number as usize].clone()))
    }

    fn make(&self, _: u32, _: &Bodies) -> error::Result<Bytes> {
        Ok(Bytes::from_static(b"made"))
    }

    fn made_by(&self) -> Option<MadeBy> {
        self.made_by.clone()
    }
}

impl Made {
    fn new() -> Self {
        let source = |origin| {
            let identity = Identity {
                len: 100,
                device: 1,
                inode: 2,
                mtime_ns: 3_000_000_001,
                ctime_ns: 4_000_000_001,
                ..Identity::default()
            };
            Said { bytes: MemorySource::new(origin, vec![7; 100]), identity, origin }
        };
        let made_by = Some(MadeBy::new("test", 1).with("option", "a"));
        Self { sources: vec![source("one"), source("two")], made_by, path: "made".into(), offset: 0, fill: 0 }
    }

    fn file(&self) -> VirtualFile {
        let mut pieces = Pieces::new();
        pieces.made(0, 4);
        pieces.body(0, self.offset, 50);
        pieces.fill(self.fill, 10);
        pieces.body(1, 0, 50);
        VirtualFile::new(&self.path, pieces, Arc::new(self.clone())).unwrap()
    }
}

/// A change, and what it is called.
type Change = (&'static str, fn(&mut Made));

const CHANGES: [Change; 16] = [
    ("the length of a source", |made| made.sources[1].identity.len = 101),
    ("the device", |made| made.sources[1].identity.device = 9),
    ("the inode", |made| made.sources[1].identity.inode = 9),
    ("the modification time", |made| made.sources[1].identity.mtime_ns += 1),
    ("the change time", |made| made.sources[1].identity.ctime_ns += 1),
    ("an ETag", |made| made.sources[1].identity.etag = Some("\"e\"".into())),
    ("a version", |made| made.sources[1].identity.version = Some("".into())),
    ("the origin", |made| made.sources[1].origin = "three"),
    ("the order of sources", |made| made.sources.reverse()),
    ("the path", |made| made.path = "made2".into()),
    ("an offset", |made| made.offset = 1),
    ("a fill", |made| made.fill = 1),
    ("the layout", |made| made.made_by = Some(MadeBy::new("tests", 1).with("option", "a"))),
    ("its version", |made| made.made_by = Some(MadeBy::new("test", 2).with("option", "a"))),
    ("an option", |made| made.made_by = Some(MadeBy::new("test", 1).with("option", "b"))),
    ("the name of one", |made| made.made_by = Some(MadeBy::new("test", 1).with("optiona", ""))),
];

#[test]
fn each_part_of_the_key_makes_another_copy() {
    let place = Place::of(0);
    let cache = place.cache();
    let count = |expected: u64, what: &str| {
        assert_eq!(cache.statistics().built, expected, "{what}: {:?}", cache.take_notes());
    };
    assert!(merged(&cache, &Made::new().file()).is_merged());
    for (number, (what, change)) in (2..).zip(CHANGES) {
        let mut made = Made::new();
        change(&mut made);
        assert!(merged(&cache, &made.file()).is_merged(), "{what}");
        count(number, what);
        // And the same again is found.
        assert!(merged(&cache, &made.file()).is_merged(), "{what}");
        count(number, what);
    }
    assert!(merged(&cache, &Made::new().file()).is_merged());
    count(1 + CHANGES.len() as u64, "nothing");
}

#[test]
fn without_a_proof_there_is_no_copy() {
    let place = Place::of(0);
    let cases: [Change; 4] = [
        ("nothing would show that two changes", |made| {
            made.sources[1].identity = Identity { len: 100, ..Identity::default() };
        }),
        ("nothing would show that two changes", |made| {
            made.sources[1].identity.etag = Some("W/\"weak\"".into());
        }),
        ("two changed a moment ago", |made| made.sources[1].identity.ctime_ns = i64::MAX),
        ("its layout does not say", |made| made.made_by = None),
    ];
    for (why, change) in cases {
        let (cache, mut made) = (place.cache(), Made::new());
        change(&mut made);
        let file = merged(&cache, &made.file());
        assert!(!file.is_merged(), "{why}");
        assert_eq!(all_of(&file).unwrap()[..4], *b"made");
        let notes = cache.take_notes();
        assert!(notes.len() == 1 && notes[0].contains(why), "{why}: {notes:?}");
    }
    assert_eq!(place.files(".record"), Vec::<PathBuf>::new());
}

#[test]
fn what_has_been_open_for_long_is_looked_at_again() {
    let place = Place::of(9);
    let cache = place.cache();
    let sources = (0..9).map(|number| -> Arc<dyn Source> {
        Arc::new(stook::source::FileSource::open(place.file(number)).unwrap())
    });
    let mut pieces = Pieces::new();
    (0..9).for_each(|number| pieces.body(number, 0, 1000));
    let file = VirtualFile::new("kept", pieces, Arc::new(sources.collect::<Vec<_>>())).unwrap();
    let before = read_through(&file).unwrap();
    assert!(merged(&cache, &file).is_merged());
    // All of it stays open, and is another file by now.
    fs::write(place.tree().join("new"), vec![9; body(4).len()]).unwrap();
    fs::rename(place.tree().join("new"), place.file(4)).unwrap();
    settle();
    let now = merged(&cache, &file);
    assert!(!now.is_merged() && all_of(&now).map_or(true, |bytes| bytes == before));
    let notes = cache.take_notes();
    assert!(notes[0].contains("changed"), "{notes:?}");
}

#[test]
fn what_a_layout_makes_of_listings_counts() {
    let place = Place::of(9);
    fs::create_dir(place.tree().join("folder")).unwrap();
    std::os::unix::fs::symlink("0001", place.tree().join("link")).unwrap();
    let cache = place.cache();
    let changes: [(&str, &dyn Fn()); 5] = [
        ("nothing", &|| {}),
        ("the mode of a directory", &|| {
            fs::set_permissions(place.tree().join("folder"), fs::Permissions::from_mode(0o711)).unwrap();
        }),
        ("where a link leads", &|| {
            fs::remove_file(place.tree().join("link")).unwrap();
            std::os::unix::fs::symlink("0002", place.tree().join("link")).unwrap();
        }),
        ("a name", &|| fs::rename(place.file(5), place.tree().join("other")).unwrap()),
        ("the mode of a file", &|| {
            fs::set_permissions(place.file(3), fs::Permissions::from_mode(0o600)).unwrap();
        }),
    ];
    for (number, (what, change)) in (1..).zip(changes) {
        change();
        settle();
        let expected = read_through(&place.tar().file).unwrap();
        assert!(check(&cache, &place.tar(), &expected), "{what}");
        assert!(check(&cache, &place.tar(), &expected), "{what}");
        assert_eq!(cache.statistics().built, number, "{what}");
    }
    // Options of a layout.
    let same = super::super::members(&place.tree());
    let laid =
        stook::stitch::Layout::lay_out(&stook::stitch::Tar { deterministic: true }, "x.tar".into(), same);
    let laid = laid.unwrap();
    assert!(check(&cache, &laid, &read_through(&laid.file).unwrap()));
}

#[test]
fn names_of_entries_say_nothing_to_those_without_the_salt() {
    let (one, other) = (Place::of(0), Place::of(0));
    for place in [&one, &other] {
        assert!(merged(&place.cache(), &Made::new().file()).is_merged());
    }
    assert_ne!(one.files(".record")[0].file_name(), other.files(".record")[0].file_name());
}

/// The key of `Made::new()`, by `docs/formats/merged-cache-v1.md`.
fn key_by_the_format(salt: &[u8; 32]) -> String {
    let number = |number: u64| number.to_le_bytes().to_vec();
    let text = |text: &str| [number(text.len() as u64), text.as_bytes().to_vec()].concat();
    let origin = |which: &str| -> Vec<u8> {
        let mut digest = [0_u8; 32];
        for (field, value) in [("kind", "said"), ("which", which)] {
            digest = Sha256::digest([digest.to_vec(), text(field), text(value)].concat()).into();
        }
        Sha256::digest([*salt, digest].concat()).to_vec()
    };
    let rest = blake3::hash(&[text("option"), text("a")].concat());
    let mut bytes =
        [text("merged 1"), text("made"), text("test"), number(1), rest.as_bytes().to_vec()].concat();
    let pieces = [[3, 4, 0, 0], [0, 50, 0, 0], [2, 10, 0, 0], [0, 50, 1, 0]];
    bytes.extend(number(4));
    pieces.iter().flatten().for_each(|value| bytes.extend(number(*value)));
    bytes.extend(number(2));
    for (at, which) in [(0, "one"), (1, "two")] {
        bytes.extend(number(at));
        bytes.extend(origin(which));
        [100, 1, 2, 3_000_000_001, 4_000_000_001].iter().for_each(|value| bytes.extend(number(*value)));
        [0, 0, 0, 0].iter().for_each(|value| bytes.extend(number(*value)));
    }
    blake3::keyed_hash(salt, &bytes).to_hex().to_string()
}

#[test]
fn the_key_and_the_record_are_those_of_the_format() {
    let place = Place::of(0);
    let file = merged(&place.cache(), &Made::new().file());
    let copy = all_of(&file).unwrap();
    let salt: [u8; 32] = fs::read(place.cache_path().join("salt")).unwrap().try_into().unwrap();
    let key = key_by_the_format(&salt);
    let record = place.cache_path().join(format!("{key}.record"));
    let bytes = fs::read(&record).unwrap();
    assert_eq!(bytes[..16], *b"\x89STKMRG\n\x01\0\0\0\x70\0\0\0");
    let nonce = u64::from_le_bytes(bytes[16..24].try_into().unwrap());
    assert_eq!(bytes[24..32], 114_u64.to_le_bytes());
    assert_eq!(blake3::Hash::from_bytes(bytes[32..64].try_into().unwrap()).to_hex().as_str(), key);
    assert_eq!(bytes[64..96], *blake3::hash(&copy).as_bytes());
    assert_eq!(bytes[96..108], *b"\x04\0\0\0\0\0\0\0made");
    assert_eq!(bytes[108..], crc32c::crc32c(&bytes[..108]).to_le_bytes());
    assert!(fs::read(place.cache_path().join(format!("{key}.{nonce:016x}.merged"))).unwrap() == copy);
}
