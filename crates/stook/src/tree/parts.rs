//! Which paths stand for something below a root: relative, no empty part, none that leads upwards.

/// The longest name that a tree takes, in bytes. File systems take 255, archives hold longer ones.
pub(crate) const NAME_LEN_MAX: usize = 65_535;

/// Why a path could lead out of the directory below which it is to be.
const ABSOLUTE: &str = "it is an absolute path";
const UPWARDS: &str = "it has a part `..`";

/// That nothing comes out under a path, which is refused for this reason.
pub(crate) fn refusal(why: &str) -> String {
    match why {
        ABSOLUTE | UPWARDS => format!("refused: its path could lead out of the target: {why}"),
        _ => format!("refused: nothing on disk can have its path: {why}"),
    }
}

/// The parts of a path that is relative and safe, or why it is not; none of the empty path, which
/// is the root.
pub(crate) fn split(path: &[u8]) -> Result<impl Iterator<Item = &[u8]> + Clone, &'static str> {
    if path.starts_with(b"/") {
        return Err(ABSOLUTE);
    }
    let most = if path.is_empty() { 0 } else { usize::MAX };
    let parts = path.split(|byte| *byte == b'/').take(most);
    parts.clone().try_for_each(check_name)?;
    Ok(parts)
}

/// Whether something can be called so in a directory, or why not.
pub(crate) fn check_name(name: &[u8]) -> Result<(), &'static str> {
    match name {
        b"" => Err("it has an empty part"),
        b"." => Err("it has a part `.`"),
        b".." => Err(UPWARDS),
        name if name.contains(&0) => Err("it has a zero byte"),
        name if name.contains(&b'/') => Err("it has a part with a slash"),
        name if name.len() > NAME_LEN_MAX => Err("it has a part of more than 65,535 bytes"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_paths_without_tricks_have_parts() {
        assert_eq!(split(b"a/b\xff").unwrap().collect::<Vec<_>>(), [&b"a"[..], b"b\xff"]);
        assert_eq!(split(b"").unwrap().count(), 0);
        assert_eq!(split(&[b'x'; NAME_LEN_MAX]).unwrap().count(), 1);
        for bad in
            [&b"/a"[..], b"/", b"a//b", b"a/", b"./a", b"a/..", b"..", b"a\0b", &[b'x'; NAME_LEN_MAX + 1]]
        {
            assert!(split(bad).is_err(), "{bad:?}");
        }
        assert!(check_name(b"a/b").is_err());
    }
}
