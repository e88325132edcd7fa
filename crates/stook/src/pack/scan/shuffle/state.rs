//! [`ShuffleState`]: what of an epoch was handed out.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::super::token::{self, Origin};
use super::{Shuffle, ShuffleOptions};
use crate::pack::error::{Error, Result};
use crate::pack::state::open::Pack;

/// What it is called in messages.
pub(super) const KIND: &str = "state of a shuffle";
/// The same where it is text.
const TOKEN: &str = "shuffle";

/// What of an epoch was handed out: the number of records of each lane, as far as the reader has
/// it. States of all readers of an epoch are [merged](Self::merged) into one that any other number
/// of readers resumes. Its text (`to_string`, `parse`) has a version and a checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShuffleState {
    body: StateBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StateBody {
    #[serde(flatten)]
    origin: Origin,
    /// How many records the selection has, and a checksum of where they are.
    records: u64,
    sum: u32,
    seed: Option<u64>,
    window_bytes: u64,
    even: bool,
    epoch: u64,
    /// Of each lane how many records were handed out, where that is known.
    positions: Vec<Option<u64>>,
}

impl ShuffleState {
    pub(super) fn new(shuffle: &Shuffle, epoch: u64) -> Self {
        let ShuffleOptions { seed, lanes, window_bytes, even } = shuffle.options;
        let (origin, records) = (shuffle.ordinals.origin().clone(), shuffle.ordinals.len());
        let positions = vec![Some(0); lanes as usize];
        Self {
            body: StateBody { origin, records, sum: shuffle.sum, seed, window_bytes, even, epoch, positions },
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.body.epoch
    }

    /// The generation of the pack that it is of.
    pub fn generation(&self) -> u64 {
        self.body.origin.generation
    }

    /// How many records were handed out, of the lanes that it knows of.
    pub fn records(&self) -> u64 {
        self.positions().iter().flatten().sum()
    }

    /// One for all readers of an epoch. Of each lane the reader that has it knows best: it is
    /// furthest.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is none, or they are not of one epoch of one shuffle.
    pub fn merged(states: &[Self]) -> Result<Self> {
        let (first, others) =
            states.split_first().ok_or_else(|| Error::Invalid(format!("there is no {KIND} here")))?;
        let mut merged = first.clone();
        for other in others {
            if other.epoch() != first.epoch() {
                return Err(Error::Invalid(format!(
                    "these states are of epoch {} and epoch {}: take those of one moment",
                    first.epoch(),
                    other.epoch()
                )));
            }
            merged.check_same(other, "another of these states")?;
            for (here, there) in merged.body.positions.iter_mut().zip(&other.body.positions) {
                *here = (*here).max(*there);
            }
        }
        Ok(merged)
    }

    pub(super) fn positions(&self) -> &[Option<u64>] {
        &self.body.positions
    }

    /// Says nothing of any lane.
    pub(super) fn forget(&mut self) {
        self.body.positions.fill(None);
    }

    pub(super) fn position_mut(&mut self, lane: u32) -> Option<&mut Option<u64>> {
        self.body.positions.get_mut(lane as usize)
    }

    /// Whether it is of this pack, whatever its generation.
    pub(crate) fn check_pack(&self, pack: &Pack) -> Result<()> {
        let here = Origin { generation: pack.generation(), ..self.body.origin.clone() };
        here.view_in(pack, KIND).map(|_| ())
    }

    /// Whether another one, `what`, is of the same shuffle.
    fn check_same(&self, other: &Self, what: &str) -> Result<()> {
        let (StateBody { origin, seed, window_bytes, even, .. }, there) = (&self.body, &other.body);
        let shown = |seed: Option<u64>| seed.map_or("none".to_owned(), |seed| seed.to_string());
        let lanes = |body: &StateBody| body.positions.len().to_string();
        let differing = [
            ("pack", origin.pack.clone(), there.origin.pack.clone()),
            ("generation", origin.generation.to_string(), there.origin.generation.to_string()),
            ("seed", shown(*seed), shown(there.seed)),
            ("lanes", lanes(&self.body), lanes(there)),
            ("window_bytes", window_bytes.to_string(), there.window_bytes.to_string()),
            ("even", even.to_string(), there.even.to_string()),
            ("number of records", self.body.records.to_string(), there.records.to_string()),
        ];
        if let Some((name, here, there)) = differing.into_iter().find(|(_, here, there)| here != there) {
            return Err(Error::Invalid(format!(
                "the {name} of the {KIND} is {here}, and that of {what} is {there}"
            )));
        }
        if (origin, self.body.sum) != (&there.origin, there.sum) {
            return Err(Error::Invalid(format!("the {KIND} is of another selection of records than {what}")));
        }
        Ok(())
    }
}

impl Shuffle {
    /// Whether a state is of this shuffle, and so can be resumed.
    ///
    /// # Errors
    /// [`Error::Invalid`] that says what is another: pack, generation, selection, options.
    pub fn check(&self, state: &ShuffleState) -> Result<()> {
        state.check_same(&self.begin(state.epoch()), "this one")
    }
}

impl fmt::Display for ShuffleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&token::write(TOKEN, &self.body))
    }
}

impl FromStr for ShuffleState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self { body: token::read(TOKEN, text)? })
    }
}
