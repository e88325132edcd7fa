//! [`ShuffleState`]: what of an epoch was handed out.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::super::token::{self, Origin};
use super::{Shuffle, ShuffleOptions, lane_range};
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

    /// The number of the first record that is not in that generation.
    pub(crate) fn sequence_end(&self) -> u64 {
        self.body.origin.sequence_end
    }

    /// How many records were handed out, of the lanes that it knows of.
    pub fn records(&self) -> u64 {
        // One that nobody wrote may say anything.
        self.positions().iter().flatten().fold(0, |sum, position| sum.saturating_add(*position))
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

    /// Into how many lanes the epoch is cut.
    pub fn lanes(&self) -> usize {
        self.body.positions.len()
    }

    /// The same in another number of lanes: of records in the order of the medium, where what was
    /// handed out is a beginning of them.
    pub(crate) fn in_lanes(&self, lanes: u32) -> Option<Self> {
        let StateBody { records, seed: None, even: false, ref positions, .. } = self.body else {
            return None;
        };
        let of_state = u32::try_from(positions.len()).ok()?;
        let (mut done, mut is_begun) = (0_u64, false);
        for (lane, position) in (0..of_state).zip(positions) {
            let (position, range) = ((*position)?, lane_range(lane, of_state, records));
            if position > range.end - range.start || (is_begun && position > 0) {
                return None;
            }
            is_begun |= position < range.end - range.start;
            done += position;
        }
        let position = |lane| {
            let range = lane_range(lane, lanes, records);
            Some(done.clamp(range.start, range.end) - range.start)
        };
        let positions = (0..lanes).map(position).collect();
        Some(Self { body: StateBody { positions, ..self.body.clone() } })
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
        let mut here = Origin { generation: pack.generation(), ..self.body.origin.clone() };
        if self.generation() > pack.generation() {
            // What is open here says nothing of what came later.
            here.sequence_end = 0;
        }
        here.view_in(pack, KIND).map(|_| ())
    }

    /// Whether another one, `what`, is of the same order, of whatever records.
    fn check_order(&self, other: &Self, what: &str) -> Result<()> {
        let (StateBody { seed, window_bytes, even, .. }, there) = (&self.body, &other.body);
        let shown = |seed: Option<u64>| seed.map_or("none".to_owned(), |seed| seed.to_string());
        let lanes = |body: &StateBody| body.positions.len().to_string();
        refuse_differing(
            what,
            [
                ("seed", shown(*seed), shown(there.seed)),
                ("lanes", lanes(&self.body), lanes(there)),
                ("window_bytes", window_bytes.to_string(), there.window_bytes.to_string()),
                ("even", even.to_string(), there.even.to_string()),
            ],
        )
    }

    /// Whether another one, `what`, is of the same shuffle.
    fn check_same(&self, other: &Self, what: &str) -> Result<()> {
        let (StateBody { origin, .. }, there) = (&self.body, &other.body);
        refuse_differing(
            what,
            [
                ("pack", origin.pack.clone(), there.origin.pack.clone()),
                ("generation", origin.generation.to_string(), there.origin.generation.to_string()),
            ],
        )?;
        self.check_order(other, what)?;
        refuse_differing(
            what,
            [("number of records", self.body.records.to_string(), there.records.to_string())],
        )?;
        if (origin, self.body.sum) != (&there.origin, there.sum) {
            return Err(Error::Invalid(format!("the {KIND} is of another selection of records than {what}")));
        }
        Ok(())
    }
}

/// Refuses a state, because of the first of these that is another in both.
fn refuse_differing<const N: usize>(what: &str, both: [(&str, String, String); N]) -> Result<()> {
    match both.into_iter().find(|(_, here, there)| here != there) {
        None => Ok(()),
        Some((name, here, there)) => {
            Err(Error::Invalid(format!("the {name} of the {KIND} is {here}, and that of {what} is {there}")))
        }
    }
}

impl Shuffle {
    /// Whether a state is of this order, of whatever generation.
    pub(crate) fn check_order(&self, state: &ShuffleState) -> Result<()> {
        state.check_order(&self.begin(state.epoch()), "this one")
    }

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
