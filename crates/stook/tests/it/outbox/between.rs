//! What another program puts under a name while a file is on its way there.

use std::fs;
use std::sync::Arc;

use stook::tree::Overwrite;
use stook::tree::outbox::{Calls, System};

use super::Place;

/// What the calls do when a file gets its name: another comes in between.
#[derive(Debug)]
struct CameBetween {
    bytes: &'static [u8],
    nth: std::sync::atomic::AtomicUsize,
}

impl Calls for CameBetween {
    fn link_unnamed(
        &self,
        file: &fs::File,
        parent: std::os::fd::BorrowedFd<'_>,
        name: &std::ffi::OsStr,
    ) -> std::io::Result<()> {
        if name == "5" && self.nth.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            let mut other = System.create(parent, name, 0o644)?;
            std::io::Write::write_all(&mut other, self.bytes)?;
        }
        System.link_unnamed(file, parent, name)
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_came_in_between_is_unchanged_if_it_has_the_same_bytes_and_kept_otherwise() {
    let place = Place::new();
    for packed in place.both() {
        for (bytes, is_same) in [(&b"nnnnnnnnn"[..], true), (b"nnnnnnnn!", false), (b"n", false)] {
            place.target(false);
            let calls = Arc::new(CameBetween { bytes, nth: Default::default() });
            let done = place.unpack(packed, Overwrite::Never, calls).unwrap();
            let summary = &done.summary;
            assert!(summary.failures.is_empty(), "{packed:?}: {summary:?}");
            assert_eq!((summary.unchanged, summary.kept.len()), (u64::from(is_same), usize::from(!is_same)));
        }
    }
}
