//! Packs: a few append-only composite files instead of millions of small ones.
