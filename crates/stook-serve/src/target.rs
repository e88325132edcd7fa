//! The target of a request: names of a path, and what it is to be sent as.

use std::fmt::Write as _;

/// What a path and a query ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The names, decoded: no name is empty, `.` or `..`, or has a slash or NUL in it.
    pub(crate) names: Vec<Vec<u8>>,
    /// Whether the path ends in a slash.
    pub(crate) has_slash: bool,
    /// What a directory is to be sent as.
    pub(crate) sent_as: SentAs,
}

/// What a directory is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SentAs {
    /// As it is.
    Itself,
    /// As a tar.
    Tar,
    /// As a zip.
    Zip,
}

impl SentAs {
    /// What the names of such files end in.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Itself => "",
            Self::Tar => "tar",
            Self::Zip => "zip",
        }
    }
}

/// Why a target is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTarget {
    /// It is no path, or has an escape that is none.
    Malformed,
    /// Nothing can be there: names that no entry of a tree has.
    Nowhere,
    /// It is to be sent as something that is not known.
    UnknownForm,
}

impl Target {
    pub(crate) fn parse(path: &str, query: Option<&str>) -> Result<Self, NoTarget> {
        let rest = path.strip_prefix('/').ok_or(NoTarget::Malformed)?;
        let (rest, has_slash) = match rest.strip_suffix('/') {
            Some(before) => (before, true),
            None => (rest, rest.is_empty()),
        };
        // `//` is a path with an empty name, and not the root.
        let is_root = rest.is_empty() && path.len() == 1;
        let names = if is_root { Vec::new() } else { rest.split('/').map(name).collect::<Result<_, _>>()? };
        let asked = query.into_iter().flat_map(|query| query.split('&'));
        let mut sent_as = SentAs::Itself;
        for form in asked.filter_map(|field| field.strip_prefix("as=")) {
            sent_as = match form {
                "tar" => SentAs::Tar,
                "zip" => SentAs::Zip,
                _ => return Err(NoTarget::UnknownForm),
            };
        }
        Ok(Self { names, has_slash, sent_as })
    }

    /// The same path, written anew: with one slash at the front, so that it cannot be taken for
    /// the name of a host.
    pub(crate) fn path(&self) -> String {
        let mut path = String::new();
        for name in &self.names {
            path.push('/');
            push_encoded(&mut path, name);
        }
        path
    }
}

/// A name of a path.
fn name(encoded: &str) -> Result<Vec<u8>, NoTarget> {
    let (mut name, mut bytes) = (Vec::with_capacity(encoded.len()), encoded.bytes());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let digits = bytes.next().and_then(digit).zip(bytes.next().and_then(digit));
                digits.map(|(high, low)| high << 4 | low).ok_or(NoTarget::Malformed)?
            }
            byte => byte,
        });
    }
    match name.as_slice() {
        b"" | b"." | b".." => Err(NoTarget::Nowhere),
        name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(NoTarget::Nowhere),
        _ => Ok(name),
    }
}

fn digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Appends a name as a part of a path: all bytes but letters, digits and `-._~` are escaped.
pub(crate) fn push_encoded(path: &mut String, name: &[u8]) {
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => path.push(*byte as char),
            _ => {
                let written = write!(path, "%{byte:02X}");
                debug_assert!(written.is_ok(), "writing into a String does not fail");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_path_leads_out_and_the_root_is_the_root() {
        let root = Target { names: Vec::new(), has_slash: true, sent_as: SentAs::Itself };
        assert_eq!(Target::parse("/", None), Ok(root.clone()));
        assert_eq!(Target::parse("/", Some("x=1&as=zip")), Ok(Target { sent_as: SentAs::Zip, ..root }));
        for path in [
            "//",
            "//host/x",
            "/..",
            "/../",
            "/../etc/passwd",
            "/a/../b",
            "/%2e%2e/x",
            "/%2E./x",
            "/a//b",
            "/./a",
            "/a%2fb",
            "/%2F",
            "/a%00",
            "/a/%2e",
        ] {
            assert_eq!(Target::parse(path, None), Err(NoTarget::Nowhere), "{path}");
        }
        for path in ["", "a", "*", "/%", "/%1", "/%g0", "/%+1", "/a%"] {
            assert_eq!(Target::parse(path, None), Err(NoTarget::Malformed), "{path}");
        }
        assert_eq!(Target::parse("/a", Some("as=rar")), Err(NoTarget::UnknownForm));
    }

    proptest! {
        #[test]
        fn names_of_any_bytes_come_back(
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..12), 1..4),
            has_slash: bool,
        ) {
            let is_name = |name: &Vec<u8>| name != b"." && name != b".." && !name.iter().any(|b| [0, b'/'].contains(b));
            prop_assume!(names.iter().all(is_name));
            let target = Target { names, has_slash, sent_as: SentAs::Itself };
            let path = format!("{}{}", target.path(), if has_slash { "/" } else { "" });
            prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"'&?#\\".contains(&byte)));
            prop_assert_eq!(Target::parse(&path, None), Ok(target));
        }
    }
}
