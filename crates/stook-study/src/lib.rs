//! Studies: published measurements, repeated here and shown beside the published figures.
//!
//! A study makes its data or takes the user's, measures cold and in turn where that is claimed,
//! checks that everything compared returned the same bytes, and documents the method. It spans
//! capabilities, and is therefore above the library. It never changes a tree that it was given to
//! measure.
//!
//! Each study is one module, whose type holds its options and implements [`Study`]; [`run`] takes
//! any of them from its options to `study.json` and `study.html`, of which [`frame`] is the part
//! that is the same for all. What studies share is in the other modules, and used by the benchmarks
//! beside other systems, too. Nothing here uses a terminal: the output of a study is [`Text`], and
//! its caller passes [`Hooks`].

pub mod all;
mod brief;
pub mod bulk_copy;
pub mod cold;
pub mod digest;
pub mod disk;
mod driver;
pub mod environment;
pub mod frame;
pub mod limit;
pub mod many_small_files;
pub mod meter;
mod paths;
pub mod place;
mod progress;
pub mod sample;
pub mod solid_reads;
pub mod sparse_file;
pub mod ssd_profile;
mod study;
mod text;
mod verdict;

/// The published documents, by the names of the studies that repeat them.
pub fn documents() -> [(&'static str, &'static frame::Document); 5] {
    [
        ("bulk-copy", &bulk_copy::published::DOCUMENT),
        ("many-small-files", &many_small_files::published::DOCUMENT),
        ("solid-reads", &solid_reads::published::DOCUMENT),
        ("sparse-file", &sparse_file::published::DOCUMENT),
        ("ssd-profile", &ssd_profile::published::DOCUMENT),
    ]
}

pub use self::driver::{Rendered, Report, render, run};
pub use self::progress::{Expected, Portion, Shown, Unit, Unshown};
pub use self::study::{Hooks, OptionError, Study};
pub use self::text::Text;
pub use self::verdict::Verdict;
