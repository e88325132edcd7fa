//! Which keys are paths of one tree: the rule for everything that comes out into a directory.

use std::collections::HashSet;
use std::ffi::OsStr;

use super::parts::refusal;
use super::target;

/// Which keys are paths of a tree. A key that others lie below is that of a directory, as in every
/// [`NodeTable`](super::NodeTable): what has it and is something else has no place.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// The keys that others lie below.
    parents: HashSet<Vec<u8>>,
    /// Keys that those that come next may lie below.
    above: Vec<Above>,
}

/// A key that may be above those that come next, and whether it was above one.
#[derive(Debug)]
struct Above {
    path: Vec<u8>,
    is_parent: bool,
}

impl Paths {
    /// Notes the next key in the order of keys. One that is no path has nothing above it.
    pub(crate) fn note(&mut self, path: &[u8]) {
        if parts(path).is_err() {
            return;
        }
        // Those above it are beginnings of one another, with others between: `x` and `x-` come
        // before `x/y`.
        self.above.retain(|above| path.starts_with(&above.path));
        for above in &mut self.above {
            if !above.is_parent && path.get(above.path.len()) == Some(&b'/') {
                above.is_parent = true;
                self.parents.insert(above.path.clone());
            }
        }
        self.above.push(Above { path: path.to_vec(), is_parent: false });
    }

    /// Checks that what has a path can be in the tree.
    ///
    /// # Errors
    /// Why what is no directory cannot: others lie below it, or it has no name.
    pub(crate) fn check(&self, path: &[u8], is_directory: bool) -> Result<(), String> {
        let why = match is_directory {
            true => return Ok(()),
            false if path.is_empty() => "the empty path can only be a directory",
            false if self.parents.contains(path) => {
                "refused: the keys of others lie below it, so that it can only be a directory; \
                 `stook get` gives it"
            }
            false => return Ok(()),
        };
        Err(why.into())
    }
}

/// The names that a path goes through.
///
/// # Errors
/// Why nothing comes out below a directory under this path.
pub(crate) fn parts(path: &[u8]) -> Result<Vec<&OsStr>, String> {
    target::parts(path).map_err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_has_others_below_it() {
        let mut paths = Paths::default();
        for path in [&b"a"[..], b"x", b"x-", b"x-/../q", b"x/y", b"x/y-", b"x/y/z"] {
            paths.note(path);
        }
        let refused = |path: &[u8]| paths.check(path, false).is_err();
        assert!(refused(b"x") && refused(b"x/y") && refused(b""));
        assert!(!refused(b"a") && !refused(b"x-") && !refused(b"x/y/z") && !refused(b"x/y-"));
        assert!(paths.check(b"x", true).is_ok());
    }

    #[test]
    fn only_what_leads_out_is_said_to_lead_out() {
        let long = [b'x'; 256];
        for (path, leads_out) in
            [(&b"/etc"[..], true), (b"a/../b", true), (b"a//b", false), (b"a\0", false), (&long, false)]
        {
            let why = parts(path).unwrap_err();
            assert_eq!(why.contains("lead out of the target"), leads_out, "{why}");
            assert!(why.starts_with("refused: "), "{why}");
        }
    }
}
