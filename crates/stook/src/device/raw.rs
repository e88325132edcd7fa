//! [`RawDevice`]: a block device that is measured on itself: what uses it, and what identifies it.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

use super::block::BlockDevice;
use super::mount::unescaped;
use super::{Mount, System};

/// Where devices say what they are called wherever they are plugged in.
const LASTING_NAMES: [&str; 4] = ["serial", "device/serial", "wwid", "device/wwid"];

/// A block device, as the system reports it.
#[derive(Debug)]
pub(crate) struct RawDevice {
    system: System,
    device: BlockDevice,
    /// The text of `/proc/swaps`.
    swaps: String,
    /// The number of the block device that a path leads to; replaceable in tests.
    number_of: fn(&Path) -> Option<u64>,
}

/// What has to be typed before a device is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Of a loop device the path of its file.
    BackingFile(PathBuf),
    /// The numbers by which its maker, or who made it, calls it; any of them will do.
    Serials(Vec<String>),
}

impl RawDevice {
    /// The block device with this number; `None` where the system reports nothing about it.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        let system = System::here();
        let device = BlockDevice::of_number(&system, number)?;
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        Some(Self { system, device, swaps, number_of })
    }

    /// What uses the device, a part of it, or what lies below it: a predicate that fits after its
    /// name. `None` where nothing does, as far as can be seen from here.
    ///
    /// Mounts in other views of the file system (containers) are not seen here: the system itself
    /// refuses an exclusive opening then.
    pub(crate) fn used_by(&self) -> Option<String> {
        let own = self.family(&self.device).into_iter().map(|device| (device, None));
        // Writing to a loop device on a device writes to that one.
        let below = self.backing_device().into_iter();
        let below = below.flat_map(|below| self.family(&below)).map(|device| (device, Some(&self.device)));
        own.chain(below).find_map(|(device, by)| {
            let problem = self.use_of(&device, by)?;
            Some(match device == self.device {
                true => problem,
                false => format!("shares its bytes with /dev/{}, which {problem}", device.name()),
            })
        })
    }

    /// What has to be typed; `None` where the device says nothing by which it is surely known.
    pub(crate) fn identity(&self) -> Option<Identity> {
        if let Some(backing) = self.device.fact("loop/backing_file") {
            return Some(Identity::BackingFile(PathBuf::from(backing)));
        }
        let serials: Vec<String> = LASTING_NAMES.iter().filter_map(|name| self.device.fact(name)).collect();
        (!serials.is_empty()).then_some(Identity::Serials(serials))
    }

    /// Whether what was typed is what identifies the device.
    pub(crate) fn is_identified_by(&self, typed: &str) -> bool {
        match self.identity() {
            None => false,
            Some(Identity::Serials(serials)) => serials.iter().any(|serial| serial == typed.trim()),
            // The file itself, whatever path leads to it: that in `/sys` need not.
            Some(Identity::BackingFile(backing)) => {
                let path = backing.to_string_lossy();
                let own = (self.system.numbers_of_loop_file)(&self.device.disk_name(), &path);
                let typed = fs::metadata(typed).map(|file| (file.dev(), file.ino()));
                own.is_ok_and(|own| typed.is_ok_and(|typed| same_file(own, typed)))
            }
        }
    }

    /// The device, the whole one that it is a part of, and its parts: what is written to one is
    /// written to the others, or may be.
    fn family(&self, device: &BlockDevice) -> Vec<BlockDevice> {
        let whole = device.whole();
        let mut family = vec![device.clone()];
        if whole == *device {
            family.extend(device.partitions());
        } else {
            family.push(whole);
        }
        family
    }

    /// The block device that a loop device lies on.
    fn backing_device(&self) -> Option<BlockDevice> {
        let backing = self.device.fact("loop/backing_file")?;
        BlockDevice::of_number(&self.system, (self.number_of)(Path::new(&backing))?)
    }

    /// What uses one device, other than the loop device `by` that lies on it.
    fn use_of(&self, device: &BlockDevice, by: Option<&BlockDevice>) -> Option<String> {
        let number = device.number();
        let is_it = |mount: &Mount| {
            mount.device().is_some_and(|mounted| Some(mounted) == number)
                // Of several devices of one file system the number is none of theirs.
                || BlockDevice::of_source(&self.system, &mount.source).is_some_and(|of| of == *device)
        };
        if let Some(mount) = Mount::all(&self.system.mounts).find(is_it) {
            return Some(format!("is mounted at {}", mount.point.display()));
        }
        if self.is_swap(number) {
            return Some("is swap".to_owned());
        }
        if let Some(holder) = device.holders().into_iter().next() {
            return Some(format!("is held by {holder}"));
        }
        let by = by.map(BlockDevice::disk_name);
        let loops = self.loops().into_iter().filter(|other| Some(other.disk_name()) != by);
        // A partition of a loop device has the file of the whole.
        let whole = device.whole();
        loops.filter(|other| *other != whole).find_map(|other| self.use_by_loop(device, &other))
    }

    /// Whether a loop device lies on the device, or on the same file.
    fn use_by_loop(&self, device: &BlockDevice, other: &BlockDevice) -> Option<String> {
        let backing = other.fact("loop/backing_file")?;
        let name = other.disk_name();
        let number = device.number();
        if number.is_some() && (self.number_of)(Path::new(&backing)) == number {
            return Some(format!("is the device below {name}"));
        }
        let own = device.fact("loop/backing_file")?;
        let numbers = |name: &str, path: &str| (self.system.numbers_of_loop_file)(name, path).ok();
        let is_same = match (numbers(&device.disk_name(), &own), numbers(&name, &backing)) {
            (Some(own), Some(other)) => same_file(own, other),
            // Where the devices may not be asked, their paths have to do.
            _ => own == backing,
        };
        is_same.then(|| format!("lies on the same file as {name}"))
    }

    fn is_swap(&self, number: Option<u64>) -> bool {
        let mut paths = self.swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        number.is_some() && paths.any(|path| (self.number_of)(Path::new(&unescaped(path))) == number)
    }

    /// Every loop device that has a file.
    fn loops(&self) -> Vec<BlockDevice> {
        let entries = fs::read_dir(self.system.sys.join("class/block")).into_iter().flatten();
        let devices = entries.filter_map(Result::ok).filter_map(|entry| BlockDevice::at(&entry.path()));
        let mut loops: Vec<BlockDevice> = devices
            .filter(|device| device.whole() == *device && device.fact("loop/backing_file").is_some())
            .collect();
        loops.sort();
        loops
    }
}

/// The kernel gives the number of a device in another form to those who ask a loop device.
fn same_file(one: (u64, u64), other: (u64, u64)) -> bool {
    let parts = |(device, inode)| (major(device), minor(device), inode);
    parts(one) == parts(other)
}

fn number_of(path: &Path) -> Option<u64> {
    let node = fs::metadata(path).ok()?;
    node.file_type().is_block_device().then(|| node.rdev())
}

impl BlockDevice {
    /// Its own number, also that of a partition.
    fn number(&self) -> Option<u64> {
        let text = fs::read_to_string(self.directory().join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(makedev(major.parse().ok()?, minor.parse().ok()?))
    }

    /// The names of the devices that are made of it.
    fn holders(&self) -> Vec<String> {
        let mut names = names_in(&self.directory().join("holders"));
        names.sort();
        names
    }

    /// Its partitions, where it is a whole disk.
    fn partitions(&self) -> Vec<Self> {
        let names = names_in(self.directory()).into_iter().map(|name| self.directory().join(name));
        let mut parts: Vec<Self> =
            names.filter(|path| path.join("partition").exists()).filter_map(|path| Self::at(&path)).collect();
        parts.sort();
        parts
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries: io::Result<Vec<_>> = fs::read_dir(directory).and_then(Iterator::collect);
    let entries = entries.unwrap_or_default().into_iter();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::tests::Made;
    use super::*;

    /// Two disks of which the first has two partitions, and a loop device on a file.
    fn made() -> Made {
        let made = Made::new();
        made.device("sda", (8, 0));
        made.device("sda/sda1", (8, 1));
        made.device("sda/sda2", (8, 2));
        made.device("sdb", (8, 16));
        for part in ["sda1", "sda2"] {
            fs::write(directory(&made, "sda").join(part).join("partition"), "1\n").unwrap();
        }
        made.device("loop0", (7, 0));
        backed(&made, "loop0", "image");
        made
    }

    fn directory(made: &Made, name: &str) -> PathBuf {
        made.system.sys.join("devices").join(name)
    }

    fn backed(made: &Made, name: &str, file: &str) {
        let path = made.files().join(file);
        if !path.exists() {
            fs::write(&path, file).unwrap();
        }
        fs::create_dir_all(directory(made, name).join("loop")).unwrap();
        fs::write(directory(made, name).join("loop/backing_file"), format!("{}\n", path.display())).unwrap();
    }

    /// What is said of a device, with these mounts and swaps. A file that is called `sdb` is the
    /// node of that disk.
    fn used(made: Made, name: &str, mounts: &str, swaps: &str) -> Option<String> {
        let device = BlockDevice::at(&made.system.sys.join("class/block").join(name)).unwrap();
        let number_of: fn(&Path) -> Option<u64> = |path| match path.file_name()?.to_str()? {
            "sdb" => Some(makedev(8, 16)),
            "sda2" => Some(makedev(8, 2)),
            _ => None,
        };
        let system = System { mounts: mounts.to_owned(), ..made.system };
        RawDevice { system, device, swaps: swaps.to_owned(), number_of }.used_by()
    }

    const OF_PARTITION: &str = "30 1 8:1 / /data rw - ext4 /dev/none rw\n";

    #[test]
    fn nothing_uses_what_nothing_is_known_to_use() {
        for name in ["sda", "sda1", "sdb", "loop0"] {
            assert_eq!(used(made(), name, "29 1 8:32 / / rw - ext4 /dev/none rw\n", ""), None, "{name}");
        }
    }

    #[test]
    fn what_is_mounted_is_used_and_so_is_the_disk_of_a_mounted_partition() {
        assert_eq!(used(made(), "sda1", OF_PARTITION, "").unwrap(), "is mounted at /data");
        let whole = used(made(), "sda", OF_PARTITION, "").unwrap();
        assert_eq!(whole, "shares its bytes with /dev/sda1, which is mounted at /data");
        assert_eq!(used(made(), "sda2", OF_PARTITION, ""), None, "its neighbour is another part");
        let of_whole = "30 1 8:0 / /all rw - ext4 /dev/none rw\n";
        assert!(used(made(), "sda2", of_whole, "").unwrap().contains("/dev/sda, which is mounted at /all"));
        assert_eq!(used(made(), "sdb", OF_PARTITION, ""), None);
    }

    #[test]
    fn what_a_mapping_or_swap_is_made_of_is_used() {
        let held = made();
        fs::create_dir_all(directory(&held, "sda").join("sda2/holders")).unwrap();
        symlink(directory(&held, "sdb"), directory(&held, "sda").join("sda2/holders/dm-0")).unwrap();
        let reported = used(held, "sda", "", "").unwrap();
        assert_eq!(reported, "shares its bytes with /dev/sda2, which is held by dm-0");
        let swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n";
        assert_eq!(used(made(), "sda2", "", swaps).unwrap(), "is swap");
        assert!(used(made(), "sda", "", swaps).unwrap().contains("/dev/sda2, which is swap"));
        assert_eq!(used(made(), "sda1", "", swaps), None);
    }

    #[test]
    fn a_loop_device_uses_what_it_lies_on() {
        let over = made();
        over.device("loop1", (7, 1));
        backed(&over, "loop1", "sdb");
        assert_eq!(used(over, "sdb", "", "").unwrap(), "is the device below loop1");
        // From above: the disk below is mounted.
        let over = made();
        over.device("loop1", (7, 1));
        backed(&over, "loop1", "sdb");
        let mounted = "30 1 8:16 / /data rw - ext4 /dev/none rw\n";
        let reported = used(over, "loop1", mounted, "").unwrap();
        assert_eq!(reported, "shares its bytes with /dev/sdb, which is mounted at /data");
        let twice = made();
        twice.device("loop1", (7, 1));
        backed(&twice, "loop1", "image");
        assert_eq!(used(twice, "loop0", "", "").unwrap(), "lies on the same file as loop1");
        // Not so a partition of it.
        let parts = made();
        parts.device("loop0/loop0p1", (259, 0));
        fs::write(directory(&parts, "loop0").join("loop0p1/partition"), "1\n").unwrap();
        assert_eq!(used(parts, "loop0p1", "", ""), None);
    }

    #[test]
    fn a_device_is_known_by_its_serial_and_a_loop_device_by_its_file() {
        let made = made();
        fs::create_dir_all(directory(&made, "sda").join("device")).unwrap();
        fs::write(directory(&made, "sda").join("device/serial"), "S1 23\n").unwrap();
        let (image, other) = (made.files().join("image"), made.files().join("other"));
        fs::write(&other, "image").unwrap();
        let link = made.files().join("link");
        symlink(&image, &link).unwrap();
        let is_known = |name: &str, typed: &str| {
            let device = BlockDevice::at(&made.system.sys.join("class/block").join(name)).unwrap();
            let System { ref sys, ref mounts, mount_id_of, numbers_of_loop_file } = made.system;
            let system =
                System { sys: sys.clone(), mounts: mounts.clone(), mount_id_of, numbers_of_loop_file };
            let raw = RawDevice { system, device, swaps: String::new(), number_of };
            raw.is_identified_by(typed)
        };
        assert!(is_known("sda", "S1 23") && is_known("sda1", "S1 23"));
        assert!(!is_known("sda", "S1 2") && !is_known("sda", "") && !is_known("sdb", ""));
        assert!(is_known("loop0", image.to_str().unwrap()) && is_known("loop0", link.to_str().unwrap()));
        assert!(!is_known("loop0", other.to_str().unwrap()) && !is_known("loop0", "loop0"));
    }
}
