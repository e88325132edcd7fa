//! btrfs: one file system over several devices, which writes a byte as often as its profile says.

use std::fs;
use std::path::{Path, PathBuf};

use super::block::BlockDevice;
use super::{Below, Mount, System};

/// How often a byte of a file is written, by profile. Those with parity are not among them.
const COPIES: [(&str, u64); 7] =
    [("single", 1), ("raid0", 1), ("dup", 2), ("raid1", 2), ("raid10", 2), ("raid1c3", 3), ("raid1c4", 4)];

/// Files have device numbers that belong to no device, and the mount names only one of several.
pub(super) fn below(system: &System, mount: &Mount, layers: u32) -> Below {
    let Some(directory) = directory(system, &mount.source) else {
        let doubt = format!("btrfs: the devices that hold it with {} cannot be seen from here", mount.source);
        return Below::unknown("btrfs", doubt);
    };
    let devices = fs::read_dir(directory.join("devices")).into_iter().flatten();
    let devices: Option<Vec<_>> = devices.map(|device| BlockDevice::at(&device.ok()?.path())).collect();
    let Some(mut devices) = devices.filter(|devices| !devices.is_empty()) else {
        return Below::unknown("btrfs", "btrfs: not all of the devices that hold it can be seen from here");
    };
    devices.sort();
    let parts = devices.into_iter().map(|device| system.below_block(device, layers - 1)).collect();
    let mut below = Below::side_by_side(parts);
    match copies(&directory) {
        Ok(copies) => below.copies = copies,
        Err(doubt) => below.doubt = below.doubt.or(Some(doubt)),
    }
    if is_degraded(&directory) {
        below.doubt = below.doubt.or(Some("btrfs: one of its devices is missing".to_owned()));
    }
    below
}

/// Where the system describes the file system that a device belongs to.
fn directory(system: &System, source: &str) -> Option<PathBuf> {
    let device = BlockDevice::of_source(system, source);
    // In a container the device may have no node; its name is in the mount all the same.
    let name = match &device {
        Some(device) => device.name(),
        None => Path::new(source).file_name()?.to_str()?,
    };
    let all = fs::read_dir(system.sys.join("fs/btrfs")).ok()?.filter_map(Result::ok);
    all.map(|entry| entry.path()).find(|path| path.join("devices").join(name).exists())
}

fn is_degraded(directory: &Path) -> bool {
    let devices = fs::read_dir(directory.join("devinfo")).into_iter().flatten().filter_map(Result::ok);
    let missing = devices.map(|device| fs::read_to_string(device.path().join("missing")));
    missing.filter_map(Result::ok).any(|text| text.trim() == "1")
}

/// How often a byte of a file is written.
fn copies(directory: &Path) -> Result<u64, String> {
    // Small file systems can keep data and metadata together.
    let mut profiles = profiles(&directory.join("allocation/data"));
    if profiles.is_empty() {
        profiles = self::profiles(&directory.join("allocation/mixed"));
    }
    let unknown = |what: &str| format!("btrfs: {what}: how many bytes are written for each is not known");
    match profiles.as_slice() {
        [] => Err(unknown("it does not report the profile of its data")),
        [profile] if profile.starts_with("raid5") || profile.starts_with("raid6") => {
            Err(unknown(&format!("{profile} writes parity")))
        }
        [profile] => {
            let known = COPIES.iter().find(|(name, _)| name == profile);
            known.map(|(_, copies)| *copies).ok_or_else(|| unknown(&format!("its profile is {profile}")))
        }
        several => Err(unknown(&format!("its data has the profiles {}", several.join(", ")))),
    }
}

/// The profiles that have room. One that has none any more stays listed for a while.
fn profiles(directory: &Path) -> Vec<String> {
    let all = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let all = all.filter(|entry| entry.path().is_dir());
    let has_room =
        |path: &Path| fs::read_to_string(path.join("total_bytes")).is_ok_and(|bytes| bytes.trim() != "0");
    let (used, unused): (Vec<_>, Vec<_>) = all.partition(|entry| has_room(&entry.path()));
    let chosen = if used.is_empty() { unused } else { used };
    let mut names: Vec<_> =
        chosen.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
