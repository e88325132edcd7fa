//! Zips.

use std::fs;
use std::path::Path;

use stook::extent::ByteRange;
use stook::format::zip::directory::{ENTRY_LEN, Entry, Fixed, entry};
use stook::source::Source as _;
use stook::tree::CaseRule;

use super::{bytes_of, folder, in_memory, patched, put, refusal, script};
use crate::stitch::read_through;

/// Files of which some become shorter and some do not.
fn tree(place: &Path) {
    for (name, len, step) in [("a", 0, 1), ("d/one", 1, 1), ("d/e/text", 70_000, 250), ("z", 5_000, 3)] {
        put(place, name, &(0..len).map(|at: usize| (at / step % 251) as u8).collect::<Vec<u8>>());
    }
    for number in 0..9 {
        put(place, &format!("many/{number}"), &vec![number as u8; 9000 + 100 * number]);
    }
    put(place, "d/ü", b"no ASCII");
    fs::create_dir(place.join("empty")).unwrap();
}

/// Zips of it, made in all ways.
const ZIPS: [&str; 8] = [
    "cd x; zip -qr ../t .",
    "cd x; zip -qr0 ../t .",
    "cd x; zip -qr - . | cat > ../t",
    "cd x; zip -qr ../t .; printf 'a comment\\n' | zip -qz ../t",
    // What is before a zip and is counted in its places, or is not.
    "cd x; zip -qr ../u .; (head -c 1234 /dev/zero; cat ../u.zip) > ../t.zip; zip -qA ../t.zip",
    "cd x; zip -qr ../u .; (head -c 1234 /dev/zero; cat ../u.zip) > ../t.zip",
    "cd x; zip -qr -fz ../t .",
    "cd x; zip -qr -P secret ../t .",
];

fn zip(place: &Path, how: &str) -> Vec<u8> {
    script(place, &format!("rm -f t t.zip u.zip; ({how}); [ -e t ] || mv t.zip t"));
    fs::read(place.join("t")).unwrap()
}

/// Reads the directory, as Python says where it is: where each header is and what is in the entry.
fn entries(bytes: &[u8], base: u64) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut at = bytes.windows(4).rposition(|four| four == b"PK\x05\x06").unwrap();
    let short = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().unwrap());
    at = base as usize
        + match bytes.windows(4).rposition(|four| four == b"PK\x06\x06") {
            Some(at) => u64::from_le_bytes(bytes[at + 48..at + 56].try_into().unwrap()) as usize,
            None => short as usize,
        };
    while bytes[at..].starts_with(b"PK\x01\x02") {
        let fixed = Fixed::decode(bytes[at..at + ENTRY_LEN].try_into().unwrap()).unwrap();
        let (name, extra, comment) = fixed.lens();
        at += ENTRY_LEN;
        all.push(entry(&fixed, &bytes[at..at + name], &bytes[at + name..at + name + extra]).unwrap());
        at += name + extra + comment;
    }
    all
}

#[test]
fn a_zip_of_which_nothing_changes_is_the_same() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let empty = folder(&[]);
    for how in ZIPS {
        let before = zip(place.path(), how);
        assert!(bytes_of(&before, &[empty.path()]) == before, "{how}");
    }
    let end = [&b"PK\x05\x06"[..], &[0; 18]].concat();
    assert_eq!(bytes_of(&end, &[]), end);
    let over = folder(&[("new", b"a first member")]);
    fs::write(place.path().join("new.zip"), bytes_of(&end, &[over.path()])).unwrap();
    script(place.path(), "unzip -tq new.zip; [ \"$(unzip -p new.zip new)\" = 'a first member' ]");
}

/// What is before a zip is a warning.
const READ: &str = "unzip -P secret -tq p || [ $? = 1 ]; zipinfo -v p > /dev/null || [ $? = 1 ]
    python3 compare.py";

/// Compares the members of two zips with Python, but for some.
const COMPARE: &str = "
import sys, zipfile
old, new = zipfile.ZipFile('t'), zipfile.ZipFile('p')
for z in old, new: z.setpassword(b'secret')
changed = {'d/one': b'another', 'a': bytes(3000), 'many/3': b'333'}
gone, added = ('z',), {'d/new': b'new', 'many/9': b'9'}
assert new.testzip() is None
names = [n for n in old.namelist() if n not in gone]
assert new.namelist() == names + list(added), new.namelist()
assert new.comment == old.comment
for name in names:
    if name in changed:
        assert new.read(name) == changed[name]
        assert new.getinfo(name).date_time[0] == 2009
        continue
    a, b = old.getinfo(name), new.getinfo(name)
    for field in a.__slots__:
        if field not in ('header_offset', '_end_offset', 'orig_filename'):
            assert getattr(a, field) == getattr(b, field), (name, field)
    assert old.read(name) == new.read(name)
for name in added:
    assert new.read(name) == added[name]
";

#[test]
fn members_that_stay_are_as_compressed_as_they_were_and_everybody_reads_it() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let over = folder(&[
        ("d/one", b"another"),
        ("a", &[0; 3000]),
        ("many/3", b"333"),
        ("z.del", b""),
        ("d/new", b"new"),
        ("many/9", b"9"),
    ]);
    for how in ZIPS {
        let before = zip(place.path(), how);
        let after = bytes_of(&before, &[over.path()]);
        fs::write(place.path().join("p"), &after).unwrap();
        fs::write(place.path().join("compare.py"), COMPARE).unwrap();
        script(place.path(), READ);
        let base = if how.contains("1234") && !how.contains("-qA") { 1234 } else { 0 };
        let (old, new) = (entries(&before, base), entries(&after, base));
        assert_eq!(old.len() + 1, new.len(), "{how}");
        assert_eq!(before[..base as usize], after[..base as usize]);
        // The record of each that stays, up to the next one.
        for (at, one) in old.iter().enumerate() {
            let changed = [&b"d/one"[..], b"a", b"many/3", b"z"].contains(&one.name.as_slice());
            let Some(other) = new.iter().find(|other| other.name == one.name).filter(|_| !changed) else {
                continue;
            };
            let next = old.get(at + 1).map_or(one.at + one.least_len(), |next| next.at);
            let (from, to) = ((one.at + base) as usize, (other.at + base) as usize);
            let len = (next - one.at) as usize;
            assert!(before[from..from + len] == after[to..to + len], "{how}: {:?}", one.name);
        }
        // Nothing of those that went is left: what is new is stored, with its headers.
        assert!(!after.windows(3).any(|bytes| bytes == b"z\0\x04"));
    }
}

#[test]
fn three_members_of_a_deflated_zip_are_replaced_and_it_differs_only_there() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let before = zip(place.path(), "cd x; zip -qXr ../t many");
    let over = folder(&[("many/2", b"2"), ("many/4", b"4"), ("many/6", b"6")]);
    let after = bytes_of(&before, &[over.path()]);
    fs::write(place.path().join("p"), &after).unwrap();
    script(place.path(), "unzip -tq p");
    let mut wanted = Vec::new();
    let (old, new) = (entries(&before, 0), entries(&after, 0));
    let directory = before.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    for (at, one) in old.iter().enumerate() {
        let end = old.get(at + 1).map_or(directory, |next| next.at as usize);
        assert_eq!(new[at].at as usize, wanted.len());
        let number =
            [b'2', b'4', b'6'].iter().find(|number| one.name == [&b"many/"[..], &[**number]].concat());
        match number {
            Some(number) => {
                let from = new[at].at as usize;
                let len = new.get(at + 1).unwrap().at as usize - from;
                assert_eq!(after[from..from + len].iter().filter(|byte| *byte == number).count(), 2);
                wanted.extend_from_slice(&after[from..from + len]);
            }
            None => wanted.extend_from_slice(&before[one.at as usize..end]),
        }
    }
    assert!(after.starts_with(&wanted));
    assert!(after[wanted.len()..].starts_with(b"PK\x01\x02"));
}

#[test]
fn what_moves_beyond_4_gib_has_numbers_of_64_bits() {
    let place = tempfile::tempdir().unwrap();
    let made = place.path().join("x");
    put(&made, "a", b"small");
    put(&made, "b", &[7; 5000]);
    for how in ["cd x; zip -qr ../t a b", "cd x; zip -qr -fz ../t a b", "cd x; zip -qr - a b | cat > ../t"] {
        let before = zip(place.path(), how);
        let over = folder(&[]);
        let len = (5 << 30) + 17;
        fs::File::create(over.path().join("a")).unwrap().set_len(len).unwrap();
        let laid = patched(in_memory(&before), &[over.path()], CaseRule::Exact).unwrap();
        // What follows the entry of the first, which would have it read.
        let end = laid.file.len();
        let tail = laid.file.read_at(ByteRange::new(end - 98, end).unwrap()).unwrap();
        assert!(tail.starts_with(b"PK\x06\x06"), "{how}");
        let number = |at: usize| u64::from_le_bytes(tail[at..at + 8].try_into().unwrap());
        let (directory_len, directory_at) = (number(40), number(48));
        let starts = &laid.starts;
        let last = entries(&before, 0).pop().unwrap();
        let local_len = 30 + 1 + u64::from(before[last.at as usize + 28]);
        let read = |at: u64, len: u64| laid.file.read_at(ByteRange::at(at, len).unwrap()).unwrap();
        assert_eq!(read(starts[1] + local_len, 20).len(), 20);
        assert_eq!(read(starts[1], 31)[30], b'b');
        // The entry of the second is at the end of the directory.
        let all = (0..directory_len).rev().find_map(|back| {
            let at = directory_at + back;
            let bytes = laid.file.read_at(ByteRange::new(at, directory_at + directory_len).unwrap());
            bytes.ok().filter(|bytes| bytes.starts_with(b"PK\x01\x02"))
        });
        let bytes = all.unwrap();
        let fixed = Fixed::decode(bytes[..ENTRY_LEN].try_into().unwrap()).unwrap();
        let (name_len, extra_len, _) = fixed.lens();
        let (name, extra) = bytes[ENTRY_LEN..].split_at(name_len);
        let found = entry(&fixed, name, &extra[..extra_len]).unwrap();
        assert_eq!(Entry { at: starts[1], ..last }, found, "{how}");
        assert!(found.at > u64::from(u32::MAX) && bytes[6] == 45, "{how}");
    }
}

#[test]
fn names_may_be_written_in_any_way_and_several_times() {
    let place = tempfile::tempdir().unwrap();
    let python = "
import zipfile, warnings
warnings.simplefilter('ignore')
with zipfile.ZipFile('t', 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('./a/b', b'first' * 100)
    z.writestr('c', b'c' * 100)
    z.writestr('./a/b', b'second' * 100)
    z.writestr('a//d', b'd' * 100)
    z.writestr('last', b'!')
";
    fs::write(place.path().join("make.py"), python).unwrap();
    script(place.path(), "python3 make.py");
    let before = fs::read(place.path().join("t")).unwrap();
    let over = folder(&[("a/b", b"third"), ("a/d.del", b"")]);
    let after = bytes_of(&before, &[over.path()]);
    let names: Vec<Vec<u8>> = entries(&after, 0).into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [&b"c"[..], b"./a/b", b"last"]);
    fs::write(place.path().join("p.zip"), &after).unwrap();
    script(place.path(), "unzip -tq p.zip; [ \"$(unzip -p p.zip ./a/b)\" = third ]");
}

#[test]
fn the_crc_of_what_is_new_is_computed_on_the_way_or_when_the_directory_is_read() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let before = zip(place.path(), ZIPS[0]);
    let over = folder(&[("a", &[5; 3_000_000]), ("b", &[6; 2_000_000])]);
    let lay_out = || patched(in_memory(&before), &[over.path()], CaseRule::Exact).unwrap().file;
    let whole = read_through(&lay_out()).unwrap();
    let file = lay_out();
    let at = file.len() - 2000;
    assert!(file.read_at(ByteRange::new(at, file.len()).unwrap()).unwrap() == whole[at as usize..]);
    fs::write(place.path().join("p.zip"), &whole).unwrap();
    script(place.path(), "unzip -tq p.zip");
}

#[test]
fn directories_that_contradict_themselves_are_refused() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let good = zip(place.path(), "cd x; zip -qXr ../t many");
    let over = folder(&[("many/2", b"2")]);
    bytes_of(&good, &[over.path()]);
    let directory = good.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let end = good.len() - 22;
    let entries = good.windows(4).enumerate().filter(|(_, four)| *four == b"PK\x01\x02");
    let second = entries.map(|(at, _)| at).nth(3).unwrap();
    let changed = |at: usize, bytes: &[u8]| {
        let mut all = good.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&all, &[over.path()])
    };
    for (at, bytes, what) in [
        (end + 8, &[3, 0, 3, 0][..], "entries"),
        (end + 12, &[0xff, 0xff, 0, 0], "reaches past its own end"),
        (end + 16, &[0xff, 0xff, 0xff, 0], "reaches past its own end"),
        (directory, b"XX", "an entry of the directory was expected"),
        (directory + 28, &[0xff, 0xff], "past"),
        (second + 20, &[0xff, 0xff, 0xff, 0x7f], "reaches into its directory"),
        (second + 42, &[0, 0, 0, 0], "overlap"),
        (second + 42, &[0xff, 0xff, 0xff, 0xff], "does not say where it is"),
    ] {
        let said = changed(at, bytes);
        assert!(said.contains(what) && said.contains("offset"), "{at} {said}");
    }
    // The header of what is replaced is another than the directory says.
    let local = self::entries(&good, 0);
    let two = local.iter().find(|entry| entry.name == b"many/2").unwrap().at as usize;
    assert!(changed(two, b"XX").contains("the header of a member was expected"));
    assert!(changed(two + 28, &[0xff, 0xff]).contains("into what follows it"));
}
