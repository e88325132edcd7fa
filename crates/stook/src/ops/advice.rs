//! What is to be done about a pack: the most urgent only.

use crate::pack::{Damage, Pack, SegmentInfo, is_in_groups};
use crate::report::units::percent;

/// The share of dead bytes from which on compacting is worth its time.
const DEAD_SHARE_NOTABLE: f64 = 0.2;

/// What is to be done, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// `permit`, `update`, `check`, `finish`, `compact` or `none`.
    pub action: &'static str,
    /// A sentence about it.
    pub text: String,
}

/// What is to be done about a pack; `groups` are those that are looked at, all if empty.
pub fn advice(pack: &Pack, groups: &[String]) -> Advice {
    let (action, text) = of(pack, groups);
    Advice { action, text }
}

fn of(pack: &Pack, groups: &[String]) -> (&'static str, String) {
    let damages = pack.damages();
    if let Some(denied) = damages.first().filter(|_| damages.iter().all(Damage::is_denied)) {
        let text = format!(
            "{} cannot be read for want of permission: run stook as a user who may read all files of the pack",
            denied.file.display()
        );
        return ("permit", text);
    }
    if let Some(newer) = damages.first().filter(|_| damages.iter().all(Damage::is_of_newer)) {
        let text = format!(
            "{} needs a newer version of stook: that reads all of the pack, and can write to it",
            newer.file.display()
        );
        return ("update", text);
    }
    if !damages.is_empty() {
        let text =
            "damage was found: `stook check` lists all of it, `stook check --repair NEW` saves what is whole";
        return ("check", text.into());
    }
    if !pack.is_complete() {
        let text = "the pack is incomplete: run the same `stook pack` again to continue; where what it packed is \
                    gone, `stook check --accept` accepts the pack as it is";
        return ("finish", text.into());
    }
    let share = dead_share(pack, groups);
    if share >= DEAD_SHARE_NOTABLE {
        let text = format!(
            "{} of the bytes belong to records that were replaced or deleted: `stook compact` gets the room back",
            percent(share)
        );
        return ("compact", text);
    }
    ("none", "nothing to do".into())
}

/// The share of bytes of frames that are of dead records.
fn dead_share(pack: &Pack, groups: &[String]) -> f64 {
    let is_meant = |segment: &&SegmentInfo| is_in_groups(groups, &segment.group);
    let segments = pack.segments();
    let sums = segments
        .iter()
        .filter(is_meant)
        .fold((0, 0), |(dead, all), segment| (dead + segment.dead_bytes, all + segment.frame_bytes));
    sums.0 as f64 / sums.1.max(1) as f64
}
