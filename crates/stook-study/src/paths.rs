//! Where a path leads, for the question whether one place lies inside another.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Whether a path is another one or lies in it, through whatever links and mounts it is named.
pub(crate) fn lies_within(inner: &Path, outer: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let (inner, outer) = (resolved(inner), resolved(outer));
    let found = identity(&outer);
    inner.starts_with(&outer) || found.is_some() && inner.ancestors().any(|above| identity(above) == found)
}

/// The path without links and `..`, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match found {
        Some((above, resolved)) => resolved.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_lies_in_another_by_whatever_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let within = |inner: &str, outer: &str| lies_within(&dir.path().join(inner), &dir.path().join(outer));
        assert!(within("a", "a") && within("link/b", "a") && within("a/b/new", "link") && within("a/x", "a"));
        assert!(!within("a", "a/b") && !within("a", "new") && !within("ab", "a"));
    }

    #[test]
    fn links_are_followed_and_what_is_not_there_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink("a", real.join("link")).unwrap();
        assert_eq!(resolved(&dir.path().join("link/x/y")), real.join("a/x/y"));
        assert_eq!(resolved(&dir.path().join("a/../link")), real.join("a"));
    }
}
