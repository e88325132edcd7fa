//! The environment of a measurement: kernel, processor, memory, file system, device, versions.
//!
//! Facts that the system does not report are left out; nothing here fails.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use stook::device::Attachment;
use stook::report::time::time_of;
use stook::report::units;

use crate::frame::Conclusion;
use crate::verdict::Verdict;

/// Facts about a machine and a place on it, in the order in which they are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Environment {
    /// Operating system and kernel.
    pub kernel: String,
    /// Processor and how many of its threads there are.
    pub processor: String,
    /// Memory.
    pub memory: String,
    /// Type and mount options of the file system.
    pub file_system: String,
    /// The device below it.
    pub device: String,
    /// Whether that device says that it rotates, where that means something.
    pub rotates: Option<bool>,
    /// Its temperature as its sensor reports it, in degrees Celsius.
    pub temperature_c: Option<i64>,
    /// The link by which it is connected, as it was negotiated.
    pub link: String,
    /// The version of Stook and of the compiler that may be found.
    pub stook: String,
    /// When, in UTC.
    pub time: String,
}

impl Environment {
    /// The environment of data below `path`.
    pub fn of(path: &Path) -> Self {
        let uname = rustix::system::uname();
        let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
        let Storage { file_system, device, rotates, temperature_c } = storage(path).unwrap_or_default();
        Self {
            kernel: format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine())),
            processor: processor(),
            memory: memory(),
            file_system,
            device,
            rotates,
            temperature_c,
            link: link(path),
            stook: format!(
                "{} ({})",
                env!("CARGO_PKG_VERSION"),
                if cfg!(debug_assertions) { "debug" } else { "release" }
            ),
            time: now(),
        }
    }

    /// The facts with their names; those that are not known are left out.
    pub fn facts(&self) -> Vec<(String, String)> {
        let rotates =
            self.rotates.map(|rotates| if rotates { "said to rotate" } else { "said not to rotate" });
        let facts = [
            ("Kernel", self.kernel.clone()),
            ("Processor", self.processor.clone()),
            ("Memory", self.memory.clone()),
            ("File system", self.file_system.clone()),
            ("Device", self.device.clone()),
            ("Rotation", rotates.unwrap_or(UNKNOWN).to_owned()),
            (
                "Temperature",
                self.temperature_c.map_or_else(|| UNKNOWN.to_owned(), |degrees| format!("{degrees} °C")),
            ),
            ("Link", if self.link.is_empty() { UNKNOWN.to_owned() } else { self.link.clone() }),
            ("Stook", self.stook.clone()),
            ("Time", self.time.clone()),
        ];
        let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
        known.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// What kind of device data lies on, as far as the system tells: the one rule for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    /// A disk that rotates.
    HardDisk,
    /// An SSD that is linked by NVMe.
    NvmeSsd,
    /// An SSD that is linked by SATA or SAS.
    SataSsd,
    /// Another device that says that it does not rotate.
    OtherSsd,
    /// One that does not say, as virtual disks do not.
    Unknown,
}

impl DeviceKind {
    /// Whether it is an SSD.
    pub(crate) fn is_ssd(self) -> bool {
        matches!(self, Self::NvmeSsd | Self::SataSsd | Self::OtherSsd)
    }

    /// Why nothing is judged of SSDs, or of disks.
    pub(crate) const UNKNOWN: &'static str = "The device does not say whether it rotates.";
}

impl Environment {
    /// The kind of the device.
    pub(crate) fn kind(&self) -> DeviceKind {
        let is_named = |name: &str| self.device.starts_with(name);
        match self.rotates {
            Some(true) => DeviceKind::HardDisk,
            _ if is_named("nvme") => DeviceKind::NvmeSsd,
            Some(false) if is_named("sd") => DeviceKind::SataSsd,
            Some(false) => DeviceKind::OtherSsd,
            None => DeviceKind::Unknown,
        }
    }
}

/// Whether what lies there is in memory, and on no device.
pub(crate) fn is_memory(path: &Path) -> bool {
    Attachment::of(path).is_memory
}

/// What an answer begins with where data lies in memory.
pub(crate) fn memory_first(is_memory: bool) -> &'static str {
    if is_memory { "The data lies in memory, and on no device. " } else { "" }
}

/// Where data lies in memory nothing is judged of a device: what was found stands beside.
pub(crate) fn nothing_of_a_device(mut conclusions: Vec<Conclusion>) -> Vec<Conclusion> {
    for one in conclusions.iter_mut().filter(|one| one.verdict != Verdict::NotMeasured) {
        one.verdict = Verdict::NotMeasured;
        one.here = format!("{}{}", memory_first(true), one.here);
    }
    conclusions
}

/// What is asked of every device, and not every one tells.
const UNKNOWN: &str = "not reported here";

/// The first line that a program prints for its version option.
pub fn version_of(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// To the second.
fn now() -> String {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    time_of((since_1970.as_secs() as i64).saturating_mul(1_000_000_000))
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("unknown model", |(_, name)| name.trim());
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {threads} threads")
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let kib: u64 = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(units::bytes_binary(kib * 1024))
    });
    total.unwrap_or_default()
}

/// File system and device of a path.
#[derive(Default)]
struct Storage {
    file_system: String,
    device: String,
    rotates: Option<bool>,
    temperature_c: Option<i64>,
}

fn storage(path: &Path) -> Option<Storage> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .filter(|mount| path.starts_with(&mount.point))
        // Of two mounts on one place the later hides the earlier.
        .fold(None, |best: Option<Mount>, mount| match best {
            Some(best) if best.point.len() > mount.point.len() => Some(best),
            _ => Some(mount),
        })?;
    let device = fs::metadata(&path).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file_system = format!("{} ({})", mount.kind, mount.options);
    let Some(disk) = BlockDevice::of(Path::new(&format!("/sys/dev/block/{major}:{minor}"))) else {
        let device = format!("{} (no block device)", mount.source);
        return Some(Storage { file_system, device, ..Storage::default() });
    };
    Some(Storage {
        file_system,
        device: disk.described(),
        rotates: rotates(&Attachment::of(&path)),
        temperature_c: disk.temperature_c(),
    })
}

/// Whether the disks below rotate, where they are alike and their answer means something: a kernel
/// says so of whatever does not deny it, as of virtual disks.
fn rotates(below: &Attachment) -> Option<bool> {
    let each: Vec<bool> = below.disks.iter().map(|disk| disk.rotates).collect::<Option<_>>()?;
    let first = *each.first()?;
    each.iter().all(|rotates| *rotates == first).then_some(first)
}

/// The link of what is below a path, and the rate that it carries.
fn link(path: &Path) -> String {
    let attachment = Attachment::of(path);
    match (attachment.link_in_words(), attachment.read_limit_bytes_per_s()) {
        (Some(words), Some(limit)) => format!("{words}, at most {}", units::rate(limit)),
        _ => String::new(),
    }
}

/// A line of mountinfo.
struct Mount {
    point: String,
    options: String,
    kind: String,
    source: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(4);
        let (point, options) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        Some(Self {
            // Spaces in names are written as octal.
            point: point.replace("\\040", " "),
            options: options.to_owned(),
            kind: after.next()?.to_owned(),
            source: after.next()?.to_owned(),
        })
    }
}

/// Where something is mounted.
pub(crate) fn mount_points() -> Vec<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    mounts.lines().filter_map(Mount::parse).map(|mount| PathBuf::from(mount.point)).collect()
}

/// A block device as `/sys` describes it.
struct BlockDevice {
    /// It, or a partition.
    link: PathBuf,
    /// Its disk: a partition's queue is that of its disk.
    disk: PathBuf,
}

impl BlockDevice {
    fn of(directory: &Path) -> Option<Self> {
        let link = fs::canonicalize(directory).ok()?;
        let disk = if link.join("queue").is_dir() { link.clone() } else { link.parent()?.to_owned() };
        Some(Self { link, disk })
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.disk.join(name)).ok().map(|text| text.trim().to_owned())
    }

    fn described(&self) -> String {
        let name = self.link.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = vec![name];
        parts.extend(self.read("device/model").filter(|model| !model.is_empty()));
        let sectors: Option<u64> =
            fs::read_to_string(self.link.join("size")).ok().and_then(|text| text.trim().parse().ok());
        parts.extend(sectors.map(|sectors| units::bytes_decimal(sectors * 512)));
        parts.extend(self.read("queue/read_ahead_kb").map(|kib| format!("read-ahead {kib} KiB")));
        parts.join(", ")
    }

    /// NVMe keeps its sensors beside the device, disks of SCSI below `hwmon`; both in thousandths.
    fn temperature_c(&self) -> Option<i64> {
        let places = ["device", "device/hwmon", "device/device/hwmon"];
        let sensors = places.iter().filter_map(|place| fs::read_dir(self.disk.join(place)).ok()).flatten();
        let mut inputs = sensors.flatten().filter_map(|entry| {
            let name = entry.file_name();
            let is_sensor = name.to_string_lossy().starts_with("hwmon");
            let text = is_sensor.then(|| fs::read_to_string(entry.path().join("temp1_input")).ok())??;
            text.trim().parse::<i64>().ok()
        });
        inputs.next().map(|thousandths| thousandths / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_path_is_understood() {
        let line = "31 24 0:27 / /mnt/a\\040b rw,noatime shared:1 - tmpfs none rw,size=1k";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.point.as_str(), mount.options.as_str()), ("/mnt/a b", "rw,noatime"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("tmpfs", "none"));
        assert!(Mount::parse("nonsense").is_none());
    }

    /// Before: seven conclusions of a device were judged on tmpfs.
    #[test]
    fn nothing_is_judged_of_a_device_where_there_is_none() {
        let one = |verdict| Conclusion {
            section: "",
            published: "",
            check: "",
            verdict_of_published: Verdict::Holds,
            figures_of_published: String::new(),
            verdict,
            here: "1.36 times.".to_owned(),
        };
        let judged = [Verdict::Holds, Verdict::DoesNotHold, Verdict::NotMeasured].map(one);
        let all = nothing_of_a_device(judged.into());
        assert!(all.iter().all(|one| one.verdict == Verdict::NotMeasured));
        assert_eq!(all[0].here, "The data lies in memory, and on no device. 1.36 times.");
        assert_eq!(all[0].verdict_of_published, Verdict::Holds);
    }

    /// Before: two studies had a rule each for what an SSD is.
    #[test]
    fn what_does_not_say_whether_it_rotates_is_of_no_kind() {
        let kind = |device: &str, rotates| {
            Environment { device: device.to_owned(), rotates, ..Environment::default() }.kind()
        };
        let all = [
            kind("vda1, 40 GB", None),
            kind("sda1, Blue", Some(true)),
            kind("sda1, SanDisk", Some(false)),
            kind("nvme0n1p2, Rocket", Some(false)),
            kind("mmcblk0", Some(false)),
        ];
        assert_eq!(
            all,
            [
                DeviceKind::Unknown,
                DeviceKind::HardDisk,
                DeviceKind::SataSsd,
                DeviceKind::NvmeSsd,
                DeviceKind::OtherSsd
            ]
        );
        assert_eq!(all.map(DeviceKind::is_ssd), [false, false, true, true, true]);
    }

    #[test]
    fn a_device_is_described_by_what_the_system_says_of_it() {
        let disk = tempfile::tempdir().unwrap();
        let part = disk.path().join("part1");
        for (name, text) in [
            ("part1/size", "2000\n"),
            ("queue/rotational", "1\n"),
            ("queue/read_ahead_kb", "128\n"),
            ("device/model", "Rocket  \n"),
            ("device/hwmon3/temp1_input", "41850\n"),
        ] {
            let path = disk.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let device = BlockDevice::of(&part).unwrap();
        assert_eq!(device.described(), "part1, Rocket, 1.02 MB, read-ahead 128 KiB");
        assert_eq!(
            (device.read("queue/rotational").as_deref(), device.temperature_c()),
            (Some("1"), Some(41))
        );
        fs::remove_dir_all(disk.path().join("device")).unwrap();
        assert_eq!(device.temperature_c(), None);
    }

    #[test]
    fn the_facts_that_every_linux_tells_are_there() {
        let facts = Environment::of(Path::new("/")).facts();
        for name in ["Kernel", "Processor", "Stook", "Time"] {
            assert!(facts.iter().any(|(fact, value)| fact == name && !value.is_empty()), "{name}: {facts:?}");
        }
    }
}
