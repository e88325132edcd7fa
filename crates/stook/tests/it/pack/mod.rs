//! Properties of packs.

mod bound;
mod clock;
mod compaction;
mod copies;
mod crash;
mod cut;
mod damage;
mod faults;
mod flip;
mod golden;
mod hostile;
mod index_pages;
mod limits;
mod links;
mod mapped;
mod model;
mod repair;
mod roundtrip;
mod scans;
mod shapes;
mod shared;
mod snapshots;
mod tree;
mod truncate;
mod unreadable;
