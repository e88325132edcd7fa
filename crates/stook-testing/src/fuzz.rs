//! What each fuzz target does with its input, as plain functions.
//!
//! A target in `fuzz/fuzz_targets/NAME.rs` only calls the function of its name, and [`replay`]
//! passes the seeds in `fuzz/seeds/NAME/` to the same function, so that every kept input is run by
//! `cargo test`, too. A function here returns for any input, or panics because a property is
//! broken; it never touches the file system outside a temporary directory and never prints.

pub mod archive;
pub mod copy;
pub mod format;
pub mod lists;
pub mod pack;
pub mod proof;
pub mod sparse;

use std::fs;
use std::io;
use std::path::Path;

use stook::report::units;

/// A function that is fuzzed: any bytes in, a panic out where a property does not hold.
pub type Target = fn(&[u8]);

/// Every fuzz target by its name: that of its file in `fuzz/fuzz_targets/`, of its folder in
/// `fuzz/seeds/` and of its function here.
pub const TARGETS: &[(&str, Target)] = &[
    ("parse_size", parse_size),
    ("archive_index", archive::archive_index),
    ("archive_tar", archive::archive_tar),
    ("archive_zip", archive::archive_zip),
    ("checksum_list", lists::checksum_list),
    ("copy_journal", copy::copy_journal),
    ("format_afs", format::format_afs),
    ("format_layout", format::format_layout),
    ("mhl_chain", lists::mhl_chain),
    ("mhl_list", lists::mhl_list),
    ("pack_attributes", pack::pack_attributes),
    ("pack_deletes", pack::pack_deletes),
    ("pack_footer", pack::pack_footer),
    ("pack_frame", pack::pack_frame),
    ("pack_index_page", pack::pack_index_page),
    ("pack_index_top", pack::pack_index_top),
    ("pack_key", pack::pack_key),
    ("pack_manifest", pack::pack_manifest),
    ("pack_segment_header", pack::pack_segment_header),
    ("pack_whole", pack::pack_whole),
    ("proof", proof::proof),
    ("sparse_cache_index", sparse::sparse_cache_index),
    ("sparse_model", sparse::sparse_model),
    ("sparse_read", sparse::sparse_read),
    ("stitch_patch", format::stitch_patch),
];

/// Sizes: parsing returns what was formatted, and a refusal quotes the text.
pub fn parse_size(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match units::parse_size(text) {
        Ok(len_bytes) => {
            assert_eq!(units::parse_size(&len_bytes.to_string()), Ok(len_bytes));
            assert_eq!(units::parse_size(&text.to_ascii_uppercase()), Ok(len_bytes));
        }
        Err(error) => assert!(error.to_string().starts_with(&format!("{text:?}"))),
    }
}

/// Runs `target` on every file of `folder` and returns how many there were.
///
/// # Errors
/// Returns an error if the folder cannot be listed or read.
pub fn replay(folder: &Path, target: Target) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        target(&fs::read(entry?.path())?);
        count += 1;
    }
    Ok(count)
}
