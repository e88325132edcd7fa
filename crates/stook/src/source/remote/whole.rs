//! An object that was read as a whole: in memory, or in a file without a name.

use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::request::Sink;
use crate::engine::{File, nameless};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::Leaf;

/// Takes the bytes of an object.
#[derive(Debug)]
pub(super) struct Whole {
    memory_max: u64,
    memory: BytesMut,
    file: Option<(fs::File, PathBuf)>,
    len: u64,
}

impl Whole {
    pub(super) fn new(memory_max: u64) -> Self {
        Self { memory_max, memory: BytesMut::new(), file: None, len: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the readable content.
    pub(super) fn finish(self, path: &Path) -> Held {
        match self.file {
            None => Held::Memory(self.memory.freeze()),
            Some((file, _)) => Held::File(Arc::new(File::from_std(file, path, false))),
        }
    }
}

impl Sink for Whole {
    fn restart(&mut self) -> Result<()> {
        self.memory.clear();
        self.len = 0;
        if let Some((file, path)) = &mut self.file {
            file.set_len(0).and_then(|()| file.rewind()).map_err(|error| Error::io("write", path, error))?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        if self.file.is_none() && self.len > self.memory_max {
            let (mut file, path) = nameless(&std::env::temp_dir())?;
            let held = std::mem::take(&mut self.memory);
            file.write_all(&held).map_err(|error| Error::io("write", &path, error))?;
            self.file = Some((file, path));
        }
        match &mut self.file {
            Some((file, path)) => file.write_all(bytes).map_err(|error| Error::io("write", path, error)),
            None => {
                self.memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// The bytes of an object that was read as a whole.
#[derive(Debug, Clone)]
pub(super) enum Held {
    Memory(Bytes),
    File(Arc<File>),
}

impl Held {
    /// A range that lies within it.
    pub(super) fn leaf(&self, range: ByteRange) -> Leaf {
        match self {
            // The bounds are those of a slice in memory, so they fit.
            Self::Memory(bytes) => Leaf::Bytes(bytes.slice(range.start() as usize..range.end() as usize)),
            Self::File(file) => Leaf::File { file: Arc::clone(file), range },
        }
    }
}
