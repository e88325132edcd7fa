//! The two ends of a copy: what the source lies on, and what the destination does.

use std::path::Path;

use serde::Serialize;
use stook::device::{Attachment, Disk, LinkKind, Transport};
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::{Findings, Way};
use crate::environment::Environment;
use crate::frame::NONE;

/// What one end of a copy lies on. What the system does not report is empty, or absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct End {
    /// Type and mount options of the file system.
    pub file_system: String,
    /// The device, and those below it.
    pub device: String,
    /// The link by which it is connected, as it was negotiated.
    pub link: String,
    /// Whether the device says that it rotates.
    pub rotates: Option<bool>,
    /// Why it is no drive that somebody could buy; absent where it may be one.
    pub simulated: Option<String>,
    /// What kind of drive it is, where the document has one of that kind.
    #[serde(skip)]
    pub(super) kind: Option<DriveKind>,
    /// Whether it is memory, and no device.
    #[serde(skip)]
    pub(super) is_memory: bool,
}

/// A kind of drive that the document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriveKind {
    HardDisk,
    SataSsd,
    NvmeSsd,
    Card,
}

impl DriveKind {
    /// Of all disks together; `None` where they are of several kinds, or of none that is known.
    fn of(attachment: &Attachment) -> Option<Self> {
        let of_disk = |disk: &Disk| Self::named(disk.transport, disk.rotates, disk.is_card_reader);
        let first = attachment.disks.first().and_then(of_disk)?;
        attachment.disks.iter().all(|disk| of_disk(disk) == Some(first)).then_some(first)
    }

    fn named(transport: Transport, rotates: Option<bool>, is_card_reader: bool) -> Option<Self> {
        match (transport, rotates) {
            (Transport::Card, _) => Some(Self::Card),
            _ if is_card_reader => Some(Self::Card),
            (Transport::Nvme, _) => Some(Self::NvmeSsd),
            (_, Some(true)) => Some(Self::HardDisk),
            (Transport::Sata, Some(false)) => Some(Self::SataSsd),
            _ => None,
        }
    }
}

impl End {
    /// What this directory lies on.
    pub(super) fn of(path: &Path, attachment: &Attachment) -> Self {
        let Environment { file_system, device, link, rotates, .. } = Environment::of(path);
        let device = match &attachment.device {
            // Where nothing lies below it, the description begins with the same name.
            Some(stack) if !device.starts_with(stack.as_str()) => format!("{stack}: {device}"),
            _ => device,
        };
        let simulated = simulated(attachment);
        let kind = DriveKind::of(attachment).filter(|_| simulated.is_none());
        Self { file_system, device, link, rotates, simulated, kind, is_memory: attachment.is_memory }
    }

    /// The mark of figures that are not of a drive.
    fn mark(&self) -> &'static str {
        if self.simulated.is_some() { " (simulated)" } else { "" }
    }
}

/// Why what lies there is no drive.
fn simulated(attachment: &Attachment) -> Option<String> {
    let stack = attachment.device.as_deref().unwrap_or_default();
    let mut names = stack.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_one_of = |name: &str, kind: &str| {
        name.strip_prefix(kind).is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    };
    if attachment.is_memory {
        Some("its files are kept in memory".to_owned())
    } else if let Some(name) = names.clone().find(|name| is_one_of(name, "zram") || is_one_of(name, "ram")) {
        Some(format!("{name} is memory"))
    } else {
        let name = names.find(|name| is_one_of(name, "loop"))?;
        Some(format!("{name} is a file of another file system"))
    }
}

/// Whether that is from one drive to another: the ends are not one file system, and not the same
/// disks, unless one of them is simulated on these.
pub(super) fn is_between_drives(is_same_file_system: bool, is_same_disks: bool, ends: [&End; 2]) -> bool {
    let is_simulated = ends.iter().any(|end| end.simulated.is_some());
    !is_same_file_system && (!is_same_disks || is_simulated)
}

/// Whether reads and writes share what fits through the links of these disks.
pub(super) fn share_links(attachment: &Attachment) -> bool {
    let mut links = attachment.disks.iter().map(|disk| disk.link.as_ref());
    links.len() > 0 && links.all(|link| link.is_some_and(|link| is_one_way(link.kind, &link.name)))
}

/// Whether reads and writes share what these disks themselves bring: an arm is in one place.
pub(super) fn share_disks(attachment: &Attachment) -> bool {
    !attachment.disks.is_empty() && attachment.disks.iter().all(|disk| disk.rotates == Some(true))
}

/// Whether a link carries one direction at a time. USB from 3.0 on and PCIe have wires of their own
/// for each.
fn is_one_way(kind: LinkKind, name: &str) -> bool {
    match kind {
        LinkKind::Sata => true,
        LinkKind::Usb => ["USB 1.1", "USB 2.0"].contains(&name),
        _ => false,
    }
}

impl Findings {
    /// Both ends, the source first.
    fn ends(&self) -> [&End; 2] {
        [&self.source, &self.destination]
    }

    /// The mark of figures that come from or go to what is no drive.
    pub(super) fn mark(&self) -> &'static str {
        self.ends().into_iter().map(End::mark).find(|mark| !mark.is_empty()).unwrap_or_default()
    }

    /// Whether an end is no drive.
    pub(super) fn is_simulated(&self) -> bool {
        self.ends().iter().any(|end| end.simulated.is_some())
    }

    /// What is to be known of figures before they are read: which ends are no drives.
    pub(super) fn note(&self) -> Option<String> {
        let names = ["source", "destination"].into_iter().zip(self.ends());
        let said = names.filter_map(|(name, end)| {
            let why = end.simulated.as_ref()?;
            Some(format!("The {name} is simulated: {why}. "))
        });
        let said: String = said.collect();
        (!said.is_empty()).then(|| format!("{said}What a drive does is not shown by it."))
    }

    /// Both ends, and what of their rating was reached.
    pub(super) fn ends_table(&self, caption: &str) -> Table {
        let head = ["", "Source", "Destination"];
        let head = head.into_iter().fold(Table::new(caption), |table, name| table.column(name, Align::Left));
        let known =
            |text: &str| if text.is_empty() { "not reported here".to_owned() } else { text.to_owned() };
        let rate = self.rate(Way::PUBLISHED);
        let ratings = [self.rated_read_bytes_per_s, self.rated_write_bytes_per_s];
        let of = |unit: f64| rate.map_or_else(|| NONE.to_owned(), |rate| format!("{:.3}", rate / unit));
        let rated = |rating: Option<f64>| rating.map_or_else(|| "not given".to_owned(), units::rate);
        let share = |rating: Option<f64>| {
            rate.zip(rating).map_or_else(|| NONE.to_owned(), |(rate, rating)| units::percent(rate / rating))
        };
        let is_drive = |end: &End| end.simulated.clone().unwrap_or_else(|| "no".to_owned());
        let rows = [
            ("File system", self.ends().map(|end| known(&end.file_system))),
            ("Device", self.ends().map(|end| known(&end.device))),
            ("Link", self.ends().map(|end| known(&end.link))),
            ("Simulated", self.ends().map(is_drive)),
            ("Rated, reads and writes", ratings.map(rated)),
            ("Copied, MB/s", [1e6; 2].map(of)),
            ("Copied, MiB/s", [f64::from(1 << 20); 2].map(of)),
            ("Of the rating", ratings.map(share)),
        ];
        rows.into_iter().fold(head, |table, (name, [source, destination])| {
            table.row([name.to_owned(), source, destination], Tone::Plain)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(device: &str) -> Attachment {
        let mut attachment = Attachment::default();
        attachment.device = Some(device.to_owned());
        attachment
    }

    #[test]
    fn loop_devices_and_memory_are_no_drives() {
        for (device, expected) in [
            ("sda2", None),
            ("dm-0 on nvme0n1p2", None),
            ("loop0 (direct I/O) on sda2", Some("loop0 is a file of another file system")),
            (
                "dm-1 on loop12p1 (through the page cache) on vda",
                Some("loop12p1 is a file of another file system"),
            ),
            ("zram0 (memory)", Some("zram0 is memory")),
            // Names of volumes may be any.
            ("dm-3 (loops) on sda", None),
        ] {
            assert_eq!(simulated(&on(device)).as_deref(), expected, "{device}");
        }
        let mut memory = Attachment::default();
        memory.is_memory = true;
        assert_eq!(simulated(&memory).as_deref(), Some("its files are kept in memory"));
        assert_eq!(simulated(&Attachment::default()), None);
    }

    #[test]
    fn only_links_that_carry_one_direction_at_a_time_are_shared() {
        for (kind, name, expected) in [
            (LinkKind::Sata, "SATA 6.0 Gbit/s", true),
            (LinkKind::Usb, "USB 2.0", true),
            (LinkKind::Usb, "USB 3.0", false),
            (LinkKind::PciExpress, "PCIe 3.0 x4", false),
        ] {
            assert_eq!(is_one_way(kind, name), expected, "{name}");
        }
        // Of what is not known nothing is assumed.
        assert!(!share_links(&Attachment::default()) && !share_disks(&Attachment::default()));
    }

    #[test]
    fn drives_are_of_the_kinds_of_the_document_or_of_none() {
        for (transport, rotates, is_card_reader, expected) in [
            (Transport::Nvme, Some(false), false, Some(DriveKind::NvmeSsd)),
            (Transport::Sata, Some(false), false, Some(DriveKind::SataSsd)),
            (Transport::Sata, Some(true), false, Some(DriveKind::HardDisk)),
            (Transport::Usb, None, true, Some(DriveKind::Card)),
            (Transport::Card, Some(false), false, Some(DriveKind::Card)),
            (Transport::Usb, None, false, None),
            (Transport::Virtual, None, false, None),
        ] {
            assert_eq!(DriveKind::named(transport, rotates, is_card_reader), expected, "{transport:?}");
        }
        assert_eq!(DriveKind::of(&Attachment::default()), None);
    }

    #[test]
    fn partitions_of_a_drive_are_one_and_a_simulated_one_is_another() {
        let (drive, simulated) = (End::default(), End { simulated: Some("x".to_owned()), ..End::default() });
        assert!(!is_between_drives(true, true, [&drive, &drive]));
        assert!(!is_between_drives(true, true, [&simulated, &simulated]));
        assert!(!is_between_drives(false, true, [&drive, &drive]));
        assert!(is_between_drives(false, true, [&drive, &simulated]));
        assert!(is_between_drives(false, false, [&drive, &drive]));
    }

    #[test]
    fn the_table_has_both_units_and_the_share_of_each_rating() {
        let found = Findings { rated_write_bytes_per_s: Some(271e6), ..Findings::copying(200e6) };
        let destination = End { simulated: Some("loop0 is a file".to_owned()), ..End::default() };
        let found = Findings { destination, is_between_drives: true, ..found };
        let table = found.ends_table("");
        let row = |name: &str| table.rows().find(|row| row[0] == name).unwrap()[1..].to_vec();
        assert_eq!(row("Copied, MB/s"), ["200.000", "200.000"]);
        assert_eq!(row("Copied, MiB/s"), ["190.735", "190.735"]);
        assert_eq!(row("Rated, reads and writes"), ["not given", "271 MB/s"]);
        assert_eq!(row("Of the rating"), ["–", "73.8%"]);
        assert_eq!(row("Simulated"), ["no", "loop0 is a file"]);
        assert_eq!(found.mark(), " (simulated)");
        assert!(found.note().unwrap().starts_with("The destination is simulated: loop0 is a file."));
        assert_eq!(Findings::copying(200e6).note(), None);
    }
}
