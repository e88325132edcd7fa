//! `mount.stook`: what `mount -t stook` and fstab call, as a command line of `stook mount`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use crate::exit::UsageError;

/// The name by which `mount` looks for it.
const NAME: &str = "mount.stook";

/// Options that say what holds anyway, or are the affair of `mount` and of the system's manager.
const ANYWAY: [&str; 29] = [
    "ro",
    "rw",
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "user",
    "nouser",
    "users",
    "group",
    "owner",
    "_netdev",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "sync",
    "async",
    "dirsync",
    "nodev",
    "nosuid",
    "exec",
    "suid",
    "dev",
];

/// The options that are those of `stook mount`, and whether they have a value.
const OPTIONS: [(&str, bool); 19] = [
    ("allow_other", false),
    ("noexec", false),
    ("no_exec", false),
    ("no_push", false),
    ("member_xattrs", false),
    ("no_passthrough", false),
    ("follow", false),
    ("ignore_case", false),
    ("threads", true),
    ("timeout", true),
    ("at", true),
    ("with", true),
    ("merged_cache", true),
    ("merged_cache_size", true),
    ("merge", true),
    ("log", true),
    ("cache_dir", true),
    ("cache_size", true),
    ("whole_file", false),
];

/// The command line that is meant, where the program was called by that name.
///
/// # Errors
/// Returns an error for an option that `stook mount` does not have.
pub(crate) fn translated(args: Vec<OsString>) -> Result<Vec<OsString>, UsageError> {
    let is_meant = args.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)));
    if !is_meant {
        return Ok(args);
    }
    let mut words: Vec<OsString> = vec!["stook".into(), "mount".into(), "--quiet".into()];
    let (mut paths, mut rest) = (Vec::new(), args.into_iter().skip(1));
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            b"-o" => {
                let options = rest.next().ok_or_else(|| UsageError::new("-o is given without options"))?;
                for option in options.as_bytes().split(|byte| *byte == b',') {
                    words.extend(option_of(option)?);
                }
            }
            // To ignore what is not known, to write no mtab, to say more: of `mount`.
            b"-s" | b"-n" | b"-v" => {}
            // To do nothing.
            b"-f" => return Err(UsageError::new("mount.stook cannot pretend to mount (-f)")),
            b"-h" | b"--help" => return Ok(["stook", "mount", "--help"].map(OsString::from).into()),
            // The type, with its name after it.
            b"-t" => drop(rest.next()),
            _ => paths.push(word),
        }
    }
    words.push("--".into());
    words.extend(paths);
    Ok(words)
}

fn option_of(option: &[u8]) -> Result<Option<OsString>, UsageError> {
    let (name, value) = match option.iter().position(|byte| *byte == b'=') {
        Some(at) => (option.get(..at).unwrap_or_default(), option.get(at + 1..)),
        None => (option, None),
    };
    let name = std::str::from_utf8(name).unwrap_or("?");
    if name.is_empty() || ANYWAY.contains(&name) || name.starts_with("x-") || name.starts_with("comment") {
        return Ok(None);
    }
    if !OPTIONS.contains(&(name, value.is_some())) {
        let known: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
        let shown = String::from_utf8_lossy(option);
        return Err(UsageError::new(format!(
            "no option of a mount is {shown}: expected {}",
            known.join(", ")
        )));
    }
    // By the name that every file system has for it.
    let name = if name == "noexec" { "no_exec" } else { name };
    let mut word = format!("--{}", name.replace('_', "-")).into_bytes();
    if let Some(value) = value {
        word.push(b'=');
        word.extend_from_slice(value);
    }
    Ok(Some(OsString::from_vec(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let joined = |words: Vec<OsString>| words.join(OsStr::new(" ")).into_string().unwrap();
        translated(words).map(joined).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_of_fstab_become_command_lines() {
        for (line, wanted) in [
            ("stook mount a b", "stook mount a b"),
            ("/sbin/mount.stook a b", "stook mount --quiet -- a b"),
            ("mount.stook a b -o rw", "stook mount --quiet -- a b"),
            ("mount.stook --help", "stook mount --help"),
            (
                "mount.stook s3://b/x.zip /m -o no_exec,cache_dir=/c,cache_size=1G,whole_file",
                "stook mount --quiet --no-exec --cache-dir=/c --cache-size=1G --whole-file -- s3://b/x.zip /m",
            ),
            ("mount.stook a b -o rw,noexec,nosuid,nodev,user", "stook mount --quiet --no-exec -- a b"),
            (
                "mount.stook a.stook /m -s -n -o ro,noauto,x-systemd.automount,allow_other,at=2026-11-21,with=c=d",
                "stook mount --quiet --allow-other --at=2026-11-21 --with=c=d -- a.stook /m",
            ),
            (
                "mount.stook -t stook a b -v -o threads=4,,no_push",
                "stook mount --quiet --threads=4 --no-push -- a b",
            ),
        ] {
            assert_eq!(of(line).unwrap(), wanted, "{line}");
        }
        for (line, said) in [
            ("mount.stook a b -o uid=7", "uid=7"),
            ("mount.stook a b -o allow_other=1", "allow_other=1"),
            ("mount.stook a b -o at", "at"),
            ("mount.stook a b -o", "without options"),
            ("mount.stook a b -f", "-f"),
        ] {
            assert!(of(line).unwrap_err().contains(said), "{line}");
        }
    }
}
