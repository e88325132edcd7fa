//! Layouts as files: written, opened, made of one another, hostile.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::format::layout::{Encoder, LayoutFault, LayoutPiece, PathPiece};
use stook::ops::contents;
use stook::source::{Inodes, Source as _};
use stook::stitch::{
    Error, Laid, Layout as _, Members, OpenedLayout, Outdated, Raw, VirtualFile, Zip, is_layout_file,
};
use stook::walk::DirectoryTree;

use super::{members, read_through, tar_of};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (name, len) in [("a", 3000), ("d/b", 70_000), ("d/empty", 0)] {
            fs::create_dir_all(place.at(name).parent().unwrap()).unwrap();
            fs::write(place.at(name), bytes_of(name, len)).unwrap();
        }
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Opens a layout with these files.
    fn open(&self, files: &str) -> Result<OpenedLayout, Error> {
        fs::write(self.at("x.toml"), format!("stook-layout = 1\n{files}")).unwrap();
        OpenedLayout::open(self.at("x.toml"))
    }

    /// The fault of a layout with these files.
    fn fault(&self, files: &str) -> String {
        match self.open(files).unwrap_err() {
            Error::Layout { path, fault } => {
                assert_eq!(path, self.at("x.toml"));
                fault.to_string()
            }
            error => panic!("{error}"),
        }
    }
}

fn bytes_of(name: &str, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 3 + name.len() * 5 + at / 251) as u8).collect()
}

/// The bytes of one of the files, which are the same of all that give them.
fn file(layout: &OpenedLayout, name: &str) -> Result<Vec<u8>, stook::Error> {
    let (_, range) = layout.files().iter().find(|(found, _)| found == name.as_bytes()).unwrap();
    let bytes = layout.whole().read_at(*range)?;
    let own = layout.file(Some(name.as_bytes())).unwrap();
    assert!(own.read_at(ByteRange::to(range.len())).unwrap() == bytes);
    assert!(read_through(&own).unwrap() == bytes && own.path().ends_with(name));
    assert!(own.reopened().unwrap().read_at(ByteRange::to(range.len())).unwrap() == bytes);
    Ok(bytes.to_vec())
}

/// Describes a file in a directory, and opens it there.
fn described(file: &VirtualFile, directory: &Path, name: &str) -> Result<OpenedLayout, Error> {
    let mut text = Vec::new();
    let mut last = 0;
    file.describe(directory, name.as_bytes(), &mut Encoder::new(), &mut |more, described| {
        text.extend_from_slice(more);
        last = described;
        Ok(true)
    })?;
    assert_eq!(last, file.len());
    let path = directory.join("described.toml");
    fs::write(&path, &text).unwrap();
    assert!(is_layout_file(&path).unwrap());
    OpenedLayout::open(&path)
}

#[test]
fn what_was_laid_out_is_the_same_when_it_is_opened_by_its_layout() {
    let place = Place::new();
    let zip = Zip::default().lay_out("x.zip".into(), members(&place.at("d"))).unwrap();
    let raw = Raw.lay_out("x.raw".into(), members(&place.at("d"))).unwrap();
    assert!(read_through(&raw.file).unwrap() == bytes_of("d/b", 70_000));
    for Laid { file: whole, .. } in [tar_of(&place.at("d")), zip, raw] {
        let layout = described(&whole, &place.at(""), "made.bin").unwrap();
        assert_eq!(layout.files().len(), 1);
        assert!(file(&layout, "made.bin").unwrap() == read_through(&whole).unwrap());
        // One of layouts.
        let again = described(layout.whole(), &place.at(""), "again").unwrap();
        assert!(file(&again, "again").unwrap() == read_through(&whole).unwrap());
    }
    let below = described(&tar_of(&place.at("d")).file, &place.at("d"), "x.tar");
    assert!(below.is_ok(), "beside the files themselves");
    let elsewhere = tempfile::tempdir().unwrap();
    let refused = described(&tar_of(&place.at("d")).file, elsewhere.path(), "x.tar").unwrap_err();
    assert!(refused.to_string().contains("write it into a directory above"), "{refused}");
    let name =
        tar_of(&place.at("d"))
            .file
            .describe(&place.at(""), b"\xff", &mut Encoder::new(), &mut |_, _| Ok(true));
    assert!(name.unwrap_err().to_string().contains("not UTF-8"));
    let ended =
        tar_of(&place.at("d")).file.describe(&place.at(""), b"x", &mut Encoder::new(), &mut |_, _| Ok(false));
    assert!(matches!(ended, Err(Error::Interrupted)));
}

#[test]
fn files_are_made_of_one_another_to_any_depth_and_not_of_themselves() {
    let place = Place::new();
    let layout = place
        .open(
            "[[file]]\nname = 'top'\npieces = [{ file = 'mid', offset = 2, length = 3005 }, { text = '!' }]\n\
             [[file]]\nname = 'mid'\npieces = [{ text = 'abc' }, { file = 'low' }, { fill = 9, length = 4 }]\n\
             [[file]]\nname = 'low'\npieces = [{ path = 'a' }, { path = 'd/empty' }]\n",
        )
        .unwrap();
    let mid = [b"abc", &bytes_of("a", 3000)[..], &[9; 4]].concat();
    assert!(file(&layout, "mid").unwrap() == mid);
    assert!(file(&layout, "top").unwrap() == [&mid[2..], b"!"].concat());
    let of =
        |name: &str, other: &str| format!("[[file]]\nname = '{name}'\npieces = [{{ file = '{other}' }}]\n");
    let said = place.fault(&of("x", "x"));
    assert_eq!(said, "line 4: \"x\" is made of itself");
    assert!(place.fault(&[of("x", "y"), of("y", "z"), of("z", "x")].concat()).contains("is made of itself"));
    assert!(place.fault(&of("x", "gone")).contains("no file of the layout is called \"gone\""));
    // A chain is no recursion, however long it is.
    let mut chain: String = (0..20_000).map(|at| of(&at.to_string(), &(at + 1).to_string())).collect();
    chain.push_str("[[file]]\nname = '20000'\npieces = [{ path = 'a', length = 10 }]\n");
    let layout = place.open(&chain).unwrap();
    assert!(file(&layout, "0").unwrap() == bytes_of("a", 3000)[..10]);
    // Each twice as long as the next: short to write, and refused before it fills the memory.
    let twice = |at: u32| {
        let next = at + 1;
        format!(
            "[[file]]\nname = '{at}'\npieces = [{{ file = '{next}' }}, {{ fill = 1, length = 1 }}, {{ file = '{next}' }}]\n"
        )
    };
    let mut bomb: String = (0..40).map(twice).collect();
    bomb.push_str("[[file]]\nname = '40'\npieces = [{ text = 'x' }, { fill = 0, length = 1 }]\n");
    assert!(place.fault(&bomb).contains("more than 8388608 pieces"));
}

#[test]
fn what_reaches_past_an_end_is_an_error() {
    let place = Place::new();
    let one = |piece: &str| format!("[[file]]\nname = 'x'\npieces = [{{ {piece} }}]\n");
    for (piece, why) in [
        ("path = 'a', offset = 3001", "past its 3000 bytes"),
        ("path = 'a', offset = 1, length = 3000, size = 3000", "past its 3000 bytes"),
        ("file = 'x', length = 1", "made of itself"),
        ("fill = 0, length = 9223372036854775807", ""),
    ] {
        match why {
            "" => assert_eq!(place.open(&one(piece)).unwrap().whole().len(), i64::MAX as u64),
            why => assert!(place.fault(&one(piece)).contains(why), "{piece}"),
        }
    }
    let long = "[[file]]\nname = 'x'\npieces = [{ fill = 0, length = 9223372036854775807 }, { fill = 1, length = 1 }]\n";
    assert!(place.fault(long).contains("longer than 2^63 - 1"));
    // Nobody asked how long it is.
    let layout = place.open(&one("path = 'a', offset = 2999, length = 2")).unwrap();
    assert!(matches!(file(&layout, "x"), Err(stook::Error::OutOfBounds { len: 3000, .. })));
    let gone = place.open(&one("path = 'gone', length = 2")).unwrap();
    assert!(file(&gone, "x").unwrap_err().to_string().contains("gone"));
    assert!(place.open(&one("path = 'gone'")).is_err(), "its length has to be asked for");
    let two = "[[file]]\nname = 'x'\npieces = [{ path = 'a', size = 3000 }, { path = 'a', size = 3001, length = 1 }]\n";
    assert!(place.fault(two).contains("another `size` or `mtime_ns`"));
}

#[test]
fn a_file_that_is_not_the_one_that_was_meant_is_an_error() {
    let place = Place::new();
    let layout = described(&tar_of(&place.at("d")).file, &place.at(""), "x.tar").unwrap();
    assert!(file(&layout, "x.tar").is_ok());
    let again = || OpenedLayout::open(place.at("described.toml")).unwrap();
    let whole = fs::read(place.at("d/b")).unwrap();
    let before = fs::metadata(place.at("d/b")).unwrap().modified().unwrap();
    fs::write(place.at("d/b"), &whole[1..]).unwrap();
    let said = file(&again(), "x.tar").unwrap_err();
    let stook::Error::Io { source, .. } = &said else { panic!("{said}") };
    assert!(source.get_ref().is_some_and(|cause| cause.is::<Outdated>()), "{said}");
    assert!(
        stook::error::chain(&said).contains("it has 69999 bytes, and the layout is of one that has 70000")
    );
    fs::write(place.at("d/b"), &whole).unwrap();
    let said = file(&again(), "x.tar").unwrap_err();
    assert!(stook::error::chain(&said).contains("it was modified at another time"));
    fs::File::options().write(true).open(place.at("d/b")).unwrap().set_modified(before).unwrap();
    assert!(file(&again(), "x.tar").is_ok());
    // What it read before was of another inode time: it was changed while it was open.
    assert!(file(&layout, "x.tar").is_err());
}

#[test]
fn no_link_and_no_pipe_is_followed() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc", place.at("etc")).unwrap();
    std::os::unix::fs::symlink("a", place.at("link")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(place.at("pipe")).status().unwrap();
    assert!(made.success());
    for path in ["etc/passwd", "link", "pipe", "d", "a/b"] {
        let files = format!("[[file]]\nname = 'x'\npieces = [{{ path = '{path}', length = 1 }}]\n");
        let layout = place.open(&files).unwrap();
        assert!(file(&layout, "x").is_err(), "{path}");
    }
    for path in ["link", "pipe", "d"] {
        let said = place.fault(&format!("[[file]]\nname = 'x'\npieces = [{{ path = '{path}' }}]\n"));
        assert!(said.contains("has no length"), "{said}");
    }
    assert!(!is_layout_file(&place.at("pipe")).unwrap() && !is_layout_file(&place.at("d")).unwrap());
    // A link to the layout is: its directory is that of what it leads to.
    let layout = place.open("[[file]]\nname = 'x'\npieces = [{ path = 'a' }]\n").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(place.at("x.toml"), elsewhere.path().join("l.toml")).unwrap();
    let by_link = OpenedLayout::open(elsewhere.path().join("l.toml")).unwrap();
    assert!(file(&by_link, "x").unwrap() == file(&layout, "x").unwrap());
}

#[test]
fn the_contents_of_a_layout_are_its_files() {
    let place = Place::new();
    described(&tar_of(&place.at("d")).file, &place.at(""), "x.tar").unwrap();
    let open = |path: PathBuf| contents::open(path, contents::OpenOptions::default(), &mut |_| true);
    let inner = format!("{}//x.tar", place.at("described.toml").display());
    let contents::Opened::Archive(archive) = open(inner.into()).unwrap() else { panic!("it is an archive") };
    assert_eq!(archive.find(b"b").unwrap().node.len, 70_000);
    let contents::Opened::Archive(files) = open(place.at("described.toml")).unwrap() else { panic!() };
    assert_eq!((files.len(), files.format().to_string().as_str()), (1, "layout"));
    let missing = format!("{}//y.tar", place.at("described.toml").display());
    assert!(open(missing.into()).is_err());
}

#[test]
fn members_of_a_stored_archive_are_parts_of_it() {
    let place = Place::new();
    fs::write(place.at("d.tar"), read_through(&tar_of(&place.at("d")).file).unwrap()).unwrap();
    let archive = stook::archive::Archive::open(place.at("d.tar"), Default::default()).unwrap();
    let mut members = Members::new();
    members.add_tree(std::sync::Arc::new(archive.tree()), false, b"", &mut |_| true).unwrap();
    let raw = Raw.lay_out("x.raw".into(), members).unwrap();
    let layout = described(&raw.file, &place.at(""), "x").unwrap();
    let text = fs::read_to_string(place.at("described.toml")).unwrap();
    assert!(text.contains("path = \"d.tar\", offset = "), "{text}");
    assert!(file(&layout, "x").unwrap() == bytes_of("d/b", 70_000));
    // What is verified while it is read is no part of a file.
    let zip = Zip::default().lay_out("x.zip".into(), self::members(&place.at("d"))).unwrap();
    fs::write(place.at("d.zip"), read_through(&zip.file).unwrap()).unwrap();
    let archive = stook::archive::Archive::open(place.at("d.zip"), Default::default()).unwrap();
    let mut members = Members::new();
    members.add_tree(std::sync::Arc::new(archive.tree()), false, b"", &mut |_| true).unwrap();
    let raw = Raw.lay_out("x.raw".into(), members).unwrap();
    assert!(described(&raw.file, &place.at(""), "x").unwrap_err().to_string().contains("unpack it first"));
}

/// A piece of a random layout, and its bytes.
fn a_piece() -> impl Strategy<Value = (LayoutPiece, Vec<u8>)> {
    let path =
        (prop_oneof![Just(("a", 3000)), Just(("d/b", 70_000))], any::<u32>(), any::<u32>(), any::<bool>());
    prop_oneof![
        path.prop_map(|((path, len), one, other, is_open)| {
            let (one, other) = (one as usize % (len + 1), other as usize % (len + 1));
            let (start, end) = (one.min(other), if is_open { len } else { one.max(other) });
            let (offset, length) = (start as u64, (!is_open).then_some((end - start) as u64));
            let (path, size, mtime_ns) = (path.to_owned(), Some(len as u64), None);
            let bytes = bytes_of(&path, len)[start..end].to_vec();
            (LayoutPiece::Path(PathPiece { path, offset, length, size, mtime_ns }), bytes)
        }),
        proptest::collection::vec(any::<u8>(), 0..300)
            .prop_map(|bytes| (LayoutPiece::Bytes(bytes.clone().into()), bytes)),
        (any::<u8>(), 0..400_usize)
            .prop_map(|(byte, len)| (LayoutPiece::Fill { byte, length: len as u64 }, vec![byte; len])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_layout_has_the_bytes_of_the_flat_files(
        first in proptest::collection::vec(a_piece(), 0..12),
        second in proptest::collection::vec((a_piece(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        reads in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let place = Place::new();
        let flat: Vec<u8> = first.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let mut encoder = Encoder::new();
        encoder.file(b"f/second").unwrap();
        let mut other = Vec::new();
        for ((piece, bytes), one, to) in &second {
            encoder.piece(piece);
            other.extend_from_slice(bytes);
            // A part of the first file, which comes later.
            let (one, to) = (one.index(flat.len() + 1), to.index(flat.len() + 1));
            let (start, end) = (one.min(to), one.max(to));
            let (name, length) = ("f/first".to_owned(), Some((end - start) as u64));
            encoder.piece(&LayoutPiece::File { name, offset: start as u64, length });
            other.extend_from_slice(&flat[start..end]);
        }
        encoder.end_file();
        encoder.file(b"f/first").unwrap();
        first.iter().for_each(|(piece, _)| encoder.piece(piece));
        encoder.end_file();
        fs::write(place.at("x.toml"), encoder.take()).unwrap();
        let layout = OpenedLayout::open(place.at("x.toml")).unwrap();
        prop_assert!(file(&layout, "f/first").unwrap() == flat);
        prop_assert!(file(&layout, "f/second").unwrap() == other);
        let all = [other, flat].concat();
        prop_assert!(read_through(layout.whole()).unwrap() == all);
        for (one, to) in reads {
            let (one, to) = (one.index(all.len() + 1), to.index(all.len() + 1));
            let (start, end) = (one.min(to), one.max(to));
            let read = layout.whole().read_at(ByteRange::new(start as u64, end as u64).unwrap()).unwrap();
            prop_assert!(read == all[start..end]);
        }
    }
}

#[test]
fn a_file_is_known_by_its_name_or_is_the_only_one() {
    let place = Place::new();
    let one = place.open("[[file]]\nname = 'p/one'\npieces = [{ path = 'a' }]\n").unwrap();
    assert_eq!(one.file(None).unwrap().len(), 3000);
    let no = one.file(Some(b"two")).unwrap_err().to_string();
    assert!(no.ends_with("x.toml has no file two, but p/one"), "{no}");
    let names = ["p/0", "p/1", "p/2", "p/3", "p/4", "p/5"];
    let pieces = "pieces = [{ fill = 1, length = 5 }]";
    let files = names.map(|name| format!("[[file]]\nname = '{name}'\n{pieces}\n")).concat();
    let several = place.open(&files).unwrap();
    let no = several.file(None).unwrap_err().to_string();
    assert!(no.ends_with("x.toml has 6 files, and one has to be named: p/0, p/1, p/2, p/3, p/4, …"), "{no}");
    let has = |layout: &OpenedLayout, name: &str| {
        let (mut files, found) = (Inodes::new(), place.at(name).metadata());
        layout.whole().note_files(&mut files);
        found.is_ok_and(|found| files.contains(&(found.dev(), found.ino())))
    };
    assert!(has(&one, "a") && !has(&one, "d/b"));
    assert!(!has(&several, "a") && !has(&one, "gone"));
}

#[test]
fn a_file_that_was_cut_or_computed_is_opened_again_as_it_is() {
    let place = Place::new();
    let tar = tar_of(&place.at("d")).file;
    let whole = read_through(&tar).unwrap();
    let again = tar.reopened().unwrap();
    assert!(read_through(&again).unwrap() == whole && again.path() == tar.path());
}

#[test]
fn a_layout_of_another_kind_is_said_to_be_so() {
    let place = Place::new();
    fs::write(place.at("x.toml"), "stook-layout = 7\n").unwrap();
    let refused = OpenedLayout::open(place.at("x.toml")).unwrap_err();
    assert!(matches!(refused, Error::Layout { fault: LayoutFault::Version(7), .. }));
    assert!(is_layout_file(&place.at("x.toml")).unwrap());
    let tree = DirectoryTree::open(place.at("d")).unwrap();
    let mut members = Members::new();
    members.add_tree(std::sync::Arc::new(tree), true, b"", &mut |_| true).unwrap();
    assert_eq!(Raw.ending(), "raw");
}

#[test]
fn a_layout_of_a_tar_takes_less_than_a_kilobyte_for_each_file() {
    let place = Place::new();
    for at in 0..500 {
        fs::write(place.at(&format!("d/{at:08}.jpg")), "x").unwrap();
    }
    let tar = tar_of(&place.at("d"));
    let layout = described(&tar.file, &place.at(""), "x.tar").unwrap();
    assert!(file(&layout, "x.tar").unwrap() == read_through(&tar.file).unwrap());
    let len = fs::metadata(place.at("described.toml")).unwrap().len();
    assert!(len / 500 < 1000, "{} bytes", len / 500);
    // Three blocks and one of padding are in the tar.
    assert!(tar.file.len() / 500 > 2000);
}
