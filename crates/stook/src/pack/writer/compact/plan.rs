//! Which segments are worth compacting, and in which steps.

use serde::Serialize;

use super::CompactOptions;
use crate::pack::error::Result;
use crate::pack::format::UNIT;
use crate::pack::format::deletes::Deaths;
use crate::pack::index::run::MergeCursor;
use crate::pack::read::reader::Reader;
use crate::pack::state::open::is_in_groups;
use crate::pack::state::segment::Segment;
use crate::report::units::bytes_decimal;

/// A segment that may be compacted.
#[derive(Debug, Clone, Copy)]
pub(in crate::pack) struct Candidate<'a> {
    segment: &'a Segment,
    deaths: &'a Deaths,
}

impl<'a> Candidate<'a> {
    pub(in crate::pack) fn new(segment: &'a Segment, deaths: &'a Deaths) -> Self {
        Self { segment, deaths }
    }
}

/// The plan of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CompactPlan {
    /// Its steps, in their order.
    pub steps: Vec<CompactStep>,
    /// Segments that are worth compacting, but need more room than a step may take.
    pub too_large: Vec<TooLarge>,
}

/// A segment that cannot be compacted in the room that is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error(
    "segment {segment:016x} is left as it is: it needs {} of room, and a step may take {}",
    bytes_decimal(*needed_bytes), bytes_decimal(*extra_bytes)
)]
pub struct TooLarge {
    /// Its group.
    pub group: String,
    /// Its id.
    pub segment: u64,
    /// Bytes that are needed.
    pub needed_bytes: u64,
    /// Extra bytes that a step may take.
    #[serde(skip)]
    pub extra_bytes: u64,
}

/// One step: these segments of a group become new ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompactStep {
    /// The group.
    pub group: String,
    /// Ids of the segments.
    pub segments: Vec<u64>,
    /// Bytes that will be written: about the room the step needs.
    pub kept_bytes: u64,
    /// Bytes of the segments that go.
    pub won_bytes: u64,
    /// Versions that go.
    pub dead_records: u64,
    /// Whether all kept records are already in key order.
    pub in_order: bool,
}

impl CompactPlan {
    /// Bytes that will be written, over all steps.
    pub fn kept_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.kept_bytes).sum()
    }

    /// Bytes that will be freed.
    pub fn won_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.won_bytes).sum()
    }

    /// Versions that will go.
    pub fn dead_records(&self) -> u64 {
        self.steps.iter().map(|step| step.dead_records).sum()
    }
}

/// Facts about a segment after a walk over its index.
#[derive(Debug)]
struct Surveyed {
    id: u64,
    kept_bytes: u64,
    won_bytes: u64,
    dead_records: u64,
    /// Its kept records are in key order.
    in_order: bool,
    /// Its first and last key, as sort forms.
    keys: Option<[Box<[u8]>; 2]>,
    /// Its keys lie between those of another segment.
    overlaps: bool,
}

impl Surveyed {
    fn is_needed(&self) -> bool {
        self.dead_records > 0 || !self.in_order || self.kept_bytes == 0
    }
}

/// Plans, group by group.
pub(in crate::pack) fn plan(
    candidates: &[Candidate<'_>],
    groups: &[String],
    options: &CompactOptions,
    horizon_ns: i64,
    reader: &Reader,
) -> Result<CompactPlan> {
    let mut plan = CompactPlan::default();
    for (number, name) in (0u32..).zip(groups) {
        if !is_in_groups(&options.groups, name) {
            continue;
        }
        let mut surveyed = Vec::new();
        for candidate in candidates.iter().filter(|candidate| candidate.segment.entry.group == number) {
            if !candidate.segment.unlisted && !candidate.segment.vector_lost {
                surveyed.push(survey(candidate, horizon_ns, reader)?);
            }
        }
        mark_overlaps(&mut surveyed);
        plan_group(name, surveyed, options, &mut plan);
    }
    Ok(plan)
}

/// Walks over the index of a segment.
fn survey(candidate: &Candidate<'_>, horizon_ns: i64, reader: &Reader) -> Result<Surveyed> {
    let Candidate { segment, deaths } = *candidate;
    let mut found = Surveyed {
        id: segment.entry.id,
        kept_bytes: 0,
        won_bytes: 0,
        dead_records: 0,
        in_order: true,
        keys: None,
        overlaps: false,
    };
    let mut cursor = MergeCursor::seek(segment.runs.iter(), reader, &[])?;
    let mut last_offset = 0;
    while let Some((_, entry)) = cursor.peek() {
        let place = entry.place();
        match deaths.get(&place.offset) {
            Some(death) if death.time_ns <= horizon_ns => {
                found.won_bytes = found.won_bytes.saturating_add(place.len_min());
                found.dead_records += 1;
            }
            kept => {
                found.kept_bytes = found.kept_bytes.saturating_add(place.len_min());
                // Older versions come before newer ones in the segment, and after them in the
                // index.
                found.in_order &= kept.is_some() || place.offset > last_offset;
                last_offset = last_offset.max(place.offset);
                let form: Box<[u8]> = entry.form().into();
                match &mut found.keys {
                    None => found.keys = Some([form.clone(), form]),
                    Some([_, last]) => *last = form,
                }
            }
        }
        cursor.advance()?;
    }
    if found.kept_bytes == 0 {
        // Marks and deletions are all that is left of it.
        found.won_bytes = found.won_bytes.max(segment.frames_end.saturating_sub(UNIT as u64)).max(1);
    }
    Ok(found)
}

fn mark_overlaps(surveyed: &mut [Surveyed]) {
    let mut order: Vec<usize> = (0..surveyed.len()).collect();
    order.sort_by(|&a, &b| {
        let first =
            |at: usize| surveyed.get(at).and_then(|found| found.keys.as_ref()).map(|[first, _]| first);
        first(a).cmp(&first(b))
    });
    // The segment whose last key is the highest of those before.
    let mut reach: Option<(usize, Box<[u8]>)> = None;
    let mut overlapping = Vec::new();
    for at in order {
        let Some([first, last]) = surveyed.get(at).and_then(|found| found.keys.clone()) else { continue };
        if let Some((other, _)) = reach.as_ref().filter(|(_, highest)| first <= *highest) {
            overlapping.extend([at, *other]);
        }
        if reach.as_ref().is_none_or(|(_, highest)| last > *highest) {
            reach = Some((at, last));
        }
    }
    for at in overlapping {
        if let Some(found) = surveyed.get_mut(at) {
            found.overlaps = true;
        }
    }
}

fn plan_group(name: &str, surveyed: Vec<Surveyed>, options: &CompactOptions, plan: &mut CompactPlan) {
    let sum = |of: fn(&Surveyed) -> u64| surveyed.iter().map(of).fold(0u64, u64::saturating_add);
    let (freed, kept) = (sum(|found| found.won_bytes), sum(|found| found.kept_bytes));
    if let Some(max_dead) = options.max_dead {
        let all = freed.saturating_add(kept) as f64;
        if freed == 0 || (freed as f64) < max_dead * all {
            return;
        }
    }
    // All that overlaps becomes one run of segments in the order of the keys, if there is room for
    // it at once; else only what is to be freed, and what is out of order in itself, is worth its
    // writing.
    let together: u64 = surveyed
        .iter()
        .filter(|found| found.is_needed() || found.overlaps)
        .map(|found| found.kept_bytes)
        .fold(0, u64::saturating_add);
    let at_once = together <= options.extra_len;
    let needed = surveyed.into_iter().filter(|found| found.is_needed() || (at_once && found.overlaps));
    let mut step: Option<CompactStep> = None;
    for found in needed {
        if found.kept_bytes > options.extra_len {
            let (segment, needed_bytes, extra_bytes) = (found.id, found.kept_bytes, options.extra_len);
            plan.too_large.push(TooLarge { group: name.to_owned(), segment, needed_bytes, extra_bytes });
            continue;
        }
        let full = step.as_ref().is_some_and(|step| step.kept_bytes + found.kept_bytes > options.extra_len);
        if full {
            plan.steps.extend(step.take());
        }
        let step = step.get_or_insert_with(|| CompactStep {
            group: name.to_owned(),
            segments: Vec::new(),
            kept_bytes: 0,
            won_bytes: 0,
            dead_records: 0,
            in_order: true,
        });
        step.in_order &= found.in_order && !found.overlaps;
        step.segments.push(found.id);
        step.kept_bytes += found.kept_bytes;
        step.won_bytes = step.won_bytes.saturating_add(found.won_bytes);
        step.dead_records += found.dead_records;
    }
    plan.steps.extend(step);
}
