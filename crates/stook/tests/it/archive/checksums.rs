//! What a compressed tar says at its end of all that is in it.

use std::fs::{self, File};
use std::io::{Cursor, Read, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stook::archive::{Archive, Error, OpenOptions, Origin, Unpack, tar_stream};
use stook::tree::Overwrite;

use super::made::{end, header, member};

/// A tar of two members, and one that ends with a hole.
fn tar() -> Vec<u8> {
    let mut sparse = header(b"sparse", b'S', 512);
    sparse[257..265].copy_from_slice(b"ustar  \0");
    sparse[386..398].copy_from_slice(b"00000000000\0");
    sparse[398..410].copy_from_slice(b"00000001000\0");
    sparse[483..495].copy_from_slice(b"00000010000\0");
    super::made::sign(&mut sparse);
    let sparse = [sparse, vec![b's'; 512]].concat();
    let first = member(b"first", b'0', &b"first ".repeat(10_000));
    [first, member(b"second", b'0', &b"second ".repeat(10_000)), sparse, end()].concat()
}

/// Stored, so that one wrong bit is a wrong byte and nothing else.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Damaged { what, .. } if what.contains("the compressed bytes are damaged or cut off"))
}

/// Before: the offset could be past the end of the file, and its unit was not stated.
#[test]
fn the_offset_of_damage_in_compressed_bytes_is_said_to_be_in_what_they_decompress_to() {
    let good = gzip(&tar());
    let error = members(good[..good.len() / 2].to_vec()).unwrap_err();
    assert!(is_damage(&error), "{error}");
    assert!(error.to_string().contains("the offset is in what they decompress to"), "{error}");
}

/// How many members a stream has, or the error.
fn members(bytes: Vec<u8>) -> Result<u64, Error> {
    let mut stream = tar_stream(Cursor::new(bytes), "stream")?;
    let mut members = 0;
    while stream.next()?.is_some() {
        members += 1;
        while stream.chunk()?.is_some() {}
    }
    assert!(stream.has_end());
    Ok(members)
}

#[test]
fn a_stream_ends_only_when_its_checksum_was_right() {
    let good = gzip(&tar());
    assert_eq!(members(good.clone()).unwrap(), 3);
    // Members of a gzip file follow each other, and zeroes may follow them.
    let tar = tar();
    let (one, other) = tar.split_at(3000);
    let parts = [gzip(one), gzip(other), vec![0; 5000]].concat();
    assert_eq!(members(parts).unwrap(), 3);
    for at in [good.len() / 4, good.len() / 2, good.len() - 300, good.len() - 8, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let error = members(bad).unwrap_err();
        assert!(is_damage(&error), "byte {at}: {error}");
    }
    for missing in 1..=8 {
        let error = members(good[..good.len() - missing].to_vec()).unwrap_err();
        assert!(is_damage(&error), "{missing} bytes less: {error}");
    }
}

/// Reports how many bytes were read.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.0.read(buffer)?;
        self.1.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

#[test]
fn what_is_after_the_end_of_a_tar_in_a_stream_is_read() {
    let bytes = [tar(), vec![0; 20 << 20]].concat();
    let (len, count) = (bytes.len() as u64, Arc::new(AtomicU64::new(0)));
    let reader = std::io::BufReader::new(Counted(Cursor::new(bytes), count.clone()));
    let mut stream = tar_stream(reader, "stream").unwrap();
    while stream.next().unwrap().is_some() {}
    assert_eq!(count.load(Ordering::Relaxed), len);
    assert!(stream.has_end());
}

#[test]
fn what_is_no_tar_is_reported_by_its_first_bytes() {
    for bytes in [&b""[..], b"text", &[b'x'; 600], b"PK\x03\x04 and more", &gzip(b"text"), &tar()[..300]] {
        let error = tar_stream(Cursor::new(bytes.to_vec()), "stream").unwrap_err();
        assert!(matches!(error, Error::NotAnArchive { .. }), "{error}");
    }
    assert_eq!(members(end()).unwrap(), 0);
}

/// A compressed tar that has an index, and that has rotted since without a trace in its times. The
/// index gets the change time that the writing here leaves.
pub(super) fn rotten(path: &Path) -> Archive {
    fs::write(path, gzip(&tar())).unwrap();
    Archive::open(path, OpenOptions::default()).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let (found, time) = (file.metadata().unwrap(), file.metadata().unwrap().modified().unwrap());
    let (mut byte, at) = ([0], found.len() * 3 / 4);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.set_modified(time).unwrap();
    let found = file.metadata().unwrap();
    let index = path.with_extension("gz.stook-index");
    let mut bytes = fs::read(&index).unwrap();
    let ctime_ns = found.ctime() * 1_000_000_000 + found.ctime_nsec();
    bytes[40..48].copy_from_slice(&ctime_ns.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..108]);
    bytes[108..112].copy_from_slice(&sum.to_le_bytes());
    fs::write(&index, bytes).unwrap();
    let archive = Archive::open(path, OpenOptions::default()).unwrap();
    assert_eq!(archive.origin(), &Origin::Sidecar);
    archive
}

fn number(archive: &Archive, key: &[u8]) -> u64 {
    archive.find(key).unwrap().number
}

#[test]
fn the_last_member_that_is_read_ends_only_when_the_checksum_was_right() {
    let dir = tempfile::tempdir().unwrap();
    let archive = rotten(&dir.path().join("t.tar.gz"));
    for keys in [&[&b"first"[..]][..], &[b"second"], &[b"first", b"second"], &[b"second", b"first"]] {
        let mut reading = archive.read(keys.iter().map(|key| number(&archive, key)).collect()).unwrap();
        for (at, _) in keys.iter().enumerate() {
            reading.next().unwrap().unwrap();
            let read = loop {
                match reading.chunk() {
                    Ok(Some(_)) => {}
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            match read {
                Ok(()) => assert!(at + 1 < keys.len(), "{keys:?}"),
                Err(error) => assert!(at + 1 == keys.len() && is_damage(&error), "{keys:?}: {error}"),
            }
        }
        assert!(reading.next().unwrap().is_none(), "it is reported once");
    }
}

#[test]
fn a_reader_that_passes_over_the_last_member_gets_the_error_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let archive = rotten(&dir.path().join("t.tar.gz"));
    let mut reading = archive.read(vec![number(&archive, b"first"), number(&archive, b"second")]).unwrap();
    reading.next().unwrap().unwrap();
    assert!(reading.chunk().unwrap().is_some());
    reading.next().unwrap().unwrap();
    assert!(is_damage(&reading.next().unwrap_err()));
    // Members that were never read need not be intact.
    let mut reading = archive.read(vec![number(&archive, b"first")]).unwrap();
    reading.next().unwrap().unwrap();
    assert!(reading.next().unwrap().is_none());
}

fn unpack(archive: &Archive, target: &Path, key: &[u8]) -> stook::archive::UnpackSummary {
    let unpack = Unpack {
        target: target.to_path_buf(),
        overwrite: Overwrite::Never,
        with_owner: false,
        xattrs: true,
        threads: 2,
        durability: Default::default(),
        force: false,
        select: Box::new(|found| found == key),
    };
    unpack.run(archive, &mut |_, _| true).unwrap()
}

#[test]
fn unpacking_what_rotted_is_a_failure_and_a_hole_at_the_end_stays() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out");
    let good = dir.path().join("good.tar.gz");
    fs::write(&good, gzip(&tar())).unwrap();
    let done = unpack(&Archive::open(&good, OpenOptions::default()).unwrap(), &target, b"sparse");
    assert!(done.failures.is_empty(), "{:?}", done.failures);
    let sparse = fs::read(target.join("sparse")).unwrap();
    assert!(sparse.len() == 0o10000 && sparse[..512] == [b's'; 512] && sparse[512..].iter().all(|b| *b == 0));
    let archive = rotten(&dir.path().join("t.tar.gz"));
    let done = unpack(&archive, &target, b"first");
    assert!(matches!(&done.failures[..], [failure] if is_damage(&failure.error)), "{:?}", done.failures);
    assert!(!target.join("first").exists());
}
