//! A pack under siege: writers that put, delete, batch, compact and are killed at random moments,
//! readers that run throughout, and a supervisor with a log of acknowledged actions.
//!
//! The actions of a writer follow from a seed and a number alone (`Action::of`), and the body of a
//! record from its key and the number of the action that put it (`body`). So the supervisor only
//! needs to know which actions were begun and which were acknowledged; the writer reports that
//! through a pipe that outlives it.
//!
//! Beside it, copies of trees that are killed: [`run_copies`].

mod copies;
mod reader;
mod supervisor;
mod writer;

pub use copies::{Completed, Copies, run_copies};
pub use reader::read;
pub use supervisor::{Siege, Survived, run_soak};
pub use writer::write;

use stook::pack::Key;

use crate::conformance::pattern;

/// Keys that are put and deleted one by one.
const SINGLE_KEYS: u64 = 200;

/// Keys that only batches touch, all together: a state in which their versions differ is half of a
/// batch.
const BATCH_KEYS: std::ops::Range<u64> = 1_000..1_008;

/// A file of this name in the directory asks readers to end.
const STOP: &str = "stop";

/// One thing that a writer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Put {
        key: u64,
        len: usize,
        streamed: bool,
    },
    Delete {
        key: u64,
    },
    /// All of [`BATCH_KEYS`].
    Batch,
    Sync,
    Publish,
    Compact {
        keep_ns: u64,
        extra_len: u64,
    },
}

impl Action {
    /// The action with this number.
    fn of(seed: u64, number: u64) -> Self {
        let mut chance = Chance(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match chance.below(100) {
            0..60 => {
                let len = match chance.below(20) {
                    0 => 100_000 + chance.below(200_000),
                    1..4 => chance.below(20_000),
                    _ => chance.below(1_500),
                };
                Self::Put {
                    key: chance.below(SINGLE_KEYS),
                    len: len as usize,
                    streamed: chance.below(4) == 0,
                }
            }
            60..72 => Self::Delete { key: chance.below(SINGLE_KEYS) },
            72..80 => Self::Batch,
            80..92 => Self::Sync,
            92..96 => Self::Publish,
            _ => Self::Compact {
                keep_ns: chance.below(3) * 50_000_000,
                extra_len: if chance.below(2) == 0 { u64::MAX } else { 400_000 },
            },
        }
    }

    /// The keys whose records it changes.
    fn keys(self) -> impl Iterator<Item = u64> {
        let single = match self {
            Self::Put { key, .. } | Self::Delete { key } => Some(key),
            _ => None,
        };
        let all = if self == Self::Batch { BATCH_KEYS } else { 0..0 };
        single.into_iter().chain(all)
    }
}

/// Which group a key is in.
fn group(key: u64) -> String {
    if BATCH_KEYS.contains(&key) { "batch".into() } else { format!("g{}", key % 3) }
}

/// Keys of both kinds.
fn name(key: u64) -> Key {
    if key.is_multiple_of(2) {
        return Key::id(key);
    }
    Key::bytes(format!("dir{}/file{key}", key % 7)).unwrap_or_else(|_| Key::id(key))
}

/// The key with this name.
fn number(wanted: &Key) -> Option<u64> {
    (0..SINGLE_KEYS).chain(BATCH_KEYS).find(|&key| name(key) == *wanted)
}

/// The body that an action puts under a key: it identifies both.
fn body(key: u64, action: u64, len: usize) -> Vec<u8> {
    let mut body = pattern(len, action.wrapping_mul(31) ^ key);
    body.extend(action.to_le_bytes());
    body.extend(key.to_le_bytes());
    body
}

/// The action that put this body, if it is what that action put.
fn action_of(key: u64, found: &[u8]) -> Option<u64> {
    let action = found.get(found.len().checked_sub(16)?..)?.first_chunk::<8>()?;
    let action = u64::from_le_bytes(*action);
    (body(key, action, found.len() - 16) == found).then_some(action)
}

/// Numbers that follow from a seed (`SplitMix64`, Steele and others 2014).
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}
