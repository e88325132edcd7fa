//! The rules for measuring on a block device itself.
//!
//! Reading changes nothing, so any device may be read that the system lets be opened, mounted or
//! not. Writing destroys what is on a device, so all of these have to hold, and none can be waived:
//!
//! 1. Nothing uses it, a partition of it, the disk that it is a part of, or the device below: no
//!    mount, no swap, no mapping or RAID, no loop device.
//! 2. The system grants an exclusive opening, which it refuses for what is used in any other view
//!    of the file system too. It is kept while cells run, so that nothing mounts the device.
//! 3. It carries no signature of a file system, of partitions or of the like. Who does not need
//!    what is on it can remove that first.
//! 4. What identifies it was typed: its serial number, of a loop device the path of its file. A
//!    name like `/dev/sdb` may be that of another device tomorrow.
//!
//! Until all of them were checked it is only opened for reading.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use super::error::{Error, Result};
use crate::device::RawDevice;

/// What is known by bytes at a place: at most so many, in the first 128 KiB.
const SIGNATURES: [(u64, &[u8], &str); 25] = [
    (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca", "a bcachefs or bcache device"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0x400, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (0x36, b"FAT", "a FAT file system"),
    (0x52, b"FAT32", "a FAT file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0x8001, b"BEA01", "a UDF file system"),
    (0x200, b"EFI PART", "a partition table (GPT)"),
    (0x1000, b"EFI PART", "a partition table (GPT)"),
    (0x1fe, &[0x55, 0xaa], "a partition table or boot sector"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0x200, b"LABELONE", "a physical volume of LVM"),
    (0, b"LABELONE", "a physical volume of LVM"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a part of a RAID (md)"),
    (0x1000, &[0xfc, 0x4e, 0x2b, 0xa9], "a part of a RAID (md)"),
    (0xff6, b"SWAPSPACE2", "swap"),
    (0xff6, b"SWAP-SPACE", "swap"),
    (0xfff6, b"SWAPSPACE2", "swap"),
    (0x1_0000, b"ReIsEr", "a ReiserFS file system"),
];

/// How many bytes at the beginning hold all of these places.
const HEAD_BYTES: u64 = 128 << 10;
/// ZFS has its labels at the beginning and at the end: in each an array of blocks from here on.
const ZFS_UBERBLOCKS: u64 = 128 << 10;
const ZFS_MAGICS: [[u8; 8]; 2] = [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()];
/// md of the versions 0.90 and 1.0 at the end: the last multiples of 64 KiB and of 4 KiB there.
const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];

/// Whether a path leads to a block device.
pub(super) fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|node| node.file_type().is_block_device())
}

/// Opens a device: for reading, or for writing with the claim that keeps others away.
///
/// # Errors
/// Returns [`Error::Target`] for a device that must not be written: nothing of it was touched then.
pub(super) fn open(path: &Path, writes: bool, typed: Option<&str>) -> Result<(File, Option<File>)> {
    let opened = |file: io::Result<File>, what| file.map_err(|error| crate::Error::io(what, path, error));
    if !writes {
        return Ok((opened(File::open(path), "open")?, None));
    }
    let number = fs::metadata(path).map_err(|error| crate::Error::io("open", path, error))?.rdev();
    check_use(path, number, typed)?;
    let claim = OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(path);
    let claim = match claim {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
            let problem =
                "is used by something that cannot be seen from here, and what is used is never written";
            return Err(Error::target(path, problem));
        }
        claim => opened(claim, "open")?,
    };
    let is_same = claim.metadata().is_ok_and(|node| node.rdev() == number);
    if !is_same {
        return Err(Error::target(path, "was replaced by another device meanwhile"));
    }
    if let Some(what) = signature(&claim).map_err(|error| crate::Error::io("read", path, error))? {
        return Err(Error::target(
            path,
            format!("carries {what}: expected a device without one (`wipefs` shows and removes them)"),
        ));
    }
    let file = opened(OpenOptions::new().read(true).write(true).open(path), "write to")?;
    Ok((file, Some(claim)))
}

/// The rules that need no opening.
fn check_use(path: &Path, number: u64, typed: Option<&str>) -> Result<()> {
    let Some(device) = RawDevice::of_number(number) else {
        let problem = "is a block device that the system says nothing about, so that nothing shows whether it \
                       is used: it is never written";
        return Err(Error::target(path, problem));
    };
    if let Some(used) = device.used_by() {
        return Err(Error::target(path, format!("{used}: a device that is used is never written")));
    }
    let Some(typed) = typed else {
        return Err(Error::target(
            path,
            "is a block device, and some cells write: expected --overwrite-device with its serial number \
             (of a loop device: the path of its file), which destroys what is on it; `lsblk -o \
             NAME,SIZE,MODEL,SERIAL` shows it",
        ));
    };
    if device.identity().is_none() {
        let problem =
            "has no serial number that could be typed, so it is never written: expected a directory on it";
        return Err(Error::target(path, problem));
    }
    match device.is_identified_by(typed) {
        true => Ok(()),
        false => Err(Error::target(
            path,
            format!(
                "is not the device that --overwrite-device names: {typed:?} is not its serial number or file"
            ),
        )),
    }
}

/// What the device carries, as far as its bytes show it.
fn signature(device: &File) -> io::Result<Option<&'static str>> {
    let len = {
        use io::Seek as _;
        (&mut &*device).seek(io::SeekFrom::End(0))?
    };
    let head = bytes_at(device, 0, HEAD_BYTES.min(len))?;
    let begins = |at: u64, magic: &[u8]| {
        usize::try_from(at).ok().and_then(|at| head.get(at..)).is_some_and(|rest| rest.starts_with(magic))
    };
    if let Some((.., what)) = SIGNATURES.iter().find(|(at, magic, _)| begins(*at, magic)) {
        return Ok(Some(what));
    }
    for at in [len.saturating_sub(64 << 10) & !0xffff, len.saturating_sub(8 << 10) & !0xfff] {
        if bytes_at(device, at, 4.min(len - at.min(len)))? == MD_MAGIC {
            return Ok(Some("a part of a RAID (md)"));
        }
    }
    let zfs = bytes_at(device, ZFS_UBERBLOCKS.min(len), (128 << 10).min(len.saturating_sub(ZFS_UBERBLOCKS)))?;
    let is_uberblock = |block: &[u8]| ZFS_MAGICS.iter().any(|magic| block.starts_with(magic));
    Ok(zfs.chunks(1024).any(is_uberblock).then_some("a part of a ZFS pool"))
}

fn bytes_at(device: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    // At most 128 KiB.
    let mut bytes = vec![0; len as usize];
    device.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a file of 1 MiB with these bytes at a place.
    fn found(at: u64, bytes: &[u8]) -> Option<&'static str> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(bytes, at).unwrap();
        signature(&file).unwrap()
    }

    #[test]
    fn what_a_device_carries_is_found_where_it_is() {
        for (at, magic, what) in SIGNATURES {
            assert_eq!(found(at, magic), Some(what), "{at}");
        }
        assert_eq!(found(0, &[]), None, "zeroes are nothing");
        assert_eq!(found(0x439, &[0x53, 0xef]), None, "a byte further on they mean nothing");
        for (at, magic) in [((1 << 20) - (64 << 10), MD_MAGIC), ((1 << 20) - (8 << 10), MD_MAGIC)] {
            assert_eq!(found(at, &magic), Some("a part of a RAID (md)"));
        }
        assert_eq!(found((128 << 10) + 5 * 1024, &ZFS_MAGICS[0]), Some("a part of a ZFS pool"));
    }

    #[test]
    fn a_device_that_is_shorter_than_all_places_is_looked_at_as_far_as_it_goes() {
        let file = tempfile::tempfile().unwrap();
        for len in [0, 1, 512, 4096, 70 << 10] {
            file.set_len(len).unwrap();
            assert_eq!(signature(&file).unwrap(), None, "{len}");
        }
        file.write_all_at(b"XFSB", 0).unwrap();
        assert_eq!(signature(&file).unwrap(), Some("an XFS file system"));
    }
}
