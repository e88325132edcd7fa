//! The end of a local file that grows.
//!
//! Bytes gather in a block. A full aligned block is written as the options say; an incomplete block
//! at a flush, and the rest of that block later, go through the page cache, so that no byte is
//! written twice. Full blocks of zeros are not written at all: the file gets its length and a hole.
//!
//! While full blocks follow one another, the file is made longer than its data ahead of them, since
//! a direct write inside a file costs the system far less than one that extends it. Every flush
//! cuts the file to its data again. A crash in between leaves zeros after the data.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::Appender;
use super::block::Block;
use super::queue::{Owner, WriteQueue};
use crate::engine::{Access, File};
use crate::error::{Error, Result};
use crate::source::zeroes;

/// How far ahead of its data a file is made longer, in bytes.
const ROOM_AHEAD: u64 = 64 << 20;

/// Full blocks since the last flush before room is made ahead: who flushes often shall not pay for
/// making room and taking it back each time.
const BLOCKS_BEFORE_ROOM: u32 = 4;

/// Full blocks that begin and end at multiples of this take the way that the options name.
const DIRECT_ALIGNMENT: u64 = 4096;

/// How much is read and written at once when a file is rewritten, in bytes.
const REWRITE_LEN: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct LocalAppender {
    queue: Arc<WriteQueue>,
    owner: Owner,
    file: Arc<File>,
    path: PathBuf,
    block: Option<Block>,
    /// Bytes of the file before the block, those in flight and those in holes included.
    written: u64,
    /// How long the system takes the file to be when all in flight has arrived.
    system_len: u64,
    /// Whether something may be in flight that makes the file longer when it arrives.
    extending: bool,
    full_blocks: u32,
    /// Bytes appended since it was opened: large buffers are for those who need them.
    appended: u64,
    poisoned: bool,
}

impl LocalAppender {
    pub(super) fn new(queue: &Arc<WriteQueue>, path: &Path, fd: OwnedFd, len: u64) -> Self {
        let file = Arc::new(File::from_std(fs::File::from(fd), path, true));
        Self {
            queue: Arc::clone(queue),
            owner: queue.register(),
            file,
            path: path.to_path_buf(),
            block: None,
            written: len,
            system_len: len,
            extending: false,
            full_blocks: 0,
            appended: 0,
            poisoned: false,
        }
    }

    /// Runs a piece of work unless an earlier one failed, and refuses all further ones when it
    /// does.
    fn guarded<T>(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.poisoned {
            let message = "an earlier write or sync of this file failed; open it again and check its end";
            return Err(Error::io(operation, &self.path, io::Error::other(message)));
        }
        work(self).inspect_err(|_| self.poisoned = true)
    }

    fn gather(&mut self, mut part: &[u8]) -> Result<()> {
        while !part.is_empty() {
            let mut block = match self.block.take() {
                Some(block) => block,
                None => {
                    let large = self.appended >= self.queue.options.block_len as u64;
                    Block::new(self.queue.lend(large)?, self.written)
                }
            };
            let taken = block.fill(part);
            self.appended += taken as u64;
            part = part.get(taken..).unwrap_or_default();
            if block.is_full() {
                self.write_full(block)?;
            } else {
                self.block = Some(block);
            }
        }
        Ok(())
    }

    /// Fills the block that was begun; of what follows no byte is gone through but the last, which
    /// need not end where a direct write may begin.
    fn gather_zeros(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let end = (self.written.saturating_add(left)) / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT;
            if self.block.is_none() && end > self.written {
                let skipped = end - self.written;
                self.written = end;
                self.appended = self.appended.saturating_add(skipped);
                left -= skipped;
                continue;
            }
            // No more than fills it: what follows is not gathered.
            let room = self.block.as_ref().map_or(left, |block| block.room() as u64);
            let some = zeroes(left.min(room));
            self.gather(some)?;
            left -= some.len() as u64;
        }
        Ok(())
    }

    fn write_full(&mut self, block: Block) -> Result<()> {
        if block.is_all_zeros() {
            self.written = block.end();
            self.queue.give_back(block.into_buffer());
            return Ok(());
        }
        if !block.is_aligned(DIRECT_ALIGNMENT) {
            return self.write(block, Access::Cached);
        }
        self.full_blocks = self.full_blocks.saturating_add(1);
        if self.full_blocks > BLOCKS_BEFORE_ROOM && block.end() > self.system_len {
            // XFS (Linux 6.18) zeroes from the end that it saw before it waited for direct writes:
            // one that makes the file longer meanwhile would be lost.
            if self.extending {
                self.wait()?;
            }
            self.set_system_len(block.end().saturating_add(ROOM_AHEAD))?;
        }
        self.write(block, self.queue.options.write_access.access())
    }

    fn write(&mut self, block: Block, access: Access) -> Result<()> {
        let (start, end) = (block.start(), block.end());
        self.written = end;
        self.extending |= end > self.system_len;
        self.system_len = self.system_len.max(end);
        self.queue.submit(self.owner, &self.file, access, start, block.into_buffer())
    }

    /// Waits until nothing is in flight.
    fn wait(&mut self) -> Result<()> {
        self.extending = false;
        self.queue.wait(self.owner)
    }

    fn set_system_len(&mut self, len: u64) -> Result<()> {
        self.file.set_len(len)?;
        self.system_len = len;
        Ok(())
    }

    fn flush_all(&mut self) -> Result<()> {
        if let Some(block) = self.block.take() {
            self.write(block, Access::Cached)?;
        }
        self.wait()?;
        self.full_blocks = 0;
        if self.system_len != self.written {
            self.set_system_len(self.written)?;
        }
        Ok(())
    }

    fn cut(&mut self, len: u64) -> Result<()> {
        if let Some(mut block) = self.block.take() {
            if let Some(keep) = len.checked_sub(block.start()).filter(|keep| *keep > 0) {
                // Less than the block holds, so it fits.
                block.truncate(keep as usize);
                self.block = Some(block);
                return Ok(());
            }
            self.queue.give_back(block.into_buffer());
        }
        if len < self.written {
            self.wait()?;
            self.set_system_len(len)?;
            self.written = len;
        }
        Ok(())
    }
}

impl Appender for LocalAppender {
    fn len(&self) -> u64 {
        self.written + self.block.as_ref().map_or(0, |block| block.len() as u64)
    }

    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.guarded("append to", |this| parts.iter().try_for_each(|part| this.gather(part)))
    }

    fn append_zeros(&mut self, len: u64) -> Result<()> {
        self.guarded("append to", |this| this.gather_zeros(len))
    }

    fn flush(&mut self) -> Result<()> {
        self.guarded("flush", Self::flush_all)
    }

    fn sync(&mut self) -> Result<()> {
        self.guarded("sync", |this| {
            this.flush_all()?;
            this.queue.sync(&this.file)
        })
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let have = self.len();
        if len > have {
            let message = format!("it has {have} bytes and cannot be cut to {len}");
            let source = io::Error::new(io::ErrorKind::InvalidInput, message);
            return Err(Error::io("truncate", &self.path, source));
        }
        self.guarded("truncate", |this| this.cut(len))
    }

    fn rewrite(&mut self, from: u64) -> Result<()> {
        self.guarded("rewrite", |this| {
            this.flush_all()?;
            let mut at = from;
            let mut bytes = vec![0; REWRITE_LEN];
            while at < this.written {
                let len = usize::try_from(this.written - at).unwrap_or(REWRITE_LEN).min(REWRITE_LEN);
                let part = bytes.get_mut(..len).unwrap_or_default();
                this.file.read_exact_at(part, at)?;
                // Zeros that were lost read as zeros again, and holes stay holes.
                if part.iter().any(|&byte| byte != 0) {
                    this.file.write_all_at(part, at)?;
                }
                at += len as u64;
            }
            Ok(())
        })
    }
}

impl Drop for LocalAppender {
    /// Unflushed bytes are lost, as after a crash. Space extended ahead is truncated if possible;
    /// otherwise the file ends in zeros, as after a crash.
    fn drop(&mut self) {
        self.queue.unregister(self.owner);
        if self.system_len > self.written {
            drop(self.set_system_len(self.written));
        }
    }
}
