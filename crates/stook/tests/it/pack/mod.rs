//! Properties of packs.

mod clock;
mod crash;
mod damage;
mod faults;
mod flip;
mod limits;
mod model;
mod roundtrip;
mod truncate;
