//! The bytes of a file on their way into it: written, compared with what is there, or both.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};

use super::existing::Comparison;

/// Stretches of nothing but zeroes, if they are this long and begin at a multiple of it, are left
/// as holes, with what follows of zeroes.
const HOLE_LEN: usize = 64 << 10;

/// What was to be done, and the I/O error.
pub(crate) type Failed = (&'static str, io::Error);

/// A file that is filled from its beginning, in pieces of any length.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    file: Option<&'a mut File>,
    comparison: Option<&'a mut Comparison>,
    /// Bytes so far, holes included.
    len: u64,
    /// How far the file was written; what lies between is a hole.
    written: u64,
}

impl<'a> Filling<'a> {
    /// Into a new file, compared with another, or both.
    pub(crate) fn new(file: Option<&'a mut File>, comparison: Option<&'a mut Comparison>) -> Self {
        Self { file, comparison, len: 0, written: 0 }
    }

    /// Bytes so far.
    pub(crate) fn taken(&self) -> u64 {
        self.len
    }

    /// The next bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        if let Some(comparison) = &mut self.comparison {
            comparison.take(bytes).map_err(|error| ("read", error))?;
        }
        if self.file.is_none() {
            self.len = self.len.saturating_add(bytes.len() as u64);
            return Ok(());
        }
        // What is left, and how much of it is to be written.
        let (mut left, mut known) = (bytes, 0);
        loop {
            let behind = left.get(known..).unwrap_or_default();
            let at = self.len.saturating_add(known as u64);
            let to_boundary = HOLE_LEN - (at % HOLE_LEN as u64) as usize;
            let piece = behind.get(..to_boundary).unwrap_or(behind);
            if piece.is_empty() {
                return self.write(left).map_err(|error| ("write", error));
            }
            let goes_on = known == 0 && self.written != self.len;
            if (piece.len() < HOLE_LEN && !goes_on) || piece.iter().any(|byte| *byte != 0) {
                known += piece.len();
                continue;
            }
            self.write(left.get(..known).unwrap_or_default()).map_err(|error| ("write", error))?;
            self.len = self.len.saturating_add(piece.len() as u64);
            left = behind.get(piece.len()..).unwrap_or_default();
            known = 0;
        }
    }

    /// So many zeroes that are a hole of what they come from.
    pub(crate) fn take_hole(&mut self, len: u64) -> Result<(), Failed> {
        if let Some(comparison) = &mut self.comparison {
            comparison.take_zeroes(len).map_err(|error| ("read", error))?;
        }
        self.len = self.len.saturating_add(len);
        Ok(())
    }

    /// No more bytes: how many there were.
    pub(crate) fn finish(self) -> Result<u64, Failed> {
        // A hole at the end is not written, so the length has to be set.
        if let Some(file) = self.file.filter(|_| self.written != self.len) {
            file.set_len(self.len).map_err(|error| ("write", error))?;
        }
        Ok(self.len)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Behind a hole, no bytes at all must not be taken for what ends the file.
        let Some(file) = self.file.as_mut().filter(|_| !bytes.is_empty()) else { return Ok(()) };
        if self.written != self.len {
            file.seek(SeekFrom::Start(self.len))?;
        }
        file.write_all(bytes)?;
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.written = self.len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// Fills a file in pieces of one length; the bytes that it then takes of the medium.
    fn filled(bytes: &[u8], piece_len: usize) -> u64 {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut filling = Filling::new(Some(file.as_file_mut()), None);
        bytes.chunks(piece_len).for_each(|piece| filling.take(piece).unwrap());
        filling.take(&[]).unwrap();
        assert_eq!((filling.taken(), filling.finish().unwrap()), (bytes.len() as u64, bytes.len() as u64));
        assert!(std::fs::read(file.path()).unwrap() == bytes, "in pieces of {piece_len}");
        file.as_file().metadata().unwrap().blocks() * 512
    }

    /// Before: one piece of bytes was a hole as a whole, or not at all.
    #[test]
    fn long_zeroes_are_holes_whatever_the_pieces() {
        let mut bytes = vec![0; 8 << 20];
        bytes.extend_from_slice(b"x\n");
        bytes.extend_from_slice(&[0; 200_000]);
        for piece_len in [1 << 20, 200_001, bytes.len()] {
            let taken = filled(&bytes, piece_len);
            assert!(taken < 1 << 20, "{taken} bytes in pieces of {piece_len}");
        }
    }

    #[test]
    fn whatever_lies_around_zeroes_stays_where_it_is() {
        let data = [7_u8; HOLE_LEN + 3];
        for (before, zeroes, behind) in
            [(0, HOLE_LEN, 1), (5, 3 * HOLE_LEN, 0), (HOLE_LEN, HOLE_LEN, HOLE_LEN), (1, 1, 1), (0, 1, 0)]
        {
            let bytes = [&data[..before], &vec![0; zeroes][..], &data[..behind]].concat();
            for piece_len in [1000, HOLE_LEN, bytes.len()] {
                filled(&bytes, piece_len);
            }
        }
    }
}
