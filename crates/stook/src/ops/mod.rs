//! Operations that need several capabilities, as one call each: what the surfaces offer, without a
//! terminal or an interpreter.

pub mod contents;
pub mod import;
pub mod pack;
