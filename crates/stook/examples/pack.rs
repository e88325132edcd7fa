//! Puts records into a pack, gets some back, and goes through all of them.
//!
//! `cargo run --example pack -- /tmp/example.stook`

use std::sync::Arc;

use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "example.stook".into());

    let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default())?);
    let mut writer = PackWriter::create(storage, WriterOptions::default())?;
    for id in 0..1000_u64 {
        writer.put("numbers", &Key::id(id), &Attributes::new(), &id.pow(2).to_le_bytes())?;
    }
    // A body of unknown length is written piece by piece; it counts once it is finished.
    let mut record = writer.begin("texts", &Key::bytes("greeting")?, &Attributes::new(), None)?;
    record.write(b"hello, ")?;
    record.write(b"world")?;
    record.finish()?;
    writer.set_complete(true);
    writer.finish(true)?;

    let pack = Pack::open_path(&path, OpenOptions::default())?;
    let greeting = pack.get(&Key::bytes("greeting")?)?.ok_or("the greeting is gone")?;
    println!("{}", String::from_utf8_lossy(&greeting.body));

    let (mut records, mut bytes) = (0, 0);
    let mut scan = pack.scan(ScanOptions::default());
    while let Some(record) = scan.next()? {
        records += 1;
        bytes += record.body().map_or(0, <[u8]>::len);
    }
    println!("{records} records, {bytes} bytes, {} damaged", scan.damages().len());
    Ok(())
}
