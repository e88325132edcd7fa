//! Where a path leads, for the question whether one place lies inside another.

use std::path::{Path, PathBuf};

/// The path without links and `..`, as far as it is there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
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
    fn links_are_followed_and_what_is_not_there_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink("a", real.join("link")).unwrap();
        assert_eq!(resolved(&dir.path().join("link/x/y")), real.join("a/x/y"));
        assert_eq!(resolved(&dir.path().join("a/../link")), real.join("a"));
    }
}
