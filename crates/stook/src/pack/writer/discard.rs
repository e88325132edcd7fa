//! Takes a pack away again that was made for nothing.

use super::PackWriter;
use crate::pack::error::Result;
use crate::pack::key::Key;
use crate::pack::state::names::{LOCK, PackFile};
use crate::pack::state::open::{OpenOptions, Pack};
use crate::tree::target::is_manifest;

impl PackWriter {
    /// Removes the pack, if everything ever put into it was put by this writer, or is the record of
    /// the directory that was packed. Returns whether it did. Records that others put meanwhile
    /// stay, and so do files that do not belong to the pack.
    ///
    /// The lock is held until all is gone. A writer that stopped after a failure does it, too:
    /// nothing is written for it.
    ///
    /// # Errors
    /// Returns [`Forked`](crate::pack::Error::Forked), and errors of opening and listing the pack,
    /// and of removing files.
    pub fn discard(mut self) -> Result<bool> {
        self.check_process()?;
        let is_own = self.manifest.segments.iter().all(|entry| entry.id >= self.own_segments);
        if !is_own && !self.holds_a_root_at_most()? {
            return Ok(false);
        }
        // What is under way is ended before its files go.
        self.active.clear();
        let mut names: Vec<String> = self.storage.list()?.into_iter().map(|entry| entry.name).collect();
        names.retain(|name| PackFile::parse(name).is_some() && name != LOCK);
        // Without manifests it is no pack from the first moment on; the note of the lock goes last.
        names.sort_by_key(|name| !is_manifest(name));
        for name in names.iter().map(String::as_str).chain([LOCK]) {
            self.storage.unlink(name)?;
        }
        self.storage.remove_leftovers()?;
        self.storage.sync_directory()?;
        Ok(true)
    }

    /// Whether nothing was ever put into it but the record of a root.
    fn holds_a_root_at_most(&self) -> Result<bool> {
        let options = OpenOptions { engines: self.options.engines.clone(), ..OpenOptions::default() };
        let pack = Pack::open(self.storage.clone(), options)?;
        let has_versions = pack.segments().iter().any(|entry| entry.tally.records > 1);
        if has_versions || pack.len() > 1 || !pack.damages().is_empty() {
            return Ok(false);
        }
        Ok(pack.is_empty() || pack.contains(&Key::bytes(b"")?)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::pack::{Attributes, FileKind, WriterOptions};
    use crate::storage::{LocalStorage, LocalStorageOptions};

    fn open(path: &Path) -> PackWriter {
        let storage = LocalStorage::open(path, LocalStorageOptions::default()).unwrap();
        PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap()
    }

    fn made(path: &Path) -> PackWriter {
        let storage = LocalStorage::create(path, LocalStorageOptions::default()).unwrap();
        PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap()
    }

    fn put(writer: &mut PackWriter, key: &[u8], kind: FileKind) {
        let attributes = Attributes::of_file(kind, 0o755, 1, None);
        writer.put("", &Key::bytes(key).unwrap(), &attributes, b"").unwrap();
    }

    #[test]
    fn what_its_writer_made_is_gone_and_what_is_not_of_the_pack_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("p");
        let mut writer = made(&path);
        put(&mut writer, b"a", FileKind::File);
        writer.sync().unwrap();
        fs::write(path.join("segment-notes.txt"), "mine").unwrap();
        assert!(writer.discard().unwrap());
        let left: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["segment-notes.txt"]);
    }

    /// Before: it was refused, and where a device was full, the pack that was made for a put
    /// stayed.
    #[test]
    fn a_writer_that_a_failure_stopped_takes_its_pack_away_too() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("p");
        let mut writer = made(&path);
        put(&mut writer, b"a", FileKind::File);
        writer.stopped = true;
        assert!(matches!(writer.sync(), Err(crate::pack::Error::Stopped)));
        assert!(writer.discard().unwrap());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn a_root_alone_goes_and_whatever_somebody_put_stays() {
        let place = tempfile::tempdir().unwrap();
        for (name, keys, goes) in
            [("r", &[&b""[..]][..], true), ("a", &[b"", b"a"], false), ("o", &[b"a"], false)]
        {
            let path = place.path().join(name);
            let mut writer = made(&path);
            keys.iter().for_each(|key| put(&mut writer, key, FileKind::Directory));
            writer.finish(false).unwrap();
            assert_eq!(open(&path).discard().unwrap(), goes, "{name}");
            assert_eq!(crate::tree::is_pack(&path).unwrap(), !goes, "{name}");
        }
    }

    #[test]
    fn what_was_deleted_can_still_be_asked_for_and_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("p");
        let mut writer = made(&path);
        put(&mut writer, b"", FileKind::Directory);
        put(&mut writer, b"a", FileKind::File);
        writer.delete(&Key::bytes(b"a").unwrap()).unwrap();
        writer.finish(false).unwrap();
        assert!(!open(&path).discard().unwrap());
    }
}
