//! Disks of every kind, in trees that are made up like `/sys`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use rustix::fs::makedev;

use super::*;
use crate::device::LinkKind;
use crate::device::tests::Made;

const USB_3: &str = "pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host4/target4:0:0/4:0:0:0/block/sdb";
const SATA: &str = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const NVME: &str = "pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1";

/// What a system without anything else says of files on one device, of which these files in `/sys`
/// say something.
fn attached(device: &str, facts: &[(&str, &str)]) -> Attachment {
    let made = Made::new();
    made.disk_of_files(device);
    facts.iter().for_each(|(path, text)| made.write(path, text));
    of(&made)
}

fn of(made: &Made) -> Attachment {
    Attachment::in_system(&made.system, &made.files(), fs::metadata(made.files()).unwrap().dev())
}

/// A file beside a device: of `up` directories above it.
fn beside(device: &str, up: usize, name: &str) -> String {
    let above = Path::new(device).ancestors().nth(up).unwrap();
    format!("devices/{}", above.join(name).display())
}

#[track_caller]
fn only(attachment: &Attachment) -> (&Disk, &Link) {
    let [disk] = attachment.disks.as_slice() else { panic!("{attachment:?}") };
    (disk, disk.link.as_ref().unwrap_or_else(|| panic!("{disk:?}")))
}

fn usb(speed: &str, version: &str, model: (&str, &str)) -> Attachment {
    attached(
        USB_3,
        &[
            (&beside(USB_3, 6, "speed"), speed),
            (&beside(USB_3, 6, "version"), version),
            (&beside(USB_3, 0, "device/vendor"), model.0),
            (&beside(USB_3, 0, "device/model"), model.1),
            (&beside(USB_3, 0, "queue/rotational"), "1\n"),
        ],
    )
}

#[test]
fn a_fast_disk_that_runs_at_usb_2_is_named_with_what_may_be_why() {
    let attachment = usb("480\n", " 2.10\n", ("SanDisk \n", "Extreme SSD     \n"));
    let (disk, link) = only(&attachment);
    assert_eq!((disk.name.as_str(), disk.transport, disk.rotates), ("/dev/sdb", Transport::Usb, None));
    assert_eq!(
        (link.kind, link.name.as_str(), link.limit_bytes_per_s),
        (LinkKind::Usb, "USB 2.0", 53_248_000.0)
    );
    assert_eq!(attachment.link_in_words().unwrap(), "the USB 2.0 link of /dev/sdb");
    let advice = "/dev/sdb (SanDisk Extreme SSD) is connected by USB 2.0 and could do USB 3.0: the cable, the \
                  port or a hub may be why";
    assert_eq!(attachment.advice(), [advice]);
    let at_best = usb("5000\n", " 3.20\n", ("SanDisk", "Extreme SSD"));
    assert_eq!((only(&at_best).1.name.as_str(), at_best.advice()), ("USB 3.0", Vec::new()));
    let slow = usb("480", "2.00", ("Kingston", "DataTraveler"));
    assert_eq!((only(&slow).1.name.as_str(), slow.advice()), ("USB 2.0", Vec::new()));
    assert_eq!(usb("unknown", "2.00", ("", "")).disks[0].link, None);
}

#[test]
fn a_card_reader_is_called_one() {
    let reader = usb("5000", "3.00", ("Generic-", "SD/MMC CRW"));
    assert!(only(&reader).0.is_card_reader);
    assert_eq!(reader.link_in_words().unwrap(), "the USB 3.0 link of /dev/sdb (a card reader)");
    // The speed of a card in a slot of the machine is not reported.
    let card = "pci0000:00/0000:00:1c.0/0000:02:00.0/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0";
    let card = attached(card, &[(&beside(card, 0, "device/name"), "SD64G\n")]);
    let [disk] = card.disks.as_slice() else { panic!("{card:?}") };
    assert_eq!((disk.transport, &disk.link, disk.model.as_deref()), (Transport::Card, &None, Some("SD64G")));
    assert_eq!((card.read_limit_bytes_per_s(), card.link_in_words()), (None, None));
}

#[test]
fn a_sata_disk_below_its_speed_is_named_with_what_may_be_why() {
    let identity = format!("{}850e {}", "0000 ".repeat(76), "0000 ".repeat(179));
    let sata = |speed: &str, port: &str| {
        attached(
            SATA,
            &[
                ("class/ata_link/link1/sata_spd", speed),
                ("class/ata_link/link1/hw_sata_spd_limit", port),
                ("class/ata_device/dev1.0/id", &identity),
                (&beside(SATA, 0, "queue/rotational"), "1\n"),
                (&beside(SATA, 0, "device/vendor"), "ATA     \n"),
                (&beside(SATA, 0, "device/model"), "ST4000NM0035\n"),
            ],
        )
    };
    let attachment = sata("3.0 Gbps\n", "6.0 Gbps\n");
    let (disk, link) = only(&attachment);
    assert_eq!((disk.transport, disk.rotates), (Transport::Sata, Some(true)));
    assert_eq!((link.name.as_str(), link.limit_bytes_per_s), ("SATA 3.0 Gbit/s", 300e6));
    let advice = |why: &str| {
        format!("/dev/sda (ST4000NM0035) is connected by SATA 3.0 Gbit/s and could do SATA 6.0 Gbit/s: {why}")
    };
    assert_eq!(attachment.advice(), [advice("the cable may be why")]);
    assert_eq!(sata("3.0 Gbps", "3.0 Gbps").advice(), [advice("the port may be why")]);
    assert_eq!(sata("3.0 Gbps", "<unknown>").advice(), [advice("the cable or the port may be why")]);
    assert_eq!(sata("6.0 Gbps", "6.0 Gbps").advice(), Vec::<String>::new());
}

/// The files that say how wide a PCI Express link is, of a directory above a device.
fn pcie(device: &str, up: usize, now: (&str, &str), best: (&str, &str)) -> Vec<(String, String)> {
    let all = [
        ("current_link_speed", now.0),
        ("current_link_width", now.1),
        ("max_link_speed", best.0),
        ("max_link_width", best.1),
    ];
    all.map(|(name, text)| (beside(device, up, name), format!("{text}\n"))).to_vec()
}

fn with(device: &str, facts: &[(String, String)]) -> Attachment {
    let facts: Vec<(&str, &str)> = facts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    attached(device, &facts)
}

#[test]
fn an_nvme_disk_with_fewer_lanes_than_it_has_is_named() {
    let gen_3 = "8.0 GT/s PCIe";
    let partition = format!("{NVME}/nvme0n1p2");
    let mut facts = pcie(&partition, 4, (gen_3, "2"), (gen_3, "4"));
    // The port above has the same link, and could take a wider card.
    facts.extend(pcie(&partition, 5, (gen_3, "2"), (gen_3, "16")));
    facts.push((beside(&partition, 0, "partition"), "2\n".to_owned()));
    facts.push((beside(&partition, 1, "queue/rotational"), "0\n".to_owned()));
    let attachment = with(&partition, &facts);
    let (disk, link) = only(&attachment);
    assert_eq!((disk.name.as_str(), disk.transport), ("/dev/nvme0n1", Transport::Nvme));
    assert_eq!((disk.rotates, attachment.device.as_deref()), (Some(false), Some("nvme0n1p2")));
    assert_eq!((link.name.as_str(), link.capable_of.as_deref()), ("PCIe 3.0 x2", Some("PCIe 3.0 x4")));
    assert_eq!((link.limit_bytes_per_s / 1e6).round(), 1969.0);
}

#[test]
fn the_narrowest_of_several_links_is_the_limit() {
    let mut facts = pcie(SATA, 6, ("2.5 GT/s PCIe", "1"), ("2.5 GT/s PCIe", "1"));
    facts.push(("class/ata_link/link1/sata_spd".to_owned(), "6.0 Gbps".to_owned()));
    let attachment = with(SATA, &facts);
    assert_eq!(attachment.link_in_words().unwrap(), "the PCIe 1.0 x1 link of /dev/sda");
    assert_eq!(attachment.read_limit_bytes_per_s().map(f64::round), Some(250e6));
}

#[test]
fn an_nvme_disk_that_stands_beside_its_controller_has_the_link_of_that() {
    let made = Made::new();
    let head = "virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
    made.disk_of_files(head);
    let controller = "devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0";
    made.write(&format!("{controller}/state"), "live\n");
    for (path, text) in pcie(NVME, 3, ("16.0 GT/s PCIe", "4"), ("16.0 GT/s PCIe", "4")) {
        made.write(&path, &text);
    }
    let link = |name: &str| {
        let at = made.system.sys.join("devices/virtual/nvme-subsystem/nvme-subsys0").join(name);
        symlink(made.system.sys.join(controller), at).unwrap();
    };
    link("nvme0");
    assert_eq!(only(&of(&made)).1.name, "PCIe 4.0 x4");
    // Over two controllers it is not known which is used.
    link("nvme1");
    assert_eq!(of(&made).disks[0].link, None);
}

#[test]
fn what_a_hypervisor_shows_has_no_link() {
    let virtio = "pci0000:00/0000:00:02.0/virtio1/block/vda";
    for (device, model) in [(virtio, "\n"), (NVME, "QEMU NVMe Ctrl\n")] {
        let mut facts = pcie(device, 3, ("2.5 GT/s PCIe", "1"), ("2.5 GT/s PCIe", "1"));
        facts.push((beside(device, 0, "device/model"), model.to_owned()));
        let attachment = with(device, &facts);
        let [disk] = attachment.disks.as_slice() else { panic!("{attachment:?}") };
        assert_eq!((disk.transport, &disk.link), (Transport::Virtual, &None), "{device}");
        assert_eq!((attachment.read_limit_bytes_per_s(), attachment.advice()), (None, Vec::new()));
    }
}

#[test]
fn a_loop_device_has_the_link_of_the_disk_that_its_file_is_on() {
    let made = Made::new();
    made.disk_of_files(USB_3);
    made.write(&beside(USB_3, 6, "speed"), "5000");
    let image = made.file("image");
    made.loop_device(image.to_str().unwrap(), true);
    let attachment = Attachment::in_system(&made.system, &image, makedev(707, 7));
    assert_eq!(attachment.device.as_deref(), Some("loop7 (direct I/O) on sdb"));
    assert_eq!(attachment.link_in_words().unwrap(), "the USB 3.0 link of /dev/sdb");
    assert!(attachment.is_same_disks(&of(&made)));
}

#[test]
fn a_stack_of_devices_has_a_limit_only_where_it_is_on_one_disk() {
    let made = Made::new();
    made.disk_of_files("virtual/block/dm-0");
    made.device(NVME, (759, 0));
    for (path, text) in pcie(NVME, 3, ("8.0 GT/s PCIe", "4"), ("8.0 GT/s PCIe", "4")) {
        made.write(&path, &text);
    }
    let slaves = made.system.sys.join("devices/virtual/block/dm-0/slaves");
    fs::create_dir_all(&slaves).unwrap();
    symlink(made.system.sys.join("devices").join(NVME), slaves.join("nvme0n1")).unwrap();
    let attachment = of(&made);
    assert_eq!(attachment.device.as_deref(), Some("dm-0 on nvme0n1"));
    assert_eq!(attachment.link_in_words().unwrap(), "the PCIe 3.0 x4 link of /dev/nvme0n1");
    made.device(SATA, (708, 0));
    made.write("class/ata_link/link1/sata_spd", "6.0 Gbps");
    symlink(made.system.sys.join("devices").join(SATA), slaves.join("sda")).unwrap();
    let attachment = of(&made);
    assert_eq!((attachment.disks.len(), attachment.read_limit_bytes_per_s()), (2, None));
}

#[test]
fn btrfs_on_several_disks_has_the_links_of_all_and_writes_every_copy() {
    for (profile, copies) in [("single", 1.0), ("raid1", 2.0)] {
        let mut made = Made::new();
        made.mount("/", "pool", "btrfs /dev/sda rw");
        let file = made.file("pool/file");
        let devices = made.system.sys.join("fs/btrfs/0123-4567/devices");
        fs::create_dir_all(&devices).unwrap();
        for (number, name) in ["sda", "sdb"].into_iter().enumerate() {
            let directory = SATA.replace("sda", name).replace("ata1", &format!("ata{}", number + 1));
            made.device(&directory, (720, number as u32));
            symlink(made.system.sys.join("devices").join(&directory), devices.join(name)).unwrap();
            made.write(&format!("class/ata_link/link{}/sata_spd", number + 1), "6.0 Gbps");
        }
        made.write(&format!("fs/btrfs/0123-4567/allocation/data/{profile}/total_bytes"), "8388608\n");
        let attachment = Attachment::in_system(&made.system, &file, 0);
        assert_eq!(attachment.file_system.as_deref(), Some("btrfs"));
        assert_eq!(attachment.link_in_words().unwrap(), "the SATA 6.0 Gbit/s links of /dev/sda and /dev/sdb");
        assert_eq!(attachment.read_limit_bytes_per_s(), Some(1200e6));
        assert_eq!(attachment.write_limit_bytes_per_s(), Some(1200e6 / copies), "{profile}");
    }
}

#[test]
fn the_server_of_a_network_file_system_is_named_without_a_user() {
    for (mounted, server) in [
        ("nfs4 nas.local:/export/photos rw", Some("nas.local")),
        ("nfs [fe80::1]:/export rw", Some("[fe80::1]")),
        ("cifs //nas/share/dir rw", Some("nas")),
        ("fuse.sshfs me@there:/home rw", Some("there")),
        ("fuse.sshfs there: rw", Some("there")),
        ("9p tag rw", None),
        ("fuse.any /dev/sdb rw", None),
    ] {
        let mut made = Made::new();
        made.mount("/", "far", mounted);
        let attachment = Attachment::in_system(&made.system, &made.file("far/file"), 0);
        assert_eq!(attachment.server.as_deref(), server, "{mounted}");
        assert_eq!((attachment.disks.len(), attachment.read_limit_bytes_per_s()), (0, None));
    }
    let mut made = Made::new();
    made.mount("/", "memory", "tmpfs none rw");
    assert!(Attachment::in_system(&made.system, &made.file("memory/file"), 0).is_memory);
}

#[test]
fn what_is_not_there_yet_lies_where_the_directory_above_it_does() {
    let directory = tempfile::tempdir().unwrap();
    let there = Attachment::of(directory.path());
    assert_eq!(Attachment::of(&directory.path().join("not/there")), there);
    assert!(there.file_system.is_some());
}
