//! Extended attributes, access control lists among them: pairs of a name and a value, as they are.
//!
//! Their bytes are the same in packs and in indexes of archives: see "Attributes" of
//! `docs/formats/pack-v1.md`. What does not fit keeps its name, so that it can be reported.

use super::acl;
use crate::names::escaped;

/// The longest encoded extended attributes, in bytes. A record has room for 65,535 bytes of
/// attributes, and others of its own.
pub const XATTRS_LEN_MAX: usize = 60 << 10;

/// What the system gives to every file by itself, wherever that is made; and how XFS shows root its
/// access control lists once more, as it keeps them.
const OF_THE_SYSTEM: [&[u8]; 3] = [b"security.selinux", b"trusted.SGI_ACL_FILE", b"trusted.SGI_ACL_DEFAULT"];

/// Those with names that begin so grant rights, as set-user-id bits do, or are root's alone.
const GRANTING: [&[u8]; 2] = [b"security.", b"trusted."];

/// What names begin with that Linux itself knows. All others (`com.apple.quarantine`) are of
/// another system, unless the file system takes them.
const NAMESPACES: [&[u8]; 4] = [b"security.", b"system.", b"trusted.", b"user."];

/// The access control list of a file.
pub(crate) const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// That which new files in a directory get.
pub(crate) const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// Stands for the length of a value that was left out.
const LEFT_OUT: u16 = u16::MAX;

/// The longest name, in bytes: the system has none longer.
const NAME_LEN_MAX: usize = 255;

/// Name and length of a value, without both.
const PAIR_LEN: usize = 3;

/// Names that are shown of what is missing.
const SHOWN_MAX: usize = 5;

/// One extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xattr {
    /// Its name, with the namespace: `user.comment`.
    pub name: Vec<u8>,
    /// Its value; `None` where it could not be read, or had no room.
    pub value: Option<Vec<u8>>,
}

impl Xattr {
    /// Bytes that it takes among others.
    fn encoded_len(&self) -> usize {
        let value = self.value.as_ref().map_or(0, Vec::len);
        PAIR_LEN.saturating_add(self.name.len()).saturating_add(value)
    }
}

/// The extended attributes of a file, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Xattrs {
    all: Vec<Xattr>,
    len: usize,
    /// Whether there were more, of which not even the names are known.
    has_more: bool,
}

impl Xattrs {
    /// Those of a file whose extended attributes could not be listed.
    pub(crate) fn unreadable() -> Self {
        Self { has_more: true, ..Self::default() }
    }

    /// These, in the order of their names; of one name the last. Those that the system gives to
    /// every file are left out.
    pub fn of(pairs: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) -> Self {
        let sorted: std::collections::BTreeMap<_, _> = pairs.into_iter().collect();
        let mut all = Self::default();
        for (name, value) in sorted {
            all.push(&name, value.as_deref());
        }
        all
    }

    /// Takes one more, whose name comes after all others. A value that has no room is left out.
    pub(crate) fn push(&mut self, name: &[u8], value: Option<&[u8]>) {
        if is_of_the_system(name) {
            return;
        }
        let room = XATTRS_LEN_MAX.saturating_sub(self.len);
        let bare = PAIR_LEN.saturating_add(name.len());
        if name.is_empty() || name.len() > NAME_LEN_MAX || name.contains(&0) || bare > room {
            self.has_more = true;
            return;
        }
        let value = value.filter(|value| bare.saturating_add(value.len()) <= room);
        let xattr = Xattr { name: name.to_vec(), value: value.map(<[u8]>::to_vec) };
        self.len = self.len.saturating_add(xattr.encoded_len());
        self.all.push(xattr);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && !self.has_more
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Xattr] {
        &self.all
    }

    /// The value of one.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.all.iter().find(|xattr| xattr.name == name)?.value.as_deref()
    }

    /// Whether an access control list is among them.
    pub fn has_acl(&self) -> bool {
        self.all.iter().any(|xattr| is_acl(&xattr.name))
    }

    /// Bytes that they take in memory, about.
    pub(crate) fn memory(&self) -> u64 {
        (self.len + self.all.len() * size_of::<Xattr>()) as u64
    }

    /// The names of those whose values are missing, as text; `None` where nothing is.
    pub fn lost(&self) -> Option<String> {
        self.lost_of(|_| true)
    }

    /// The same without those of other systems, which are not missed where they cannot be set.
    pub(crate) fn lost_here(&self) -> Option<String> {
        self.lost_of(|name| !is_foreign(name))
    }

    fn lost_of(&self, counts: impl Fn(&[u8]) -> bool) -> Option<String> {
        let names = self.all.iter().filter(|xattr| xattr.value.is_none() && counts(&xattr.name));
        let names: Vec<&[u8]> = names.map(|xattr| xattr.name.as_slice()).collect();
        (!names.is_empty() || self.has_more).then(|| names_text(&names, self.has_more))
    }

    /// Whether there were more, of which not even the names are known.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Without those of which others have the names.
    pub(crate) fn without(mut self, others: &Self) -> Self {
        self.all.retain(|xattr| !others.all.iter().any(|other| other.name == xattr.name));
        self.len = self.all.iter().map(Xattr::encoded_len).sum();
        self
    }

    /// Without those that grant rights.
    pub(crate) fn without_granting(mut self) -> Self {
        self.all.retain(|xattr| !grants_rights(&xattr.name));
        self.len = self.all.iter().map(Xattr::encoded_len).sum();
        self
    }

    /// The permission bits of a file whose access control list is not set. Those of its group then
    /// are what the list gives the group, not the mask, which is what more than the group may.
    pub(crate) fn mode_without_acl(&self, mode: u32) -> u32 {
        let group = self.get(ACL_ACCESS).and_then(acl::group_rights);
        group.map_or(mode, |group| (mode & !0o070) | (mode & (group << 3)))
    }

    /// The bytes of them; none where there are none.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len.saturating_add(usize::from(self.has_more)));
        for Xattr { name, value } in &self.all {
            // Both were checked when they were taken.
            out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(name);
            let len = value.as_ref().and_then(|value| u16::try_from(value.len()).ok()).unwrap_or(LEFT_OUT);
            out.extend(len.to_le_bytes());
            out.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        if self.has_more {
            out.push(0);
        }
        out
    }

    /// Those that bytes say. What makes no sense ends them, as if there had been more.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut all = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            match decode_one(rest) {
                Some((name, value, after)) if all.all.last().is_none_or(|last| *last.name < *name) => {
                    all.push(name, value);
                    rest = after;
                }
                _ => {
                    all.has_more = true;
                    break;
                }
            }
        }
        all
    }
}

/// A name, its value where it is there, and the bytes after them.
type Decoded<'b> = (&'b [u8], Option<&'b [u8]>, &'b [u8]);

/// Decodes the first pair.
fn decode_one(bytes: &[u8]) -> Option<Decoded<'_>> {
    let (len, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*len)).filter(|(name, _)| !name.is_empty())?;
    let (len, rest) = rest.split_first_chunk::<2>()?;
    match u16::from_le_bytes(*len) {
        LEFT_OUT => Some((name, None, rest)),
        len => {
            let (value, rest) = rest.split_at_checked(usize::from(len))?;
            Some((name, Some(value), rest))
        }
    }
}

/// Whether the system gives one of this name to every file by itself.
pub(crate) fn is_of_the_system(name: &[u8]) -> bool {
    OF_THE_SYSTEM.contains(&name)
}

/// Whether one of this name grants rights, so that only who restores owners may set it.
pub(crate) fn grants_rights(name: &[u8]) -> bool {
    GRANTING.iter().any(|begin| name.starts_with(begin))
}

/// Whether one of this name is of another system than this.
pub(crate) fn is_foreign(name: &[u8]) -> bool {
    !NAMESPACES.iter().any(|begin| name.starts_with(begin))
}

/// Whether one of this name is an access control list.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name == ACL_ACCESS || name == ACL_DEFAULT
}

/// Names as one text, the first few of them.
pub(crate) fn names_text(names: &[&[u8]], has_more: bool) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN_MAX).map(|name| escaped(name).to_string()).collect();
    match (shown.is_empty(), has_more || names.len() > SHOWN_MAX) {
        (true, _) => "some whose names are not known".to_owned(),
        (false, false) => shown.join(", "),
        (false, true) => format!("{} and more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
        (name.into(), Some(value.to_vec()))
    }

    #[test]
    fn they_round_trip_in_the_order_of_names() {
        let all = Xattrs::of([pair("user.b", b"\0\xff"), pair("user.a", b""), (b"user.c".to_vec(), None)]);
        let bytes = all.encode();
        assert_eq!(bytes, b"\x06user.a\0\0\x06user.b\x02\0\0\xff\x06user.c\xff\xff");
        assert_eq!(Xattrs::decode(&bytes), all);
        assert_eq!((all.get(b"user.b"), all.get(b"user.c")), (Some(&b"\0\xff"[..]), None));
        assert_eq!(all.lost().as_deref(), Some("user.c"));
        assert!(Xattrs::decode(b"").is_empty() && Xattrs::of([pair("security.selinux", b"x")]).is_empty());
        assert!(
            Xattrs::of([pair("trusted.SGI_ACL_FILE", b"x"), pair("trusted.SGI_ACL_DEFAULT", b"")]).is_empty()
        );
        assert!(!Xattrs::unreadable().is_empty());
        assert_eq!(Xattrs::decode(&Xattrs::unreadable().encode()), Xattrs::unreadable());
    }

    #[test]
    fn what_has_no_room_keeps_its_name() {
        let long = vec![7; XATTRS_LEN_MAX];
        let all = Xattrs::of([pair("user.a", b"x"), pair("user.long", &long), pair("user.z", b"y")]);
        assert_eq!((all.get(b"user.a"), all.get(b"user.z")), (Some(&b"x"[..]), Some(&b"y"[..])));
        assert_eq!(all.lost().as_deref(), Some("user.long"));
        let many = Xattrs::of((0..300).map(|at| pair(&format!("user.{at:0250}"), b"value")));
        assert!(many.encode().len() <= XATTRS_LEN_MAX + 1 && many.has_more);
        assert!(many.lost().unwrap().contains("not known"), "{:?}", many.lost());
        assert_eq!(Xattrs::decode(&many.encode()), many);
        for bad in [&b"user\0a"[..], b"", &[b'x'; 256]] {
            assert_eq!(Xattrs::of([(bad.to_vec(), Some(Vec::new()))]), Xattrs::unreadable());
        }
    }

    #[test]
    fn bytes_that_make_no_sense_lose_what_follows() {
        let good = Xattrs::of([pair("user.a", b"1"), pair("user.b", b"2")]).encode();
        for cut in 1..good.len() {
            let cut = Xattrs::decode(&good[..cut]);
            assert!(cut.as_slice().len() <= 1 && (cut.lost().is_some() || cut.as_slice().len() == 1));
        }
        let twice = [&good[..], &good[..]].concat();
        assert_eq!(Xattrs::decode(&twice).as_slice().len(), 2);
        assert!(Xattrs::decode(&twice).lost().is_some());
    }

    #[test]
    fn rights_are_told_apart() {
        let all = Xattrs::of(["security.capability", "trusted.x", "user.y"].map(|name| pair(name, b"v")));
        let left = all.without_granting();
        assert_eq!(left.as_slice().len(), 1);
        assert!(left.get(b"user.y").is_some() && !left.has_acl());
        assert_eq!(left, Xattrs::of([pair("user.y", b"v")]));
    }

    #[test]
    fn what_another_system_has_is_missed_only_where_it_was_carried() {
        let all = Xattrs::of([(b"com.apple.quarantine".to_vec(), None), pair("user.a", b"1")]);
        assert_eq!((all.lost().as_deref(), all.lost_here()), (Some("com.apple.quarantine"), None));
        assert!(is_foreign(b"users.a") && !is_foreign(b"system.posix_acl_access"));
        assert!(Xattrs::unreadable().lost_here().is_some());
    }

    #[test]
    fn without_its_list_a_group_has_what_the_list_gave_it() {
        let list = acl::from_text(b"user::rw-,user:7:rw-,group::r--,mask::rw-,other::---").unwrap();
        let all = Xattrs::of([(ACL_ACCESS.to_vec(), Some(list))]);
        assert!(all.has_acl());
        assert_eq!(all.mode_without_acl(0o2660), 0o2640);
        assert_eq!(Xattrs::default().mode_without_acl(0o660), 0o660);
    }
}
