//! Whether what is to be written fits.

use std::path::Path;

use crate::report::units::bytes_decimal;

/// What files take besides their bytes, and what the file system wants to keep: less room than
/// needed is refused, not less than is comfortable.
const BLOCK_LEN: u64 = 4096;

/// The room that a file of this length takes.
pub(crate) fn of_file(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK_LEN).unwrap_or(len)
}

/// Why so much cannot be written; `None` where it can.
pub(crate) fn too_little(target: &Path, needed: u64, free: u64) -> Option<String> {
    (needed > free).then(|| {
        format!(
            "{} would be needed in {}, and {} are free: make room, choose another place, or force it (`--force`), \
             and what fits is written",
            bytes_decimal(needed),
            target.display(),
            bytes_decimal(free)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_exactly_is_written_and_one_block_more_is_refused_with_both_figures() {
        let target = Path::new("out");
        assert_eq!(too_little(target, 8192, 8192), None);
        let reported = too_little(target, of_file(8193), 8192).unwrap();
        assert!(reported.starts_with("12.3 KB would be needed in out, and 8.19 KB are free"), "{reported}");
        assert_eq!(of_file(u64::MAX), u64::MAX);
    }
}
