//! Loop devices: a file that acts as a device.
//!
//! The system names the file by a path, which need not lead to the file: something else can be
//! mounted over it. So a file is accepted only if its numbers are those that the device itself
//! reports.
#![expect(unsafe_code, reason = "rustix has no safe way to ask a loop device")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{major, minor};
use rustix::ioctl::{Getter, Opcode, ioctl};

use super::block::BlockDevice;
use super::{Below, System};

/// The suffix that the kernel adds to the name of an unlinked file.
const DELETED: &str = " (deleted)";
/// `LOOP_GET_STATUS64` of `include/uapi/linux/loop.h`.
const GET_STATUS: Opcode = 0x4C05;
/// The length of its answer, a `struct loop_info64`, in words.
const STATUS_WORDS: usize = 29;

/// The numbers of a file: that of its device, and its own there.
pub(super) type FileNumbers = (u64, u64);

/// The numbers of the backing file of a loop device (`loop0`), from the device. The path is the one
/// that the system names.
pub(super) fn numbers_of_file(name: &str, _path: &str) -> io::Result<FileNumbers> {
    let node = File::open(Path::new("/dev").join(name))?;
    // SAFETY: the code is valid, and its answer is a `struct loop_info64` of this many words.
    let question = unsafe { Getter::<GET_STATUS, [u64; STATUS_WORDS]>::new() };
    // SAFETY: the descriptor is open. Any other kind of device refuses the code.
    let [device, number, ..] = unsafe { ioctl(&node, question) }?;
    Ok((device, number))
}

/// Why a file that was found at a path is not known to be the one that the device is made of.
fn doubt_of_file(
    system: &System,
    device: &BlockDevice,
    backing: &str,
    found: &fs::Metadata,
) -> Option<String> {
    let name = device.disk_name();
    match (system.numbers_of_loop_file)(&name, backing) {
        Ok((on, number)) => {
            let is_on_it = (major(on), minor(on)) == (major(found.dev()), minor(found.dev()));
            let is_same = is_on_it && number == found.ino();
            let doubt =
                || format!("the file below {name} cannot be seen from here: {backing} is another one");
            (!is_same).then(doubt)
        }
        Err(error) => Some(format!(
            "whether {backing} is the file below {name} cannot be seen from here (/dev/{name}: {error})"
        )),
    }
}

/// Without direct I/O a loop device counts what the page cache of its file served: only the device
/// below that file proves anything.
pub(super) fn below(system: &System, device: BlockDevice, backing: &str, layers: u32) -> Below {
    let name = device.name().to_owned();
    let is_direct = device.fact("loop/dio").as_deref() == Some("1");
    let how = if is_direct { "direct I/O" } else { "through the page cache" };
    let Ok(metadata) = fs::metadata(backing) else {
        let doubt = match backing.strip_suffix(DELETED) {
            Some(backing) => {
                format!("the file {backing} below {name} was deleted: nothing shows where it lies")
            }
            None => format!("the file {backing} below {name} cannot be seen from here"),
        };
        return Below::doubtful(device, format!("{name} ({how})"), doubt);
    };
    if let Some(doubt) = doubt_of_file(system, &device, backing, &metadata) {
        return Below::doubtful(device, format!("{name} ({how})"), doubt);
    }
    let below = if metadata.file_type().is_block_device() {
        match BlockDevice::of_number(system, metadata.rdev()) {
            Some(device) => system.below_block(device, layers - 1),
            None => Below::unknown(backing, format!("the system reports nothing about {backing}")),
        }
    } else {
        system.below_file(Path::new(backing), metadata.dev(), layers - 1)
    };
    let top = Below::plain(device);
    let mut on_the_way = top.on_the_way;
    on_the_way.extend(below.on_the_way.iter().cloned());
    Below {
        doubt: below.doubt_below(&name),
        copies_below: below.copies * below.copies_below,
        cached: if is_direct { below.cached } else { Some(name.clone()) },
        name: format!("{name} ({how}) on {}", below.name),
        lowest: below.lowest,
        on_the_way,
        ..top
    }
}
