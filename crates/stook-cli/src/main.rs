//! Placeholder replaced in the same series of commits.
fn main() {}
