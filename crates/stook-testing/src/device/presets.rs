//! Devices with the rounded figures of their class, for tests of the fits.

use super::{Costs, Device};

impl Device {
    /// A disk of 7200 revolutions: 12 ms to get there, 200 MB/s along a track, one arm.
    pub const fn hdd() -> Self {
        Self::new(Costs::new(12e-3, 200e6), 1)
    }

    /// A SATA solid-state disk: 550 MB/s and 95,000 requests per second at most.
    pub const fn sata_ssd() -> Self {
        let limits =
            Costs { rate_max_per_s: 95e3, bandwidth_max_bytes_per_s: 550e6, ..Costs::new(80e-6, 540e6) };
        let mut device = Self::new(limits, 32);
        device.write = Costs { fixed_s: 40e-6, rate_max_per_s: 80e3, ..limits };
        device
    }

    /// An NVMe disk: 800,000 requests and 7 GB per second at most.
    pub const fn nvme() -> Self {
        let limits =
            Costs { rate_max_per_s: 800e3, bandwidth_max_bytes_per_s: 7e9, ..Costs::new(70e-6, 2.8e9) };
        let mut device = Self::new(limits, 128);
        device.write =
            Costs { fixed_s: 15e-6, rate_max_per_s: 500e3, bandwidth_max_bytes_per_s: 5e9, ..limits };
        device
    }

    /// An object store: 25 ms to the first byte, 90 MB/s per request, 1.2 GB/s in all.
    pub const fn object_store() -> Self {
        let limits =
            Costs { rate_max_per_s: 5500.0, bandwidth_max_bytes_per_s: 1.2e9, ..Costs::new(25e-3, 90e6) };
        Self::new(limits, 256)
    }
}
