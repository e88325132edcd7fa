//! [`Origin`]: the identity of a source across openings.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Identifies a source across openings: persistent caches distinguish sources by it.
///
/// It is a hash (SHA-256) of everything that decides which bytes are returned: the full address,
/// the server, the credentials. Two sources with one origin and one [`Identity`](super::Identity)
/// have the same bytes. The name beside it is for people, and reveals no secret; the hash is never
/// shown, and a cache writes only a salted hash of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin {
    name: Arc<str>,
    digest: [u8; 32],
}

impl Origin {
    /// Begins with what kind of source it is. `name` is what people call it, without secrets; it
    /// does not count.
    pub fn new(kind: &str, name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), digest: [0; 32] }.with("kind", kind)
    }

    /// With something else that decides which bytes come.
    #[must_use]
    pub fn with(self, field: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        let mut hash = Sha256::new();
        hash.update(self.digest);
        // With the length before it, no two lists of fields have the same bytes.
        for part in [field.as_bytes(), value] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self { digest: hash.finalize().into(), ..self }
    }

    /// As a part of something else.
    #[must_use]
    pub fn within(self, whole: &Self) -> Self {
        self.with("within", whole.digest)
    }

    /// The same, found at this target of its redirects.
    #[cfg(feature = "remote")]
    #[must_use]
    pub(crate) fn led_to(self, target: &Self) -> Self {
        self.with("target", target.digest)
    }

    /// A file at this path.
    pub fn of_path(path: &Path) -> Self {
        // If there is no current directory, the path is used unchanged.
        let absolute = std::path::absolute(path);
        let absolute = absolute.as_deref().unwrap_or(path);
        Self::new("path", path.to_string_lossy()).with("path", absolute.as_os_str().as_bytes())
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its key in a cache with this salt.
    pub(crate) fn salted(&self, salt: &[u8; 32]) -> [u8; 32] {
        Sha256::new().chain_update(salt).chain_update(self.digest).finalize().into()
    }
}

/// Without the hash: something secret that is short could be guessed from it.
impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_values_cannot_be_mistaken_for_each_other() {
        let all = [
            Origin::new("a", "name"),
            Origin::new("b", "name"),
            Origin::new("a", "name").with("x", "yz"),
            Origin::new("a", "name").with("xy", "z"),
            Origin::new("a", "name").with("x", "y").with("z", ""),
            Origin::new("a", "name").with("z", "").with("x", "y"),
            Origin::of_path(Path::new("a")),
            Origin::of_path(Path::new("b")),
        ];
        for (number, one) in all.iter().enumerate() {
            for (other_number, other) in all.iter().enumerate() {
                assert_eq!(one.digest == other.digest, number == other_number);
            }
            assert_ne!(one.salted(&[0; 32]), one.salted(&[1; 32]));
        }
        let one = Origin::new("a", "x").with("k", "v");
        assert_eq!(one.digest, Origin::new("a", "y").with("k", "v").digest, "the name does not count");
        assert!(!format!("{one:?}").contains("digest"));
    }

    #[test]
    fn a_relative_path_is_the_file_that_it_means_here() {
        let here = std::env::current_dir().unwrap().join("file");
        assert_eq!(Origin::of_path(Path::new("file")).digest, Origin::of_path(&here).digest);
    }
}
