//! AFS: what is laid out is read again, by us and by the few lines of Python that its page takes;
//! and files that lie.

use std::fs;
use std::process::Command;

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::format::Fault;
use stook::format::afs::{
    ALIGNMENT, DETAIL_LEN, Detail, HEADER_LEN, Layout, MEMBERS_MAX, NAME_LEN_MAX, PLACE_LEN, Table, table_len,
};

/// The bytes of a member; `None` if there is no member with this number.
pub(crate) type Body = Option<Vec<u8>>;

fn detail() -> impl Strategy<Value = Detail> {
    // From 1875 to 2128.
    let time = -3_000_000_000_i64..5_000_000_000;
    let name = prop::collection::vec(1..=u8::MAX, 0..=NAME_LEN_MAX);
    (name, time, any::<u32>())
        .prop_map(|(name, seconds, number)| Detail::new(&name, seconds * 1_000_000_000, number).unwrap())
}

fn members() -> impl Strategy<Value = Vec<(Body, Detail)>> {
    let len = prop_oneof![4 => 0..100_usize, 1 => 2000..2100_usize, 1 => 4000..9000_usize];
    let body = (len, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]);
    prop::collection::vec((prop::option::weighted(0.8, body), detail()), 0..20)
}

/// The file, put together as a layout says.
pub(crate) fn written(members: &[Body], details: Option<&[Detail]>) -> Vec<u8> {
    let lens: Vec<Option<u64>> =
        members.iter().map(|member| member.as_ref().map(|bytes| bytes.len() as u64)).collect();
    let layout = Layout::new(&lens, details.is_some()).unwrap();
    let mut file = layout.head();
    for (place, bytes) in layout.places().iter().zip(members) {
        let (Some(place), Some(bytes)) = (place, bytes) else {
            assert_eq!((place.is_some(), bytes.is_some()), (false, false));
            continue;
        };
        assert_eq!((place.start(), place.len()), (file.len() as u64, bytes.len() as u64));
        assert!(place.start().is_multiple_of(ALIGNMENT));
        file.extend_from_slice(bytes);
        file.resize(file.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    if let Some(details) = details.filter(|_| layout.details().is_some()) {
        assert_eq!(layout.details().unwrap().start(), file.len() as u64);
        file.extend(layout.encode_details(details).unwrap());
    }
    assert_eq!(layout.file_len(), file.len() as u64);
    file
}

fn slice(file: &[u8], range: ByteRange) -> &[u8] {
    &file[range.start() as usize..range.end() as usize]
}

/// Reads like a caller that has only parts of a file.
fn table(file: &[u8]) -> Result<Table, Fault> {
    let cut = || Fault::damaged(file.len() as u64, "no header");
    let header: [u8; HEADER_LEN] = *file.first_chunk().ok_or_else(cut)?;
    let len = table_len(&header, file.len() as u64)?;
    Table::decode(&file[..len], file.len() as u64)
}

fn details(file: &[u8], table: &Table) -> Option<Vec<Detail>> {
    let pointers = table.pointers();
    let pointer = |at: &ByteRange| -> [u8; PLACE_LEN] { slice(file, *at).try_into().unwrap() };
    let place = pointers.iter().find_map(|at| table.details(&pointer(at)))?;
    Some(Detail::decode_all(slice(file, place)).unwrap())
}

fn bodies(file: &[u8], table: &Table) -> Vec<Body> {
    table.places().iter().map(|place| place.map(|place| slice(file, place).to_vec())).collect()
}

/// A reader of its own, from `docs/formats/afs.md`.
const PYTHON: &str = "
import struct, sys
b = open(sys.argv[1], 'rb').read()
magic, count = struct.unpack_from('<4sI', b)
assert magic == b'AFS\\0' and len(b) % 2048 == 0
for i in range(count):
    at, n = struct.unpack_from('<II', b, 8 + 8 * i)
    assert at % 2048 == 0
    print(b[at:at + n].hex() if at else 'none')
at, n = struct.unpack_from('<II', b, 8 + 8 * count)
assert n == (48 * count if at else 0) and at % 2048 == 0
for i in range(count if at else 0):
    name, *time, number = struct.unpack_from('<32s6HI', b, at + 48 * i)
    print(name.rstrip(b'\\0').hex(), *time, number)
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn by_python(file: &[u8]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.afs");
    fs::write(&path, file).unwrap();
    let output = Command::new("python3").args(["-c", PYTHON]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn expected(members: &[Body], details: Option<&[Detail]>) -> Vec<String> {
    let bodies = members.iter().map(|body| body.as_deref().map_or("none".to_owned(), hex));
    let details = details.unwrap_or_default().iter().map(|detail| {
        let time: Vec<String> = detail.time.iter().map(u16::to_string).collect();
        format!("{} {} {}", hex(detail.name()), time.join(" "), detail.number)
    });
    bodies.chain(details).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_laid_out_is_read_again(members in members(), with_details in any::<bool>()) {
        let (members, kept): (Vec<Body>, Vec<Detail>) = members.into_iter().unzip();
        let wanted = with_details.then_some(kept.as_slice()).filter(|details| !details.is_empty());
        let file = written(&members, wanted);
        let table = table(&file).unwrap();
        prop_assert_eq!(&bodies(&file, &table), &members);
        let found = details(&file, &table);
        prop_assert_eq!(found.as_deref(), wanted);
        prop_assert_eq!(by_python(&file), expected(&members, wanted));
    }

    #[test]
    fn whatever_stands_in_a_file_its_members_lie_in_it_side_by_side(
        members in members(),
        changes in prop::collection::vec((0..300_usize, any::<u8>()), 1..6),
        cut in prop::option::of(0.0..1.0_f64),
    ) {
        let (members, kept): (Vec<Body>, Vec<Detail>) = members.into_iter().unzip();
        let mut file = written(&members, Some(kept.as_slice()));
        for (at, byte) in changes {
            if let Some(there) = file.get_mut(at) {
                *there ^= byte;
            }
        }
        if let Some(cut) = cut {
            file.truncate((file.len() as f64 * cut) as usize);
        }
        match table(&file) {
            Err(fault) => prop_assert!(fault.offset <= file.len() as u64, "{}", fault),
            Ok(table) => {
                let mut places: Vec<ByteRange> = table.places().iter().flatten().copied().collect();
                places.retain(|place| !place.is_empty());
                places.sort();
                prop_assert!(places.windows(2).all(|pair| pair[0].end() <= pair[1].start()));
                prop_assert!(places.iter().all(|place| place.end() <= file.len() as u64));
                let found = details(&file, &table);
                prop_assert!(found.is_none_or(|found| found.len() == table.places().len()));
            }
        }
    }

    #[test]
    fn details_come_back_byte_for_byte(bytes in prop::collection::vec(any::<u8>(), 4 * DETAIL_LEN)) {
        let details = Detail::decode_all(&bytes).unwrap();
        let layout = Layout::new(&[None; 4], true).unwrap();
        prop_assert_eq!(&layout.encode_details(&details).unwrap()[..bytes.len()], &bytes[..]);
        for detail in details {
            let is_before_a_zero = detail.name.starts_with(detail.name()) && !detail.name().contains(&0);
            prop_assert!(is_before_a_zero);
            // There may be no such time, but asking for it is no fault.
            let _ = detail.mtime_ns();
        }
    }
}

/// A file of two members with these places, of 100 bytes and 3,000 where nothing else is said.
fn with_places(changes: &[(usize, u32)], len: usize) -> Vec<u8> {
    let mut file = written(&[Some(vec![1; 100]), Some(vec![2; 3000])], None);
    for (at, number) in changes {
        file[*at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    file.resize(len, 0);
    file
}

/// The change, the offset of the fault, and its message.
type Case<'a> = (&'a [(usize, u32)], u64, &'a str);

#[test]
fn files_that_lie_are_refused_and_say_where() {
    assert_eq!(table(&with_places(&[], 8192)).unwrap().places().len(), 2);
    let cases: [Case<'_>; 9] = [
        (&[(0, 0x4146_5300)], 0, "expected here"),
        (&[(4, u32::MAX)], 4, "more than"),
        (&[(4, MEMBERS_MAX + 1)], 4, "more than"),
        (&[(4, MEMBERS_MAX)], 4, "no room"),
        (&[(8, 20)], 8, "does not lie"),
        (&[(12, u32::MAX)], 8, "does not lie"),
        (&[(16, u32::MAX), (20, u32::MAX)], 16, "does not lie"),
        (&[(16, 2100)], 16, "overlaps"),
        (&[(8, 4096 + 2999)], 8, "overlaps"),
    ];
    for (changes, offset, what) in cases {
        let fault = table(&with_places(changes, 8192)).unwrap_err();
        assert!(fault.offset == offset && fault.what.contains(what), "{changes:?}: {fault}");
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused_wherever_that_is() {
    let file = with_places(&[], 8192);
    // After the last member are zeroes that are not needed.
    for len in 0..4096 + 3000 {
        assert!(table(&file[..len]).is_err(), "{len}");
    }
    assert!(table(&file[..4096 + 3000]).is_ok());
    let table = Table::decode(&file[..23], 8192);
    assert_eq!(table.unwrap_err().offset, 23);
}

#[test]
fn other_ways_of_writing_it_are_read() {
    let kept = [
        Detail::new(b"first.adx", 1_234_567_890_000_000_000, 100).unwrap(),
        Detail::new(b"second.adx", 0, 3000).unwrap(),
    ];
    let mut file = written(&[Some(vec![1; 100]), Some(vec![2; 3000])], Some(&kept));
    assert_eq!(details(&file, &table(&file).unwrap()).as_deref(), Some(&kept[..]));
    assert_eq!((kept[0].name(), kept[0].mtime_ns()), (&b"first.adx"[..], Some(1_234_567_890_000_000_000)));
    // A blank instead of the zero.
    file[3] = b' ';
    assert!(table(&file).is_ok());
    // The place of the details right before the first member.
    file.copy_within(24..32, 2040);
    file[24..32].fill(0);
    assert_eq!(details(&file, &table(&file).unwrap()).as_deref(), Some(&kept[..]));
    // In both places something else.
    file[24..32].fill(0x55);
    file[2040..2048].fill(0xaa);
    assert_eq!(details(&file, &table(&file).unwrap()), None);
    // Members that begin anywhere, the first of them directly after the table.
    let mut tight = b"AFS\0\x02\0\0\0\x18\0\0\0\x05\0\0\0\x1d\0\0\0\x03\0\0\0".to_vec();
    tight.extend(b"helloyou");
    let table = table(&tight).unwrap();
    assert_eq!(bodies(&tight, &table), [Some(b"hello".to_vec()), Some(b"you".to_vec())]);
    assert!(table.pointers().is_empty());
}

#[test]
fn what_an_afs_has_no_room_for_is_refused_before_anything_is_written() {
    let first = ALIGNMENT;
    let most = u64::from(u32::MAX) - first;
    let layout = Layout::new(&[Some(most)], false).unwrap();
    assert_eq!(layout.places(), [ByteRange::at(first, most)]);
    for lens in [&[Some(most + 1)][..], &[Some(u64::MAX)], &[Some(most), Some(0)]] {
        let fault = Layout::new(lens, false).unwrap_err();
        assert!(fault.unsupported && fault.what.contains("4 GiB"), "{fault}");
    }
    assert!(Layout::new(&[Some(most)], true).unwrap_err().what.contains("details"));
    let many = vec![None; MEMBERS_MAX as usize + 1];
    assert!(Layout::new(&many, false).unwrap_err().unsupported);
    assert!(Detail::new(&[b'n'; NAME_LEN_MAX + 1], 0, 0).is_err());
    assert!(Detail::new(b"a\0b", 0, 0).is_err());
    let detail = Detail::new(&[b'n'; NAME_LEN_MAX], 0, 0).unwrap();
    let layout = Layout::new(&[None], false).unwrap();
    assert!(layout.encode_details(&[detail]).is_err(), "none were planned");
    assert!(Layout::new(&[None], true).unwrap().encode_details(&[]).is_err(), "one is missing");
}
