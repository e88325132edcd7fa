//! Sources on web servers and in object stores.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod archives;
mod cached;
mod callers;
mod changes;
mod copies;
mod faults;
mod reading;
mod s3;
mod stores;

use std::time::Duration;

use bytes::Bytes;
use stook::engine::{Access, Backend};
use stook::error::RemoteErrorKind;
use stook::extent::ByteRange;
use stook::source::read_range;
use stook::source::remote::{RemoteOptions, RemoteSource};
use stook::{Error, Result};

/// Waits that no test has to wait for.
fn quick() -> RemoteOptions {
    RemoteOptions {
        tries: 4,
        deadline: Duration::from_secs(30),
        stall: Duration::from_secs(10),
        backoff_first: Duration::from_millis(1),
        backoff_max: Duration::from_millis(5),
        ..RemoteOptions::default()
    }
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

fn read(source: &RemoteSource, range: ByteRange) -> Result<Bytes> {
    read_range(&Backend::Auto, source, range, Access::Cached)
}

/// The kind of an error, the number of tries, and its message.
fn reported(error: &Error) -> (RemoteErrorKind, u32, String) {
    match error {
        Error::Remote(remote) => (remote.kind, remote.tries, error.to_string()),
        other => panic!("not of an object: {other:?}"),
    }
}
