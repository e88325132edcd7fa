//! The date of lists that are made beside others.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::Dir;
use rustix::io::Errno;

use crate::format::{now_ns, sums};

/// The date in the names of lists that are made now in a directory: no list of our own that is
/// there counts for more than these ([`sums::new_date`]). Those of a directory that this user may
/// only write to are not known.
///
/// # Errors
/// I/O errors.
pub(crate) fn date_in(directory: &OwnedFd) -> io::Result<String> {
    let entries = match Dir::read_from(directory) {
        Err(Errno::ACCESS) => None,
        entries => Some(entries?),
    };
    let names = entries.into_iter().flatten().map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
    Ok(sums::new_date(now_ns(), names.collect::<io::Result<Vec<_>>>()?))
}
