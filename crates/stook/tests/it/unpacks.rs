//! The one unpacker: packs and archives come out alike, whichever thread writes the files.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use stook::archive::{self, Archive};
use stook::engine::Backend;
use stook::ops::export::Export;
use stook::ops::pack::PackSources;
use stook::ops::unpack::{Packed, PathFilter, Unpack, Unpacked};
use stook::pack::{self, Pack};
use stook::tree::outbox::{Calls, System};
use stook::tree::{Overwrite, WhyKept};
use stook::walk::DirectoryTree;
use stook_testing::conformance::tree_matches_model;
use stook_testing::model::tree::{TreeModel, tree_models, with_random_xattrs};
use stook_testing::trees::make_files;

/// A directory as a pack and as a tar.
struct Both {
    directory: tempfile::TempDir,
    pack: Pack,
    archive: Archive,
}

impl Both {
    fn of(make: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("tree")).unwrap();
        make(&path("tree"));
        PackSources::new(vec![path("tree")], path("p.stook")).run(&mut ()).unwrap();
        let pack = Pack::open_path(path("p.stook"), pack::OpenOptions::default()).unwrap();
        Export::default().run_to_file(&pack, &path("x.tar"), &mut |_, _| true).unwrap();
        let archive = Archive::open(path("x.tar"), archive::OpenOptions::default()).unwrap();
        Self { directory, pack, archive }
    }

    fn each(&self) -> [(&'static str, Packed<'_>); 2] {
        [("pack", Packed::Pack(&self.pack)), ("tar", Packed::Archive(&self.archive))]
    }

    fn tree(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    /// An empty place for what comes out.
    fn target(&self) -> PathBuf {
        let target = self.directory.path().join("out");
        let _ = fs::remove_dir_all(&target);
        target
    }

    fn unpack(&self, packed: Packed<'_>, threads: usize, calls: Arc<dyn Calls>) -> Unpacked {
        let unpack = Unpack {
            target: self.directory.path().join("out"),
            filter: PathFilter::default(),
            overwrite: Overwrite::Never,
            with_owner: true,
            xattrs: true,
            threads,
            durability: Default::default(),
            force: true,
        };
        unpack.run_through(packed, calls, &mut |_| true).unwrap()
    }
}

/// Pseudo-random bytes.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = len as u64 + 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_number_of_threads_gives_the_tree_back(
        model in with_random_xattrs(tree_models(true)),
        threads in 1_usize..9,
    ) {
        let both = Both::of(|tree| make_files(&model, tree));
        for (name, packed) in both.each() {
            let target = both.target();
            let first = both.unpack(packed, threads, Arc::new(System));
            prop_assert_eq!(first.undone, 0, "{}: {:?}", name, first.summary);
            tree_matches_model(&DirectoryTree::open(&target).unwrap(), &model, &Backend::Threads);
            let again = both.unpack(packed, threads, Arc::new(System));
            prop_assert_eq!(again.undone, 0, "{}: {:?}", name, again.summary);
            prop_assert_eq!((again.summary.files, again.summary.hard_links), (0, 0), "{}", name);
        }
    }
}

#[test]
fn lengths_around_those_that_change_the_way_come_out_whole() {
    const MIB: usize = 1 << 20;
    let lengths =
        [0, 1, 4096, MIB - 1, MIB, MIB + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 11 * MIB, 9 * MIB + 7];
    let model =
        lengths.iter().fold(TreeModel::new(), |model, len| model.file(format!("d/{len}"), bytes(*len)));
    let both = Both::of(|tree| make_files(&model, tree));
    for (name, packed) in both.each() {
        let target = both.target();
        let done = both.unpack(packed, 3, Arc::new(System));
        assert_eq!((done.undone, done.summary.files), (0, lengths.len() as u64), "{name}");
        for len in lengths {
            let path = target.join(format!("d/{len}"));
            assert!(fs::read(&path).unwrap() == bytes(len), "{name}: {len}");
            let (there, before) = (path.metadata().unwrap(), both.tree().join(format!("d/{len}")));
            let before = before.metadata().unwrap();
            assert_eq!((there.mode(), there.mtime()), (before.mode(), before.mtime()), "{name}: {len}");
        }
    }
}

/// Calls of a system on which another program takes one of two names, the first that is given.
#[derive(Debug, Default)]
struct Intruded(OnceLock<OsString>);

impl Calls for Intruded {
    fn link_unnamed(&self, file: &fs::File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        if ["a", "z"].iter().any(|taken| name == *taken) && self.0.set(name.to_os_string()).is_ok() {
            drop(System.create(parent, name, 0o644)?);
        }
        System.link_unnamed(file, parent, name)
    }
}

#[test]
fn what_comes_in_between_stays_and_no_name_is_linked_to_it() {
    let both = Both::of(|tree| {
        fs::write(tree.join("a"), b"a").unwrap();
        fs::write(tree.join("b"), b"b").unwrap();
        fs::hard_link(tree.join("a"), tree.join("z")).unwrap();
    });
    for (name, packed) in both.each() {
        let (target, calls) = (both.target(), Arc::new(Intruded::default()));
        let done = both.unpack(packed, 2, calls.clone());
        let taken = calls.0.get().unwrap().to_str().unwrap();
        let kept: Vec<_> = done.summary.kept_for(WhyKept::OtherContent).collect();
        assert_eq!(kept, [taken.as_bytes()], "{name}: {:?}", done.summary);
        assert_eq!((done.undone, done.summary.files, done.summary.hard_links), (1, 2, 0), "{name}");
        let other = if taken == "a" { "z" } else { "a" };
        for (path, bytes) in [(taken, ""), (other, "a"), ("b", "b")] {
            assert_eq!(fs::read_to_string(target.join(path)).unwrap(), bytes, "{name} {path}");
        }
    }
}

#[test]
fn stopping_leaves_each_file_whole_or_absent() {
    const LEN: usize = 6 << 20;
    let model = (0..40).fold(TreeModel::new(), |model, at| model.file(format!("{at:02}"), bytes(3000 + at)));
    let model = model.file("50", bytes(LEN)).file("51", bytes(2 << 20));
    let both = Both::of(|tree| make_files(&model, tree));
    for (name, packed) in both.each() {
        for left in [0, 1, 7, 41, 42, 43, 45] {
            let target = both.target();
            let unpack = Unpack {
                target: target.clone(),
                filter: PathFilter::default(),
                overwrite: Overwrite::Never,
                with_owner: true,
                xattrs: true,
                threads: 4,
                durability: Default::default(),
                force: true,
            };
            let mut asked = 0;
            let done = unpack.run(packed, &mut |_| {
                asked += 1;
                asked <= left
            });
            if let Ok(done) = done {
                assert!(done.summary.interrupted, "{name} {left}");
            }
            for entry in target.read_dir().into_iter().flatten() {
                let path = entry.unwrap().path();
                let whole = model.bytes(path.file_name().unwrap().as_encoded_bytes());
                assert_eq!(Some(fs::read(&path).unwrap().as_slice()), whole, "{name} {left} {path:?}");
            }
        }
    }
}
