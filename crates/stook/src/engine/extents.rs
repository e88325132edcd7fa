//! In how many pieces a file lies on its medium.
#![expect(unsafe_code, reason = "rustix has no FIEMAP")]

use std::fs::File;
use std::io;

/// How many extents a file has, without asking where they are. `None` where its file system does
/// not say.
///
/// # Errors
/// I/O errors.
#[cfg(target_os = "linux")]
pub fn extents_of(file: &File) -> io::Result<Option<u32>> {
    use rustix::io::Errno;
    use rustix::ioctl::{Opcode, Updater, ioctl};

    /// `FS_IOC_FIEMAP` of `include/uapi/linux/fs.h`.
    const FIEMAP: Opcode = 0xC020_660B;

    /// `struct fiemap`, with room for no extent: then the kernel counts them.
    #[repr(C)]
    struct Fiemap {
        start: u64,
        length: u64,
        flags: u32,
        mapped_extents: u32,
        extent_count: u32,
        reserved: u32,
    }

    let mut asked =
        Fiemap { start: 0, length: u64::MAX, flags: 0, mapped_extents: 0, extent_count: 0, reserved: 0 };
    // SAFETY: the code is valid, and its argument is a `struct fiemap`, of which the kernel changes
    // no more than the head where there is room for no extent.
    let question = unsafe { Updater::<FIEMAP, Fiemap>::new(&mut asked) };
    // SAFETY: the descriptor is open. A file system that has no such question refuses the code.
    match unsafe { ioctl(file, question) } {
        Ok(()) => Ok(Some(asked.mapped_extents)),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::BADR | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// How many extents a file has, which no other system says.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn extents_of(_file: &File) -> io::Result<Option<u32>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    #[test]
    fn pieces_with_a_hole_between_are_counted_where_the_file_system_says() {
        let mut file = tempfile::tempfile().unwrap();
        let none = extents_of(&file).unwrap();
        assert!(none.is_none_or(|extents| extents == 0), "{none:?}");
        for at in [0_u64, 1 << 20, 2 << 20] {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[1; 4096]).unwrap();
        }
        file.sync_all().unwrap();
        let three = extents_of(&file).unwrap();
        assert!(three.is_none_or(|extents| extents >= 3), "{three:?}");
    }
}
