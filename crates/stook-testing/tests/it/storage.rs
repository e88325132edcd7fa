//! The simulator as a storage.

use std::sync::Arc;

use stook_testing::conformance::storage_conformance;
use stook_testing::fault::FaultStorage;
use stook_testing::sim::SimStorage;

#[test]
fn the_simulator_is_a_storage() {
    storage_conformance(|| Box::new(SimStorage::new()));
}

#[test]
fn a_fault_storage_without_faults_is_a_storage() {
    storage_conformance(|| Box::new(FaultStorage::new(Arc::new(SimStorage::new()))));
}
