//! [`Profile`]: what is known of the storage that holds something: how many reads keep it busy, how
//! long one should be, what an opening costs.
//!
//! What was not measured is assumed by the [`Class`] of the storage, and never by more than the
//! system says for certain: a disk that may or may not rotate is taken for one that does not. What
//! was measured is kept by what the storage *is* ([`Medium`]), so that it is found again under
//! another name, in another machine ([`Profiles`]).
//!
//! What reads or packs asks once for a run, by [`Profile::of`] or [`Profile::of_path`]. Options
//! that a caller sets come before all of it.

mod medium;
mod store;
pub mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

pub use self::medium::Medium;
pub use self::store::{Profiles, SavedProfile, Unusable};
use crate::source::Source;

/// What a gap is at least: below the page of the system nothing is saved.
const GAP_MIN_BYTES: u64 = 4 << 10;
/// And at most, whatever was measured: what is read over is held in memory.
const GAP_MAX_BYTES: u64 = 1 << 20;
/// Bytes in flight at most, whatever depth and length were measured.
const IN_FLIGHT_MAX_BYTES: u64 = 256 << 20;
/// Devices and servers that this process remembers.
const KNOWN_MAX: usize = 256;
/// Problems that are kept until they are taken.
const PROBLEMS_MAX: usize = 16;

/// What kind of storage something is on, as far as that is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// NVMe, SATA without a motor, a disk of a virtual machine, memory, and all of which nothing
    /// else is known.
    Local,
    /// Disks that rotate.
    Rotating,
    /// A file system of another machine.
    Network,
    /// Objects on a server, each read by requests.
    Object,
}

impl Class {
    /// Whether the bytes come from another machine.
    pub const fn is_remote(self) -> bool {
        matches!(self, Self::Network | Self::Object)
    }
}

/// What was measured of a device or a server. What was not is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// The least reads, or requests, in flight at which more bring nothing.
    pub depth: Option<usize>,
    /// The length of one read, or request, at that depth from which on longer ones bring nothing.
    pub block_bytes: Option<u64>,
    /// Files that are opened and read at once until more bring nothing.
    pub opens: Option<usize>,
    /// What opening one cold file takes.
    pub open_ns: Option<u64>,
    /// What one short read, or request, takes when nothing else is in flight.
    pub request_ns: Option<u64>,
    /// Bytes a second in long reads at `depth`.
    pub sequential_bytes_per_s: Option<f64>,
    /// Short reads a second at `depth`.
    pub random_reads_per_s: Option<f64>,
}

impl Measured {
    /// Nothing.
    pub const NOTHING: Self = Self {
        depth: None,
        block_bytes: None,
        opens: None,
        open_ns: None,
        request_ns: None,
        sequential_bytes_per_s: None,
        random_reads_per_s: None,
    };

    /// The name of a value that no measurement gives.
    fn impossible(&self) -> Option<&'static str> {
        let within =
            |value: Option<u64>, least, most| value.is_none_or(|value| (least..=most).contains(&value));
        let is_rate = |value: Option<f64>| value.is_none_or(|value| value.is_finite() && value > 0.0);
        let is_whole = self.block_bytes.is_none_or(|bytes| bytes.is_multiple_of(4096));
        let checks = [
            ("depth", within(self.depth.map(|depth| depth as u64), 1, 1024)),
            ("block_bytes", is_whole && within(self.block_bytes, 4096, 16 << 20)),
            ("opens", within(self.opens.map(|opens| opens as u64), 1, 1024)),
            ("sequential_bytes_per_s", is_rate(self.sequential_bytes_per_s)),
            ("random_reads_per_s", is_rate(self.random_reads_per_s)),
        ];
        checks.into_iter().find_map(|(name, is_possible)| (!is_possible).then_some(name))
    }

    /// How much is read in the time that one more short read takes of a device that is kept busy.
    fn gap_bytes(&self) -> Option<u64> {
        let bytes = self.sequential_bytes_per_s? / self.random_reads_per_s?;
        Some((bytes as u64 / GAP_MIN_BYTES * GAP_MIN_BYTES).clamp(GAP_MIN_BYTES, GAP_MAX_BYTES))
    }
}

/// How some storage is read best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// What kind it is.
    pub class: Class,
    /// Reads, or requests, in flight at most.
    pub depth: usize,
    /// The longest single read or request; more is split.
    pub block_bytes: u64,
    /// Unwanted bytes between two wanted ranges that are read over, past the page cache: they take
    /// no longer than one more read.
    pub gap_bytes: u64,
    /// Files that are opened and read at once.
    pub opens: usize,
    /// What of this, and what else, was measured.
    pub measured: Measured,
}

impl Profile {
    /// Where nothing is known, and where what is known makes no difference.
    ///
    /// 32 reads of 1 MiB filled the NVMe and virtual disks that they were measured on; SATA has
    /// places for 32. Such a disk did 52,000 short reads a second and 1.7 GB/s, so that 32 KiB take
    /// as long as one more read. 128 threads wait for openings, not for processors.
    pub const LOCAL: Self = Self {
        class: Class::Local,
        depth: 32,
        block_bytes: 1 << 20,
        gap_bytes: 32 << 10,
        opens: 128,
        measured: Measured::NOTHING,
    };

    /// Disks that rotate. A seek and half a turn take 5 ms or more, also where a queue of 32 is
    /// sorted, and in 5 ms 1 MiB passes at 200 MB/s. Half of that, so that it surely is no loss.
    pub const ROTATING: Self = Self { class: Class::Rotating, gap_bytes: 512 << 10, ..Self::LOCAL };

    /// File systems of other machines. One more read costs the other machine's work and a message
    /// each way, half a millisecond, in which 64 KiB pass through 1 Gbit/s. 1 MiB is the longest
    /// read of NFS.
    pub const NETWORK: Self = Self { class: Class::Network, gap_bytes: 64 << 10, ..Self::LOCAL };

    /// Objects. Each request takes as long as some megabytes, so it asks for 8 MiB; eight of them
    /// fill a line and are no burden to a server.
    pub const OBJECT: Self =
        Self { class: Class::Object, depth: 8, block_bytes: 8 << 20, gap_bytes: 256 << 10, ..Self::LOCAL };

    /// What is assumed where nothing was measured.
    pub const fn assumed(class: Class) -> Self {
        match class {
            Class::Local => Self::LOCAL,
            Class::Rotating => Self::ROTATING,
            Class::Network => Self::NETWORK,
            Class::Object => Self::OBJECT,
        }
    }

    /// What was measured, and where it was not, what is assumed. Where both depth and length are
    /// great, reads are shorter, so that what is in flight stays bounded.
    pub fn new(class: Class, measured: Measured) -> Self {
        let assumed = Self::assumed(class);
        let depth = measured.depth.unwrap_or(assumed.depth).max(1);
        let longest = IN_FLIGHT_MAX_BYTES / depth as u64 / 4096 * 4096;
        Self {
            class,
            depth,
            block_bytes: measured.block_bytes.unwrap_or(assumed.block_bytes).min(longest.max(4096)),
            gap_bytes: measured.gap_bytes().unwrap_or(assumed.gap_bytes),
            opens: measured.opens.unwrap_or(assumed.opens),
            measured,
        }
    }

    /// That of what holds a source. It never fails: what cannot be found out is not known.
    pub fn of(source: &dyn Source) -> Self {
        if source.reads_by_request() {
            let medium = Medium::of_address(&source.path().to_string_lossy());
            let key = (0, medium.key().unwrap_or_default().to_owned());
            return remembered(key, || found(&medium));
        }
        match source.identity().device {
            // It is in memory, or made of others.
            0 => Self::LOCAL,
            device => Self::on(source.path(), device),
        }
    }

    /// That of what holds a file or directory.
    pub fn of_path(path: &Path) -> Self {
        fs::metadata(path).map_or(Self::LOCAL, |metadata| Self::on(path, metadata.dev()))
    }

    fn on(path: &Path, device: u64) -> Self {
        remembered((device, String::new()), || found(&Medium::on(path, device)))
    }
}

/// What was kept of a medium. That it cannot be used is noted, and no more.
fn found(medium: &Medium) -> Profile {
    Profiles::of_user().profile_of(medium).unwrap_or_else(|problem| {
        if let Ok(mut problems) = PROBLEMS.try_lock()
            && problems.len() < PROBLEMS_MAX
        {
            problems.push(problem);
        }
        Profile::assumed(medium.class())
    })
}

/// What this process knows, by the number of a device or by the key of a server.
type Known = BTreeMap<(u64, String), Profile>;

// Neither is waited for: in a forked child, a thread that is not there may hold them for ever.
static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
static PROBLEMS: Mutex<Vec<Unusable>> = Mutex::new(Vec::new());

fn remembered(key: (u64, String), look: impl FnOnce() -> Profile) -> Profile {
    if let Ok(known) = KNOWN.try_lock()
        && let Some(profile) = known.get(&key)
    {
        return *profile;
    }
    let profile = look();
    if let Ok(mut known) = KNOWN.try_lock()
        && known.len() < KNOWN_MAX
    {
        known.insert(key, profile);
    }
    profile
}

/// What was kept and could not be used, since this was asked last: each once for a process, for
/// people to read.
pub fn take_problems() -> Vec<Unusable> {
    PROBLEMS.try_lock().map(|mut problems| std::mem::take(&mut *problems)).unwrap_or_default()
}
