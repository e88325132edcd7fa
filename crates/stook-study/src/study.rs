//! [`Study`], and what one needs of its caller.

use serde::Serialize;
use stook::report::page::Page;

use crate::frame::Frame;
use crate::place::PlaceLock;
use crate::progress::{Expected, Portion, Shown, Unshown};
use crate::text::Text;

/// A study. The type holds its options; [`run`](crate::run) calls the methods in this order.
pub trait Study {
    /// What was prepared, and what has been measured so far.
    type State;
    /// What was found, as it is in `study.json` under `data`: an object.
    type Findings: Serialize;

    /// Its name.
    const NAME: &'static str;

    /// Subject of the sentence that ends its page, "… embedded in this page as JSON": what the data
    /// of the page holds.
    const EMBEDDED: &'static str;

    /// Refuses what cannot be measured, before anything is made.
    ///
    /// # Errors
    /// Returns an [`OptionError`] or a [`stook::bench::Error`] about the options, or an error of
    /// examining the data.
    fn check(&self) -> anyhow::Result<()>;

    /// How long it takes, about, where its options are those of [`Study::check`].
    fn expected(&self) -> Expected;

    /// Locks the places where it works, which are made if they are its own: no other study may work
    /// there meanwhile.
    ///
    /// # Errors
    /// Returns an error if one does, or a place cannot be made.
    fn lock(&self) -> anyhow::Result<Vec<PlaceLock>> {
        Ok(Vec::new())
    }

    /// Makes the data that is missing, and all that has to be known before the first round.
    ///
    /// # Errors
    /// Returns an error if making it fails or is interrupted.
    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<Self::State>;

    /// Measures one round: all that is compared, in turn.
    ///
    /// # Errors
    /// Returns an error if measuring fails or is interrupted.
    fn measure(&self, state: &mut Self::State, hooks: &dyn Hooks) -> anyhow::Result<()>;

    /// Checks that all that is compared handled the same bytes; called once, after the first round,
    /// so that no time is lost on figures that are worth nothing, and outside of all measured time.
    ///
    /// # Errors
    /// Returns an error if bytes differ, or reading them fails.
    fn check_bytes(&self, state: &mut Self::State, hooks: &dyn Hooks) -> anyhow::Result<()>;

    /// Whether another round is to be measured. Without an own rule one is all.
    fn wants_round(&self, _state: &Self::State, _hooks: &dyn Hooks) -> bool {
        false
    }

    /// What was found, and whether what was published holds here.
    ///
    /// # Errors
    /// Returns an error if figures are missing or invalid.
    fn conclude(&self, state: Self::State) -> anyhow::Result<Self::Findings>;

    /// What all studies say, out of what was found.
    fn frame(findings: &Self::Findings) -> Frame;

    /// What was found on a terminal, without what all studies say.
    fn text(findings: &Self::Findings) -> Vec<Text>;

    /// What was found as a page, without what all studies say, its footer and its data.
    fn page(findings: &Self::Findings) -> Page;
}

/// What a study needs of its caller.
pub trait Hooks: Sync {
    /// A line for the user.
    fn note(&self, line: &str);

    /// A line with a figure as it was measured, for those who want to see each of them.
    fn detail(&self, _line: &str) {}

    /// Work of a known amount begins. It is shown until what is returned is dropped.
    fn begin<'a>(&'a self, _task: &Portion) -> Box<dyn Shown + 'a> {
        Box::new(Unshown)
    }

    /// Called at every point where a study can stop.
    ///
    /// # Errors
    /// Returns an error if it is to stop, which then ends the study.
    fn check(&self) -> anyhow::Result<()>;
}

/// An option of a study makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(String);

impl OptionError {
    /// Says what is wrong and what was expected.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
