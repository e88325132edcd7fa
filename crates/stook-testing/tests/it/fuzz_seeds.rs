//! Every seed of every fuzz target is run by a plain test, and the three places that name the
//! targets agree.
#![expect(clippy::unwrap_used, reason = "a helper that cannot read the repository should fail on the spot")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stook_testing::fuzz::{TARGETS, pack, replay};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The names in a folder of `fuzz/`, without the extension.
fn names_in(folder: &str) -> BTreeSet<String> {
    fs::read_dir(fuzz_folder().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_seed_holds_its_property() {
    for (name, target) in TARGETS {
        let seeds = replay(&fuzz_folder().join("seeds").join(name), *target).unwrap();
        assert!(seeds > 0, "fuzz/seeds/{name} has no seed");
    }
}

#[test]
fn targets_binaries_and_seed_folders_have_the_same_names() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names_in("fuzz_targets"), targets, "files in fuzz/fuzz_targets");
    assert_eq!(names_in("seeds"), targets, "folders in fuzz/seeds");
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    for name in &targets {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no binary {name}");
    }
}

/// With `STOOK_WRITE_SEEDS` set they are written instead: after a change of the format.
#[test]
fn seeds_made_from_real_packs_are_what_the_code_writes_today() {
    let write = std::env::var_os("STOOK_WRITE_SEEDS").is_some();
    for (target, name, bytes) in pack::seeds() {
        let path = fuzz_folder().join("seeds").join(target).join(format!("real-{name}"));
        if write {
            fs::write(&path, &bytes).unwrap();
        }
        let kept = fs::read(&path).unwrap_or_default();
        assert!(kept == bytes, "{} is stale: set STOOK_WRITE_SEEDS and run this test", path.display());
    }
}
