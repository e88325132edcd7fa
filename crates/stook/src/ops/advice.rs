//! What is to be done about a pack, by what opening it found.

use crate::pack::{Damage, Pack, SegmentInfo, is_in_groups};
use crate::report::units::percent;

/// From this share of dead bytes on, room is worth getting back.
const DEAD_SHARE_NOTABLE: f64 = 0.2;

/// The most urgent thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// It in one word, for programs: `permit`, `update`, `check`, `finish`, `compact` or `none`.
    pub action: &'static str,
    /// A sentence, for people.
    pub text: String,
}

/// What is to be done about a pack, of which only these groups (all if empty) are looked at.
pub fn advise(pack: &Pack, groups: &[String]) -> Advice {
    let (action, text) = recommend(pack, groups);
    Advice { action, text }
}

fn recommend(pack: &Pack, groups: &[String]) -> (&'static str, String) {
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
    let mut segments = pack.segments();
    segments.retain(|segment| is_in_groups(groups, &segment.group));
    let dead_share = dead_share(&segments);
    if dead_share >= DEAD_SHARE_NOTABLE {
        let text = format!(
            "{} of the bytes belong to records that were replaced or deleted: `stook compact` gets the room back",
            percent(dead_share)
        );
        return ("compact", text);
    }
    ("none", "nothing to do".into())
}

/// Which share of the bytes of frames belongs to records that no longer count.
pub fn dead_share(segments: &[SegmentInfo]) -> f64 {
    let sum = |of: fn(&SegmentInfo) -> u64| segments.iter().map(of).sum::<u64>();
    let dead = sum(|segment| segment.dead_bytes);
    let live = sum(|segment| segment.frame_bytes.saturating_sub(segment.dead_bytes));
    dead as f64 / (live + dead).max(1) as f64
}
