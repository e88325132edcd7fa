//! Test doubles for Stook: crash simulator, fault injection, reference models, conformance suites.

pub mod conformance;
pub mod fault;
pub mod fuzz;
pub mod model;
pub mod sim;
