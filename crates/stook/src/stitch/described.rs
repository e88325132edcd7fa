//! A virtual file as a layout, which describes it: bytes of files on disk stay where they are.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::{Error, Result};
use super::file::VirtualFile;
use super::pieces::Piece;
use crate::engine;
use crate::error;
use crate::extent::ByteRange;
use crate::format::layout::{Encoder, LayoutPiece, PathPiece};
use crate::source::{Leaf, Source as _};

/// Bytes of a layout that are handed on at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes that are not on disk as they are, at most: they stand in the layout itself.
const HELD_BYTES_MAX: u64 = 128 << 20;
/// This many zeroes take more room as bytes than as a piece of their own.
const ZEROES_MIN: usize = 64;

impl VirtualFile {
    /// Describes it as the file with a name in a layout that will lie in `directory`: see
    /// [`OpenedLayout`](super::OpenedLayout). A layout is of one encoder, and may have several
    /// files, one after another. What has to be computed of it is, and stands in the layout. `take`
    /// gets the text, in order, with the bytes of the file that it stands for, and says whether to
    /// go on.
    ///
    /// # Errors
    /// [`Error::Member`] for what is no part of a file below that directory, or has a name that is
    /// not UTF-8; what cannot be opened or has changed; the errors of `take`;
    /// [`Error::Interrupted`].
    pub fn describe(
        &self,
        directory: &Path,
        name: &[u8],
        encoder: &mut Encoder,
        take: &mut dyn FnMut(&[u8], u64) -> error::Result<bool>,
    ) -> Result<()> {
        let directory = directory.canonicalize();
        let directory = directory.map_err(|error| error::Error::io("open", self.path(), error))?;
        let mut describing = Describing { directory, parents: HashMap::new(), held_bytes: 0 };
        let refused = |why: String| Error::Member { key: name.to_vec(), why };
        encoder.file(name).map_err(|error| refused(error.to_string()))?;
        let (mut leaves, mut described) = (Vec::new(), 0_u64);
        for (piece, len) in self.pieces_in_order() {
            match piece {
                Piece::Held { block, offset } => leaves.push(Leaf::Bytes(self.held(block, offset, len))),
                Piece::Fill(byte) => leaves.push(Leaf::Fill { byte, len }),
                Piece::Made { number, .. } => {
                    leaves.push(Leaf::Bytes(self.bodies().parts().make(number, self.bodies())?));
                }
                Piece::Body { number, offset } => {
                    let source = self.bodies().get(number)?;
                    let range = ByteRange::at(offset, len).ok_or(Error::TooLong { pieces: 1 })?;
                    source.resolve(range, &mut leaves)?;
                    source.check_unchanged()?;
                }
            }
            for leaf in leaves.drain(..) {
                match leaf {
                    Leaf::Bytes(bytes) => describing.bytes(&bytes, encoder)?,
                    leaf => encoder.piece(&describing.piece(leaf)?),
                }
            }
            described = described.saturating_add(len);
            if encoder.len() >= BLOCK_BYTES && !take(encoder.take().as_bytes(), described)? {
                return Err(Error::Interrupted);
            }
        }
        encoder.end_file();
        match take(encoder.take().as_bytes(), described)? {
            true => Ok(()),
            false => Err(Error::Interrupted),
        }
    }
}

struct Describing {
    /// Without links.
    directory: PathBuf,
    /// Directories of files as they were opened: without links, and relative to that.
    parents: HashMap<PathBuf, PathBuf>,
    held_bytes: u64,
}

impl Describing {
    fn piece(&mut self, leaf: Leaf) -> Result<LayoutPiece> {
        match leaf {
            Leaf::File { file, range } => self.path(&file, range),
            Leaf::Fill { byte, len } => Ok(LayoutPiece::Fill { byte, length: len }),
            Leaf::Bytes(bytes) => Ok(LayoutPiece::Bytes(bytes)),
            Leaf::Object { object, .. } => {
                Err(refused(object.path(), "a layout only names files on disk: copy it to one first"))
            }
            Leaf::Checked { check, .. } => {
                let why = "its bytes are verified when they are read, which a layout has no way to do: \
                           unpack it first";
                Err(refused(check.path(), why))
            }
        }
    }

    /// Bytes as they stand in the layout itself; many zeroes, as headers have them, are shorter as
    /// a fill.
    fn bytes(&mut self, bytes: &Bytes, encoder: &mut Encoder) -> Result<()> {
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            let zeroes = bytes.iter().skip(at).take_while(|byte| **byte == 0).count();
            let end = at.saturating_add(zeroes);
            if zeroes >= ZEROES_MIN {
                self.hold(bytes.slice(start..at), encoder)?;
                encoder.piece(&LayoutPiece::Fill { byte: 0, length: zeroes as u64 });
                start = end;
            }
            at = end.max(at.saturating_add(1));
        }
        self.hold(bytes.slice(start..), encoder)
    }

    fn hold(&mut self, bytes: Bytes, encoder: &mut Encoder) -> Result<()> {
        self.held_bytes = self.held_bytes.saturating_add(bytes.len() as u64);
        if self.held_bytes > HELD_BYTES_MAX {
            return Err(Error::TooMuchHeld { most: HELD_BYTES_MAX });
        }
        if !bytes.is_empty() {
            encoder.piece(&LayoutPiece::Bytes(bytes));
        }
        Ok(())
    }

    fn path(&mut self, file: &engine::File, range: ByteRange) -> Result<LayoutPiece> {
        let (path, identity) = (file.path(), file.identity()?);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let relative = match self.parents.get(parent) {
            Some(relative) => relative,
            None => {
                let real = parent.canonicalize().map_err(|error| error::Error::io("open", parent, error))?;
                let relative = real.strip_prefix(&self.directory).map_err(|_| {
                    let why = format!(
                        "a layout names what is beside or below it: write it into a directory above {} and {}",
                        real.display(),
                        self.directory.display()
                    );
                    refused(path, &why)
                })?;
                self.parents.entry(parent.to_path_buf()).or_insert_with(|| relative.to_path_buf())
            }
        };
        let path = relative.join(path.file_name().unwrap_or_default()).into_os_string();
        let path = path.into_string().map_err(|path| Error::Member {
            key: path.as_bytes().to_vec(),
            why: "its path is not UTF-8, and a layout has no others".to_owned(),
        })?;
        let (offset, length) = (range.start(), Some(range.len()));
        let (size, mtime_ns) = (Some(identity.len), Some(identity.mtime_ns));
        Ok(LayoutPiece::Path(PathPiece { path, offset, length, size, mtime_ns }))
    }
}

fn refused(path: &Path, why: &str) -> Error {
    Error::Member { key: path.as_os_str().as_bytes().to_vec(), why: why.to_owned() }
}
