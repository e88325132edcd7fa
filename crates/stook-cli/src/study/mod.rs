//! Studies: published measurements, made again here and laid beside what was published.
//!
//! A study makes its data or takes the user's, measures cold and interleaved, checks that all that it
//! compares returned the same bytes, and shows how it was done. It spans capabilities and therefore
//! lives here. It never changes a tree that it was given to measure.

pub mod cold;
pub mod digest;
pub mod environment;
pub mod limit;
pub mod many_small_files;
pub mod meter;
pub mod page;
pub mod plain;
pub mod published;
pub mod readers;
pub mod sample;
pub mod sparse_file;
pub mod ssd_profile;
