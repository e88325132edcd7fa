//! Properties of packs.

mod model;
mod roundtrip;
