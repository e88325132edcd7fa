//! Loop devices: a file that acts as a device.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use super::block::BlockDevice;
use super::{Below, System};

/// What the kernel adds to the name of a file that has none any more.
const DELETED: &str = " (deleted)";

/// Without direct I/O a loop device counts what the page cache of its file served: only what that
/// file lies on tells.
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
