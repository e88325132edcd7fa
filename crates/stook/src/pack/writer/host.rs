//! What a writer needs from the machine besides storage: time, randomness, its identity.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// The machine as a writer sees it; tests hand in one whose clock and nonces they choose.
pub trait Host: Send + Sync + fmt::Debug {
    /// Nanoseconds since 1970. It may go backwards; writers guard against that.
    fn now_ns(&self) -> i64;

    /// Fills `bytes` with randomness.
    ///
    /// # Errors
    /// Returns an error if the system has none available.
    fn random(&self, bytes: &mut [u8]) -> Result<()>;

    /// What this program is called, for the lock; the storage adds process, host and time.
    fn describe(&self) -> String;
}

/// How much earlier than the last record the clock may be without a note, in ns: clocks are
/// corrected by seconds.
const CLOCK_SLACK_NS: i64 = 60_000_000_000;

/// The note for a clock that is earlier than the last time of a pack.
pub(crate) fn clock_is_behind(now_ns: i64, last_ns: i64) -> Option<String> {
    let shown = crate::report::time::time_of;
    (now_ns.saturating_add(CLOCK_SLACK_NS) < last_ns).then(|| {
        format!(
            "the clock says {}, and the last record was put at {}: until the clock is past that, all that is put gets that \
             time, and --at cannot tell it apart",
            shown(now_ns),
            shown(last_ns)
        )
    })
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemHost;

impl Host for SystemHost {
    fn now_ns(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
        }
    }

    fn random(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes)
            .map_err(|error| Error::io("get randomness from", "the system", std::io::Error::other(error)))
    }

    fn describe(&self) -> String {
        let program = std::env::args_os().next().map(std::path::PathBuf::from);
        let name = program.as_deref().and_then(|path| path.file_name());
        name.map_or_else(|| "a program".into(), |name| name.to_string_lossy().into_owned())
    }
}
