//! What distinguishes one state of a source from another.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::etag::{has_hash, is_weak};
use crate::report::time::time_of;
use crate::report::units;

/// Longer than a tick of any kernel.
const TICK: Duration = Duration::from_millis(20);
/// The same for times that are whole seconds.
const TICK_OF_SECONDS: Duration = Duration::from_secs(2);

/// Size, times and inode of a file; size, ETag or time of an object; or the like for other sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Device number (0 if there is none).
    pub device: u64,
    /// Inode number (0 if there is none).
    pub inode: u64,
    /// Modification time, nanoseconds since 1970 (0 if there is none).
    pub mtime_ns: i64,
    /// Change time of the inode, nanoseconds since 1970 (0 if there is none).
    pub ctime_ns: i64,
    /// The ETag of this state of an object, including quotes and a `W/`.
    pub etag: Option<Arc<str>>,
    /// The version of an object, on servers that keep several.
    pub version: Option<Arc<str>>,
}

impl Identity {
    /// The ETag, if it is one that servers vouch for byte by byte. A weak one (`W/`) may stay the
    /// same when bytes change.
    pub fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !is_weak(etag))
    }

    /// Whether both identify the same bytes. Any difference counts: a changed ctime may mean only a
    /// new link, but also a rewrite within one tick of the mtime. Only if both have a strong ETag
    /// that looks like a hash, it and the length decide alone: servers at one address may disagree
    /// about times. Any other ETag may depend on the length alone, so times count too if both have
    /// them.
    pub fn same_content(&self, other: &Self) -> bool {
        match (self.strong_etag(), other.strong_etag()) {
            (Some(before), Some(after)) => {
                let have_times = self.mtime_ns != 0 && other.mtime_ns != 0;
                let is_time_same = !have_times || self.mtime_ns == other.mtime_ns || has_hash(before);
                self.len == other.len && before == after && is_time_same
            }
            _ => self == other,
        }
    }

    /// How long, from `now_ns` on (nanoseconds since 1970), a change could still leave this
    /// identity as it is: within one tick of the clock that its times come from it would look the
    /// same. Nothing once that has passed.
    ///
    /// Kernels note times a few hundred times a second. Times of whole seconds come from file
    /// systems and servers that keep no more, some of them every other second. That their clocks
    /// agree with this machine's is taken for granted.
    pub fn unsettled_for(&self, now_ns: i64) -> Duration {
        if self.strong_etag().is_some() {
            return Duration::ZERO;
        }
        let clock = if self.ctime_ns == 0 { self.mtime_ns } else { self.ctime_ns };
        let tick = if clock % 1_000_000_000 == 0 { TICK_OF_SECONDS } else { TICK };
        // A modification time in the future was set explicitly; the change time, if there is one,
        // is from the clock.
        let mtime_ns =
            if self.ctime_ns != 0 && self.mtime_ns > now_ns { self.ctime_ns } else { self.mtime_ns };
        let settled = i128::from(mtime_ns.max(self.ctime_ns)) + tick.as_nanos().cast_signed();
        let left = (settled - i128::from(now_ns)).max(0);
        Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Whether there is a strong ETag, or a time that no later change can leave as it is, by the
    /// clock of this machine. A weak ETag means that bytes may differ, whatever the rest.
    pub fn is_settled(&self) -> bool {
        if !self.can_be_proof() {
            return false;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.unsettled_for(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)).is_zero()
    }

    /// Whether there is anything by which another state could be distinguished from this one, and
    /// no weak ETag.
    pub(crate) fn can_be_proof(&self) -> bool {
        match &self.etag {
            Some(_) => self.strong_etag().is_some(),
            None => self.mtime_ns != 0,
        }
    }

    /// Whether there is more than a length to recognise it by.
    fn is_of_an_inode(&self) -> bool {
        self.inode != 0 || self.ctime_ns != 0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&units::bytes_exact(self.len))?;
        if self.is_of_an_inode() {
            return write!(
                f,
                ", inode {}, modified {}, changed {}",
                self.inode,
                time_of(self.mtime_ns),
                time_of(self.ctime_ns)
            );
        }
        if let Some(etag) = &self.etag {
            write!(f, ", ETag {etag}")?;
        } else if self.mtime_ns != 0 {
            write!(f, ", modified {}", time_of(self.mtime_ns))?;
        } else {
            write!(f, ", with neither an ETag nor a time")?;
        }
        match &self.version {
            Some(version) => write!(f, ", version {version}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_decides_where_both_have_one() {
        let with = |len, etag: Option<&str>, mtime_ns| Identity {
            len,
            mtime_ns,
            etag: etag.map(Arc::from),
            ..Identity::default()
        };
        assert!(with(5, Some("\"a\""), 1).same_content(&with(5, Some("\"a\""), 0)));
        // It may be made of the length alone, unless it looks like a hash.
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(5, Some("\"a\""), 2)));
        let hash = format!("\"{}\"", "ab01".repeat(8));
        assert!(with(5, Some(&hash), 1).same_content(&with(5, Some(&hash), 2)));
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(6, Some("\"a\""), 1)));
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(5, Some("W/\"a\""), 1)));
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(5, None, 1)));
        assert!(!with(5, None, 1).same_content(&with(5, None, 2)));
        // Beside a weak one, times count too.
        assert!(with(5, Some("W/\"a\""), 1).same_content(&with(5, Some("W/\"a\""), 1)));
        assert!(!with(5, Some("W/\"a\""), 1).same_content(&with(5, Some("W/\"a\""), 2)));
        assert!(with(5, Some("\"a\""), 0).is_settled() && with(5, None, 1).is_settled());
        assert!(!with(5, Some("W/\"a\""), 1).is_settled() && !with(5, None, 0).is_settled());
        assert!(!with(5, Some("w/\"a\""), 1).is_settled());
    }

    #[test]
    fn a_change_within_a_tick_of_the_clock_is_not_ruled_out() {
        let at = |mtime_ns, ctime_ns| Identity { mtime_ns, ctime_ns, ..Identity::default() };
        let s = 1_000_000_000;
        let left = |identity: Identity, now| identity.unsettled_for(now).as_nanos();
        let fine = at(5 * s, 100 * s + 7);
        assert_eq!(left(fine.clone(), 100 * s + 7), 20_000_000);
        assert_eq!(left(fine.clone(), 100 * s + 7 + 19_999_999), 1);
        assert_eq!(left(fine, 100 * s + 7 + 20_000_000), 0);
        // FAT, old servers, dates of the web.
        assert_eq!(left(at(100 * s, 100 * s), 101 * s), 1_000_000_000);
        assert_eq!(left(at(100 * s, 100 * s), 102 * s), 0);
        assert_eq!(left(at(100 * s, 0), 101 * s), 1_000_000_000);
        // A modification time that was set to a later one proves nothing.
        assert_eq!(left(at(1000 * s, 100 * s + 7), 200 * s), 0);
        assert!(left(at(1000 * s, 0), 200 * s) > 0);
        assert_eq!(left(at(i64::MIN, i64::MIN), i64::MAX), 0);
        assert!(left(at(i64::MAX, i64::MAX), i64::MIN) > 0);
        assert_eq!(left(Identity { etag: Some("e".into()), ..at(0, 0) }, 0), 0);
    }

    #[test]
    fn it_says_what_tells_states_apart() {
        let mut identity = Identity { len: 7, inode: 3, mtime_ns: 1_500_000_000, ..Identity::default() };
        assert_eq!(
            identity.to_string(),
            "7 bytes, inode 3, modified 1970-01-01T00:00:01.5Z, changed 1970-01-01T00:00:00Z"
        );
        identity.inode = 0;
        assert_eq!(identity.to_string(), "7 bytes, modified 1970-01-01T00:00:01.5Z");
        identity.etag = Some("\"e\"".into());
        identity.version = Some("v2".into());
        assert_eq!(identity.to_string(), "7 bytes, ETag \"e\", version v2");
        let bare = Identity { len: 69_570_560, ..Identity::default() };
        assert_eq!(bare.to_string(), "69,570,560 bytes, with neither an ETag nor a time");
    }
}
