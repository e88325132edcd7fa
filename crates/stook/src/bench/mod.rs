//! Measuring storage, and saying whether the figures may be believed.
//!
//! [`gates`] checks every measured cell, [`model`] fits what a device does to the cells that passed, and
//! [`compare`] tells whether two series of measurements differ. These three take plain numbers and do no
//! I/O. No figure is averaged over cells that failed a gate, and no model is fitted to them.

pub mod compare;
pub mod gates;
pub mod model;
