//! The bytes of a file on their way into it: written, compared with what is there, or both.

use std::io;

use super::existing::Comparison;
use super::outbox::{LongFile, OutFile};

/// What was to be done, and the I/O error.
pub(crate) type Failed = (&'static str, io::Error);

/// A file that is filled from its beginning, in pieces of any length.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    file: Option<&'a OutFile>,
    /// The same file, if it is a long one.
    long: Option<LongFile<'a>>,
    comparison: Option<&'a mut Comparison>,
    /// Bytes so far, holes included.
    len: u64,
    /// How far the file was written; what lies between is a hole.
    written: u64,
}

impl<'a> Filling<'a> {
    /// Into a new file, compared with another, or both.
    pub(crate) fn new(file: Option<&'a OutFile>, comparison: Option<&'a mut Comparison>) -> Self {
        Self { file, long: None, comparison, len: 0, written: 0 }
    }

    /// The same for a file that is a long one.
    pub(crate) fn with_long(self, long: Option<LongFile<'a>>) -> Self {
        Self { long, ..self }
    }

    /// Bytes so far.
    pub(crate) fn taken(&self) -> u64 {
        self.len
    }

    /// The next bytes, which are written whatever they are: zeros that were written are no hole.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        if let Some(comparison) = &mut self.comparison {
            comparison.take(bytes).map_err(|error| ("read", error))?;
        }
        if self.file.is_none() {
            self.len = self.len.saturating_add(bytes.len() as u64);
            return Ok(());
        }
        self.write(bytes).map_err(|error| ("write", error))
    }

    /// This many zeroes that are a hole of what they come from.
    pub(crate) fn take_hole(&mut self, len: u64) -> Result<(), Failed> {
        if let Some(comparison) = &mut self.comparison {
            comparison.take_zeroes(len).map_err(|error| ("read", error))?;
        }
        self.len = self.len.saturating_add(len);
        Ok(())
    }

    /// No more bytes: how many there were.
    pub(crate) fn finish(mut self) -> Result<u64, Failed> {
        if let Some(long) = self.long.take() {
            self.written = long.finish().map_err(|error| ("write", error))?;
        }
        // A hole at the end is not written, so the length has to be set.
        if let Some(file) = self.file.filter(|_| self.written != self.len) {
            file.set_len(self.len).map_err(|error| ("write", error))?;
        }
        Ok(self.len)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // After a hole, no bytes at all must not be taken for what ends the file.
        let Some(file) = self.file.filter(|_| !bytes.is_empty()) else { return Ok(()) };
        match &mut self.long {
            Some(long) => long.write_at(bytes, self.len)?,
            None => file.write_at(bytes, self.len)?,
        }
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.written = self.len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::tree::outbox::{NewFile, Outbox, Replaces, System};
    use crate::tree::target;

    /// Fills a file: bytes, and how many zeros of a hole follow them. What it takes of the medium.
    fn filled(parts: &[(&[u8], u64)]) -> u64 {
        let directory = tempfile::tempdir().unwrap();
        let parent = Arc::new(target::open(directory.path()).unwrap());
        let new = NewFile { mode: None, is_private: false, replaces: Replaces::All };
        let file = Outbox::new(Arc::new(System)).unwrap().file(&parent, new).unwrap();
        let mut filling = Filling::new(Some(&file), None);
        let mut all = Vec::new();
        for (bytes, hole) in parts {
            filling.take(bytes).unwrap();
            filling.take_hole(*hole).unwrap();
            all.extend_from_slice(bytes);
            all.resize(all.len() + *hole as usize, 0);
        }
        filling.take(&[]).unwrap();
        assert_eq!((filling.taken(), filling.finish().unwrap()), (all.len() as u64, all.len() as u64));
        let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
        assert!(std::fs::read(path).unwrap() == all);
        file.sync().unwrap();
        file.as_file().metadata().unwrap().blocks() * 512
    }

    #[test]
    fn holes_are_where_they_were_and_nowhere_else() {
        const LEN: u64 = 8 << 20;
        let zeros = vec![0; LEN as usize];
        assert!(filled(&[(b"x", LEN), (b"y", LEN)]) < 1 << 20);
        assert!(filled(&[(&zeros, 0)]) >= LEN, "zeros that were written are no hole");
        assert!(filled(&[(&zeros, LEN), (b"x\n", 0)]) >= LEN);
        filled(&[(b"", 7), (b"a", 0), (b"b", 3), (b"", 2)]);
        filled(&[]);
    }
}
