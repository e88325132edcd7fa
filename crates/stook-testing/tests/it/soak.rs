//! A short siege; `make soak` is a long one.

use std::path::PathBuf;
use std::time::Duration;

use stook_testing::soak::{Siege, run_soak};

#[test]
fn a_pack_under_soak_keeps_what_was_acknowledged_and_its_readers_what_they_saw() {
    let directory = tempfile::tempdir().unwrap();
    let siege = Siege {
        program: PathBuf::from(env!("CARGO_BIN_EXE_soak")),
        directory: directory.path().to_path_buf(),
        seed: 7,
        kills: 25,
        time: Duration::ZERO,
        readers: 2,
    };
    let survived = run_soak(&siege);
    assert!(survived.kills >= 25 && survived.actions > 100 && survived.states > 10, "{survived:?}");
}

#[test]
fn a_process_that_forks_goes_on_reading_on_both_sides_and_writing_on_one() {
    for engine in ["", "threads"] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forks"));
        let ended = command.arg(directory.path()).env("STOOK_ENGINE", engine).output().unwrap();
        assert!(ended.status.success(), "{engine:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}
