//! What the records of a pack have at all, where a scan did not come across it.

use super::draft::TableDraft;
use super::heads::HeadWalk;
use crate::pack::error::Result;
use crate::pack::format::attributes::Attributes;
use crate::pack::list::kinds::Kinds;
use crate::pack::scan::filter::FilterWalk;
use crate::pack::scan::{OnDamage, ScanOptions, Stop};
use crate::pack::state::open::Pack;

/// How far a look at all records came.
#[derive(Debug, Clone, Copy)]
pub(in crate::pack::scan) struct LookedAt {
    /// How many it was.
    pub(in crate::pack::scan) records: u64,
    /// Whether no other can have been passed over: it was not ended, and nothing is damaged.
    pub(in crate::pack::scan) is_all: bool,
}

/// Calls `each` with the attributes of the records of a pack, some thousand at once, until it
/// returns `false`.
///
/// # Errors
/// What reading meets, but damage.
pub(in crate::pack::scan) fn each_head(
    pack: &Pack,
    stop: Stop,
    each: &mut dyn FnMut(&Attributes) -> bool,
) -> Result<LookedAt> {
    let options = ScanOptions { on_damage: OnDamage::Skip, stop, ..ScanOptions::default() };
    let (mut heads, mut everything) =
        (HeadWalk::new(options, None, true), FilterWalk::new(Kinds::ALL.into()));
    let mut records = 0;
    loop {
        let mut draft = TableDraft::default();
        let more = heads.fill(pack, &mut everything, &mut draft)?;
        for head in &draft.heads {
            records += 1;
            if !each(&head.attributes) {
                return Ok(LookedAt { records, is_all: false });
            }
        }
        if !more {
            let is_all = heads.damages.is_empty() && pack.damages().is_empty();
            return Ok(LookedAt { records, is_all });
        }
    }
}
