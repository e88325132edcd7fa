//! Studies: published measurements, repeated here and shown beside the published figures.
//!
//! A study makes its data or takes the user's, measures cold and in turn where that is claimed,
//! checks that everything compared returned the same bytes, and documents the method. It spans
//! capabilities, and is therefore above the library. It never changes a tree that it was given to
//! measure.
//!
//! Each study is one module, whose type holds its options and implements [`Study`]; [`run`] takes
//! any of them from its options to `study.json` and `study.html`. What studies share is in the
//! other modules, and used by the benchmarks beside other systems, too. Nothing here uses a
//! terminal: the output of a study is [`Text`], and its caller passes [`Hooks`].

pub mod cold;
pub mod digest;
mod driver;
pub mod environment;
pub mod limit;
pub mod many_small_files;
pub mod meter;
mod paths;
pub mod sample;
pub mod sparse_file;
pub mod ssd_profile;
mod study;
mod text;
mod verdict;

pub use self::driver::{Report, page, run};
pub use self::study::{Hooks, OptionError, Study};
pub use self::text::Text;
pub use self::verdict::Verdict;
