//! [`Attachment`]: what a file or directory lies on, and how that is connected: for people who want
//! to know what holds their bytes up.

#[cfg(test)]
mod tests;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::block::BlockDevice;
use super::link::Link;
use super::{Below, Mount, System, memory};
use crate::source::shown;

/// How a disk is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// USB, of any generation.
    Usb,
    /// Serial ATA.
    Sata,
    /// NVMe.
    Nvme,
    /// A card in a slot of the machine: SD or MMC.
    Card,
    /// SCSI of another kind: SAS, iSCSI.
    Scsi,
    /// A hypervisor shows it: what is below cannot be seen from here.
    Virtual,
    /// The system does not say.
    Unknown,
}

impl Transport {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usb => "usb",
            Self::Sata => "sata",
            Self::Nvme => "nvme",
            Self::Card => "card",
            Self::Scsi => "scsi",
            Self::Virtual => "virtual",
            Self::Unknown => "unknown",
        }
    }
}

/// A whole disk.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Disk {
    /// Its name: `/dev/sdb`.
    pub name: String,
    /// What it says of itself. It may be any text.
    pub model: Option<String>,
    /// How it is connected.
    pub transport: Transport,
    /// Whether it rotates; `None` where the answer means nothing, as behind a bridge to USB.
    pub rotates: Option<bool>,
    /// Whether it takes cards, which may be slower than its link.
    pub is_card_reader: bool,
    /// The narrowest link on the way to it. `None` where that is not known.
    pub link: Option<Link>,
}

impl Disk {
    fn new(device: &BlockDevice) -> Self {
        let (model, transport) = (device.model(), device.transport());
        let rotates = match device.fact("queue/rotational").as_deref() {
            Some("0") => Some(false),
            _ => device.surely_rotates().then_some(true),
        };
        let text = model.as_deref().unwrap_or_default().to_ascii_lowercase();
        let says_card = ["card", "sd/mmc", "reader"].iter().any(|word| text.contains(word));
        Self {
            // The kernel writes an exclamation mark for a slash.
            name: format!("/dev/{}", device.name().replace('!', "/")),
            is_card_reader: transport == Transport::Usb && says_card,
            link: device.link(),
            rotates,
            model,
            transport,
        }
    }
}

/// What a file or directory lies on. What is not known is `None`, or empty.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Attachment {
    /// The type of the file system: `ext4`.
    pub file_system: Option<String>,
    /// Every device, from the top down: `sdb1`, `loop0 (direct I/O) on sda2`.
    pub device: Option<String>,
    /// Of a network file system the server, without the name of a user.
    pub server: Option<String>,
    /// Whether the files are kept in memory.
    pub is_memory: bool,
    /// A device on the way that may answer from the memory of this machine whatever is asked past
    /// the page cache: `loop0 (through the page cache)`, `zram0 (memory)`.
    pub cached_by: Option<String>,
    /// The whole disks that hold the bytes.
    pub disks: Vec<Disk>,
    /// How often a byte that is written reaches the disks. `None` where that is not known, or it
    /// is not known which of several disks a byte is on.
    copies: Option<u64>,
}

impl Attachment {
    /// That of a file or directory; of one that is not there, that of the first directory above it
    /// that is.
    pub fn of(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let there = absolute.ancestors().find_map(|path| Some((path, path.metadata().ok()?.dev())));
        let Some((path, device)) = there else { return Self::default() };
        Self::in_system(&System::here(), path, device)
    }

    pub(super) fn in_system(system: &System, path: &Path, device: u64) -> Self {
        let mount = system.mount_of(path);
        let below = system.below(path, device);
        let disks: Vec<Disk> = below.disks_at_the_end().iter().map(Disk::new).collect();
        let kind = mount.as_ref().map(|mount| mount.kind.as_str()).unwrap_or_default();
        Self {
            device: below.device_name().map(str::to_owned),
            server: mount.as_ref().and_then(server_of),
            is_memory: disks.is_empty() && memory::is_file_system(kind),
            cached_by: below.cached_by(),
            copies: copies_known(&below, &disks),
            file_system: mount.as_ref().map(|mount| mount.kind.clone()),
            disks,
        }
    }

    /// Disks that each byte is written to this many times, for tests.
    #[cfg(test)]
    pub(crate) fn of_links(disks: &[(&str, &str, f64)], copies: u64) -> Self {
        let disk = |(name, link, limit): &(&str, &str, f64)| Disk {
            name: (*name).to_owned(),
            model: None,
            transport: Transport::Usb,
            rotates: None,
            is_card_reader: false,
            link: Some(Link::with_limit(link, *limit)),
        };
        Self { disks: disks.iter().map(disk).collect(), copies: Some(copies), ..Self::default() }
    }

    /// The most bytes a second that can be read: what fits through the links of all disks together.
    /// `None` where one of them is not known.
    pub fn read_limit_bytes_per_s(&self) -> Option<f64> {
        self.copies?;
        let limits: Option<Vec<f64>> =
            self.disks.iter().map(|disk| Some(disk.link.as_ref()?.limit_bytes_per_s)).collect();
        limits.filter(|limits| !limits.is_empty()).map(|limits| limits.iter().sum())
    }

    /// The same of what is written, which may be written more than once.
    pub fn write_limit_bytes_per_s(&self) -> Option<f64> {
        Some(self.read_limit_bytes_per_s()? / self.copies? as f64)
    }

    /// The links that limit it, in words: `the USB 3.0 link of /dev/sdb`. `None` where one of them
    /// is not known.
    pub fn link_in_words(&self) -> Option<String> {
        self.read_limit_bytes_per_s()?;
        let names: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
        let links: Vec<&Link> = self.disks.iter().filter_map(|disk| disk.link.as_ref()).collect();
        let first = links.first()?;
        let kind = if links.iter().all(|link| link.name == first.name) { first.name.as_str() } else { "" };
        let many = if links.len() == 1 { "link" } else { "links" };
        let reader = if self.disks.iter().any(|disk| disk.is_card_reader) { " (a card reader)" } else { "" };
        let text = format!("the {kind} {many} of {}{reader}", in_a_row(&names));
        Some(text.replace("  ", " "))
    }

    /// What would make it faster, for each disk that could do more: `/dev/sdb (SanDisk) is
    /// connected by USB 2.0 and could do USB 3.0: the cable, the port or a hub may be why`.
    pub fn advice(&self) -> Vec<String> {
        let of = |disk: &Disk| {
            let link = disk.link.as_ref()?;
            let (better, why) = (link.capable_of.as_deref()?, link.why_slower?);
            let model = disk.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
            Some(format!(
                "{}{model} is connected by {} and could do {better}: {why} may be why",
                disk.name, link.name
            ))
        };
        self.disks.iter().filter_map(of).collect()
    }

    /// Whether two lie on the same disks.
    pub fn is_same_disks(&self, other: &Self) -> bool {
        let names = |of: &Self| of.disks.iter().map(|disk| disk.name.clone()).collect::<Vec<_>>();
        !self.disks.is_empty() && names(self) == names(other)
    }
}

/// `a`, `a and b`, `a, b and c`.
fn in_a_row(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// How often a byte that is written reaches the disks, where that is known: with one disk, or where
/// the file system itself is on several.
fn copies_known(below: &Below, disks: &[Disk]) -> Option<u64> {
    let is_certain = below.doubt().is_none();
    match disks {
        [] => None,
        [_] => Some(below.copies_at_the_end()),
        // Stacks of devices do not say how they use those below.
        several => (is_certain && below.top.len() == several.len()).then(|| below.copies_at_the_end()),
    }
}

/// The server of a network file system, as far as the mount names it. The name of a user, and what
/// may be a secret, is left out.
fn server_of(mount: &Mount) -> Option<String> {
    let source = mount.source.as_str();
    let server = match mount.kind.as_str() {
        "nfs" | "nfs4" | "ceph" | "fuse.sshfs" => {
            source.rsplit_once(":/").or_else(|| source.split_once(':'))?.0
        }
        "cifs" | "smb3" | "smbfs" => source.strip_prefix("//")?.split('/').next()?,
        _ => return None,
    };
    let server = server.rsplit('@').next().unwrap_or(server);
    (!server.is_empty()).then(|| shown(server))
}
