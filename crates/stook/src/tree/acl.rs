//! Access control lists as the system holds them (version 2), and as text with numbers of users and
//! groups, which tars have.

/// The version that the first four bytes say.
const VERSION: u32 = 2;
/// What an entry takes: a tag, rights, the number of a user or group.
const ENTRY_LEN: usize = 8;
/// Entries that a list may have here; the system takes far fewer on most file systems.
const ENTRIES_MAX: usize = 8190;

/// The number of an entry that names no user or group.
const UNNAMED: u32 = u32::MAX;

/// Whom an entry is for.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// What an entry is called in text, and the tags without and with a number.
const CALLED: [(&str, u16, Option<u16>); 4] = [
    ("user", USER_OBJ, Some(USER)),
    ("group", GROUP_OBJ, Some(GROUP)),
    ("mask", MASK, None),
    ("other", OTHER, None),
];

/// Tag, number and rights. In this order a list is sorted as the system wants it.
type Entry = (u16, u32, u16);

/// The entries of a list; `None` where it is none.
fn entries(value: &[u8]) -> Option<Vec<Entry>> {
    let (version, rest) = value.split_first_chunk::<4>()?;
    let (entries, left) = rest.as_chunks::<ENTRY_LEN>();
    if u32::from_le_bytes(*version) != VERSION || !left.is_empty() || entries.len() > ENTRIES_MAX {
        return None;
    }
    let entry = |&[a, b, c, d, e, f, g, h]: &[u8; ENTRY_LEN]| {
        (u16::from_le_bytes([a, b]), u32::from_le_bytes([e, f, g, h]), u16::from_le_bytes([c, d]))
    };
    Some(entries.iter().map(entry).collect())
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = VERSION.to_le_bytes().to_vec();
    for (tag, number, rights) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(rights.to_le_bytes());
        out.extend(number.to_le_bytes());
    }
    out
}

/// The rights that a list gives to the group of a file, three bits.
pub(super) fn group_rights(value: &[u8]) -> Option<u32> {
    let entries = entries(value)?;
    let group = entries.iter().find(|(tag, ..)| *tag == GROUP_OBJ)?;
    Some(u32::from(group.2 & 7))
}

/// Whether a list says no more than a mode does.
pub(crate) fn is_mode(value: &[u8]) -> bool {
    let is_named = |(tag, ..): &Entry| ![USER_OBJ, GROUP_OBJ, OTHER].contains(tag);
    entries(value).is_some_and(|entries| !entries.iter().any(is_named))
}

/// A list as text, `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`; `None` where the text
/// would not say all of it.
pub(crate) fn to_text(value: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    for (tag, number, rights) in entries(value)? {
        let of = |(_, plain, named): &&(&str, u16, Option<u16>)| *plain == tag || *named == Some(tag);
        let (called, plain, _) = CALLED.iter().find(of)?;
        let who = if *plain == tag { String::new() } else { number.to_string() };
        let bit = |bit: u16, letter: char| if rights & bit != 0 { letter } else { '-' };
        parts.push(format!("{called}:{who}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x')));
    }
    let text = parts.join(",");
    (from_text(text.as_bytes()).as_deref() == Some(value)).then_some(text)
}

/// The list that a text says: entries after commas or on lines. `None` for one that names users or
/// groups without their numbers, which are other people elsewhere, or that is no whole list.
pub(crate) fn from_text(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    // What the mask leaves of the rights stands after a `#`.
    let parts = text.split([',', '\n']).filter_map(|part| part.split('#').next()).map(str::trim);
    let parts = parts.filter(|part| !part.is_empty());
    let mut all = parts.map(entry_of).collect::<Option<Vec<Entry>>>()?;
    all.sort_unstable();
    let count = |wanted: u16| all.iter().filter(|(tag, ..)| *tag == wanted).count();
    let has_one = [USER_OBJ, GROUP_OBJ, OTHER].into_iter().all(|tag| count(tag) == 1);
    let is_twice = all.windows(2).any(|pair| match pair {
        [one, other] => (one.0, one.1) == (other.0, other.1),
        _ => false,
    });
    let has_mask = count(MASK) == 1 || count(USER) + count(GROUP) == 0;
    (has_one && has_mask && !is_twice && all.len() <= ENTRIES_MAX).then(|| encode(&all))
}

/// An entry: who, the name or number of whom, the rights, and in tars of star and libarchive the
/// number after that.
fn entry_of(text: &str) -> Option<Entry> {
    let mut fields = text.split(':');
    let (called, who, rights) = (fields.next()?, fields.next()?, fields.next()?);
    let number = fields.next();
    if fields.next().is_some() {
        return None;
    }
    let (_, plain, named) = CALLED.iter().find(|(name, ..)| *name == called)?;
    let rights = rights_of(rights)?;
    if who.is_empty() {
        return number.is_none().then_some((*plain, UNNAMED, rights));
    }
    let number: u32 = number.unwrap_or(who).parse().ok()?;
    Some(((*named)?, number, rights)).filter(|_| number != UNNAMED)
}

/// `rwx`, with `-` for what is not allowed.
fn rights_of(text: &str) -> Option<u16> {
    let [read, write, run] = *text.as_bytes() else { return None };
    let bit = |byte: u8, letter: u8, bit: u16| match byte {
        b'-' => Some(0),
        byte if byte == letter => Some(bit),
        _ => None,
    };
    Some(bit(read, b'r', 4)? | bit(write, b'w', 2)? | bit(run, b'x', 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_text_and_back() {
        let text = "user::rw-,user:7:r--,user:1234:r-x,group::r--,group:9:rwx,mask::rwx,other::---";
        let value = from_text(text.as_bytes()).unwrap();
        assert_eq!(value.len(), 4 + 7 * ENTRY_LEN);
        assert_eq!(to_text(&value).as_deref(), Some(text));
        assert_eq!(group_rights(&value), Some(4));
        let lines = [
            "other::---",
            "mask::rwx",
            "user:ann:r-x:1234",
            "user:7:r--\t#effective:r--",
            "user::rw-",
            "group:9:rwx",
            "group::r--\n",
        ];
        let lines = lines.join("\n");
        let lines = lines.as_bytes();
        assert_eq!(from_text(lines).as_deref(), Some(&value[..]));
        assert!(!is_mode(&value) && is_mode(&from_text(b"user::rw-,group::r--,other::---").unwrap()));
    }

    #[test]
    fn lists_that_are_not_plain_are_refused() {
        for bad in [
            &b"user::rw-,group::r--"[..],
            b"user::rw-,user:ann:r--,group::r--,mask::r--,other::---",
            b"user::rw-,user:7:r--,group::r--,other::---",
            b"user::rw-,user::r--,group::r--,other::---",
            b"user::rw-,user:7:r--,user:7:r--,group::r--,mask::r--,other::---",
            b"user::rwz,group::r--,other::---",
            b"user::rw,group::r--,other::---",
            b"user::rw-,group::r--,other:7:---",
            b"user::rw-,user:4294967295:r--,group::r--,mask::r--,other::---",
            b"default:user::rw-,group::r--,other::---",
            b"\xff",
            b"",
        ] {
            assert_eq!(from_text(bad), None, "{:?}", bad.escape_ascii().to_string());
        }
        let mut value = from_text(b"user::rw-,group::r--,other::---").unwrap();
        assert_eq!(to_text(&value[..value.len() - 1]), None);
        value[4] = 0x40;
        assert_eq!((to_text(&value), group_rights(b"")), (None, None));
    }
}
