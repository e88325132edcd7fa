//! [`Link`]: what a disk is connected by, at the speed that was negotiated, and the most that fits
//! through it.
//!
//! All of it is read from the directory of a device in `/sys`, and from those above. The formulas
//! and their sources are in `docs/internals/copy.md`.

use std::fs;
use std::path::{Path, PathBuf};

/// Packets of 512 bytes that fit in an eighth of a millisecond of USB 2.0 (table 5-10 of its
/// specification), and packets of 64 bytes that fit in a millisecond of USB 1.1 (table 5-9).
const USB_2_BYTES_PER_S: f64 = 13.0 * 512.0 * 8000.0;
const USB_1_BYTES_PER_S: f64 = 19.0 * 64.0 * 1000.0;

/// The lowest speed of USB 3, in Mbit/s.
const SUPER_SPEED_MBIT: f64 = 5000.0;

/// What kind of link it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkKind {
    /// USB, of any generation.
    Usb,
    /// Serial ATA.
    Sata,
    /// PCI Express.
    PciExpress,
}

impl LinkKind {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usb => "usb",
            Self::Sata => "sata",
            Self::PciExpress => "pcie",
        }
    }
}

/// A link at the speed that both ends agreed on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Link {
    /// What kind it is.
    pub kind: LinkKind,
    /// Its name at that speed: `USB 3.0`, `SATA 6.0 Gbit/s`, `PCIe 3.0 x4`.
    pub name: String,
    /// The most bytes a second that fit through it: its bits without those of the encoding.
    pub limit_bytes_per_s: f64,
    /// What the device could do at another end: `USB 3.0`. `None` where this is its best, or that
    /// is not known.
    pub capable_of: Option<String>,
    /// What probably keeps it from that.
    pub why_slower: Option<&'static str>,
}

impl Link {
    fn new(kind: LinkKind, name: String, limit_bytes_per_s: f64) -> Self {
        Self { kind, name, limit_bytes_per_s, capable_of: None, why_slower: None }
    }

    /// A link with this limit, for tests.
    #[cfg(test)]
    pub(crate) fn with_limit(name: &str, limit_bytes_per_s: f64) -> Self {
        Self::new(LinkKind::Usb, name.to_owned(), limit_bytes_per_s)
    }

    fn slower_than(self, capable_of: String, why: &'static str) -> Self {
        Self { capable_of: Some(capable_of), why_slower: Some(why), ..self }
    }

    /// The narrowest link between a device, by its directory in `/sys/devices`, and the processor;
    /// `None` where none is reported.
    pub(super) fn narrowest(directory: &Path) -> Option<Self> {
        let start = controller_of(directory).unwrap_or_else(|| directory.to_path_buf());
        let links = above(&start).filter_map(|directory| {
            usb(directory).or_else(|| pci_express(directory)).or_else(|| sata(directory))
        });
        // Of two that are alike it is the one of the device, which comes first.
        links.reduce(|narrowest, next| {
            let is_narrower = next.limit_bytes_per_s < narrowest.limit_bytes_per_s;
            if is_narrower { next } else { narrowest }
        })
    }
}

/// A directory of a device, and those above, up to `/sys/devices` itself.
pub(super) fn above(directory: &Path) -> impl Iterator<Item = &Path> {
    directory.ancestors().take_while(|path| path.file_name().is_some_and(|name| name != "devices"))
}

/// The one controller of an NVMe disk that the system could reach by several: it stands for all of
/// them beside the real devices. `None` where a disk is with its controller already.
fn controller_of(directory: &Path) -> Option<PathBuf> {
    let subsystem = directory.parent()?;
    subsystem.file_name()?.to_str()?.strip_prefix("nvme-subsys")?;
    let is_controller = |name: &str| {
        let number = name.strip_prefix("nvme").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let all = fs::read_dir(subsystem).ok()?.filter_map(Result::ok);
    let mut all = all.filter(|entry| entry.file_name().to_str().is_some_and(is_controller));
    let only = all.next()?;
    all.next().is_none().then(|| fs::canonicalize(only.path()).ok())?
}

/// The contents of a small file in `/sys`.
fn fact(directory: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(directory.join(name)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether a directory is that of a device on USB, as `2-1.4` is: a bus and the ports to it.
pub(super) fn is_usb_device(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    let parts = name.and_then(|name| name.split_once('-'));
    parts.is_some_and(|(bus, ports)| {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(bus) && ports.split('.').all(is_number)
    })
}

/// The link of a device on USB, or of a hub on the way.
fn usb(directory: &Path) -> Option<Link> {
    if !is_usb_device(directory) {
        return None;
    }
    let mbit: f64 = fact(directory, "speed")?.parse().ok()?;
    let (name, limit) = usb_generation(mbit)?;
    let link = Link::new(LinkKind::Usb, name.to_owned(), limit);
    let descriptors = fs::read(directory.join("bos_descriptors")).unwrap_or_default();
    let version = fact(directory, "version").unwrap_or_default();
    let capable = usb_capable_of(&descriptors, &version).filter(|_| mbit < SUPER_SPEED_MBIT);
    Some(match capable.and_then(usb_generation) {
        Some((better, _)) => link.slower_than(better.to_owned(), "the cable, the port or a hub"),
        None => link,
    })
}

/// What a speed in Mbit/s is called, and the bytes a second that fit through it.
fn usb_generation(mbit: f64) -> Option<(&'static str, f64)> {
    let ten_of_eight = |mbit: f64| mbit * 1e6 / 10.0;
    let of_132_bits = |mbit: f64| mbit * 1e6 / 8.0 * 128.0 / 132.0;
    match mbit as u64 {
        12 => Some(("USB 1.1", USB_1_BYTES_PER_S)),
        480 => Some(("USB 2.0", USB_2_BYTES_PER_S)),
        5000 => Some(("USB 3.0", ten_of_eight(mbit))),
        10_000 => Some(("USB 3.1", of_132_bits(mbit))),
        20_000 => Some(("USB 3.2", of_132_bits(mbit))),
        _ => None,
    }
}

/// The speed in Mbit/s that a device on USB says it is made for, where that is USB 3. On USB 2 such
/// a device reports version 2.10, and has a descriptor that says so, which newer kernels show.
fn usb_capable_of(descriptors: &[u8], version: &str) -> Option<f64> {
    const CAPABILITY: u8 = 0x10;
    const SUPER_SPEED: u8 = 0x03;
    const SUPER_SPEED_PLUS: u8 = 0x0a;
    const AT_5_GBIT: u8 = 1 << 3;
    if descriptors.is_empty() {
        return matches!(version, "2.10" | "3.00" | "3.10" | "3.20").then_some(SUPER_SPEED_MBIT);
    }
    let (mut best, mut rest) = (None::<f64>, descriptors);
    while let [len, kind, of, ..] = rest {
        let (part, after) = rest.split_at_checked(usize::from((*len).max(3)))?;
        let speed = match (*kind, *of, part.get(4)) {
            (CAPABILITY, SUPER_SPEED, Some(speeds)) if speeds & AT_5_GBIT != 0 => Some(SUPER_SPEED_MBIT),
            (CAPABILITY, SUPER_SPEED_PLUS, _) => Some(2.0 * SUPER_SPEED_MBIT),
            _ => None,
        };
        best = best.into_iter().chain(speed).reduce(f64::max);
        rest = after;
    }
    best
}

/// The PCI Express link of a device.
fn pci_express(directory: &Path) -> Option<Link> {
    let of = |speed: &str, width: &str| pcie_named(&fact(directory, speed)?, &fact(directory, width)?);
    let (name, limit) = of("current_link_speed", "current_link_width")?;
    let link = Link::new(LinkKind::PciExpress, name, limit);
    Some(match of("max_link_speed", "max_link_width") {
        Some((better, most)) if most > limit => link.slower_than(better, "the slot that it is in"),
        _ => link,
    })
}

/// What a link of that speed (`8.0 GT/s PCIe`) and number of lanes is called, and how many bytes a
/// second fit through it, without those that its protocol needs.
fn pcie_named(speed: &str, width: &str) -> Option<(String, f64)> {
    let gigatransfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let lanes: u32 = width.parse().ok()?;
    // Up to 5 GT/s ten bits carry eight, up to 32 GT/s 130 carry 128; above, 256-byte units carry
    // 242.
    let coding = match gigatransfers {
        slow if slow <= 5.0 => 0.8,
        fast if fast <= 32.0 => 128.0 / 130.0,
        _ => 242.0 / 256.0,
    };
    let generation = match (gigatransfers * 10.0) as u64 {
        25 => "1.0",
        50 => "2.0",
        80 => "3.0",
        160 => "4.0",
        320 => "5.0",
        640 => "6.0",
        _ => return None,
    };
    let limit = gigatransfers * 1e9 / 8.0 * coding * f64::from(lanes);
    (lanes > 0).then(|| (format!("PCIe {generation} x{lanes}"), limit))
}

/// The SATA link of an `ataN` directory.
fn sata(directory: &Path) -> Option<Link> {
    let number = directory.file_name()?.to_str()?.strip_prefix("ata")?;
    let class = directory.ancestors().find(|path| path.ends_with("devices"))?.parent()?.join("class");
    let port = class.join(format!("ata_link/link{number}"));
    let gbit = sata_gbit(&fact(&port, "sata_spd")?)?;
    let link = Link::new(LinkKind::Sata, sata_name(gbit), gbit * 1e9 / 10.0);
    let identity = fact(&class.join(format!("ata_device/dev{number}.0")), "id").unwrap_or_default();
    let Some(best) = sata_capable_of(&identity).filter(|best| *best > gbit) else { return Some(link) };
    let port_can = fact(&port, "hw_sata_spd_limit").and_then(|text| sata_gbit(&text));
    let why = match port_can {
        Some(most) if most <= gbit => "the port",
        Some(_) => "the cable",
        None => "the cable or the port",
    };
    Some(link.slower_than(sata_name(best), why))
}

/// The speed that is written `6.0 Gbps`; ten bits on the wire for each byte.
fn sata_gbit(text: &str) -> Option<f64> {
    let gbit: f64 = text.strip_suffix(" Gbps")?.parse().ok()?;
    (gbit > 0.0).then_some(gbit)
}

fn sata_name(gbit: f64) -> String {
    format!("SATA {gbit:.1} Gbit/s")
}

/// The highest speed in Gbit/s that a disk says it is made for: word 76 of its identity, which the
/// kernel shows as 256 numbers of four hexadecimal digits.
fn sata_capable_of(identity: &str) -> Option<f64> {
    let word = u16::from_str_radix(identity.split_whitespace().nth(76)?, 16).ok()?;
    let speeds = [(3, 6.0), (2, 3.0), (1, 1.5)];
    let is_reported = word != 0 && word != u16::MAX;
    speeds.into_iter().find(|(bit, _)| is_reported && (word >> bit) & 1 == 1).map(|(_, gbit)| gbit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_carry_what_their_coding_leaves() {
        let pcie = |speed, width| {
            let (name, limit) = pcie_named(speed, width)?;
            Some((name, (limit / 1e7).round() / 100.0))
        };
        let named = |name: &str, gigabytes| Some((name.to_owned(), gigabytes));
        assert_eq!(pcie("2.5 GT/s PCIe", "1"), named("PCIe 1.0 x1", 0.25));
        assert_eq!(pcie("8.0 GT/s PCIe", "4"), named("PCIe 3.0 x4", 3.94));
        assert_eq!(pcie("16.0 GT/s PCIe", "4"), named("PCIe 4.0 x4", 7.88));
        assert_eq!(pcie("64.0 GT/s PCIe", "4"), named("PCIe 6.0 x4", 30.25));
        for (speed, width) in [("Unknown", "255"), ("8.0 GT/s", "0"), ("9.0 GT/s", "4"), ("", "")] {
            assert_eq!(pcie(speed, width), None, "{speed} {width}");
        }
        let usb = |mbit| usb_generation(mbit).map(|(name, limit)| (name, (limit / 1e5).round() / 10.0));
        assert_eq!(usb(480.0), Some(("USB 2.0", 53.2)));
        assert_eq!(usb(5000.0), Some(("USB 3.0", 500.0)));
        assert_eq!(usb(10_000.0), Some(("USB 3.1", 1212.1)));
        assert_eq!((usb(1.5), usb(40_000.0)), (None, None));
        assert_eq!(
            (sata_gbit("6.0 Gbps"), sata_gbit("<unknown>"), sata_gbit("0.0 Gbps")),
            (Some(6.0), None, None)
        );
    }

    #[test]
    fn descriptors_say_what_a_device_on_usb_could_do() {
        let header = [5, 0x0f, 22, 0, 2];
        let usb_2 = [7, 0x10, 0x02, 2, 0, 0, 0];
        let super_speed = [10, 0x10, 0x03, 0, 0x0e, 0, 3, 0, 0, 0];
        let plus = [4, 0x10, 0x0a, 0];
        let all = |parts: &[&[u8]]| parts.concat();
        assert_eq!(usb_capable_of(&all(&[&header, &usb_2, &super_speed]), "2.10"), Some(5000.0));
        assert_eq!(usb_capable_of(&all(&[&header, &super_speed, &plus]), "2.10"), Some(10_000.0));
        assert_eq!(usb_capable_of(&all(&[&header, &usb_2]), "2.10"), None, "only a better USB 2");
        assert_eq!((usb_capable_of(&[], "2.10"), usb_capable_of(&[], "2.00")), (Some(5000.0), None));
        // What is cut off, or has no length, ends the reading.
        for broken in [&[5, 0x0f, 22][..], &[0, 0x10, 0x03, 0, 0], &[255, 0x10, 0x03, 0, 8], &[1]] {
            assert_eq!(usb_capable_of(broken, "2.10"), None, "{broken:?}");
        }
    }

    #[test]
    fn disks_say_which_speeds_they_are_made_for() {
        let identity = |word: &str| format!("{}{word} {}", "0000 ".repeat(76), "0000 ".repeat(179));
        for (word, gbit) in [("850e", Some(6.0)), ("0006", Some(3.0)), ("0002", Some(1.5))] {
            assert_eq!(sata_capable_of(&identity(word)), gbit, "{word}");
        }
        for word in ["0000", "ffff", "zzzz", "0001"] {
            assert_eq!(sata_capable_of(&identity(word)), None, "{word}");
        }
        assert_eq!(sata_capable_of(""), None);
    }
}
