//! Zips of our own making, read by Python, by Info-ZIP and by ourselves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use proptest::prelude::*;
use stook::archive::MemberKind;
use stook::format::zip::directory::{
    END64_LEN, ENTRY_LEN, Entry, Fixed, crc32, end64, entry, find_end, local_len,
};
use stook::format::zip::write::{Head, NAME_LEN_MAX, end};

use super::{contents, open, run};

/// What a number of 32 bits says when the number proper is in a field of zip64.
const WIDE: u64 = 0xffff_ffff;

/// A member but for its name.
#[derive(Debug, Clone)]
struct Made {
    kind: MemberKind,
    mode: u32,
    mtime_ns: i64,
    owner: Option<(u32, u32)>,
    body: Vec<u8>,
    has_descriptor: bool,
}

impl Made {
    fn head<'a>(&self, key: &'a [u8]) -> Head<'a> {
        Head {
            key,
            kind: self.kind,
            mode: self.mode,
            mtime_ns: self.mtime_ns,
            owner: self.owner,
            len: self.body.len() as u64,
            crc32: crc32(&self.body),
            has_descriptor: self.has_descriptor,
        }
    }

    /// Set-user-id and set-group-id bits are left out if the owner is not known.
    fn permissions(&self) -> u32 {
        self.mode & if self.owner.is_some() { 0o7777 } else { 0o1777 }
    }

    fn is_directory(&self) -> bool {
        self.kind == MemberKind::Directory
    }
}

/// A regular file without an owner, from 1970.
fn plain(key: &[u8], len: u64) -> Head<'_> {
    let (kind, mode) = (MemberKind::File, 0o644);
    Head { key, kind, mode, mtime_ns: 0, owner: None, len, crc32: 0, has_descriptor: false }
}

fn zip_of(members: &BTreeMap<Vec<u8>, Made>) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (key, made) in members {
        let head = made.head(key);
        let at = zip.len() as u64;
        // What follows the bytes is not known before them.
        let early = if made.has_descriptor { Head { crc32: 0, ..head } } else { head };
        let local = early.local().unwrap();
        assert_eq!(local_len(&local), Ok(local.len()));
        zip.extend(local);
        zip.extend(&made.body);
        zip.extend(head.descriptor());
        directory.extend(head.entry(at).unwrap());
    }
    let at = zip.len() as u64;
    zip.extend(&directory);
    zip.extend(end(members.len() as u64, at, directory.len() as u64));
    zip
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let odd: [&[u8]; 5] = ["é".as_bytes(), "日本".as_bytes(), b"with space", b"\xff\xfe", b"line\nfeed"];
    prop_oneof![
        4 => "[a-z]{1,12}".prop_map(String::into_bytes),
        2 => prop::sample::select(odd.to_vec()).prop_map(<[u8]>::to_vec),
        1 => Just(vec![b'n'; 200]),
    ]
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(part(), 1..4).prop_map(|parts| parts.join(&b'/'))
}

fn made() -> impl Strategy<Value = Made> {
    let kind = prop_oneof![
        4 => Just(MemberKind::File),
        1 => Just(MemberKind::Directory),
        1 => Just(MemberKind::Symlink),
    ];
    // From 1875 to 2128: before and beyond what DOS and 32 bits know.
    let time = (-3_000_000_000_i64..5_000_000_000, 0..1_000_000_000_i64);
    let owner = prop::option::of((any::<u32>(), any::<u32>()));
    let body = prop::collection::vec(any::<u8>(), 0..2000);
    (kind, 0..0o10000_u32, time, owner, body, any::<bool>()).prop_map(
        |(kind, mode, (seconds, below), owner, body, has_descriptor)| {
            let body = if kind == MemberKind::Directory { Vec::new() } else { body };
            Made { kind, mode, mtime_ns: seconds * 1_000_000_000 + below, owner, body, has_descriptor }
        },
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks all of a zip, and prints of each member name, attributes, CRC-32 and bytes. Where the
/// time of Unix is there, that of DOS has to agree with it as far as it goes.
const PYTHON: &str = "
import struct, time, zipfile
z = zipfile.ZipFile('made.zip')
assert z.testzip() is None
for i in z.infolist():
    name = i.orig_filename.encode('utf-8' if i.flag_bits & 0x800 else 'cp437')
    assert name.isascii() <= (not i.flag_bits & 0x800), 'the flag is there only where it says something'
    rest, fields = i.extra, {}
    while rest:
        id, n = struct.unpack('<HH', rest[:4])
        assert len(rest) >= 4 + n
        fields[id], rest = rest[4:4 + n], rest[4 + n:]
    seconds = ''
    if 0x5455 in fields:
        flags, seconds = struct.unpack('<Bi', fields[0x5455])
        t = time.gmtime(seconds)
        if 1980 <= t.tm_year:
            assert i.date_time == t[:5] + (t.tm_sec // 2 * 2,), (i.date_time, t)
        else:
            assert i.date_time == (1980, 1, 1, 0, 0, 0)
        assert flags == 1
    is_dir = i.external_attr & 0x10
    assert bool(is_dir) == i.is_dir()
    print(name.hex(), '%o' % (i.external_attr >> 16), i.CRC, seconds, z.read(i).hex(), sep=',')
";

/// What Python has to print of a member.
fn line(key: &[u8], made: &Made) -> String {
    let slash: &[u8] = if made.is_directory() { b"/" } else { b"" };
    let format = match made.kind {
        MemberKind::Directory => 0o040_000,
        MemberKind::Symlink => 0o120_000,
        _ => 0o100_000,
    };
    let seconds = i32::try_from(made.mtime_ns.div_euclid(1_000_000_000));
    let seconds = seconds.map_or(String::new(), |seconds| seconds.to_string());
    let name = hex(&[key, slash].concat());
    let (mode, sum) = (format | made.permissions(), crc32(&made.body));
    format!("{name},{mode:o},{sum},{seconds},{}", hex(&made.body))
}

fn assert_read_by_others(dir: &Path, members: &BTreeMap<Vec<u8>, Made>) {
    let printed = run("python3", &["-c", PYTHON], dir);
    let wanted: Vec<String> = members.iter().map(|(key, made)| line(key, made)).collect();
    assert_eq!(String::from_utf8(printed).unwrap().lines().collect::<Vec<_>>(), wanted);
    run("unzip", &["-tqq", "made.zip"], dir);
}

fn assert_read_by_us(dir: &Path, members: &BTreeMap<Vec<u8>, Made>) {
    let archive = open(&dir.join("made.zip")).unwrap();
    let all = contents(&archive);
    assert_eq!(all.len(), members.len());
    for (key, made) in members {
        assert_eq!(all[key], (made.kind, made.body.clone()));
        let member = archive.find(key).unwrap();
        assert_eq!((member.node.mode, member.node.owner), (Some(made.permissions()), made.owner));
        let seconds = made.mtime_ns.div_euclid(1_000_000_000);
        if i32::try_from(seconds).is_ok() {
            assert_eq!(member.node.mtime_ns, Some(seconds * 1_000_000_000));
        } else {
            assert!(member.node.mtime_ns.is_some(), "at least DOS has a time");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn zips_that_are_made_here_are_read_by_all(
        members in prop::collection::btree_map(key(), made(), 1..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("made.zip"), zip_of(&members)).unwrap();
        assert_read_by_others(dir.path(), &members);
        assert_read_by_us(dir.path(), &members);
    }

    #[test]
    fn no_length_depends_on_what_is_known_only_after_the_bytes(
        key in key(),
        made in made(),
        at in prop_oneof![0..WIDE * 2, Just(WIDE)],
        sum in any::<u32>(),
    ) {
        let head = made.head(&key);
        let other = Head { crc32: sum, ..head };
        prop_assert_eq!(head.local().unwrap().len(), other.local().unwrap().len());
        prop_assert_eq!(head.descriptor().len(), other.descriptor().len());
        prop_assert_eq!(head.entry(at).unwrap().len(), other.entry(at).unwrap().len());
    }
}

#[test]
fn a_zip_without_members_is_one() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("made.zip"), zip_of(&BTreeMap::new())).unwrap();
    assert_eq!(run("python3", &["-c", PYTHON], dir.path()), b"");
    assert!(open(&dir.path().join("made.zip")).unwrap().is_empty());
}

/// An entry of the directory, decoded again.
fn decoded(bytes: &[u8]) -> Entry {
    let fixed = Fixed::decode(bytes.first_chunk::<ENTRY_LEN>().unwrap()).unwrap();
    let (name_len, extra_len, comment_len) = fixed.lens();
    assert_eq!(bytes.len(), ENTRY_LEN + name_len + extra_len + comment_len);
    let (name, extra) = bytes[ENTRY_LEN..].split_at(name_len);
    entry(&fixed, name, extra).unwrap()
}

#[test]
fn numbers_around_four_gibibytes_stand_in_zip64_where_they_have_to() {
    for len in [0, WIDE - 1, WIDE, WIDE + 1, 1 << 40] {
        for at in [0, WIDE - 1, WIDE, WIDE + 1, 1 << 41] {
            for has_descriptor in [false, true] {
                let head = Head { has_descriptor, crc32: 7, ..plain(b"m", len) };
                let bytes = head.entry(at).unwrap();
                let found = decoded(&bytes);
                assert_eq!((found.len, found.stored_len, found.at, found.crc32), (len, len, at, 7));
                let numbers = [len, len, at].iter().filter(|number| **number >= WIDE).count();
                let wide_len = if numbers > 0 { 4 + 8 * numbers } else { 0 };
                assert_eq!(bytes.len(), ENTRY_LEN + 1 + wide_len + 9);
                let before = if len >= WIDE { 4 + 16 } else { 0 };
                assert_eq!(head.local().unwrap().len(), 30 + 1 + before + 9);
                let len = if len >= WIDE { 24 } else { 16 };
                assert_eq!(head.descriptor().len(), if has_descriptor { len } else { 0 });
            }
        }
    }
}

#[test]
fn the_end_says_what_it_was_told_however_much_that_is() {
    for entries in [0, 1, 65_534, 65_535, 65_536, 1 << 33] {
        for (at, len) in [(0, 0), (WIDE - 1, 5), (WIDE, 5), (5, WIDE - 1), (5, WIDE), (1 << 40, 1 << 35)] {
            let bytes = end(entries, at, len);
            let (end_at, short, wide) = find_end(&bytes).unwrap().unwrap();
            let is_wide = entries >= 65_535 || at >= WIDE || len >= WIDE;
            assert_eq!(wide.is_some(), is_wide, "{entries} {at} {len}");
            let found = match wide {
                Some(wide) => {
                    assert_eq!(wide, at + len, "the end of zip64 follows the directory");
                    assert_eq!(end_at, END64_LEN + 20);
                    end64(&bytes[..END64_LEN]).unwrap()
                }
                None => short,
            };
            assert_eq!((found.entries, found.at, found.len), (entries, at, len));
        }
    }
}

#[test]
fn as_many_members_as_sixteen_bits_hold_and_one_more_are_read_by_all() {
    let dir = tempfile::tempdir().unwrap();
    for count in [65_534_u64, 65_535, 65_536] {
        let (mut zip, mut directory) = (Vec::new(), Vec::new());
        for number in 0..count {
            let key = number.to_string();
            let head = plain(key.as_bytes(), 0);
            directory.extend(head.entry(zip.len() as u64).unwrap());
            zip.extend(head.local().unwrap());
        }
        let at = zip.len() as u64;
        zip.extend(&directory);
        zip.extend(end(count, at, directory.len() as u64));
        fs::write(dir.path().join("many.zip"), zip).unwrap();
        assert_eq!(open(&dir.path().join("many.zip")).unwrap().len(), count);
        let script = "import zipfile; print(len(zipfile.ZipFile('many.zip').infolist()))";
        assert_eq!(run("python3", &["-c", script], dir.path()), format!("{count}\n").as_bytes());
        run("unzip", &["-tqq", "many.zip"], dir.path());
    }
}

/// A zip with a member of `len` zeroes, which are a hole, and a small one after it; returns the
/// offset of the small one.
fn with_a_hole(path: &Path, len: u64, has_descriptor: bool) -> u64 {
    let file = File::create(path).unwrap();
    let mut at = 0;
    let write = |at: &mut u64, bytes: &[u8]| {
        file.write_all_at(bytes, *at).unwrap();
        *at += bytes.len() as u64;
    };
    // The hole is not read, so its CRC-32 is not needed.
    let hole = Head { has_descriptor, ..plain(b"hole", len) };
    write(&mut at, &hole.local().unwrap());
    at += len;
    write(&mut at, &hole.descriptor());
    let small = Head { has_descriptor, crc32: crc32(b"hello"), ..plain(b"small", 5) };
    let small_at = at;
    write(&mut at, &small.local().unwrap());
    write(&mut at, b"hello");
    write(&mut at, &small.descriptor());
    let (directory_at, directory) = (at, [hole.entry(0).unwrap(), small.entry(small_at).unwrap()].concat());
    write(&mut at, &directory);
    write(&mut at, &end(2, directory_at, directory.len() as u64));
    small_at
}

#[test]
fn members_that_lie_around_four_gibibytes_are_read_by_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wide.zip");
    let before = plain(b"hole", 0).local().unwrap().len() as u64;
    // With the second to the fourth the small member begins at the limit, or one byte beside it.
    let lens = [WIDE - 1, WIDE - 1 - before, WIDE - before, WIDE + 1 - before, WIDE, WIDE + 1];
    for (len, has_descriptor) in lens.into_iter().flat_map(|len| [(len, false), (len, true)]) {
        let small_at = with_a_hole(&path, len, has_descriptor);
        let script = "
import zipfile
z = zipfile.ZipFile('wide.zip')
print(z.getinfo('hole').file_size, z.getinfo('small').header_offset, z.read('small'))";
        let printed = run("python3", &["-c", script], dir.path());
        assert_eq!(String::from_utf8(printed).unwrap(), format!("{len} {small_at} b'hello'\n"));
        // For exactly this length, Info-ZIP 6.0 assumes the same length for the next member.
        if len != WIDE {
            run("unzip", &["-tqq", "wide.zip", "small"], dir.path());
        }
        let archive = open(&path).unwrap();
        assert_eq!(archive.find(b"hole").unwrap().node.len, len);
        let mut reading = archive.read(vec![archive.find(b"small").unwrap().number]).unwrap();
        assert!(reading.next().unwrap().is_some());
        let mut bytes = Vec::new();
        while let Some(chunk) = reading.chunk().unwrap() {
            bytes.extend_from_slice(chunk);
        }
        assert_eq!(bytes, b"hello");
    }
}

#[test]
fn members_that_a_zip_cannot_have_are_refused() {
    let long = vec![b'n'; NAME_LEN_MAX + 1];
    let file = plain(b"m", 0);
    let directory = Head { kind: MemberKind::Directory, ..file };
    let bad = [
        Head { key: b"", ..file },
        Head { key: b"a\0b", ..file },
        Head { key: b"a/", ..file },
        Head { key: &long, ..file },
        Head { key: &long[1..], ..directory },
        Head { len: 1, ..directory },
    ];
    for head in bad {
        assert!(head.local().unwrap_err().unsupported, "{head:?}");
        assert!(head.entry(0).unwrap_err().unsupported, "{head:?}");
    }
    assert_eq!(Head { key: &long[1..], ..file }.local().unwrap().len(), 30 + NAME_LEN_MAX + 9);
    assert_eq!(decoded(&Head { key: &long[2..], ..directory }.entry(0).unwrap()).kind, MemberKind::Directory);
}
