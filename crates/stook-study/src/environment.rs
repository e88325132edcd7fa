//! The environment of a measurement: kernel, processor, memory, file system, device, versions.
//!
//! Facts that the system does not report are left out; nothing here fails.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use stook::report::time::time_of;
use stook::report::units;

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
        let (file_system, device) = storage(path).unwrap_or_default();
        Self {
            kernel: format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine())),
            processor: processor(),
            memory: memory(),
            file_system,
            device,
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
        [
            ("Kernel", &self.kernel),
            ("Processor", &self.processor),
            ("Memory", &self.memory),
            ("File system", &self.file_system),
            ("Device", &self.device),
            ("Stook", &self.stook),
            ("Time", &self.time),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
    }
}

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
fn storage(path: &Path) -> Option<(String, String)> {
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
    let described = block_device(&format!("/sys/dev/block/{major}:{minor}"))
        .unwrap_or_else(|| format!("{} (no block device)", mount.source));
    Some((format!("{} ({})", mount.kind, mount.options), described))
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

fn block_device(directory: &str) -> Option<String> {
    let link = fs::canonicalize(directory).ok()?;
    // A partition's queue is that of its disk.
    let disk = if link.join("queue").is_dir() { link.as_path() } else { link.parent()? };
    let read = |name: &str| fs::read_to_string(disk.join(name)).ok().map(|text| text.trim().to_owned());
    let name = link.file_name()?.to_string_lossy().into_owned();
    let mut parts = vec![name];
    parts.extend(read("device/model").filter(|model| !model.is_empty()));
    let sectors: Option<u64> =
        fs::read_to_string(link.join("size")).ok().and_then(|text| text.trim().parse().ok());
    parts.extend(sectors.map(|sectors| units::bytes_decimal(sectors * 512)));
    match read("queue/rotational").as_deref() {
        Some("1") => parts.push("said to be rotating".to_owned()),
        Some("0") => parts.push("said not to be rotating".to_owned()),
        _ => {}
    }
    parts.extend(read("queue/read_ahead_kb").map(|kib| format!("read-ahead {kib} KiB")));
    Some(parts.join(", "))
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

    #[test]
    fn the_facts_that_every_linux_tells_are_there() {
        let facts = Environment::of(Path::new("/")).facts();
        for name in ["Kernel", "Processor", "Stook", "Time"] {
            assert!(facts.iter().any(|(fact, value)| fact == name && !value.is_empty()), "{name}: {facts:?}");
        }
    }
}
