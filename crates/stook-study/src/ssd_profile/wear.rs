//! How much of its life a drive has spent, as far as it says so.
//!
//! `smartctl` asks the drive itself, and is run where it is installed and allowed to; ext4 counts
//! what was written to a file system in its life. Nothing here fails: what is not to be had is
//! said.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;
use stook::device::Attachment;
use stook::report::units::{bytes_decimal, percent};

/// A unit of NVMe: 1000 blocks of 512 bytes.
const NVME_UNIT_BYTES: u64 = 512_000;
/// What logical blocks have where a drive does not say.
const BLOCK_BYTES: u64 = 512;

/// What a drive, or a file system on it, says of its life.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Wear {
    /// The disk that was asked: `/dev/nvme0n1`.
    pub disk: Option<String>,
    /// How much of its rated life is used, as a share; it may be more than 1.
    pub used_share: Option<f64>,
    /// Bytes that were written to it by its own count.
    pub written_bytes: Option<u64>,
    /// Its capacity.
    pub capacity_bytes: Option<u64>,
    /// Hours that it was switched on.
    pub power_on_h: Option<u64>,
    /// Bytes that were written to the file system in its life, by its own count.
    pub file_system_written_bytes: Option<u64>,
    /// Why the drive itself says nothing; absent where it does.
    pub not_reported: Option<String>,
}

impl Wear {
    /// That of the disk that a path lies on.
    pub(super) fn of(path: &Path) -> Self {
        let attachment = Attachment::of(path);
        let asked = match attachment.disks.as_slice() {
            [disk] => asked(&disk.name),
            [] => silent(None, "no disk is known below it"),
            _ => silent(None, "it lies on several disks"),
        };
        Self { file_system_written_bytes: written_to_file_system(path, Path::new("/sys")), ..asked }
    }

    /// What is known, as a sentence.
    pub(super) fn said(&self) -> String {
        let mut known = Vec::new();
        known.extend(self.used_share.map(|share| format!("{} of its life is used", percent(share))));
        known.extend(self.written_bytes.map(|bytes| format!("{} were written to it", bytes_decimal(bytes))));
        known.extend(self.capacity_times().map(|times| format!("{times:.1} times its capacity")));
        known.extend(self.power_on_h.map(|hours| format!("{hours} hours switched on")));
        let drive = match (&self.not_reported, known.is_empty()) {
            (None, false) => format!("The drive says: {}.", known.join(", ")),
            (Some(why), _) => format!("Wear is not reported here: {why}."),
            (None, true) => "Wear is not reported here.".to_owned(),
        };
        let file_system = self.file_system_written_bytes.map_or_else(String::new, |bytes| {
            format!(
                " {} were written to the file system in its life, by its own count.",
                bytes_decimal(bytes)
            )
        });
        let endurance = self.endurance_tb_per_tb().map_or_else(String::new, |endurance| {
            format!(" So it lasts for {endurance:.0} TB for each TB of its capacity.")
        });
        format!("{drive}{endurance}{file_system}")
    }

    /// How often its capacity was written.
    fn capacity_times(&self) -> Option<f64> {
        Some(self.written_bytes? as f64 / self.capacity_bytes.filter(|bytes| *bytes > 0)? as f64)
    }

    /// Bytes for each byte of capacity that it lasts for, if it goes on as it did: what was written
    /// ÷ the share that is used. Drives count whole per cents: below one nothing follows.
    pub(super) fn endurance_tb_per_tb(&self) -> Option<f64> {
        Some(self.capacity_times()? / self.used_share.filter(|share| *share >= 0.01)?)
    }
}

fn silent(disk: Option<&str>, why: impl Into<String>) -> Wear {
    Wear { disk: disk.map(str::to_owned), not_reported: Some(why.into()), ..Wear::default() }
}

/// Asks a disk through `smartctl`. Its exit code is a set of bits, of which some mean that the
/// answer is whole: what it prints counts.
fn asked(disk: &str) -> Wear {
    let output = Command::new("smartctl").args(["--json", "--all", disk]).stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return silent(Some(disk), "smartctl is not installed");
        }
        Err(error) => return silent(Some(disk), format!("smartctl cannot be run: {error}")),
    };
    let Ok(answer) = serde_json::from_slice(&output.stdout) else {
        return silent(Some(disk), "smartctl did not answer in JSON");
    };
    Wear { disk: Some(disk.to_owned()), ..answered(&answer) }
}

/// What the answer of `smartctl` holds.
fn answered(answer: &Value) -> Wear {
    let number = |pointer: &str| answer.pointer(pointer).and_then(Value::as_u64);
    let nvme = |name: &str| number(&format!("/nvme_smart_health_information_log/{name}"));
    let used_per_cent = nvme("percentage_used")
        .or_else(|| number("/endurance_used/current_percent"))
        .or_else(|| attribute(answer, LEFT_PER_CENT, "/value").map(|left| 100_u64.saturating_sub(left)));
    let written_bytes = nvme("data_units_written")
        .map(|units| units.saturating_mul(NVME_UNIT_BYTES))
        .or_else(|| written_by_attributes(answer));
    let wear = Wear {
        used_share: used_per_cent.map(|used| used as f64 / 100.0),
        written_bytes,
        capacity_bytes: number("/user_capacity/bytes"),
        power_on_h: number("/power_on_time/hours"),
        ..Wear::default()
    };
    if wear.used_share.is_some() || wear.written_bytes.is_some() {
        return wear;
    }
    let message = answer.pointer("/smartctl/messages/0/string").and_then(Value::as_str);
    let why = message
        .map_or_else(|| "the drive does not say it".to_owned(), |text| format!("smartctl says {text:?}"));
    Wear { not_reported: Some(why), ..wear }
}

/// Attributes of SATA whose value is what is left, in per cent.
const LEFT_PER_CENT: &[&str] =
    &["Media_Wearout_Indicator", "SSD_Life_Left", "Percent_Lifetime_Remain", "Wear_Leveling_Count"];

/// A part of the first of these attributes that a drive has.
fn attribute(answer: &Value, names: &[&str], pointer: &str) -> Option<u64> {
    let table = answer.pointer("/ata_smart_attributes/table")?.as_array()?;
    let named = |name: &&str| table.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(*name));
    names.iter().find_map(named)?.pointer(pointer)?.as_u64()
}

/// Makers count what was written in units of their own, which the names say.
fn written_by_attributes(answer: &Value) -> Option<u64> {
    let block_bytes = answer.pointer("/logical_block_size").and_then(Value::as_u64).unwrap_or(BLOCK_BYTES);
    let units: [(&[&str], u64); 3] = [
        (&["Total_LBAs_Written"], block_bytes),
        (&["Host_Writes_32MiB"], 32 << 20),
        (&["Host_Writes_GiB", "Lifetime_Writes_GiB"], 1 << 30),
    ];
    let written = |(names, unit_bytes): (&[&str], u64)| {
        Some(attribute(answer, names, "/raw/value")?.saturating_mul(unit_bytes))
    };
    units.into_iter().find_map(written)
}

/// What ext4 counts of a file system, in KiB.
fn written_to_file_system(path: &Path, sys: &Path) -> Option<u64> {
    let device = fs::metadata(path).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    let name = link.file_name()?;
    let text = fs::read_to_string(sys.join("fs/ext4").join(name).join("lifetime_write_kbytes")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_nvme_drive_says_is_understood() {
        let answer = json!({
            "user_capacity": { "bytes": 1_000_000_000_000_u64 },
            "power_on_time": { "hours": 1200 },
            "nvme_smart_health_information_log": { "percentage_used": 4, "data_units_written": 50_000_000 },
        });
        let wear = answered(&answer);
        assert_eq!((wear.used_share, wear.written_bytes), (Some(0.04), Some(25_600_000_000_000)));
        assert_eq!((wear.power_on_h, wear.not_reported.clone()), (Some(1200), None));
        assert_eq!(wear.endurance_tb_per_tb().map(f64::round), Some(640.0));
        assert_eq!(
            wear.said(),
            "The drive says: 4.0% of its life is used, 25.6 TB were written to it, 25.6 times its capacity, 1200 hours \
             switched on. So it lasts for 640 TB for each TB of its capacity."
        );
    }

    #[test]
    fn what_a_sata_drive_says_is_counted_in_the_units_that_its_names_say() {
        let with = |name: &str, raw: u64| {
            answered(&json!({
                "logical_block_size": 512,
                "ata_smart_attributes": { "table": [
                    { "id": 177, "name": "Wear_Leveling_Count", "value": 93, "raw": { "value": 80 } },
                    { "id": 241, "name": name, "value": 99, "raw": { "value": raw } },
                ] },
            }))
        };
        let blocks = with("Total_LBAs_Written", 1_000_000);
        assert_eq!((blocks.used_share, blocks.written_bytes), (Some(0.07), Some(512_000_000)));
        assert_eq!(with("Host_Writes_32MiB", 3).written_bytes, Some(96 << 20));
        assert_eq!(with("Lifetime_Writes_GiB", 3).written_bytes, Some(3 << 30));
        assert_eq!(with("Something_Else", 3).written_bytes, None);
        // Without a capacity nothing follows from both.
        assert_eq!(blocks.endurance_tb_per_tb(), None);
    }

    #[test]
    fn a_drive_that_says_nothing_is_no_error() {
        let refused = answered(&json!({ "smartctl": { "messages": [{ "string": "Permission denied" }] } }));
        assert_eq!(refused.said(), "Wear is not reported here: smartctl says \"Permission denied\".");
        assert_eq!(answered(&json!({})).said(), "Wear is not reported here: the drive does not say it.");
        assert_eq!(answered(&json!([1])).used_share, None);
        // Whole per cents say nothing of what a new drive lasts for.
        let new = json!({
            "user_capacity": { "bytes": 1_000_000_000_000_u64 },
            "nvme_smart_health_information_log": { "percentage_used": 0, "data_units_written": 50_000_000 },
        });
        assert_eq!(answered(&new).endurance_tb_per_tb(), None);
    }

    #[test]
    fn what_a_file_system_counts_is_found_by_the_device_of_a_path() {
        let sys = tempfile::tempdir().unwrap();
        let place = tempfile::tempdir().unwrap();
        assert_eq!(written_to_file_system(place.path(), sys.path()), None);
        let device = fs::metadata(place.path()).unwrap().dev();
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let counted = sys.path().join("fs/ext4/disk1");
        fs::create_dir_all(&counted).unwrap();
        fs::create_dir_all(sys.path().join("devices/disk1")).unwrap();
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        let link = sys.path().join("dev/block").join(number);
        std::os::unix::fs::symlink(sys.path().join("devices/disk1"), link).unwrap();
        fs::write(counted.join("lifetime_write_kbytes"), "12\n").unwrap();
        assert_eq!(written_to_file_system(place.path(), sys.path()), Some(12 * 1024));
        fs::write(counted.join("lifetime_write_kbytes"), "none\n").unwrap();
        assert_eq!(written_to_file_system(place.path(), sys.path()), None);
    }
}
