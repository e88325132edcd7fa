//! Test doubles for Stook: simulated devices, crash simulator, fault injection, reference models,
//! conformance suites.

pub mod archives;
pub mod conformance;
pub mod device;
pub mod fault;
mod forward;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub mod fuse;
pub mod fuzz;
pub mod model;
#[cfg(target_os = "linux")]
pub mod privileged;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sim;
pub mod soak;
pub mod sweep;
pub mod trees;
pub mod web;
