//! A process that has a pack open for reading and for writing forks; parent and child continue.
//! `forks DIRECTORY`
#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken promise ends the test")]
#![expect(unsafe_code, reason = "fork has no safe interface")]

use std::path::Path;
use std::sync::Arc;

use stook::pack::{Attributes, Error, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};

const RECORDS: u64 = 500;

fn main() {
    let directory = std::env::args().nth(1).unwrap();
    let directory = Path::new(&directory);
    let storage: Arc<dyn Storage> =
        Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::create(storage.clone(), WriterOptions::default()).unwrap();
    for number in 0..RECORDS {
        writer.put("", &Key::id(number), &Attributes::new(), &body(number)).unwrap();
    }
    writer.publish().unwrap();
    let pack = Pack::open_path(directory, OpenOptions::default()).unwrap();
    look(&pack);
    // SAFETY: this process has no threads but those of idle engines, which the child must do
    // without.
    let child = unsafe { libc::fork() };
    match child {
        0 => in_child(&pack, writer),
        -1 => panic!("{}", std::io::Error::last_os_error()),
        _ => {}
    }
    look(&pack);
    let mut status = 0;
    // SAFETY: the child is ours, and the status is written to memory that lives.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(waited == child && status == 0, "the child ended with {status}");
    let refused = PackWriter::open(storage, WriterOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("is locked by"), "the child took the lock along: {refused}");
    writer.put("", &Key::id(0), &Attributes::new(), b"the parent continues").unwrap();
    writer.finish(true).unwrap();
    look(&pack);
    println!("parent and child went on");
}

fn in_child(pack: &Pack, mut writer: PackWriter) -> ! {
    look(pack);
    let refused = writer.put("", &Key::id(1), &Attributes::new(), b"from the child");
    assert!(matches!(refused, Err(Error::Forked { .. })), "{refused:?}");
    assert!(matches!(writer.sync(), Err(Error::Forked { .. })));
    drop(writer);
    std::process::exit(0);
}

fn body(number: u64) -> Vec<u8> {
    stook_testing::conformance::pattern(9_000, number)
}

fn look(pack: &Pack) {
    let keys: Vec<Key> = (0..RECORDS).map(Key::id).collect();
    for (number, record) in (0..).zip(pack.get_many(&keys).unwrap()) {
        assert!(record.unwrap().unwrap().body == body(number), "record {number}");
    }
    let mut scan = pack.scan(stook::pack::ScanOptions::default());
    let mut records = 0;
    while let Some(record) = scan.next().unwrap() {
        assert!(record.body().is_some());
        records += 1;
    }
    assert_eq!(records, RECORDS);
}
