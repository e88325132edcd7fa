//! Trees of files that come out of something else: a directory out of which nothing can lead.

pub(crate) mod target;
