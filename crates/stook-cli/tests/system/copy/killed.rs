//! Copies that are killed: see `stook_testing::soak`. `make soak` kills two hundred.

use std::path::PathBuf;

use stook_testing::privileged::{EXT4, LoopDevice};
use stook_testing::soak::{Copies, run_copies};

#[test]
fn a_copy_killed_ten_times_in_a_row_ends_identical() {
    let device = LoopDevice::mount_as(EXT4, 256 << 20, 512).unwrap();
    let copies = Copies {
        program: PathBuf::from(env!("CARGO_BIN_EXE_stook")),
        directory: device.path().to_path_buf(),
        seed: 7,
        kills: 20,
        files: 1_000,
    };
    let completed = run_copies(&copies);
    println!("{completed:?}");
    assert!(completed.kills >= 20 && completed.row_max == 10 && completed.named > 0, "{completed:?}");
}
