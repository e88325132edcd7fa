//! Paths in lists of files: taken apart, and refused where they would lead out of the directory
//! that the list is for.

/// Why a name in a list is taken for no file below its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It is empty, or names the directory itself.
    #[error("there is no name of a file")]
    NoName,
    /// It begins at the root, or on a drive.
    #[error("the name is absolute, and would lead out of the directory")]
    Absolute,
    /// There is a `..` in it.
    #[error("there is a `..` in the name, which would lead out of the directory")]
    LeadsOut,
    /// There is a zero in it.
    #[error("there is a zero in the name")]
    Zero,
}

/// The path that a name in a list is: names with `/` between them, none of them empty, `.` or `..`.
///
/// # Errors
/// Returns an error if it names nothing, is absolute, has a `..` or a zero in it.
pub fn relative(name: &[u8]) -> Result<Vec<u8>, PathFault> {
    if name.contains(&0) {
        return Err(PathFault::Zero);
    }
    if name.first() == Some(&b'/') {
        return Err(PathFault::Absolute);
    }
    let mut path = Vec::with_capacity(name.len());
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(PathFault::LeadsOut),
            part => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
            }
        }
    }
    if path.is_empty() { Err(PathFault::NoName) } else { Ok(path) }
}

/// The same of a name in which `\` separates names, too, and which may begin with a drive.
///
/// # Errors
/// Returns the errors of [`relative`].
pub fn relative_dos(name: &[u8]) -> Result<Vec<u8>, PathFault> {
    let has_drive = matches!(name, [letter, b':', ..] if letter.is_ascii_alphabetic());
    if has_drive {
        return Err(PathFault::Absolute);
    }
    let unix = |byte: &u8| if *byte == b'\\' { b'/' } else { *byte };
    relative(&name.iter().map(unix).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_empty_name_and_no_dot() {
        for (name, path) in [("a", "a"), ("./a//b/", "a/b"), ("a/./.b", "a/.b"), ("..a/b..", "..a/b..")] {
            assert_eq!(relative(name.as_bytes()).as_deref(), Ok(path.as_bytes()), "{name}");
        }
        assert_eq!(relative(br"a\b").as_deref(), Ok(&br"a\b"[..]));
        assert_eq!(relative_dos(br".\a\b/c").as_deref(), Ok(&b"a/b/c"[..]));
        assert_eq!(relative_dos(b"ab:c").as_deref(), Ok(&b"ab:c"[..]));
    }

    #[test]
    fn what_leads_out_or_nowhere_is_refused() {
        for (name, fault) in [
            ("", PathFault::NoName),
            (".", PathFault::NoName),
            ("././", PathFault::NoName),
            ("/etc/passwd", PathFault::Absolute),
            ("..", PathFault::LeadsOut),
            ("a/../../b", PathFault::LeadsOut),
            ("a\0b", PathFault::Zero),
        ] {
            assert_eq!(relative(name.as_bytes()), Err(fault), "{name}");
            assert_eq!(relative_dos(name.replace('/', "\\").as_bytes()), Err(fault), "{name}");
        }
        for name in [r"C:\a", "c:a", r"\\server\share", r"\a"] {
            assert_eq!(relative_dos(name.as_bytes()), Err(PathFault::Absolute), "{name}");
        }
    }
}
