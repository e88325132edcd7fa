//! `stook.Pack`, `stook.Archive`, and the classes of what they return.

pub(crate) mod archive;
pub(crate) mod attributes;
pub(crate) mod batch;
mod begun;
pub(crate) mod check;
pub(crate) mod file;
pub(crate) mod follow;
pub(crate) mod info;
mod input;
pub(crate) mod keys;
pub(crate) mod kinds;
pub(crate) mod listing;
pub(crate) mod mapping;
pub(crate) mod open;
pub(crate) mod ordinals;
#[expect(clippy::module_inception, reason = "a file for each class, named as the class")]
pub(crate) mod pack;
pub(crate) mod reading;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod selection;
pub(crate) mod split;
pub(crate) mod stat;
pub(crate) mod tree;
pub(crate) mod unpack;
pub(crate) mod view;
pub(crate) mod writing;
