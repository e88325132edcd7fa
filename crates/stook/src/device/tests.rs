//! Layers of every kind, in trees that are made up like `/sys`.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

use rustix::fs::{major, makedev, minor};
use tempfile::TempDir;

use super::block::{BlockDevice, Totals};
use super::overlay::Layers;
use super::{Below, Counters, LAYERS_MAX, System};

/// A number that no device has. The numbers of fake devices do not occur on the disk of the test.
const NO_DEVICE: u64 = 0;

pub(crate) struct Made {
    dir: TempDir,
    pub(crate) system: System,
}

impl Made {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["sys/dev/block", "sys/class/block", "sys/fs/btrfs", "files"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let system = System {
            sys: dir.path().join("sys"),
            mounts: String::new(),
            mount_id_of: |_path| None,
            numbers_of_loop_file: |_name, path| {
                fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
            },
        };
        Self { dir, system }
    }

    /// A directory whose files lie where the test says; without links in its path.
    pub(crate) fn files(&self) -> PathBuf {
        fs::canonicalize(self.dir.path().join("files")).unwrap()
    }

    pub(super) fn device(&self, name: &str, number: (u32, u32)) -> BlockDevice {
        let directory = self.system.sys.join("devices").join(name);
        fs::create_dir_all(&directory).unwrap();
        let number = format!("{}:{}", number.0, number.1);
        fs::write(directory.join("dev"), format!("{number}\n")).unwrap();
        fs::write(directory.join("size"), "2048\n").unwrap();
        self.counts(name, 0);
        let last = directory.file_name().unwrap();
        symlink(&directory, self.system.sys.join("class/block").join(last)).unwrap();
        symlink(&directory, self.system.sys.join("dev/block").join(number)).unwrap();
        BlockDevice::at(&directory).unwrap()
    }

    /// Sets the sectors that a device has read and written.
    fn counts(&self, name: &str, sectors: u64) {
        let text = format!("{sectors} 0 {sectors} 0 {sectors} 0 {sectors} 0 0 0 0\n");
        fs::write(self.system.sys.join("devices").join(name).join("stat"), text).unwrap();
    }

    /// The device that really holds the files of the test, under a name that is made up.
    pub(crate) fn disk_of_files(&self, name: &str) {
        let device = fs::metadata(self.files()).unwrap().dev();
        self.device(name, (major(device), minor(device)));
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.system.sys.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        let path = self.files().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "bytes").unwrap();
        path
    }

    pub(crate) fn mount(&mut self, root: &str, point: &str, rest: &str) {
        let point = self.files().join(point);
        fs::create_dir_all(&point).unwrap();
        self.system.mounts += &format!("9 1 0:99 {root} {} rw,relatime - {rest}\n", point.display());
    }

    pub(super) fn loop_device(&self, backing: &str, is_direct: bool) -> BlockDevice {
        self.write("devices/loop7/loop/backing_file", &format!("{backing}\n"));
        self.write("devices/loop7/loop/dio", if is_direct { "1\n" } else { "0\n" });
        self.device("loop7", (707, 7))
    }

    fn below(&self, device: BlockDevice) -> Below {
        self.system.below_block(device, LAYERS_MAX)
    }

    fn below_file(&self, path: &str) -> Below {
        self.system.below_file(&self.files().join(path), NO_DEVICE, LAYERS_MAX)
    }
}

fn names(devices: &[BlockDevice]) -> Vec<&str> {
    devices.iter().map(BlockDevice::name).collect()
}

#[test]
fn memory_is_named_as_a_file_system_and_as_a_device() {
    let mut made = Made::new();
    made.mount("/", "memory", "tmpfs none rw,size=1k");
    made.file("memory/file");
    let below = made.below_file("memory/file");
    assert_eq!(below.doubt(), Some("tmpfs keeps files in memory: this is not a device"));
    assert!(below.device_name().is_none() && below.counters().is_none() && below.len().is_none());
    for (minor, name) in ["zram0", "ram1", "nullb0"].into_iter().enumerate() {
        let below = made.below(made.device(name, (750, minor as u32)));
        let doubt = format!("{name} keeps its blocks in memory: this is not a device");
        assert_eq!((below.doubt(), below.device_name()), (Some(doubt.as_str()), Some(name)));
        assert!(below.counters().is_none());
    }
    made.write("devices/sdx/device/model", "scsi_debug      \n");
    assert!(
        made.below(made.device("sdx", (708, 0))).doubt().unwrap().contains("sdx keeps its blocks in memory")
    );
    // Names with only the same prefix, and a device whose memory is persistent.
    for (minor, name) in ["rambo", "pmem0", "ram"].into_iter().enumerate() {
        assert_eq!(made.below(made.device(name, (751, minor as u32))).doubt(), None, "{name}");
    }
}

#[test]
fn what_has_no_device_is_doubted_by_its_kind() {
    let mut made = Made::new();
    made.mount("/", "far", "fuse.sshfs me@there:/home rw");
    made.file("far/file");
    let reported = made.below_file("far/file");
    assert_eq!(reported.doubt(), Some("fuse.sshfs lies on no device whose counters could be read"));
    assert_eq!(reported.device_name(), None);
    // Before: the name of a device was enough, and memory below FUSE was "valid" as that device.
    made.device("stookv", (723, 0));
    made.system.mounts.clear();
    made.mount("/", "far", "fuse.any /dev/stookv rw");
    let named = made.below_file("far/file");
    assert_eq!(named.doubt(), Some("fuse.any lies on no device whose counters could be read"));
    assert!(named.device_name().is_none() && named.counters().is_none());
    made.system.mounts.clear();
    assert_eq!(made.below_file("far/file").doubt(), Some("what the file lies on cannot be seen from here"));
}

/// Before: the longest mount point was taken for the one of the file: tmpfs over a btrfs was
/// "valid" as the disk below that, and a btrfs over tmpfs was called memory.
#[test]
fn a_mount_that_another_hides_is_not_taken_for_the_one_of_the_file() {
    let mut made = btrfs(&["single"]);
    let at = made.files().display().to_string();
    let pool = format!("30 22 0:31 / {at}/pool rw - btrfs /dev/stookb rw\n");
    let memory = format!("31 22 0:40 / {at} rw - tmpfs none rw\n");
    let memory_in_pool = "tmpfs keeps files in memory: this is not a device";
    made.system.mounts = format!("{pool}{memory}");
    assert_eq!(made.below_file("pool/file").doubt(), Some(memory_in_pool));
    let memory = format!("30 22 0:40 / {at}/pool rw - tmpfs none rw\n");
    let pool = format!("31 22 0:31 / {at} rw - btrfs /dev/stookb rw\n");
    made.system.mounts = format!("{memory}{pool}");
    let below = made.below_file("pool/file");
    assert_eq!((below.device_name(), below.doubt()), (Some("stooka, stookb"), None));
    // The number that the kernel says decides: one that is not listed cannot be seen.
    made.system.mount_id_of = |_path| Some(30);
    assert_eq!(made.below_file("pool/file").doubt(), Some(memory_in_pool));
    made.system.mount_id_of = |_path| Some(99);
    let below = made.below_file("pool/file");
    assert_eq!(below.doubt(), Some("what the file lies on cannot be seen from here"));
    assert_eq!((below.device_name(), below.counters().is_none()), (None, true));
}

#[test]
fn a_loop_device_is_resolved_to_what_its_file_lies_on() {
    for (is_direct, name) in
        [(true, "loop7 (direct I/O) on stooka"), (false, "loop7 (through the page cache) on stooka")]
    {
        let made = Made::new();
        made.disk_of_files("stooka");
        let image = made.file("an image");
        let below = made.below(made.loop_device(image.to_str().unwrap(), is_direct));
        assert_eq!((below.device_name(), below.doubt()), (Some(name), None));
        assert_eq!(
            (names(&below.lowest), names(&below.on_the_way)),
            (vec!["stooka"], vec!["loop7", "stooka"])
        );
        // What the page cache of the file served counts at the loop device, and not below.
        let before = below.counters().unwrap();
        made.counts("loop7", 100);
        made.counts("stooka", 4);
        let used = below.use_between(before, below.counters().unwrap());
        assert_eq!((used.read_bytes, used.name.as_str()), (4 * 512, name));
        // Others use the disk: with direct I/O that does not count, as with two partitions.
        made.counts("stooka", 5000);
        let used = below.use_between(before, below.counters().unwrap());
        assert_eq!(used.write_bytes, if is_direct { 100 * 512 } else { 5000 * 512 });
    }
}

/// Before: what other programs did on the disk below a partition or a loop device was seen by no
/// counter that was looked at.
#[test]
fn what_others_do_on_the_disk_below_a_partition_is_counted() {
    let made = Made::new();
    let disk = made.device("sdy", (709, 0));
    made.write("devices/sdy/sdy1/partition", "1\n");
    let partition = made.device("sdy/sdy1", (709, 1));
    let (whole, part) = (made.below(disk), made.below(partition));
    let before = (whole.counters().unwrap(), part.counters().unwrap());
    made.counts("sdy/sdy1", 10);
    made.counts("sdy", 50);
    let (used, disks) = {
        let after = part.counters().unwrap();
        (part.use_between(before.1, after), part.disks_between(before.1, after).unwrap())
    };
    assert_eq!((used.read_bytes, used.write_bytes), (10 * 512, 10 * 512));
    assert_eq!((disks.name.as_str(), disks.read_bytes, disks.write_bytes), ("sdy", 50 * 512, 50 * 512));
    // Of a whole disk its own counters show it.
    assert_eq!(whole.disks_between(before.0, whole.counters().unwrap()), None);
}

#[test]
fn a_partition_of_a_loop_device_lies_on_its_file_too() {
    let made = Made::new();
    made.disk_of_files("stooka");
    let image = made.file("image");
    made.loop_device(image.to_str().unwrap(), true);
    made.write("devices/loop7/loop7p1/partition", "1\n");
    let below = made.below(made.device("loop7/loop7p1", (759, 1)));
    assert_eq!(below.device_name(), Some("loop7p1 (direct I/O) on stooka"));
}

#[test]
fn a_loop_device_proves_nothing_where_its_file_cannot_be_found_or_is_memory() {
    for (backing, words) in [
        ("/stook/no/such/file", "the file /stook/no/such/file below loop7 cannot be seen from here"),
        ("/stook/file (deleted)", "the file /stook/file below loop7 was deleted"),
    ] {
        let made = Made::new();
        let below = made.below(made.loop_device(backing, true));
        assert!(below.doubt().unwrap().starts_with(words), "{below:?}");
        assert_eq!(below.device_name(), Some("loop7 (direct I/O)"));
        assert_eq!(below.len(), Some(1 << 20));
    }
    let mut made = Made::new();
    made.mount("/", ".", "tmpfs tmpfs rw");
    let image = made.file("image");
    let below = made.below(made.loop_device(image.to_str().unwrap(), true));
    let doubt = "below loop7: tmpfs keeps files in memory: this is not a device";
    assert_eq!((below.doubt(), below.device_name()), (Some(doubt), Some("loop7 (direct I/O) on tmpfs")));
}

/// Before: whatever stood at the path was taken for the file, as a file in memory is where a disk
/// is mounted over it, and `device_doubt` was `null`.
#[test]
fn what_lies_over_the_file_of_a_loop_device_is_not_taken_for_it() {
    let mut made = Made::new();
    made.disk_of_files("stooka");
    let image = made.file("image").display().to_string();
    let device = made.loop_device(&image, true);
    type Numbers = fn(&str, &str) -> io::Result<(u64, u64)>;
    let numbers: [(Numbers, String); 3] = [
        // Another file of the same file system, and one with the same number on another.
        (
            |_name, path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino() + 1)),
            format!("the file below loop7 cannot be seen from here: {image} is another one"),
        ),
        (
            |_name, path| fs::metadata(path).map(|metadata| (metadata.dev() + 1, metadata.ino())),
            format!("the file below loop7 cannot be seen from here: {image} is another one"),
        ),
        (
            |_name, _path| Err(io::Error::from(io::ErrorKind::PermissionDenied)),
            format!(
                "whether {image} is the file below loop7 cannot be seen from here (/dev/loop7: permission \
                 denied)"
            ),
        ),
    ];
    for (numbers, doubt) in numbers {
        made.system.numbers_of_loop_file = numbers;
        let below = made.below(device.clone());
        assert_eq!((below.doubt(), below.device_name()), (Some(doubt.as_str()), Some("loop7 (direct I/O)")));
        assert!(below.counters().is_none());
    }
}

#[test]
fn layers_that_lead_back_to_themselves_end() {
    let made = Made::new();
    let device = fs::metadata(made.files()).unwrap().dev();
    let image = made.file("image");
    made.loop_device(image.to_str().unwrap(), true);
    // The file lies on the device that is made of it.
    let number = format!("{}:{}", major(device), minor(device));
    symlink(made.system.sys.join("devices/loop7"), made.system.sys.join("dev/block").join(number)).unwrap();
    let below = made.system.below_file(&image, device, LAYERS_MAX);
    assert!(below.doubt().unwrap().contains("more than 8 file systems and devices"), "{below:?}");
}

/// Before: "the device read 0.00 of the bytes requested: a cache or compression stood in between".
#[test]
fn a_device_that_does_not_count_is_named_wherever_its_counters_are_read() {
    let doubt_of = |silent: &str, is_direct| {
        let made = Made::new();
        made.disk_of_files("stooka");
        let image = made.file("image");
        let device = made.loop_device(image.to_str().unwrap(), is_direct);
        for name in ["loop7", "stooka"] {
            let counts = if name == silent { "0\n" } else { "1\n" };
            made.write(&format!("devices/{name}/queue/iostats"), counts);
        }
        made.below(device).if_counted().doubt().map(str::to_owned)
    };
    let doubt = |name: &str| Some(format!("{name} does not count (queue/iostats is 0)"));
    assert_eq!(doubt_of("loop7", true), doubt("loop7"));
    assert_eq!(doubt_of("stooka", true), doubt("stooka"));
    assert_eq!(doubt_of("stooka", false), doubt("stooka"));
    // The counters of a loop device that passes on cached data are not used.
    assert_eq!(doubt_of("loop7", false), None);
    assert_eq!(doubt_of("nobody", true), None);
    // Of a partition the disk is asked, and what is in doubt already stays so.
    let made = Made::new();
    made.write("devices/sdz/queue/iostats", "0\n");
    made.write("devices/sdz/sdz1/partition", "1\n");
    let below = made.below(made.device("sdz/sdz1", (760, 1))).if_counted();
    assert_eq!(below.doubt().map(str::to_owned), doubt("sdz1"));
    let in_doubt = Below { doubt: Some("before".to_owned()), ..below }.if_counted();
    assert_eq!(in_doubt.doubt(), Some("before"));
}

#[test]
fn a_stacked_device_counts_itself_and_names_what_it_is_made_of() {
    let made = Made::new();
    for (minor, name) in ["nvme0n1", "nvme1n1"].into_iter().enumerate() {
        made.device(name, (759, minor as u32));
    }
    let stack = |name: &str, minor: u32, parts: &[&str]| {
        let slaves = made.system.sys.join("devices").join(name).join("slaves");
        fs::create_dir_all(&slaves).unwrap();
        for part in parts {
            symlink(made.system.sys.join("devices").join(part), slaves.join(part)).unwrap();
        }
        made.below(made.device(name, (753, minor)))
    };
    let mirror = stack("md0", 0, &["nvme1n1", "nvme0n1"]);
    assert_eq!(mirror.device_name(), Some("md0 on nvme0n1, nvme1n1"));
    let below = stack("dm-0", 1, &["md0"]);
    assert_eq!(below.device_name(), Some("dm-0 on md0 on nvme0n1, nvme1n1"));
    assert_eq!((names(&below.lowest), below.copies(), below.doubt()), (vec!["dm-0"], 1, None));
    assert_eq!(names(&below.on_the_way), ["dm-0", "md0", "nvme0n1", "nvme1n1"]);
    made.device("zram3", (752, 3));
    let on_memory = stack("dm-1", 2, &["zram3"]);
    let doubt = "below dm-1: zram3 keeps its blocks in memory: this is not a device";
    assert_eq!((on_memory.doubt(), on_memory.device_name()), (Some(doubt), Some("dm-1 on zram3")));
    made.disk_of_files("stooka");
    let image = made.file("image");
    made.loop_device(image.to_str().unwrap(), false);
    assert!(stack("dm-2", 3, &["loop7"]).doubt().unwrap().contains("loop7 serves from the page cache"));
}

#[test]
fn the_layers_of_an_overlay_are_read_as_the_kernel_writes_them() {
    let of = |options: &str| {
        let Layers { upper, lowers, .. } = Layers::of(options);
        (upper, lowers.join("|"))
    };
    let seen = of("rw,relatime rw,lowerdir=d/a\\134\\054b\\134:c:d/low\\040x::/data,upperdir=/up,workdir=/w");
    assert_eq!(seen, (Some("/up".to_owned()), "d/a\\,b\\:c|d/low x|/data".to_owned()));
    let seen = of("ro rw,datadir+=/data,lowerdir+=/low:1,lowerdir+=/low2");
    assert_eq!(seen, (None, "/low:1|/low2|/data".to_owned()));
}

/// An overlay that shows what its layers have: `merged` is the directory `sub` of it, which the
/// upper layer has, too.
fn overlay() -> Made {
    let mut made = Made::new();
    made.disk_of_files("stooka");
    for (layer, name) in [("upper", "new"), ("lo:w", "old"), ("upper", "both")] {
        let held = made.file(&format!("{layer}/sub/{name}"));
        fs::create_dir_all(made.files().join("merged")).unwrap();
        fs::hard_link(held, made.files().join("merged").join(name)).unwrap();
    }
    // What the upper layer has hides this one.
    made.file("lo:w/sub/both");
    let at = made.files().display().to_string();
    let options = format!("rw,lowerdir={at}/lo\\134:w,upperdir={at}/upper,workdir={at}/work");
    for point in ["merged", "upper/sub"] {
        made.mount("/sub", point, &format!("overlay overlay {options}"));
    }
    made
}

#[test]
fn a_file_of_an_overlay_lies_in_the_layer_that_holds_it() {
    let made = overlay();
    let (upper, lower) = ("overlay's upper directory on stooka", "overlay's lower directory on stooka");
    for (path, expected) in [
        ("merged/new", upper),
        ("merged/both", upper),
        ("merged/old", lower),
        // A directory has no second name, so here the overlay is its own layer.
        ("upper/sub", upper),
        ("upper/sub/gone", upper),
    ] {
        assert_eq!(made.below_file(path).device_name(), Some(expected), "{path}");
    }
    made.file("merged/nowhere");
    let below = made.below_file("merged/nowhere");
    assert_eq!(below.doubt(), Some("overlay: no layer that can be seen from here holds the file"));
}

/// Before: any directory at the path of the layer was enough.
#[test]
fn what_lies_over_a_layer_of_an_overlay_is_not_taken_for_it() {
    let made = overlay();
    let files = made.files();
    let hidden = |which: &str, directory: &str| {
        let at = files.display();
        Some(format!("overlay: its {which} directory {at}/{directory} cannot be seen from here"))
    };
    let doubt = |path: &str| made.below_file(path).doubt().map(str::to_owned);
    // Something else of the same names: it has other bytes and other times.
    for path in ["upper/sub/new", "lo:w/sub/old"] {
        fs::remove_file(files.join(path)).unwrap();
        fs::write(files.join(path), "other bytes").unwrap();
    }
    let directory = fs::File::open(files.join("upper/sub")).unwrap();
    directory.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(doubt("merged/new"), hidden("upper", "upper"));
    assert_eq!(doubt("merged/old"), hidden("lower", "lo\\:w"));
    for path in ["merged", "merged/gone"] {
        assert_eq!(doubt(path), hidden("upper", "upper"), "{path}");
    }
    assert_eq!(doubt("merged/both"), None);
    // Something else that has nothing of it.
    fs::remove_dir_all(files.join("upper/sub")).unwrap();
    for path in ["merged", "merged/gone"] {
        assert_eq!(doubt(path), hidden("upper", "upper"), "{path}");
    }
    let below = made.below_file("merged/gone");
    assert_eq!((below.device_name(), below.counters().is_none()), (None, true));
}

#[test]
fn an_overlay_whose_layers_cannot_be_seen_proves_nothing() {
    let mut made = Made::new();
    made.file("merged/file");
    let options = "rw,lowerdir=/stook/no/a:/stook/no/b,upperdir=/stook/no/diff,workdir=/stook/no/work";
    made.mount("/", "merged", &format!("overlay overlay {options}"));
    for path in ["merged/file", "merged/gone"] {
        let doubt = "overlay: its upper directory /stook/no/diff cannot be seen from here";
        assert_eq!(made.below_file(path).doubt(), Some(doubt));
    }
    // Before: it was not said that the path is relative.
    made.system.mounts.clear();
    made.mount("/", "merged", "overlay overlay rw,lowerdir=low,upperdir=up,workdir=work");
    let doubt = "overlay: its upper directory up, a relative path, cannot be seen from here";
    assert_eq!(made.below_file("merged/file").doubt(), Some(doubt));
    made.system.mounts.clear();
    made.mount("/", "merged", "overlay overlay ro,lowerdir=/");
    assert!(made.below_file("merged/gone").doubt().unwrap().contains("it has no upper directory"));
}

/// A btrfs over two devices, with these profiles.
fn btrfs(profiles: &[&str]) -> Made {
    let mut made = Made::new();
    made.mount("/sub", "pool", "btrfs /dev/stookb rw,subvol=/sub");
    made.file("pool/file");
    let devices = made.system.sys.join("fs/btrfs/0123-4567/devices");
    fs::create_dir_all(&devices).unwrap();
    for (minor, name) in ["stooka", "stookb"].into_iter().enumerate() {
        made.device(name, (720, minor as u32));
        symlink(made.system.sys.join("devices").join(name), devices.join(name)).unwrap();
    }
    made.write("fs/btrfs/features/supported", "1\n");
    for profile in profiles {
        let path = format!("fs/btrfs/0123-4567/allocation/data/{profile}/total_bytes");
        made.write(&path, "8388608\n");
    }
    made
}

#[test]
fn btrfs_counts_all_of_its_devices_and_its_copies() {
    for (profile, copies) in [("single", 1), ("raid0", 1), ("dup", 2), ("raid1", 2), ("raid1c3", 3)] {
        let made = btrfs(&[profile]);
        // One that has no room any more is no profile of new data.
        made.write("fs/btrfs/0123-4567/allocation/data/raid1c4/total_bytes", "0\n");
        let below = made.below_file("pool/file");
        assert_eq!((below.device_name(), below.doubt()), (Some("stooka, stookb"), None));
        assert_eq!((below.copies(), below.len()), (copies, Some(2 << 20)), "{profile}");
        let before = below.counters().unwrap();
        made.counts("stooka", 10);
        made.counts("stookb", 30);
        assert_eq!(below.use_between(before, below.counters().unwrap()).write_bytes, 40 * 512);
    }
}

#[test]
fn btrfs_says_where_its_copies_or_devices_are_not_known() {
    let doubt_of = |profiles: &[&str]| btrfs(profiles).below_file("pool/file").doubt().unwrap().to_owned();
    assert!(doubt_of(&["raid5"]).contains("raid5 writes parity: how many bytes are written"));
    assert!(doubt_of(&["dup", "single"]).contains("its data has the profiles dup, single"));
    assert!(doubt_of(&[]).contains("does not report the profile"));
    let made = btrfs(&["single"]);
    made.write("fs/btrfs/0123-4567/devinfo/2/missing", "1\n");
    assert_eq!(made.below_file("pool/file").doubt(), Some("btrfs: one of its devices is missing"));
    let mut made = btrfs(&["single"]);
    made.system.mounts.clear();
    made.mount("/", "pool", "btrfs /dev/stookz rw");
    assert!(made.below_file("pool/file").doubt().unwrap().contains("/dev/stookz cannot be seen from here"));
}

#[test]
fn an_overlay_whose_upper_directory_is_copied_on_write_is_synced_as_a_whole() {
    let overlay = |mut made: Made, upper: &str| {
        let held = made.file(&format!("{upper}/file"));
        fs::create_dir_all(made.files().join("merged")).unwrap();
        fs::hard_link(held, made.files().join("merged/file")).unwrap();
        let upper = made.files().join(upper).display().to_string();
        made.mount("/", "merged", &format!("overlay overlay rw,upperdir={upper},workdir=/w"));
        made.below_file("merged/file").is_copy_on_write()
    };
    assert!(btrfs(&["single"]).below_file("pool/file").is_copy_on_write());
    assert!(overlay(btrfs(&["single"]), "pool/upper"));
    let plain = Made::new();
    plain.disk_of_files("stooka");
    assert!(!overlay(plain, "upper"));
}

#[test]
fn a_loop_device_on_a_mirror_is_held_against_one_copy() {
    let below = |copies_below| {
        let device = btrfs(&["single"]).device("stookc", (721, 0));
        Below { copies_below, ..Below::plain(device) }
    };
    let at = |sectors| Totals { writes: sectors, write_bytes: sectors * 512, ..Totals::default() };
    let counters = |top, lowest| Counters { top: Some(at(top)), lowest: at(lowest), disks: None };
    let written = |below: Below, lowest| below.use_between(counters(0, 0), counters(100, lowest)).write_bytes;
    assert_eq!(written(below(2), 200), 100 * 512);
    assert_eq!(written(below(2), 100), 50 * 512);
    assert_eq!(written(below(1), 100), 100 * 512);
}

#[test]
fn a_device_number_is_asked_before_any_mount() {
    let mut made = Made::new();
    made.device("stookd", (722, 5));
    made.mount("/", ".", "tmpfs tmpfs rw");
    let file = made.file("file");
    let below = made.system.below_file(&file, makedev(722, 5), LAYERS_MAX);
    assert_eq!((below.device_name(), below.doubt()), (Some("stookd"), None));
}
