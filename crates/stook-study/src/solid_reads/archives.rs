//! Archives that are made of real files, and the ways of reading one whole.
//!
//! An archive is pieces of files in order. One that is not emulated is a piece of one file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use stook::extent::ByteRange;
use stook::report::units::{bytes_binary, count};
use stook::stitch::VirtualFile;

use super::stitched::{read_at_once, read_in_turn, stitched};

/// Bytes of an archive, as published.
pub const ARCHIVE_BYTES: u64 = 64 << 20;

/// Reads of a program that takes a file as it comes.
pub(super) const READ_LEN: usize = 1 << 20;

/// How an archive is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
pub enum Shape {
    /// All of it is out of files of this many bytes; of one file if that is the archive.
    Files {
        /// Bytes of each.
        file_bytes: u64,
    },
    /// So many of its members come out of files of their own, spread over it; the rest is the
    /// archive as it was.
    Partly {
        /// Members of the archive.
        members: u64,
        /// Those that come from other files.
        external: u64,
    },
}

impl Shape {
    /// One file.
    pub const WHOLE: Self = Self::Files { file_bytes: ARCHIVE_BYTES };

    /// As published, with the archives that its text speaks of: 10% and 50% from other files, and
    /// its example of 17 files.
    pub const ALL: [Self; 8] = [
        Self::WHOLE,
        Self::Files { file_bytes: 4 << 20 },
        Self::Files { file_bytes: 1 << 20 },
        Self::Files { file_bytes: 512 << 10 },
        Self::Files { file_bytes: 128 << 10 },
        Self::Partly { members: 64, external: 6 },
        Self::Partly { members: 64, external: 32 },
        Self::Partly { members: 32, external: 16 },
    ];

    /// Its name.
    pub fn label(self) -> String {
        match self {
            Self::WHOLE => "1 file".to_owned(),
            Self::Files { file_bytes } => {
                let size = bytes_binary(file_bytes).replace(".00 ", " ").replace(".0 ", " ");
                format!("{} files of {size}", count(ARCHIVE_BYTES / file_bytes))
            }
            Self::Partly { members, external } => {
                format!("{external} of {members} from other files: {} files", external + 1)
            }
        }
    }

    /// Files that are read.
    pub fn files(self) -> u64 {
        match self {
            Self::Files { file_bytes } => ARCHIVE_BYTES / file_bytes,
            Self::Partly { external, .. } => external + 1,
        }
    }

    /// Its pieces in order, each a file by its number in that kind of files, an offset, a length.
    fn pieces(self) -> Vec<(Kind, u64, u64, u64)> {
        match self {
            Self::Files { file_bytes } => {
                (0..self.files()).map(|number| (Kind { file_bytes }, number, 0, file_bytes)).collect()
            }
            Self::Partly { members, external } => {
                let len = ARCHIVE_BYTES / members;
                let piece = |member: u64| {
                    // Spread evenly: a member is external where the count of them goes on.
                    let before = member * external / members;
                    match (member + 1) * external / members > before {
                        true => (Kind { file_bytes: len }, before, 0, len),
                        false => (Kind { file_bytes: ARCHIVE_BYTES }, 0, member * len, len),
                    }
                };
                (0..members).map(piece).collect()
            }
        }
    }

    /// Lengths of files that it needs, and how many of each.
    pub(super) fn kinds(self) -> Vec<(u64, u64)> {
        let mut kinds: Vec<(u64, u64)> = Vec::new();
        for (kind, number, _, _) in self.pieces() {
            match kinds.iter_mut().find(|(file_bytes, _)| *file_bytes == kind.file_bytes) {
                Some((_, files)) => *files = (*files).max(number + 1),
                None => kinds.push((kind.file_bytes, number + 1)),
            }
        }
        kinds
    }
}

/// Files of one length, which are made once for all shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    file_bytes: u64,
}

/// Where the files of the archives are.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) directory: PathBuf,
}

impl Files {
    /// A file of an archive.
    pub(super) fn path(&self, file_bytes: u64, archive: u64, number: u64) -> PathBuf {
        self.directory.join(format!("{file_bytes}-{archive}-{number:03}"))
    }
}

/// A way of reading an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One file after the other, as a program that reads it from front to back has it; opening
    /// counts.
    InTurn,
    /// The same, and all files were opened before.
    InTurnOpened,
    /// The same through a virtual file, one read after the other; opening counts.
    StitchedInTurn,
    /// Through a virtual file with many reads at once, past the page cache; opening counts.
    AtOnce,
    /// The same, and all files were opened before.
    AtOnceOpened,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::InTurn, Self::InTurnOpened, Self::StitchedInTurn, Self::AtOnce, Self::AtOnceOpened];

    /// Its name.
    pub fn label(self) -> &'static str {
        match self {
            Self::InTurn => "one after the other",
            Self::InTurnOpened => "the same, opened before",
            Self::StitchedInTurn => "stitched, one read after the other",
            Self::AtOnce => "stitched, 16 reads at once",
            Self::AtOnceOpened => "the same at once, opened before",
        }
    }
}

/// An archive whose files are there.
pub(super) struct Archive {
    /// Each file once.
    paths: Vec<PathBuf>,
    /// Which of them, from where, how long.
    pieces: Vec<(usize, ByteRange)>,
}

impl Archive {
    pub(super) fn new(shape: Shape, files: &Files, archive: u64) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut pieces = Vec::new();
        for (kind, number, from, len) in shape.pieces() {
            let path = files.path(kind.file_bytes, archive, number);
            let index = paths.iter().position(|other| *other == path).unwrap_or_else(|| {
                paths.push(path);
                paths.len() - 1
            });
            pieces.extend(ByteRange::at(from, len).map(|range| (index, range)));
        }
        Self { paths, pieces }
    }

    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The same bytes as one virtual file of the library.
    pub(super) fn stitched(&self, is_opened: bool) -> anyhow::Result<VirtualFile> {
        stitched(&self.paths, &self.pieces, is_opened)
    }

    /// Reads all of it; seconds.
    pub(super) fn read(&self, order: Order) -> anyhow::Result<f64> {
        let (seconds, bytes) = match order {
            Order::InTurn => self.read_in_turn(false)?,
            Order::InTurnOpened => self.read_in_turn(true)?,
            Order::StitchedInTurn => self.read_stitched(false, read_in_turn)?,
            Order::AtOnce => self.read_stitched(false, read_at_once)?,
            Order::AtOnceOpened => self.read_stitched(true, read_at_once)?,
        };
        ensure!(bytes == ARCHIVE_BYTES, "{bytes} bytes of an archive were read");
        Ok(seconds)
    }

    /// Laying it out asks nothing of its files; without `is_opened` it counts.
    fn read_stitched(
        &self,
        is_opened: bool,
        read: fn(&VirtualFile) -> anyhow::Result<u64>,
    ) -> anyhow::Result<(f64, u64)> {
        let opened = if is_opened { Some(self.stitched(true)?) } else { None };
        let began = Instant::now();
        let file = opened.map_or_else(|| self.stitched(false), Ok)?;
        let bytes = read(&file)?;
        Ok((began.elapsed().as_secs_f64(), bytes))
    }

    fn read_in_turn(&self, opened: bool) -> anyhow::Result<(f64, u64)> {
        let mut open: Vec<Option<File>> = self.paths.iter().map(|_| None).collect();
        if opened {
            for (slot, path) in open.iter_mut().zip(&self.paths) {
                *slot = Some(open_file(path)?);
            }
        }
        let mut buffer = vec![0; READ_LEN];
        let began = Instant::now();
        let mut bytes = 0;
        for (index, range) in &self.pieces {
            let (Some(slot), Some(path)) = (open.get_mut(*index), self.paths.get(*index)) else { continue };
            let file = match slot {
                Some(file) => file,
                None => slot.insert(open_file(path)?),
            };
            bytes += read_range(file, *range, &mut buffer)
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok((began.elapsed().as_secs_f64(), bytes))
    }

    /// All its bytes.
    pub(super) fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut all = Vec::with_capacity(ARCHIVE_BYTES as usize);
        for (index, range) in &self.pieces {
            let path = self.paths.get(*index).context("a piece has a file")?;
            let mut file = open_file(path)?;
            file.seek(SeekFrom::Start(range.start()))?;
            file.take(range.len()).read_to_end(&mut all)?;
        }
        Ok(all)
    }
}

fn open_file(path: &std::path::Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

fn read_range(file: &mut File, range: ByteRange, buffer: &mut [u8]) -> std::io::Result<u64> {
    file.seek(SeekFrom::Start(range.start()))?;
    let mut left = range.len();
    while left > 0 {
        let wanted = left.min(buffer.len() as u64) as usize;
        file.read_exact(buffer.get_mut(..wanted).unwrap_or_default())?;
        left -= wanted as u64;
    }
    Ok(range.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_whole_archive_of_the_files_that_it_names() {
        let files = Files { directory: "x".into() };
        for shape in Shape::ALL {
            let archive = Archive::new(shape, &files, 0);
            assert_eq!(archive.paths().len() as u64, shape.files(), "{}", shape.label());
            let bytes: u64 = archive.pieces.iter().map(|(_, range)| range.len()).sum();
            assert_eq!(bytes, ARCHIVE_BYTES, "{}", shape.label());
        }
        assert_eq!(Shape::ALL[7].label(), "16 of 32 from other files: 17 files");
        assert_eq!(Shape::ALL[4].label(), "512 files of 128 KiB");
        assert_eq!(Shape::ALL[5].kinds(), [(ARCHIVE_BYTES, 1), (1 << 20, 6)]);
        assert_eq!(Shape::ALL[6].kinds(), [(ARCHIVE_BYTES, 1), (1 << 20, 32)]);
    }

    #[test]
    fn an_archive_of_two_kinds_of_files_is_read_whole_in_every_order() {
        let place = tempfile::tempdir().unwrap();
        let files = Files { directory: place.path().to_owned() };
        let shape = Shape::Partly { members: 4, external: 1 };
        for (file_bytes, count) in shape.kinds() {
            for number in 0..count {
                let byte = if file_bytes == ARCHIVE_BYTES { 1 } else { 2 };
                std::fs::write(files.path(file_bytes, 0, number), vec![byte; file_bytes as usize]).unwrap();
            }
        }
        let archive = Archive::new(shape, &files, 0);
        let bytes = archive.bytes().unwrap();
        let quarter = bytes.len() / 4;
        assert!(bytes[..3 * quarter].iter().all(|byte| *byte == 1));
        assert!(bytes[3 * quarter..].iter().all(|byte| *byte == 2));
        for order in Order::ALL {
            assert!(archive.read(order).unwrap() > 0.0);
        }
        for is_opened in [false, true] {
            let whole = ByteRange::to(ARCHIVE_BYTES);
            assert!(archive.stitched(is_opened).unwrap().read_at(whole).unwrap() == bytes);
        }
        std::fs::write(files.path(16 << 20, 0, 0), "short").unwrap();
        for order in Order::ALL {
            assert!(archive.read(order).is_err(), "{order:?}");
        }
    }
}
