//! How fast a device gives bytes that are discarded: what loading is compared with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::contents::Error;
use crate::engine::{Access, Arena, Buffer, Completion, EngineOptions, File, Operation, Request};
use crate::extent::ByteRange;

/// One read, in bytes.
pub const READ_LEN: u64 = 1 << 20;
/// Reads in flight.
pub const DEPTH: usize = 16;

/// Room that a direct read is widened by.
const WIDENED_LEN: usize = 8192;

/// What was read and discarded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawRead {
    /// The engine that read.
    pub engine: &'static str,
    /// Bytes.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Time from the first request to the last completion.
    pub time: Duration,
}

/// Reads ranges of files past the page cache, in their order, and discards the bytes. A range is
/// read from the [`READ_LEN`] on that it begins in. `progress` is called with the bytes so far; it
/// ends where that returns `false`.
///
/// # Errors
/// Returns an error if reading fails, and [`Error::Interrupted`].
pub fn read_raw(
    ranges: &[(Arc<File>, ByteRange)],
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<RawRead, Error> {
    let mut engine = EngineOptions::with_depth(DEPTH).build().map_err(of_core)?;
    let mut wanted = ranges.iter().flat_map(|(file, range)| {
        let starts = (range.start() / READ_LEN * READ_LEN..range.end()).step_by(READ_LEN as usize);
        starts.map(move |at| (file, at, READ_LEN.min(range.end() - at) as usize))
    });
    // One arena has large pages: where memory is in pieces, a read into ordinary pages goes to the
    // device in many segments, which may cost more than half of the speed.
    let len = READ_LEN as usize + WIDENED_LEN;
    let mut arena = Arena::new(DEPTH * len).map_err(of_core)?;
    let mut idle: Vec<Buffer> = (0..DEPTH).map(|at| arena.take(at * len..(at + 1) * len)).collect();
    let mut completions: Vec<Completion> = Vec::new();
    let (mut bytes, mut requests) = (0, 0);
    let started = Instant::now();
    loop {
        if !progress(bytes) {
            return Err(Error::Interrupted);
        }
        while let Some(buffer) = idle.pop() {
            let Some((file, offset, len)) = wanted.next() else { break };
            let operation = Operation::Read { offset, len, buffer };
            engine.submit(Request { token: requests, file: file.clone(), access: Access::Direct, operation });
            requests += 1;
        }
        if engine.in_flight() == 0 {
            return Ok(RawRead { engine: engine.name(), bytes, requests, time: started.elapsed() });
        }
        engine.reap(1, &mut completions).map_err(of_core)?;
        for completion in completions.drain(..) {
            bytes += completion.result.map_err(of_core)? as u64;
            idle.extend(completion.buffer);
        }
    }
}

fn of_core(error: crate::Error) -> Error {
    Error::Pack(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_and_a_caller_may_end_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut ranges = Vec::new();
        for len in [0, 1, READ_LEN, 3 * READ_LEN + 17] {
            let path = directory.path().join(len.to_string());
            std::fs::write(&path, vec![1; len as usize]).unwrap();
            ranges.push((Arc::new(File::open(&path).unwrap()), ByteRange::to(len)));
        }
        let mut last = 0;
        let read = read_raw(&ranges, &mut |bytes| {
            last = bytes;
            true
        });
        let read = read.unwrap();
        assert_eq!((read.bytes, read.requests, last), (4 * READ_LEN + 18, 6, 4 * READ_LEN + 18));
        // From within the second read on, its end included.
        let (file, _) = ranges.pop().unwrap();
        let part = [(file, ByteRange::new(READ_LEN + 5, 2 * READ_LEN + 3).unwrap())];
        let read = read_raw(&part, &mut |_| true).unwrap();
        assert_eq!((read.bytes, read.requests), (READ_LEN + 3, 2));
        assert!(matches!(read_raw(&part, &mut |bytes| bytes == 0), Err(Error::Interrupted)));
    }
}
