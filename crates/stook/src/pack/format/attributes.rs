//! Small typed attributes of a record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::bytes::{FieldCursor, put_leb128};
use super::{Decoded, Invalid};
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::tree::{Holes, Kind, Node, XATTRS_LEN_MAX, Xattrs};

/// Kind of file, see [`FileKind`].
pub const KIND: u8 = 1;
/// The 12 permission bits.
pub const MODE: u8 = 2;
/// Modification time, nanoseconds since 1970.
pub const MTIME_NS: u8 = 3;
/// User id of the owner.
pub const USER_ID: u8 = 4;
/// Group id of the owner.
pub const GROUP_ID: u8 = 5;
/// How many names a file had, where it had several.
pub const NAMES: u8 = 6;
/// Change time of the inode, nanoseconds since 1970, where no later change can have it, too.
pub const CTIME_NS: u8 = 8;
/// Inode number, beside that.
pub const INODE: u8 = 9;
/// Extended attributes, encoded as [`Xattrs`] are.
pub const XATTRS: u8 = 10;
/// The holes of a file: pairs of numbers, see [`Attributes::set_holes`].
pub const HOLES: u8 = 11;

/// What people call those that the format defines.
const CALLED: [(u8, &str); 10] = [
    (KIND, "kind"),
    (MODE, "mode"),
    (MTIME_NS, "mtime_ns"),
    (USER_ID, "user_id"),
    (GROUP_ID, "group_id"),
    (NAMES, "names"),
    (CTIME_NS, "ctime_ns"),
    (INODE, "inode"),
    (XATTRS, "xattrs"),
    (HOLES, "holes"),
];

/// A packed file has up to this many attributes, as a rule.
const USUAL: usize = 8;

/// Where there is little room, holes shorter than 2 to this are as good as one another.
const HOLE_SHIFT_MIN: u32 = 13;

/// What stands before the bytes of an attribute: id, type, length.
const LONG_HEAD: usize = 4;

/// Up to this many attributes are compared one by one.
const FEW: usize = 16;

/// The kind of a packed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory; the body is empty.
    Directory,
    /// A symbolic link; the body is its target.
    Symlink,
    /// A hard link to a file; the body is the key of the first.
    HardLink,
}

impl FileKind {
    /// What people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::HardLink => "hard_link",
        }
    }

    /// The kind that people call so.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::File, Self::Directory, Self::Symlink, Self::HardLink];
        all.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The value of the attribute.
    pub fn code(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
            Self::Symlink => 3,
            Self::HardLink => 4,
        }
    }

    /// What it is in a tree: a hard link to a file is that file.
    pub fn in_tree(self) -> Kind {
        match self {
            Self::File | Self::HardLink => Kind::File,
            Self::Directory => Kind::Directory,
            Self::Symlink => Kind::Symlink,
        }
    }

    /// The record of a node of this kind, under its first name; `None` for what packs do not hold.
    pub fn of_kind(kind: Kind) -> Option<Self> {
        match kind {
            Kind::File => Some(Self::File),
            Kind::Directory => Some(Self::Directory),
            Kind::Symlink => Some(Self::Symlink),
            _ => None,
        }
    }

    /// The kind of a value, `None` for those this release does not know.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::File,
            2 => Self::Directory,
            3 => Self::Symlink,
            4 => Self::HardLink,
            _ => return None,
        })
    }
}

/// What a kind is given as.
const KINDS: &str = "one of file, directory, symlink, hard_link";

/// Which attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A number: 1 to 127 as the format defines them, 128 to 255 the caller's own.
    Id(u8),
    /// A name of 1 to 255 bytes.
    Text(String),
}

impl Name {
    /// That of the attribute that the format defines and people call so.
    pub fn known(called: &str) -> Option<Self> {
        CALLED.iter().find(|(_, known)| *known == called).map(|(id, _)| Self::Id(*id))
    }

    /// What people call it; `None` for a number that the format does not define.
    pub fn called(&self) -> Option<&str> {
        match self {
            Self::Id(id) => CALLED.iter().find(|(known, _)| known == id).map(|(_, called)| *called),
            Self::Text(text) => Some(text),
        }
    }

    /// A value as an attribute of this name has it: those that are built in have types of their
    /// own, and a kind is given by its name.
    ///
    /// # Errors
    /// What is wanted instead.
    pub fn typed(&self, given: Value) -> std::result::Result<Value, &'static str> {
        let number = given.number();
        let (typed, wanted) = match (self, &given) {
            (Self::Id(KIND), Value::Text(text)) => {
                (FileKind::from_name(text).map(|kind| Value::U8(kind.code())), KINDS)
            }
            (Self::Id(KIND), _) => (None, KINDS),
            (Self::Id(MODE | USER_ID | GROUP_ID | NAMES), _) => {
                (number.and_then(|number| number.try_into().ok()).map(Value::U32), "a number of 32 bits")
            }
            (Self::Id(INODE), _) => {
                (number.and_then(|number| number.try_into().ok()).map(Value::U64), "a number of 64 bits")
            }
            (Self::Id(MTIME_NS | CTIME_NS), _) => (
                number.and_then(|number| number.try_into().ok()).map(Value::I64),
                "nanoseconds since 1970 as an int",
            ),
            (Self::Id(XATTRS | HOLES), Value::Bytes(_)) => (Some(given), ""),
            (Self::Id(XATTRS | HOLES), _) => (None, "bytes, as the format of packs has them"),
            _ => (Some(given), ""),
        };
        typed.ok_or(wanted)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.called()) {
            (_, Some(called)) => f.write_str(called),
            (Self::Id(id), None) => write!(f, "{id}"),
            (Self::Text(text), None) => f.write_str(text),
        }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Type 1.
    U64(u64),
    /// Type 2.
    I64(i64),
    /// Type 3.
    U32(u32),
    /// Type 4.
    U8(u8),
    /// Type 5, at most 65,535 bytes.
    Bytes(Vec<u8>),
    /// Type 6, at most 65,535 bytes.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    fn number(&self) -> Option<i128> {
        match *self {
            Self::U64(number) => Some(number.into()),
            Self::I64(number) => Some(number.into()),
            Self::U32(number) => Some(number.into()),
            Self::U8(number) => Some(number.into()),
            Self::Bytes(_) | Self::Text(_) => None,
        }
    }
}

/// The attributes of a record, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes(Vec<(Name, Value)>);

impl Attributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of a packed file of which no more is known.
    pub fn of_file(kind: FileKind, mode: u32, mtime_ns: i64, owner: Option<(u32, u32)>) -> Self {
        let (mode, mtime_ns) = (Some(mode), Some(mtime_ns));
        Self::of_node(Some(kind), &Node { mode, mtime_ns, owner, ..Node::new(kind.in_tree()) })
    }

    /// What a record says of a node: the kind is that of the record, because one of several names
    /// of a file has no node of its own. What is not said, or none that packs have, is left out.
    pub fn of_node(kind: Option<FileKind>, node: &Node) -> Self {
        let mut all = Self(Vec::with_capacity(USUAL));
        let mut push = |id, value: Option<Value>| all.0.extend(value.map(|value| (Name::Id(id), value)));
        push(KIND, kind.map(|kind| Value::U8(kind.code())));
        push(MODE, node.mode.map(Value::U32));
        push(MTIME_NS, node.mtime_ns.map(Value::I64));
        push(USER_ID, node.owner.map(|(user, _)| Value::U32(user)));
        push(GROUP_ID, node.owner.map(|(_, group)| Value::U32(group)));
        let has_names = kind == Some(FileKind::File) && node.links > 1;
        push(NAMES, has_names.then_some(Value::U32(node.links)));
        all
    }

    /// The node that a record with a body of this length is. Without a kind it is a file; a kind
    /// that is not known here is [`Kind::Other`]. The number of names is what the tree has, and so
    /// is not said here.
    pub fn node(&self, body_len: u64) -> Node {
        let kind = match (self.get(&Name::Id(KIND)), self.file_kind()) {
            (None, _) => Kind::File,
            (_, kind) => kind.map_or(Kind::Other, FileKind::in_tree),
        };
        Node {
            mode: self.mode().map(|mode| mode & 0o7777),
            mtime_ns: self.mtime_ns(),
            owner: self.owner(),
            len: if matches!(kind, Kind::File | Kind::Symlink) { body_len } else { 0 },
            ..Node::new(kind)
        }
    }

    /// Sets one, replacing what had this name.
    pub fn set(&mut self, name: Name, value: Value) {
        match self.0.iter_mut().find(|(have, _)| *have == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Sets one of the caller's own, as text.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if its name is one that the format defines: a reader would
    /// mistake it for that.
    pub fn set_text(&mut self, name: &str, value: &str) -> Result<()> {
        if Name::known(name).is_some() {
            return Err(Error::Invalid(format!(
                "an attribute cannot be called {name}: that is what packed files have; choose another name"
            )));
        }
        self.set(Name::Text(name.to_owned()), Value::Text(value.to_owned()));
        Ok(())
    }

    /// The value of one.
    pub fn get(&self, name: &Name) -> Option<&Value> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, value)| value)
    }

    /// Whether both have the same names with the same values, in whatever order and however numbers
    /// are stored.
    pub fn is_same(&self, other: &Self) -> bool {
        let plain = |all: &Self| -> BTreeMap<Name, (Option<i128>, Option<Value>)> {
            let apart = |value: &Value| match value.number() {
                Some(number) => (Some(number), None),
                None => (None, Some(value.clone())),
            };
            all.iter().map(|(name, value)| (name.clone(), apart(value))).collect()
        };
        plain(self) == plain(other)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &(Name, Value)> {
        self.0.iter()
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kind of file; `None` where it is not said or not known here.
    pub fn file_kind(&self) -> Option<FileKind> {
        match self.get(&Name::Id(KIND)) {
            Some(Value::U8(code)) => FileKind::from_code(*code),
            _ => None,
        }
    }

    /// The permission bits.
    pub fn mode(&self) -> Option<u32> {
        self.u32(MODE)
    }

    /// The modification time, ns.
    pub fn mtime_ns(&self) -> Option<i64> {
        match self.get(&Name::Id(MTIME_NS)) {
            Some(Value::I64(ns)) => Some(*ns),
            _ => None,
        }
    }

    /// Change time and number of the inode that a file was packed from.
    pub fn inode(&self) -> Option<(i64, u64)> {
        let Some(Value::I64(ctime_ns)) = self.get(&Name::Id(CTIME_NS)) else { return None };
        let inode = match self.get(&Name::Id(INODE))? {
            Value::U32(inode) => u64::from(*inode),
            Value::U64(inode) => *inode,
            _ => return None,
        };
        Some((*ctime_ns, inode))
    }

    /// Says from which inode a file was packed, and its change time.
    pub fn set_inode(&mut self, ctime_ns: i64, inode: u64) {
        self.set(Name::Id(CTIME_NS), Value::I64(ctime_ns));
        // Most file systems count from one: that is four bytes less in each record.
        self.set(Name::Id(INODE), u32::try_from(inode).map_or(Value::U64(inode), Value::U32));
    }

    /// User and group of the owner.
    pub fn owner(&self) -> Option<(u32, u32)> {
        Some((self.u32(USER_ID)?, self.u32(GROUP_ID)?))
    }

    /// The bytes of the extended attributes; empty if there are none.
    pub fn xattr_bytes(&self) -> &[u8] {
        match self.get(&Name::Id(XATTRS)) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    /// The extended attributes.
    pub fn xattrs(&self) -> Xattrs {
        Xattrs::decode(self.xattr_bytes())
    }

    /// Says which extended attributes a file has.
    pub fn set_xattrs(&mut self, xattrs: &Xattrs) {
        if !xattrs.is_empty() {
            self.set(Name::Id(XATTRS), Value::Bytes(xattrs.encode()));
        }
    }

    /// The holes of a file. What makes no sense ends them.
    pub fn holes(&self) -> Holes {
        let Some(Value::Bytes(bytes)) = self.get(&Name::Id(HOLES)) else { return Holes::default() };
        let (mut cursor, mut at) = (FieldCursor::new(bytes), 0_u64);
        Holes::of(std::iter::from_fn(|| {
            let start = at.checked_add(cursor.leb128().ok()?)?;
            let hole = ByteRange::at(start, cursor.leb128().ok()?)?;
            at = hole.end();
            Some(hole)
        }))
    }

    /// Says which holes a file has: for each how many bytes lie between it and the end of the one
    /// before, and how long it is, as LEB128. Where that is longer than there is room beside
    /// extended attributes, which are to be set before, the shortest holes are left out, and of
    /// those that are about as long the last: they become zeros.
    pub fn set_holes(&mut self, holes: &Holes) {
        let room = XATTRS_LEN_MAX.saturating_sub(self.xattr_bytes().len().saturating_add(2 * LONG_HEAD));
        let bytes = encode_holes_within(holes, room);
        if !bytes.is_empty() {
            self.set(Name::Id(HOLES), Value::Bytes(bytes));
        }
    }

    /// Whether the file had hard links to it: records whose body is its key.
    pub fn has_hard_links(&self) -> bool {
        self.u32(NAMES).is_some_and(|names| names > 1)
    }

    /// The kind of file in encoded attributes; `None` if it is absent or unknown, or these are not
    /// attributes. Called for every record of a scan, so nothing is allocated.
    pub fn kind_of(bytes: &[u8]) -> Option<FileKind> {
        let mut cursor = FieldCursor::new(bytes);
        while cursor.left() > 0 {
            if let (KIND, [code]) = skip_one(&mut cursor).ok()? {
                return FileKind::from_code(*code);
            }
        }
        None
    }

    /// Whether encoded attributes mark the record as a hard link, and whether they mark its file as
    /// having hard links; neither if these are not attributes. Called for every put, so nothing is
    /// allocated.
    pub(crate) fn name_flags(bytes: &[u8]) -> (bool, bool) {
        let (mut is_link, mut has_further) = (false, false);
        let mut cursor = FieldCursor::new(bytes);
        while cursor.left() > 0 {
            let Ok((id, value)) = skip_one(&mut cursor) else { break };
            match (id, value) {
                (KIND, [code]) => is_link = *code == FileKind::HardLink.code(),
                (NAMES, [a, b, c, d]) => has_further = u32::from_le_bytes([*a, *b, *c, *d]) > 1,
                _ => {}
            }
        }
        (is_link, has_further)
    }

    fn u32(&self, id: u8) -> Option<u32> {
        match self.get(&Name::Id(id)) {
            Some(Value::U32(value)) => Some(*value),
            _ => None,
        }
    }

    /// The bytes of a frame.
    ///
    /// # Errors
    /// Returns an error if a value, a name or all together are too long, or an attribute has id 0.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(32);
        for (name, value) in &self.0 {
            encode_one(&mut out, name, value)?;
        }
        limit("the length of all attributes of a record in bytes", out.len())?;
        Ok(out)
    }

    /// Reads the bytes of a frame.
    ///
    /// # Errors
    /// Returns an error if they are not attributes.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(bytes);
        let mut all = Self::new();
        let mut names = BTreeSet::new();
        while cursor.left() > 0 {
            let at = cursor.at();
            let (name, value) = decode_one(&mut cursor)?;
            // A few are compared one by one; thousands, which only an attacker packs, are looked
            // up.
            let twice = match all.0.len() {
                0..FEW => all.get(&name).is_some(),
                FEW => {
                    names.extend(all.0.iter().map(|(name, _)| name.clone()));
                    !names.insert(name.clone())
                }
                _ => !names.insert(name.clone()),
            };
            if twice {
                return Err(Invalid::damaged(at, "an attribute stands twice"));
            }
            all.0.push((name, value));
        }
        Ok(all)
    }
}

fn encode_holes(holes: &Holes) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    for hole in holes.as_slice() {
        put_leb128(&mut out, hole.start().saturating_sub(at));
        put_leb128(&mut out, hole.len());
        at = hole.end();
    }
    out
}

/// The longest holes, as many as there is room for; of those that are about as long, the first.
fn encode_holes_within(holes: &Holes, room: usize) -> Vec<u8> {
    let all = encode_holes(holes);
    if all.len() <= room {
        return all;
    }
    let mut at_least = 0;
    for shift in HOLE_SHIFT_MIN..u64::BITS {
        // Those that are as long are all kept, and of those that are shorter than this, but not
        // than the last that was too little, the first.
        let long = 1_u64 << shift;
        if encode_holes(&holes.without_short(long)).len() > room {
            at_least = long;
            continue;
        }
        let some = |shorter: usize| {
            let mut left = shorter;
            encode_holes(&Holes::of(holes.without_short(at_least).as_slice().iter().copied().filter(
                |hole| {
                    let is_kept = hole.len() >= long || left > 0;
                    left = left.saturating_sub(usize::from(hole.len() < long));
                    is_kept
                },
            )))
        };
        let (mut fit, mut too_many) = (0_usize, holes.as_slice().len());
        while fit.saturating_add(1) < too_many {
            let middle = fit.midpoint(too_many);
            if some(middle).len() <= room { fit = middle } else { too_many = middle }
        }
        return some(fit);
    }
    Vec::new()
}

fn limit(what: &'static str, len: usize) -> Result<u16> {
    u16::try_from(len).map_err(|_| Error::Limit { what, found: len as u64, limit: u64::from(u16::MAX) })
}

fn encode_one(out: &mut Vec<u8>, name: &Name, value: &Value) -> Result<()> {
    let code = match value {
        Value::U64(_) => 1,
        Value::I64(_) => 2,
        Value::U32(_) => 3,
        Value::U8(_) => 4,
        Value::Bytes(_) => 5,
        Value::Text(_) => 6,
    };
    match name {
        Name::Id(0) => return Err(Error::Invalid("attribute id 0 is not to be had: give it a name".into())),
        Name::Id(id) => out.extend([*id, code]),
        Name::Text(text) => {
            let len = u8::try_from(text.len()).ok().filter(|&len| len > 0);
            let Some(len) = len else {
                return Err(Error::Limit {
                    what: "the length of an attribute's name in bytes (at least 1)",
                    found: text.len() as u64,
                    limit: 255,
                });
            };
            out.extend([0, code, len]);
            out.extend_from_slice(text.as_bytes());
        }
    }
    let mut put_long = |bytes: &[u8]| -> Result<()> {
        let len = limit("the length of an attribute in bytes", bytes.len())?;
        out.extend(len.to_le_bytes());
        out.extend_from_slice(bytes);
        Ok(())
    };
    match value {
        Value::U64(value) => out.extend(value.to_le_bytes()),
        Value::I64(value) => out.extend(value.to_le_bytes()),
        Value::U32(value) => out.extend(value.to_le_bytes()),
        Value::U8(value) => out.push(*value),
        Value::Bytes(bytes) => put_long(bytes)?,
        Value::Text(text) => put_long(text.as_bytes())?,
    }
    Ok(())
}

fn decode_one(cursor: &mut FieldCursor<'_>) -> Decoded<(Name, Value)> {
    let (id, code) = (cursor.u8()?, cursor.u8()?);
    let name = if id == 0 {
        let at = cursor.at();
        let len = cursor.u8()?;
        if len == 0 {
            return Err(Invalid::damaged(at, "an attribute's name is empty"));
        }
        Name::Text(text(cursor, usize::from(len))?)
    } else {
        Name::Id(id)
    };
    let at = cursor.at();
    let value = match code {
        1 => Value::U64(cursor.u64()?),
        2 => Value::I64(cursor.i64()?),
        3 => Value::U32(cursor.u32()?),
        4 => Value::U8(cursor.u8()?),
        5 => {
            let len = cursor.u16()?;
            Value::Bytes(cursor.take(usize::from(len))?.to_vec())
        }
        6 => {
            let len = cursor.u16()?;
            Value::Text(text(cursor, usize::from(len))?)
        }
        other => return Err(Invalid::unsupported(at, format!("attribute type {other}"))),
    };
    Ok((name, value))
}

/// The next attribute, uninterpreted: its id (0 for one with a name) and the bytes of its value.
fn skip_one<'b>(cursor: &mut FieldCursor<'b>) -> Decoded<(u8, &'b [u8])> {
    let (id, code) = (cursor.u8()?, cursor.u8()?);
    if id == 0 {
        let len = cursor.u8()?;
        cursor.take(usize::from(len))?;
    }
    let len = match code {
        1 | 2 => 8,
        3 => 4,
        4 => 1,
        5 | 6 => usize::from(cursor.u16()?),
        other => return Err(Invalid::unsupported(cursor.at(), format!("attribute type {other}"))),
    };
    Ok((id, cursor.take(len)?))
}

fn text(cursor: &mut FieldCursor<'_>, len: usize) -> Decoded<String> {
    let at = cursor.at();
    let bytes = cursor.take(len)?.to_vec();
    String::from_utf8(bytes).map_err(|_| Invalid::damaged(at, "text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip() {
        let mut all = Attributes::of_file(FileKind::Symlink, 0o7777, -5, Some((1, 2)));
        all.set(Name::Text("étag".into()), Value::Text("x".into()));
        all.set(Name::Id(200), Value::Bytes(vec![0; 70]));
        all.set(Name::Id(MODE), Value::U32(0o644));
        let xattrs = Xattrs::of([(b"user.a".to_vec(), Some(b"\0".to_vec()))]);
        all.set_xattrs(&Xattrs::default());
        assert_eq!(all.get(&Name::Id(XATTRS)), None);
        all.set_xattrs(&xattrs);
        let bytes = all.encode().unwrap();
        let back = Attributes::decode(&bytes).unwrap();
        assert_eq!(back, all);
        assert_eq!((back.mode(), back.mtime_ns(), back.owner()), (Some(0o644), Some(-5), Some((1, 2))));
        assert_eq!((back.file_kind(), back.xattrs()), (Some(FileKind::Symlink), xattrs));
        for cut in 1..bytes.len() {
            if let Ok(fewer) = Attributes::decode(&bytes[..cut]) {
                assert!(fewer.0.len() < all.0.len());
            }
        }
    }

    #[test]
    fn neither_order_nor_the_form_of_a_number_is_a_difference() {
        let of = |pairs: [(u8, Value); 2]| Attributes(pairs.map(|(id, value)| (Name::Id(id), value)).into());
        let one = of([(200, Value::U64(3)), (201, Value::Text("x".into()))]);
        assert!(one.is_same(&of([(201, Value::Text("x".into())), (200, Value::U8(3))])));
        assert!(!one.is_same(&of([(200, Value::U64(3)), (201, Value::Bytes(b"x".to_vec()))])));
    }

    #[test]
    fn names_are_reported_without_decoding() {
        let flags = |all: &Attributes| Attributes::name_flags(&all.encode().unwrap());
        let mut all = Attributes::new();
        assert_eq!(flags(&all), (false, false));
        all.set(Name::Text("text".into()), Value::Text("long".into()));
        all.set(Name::Id(KIND), Value::U8(4));
        assert_eq!(flags(&all), (true, false));
        all.set(Name::Id(KIND), Value::U8(1));
        all.set(Name::Id(NAMES), Value::U32(1));
        assert_eq!(flags(&all), (false, false));
        all.set(Name::Id(NAMES), Value::U32(2));
        assert_eq!(flags(&all), (false, true));
        assert_eq!(Attributes::name_flags(&[6, 3, 2]), (false, false), "cut short");
        assert_eq!(Attributes::kind_of(&[6, 3, 2]), None, "cut short");
        for (code, kind) in [(1, Some(FileKind::File)), (4, Some(FileKind::HardLink)), (77, None)] {
            all.set(Name::Id(KIND), Value::U8(code));
            assert_eq!((all.file_kind(), Attributes::kind_of(&all.encode().unwrap())), (kind, kind));
        }
    }

    #[test]
    fn what_the_format_defines_is_found_by_what_it_is_called() {
        for (id, called) in CALLED {
            assert_eq!(Name::known(called), Some(Name::Id(id)));
            assert_eq!((Name::Id(id).called(), Name::Id(id).to_string()), (Some(called), called.to_owned()));
        }
        assert_eq!((Name::known("label"), Name::known("200")), (None, None));
        assert_eq!((Name::Id(200).called(), Name::Id(200).to_string()), (None, "200".to_owned()));
        assert_eq!(Name::Text("label".into()).to_string(), "label");
        for kind in [FileKind::File, FileKind::Directory, FileKind::Symlink, FileKind::HardLink] {
            assert_eq!(FileKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(FileKind::from_name("pipe"), None);
    }

    #[test]
    fn a_node_comes_back_as_far_as_the_record_has_it() {
        let all =
            Node { mode: Some(0o4755), mtime_ns: Some(-7), owner: Some((7, 8)), links: 3, ..Node::file(99) };
        for node in [all, Node { mode: None, ..all }, Node { mtime_ns: None, owner: None, ..all }] {
            let attributes = Attributes::of_node(Some(FileKind::File), &node);
            assert_eq!(attributes.node(99), Node { links: 1, ..node });
            assert!(attributes.has_hard_links());
        }
        let link = Attributes::of_node(Some(FileKind::HardLink), &all);
        assert!(link.node(99).kind == Kind::File && !link.has_hard_links());
        assert_eq!(Attributes::of_node(Some(FileKind::Directory), &all).node(99).len, 0);
        assert_eq!(Attributes::new().node(5), Node::file(5));
        let unknown = Attributes::decode(&[KIND, 4, 77]).unwrap();
        assert_eq!(unknown.node(5), Node::new(Kind::Other));
    }

    #[test]
    fn holes_come_back_and_the_longest_where_room_is_short() {
        let holes = |len: u64, count: u64| {
            Holes::of((0..count).map(|at| ByteRange::at(at * 3 * len + 7, len).unwrap()))
        };
        for some in [holes(1, 1), holes(4096, 100), holes(u64::MAX / 8, 2)] {
            let mut all = Attributes::new();
            all.set_holes(&some);
            let encoded = all.encode().unwrap();
            assert_eq!(Attributes::decode(&encoded).unwrap().holes(), some);
        }
        let mut all = Attributes::new();
        all.set_holes(&Holes::default());
        assert!(all.is_empty());
        let xattr = |len| Xattrs::of([(b"user.long".to_vec(), Some(vec![7; len]))]);
        all.set_xattrs(&xattr(60_000));
        let long = ByteRange::at(1 << 40, 1 << 20).unwrap();
        let many = Holes::of(holes(4096, 5000).as_slice().iter().copied().chain([long]));
        all.set_holes(&many);
        let kept = all.holes();
        let (last, first) = kept.as_slice().split_last().unwrap();
        // The longest stays, and of those that are all as long the first that fit.
        assert!(*last == long && first.len() > 300, "{} holes", first.len());
        assert_eq!(first, &many.as_slice()[..first.len()]);
        let mut one_more = all.clone();
        one_more.set_holes(&Holes::of(many.as_slice()[..=first.len()].iter().copied().chain([long])));
        assert_eq!(one_more.holes(), kept, "no more fit");
        assert!(all.encode().is_ok());
        let mut full = Attributes::new();
        full.set_xattrs(&xattr(XATTRS_LEN_MAX - 12));
        full.set_holes(&many);
        assert!(full.holes().is_empty() && full.encode().is_ok());
    }

    #[test]
    fn holes_that_make_no_sense_end_them() {
        let decoded = |bytes: &[u8]| {
            let mut all = Attributes::new();
            all.set(Name::Id(HOLES), Value::Bytes(bytes.to_vec()));
            all.holes()
        };
        let first = [ByteRange::at(5, 6).unwrap()];
        assert_eq!(decoded(&[5, 6]).as_slice(), first);
        assert_eq!(decoded(&[5, 6, 7]).as_slice(), first, "half a pair");
        let past: Vec<u8> = [5, 6].into_iter().chain([0xff; 9]).chain([1, 9]).collect();
        assert_eq!(decoded(&past).as_slice(), first, "past the last offset");
        assert!(decoded(&[]).is_empty() && decoded(&[0x80]).is_empty());
    }

    #[test]
    fn bad_attributes_are_refused() {
        assert!(Attributes::decode(&[1, 4, 1, 1, 4, 2]).is_err(), "twice");
        assert!(Attributes::decode(&[1, 9, 1]).unwrap_err().unsupported);
        assert!(Attributes::decode(&[0, 4, 0, 1]).is_err(), "empty name");
        assert!(Attributes::decode(&[7, 6, 1, 0, 0xff]).is_err(), "not UTF-8");
        let many: Vec<u8> = (1..=40).flat_map(|id| [id, 4, 9]).collect();
        assert_eq!(Attributes::decode(&many).unwrap().0.len(), 40);
        for repeated in 1..=40 {
            assert!(
                Attributes::decode(&[&many[..], &[repeated, 4, 9]].concat()).is_err(),
                "{repeated} twice"
            );
        }
        let mut all = Attributes::new();
        all.set(Name::Id(0), Value::U8(1));
        assert!(all.encode().is_err());
    }
}
