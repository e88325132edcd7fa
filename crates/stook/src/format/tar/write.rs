//! Tars on their way out: ustar, with an extended header before what does not fit into it.
//!
//! Nothing but what is given goes into the bytes: no clock, no names of users, no numbers of
//! processes. They are those that GNU tar writes with `--format=pax --numeric-owner`, but for times
//! of access and change, and for names that are no UTF-8, which are said to be binary.

use std::borrow::Cow;
use std::io::Write as _;

use super::super::member::MemberKind;
use super::super::sink::{Length, Sink};
use super::header::{BLOCK_LEN, padding_len};
use super::pax::keyword;
use crate::tree::target::SET_ID;
use crate::tree::xattrs::{ACL_ACCESS, ACL_DEFAULT};
use crate::tree::{Holes, Xattr, acl};

/// What a tar ends in is filled up to this, as other programs do.
const RECORD_LEN: u64 = 10_240;
/// What fits into the eleven octal digits of a size or a time.
const OCTAL_11_MAX: u64 = 0o77_777_777_777;
const OCTAL_7_MAX: u32 = 0o7_777_777;

/// The head before the bytes of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// Its path, without a slash at its end.
    pub key: &'a [u8],
    /// Its kind.
    pub kind: MemberKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// User and group, if they are known. Otherwise it belongs to root, without set-user-id and
    /// set-group-id bits.
    pub owner: Option<(u32, u32)>,
    /// Bytes that follow; those of a file only.
    pub len: u64,
    /// What a link leads to.
    pub link: &'a [u8],
    /// Its extended attributes; those without a value are left out.
    pub xattrs: &'a [Xattr],
}

impl Head<'_> {
    /// The blocks of it.
    pub fn encode(&self) -> Vec<u8> {
        self.blocks(&self.name(), &[])
    }

    /// How long [`encode`](Self::encode) is, which is not made for it.
    pub fn encoded_len(&self) -> usize {
        let mut records = Length::default();
        self.records_onto(&self.name(), &mut records);
        match records.0 {
            0 => BLOCK_LEN,
            len => len.next_multiple_of(BLOCK_LEN).saturating_add(2 * BLOCK_LEN),
        }
    }

    /// Its name as it stands in the header.
    fn name(&self) -> Cow<'_, [u8]> {
        let name = if self.key.is_empty() { b"." } else { self.key };
        match self.kind {
            MemberKind::Directory => Cow::Owned([name, b"/"].concat()),
            _ => Cow::Borrowed(name),
        }
    }

    /// The blocks of a file with holes, of which `len` is the whole length, and the map of what
    /// follows: its bytes outside of the holes, without what they are longer than it. That is
    /// version 1.0 of what GNU tar made of pax; who does not know it sees a file with another name,
    /// whose bytes begin with the map.
    pub fn encode_sparse(&self, holes: &Holes) -> Vec<u8> {
        let map = sparse_map(holes, self.len);
        let mut records = Vec::new();
        if std::str::from_utf8(self.key).is_err() {
            record(&mut records, "hdrcharset", b"BINARY");
        }
        let len = self.len.to_string();
        for (key, value) in [
            ("GNU.sparse.major", &b"1"[..]),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", self.key),
            ("GNU.sparse.realsize", len.as_bytes()),
        ] {
            record(&mut records, key, value);
        }
        let (parent, name) = match self.key.iter().rposition(|byte| *byte == b'/') {
            Some(at) => self.key.split_at(at.saturating_add(1)),
            None => (&b""[..], self.key),
        };
        let name = [parent, b"GNUSparseFile.0/", name].concat();
        let len = holes.kept_bytes(self.len).saturating_add(map.len() as u64);
        let mut blocks = Head { len, ..*self }.blocks(&name, &records);
        blocks.extend(map);
        blocks
    }

    /// The blocks of a member of this name, with further records of its extended header.
    fn blocks(&self, name: &[u8], further: &[u8]) -> Vec<u8> {
        let mut records = further.to_vec();
        self.records_onto(name, &mut records);
        let mut blocks = Vec::new();
        if !records.is_empty() {
            let head = Head {
                len: records.len() as u64,
                mtime_ns: 0,
                mode: 0o644,
                owner: None,
                xattrs: &[],
                ..*self
            };
            blocks.extend(head.block(&name_of_records(name), b'x', b""));
            blocks.extend_from_slice(&records);
            blocks.resize(blocks.len().next_multiple_of(BLOCK_LEN), 0);
        }
        let type_flag = match self.kind {
            MemberKind::Directory => b'5',
            MemberKind::Symlink => b'2',
            MemberKind::HardLink => b'1',
            MemberKind::File | MemberKind::Other => b'0',
        };
        blocks.extend(self.block(name, type_flag, self.link));
        blocks
    }

    /// The records of an extended header: what the header itself cannot say.
    fn records_onto(&self, name: &[u8], records: &mut impl Sink) {
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let is_foreign = !name.is_ascii() && is_text(name);
        let (long_name, long_link) = (name.len() > 100 || is_foreign, self.link.len() > 100);
        if (long_name && !is_text(name)) || (long_link && !is_text(self.link)) {
            record(records, "hdrcharset", b"BINARY");
        }
        let (user, group) = self.owner.unwrap_or_default();
        for (key, number) in [("gid", group), ("uid", user)] {
            if number > OCTAL_7_MAX {
                record(records, key, number.to_string().as_bytes());
            }
        }
        if long_link {
            record(records, "linkpath", self.link);
        }
        let seconds = self.mtime_ns.div_euclid(1_000_000_000);
        let fits = u64::try_from(seconds).is_ok_and(|seconds| seconds <= OCTAL_11_MAX);
        if !fits || self.mtime_ns.rem_euclid(1_000_000_000) != 0 {
            record(records, "mtime", time_text(self.mtime_ns).as_bytes());
        }
        if long_name {
            record(records, "path", name);
        }
        if self.len > OCTAL_11_MAX {
            record(records, "size", self.len.to_string().as_bytes());
        }
        self.xattr_records(records);
    }

    /// Extended attributes as GNU tar writes them: each as it is, and lists as text too, because
    /// that is what most programs take them from.
    fn xattr_records(&self, records: &mut impl Sink) {
        for Xattr { name, value } in self.xattrs {
            let Some(value) = value else { continue };
            let text = match name.as_slice() {
                ACL_ACCESS => acl::to_text(value).map(|text| ("SCHILY.acl.access", text)),
                ACL_DEFAULT => acl::to_text(value).map(|text| ("SCHILY.acl.default", text)),
                _ => None,
            };
            if let Some((key, text)) = text {
                record(records, key, text.as_bytes());
            }
            record(records, [&b"SCHILY.xattr."[..], keyword(name).as_slice()].concat(), value);
        }
    }

    fn block(&self, name: &[u8], type_flag: u8, link: &[u8]) -> Vec<u8> {
        let seconds = u64::try_from(self.mtime_ns.div_euclid(1_000_000_000)).unwrap_or(0);
        let (user, group) = self.owner.unwrap_or_default();
        let mode = self.mode & if self.owner.is_some() { 0o7777 } else { 0o7777 & !SET_ID };
        let small = |number: u32| if number > OCTAL_7_MAX { 0 } else { number };
        let size = if self.len > OCTAL_11_MAX { 0 } else { self.len };
        let mut block = Vec::with_capacity(BLOCK_LEN);
        padded(&mut block, name, 100);
        for number in [mode, small(user), small(group)] {
            padded(&mut block, format!("{number:07o}").as_bytes(), 8);
        }
        for number in [size, seconds.min(OCTAL_11_MAX)] {
            padded(&mut block, format!("{number:011o}").as_bytes(), 12);
        }
        let sum_at = block.len();
        block.extend([b' '; 8]);
        block.push(type_flag);
        padded(&mut block, link, 100);
        block.extend_from_slice(b"ustar\x0000");
        // Names of user and group.
        block.extend([0; 64]);
        // Numbers of a device, which GNU tar leaves out of the header of records alone.
        if type_flag != b'x' {
            block.extend_from_slice(b"0000000\x000000000\0");
        }
        // A prefix.
        block.resize(BLOCK_LEN, 0);
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).fold(0, u32::wrapping_add);
        let digits = format!("{sum:06o}\0 ");
        for (at, byte) in block.iter_mut().skip(sum_at).zip(digits.bytes()) {
            *at = byte;
        }
        block
    }
}

/// The name of the header of the records of a member: a file in a directory beside it.
fn name_of_records(name: &[u8]) -> Vec<u8> {
    let name = name.strip_suffix(b"/").unwrap_or(name);
    match name.iter().rposition(|byte| *byte == b'/') {
        Some(at) => {
            let (parent, last) = name.split_at(at);
            [parent, b"/PaxHeaders", last].concat()
        }
        None => [b"./PaxHeaders/", name].concat(),
    }
}

/// The map of a file of this length: how many pieces are kept, and where each begins and how long
/// it is, in lines, filled up to a block. A piece of no bytes at the end says how long the file is.
fn sparse_map(holes: &Holes, len: u64) -> Vec<u8> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    for hole in holes.as_slice().iter().filter(|hole| hole.start() < len) {
        if hole.start() > at {
            pieces.push((at, hole.start().saturating_sub(at)));
        }
        at = hole.end().min(len);
    }
    pieces.push((at, len.saturating_sub(at)));
    let mut map = format!("{}\n", pieces.len()).into_bytes();
    for (at, len) in pieces {
        map.extend(format!("{at}\n{len}\n").into_bytes());
    }
    map.resize(map.len().next_multiple_of(BLOCK_LEN), 0);
    map
}

/// What fills up the last block of a body of this many bytes.
pub fn padding(len: u64) -> Vec<u8> {
    vec![0; usize::try_from(padding_len(len)).unwrap_or(0)]
}

/// The end of a tar of this many bytes: two blocks of zeroes at least.
pub fn end(len: u64) -> Vec<u8> {
    let whole = len.saturating_add(1024).checked_next_multiple_of(RECORD_LEN).unwrap_or(len);
    vec![0; usize::try_from(whole.saturating_sub(len)).unwrap_or(0)]
}

/// Bytes, filled up with zeroes; too many are cut off, and then an extended header has them all.
fn padded(out: &mut Vec<u8>, bytes: &[u8], len: usize) {
    let to = out.len().saturating_add(len);
    out.extend_from_slice(bytes.get(..len.min(bytes.len())).unwrap_or_default());
    out.resize(to, 0);
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn record(out: &mut impl Sink, key: impl AsRef<[u8]>, value: &[u8]) {
    let key = key.as_ref();
    let rest = key.len().saturating_add(value.len()).saturating_add(3);
    let digits = |number: usize| number.checked_ilog10().map_or(1, |log| (log as usize).saturating_add(1));
    let mut len = rest.saturating_add(1);
    while rest.saturating_add(digits(len)) > len {
        len = len.saturating_add(1);
    }
    for bytes in [Short::of(format_args!("{len} ")).as_bytes(), key, b"=", value, b"\n"] {
        out.put(bytes);
    }
}

/// Seconds with as many digits after the point as there are.
fn time_text(ns: i64) -> Short {
    let (sign, ns) = if ns < 0 { ("-", ns.unsigned_abs()) } else { ("", ns.unsigned_abs()) };
    let (seconds, below) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let mut text = Short::of(format_args!("{sign}{seconds}.{below:09}"));
    while let [.., b'0'] = text.as_bytes() {
        text.len = text.len.saturating_sub(1);
    }
    if let [.., b'.'] = text.as_bytes() {
        text.len = text.len.saturating_sub(1);
    }
    text
}

/// A text of some numbers, which takes no memory of its own: every member has two.
#[derive(Debug, Clone, Copy)]
struct Short {
    bytes: [u8; 32],
    len: usize,
}

impl Short {
    /// What does not fit is left out: no two numbers of 64 bits are as long.
    fn of(text: std::fmt::Arguments<'_>) -> Self {
        let mut bytes = [0; 32];
        let mut left = &mut bytes[..];
        let _ = left.write_fmt(text);
        let len = 32_usize.saturating_sub(left.len());
        Self { bytes, len }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_count_their_own_length() {
        for len in [1, 2, 87, 88, 89, 90, 95, 980, 990, 991, 9990] {
            let mut out = Vec::new();
            record(&mut out, "path", &vec![b'x'; len]);
            let digits: Vec<u8> = out.iter().copied().take_while(u8::is_ascii_digit).collect();
            assert_eq!(String::from_utf8(digits).unwrap(), out.len().to_string());
        }
    }

    #[test]
    fn extended_attributes_stand_in_the_header_as_they_are() {
        let list = acl::from_text(b"user::rw-,user:7:r--,group::r--,mask::r--,other::---").unwrap();
        let pair = |name: &[u8], value: &[u8]| Xattr { name: name.to_vec(), value: Some(value.to_vec()) };
        let all = [
            Xattr { name: b"user.lost".to_vec(), value: None },
            pair(ACL_ACCESS, &list),
            pair(b"user.a=b", b"\0\n\xff"),
        ];
        let (key, kind) = (b"f".as_slice(), MemberKind::File);
        let head = Head { key, kind, mode: 0o640, mtime_ns: 0, owner: None, len: 0, link: b"", xattrs: &all };
        let blocks = head.encode();
        let mut pax = super::super::pax::Pax::default();
        let end = blocks.len().saturating_sub(BLOCK_LEN);
        pax.take(&blocks[BLOCK_LEN..end]).unwrap();
        let taken: Vec<_> = pax.xattrs.into_iter().collect();
        assert_eq!(
            taken,
            [(ACL_ACCESS.to_vec(), Some(list)), (b"user.a=b".to_vec(), Some(b"\0\n\xff".to_vec()))]
        );
        let bare = Head { xattrs: &[], ..head }.encode();
        assert_eq!((bare.len(), &bare[..]), (BLOCK_LEN, &blocks[end..]));
    }

    #[test]
    fn maps_of_files_with_holes_say_what_is_kept_and_how_long_the_file_is() {
        let holes = |ranges: &[(u64, u64)]| {
            Holes::of(ranges.iter().map(|&(at, len)| crate::extent::ByteRange::at(at, len).unwrap()))
        };
        for (ranges, len, lines) in [
            (&[(5, 5)][..], 20, "2\n0\n5\n10\n10\n"),
            (&[(0, 10)], 20, "1\n10\n10\n"),
            (&[(3, 17)], 20, "2\n0\n3\n20\n0\n"),
            (&[(0, 99)], 20, "1\n20\n0\n"),
            (&[(30, 9)], 20, "1\n0\n20\n"),
        ] {
            let map = sparse_map(&holes(ranges), len);
            assert_eq!((map.len(), &map[..lines.len()]), (BLOCK_LEN, lines.as_bytes()));
            assert!(map[lines.len()..].iter().all(|byte| *byte == 0));
        }
    }

    proptest! {
        #[test]
        fn a_length_is_known_without_the_header(
            key in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..300), "[a-z/]{90,110}".prop_map(String::into_bytes)
            ],
            link in proptest::collection::vec(any::<u8>(), 0..200),
            mtime_ns in prop_oneof![any::<i64>(), prop::sample::select(vec![0, 1_000_000_000, -2_000_000_000])],
            owner in prop_oneof![Just(None), any::<(u32, u32)>().prop_map(Some), Just(Some((1, 2)))],
            len in prop_oneof![any::<u64>(), 0_u64..1000],
            is_directory in any::<bool>(),
        ) {
            let kind = if is_directory { MemberKind::Directory } else { MemberKind::File };
            let head = Head { key: &key, kind, mode: 0o644, mtime_ns, owner, len, link: &link, xattrs: &[] };
            prop_assert_eq!(head.encoded_len(), head.encode().len());
        }
    }

    #[test]
    fn times_are_as_short_as_they_can_be() {
        let text = |ns| String::from_utf8(time_text(ns).as_bytes().to_vec()).unwrap();
        assert_eq!(text(1_500_000_000), "1.5");
        assert_eq!(text(-1_876_543_211), "-1.876543211");
        assert_eq!(text(-2_000_000_000), "-2");
        assert_eq!(text(0), "0");
        assert_eq!(text(i64::MIN), "-9223372036.854775808");
    }
}
