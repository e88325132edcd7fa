//! Tars and zips of any bytes: they are refused, or every member is listed, found and read within
//! its stated bounds, as a member and as a node of a tree.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use stook::archive::{Archive, Index, OpenOptions};
use stook::engine::Backend;
use stook::tree::{Cursor, GatherOptions, Gathered, Kind, Page, Tree as _, Xattrs};

/// More of the bodies than this is not read, so that a bomb does not eat the time.
const READ_MAX: u64 = 4 << 20;

/// Tars; the checksums of everything that looks like a header are corrected first.
pub fn archive_tar(data: &[u8]) {
    let mut signed = data.to_vec();
    for block in signed.chunks_exact_mut(512).filter(|block| block.get(257..262) == Some(b"ustar")) {
        sign(block);
    }
    read_all(data);
    read_all(&signed);
}

/// Zips, and compressed tars.
pub fn archive_zip(data: &[u8]) {
    read_all(data);
}

/// Indexes that lie beside archives.
pub fn archive_index(data: &[u8]) {
    let Ok(index) = Index::decode(Bytes::copy_from_slice(data)) else { return };
    for number in 0..index.len().min(1_000) {
        let Some(member) = index.member(number) else { continue };
        let found = index.find(member.key).expect("a member that is listed is found");
        assert_eq!(found.key, member.key);
        let _ = index.extents(number);
        let xattrs = Xattrs::decode(member.xattrs);
        assert_eq!(Xattrs::decode(&xattrs.encode()), xattrs);
    }
}

/// The checksum of a tar header: the sum of its bytes, its own eight taken for blanks.
fn sign(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn read_all(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the input");
    let path = folder.path().join("input");
    fs::write(&path, data).expect("the input is written");
    let _ = read(&path);
    assert_eq!(fs::read(&path).expect("it is there"), data, "an archive is never changed");
}

fn read(path: &Path) -> stook::archive::Result<()> {
    let options = OpenOptions { sidecar: false, max_index_bytes: 16 << 20, ..OpenOptions::default() };
    let archive = Archive::open(path, options)?;
    let mut before: Option<Vec<u8>> = None;
    for member in archive.members(b"") {
        assert!(before.as_deref().is_none_or(|before| before < member.key), "keys rise and none comes twice");
        before = Some(member.key.to_vec());
        assert!(archive.find(member.key).is_some(), "what is listed is found");
    }
    walk(&archive);
    let mut reading = archive.read((0..archive.len()).collect())?;
    let mut left = READ_MAX;
    while let Some(member) = reading.next()? {
        let mut len = 0;
        while let Some(chunk) = reading.chunk()? {
            len += chunk.len() as u64;
            left = left.saturating_sub(chunk.len() as u64);
            if left == 0 {
                return Ok(());
            }
        }
        assert_eq!(len, member.node.len, "a member that is read to its end has its length");
    }
    Ok(())
}

/// Goes through the tree of an archive: nothing in it leads out, and every body fits its node.
fn walk(archive: &Archive) {
    let tree = archive.tree();
    let (mut waiting, mut files, mut page) = (vec![tree.root()], Vec::new(), Page::new());
    while let Some(directory) = waiting.pop() {
        let mut from = Some(Cursor::Start);
        while let Some(cursor) = from {
            from = tree.list(directory, &cursor, &mut page).expect("a directory is listed");
            for entry in page.iter() {
                assert!(![&b""[..], b".", b".."].contains(&entry.name) && !entry.name.contains(&b'/'));
                let found = tree.lookup(directory, entry.name).expect("a directory is looked into");
                assert_eq!(found, Some(entry.id), "what is listed is found");
                match entry.kind {
                    Some(Kind::Directory) => waiting.push(entry.id),
                    Some(Kind::File) => files.push(entry.id),
                    _ => {}
                }
            }
        }
    }
    let mut left = READ_MAX;
    let mut take = |gathered: Gathered| -> ControlFlow<()> {
        let Ok(piece) = gathered.result else { return ControlFlow::Continue(()) };
        let (len, node) = (piece.bytes.len() as u64, tree.node(gathered.id).expect("it was listed"));
        assert_eq!(piece.body_len, node.len, "a body has the length of its node");
        assert!(piece.offset + len <= node.len);
        left = left.saturating_sub(len);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    tree.gather(&files, &Backend::Auto, &GatherOptions::default(), &mut take).expect("an engine is made");
}
