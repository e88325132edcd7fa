//! What is read back decides what a mirror does.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use stook::copy::{Copy, CopyOptions, CopySource, Destination, Digest, Failure, ReadAgain, ReadBack};

use super::Heard;

/// Destination, key, length, and how many digests.
type Noted = (usize, Vec<u8>, u64, usize);

/// Keeps what was noted; one file was lost, where that is so.
#[derive(Debug, Default)]
struct Reading {
    noted: Mutex<Vec<Noted>>,
    loses: bool,
}

impl ReadBack for Reading {
    fn note(&self, destination: usize, key: &[u8], len: u64, digests: &[Digest]) {
        self.noted.lock().unwrap().push((destination, key.to_vec(), len, digests.len()));
    }

    fn read(
        &self,
        _: usize,
        path: &Path,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> (ReadAgain, Vec<Failure>) {
        // All have their names by now, and nothing was deleted.
        assert!(path.join("a").is_file() && path.join("extra").is_file());
        assert!(go_on(1, 2) && go_on(2, 2));
        let error = stook::Error::io("read back", path.join("a"), std::io::Error::other("lost"));
        let lost = self.loses.then(|| Failure { key: b"a".to_vec(), error });
        (
            ReadAgain { files: 1, bytes: 2, is_past_cache: Some(true), ..ReadAgain::default() },
            lost.into_iter().collect(),
        )
    }
}

#[test]
fn what_has_its_name_is_noted_and_a_mirror_deletes_nothing_before_it_was_read_back() {
    for loses in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["from", "to"] {
            fs::create_dir(at(directory)).unwrap();
        }
        fs::write(at("from/a"), "12").unwrap();
        fs::write(at("from/there"), "1").unwrap();
        fs::write(at("to/extra"), "").unwrap();
        fs::hard_link(at("from/there"), at("to/there")).unwrap();
        let options = CopyOptions { mirror: true, force: true, ..CopyOptions::default() };
        let sources = vec![CopySource::directory(at("from")).unwrap()];
        let copy = Copy::new(sources, vec![Destination::new(at("to"))]).with_options(options);
        let reading = Arc::new(Reading { loses, ..Reading::default() });
        let mut heard = Heard::default();
        let report = Copy { read_back: Some(reading.clone()), ..copy }.run(&mut heard).unwrap();
        let one = &report.destinations[0];
        assert_eq!(*reading.noted.lock().unwrap(), [(0, b"a".to_vec(), 2, 1)]);
        assert_eq!(one.read_again.map(|read| (read.files, read.bytes)), Some((1, 2)));
        assert_eq!(at("to/extra").exists(), loses);
        assert_eq!((one.failures.len(), one.not_mirrored.is_some()), (usize::from(loses), loses));
        assert_eq!(report.undone() > 0, loses, "{report:?}");
    }
}
