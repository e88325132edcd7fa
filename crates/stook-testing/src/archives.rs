//! Archives made of a [`TreeModel`], byte by byte, by code that shares nothing with the library's.

use crate::model::tree::{TreeEntry, TreeModel};

/// Which directories are explicit members of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directories {
    /// All, the root too.
    All,
    /// Only those that no other member implies.
    Needed,
}

impl Directories {
    fn has(self, model: &TreeModel, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        let is_implied = || model.iter().any(|(other, _)| other.starts_with(&below));
        self == Self::All || !model.xattrs(path).is_empty() || !is_implied()
    }
}

/// What deflates: into a raw stream, without a header.
pub type Deflate<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

const BLOCK_LEN: usize = 512;

/// A tar of a model: pax, with values that do not fit a header in extended ones. Hard links follow
/// all files.
pub fn tar_of(model: &TreeModel, directories: Directories) -> Vec<u8> {
    let mut tar = Vec::new();
    if directories == Directories::All {
        tar.extend(tar_member(b"./", b'5', b"", b"", &[]));
    }
    let of = |path: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let xattrs = model.xattrs(path);
        let pairs = xattrs.as_slice().iter();
        pairs.map(|xattr| (xattr.name.clone(), xattr.value.clone().unwrap_or_default())).collect()
    };
    for (path, entry) in model.iter() {
        match entry {
            TreeEntry::Directory if directories.has(model, path) => {
                tar.extend(tar_member(&[path, b"/"].concat(), b'5', b"", b"", &of(path)));
            }
            TreeEntry::Directory | TreeEntry::Link(_) => {}
            TreeEntry::File(bytes) => tar.extend(tar_member(path, b'0', b"", bytes, &of(path))),
            TreeEntry::Symlink(target) => tar.extend(tar_member(path, b'2', target, b"", &of(path))),
        }
    }
    for (path, entry) in model.iter() {
        if let TreeEntry::Link(to) = entry {
            tar.extend(tar_member(path, b'1', to, b"", &[]));
        }
    }
    tar.resize(tar.len() + 2 * BLOCK_LEN, 0);
    tar
}

fn tar_member(
    path: &[u8],
    type_flag: u8,
    link: &[u8],
    body: &[u8],
    xattrs: &[(Vec<u8>, Vec<u8>)],
) -> Vec<u8> {
    let mut records = Vec::new();
    for (key, value) in [(&b"path"[..], path), (&b"linkpath"[..], link)] {
        if value.len() > 100 {
            records.extend(pax_record(key, value));
        }
    }
    for (name, value) in xattrs {
        records.extend(pax_record(&[b"SCHILY.xattr.", name.as_slice()].concat(), value));
    }
    let mut member = Vec::new();
    if !records.is_empty() {
        member.extend(tar_header(b"pax", b'x', b"", records.len()));
        member.extend(records);
        member.resize(member.len().next_multiple_of(BLOCK_LEN), 0);
    }
    member.extend(tar_header(path, type_flag, link, body.len()));
    member.extend_from_slice(body);
    member.resize(member.len().next_multiple_of(BLOCK_LEN), 0);
    member
}

fn tar_header(path: &[u8], type_flag: u8, link: &[u8], len: usize) -> Vec<u8> {
    let mut block = vec![0_u8; BLOCK_LEN];
    let mut put = |at: usize, most: usize, bytes: &[u8]| {
        let len = bytes.len().min(most);
        block[at..at + len].copy_from_slice(&bytes[..len]);
    };
    put(0, 100, path);
    put(100, 8, b"0000640\0");
    put(108, 8, b"0000001\0");
    put(116, 8, b"0000002\0");
    put(124, 12, format!("{len:011o}\0").as_bytes());
    put(136, 12, b"00000000012\0");
    put(148, 8, b"        ");
    put(156, 1, &[type_flag]);
    put(157, 100, link);
    put(257, 8, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A record that begins with its own length.
fn pax_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len += 1;
    }
    [len.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

/// A zip of a model, which has no hard links: stored, or with bodies and targets of links deflated.
///
/// # Panics
/// Panics if there are hard links.
pub fn zip_of(model: &TreeModel, directories: Directories, deflate: Option<&Deflate<'_>>) -> Vec<u8> {
    let table = crc32_table();
    let (mut zip, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for (path, entry) in model.iter() {
        let (name, mode, bytes) = match entry {
            TreeEntry::Directory if !directories.has(model, path) => continue,
            TreeEntry::Directory => ([path, b"/"].concat(), 0o040_750_u32, &b""[..]),
            TreeEntry::File(bytes) => (path.to_vec(), 0o100_640, bytes.as_slice()),
            TreeEntry::Symlink(target) => (path.to_vec(), 0o120_777, target.as_slice()),
            TreeEntry::Link(_) => panic!("zips have no hard links"),
        };
        let (method, stored) = match deflate.filter(|_| *entry != TreeEntry::Directory) {
            Some(deflate) => (8_u16, deflate(bytes)),
            None => (0, bytes.to_vec()),
        };
        let at = zip.len() as u32;
        let crc =
            !bytes.iter().fold(u32::MAX, |crc, byte| table[usize::from(crc as u8 ^ *byte)] ^ (crc >> 8));
        // What the header before a member and the entry of the directory have in common: version,
        // flags, method, the first of January 1980, checksum, lengths.
        let mut common = Vec::new();
        common.extend([20_u16, 0, method, 0, 0x21].iter().flat_map(|number| number.to_le_bytes()));
        common.extend([crc, stored.len() as u32, bytes.len() as u32].iter().flat_map(|n| n.to_le_bytes()));
        common.extend([name.len() as u16, 0].iter().flat_map(|number| number.to_le_bytes()));
        zip.extend_from_slice(b"PK\x03\x04");
        zip.extend_from_slice(&common);
        zip.extend_from_slice(&name);
        zip.extend_from_slice(&stored);
        directory.extend_from_slice(b"PK\x01\x02\x14\x03");
        directory.extend_from_slice(&common);
        // No comment, the only part, nothing internal; then the mode and the place.
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&(mode << 16).to_le_bytes());
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(&name);
        count = count.wrapping_add(1);
    }
    let (at, len) = (zip.len() as u32, directory.len() as u32);
    zip.extend(directory);
    zip.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    zip.extend([count, count].iter().flat_map(|number| number.to_le_bytes()));
    zip.extend([len, at].iter().flat_map(|number| number.to_le_bytes()));
    zip.extend_from_slice(&[0; 2]);
    zip
}

fn crc32_table() -> Vec<u32> {
    let step = |value: u32| if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
    (0..256_u32).map(|byte| (0..8).fold(byte, |value, _| step(value))).collect()
}
