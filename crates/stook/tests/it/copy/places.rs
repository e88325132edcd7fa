//! What goes where, and what is refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use stook::copy::{Copy, CopyOptions, CopySource, Destination, Error};
use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, MemorySource, Source};
use stook::tree::Overwrite;

use super::{assert_same, copy};

fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("card/inner")).unwrap();
    fs::write(directory.path().join("card/inner/a"), "a").unwrap();
    fs::write(directory.path().join("notes"), "n").unwrap();
    directory
}

fn run(sources: Vec<CopySource>, to: &[&Path]) -> Result<(), Error> {
    let destinations = to.iter().map(Destination::new).collect();
    let report = Copy::new(sources, destinations).run(&mut ())?;
    assert_eq!(report.undone(), 0, "{report:?}");
    Ok(())
}

#[test]
fn one_directory_gives_its_contents_and_all_else_goes_by_its_name() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let card = || CopySource::directory(at("card/")).unwrap();
    let notes = || CopySource::file(at("notes")).unwrap();
    run(vec![card()], &[&at("contents")]).unwrap();
    assert_same(&at("card"), &at("contents"));
    run(vec![card(), notes()], &[&at("both/new")]).unwrap();
    assert_same(&at("card"), &at("both/new/card"));
    assert_eq!(fs::read(at("both/new/notes")).unwrap(), b"n");
    run(vec![notes()], &[&at("file")]).unwrap();
    assert_eq!(fs::read(at("file/notes")).unwrap(), b"n");
    let object = Arc::new(MemorySource::new("s3://bucket/x", vec![7; 3 << 20]));
    run(vec![CopySource::object(object, "x").unwrap()], &[&at("object")]).unwrap();
    assert_eq!(fs::metadata(at("object/x")).unwrap().len(), 3 << 20);
}

#[test]
fn what_would_never_end_or_eat_itself_is_refused_and_nothing_is_made() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let card = || CopySource::directory(at("card")).unwrap();
    std::os::unix::fs::symlink(at("card/inner"), at("way")).unwrap();
    for inside in ["card", "card/new", "card/inner/deep/er", "way/new", "card/inner/.."] {
        let error = run(vec![card()], &[&at(inside)]).unwrap_err();
        assert!(matches!(error, Error::Inside { .. }), "{inside}: {error}");
    }
    assert!(!at("card/new").exists());
    let error = run(vec![CopySource::file(at("notes")).unwrap()], &[place.path()]).unwrap_err();
    assert!(matches!(error, Error::SameFile { .. }), "{error}");
    let error = run(vec![card()], &[&at("notes")]).unwrap_err();
    assert!(matches!(error, Error::NotADirectory { .. }), "{error}");
    fs::create_dir_all(at("out/below")).unwrap();
    for (one, other) in [("out", "out/below"), ("out/below", "out"), ("out", "./out"), ("new", "new")] {
        let error = run(vec![card()], &[&at(one), &at(other)]).unwrap_err();
        assert!(matches!(error, Error::SameDestination { .. }), "{one} {other}: {error}");
    }
    let error = run(vec![card(), card()], &[&at("out")]).unwrap_err();
    assert!(matches!(error, Error::SameName { .. }), "{error}");
    assert_eq!(fs::read(at("notes")).unwrap(), b"n");
}

/// More bytes than any disk has room for, which can all be read.
#[derive(Debug)]
struct Endless;

impl Source for Endless {
    fn path(&self) -> &Path {
        Path::new("endless")
    }

    fn len(&self) -> u64 {
        1 << 50
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> stook::Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        leaves.push(Leaf::Fill { byte: 7, len: range.len() });
        Ok(())
    }
}

#[test]
fn what_has_no_room_is_refused_before_anything_is_written_and_holes_need_none() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let sources = vec![CopySource::object(Arc::new(Endless), "endless").unwrap()];
    let error = Copy::new(sources, vec![Destination::new(at("out"))]).run(&mut ()).unwrap_err();
    assert!(matches!(error, Error::Room(_)), "{error}");
    assert!(!at("out").exists());
    // A hundred times what is free, and all of it a hole.
    fs::File::create(at("card/huge")).unwrap().set_len(1 << 43).unwrap();
    let copy = Copy::new(vec![CopySource::directory(at("card")).unwrap()], vec![Destination::new(at("out"))]);
    let report = copy.run(&mut ()).unwrap();
    assert_eq!((report.undone(), report.read_bytes), (0, 1), "{report:?}");
    assert_eq!(fs::metadata(at("out/huge")).unwrap().len(), 1 << 43);
}

#[test]
fn what_replaces_a_file_needs_room_and_a_dry_run_is_refused_as_the_copy_would_be() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("out")).unwrap();
    fs::write(at("out/endless"), "short").unwrap();
    let run = |options: CopyOptions| {
        let sources = vec![CopySource::object(Arc::new(Endless), "endless").unwrap()];
        Copy::new(sources, vec![Destination::new(at("out"))]).with_options(options).run(&mut ())
    };
    for (overwrite, mirror, backup) in [
        (Overwrite::Always, false, None),
        (Overwrite::Different, true, None),
        (Overwrite::Different, false, Some("~".into())),
    ] {
        for dry_run in [true, false] {
            let backup = backup.clone();
            let error = run(CopyOptions { overwrite, mirror, backup, dry_run, ..CopyOptions::default() });
            let Err(Error::Room(why)) = error else { panic!("{error:?}") };
            assert_eq!(why.contains("a mirror deletes what is extra only afterwards"), mirror, "{why}");
        }
    }
    // What stays needs none.
    let report = run(CopyOptions::default()).unwrap();
    assert_eq!((report.undone(), report.destinations[0].kept.len()), (1, 1), "{report:?}");
    assert_eq!(fs::read(at("out/endless")).unwrap(), b"short");
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let plain = CopyOptions::default;
    for options in [
        CopyOptions { block_bytes: Some(0), ..plain() },
        CopyOptions { block_bytes: Some(5000), ..plain() },
        CopyOptions { block_bytes: Some(1 << 40), ..plain() },
        CopyOptions { depth: Some(0), ..plain() },
        CopyOptions { jobs: Some(0), ..plain() },
        CopyOptions { bytes_per_s: Some(0), ..plain() },
        CopyOptions { bytes_per_s: Some(4095), ..plain() },
        CopyOptions { backup: Some("".into()), ..plain() },
        CopyOptions { backup: Some("/x".into()), ..plain() },
    ] {
        let sources = vec![CopySource::directory(at("card")).unwrap()];
        let copy = Copy::new(sources, vec![Destination::new(at("out"))]).with_options(options.clone());
        assert!(matches!(copy.run(&mut ()), Err(Error::Invalid(_))), "{options:?}");
    }
    assert!(!at("out").exists());
}

/// Two thousand levels, and names that together are far longer than a path may be.
#[test]
fn paths_longer_than_the_system_takes_are_copied() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let name = "d".repeat(200);
    let levels = 300;
    let mut here = rustix::fs::open(place.path(), rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    rustix::fs::mkdirat(&here, "deep", 0o755.into()).unwrap();
    here = rustix::fs::openat(&here, "deep", rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&here, &name, 0o755.into()).unwrap();
        here = rustix::fs::openat(&here, &name, rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    }
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let file = rustix::fs::openat(&here, "end", flags, 0o644.into()).unwrap();
    rustix::io::write(&file, b"deep down").unwrap();
    let report = copy(&at("deep"), &at("out"));
    assert_eq!((report.undone(), report.destinations[0].files), (0, 1), "{report:?}");
    let mut there = rustix::fs::open(at("out"), rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    for _ in 0..levels {
        there = rustix::fs::openat(&there, &name, rustix::fs::OFlags::DIRECTORY, 0.into()).unwrap();
    }
    let file = rustix::fs::openat(&there, "end", rustix::fs::OFlags::RDONLY, 0.into()).unwrap();
    let mut bytes = [0; 20];
    assert_eq!(rustix::io::read(&file, &mut bytes).unwrap(), 9);
    assert_eq!(&bytes[..9], b"deep down");
}

/// Before: one copy, and two successes.
#[test]
fn two_destinations_that_turn_out_to_be_one_are_refused() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let card = || CopySource::directory(at("card")).unwrap();
    std::os::unix::fs::symlink("not yet", at("dangling")).unwrap();
    let others = [at("dangling"), at("new/../not yet")];
    for other in &others {
        let error = run(vec![card()], &[&at("not yet"), other]).unwrap_err();
        assert!(matches!(error, Error::SameDestination { .. }), "{error}");
        assert!(!at("not yet").exists(), "what was made for it is gone");
        let _ = fs::remove_dir(at("new"));
    }
    // So is one that turns out to lie in what is copied.
    let error = run(vec![card()], &[&at("new/../card/inner/deeper")]).unwrap_err();
    assert!(matches!(error, Error::Inside { .. }), "{error}");
    assert!(!at("card/inner/deeper").exists());
}

/// Before: the copy was nothing but more names of the source.
#[test]
fn a_copy_is_never_a_hard_link_of_its_source() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let options = CopyOptions { link_dest: Some(at("card")), ..CopyOptions::default() };
    let sources = vec![CopySource::directory(at("card")).unwrap()];
    let report = Copy::new(sources, vec![Destination::new(at("to"))]).with_options(options).run(&mut ());
    let report = report.unwrap();
    assert_eq!((report.undone(), report.destinations[0].linked), (0, 0), "{report:?}");
    fs::write(at("to/inner/a"), "changed").unwrap();
    assert_eq!(fs::read(at("card/inner/a")).unwrap(), b"a");
}
