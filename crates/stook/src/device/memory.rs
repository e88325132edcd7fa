//! What keeps bytes in memory and looks like storage.

use super::block::BlockDevice;

const FILE_SYSTEMS: [&str; 5] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "rootfs"];
/// Names of devices, which end with a number. A pmem is not one of them: it is persistent.
const DEVICES: [&str; 3] = ["zram", "ram", "nullb"];
/// The model of a simulated disk.
const SIMULATED: &str = "scsi_debug";

/// Whether file systems of this kind keep files in memory only.
pub(super) fn is_file_system(kind: &str) -> bool {
    FILE_SYSTEMS.contains(&kind)
}

/// Whether a device has no medium but memory.
pub(super) fn is_device(device: &BlockDevice) -> bool {
    let disk = device.disk_name();
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    DEVICES.iter().any(|name| disk.strip_prefix(name).is_some_and(is_number))
        || device.fact("device/model").as_deref() == Some(SIMULATED)
}
