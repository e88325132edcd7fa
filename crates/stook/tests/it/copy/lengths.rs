//! Where nothing is synced, no file has its length before its bytes are on their way.

use std::fs::{self, File};
use std::io;
use std::sync::{Arc, Mutex};

use stook::copy::{Copy, CopyOptions, CopySource, Destination, Durability};
use stook::source::AccessRule;
use stook::tree::outbox::Calls;

/// What length a file had, and got.
#[derive(Debug, Default)]
struct Watched(Mutex<Vec<(u64, u64)>>);

impl Calls for Watched {
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().push((file.metadata()?.len(), len));
        file.set_len(len)
    }
}

#[test]
fn a_file_that_nothing_makes_durable_grows_with_its_bytes() {
    const LEN: u64 = 5 << 20;
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), vec![7; LEN as usize]).unwrap();
    for (durability, before) in [(Durability::None, LEN), (Durability::Batch, 0)] {
        let calls = Arc::new(Watched::default());
        let to = directory.path().join(format!("{durability:?}"));
        let destination = Destination { calls: calls.clone(), ..Destination::new(&to) };
        let options = CopyOptions { durability, access: AccessRule::Cached, ..CopyOptions::default() };
        // A clone is given no length.
        let options = CopyOptions { hashes: vec![stook::copy::HashKind::Xxh3], ..options };
        let copy = Copy::new(vec![CopySource::directory(&from).unwrap()], vec![destination]);
        assert!(copy.with_options(options).run(&mut ()).unwrap().destinations[0].failures.is_empty());
        assert_eq!(*calls.0.lock().unwrap(), [(before, LEN)], "{durability:?}");
        assert_eq!(fs::metadata(to.join("file")).unwrap().len(), LEN);
    }
}
