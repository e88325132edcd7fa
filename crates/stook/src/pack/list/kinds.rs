//! [`Kinds`]: which records are meant where a pack holds a tree: the files alone, or also what else
//! there was.

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::format::index::EntryContent;
use crate::pack::state::open::{KeyEntry, Pack};

/// Kinds of records. A hard link to a file is a file, and so is what no tree was packed from: both
/// have content. Directories have none, and what a symbolic link holds is where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds {
    /// Files, and records that do not say what they are.
    pub files: bool,
    /// Directories.
    pub directories: bool,
    /// Symbolic links.
    pub symlinks: bool,
}

impl Kinds {
    /// What has content.
    pub const FILES: Self = Self { files: true, directories: false, symlinks: false };
    /// Every record.
    pub const ALL: Self = Self { files: true, directories: true, symlinks: true };

    /// Those that names stand for: `file`, `directory`, `symlink`, `all`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another name, and where there is none.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self> {
        let none = Self { files: false, directories: false, symlinks: false };
        let mut all = none;
        for name in names {
            match name {
                "file" => all.files = true,
                "directory" => all.directories = true,
                "symlink" => all.symlinks = true,
                "all" => all = Self::ALL,
                other => {
                    return Err(Error::Invalid(format!(
                        "kinds are 'file' (hard links to files are files, too), 'directory', 'symlink' or 'all', not \
                         {other:?}"
                    )));
                }
            }
        }
        match all == none {
            true => Err(Error::Invalid("kinds are one or more, not none".into())),
            false => Ok(all),
        }
    }

    /// Whether a record of this kind is meant.
    pub fn takes(self, kind: Option<FileKind>) -> bool {
        match kind {
            Some(FileKind::Directory) => self.directories,
            Some(FileKind::Symlink) => self.symlinks,
            Some(FileKind::File | FileKind::HardLink) | None => self.files,
        }
    }

    /// Whether a record that holds this is meant; `None` where only its head says it.
    fn takes_content(self, content: EntryContent) -> Option<bool> {
        match content {
            _ if self == Self::ALL => Some(true),
            EntryContent::File => Some(self.files),
            EntryContent::Other if self.directories == self.symlinks => Some(self.directories),
            EntryContent::Other | EntryContent::Unsaid => None,
        }
    }
}

impl Pack {
    /// Of these entries, those of records of these kinds. Reads heads only where the index does not
    /// say it. One whose head is damaged stays: reading it reports the damage.
    ///
    /// # Errors
    /// When reading is impossible at all.
    pub fn of_kinds(&self, entries: Vec<KeyEntry>, kinds: Kinds) -> Result<Vec<KeyEntry>> {
        let is_unsaid = |entry: &&KeyEntry| kinds.takes_content(entry.found.place.content).is_none();
        let unsaid: Vec<KeyEntry> = entries.iter().filter(is_unsaid).cloned().collect();
        let mut heads = self.heads(&unsaid)?.into_iter();
        let mut taken = Vec::with_capacity(entries.len());
        for entry in entries {
            let is_taken = match kinds.takes_content(entry.found.place.content) {
                Some(is_taken) => is_taken,
                None => match heads.next() {
                    Some(Ok(head)) => kinds.takes(head.attributes.file_kind()),
                    Some(Err(Error::Damaged(_))) | None => true,
                    Some(Err(error)) => return Err(error),
                },
            };
            if is_taken {
                taken.push(entry);
            }
        }
        Ok(taken)
    }

    /// Of these entries, those of records with such attributes. Reads their heads; one that is
    /// damaged stays, as in [`of_kinds`](Self::of_kinds).
    pub(crate) fn with_attributes(
        &self,
        entries: Vec<KeyEntry>,
        takes: &mut dyn FnMut(&Attributes) -> bool,
    ) -> Result<Vec<KeyEntry>> {
        let heads = self.heads(&entries)?;
        let mut taken = Vec::with_capacity(entries.len());
        for (entry, head) in entries.into_iter().zip(heads) {
            match head {
                Ok(head) if !takes(&head.attributes) => {}
                Ok(_) | Err(Error::Damaged(_)) => taken.push(entry),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        assert_eq!(Kinds::named(["file"]).unwrap(), Kinds::FILES);
        assert_eq!(Kinds::named(["symlink", "file", "directory"]).unwrap(), Kinds::ALL);
        assert_eq!(Kinds::named(["all"]).unwrap(), Kinds::ALL);
        for wrong in [vec![], vec!["files"], vec!["file", ""]] {
            assert!(matches!(Kinds::named(wrong.iter().copied()), Err(Error::Invalid(_))), "{wrong:?}");
        }
    }
}
