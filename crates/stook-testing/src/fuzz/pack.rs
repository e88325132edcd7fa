//! The decoders of the pack format, each alone and on bytes whose checksum was made right, and
//! whole packs.
//!
//! Anything that a decoder accepts is encoded and decoded again: it must be the same. Nothing here
//! looks for good data in bad bytes; the tests of truncated and flipped files do that.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use stook::names::ListEnd;
use stook::pack::format::UNIT;
use stook::pack::format::batch::{BatchEnd, BatchSum};
use stook::pack::format::copies::{read_half, stated_len, twice};
use stook::pack::format::deletes::{DELETES_LEN_AT, DeletionVector};
use stook::pack::format::footer::{FOOTER_LEN, Footer, FooterKind};
use stook::pack::format::frame::{
    FrameHeader, HEADER_LEN, PIECE_HEAD_LEN, PieceHead, TRAILER_LEN, Trailer, verify_chunks,
};
use stook::pack::format::index::{EncodedIndex, IndexBuilder, Top};
use stook::pack::format::manifest::{MANIFEST_LEN_AT, Manifest};
use stook::pack::format::page::Page;
use stook::pack::format::segment::{Salt, SegmentHeader};
use stook::pack::{Attributes, Key, PackWriter, WriterOptions};
use stook::storage::Storage;
use stook::tree::Xattrs;

use crate::conformance::{contents, pattern};
use crate::model::pack::{ScriptedHost, open_simulated, read_in_every_way, tiny_writer};
use crate::sim::SimStorage;

/// The salt of the pages and frames that are fuzzed alone.
const SALT: Salt = Salt { marker: 0x5354_4b21, crc: 5, pack_crc: 6, chunk_len: 4096 };

/// The bytes with the checksum of all but the last four in the last four.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(at) = bytes.len().checked_sub(4) {
        let crc = crc32c::crc32c(&bytes[..at]);
        bytes[at..].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// The bytes with the checksum of all but the first four in the first four.
fn sealed_ahead(mut bytes: Vec<u8>, crc: u32) -> Vec<u8> {
    if bytes.len() >= 4 {
        let crc = crc32c::crc32c_append(crc, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

fn padded(data: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = data[..data.len().min(len)].to_vec();
    bytes.resize(len, 0);
    bytes
}

/// Segment headers.
pub fn pack_segment_header(data: &[u8]) {
    let _ = SegmentHeader::decode(data);
    if let Ok(header) = SegmentHeader::decode(&sealed(padded(data, UNIT))) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
}

/// Footers of sealed segments and of checkpoints; the first 8 bytes say how long the file is.
pub fn pack_footer(data: &[u8]) {
    let Some((file_len, data)) = data.split_first_chunk::<8>() else { return };
    let file_len = u64::from_le_bytes(*file_len);
    for kind in [FooterKind::Sealed, FooterKind::Checkpoint] {
        let _ = Footer::decode(data, kind, file_len);
        if let Ok(footer) = Footer::decode(&sealed(padded(data, FOOTER_LEN)), kind, file_len) {
            assert!(footer.index.end() <= file_len && footer.top.end() <= file_len);
            assert_eq!(Footer::decode(&footer.encode(), kind, file_len), Ok(footer));
        }
    }
}

/// Frame headers with key and attributes, pieces, trailers, chunks.
pub fn pack_frame(data: &[u8]) {
    let Some((fixed, rest)) = data.split_first_chunk::<HEADER_LEN>() else { return };
    let mut fixed = *fixed;
    fixed[..4].copy_from_slice(&SALT.marker.to_le_bytes());
    if let Ok(header) = FrameHeader::decode(&fixed, &SALT) {
        let _ = header.frame_len(&SALT);
        let key = &rest[..rest.len().min(usize::from(header.key_len))];
        let attributes = &rest[key.len()..];
        let attributes = &attributes[..attributes.len().min(usize::from(header.attributes_len))];
        let again = header.encode(&SALT, 4096, key, attributes);
        let read = FrameHeader::decode(&again, &SALT).expect("it was read before");
        assert!(read.verify(&again, &SALT, 4096, key, attributes));
        assert_eq!(FrameHeader { crc: 0, ..read }, FrameHeader { crc: 0, ..header });
    }
    if let Ok(piece) = PieceHead::decode(rest, SALT.chunk_len) {
        assert!(u64::from(piece.len) <= SALT.chunk_len);
        let _ = piece.verify(&rest[PIECE_HEAD_LEN as usize..], &SALT, u64::MAX, u64::MAX);
    }
    if let Ok(trailer) = Trailer::decode(rest, 7) {
        assert_eq!(Trailer::decode(&rest[..TRAILER_LEN as usize], 7), Ok(trailer));
    }
    let (body, sums) = rest.split_at(rest.len() / 2);
    let _ = verify_chunks(body, sums, &SALT, u64::MAX, 0);
    let mut bound = Vec::new();
    let plain: Vec<u8> = body.chunks(4096).flat_map(|chunk| crc32c::crc32c(chunk).to_le_bytes()).collect();
    SALT.bind_all(&plain, 9, &mut bound);
    assert_eq!(verify_chunks(body, &bound, &SALT, 9, 0), Ok(()));
    if let Ok(end) = BatchEnd::decode(rest) {
        assert_eq!(end.encode(), rest);
        assert!(BatchSum::default().verify(rest).is_err() || (end.first, end.count, end.crc) == (0, 0, 0));
    }
}

/// Attributes of records.
pub fn pack_attributes(data: &[u8]) {
    let data = &data[..data.len().min(usize::from(u16::MAX))];
    if let Ok(attributes) = Attributes::decode(data) {
        assert_eq!(attributes.encode().expect("what was read fits"), data);
        let _ = (attributes.file_kind(), attributes.mode(), attributes.mtime_ns(), attributes.owner());
        let xattrs = attributes.xattrs();
        assert_eq!(Xattrs::decode(&xattrs.encode()), xattrs);
        let holes = attributes.holes();
        assert!(holes.as_slice().windows(2).all(|two| two[0].end() < two[1].start()), "apart, in order");
        assert!(holes.as_slice().iter().all(|hole| !hole.is_empty()));
    }
}

/// Index pages: as they are, and with a right checksum.
pub fn pack_index_page(data: &[u8]) {
    let len = data.len().next_multiple_of(UNIT).clamp(UNIT, 17 * UNIT);
    let crc = crc32c::crc32c_append(SALT.crc, &3_u32.to_le_bytes());
    let bytes = sealed_ahead(padded(data, len), crc);
    // What was not verified may be anything, and is looked at without harm.
    if let Ok(page) = Page::parse(&bytes) {
        let mut entries = page.seek(data);
        while entries.is_valid() {
            entries.advance();
        }
        assert!(page.find(data).end <= page.len());
    }
    let Ok(page) = Page::verify(&bytes, SALT.crc, 3) else { return };
    assert!(!page.is_empty() && page.place(page.len()).is_none());
    let mut builder = IndexBuilder::new(SALT.crc);
    let (mut entries, mut number) = (page.entries(), 0);
    while let Some(place) = entries.place() {
        // Not each: a page of versions of one key would be gone through as often as it has entries.
        if number % 61 == 0 {
            let found = page.find(entries.form());
            assert!(found.contains(&number) && page.place(number) == Some(place));
            assert!(page.seek(entries.form()).place() == page.place(found.start));
        }
        builder.push(entries.form(), place);
        number += 1;
        entries.advance();
    }
    assert_eq!(number, page.len());
    let again = builder.finish().expect("a page has entries");
    let top = Top::decode(&again.top, SALT.crc, again.pages.len() as u64).expect("it was just made");
    assert!(is_same(page, &again, &top), "what was read is written again");
}

/// Whether an index has the entries of a page and no others.
fn is_same(page: Page<'_>, index: &EncodedIndex, top: &Top) -> bool {
    let mut entries = page.entries();
    for (first, len) in (0..top.pages()).filter_map(|number| top.page(number)) {
        let bytes = &index.pages[first as usize * UNIT..][..len];
        let mut again = Page::verify(bytes, SALT.crc, first).expect("it was just made").entries();
        while again.is_valid() {
            if (again.form(), again.place()) != (entries.form(), entries.place()) {
                return false;
            }
            again.advance();
            entries.advance();
        }
    }
    !entries.is_valid()
}

/// Tops of indexes.
pub fn pack_index_top(data: &[u8]) {
    let bytes = sealed_ahead(data.to_vec(), SALT.crc);
    let units =
        bytes.get(12..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |u| u32::from_le_bytes(*u));
    let index_len = u64::from(units) * UNIT as u64;
    let Ok(top) = Top::decode(&bytes, SALT.crc, index_len) else { return };
    assert!(top.find(data) < top.pages().max(1));
    let mut end = 0;
    for number in 0..top.pages() {
        let (first, len) = top.page(number).expect("it has that many");
        assert_eq!(u64::from(first) * UNIT as u64, end);
        assert!(len <= 17 * UNIT);
        end += len as u64;
    }
    assert!(top.pages() == 0 || end == index_len);
}

/// Deletion vectors.
pub fn pack_deletes(data: &[u8]) {
    let _ = DeletionVector::decode(data);
    let _ = read_half(data, DELETES_LEN_AT, DeletionVector::decode);
    if let Ok(vector) = DeletionVector::decode(&sealed(with_len(data.to_vec(), DELETES_LEN_AT))) {
        let file = twice(&vector.encode());
        let half = &file[file.len() / 2..];
        assert!(read_half(half, DELETES_LEN_AT, DeletionVector::decode).is_ok_and(|read| read.1 == vector));
    }
}

/// Manifests.
pub fn pack_manifest(data: &[u8]) {
    let _ = Manifest::decode(data);
    let _ = read_half(data, MANIFEST_LEN_AT, Manifest::decode);
    if let Ok(manifest) = Manifest::decode(&sealed(with_len(data.to_vec(), MANIFEST_LEN_AT))) {
        let file = twice(&manifest.encode());
        let half = &file[..file.len() / 2];
        assert!(read_half(half, MANIFEST_LEN_AT, Manifest::decode).is_ok_and(|read| read.1 == manifest));
    }
}

/// The bytes with their own length where a copy says it.
fn with_len(mut bytes: Vec<u8>, len_at: usize) -> Vec<u8> {
    let len = bytes.len() as u64;
    if let Some(field) = bytes.get_mut(len_at..).and_then(|rest| rest.first_chunk_mut::<8>()) {
        *field = len.to_le_bytes();
    }
    bytes
}

/// A file of two copies, the checksum of the first made right, and the second made the same unless
/// it is to be left alone.
fn first_sealed(mut file: Vec<u8>, len_at: usize, alone: bool) -> Vec<u8> {
    let len = stated_len(&file, len_at).and_then(|len| usize::try_from(len).ok());
    if let Some(copy) = len.and_then(|len| file.get(..len)) {
        let copy = sealed(copy.to_vec());
        file[..copy.len()].copy_from_slice(&copy);
    }
    let half = file.len() / 2;
    let (first, second) = file.split_at_mut(half);
    if !alone && first.len() == second.len() {
        second.copy_from_slice(first);
    }
    file
}

/// Keys as they are typed, and as indexes hold them.
pub fn pack_key(data: &[u8]) {
    if let Ok(key) = Key::parse(data) {
        assert_eq!(Key::from_sort_form(key.sort_form()), Some(key.clone()));
        assert_eq!(Key::parse(key.to_string().as_bytes()).ok(), Some(key.clone()), "{key}");
        for end in [ListEnd::Line, ListEnd::Nul] {
            // A zero byte cannot stand between zero bytes.
            if let Ok(listed) = key.listed(end) {
                assert_eq!(Key::of_list(&listed, end).ok().as_ref(), Some(&key));
            }
        }
    }
    if let Some(key) = Key::from_sort_form(data) {
        assert_eq!(key.sort_form(), data);
    }
}

type Files = BTreeMap<String, Vec<u8>>;

/// A pack with a sealed segment, an active one with a checkpoint, and overwritten records.
fn tiny_pack() -> &'static Files {
    static PACK: OnceLock<Files> = OnceLock::new();
    PACK.get_or_init(|| {
        let storage = SimStorage::new();
        let options = WriterOptions { checkpoint_len: 800, ..tiny_writer(ScriptedHost::new(1)) };
        let put = |writer: &mut PackWriter, number: u64, len: usize, framed: bool| {
            let (key, body) = (key(number), pattern(len, number));
            let announced = (!framed).then_some(len as u64);
            let mut record = writer.begin("", &key, &Attributes::new(), announced).expect("it begins");
            record.write(&body).expect("it is written");
            record.finish().expect("it ends");
        };
        let mut writer = PackWriter::create(Arc::new(storage.clone()), options.clone()).expect("a pack");
        for (number, len, framed) in [(0, 10, false), (1, 5000, false), (2, 30, true), (0, 7, false)] {
            put(&mut writer, number, len, framed);
        }
        writer.finish(true).expect("it is sealed");
        let mut writer = PackWriter::open(Arc::new(storage.clone()), options).expect("it opens");
        for (number, len, framed) in [(3, 900, false), (1, 40, true), (4, 0, false), (5, 8, false)] {
            put(&mut writer, number, len, framed);
            writer.sync().expect("it is synced");
        }
        drop(writer);
        let names = storage.list().expect("it lists").into_iter().map(|entry| entry.name);
        names.map(|name| (name.clone(), contents(&storage, &name))).collect()
    })
}

fn key(number: u64) -> Key {
    if number.is_multiple_of(2) { Key::id(number) } else { Key::bytes(pattern(3, number)).expect("short") }
}

/// A tiny pack whose files are changed as `data` says, read in every way and then written to.
///
/// The first byte selects the checksums that are corrected afterwards, so that the code after them
/// is reached. Each change has a file, an offset, a value, and whether the file is truncated there
/// instead.
pub fn pack_whole(data: &[u8]) {
    let Some((&mend, changes)) = data.split_first() else { return };
    let mut files: Vec<(String, Vec<u8>)> = tiny_pack().clone().into_iter().collect();
    for change in changes.chunks_exact(5).take(64) {
        let which = usize::from(change[0] & 0x7f) % files.len();
        let bytes = &mut files[which].1;
        let at = usize::from(u16::from_le_bytes([change[1], change[2]]));
        match (change[0] & 0x80 != 0, bytes.get_mut(at)) {
            (true, _) => bytes.truncate(at),
            (false, Some(byte)) => *byte ^= change[3],
            (false, None) => bytes.resize(at, change[3]),
        }
    }
    let storage = SimStorage::new();
    for (name, bytes) in &mut files {
        mend_file(name, bytes, mend);
        let mut appender = storage.create(name).expect("an empty storage");
        appender.append(&[bytes]).and_then(|()| appender.flush()).expect("nothing fails");
    }
    let keys: Vec<Key> = (0..7).map(key).collect();
    if let Ok(pack) = open_simulated(&storage) {
        let _ = (pack.segments(), pack.len(), pack.groups());
        let reported = read_in_every_way(&pack, &keys);
        assert!(reported.given.len() < 1000);
    }
    let options = tiny_writer(ScriptedHost::new(2));
    let Ok(mut writer) = PackWriter::open(Arc::new(storage.clone()), options) else { return };
    let put = writer.put("", &key(6), &Attributes::new(), b"new").and_then(|_| writer.sync());
    if put.is_ok()
        && let Ok(pack) = open_simulated(&storage)
        && let Ok(record) = pack.get(&key(6))
    {
        assert!(record.is_some_and(|record| record.body == b"new".as_slice()), "what was put is there");
    }
}

fn mend_file(name: &str, bytes: &mut Vec<u8>, mend: u8) {
    let is = |kind: &str| name.starts_with(kind);
    let alone = mend & 64 != 0;
    if is("manifest-") && mend & 1 != 0 {
        *bytes = first_sealed(std::mem::take(bytes), MANIFEST_LEN_AT, alone);
    }
    if is("deletes-") && mend & 2 != 0 {
        *bytes = first_sealed(std::mem::take(bytes), DELETES_LEN_AT, alone);
    }
    if (is("segment-") || is("checkpoint-")) && mend & 4 != 0 && bytes.len() >= FOOTER_LEN {
        let at = bytes.len() - FOOTER_LEN;
        let footer = sealed(bytes.split_off(at));
        bytes.extend(footer);
    }
    if !is("segment-") || bytes.len() < UNIT {
        return;
    }
    if mend & 8 != 0 {
        let header = sealed(bytes[..UNIT].to_vec());
        bytes[..UNIT].copy_from_slice(&header);
    }
    if mend & 16 != 0
        && let Ok(header) = SegmentHeader::decode(&bytes[..UNIT])
    {
        mend_frames(bytes, &header.salt());
    }
    if mend & 32 != 0
        && let Ok(header) = SegmentHeader::decode(&bytes[..UNIT])
    {
        mend_index(bytes, header.salt().crc);
    }
}

/// Corrects the header checksum at every offset where a frame may begin.
fn mend_frames(bytes: &mut [u8], salt: &Salt) {
    for at in (UNIT..bytes.len().saturating_sub(HEADER_LEN)).step_by(8) {
        let Some(fixed) = bytes[at..].first_chunk::<HEADER_LEN>() else { continue };
        let Ok(header) = FrameHeader::decode(fixed, salt) else { continue };
        let rest = &bytes[at + HEADER_LEN..];
        let Some((key, rest)) = rest.split_at_checked(usize::from(header.key_len)) else { continue };
        let Some(attributes) = rest.get(..usize::from(header.attributes_len)) else { continue };
        let fixed = header.encode(salt, at as u64, key, attributes);
        bytes[at..at + HEADER_LEN].copy_from_slice(&fixed);
    }
}

/// Corrects the checksums of the one page and the top of a sealed segment.
fn mend_index(bytes: &mut [u8], salt_crc: u32) {
    let Some(at) = bytes.len().checked_sub(FOOTER_LEN) else { return };
    let Ok(footer) = Footer::decode(&bytes[at..], FooterKind::Sealed, bytes.len() as u64) else { return };
    let page_crc = crc32c::crc32c_append(salt_crc, &0_u32.to_le_bytes());
    for (range, crc) in [(footer.index, page_crc), (footer.top, salt_crc)] {
        let range = range.start() as usize..range.end() as usize;
        let mended = sealed_ahead(bytes[range.clone()].to_vec(), crc);
        bytes[range].copy_from_slice(&mended);
    }
}

/// Inputs to begin with, for every target of this module: real encodings, by target and name.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, bytes) in tiny_pack() {
        let number = name.rsplit('-').next().unwrap_or_default().trim_start_matches('0').to_owned();
        match name.split('-').next() {
            Some("manifest") => seeds.extend(copy_seeds("pack_manifest", &number, bytes, MANIFEST_LEN_AT)),
            Some("deletes") => seeds.extend(copy_seeds("pack_deletes", &number, bytes, DELETES_LEN_AT)),
            Some("segment") => {
                seeds.push(("pack_segment_header", number.clone(), bytes[..400].to_vec()));
                seeds.push(("pack_frame", number.clone(), bytes[UNIT..UNIT + 300].to_vec()));
                seeds.extend(index_seeds(bytes, &number));
            }
            _ => {}
        }
    }
    let mut attributes = Attributes::of_file(stook::pack::FileKind::Symlink, 0o777, -5, Some((1, 2)));
    use stook::pack::format::attributes::{Name, Value};
    attributes.set(Name::Text("étag".into()), Value::Text("x".into()));
    attributes.set(Name::Id(200), Value::Bytes(vec![0; 7]));
    attributes.set(Name::Id(201), Value::U64(9));
    seeds.push(("pack_attributes", "all-types".into(), attributes.encode().expect("they fit")));
    for (name, text) in
        [("id", "id:12"), ("bytes", "bytes:id:12"), ("path", "a/b \\ c"), ("escape", "\x1b\n")]
    {
        seeds.push(("pack_key", name.into(), text.into()));
    }
    for mend in [0, 0x3f] {
        let mut changes = vec![mend];
        for (file, _) in tiny_pack().iter().enumerate() {
            changes.extend([file as u8, 80, 16, 1, 0]);
        }
        seeds.push(("pack_whole", format!("one-bit-of-each-{mend:x}"), changes));
        seeds.push(("pack_whole", format!("cut-{mend:x}"), vec![mend, 0x80 | 4, 0, 18, 0, 0]));
    }
    seeds
}

/// One copy, and half of its file.
fn copy_seeds(
    target: &'static str,
    number: &str,
    file: &[u8],
    len_at: usize,
) -> [(&'static str, String, Vec<u8>); 2] {
    let half = &file[..file.len() / 2];
    let len = stated_len(half, len_at).map_or(half.len(), |len| len as usize);
    [(target, number.to_owned(), half[..len].to_vec()), (target, format!("{number}-half"), half.to_vec())]
}

fn index_seeds(bytes: &[u8], number: &str) -> Vec<(&'static str, String, Vec<u8>)> {
    let at = bytes.len() - FOOTER_LEN;
    let Ok(footer) = Footer::decode(&bytes[at..], FooterKind::Sealed, bytes.len() as u64) else {
        return Vec::new();
    };
    let part = |range: stook::extent::ByteRange| bytes[range.start() as usize..range.end() as usize].to_vec();
    let with_len = [&(bytes.len() as u64).to_le_bytes(), &bytes[at..]].concat();
    vec![
        ("pack_footer", number.to_owned(), with_len),
        ("pack_index_page", number.to_owned(), part(footer.index)),
        ("pack_index_top", number.to_owned(), part(footer.top)),
    ]
}
