//! The ways of reading that are compared: each reads all records once and passes them to a
//! callback.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::Advice;
use stook::pack::{Loaded, OpenOptions, Pack, ScanOptions};
use stook::walk::read_tree;

use super::{numbered, plain};
use crate::digest::{Digest, Fingerprint};
use crate::meter::Taken;

/// The read buffer of the published study.
pub const PUBLISHED_BUFFER_LEN: usize = 64 << 10;
/// A read buffer as a program would have it today.
pub const LARGE_BUFFER_LEN: usize = 1 << 20;

/// The same records, kept in three ways.
#[derive(Debug, Clone)]
pub struct Data {
    /// A tree of files.
    pub tree: PathBuf,
    /// One plain file.
    pub plain: PathBuf,
    /// A pack.
    pub pack: PathBuf,
    /// How many there are, where they are those of the published study, by their numbers.
    pub numbered: Option<u64>,
}

/// A way of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum Reader {
    /// The loose files, with this many threads.
    Files {
        /// Threads; 1 is a program that does nothing clever.
        threads: usize,
    },
    /// The loose files, opened one after the other by their numbers, as published.
    Numbered,
    /// The plain file, from begin to end.
    Plain {
        /// Bytes of one read.
        buffer_bytes: usize,
    },
    /// The pack, record by record, all checksums verified, nothing kept.
    PackStream,
    /// The pack, kept in memory, all checksums verified.
    PackMemory,
}

/// The amount that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Records.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Reader {
    /// Where it reads.
    pub fn path<'a>(&self, data: &'a Data) -> &'a Path {
        match self {
            Self::Files { .. } | Self::Numbered => &data.tree,
            Self::Plain { .. } => &data.plain,
            Self::PackStream | Self::PackMemory => &data.pack,
        }
    }

    /// What this reader is called in tables.
    pub fn label(&self) -> String {
        match self {
            Self::Files { threads: 1 } => "Files, one reader".to_owned(),
            Self::Files { threads } => format!("Files, {threads} readers"),
            Self::Numbered => "Files, by their numbers".to_owned(),
            Self::Plain { buffer_bytes } if *buffer_bytes >= 1 << 20 => {
                format!("Plain file, {} MiB reads", buffer_bytes >> 20)
            }
            Self::Plain { buffer_bytes } => format!("Plain file, {} KiB reads", buffer_bytes >> 10),
            Self::PackStream => "Pack, streaming".to_owned(),
            Self::PackMemory => "Pack, kept in memory".to_owned(),
        }
    }

    /// Reads everything and measures the cost. The clock stops when the last record has arrived;
    /// freeing memory is not counted.
    ///
    /// # Errors
    /// Returns an error if reading fails; damage is an error, too.
    pub fn timed(&self, data: &Data) -> anyhow::Result<(Taken, Amount)> {
        let mut kept = None;
        let (taken, amount) = Taken::by(|| {
            if *self == Self::PackMemory {
                let loaded = load(&data.pack)?;
                let amount = Amount { records: loaded.len() as u64, bytes: loaded.body_bytes() };
                kept = Some(loaded);
                return Ok(amount);
            }
            self.read(data, |_, _, bytes| _ = black_box(bytes))
        })?;
        drop(kept);
        Ok((taken, amount))
    }

    /// Reads everything, and returns the fingerprint of all keys and bytes.
    ///
    /// # Errors
    /// Returns the errors of [`timed`](Self::timed).
    pub fn fingerprint(&self, data: &Data) -> anyhow::Result<Fingerprint> {
        let digest = Digest::default();
        self.read(data, |key, offset, bytes| digest.piece(key, offset, bytes))?;
        Ok(digest.finish())
    }

    fn read(&self, data: &Data, take: impl Fn(&[u8], u64, &[u8]) + Sync) -> anyhow::Result<Amount> {
        match *self {
            Self::Files { threads } => {
                let summary =
                    read_tree([&data.tree], threads, |piece| take(piece.key, piece.offset, piece.data))?;
                Ok(Amount { records: summary.files, bytes: summary.bytes_read })
            }
            Self::Numbered => {
                let files = data.numbered.context("the files have no numbers")?;
                let (records, bytes) = numbered::read_files(&data.tree, files, Advice::Normal, take)?;
                Ok(Amount { records, bytes })
            }
            Self::Plain { buffer_bytes } => {
                let (records, bytes) = read_plain(data, buffer_bytes, take)?;
                Ok(Amount { records, bytes })
            }
            Self::PackStream => stream(&data.pack, take),
            Self::PackMemory => {
                let loaded = load(&data.pack)?;
                for record in loaded.iter() {
                    let key = record.key().context("a record without a key")?;
                    take(key.as_bytes().context("a key that is no path")?, 0, &record.body);
                }
                Ok(Amount { records: loaded.len() as u64, bytes: loaded.body_bytes() })
            }
        }
    }
}

/// Reads the plain file of the data.
///
/// # Errors
/// Returns an error if reading fails, or it ends within a record.
pub(super) fn read_plain(
    data: &Data,
    buffer_len: usize,
    take: impl FnMut(&[u8], u64, &[u8]),
) -> anyhow::Result<(u64, u64)> {
    match data.numbered {
        Some(files) => numbered::read(&data.plain, files, buffer_len, Advice::Normal, take),
        None => plain::read(&data.plain, buffer_len, take),
    }
}

fn open(path: &Path) -> anyhow::Result<Pack> {
    Ok(Pack::open_path(path, OpenOptions::default())?)
}

fn load(path: &Path) -> anyhow::Result<Loaded> {
    Ok(open(path)?.load(&ScanOptions::default())?)
}

fn stream(path: &Path, take: impl Fn(&[u8], u64, &[u8])) -> anyhow::Result<Amount> {
    let pack = open(path)?;
    let mut scan = pack.scan(ScanOptions::default());
    let mut amount = Amount { records: 0, bytes: 0 };
    while let Some(record) = scan.next()? {
        let key = record.key().context("a record without a key")?;
        let Some(path) = key.as_bytes() else { bail!("a key that is no path: {key}") };
        amount.records += 1;
        if let Some(body) = record.body() {
            amount.bytes += body.len() as u64;
            take(path, 0, body);
            continue;
        }
        let mut offset = 0;
        while let Some(chunk) = scan.next_chunk()? {
            take(path, offset, chunk);
            offset += chunk.len() as u64;
        }
        amount.bytes += offset;
    }
    Ok(amount)
}
