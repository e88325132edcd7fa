//! Which files may have a copy, by what records call them: so that of others nothing need be looked
//! at.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

use rustix::fs::OFlags;

use super::key::shown;
use super::record::{RECORD_LEN_MAX, Record};
use super::{MergedCache, name_of_file};
use crate::format::now_ns;
use crate::storage::cache::read_up_to;

/// A directory that changed less than this ago may change again without another time.
const SETTLED_NS: i64 = 2_000_000_000;

/// What the records of a directory call their files.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// When the directory was changed last, as it was before it was listed; `None` where it may
    /// have changed since without a trace.
    changed_ns: Option<i64>,
    /// By the names of records; of one that cannot be read, nothing.
    records: HashMap<String, Option<Box<str>>>,
}

impl MergedCache {
    /// Whether a file may have a copy. That it may have says nothing; that it may not, for certain
    /// that none was there when the directory was looked at.
    pub(super) fn may_have(&self, path: &Path) -> bool {
        let mut called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        if self.look_again(&mut called).is_err() {
            // Who looks for the copy meets it as well.
            return true;
        }
        let wanted = shown(path);
        called.records.values().any(|name| name.as_deref().is_none_or(|name| name == wanted))
    }

    /// Reads the records that came since.
    fn look_again(&self, called: &mut Called) -> io::Result<()> {
        let found = rustix::fs::fstat(self.directory.handle())?;
        let changed_ns =
            found.st_mtime.saturating_mul(1_000_000_000).saturating_add(found.st_mtime_nsec.cast_signed());
        if called.changed_ns == Some(changed_ns) {
            return Ok(());
        }
        let is_settled = changed_ns < now_ns().saturating_sub(SETTLED_NS);
        called.changed_ns = None;
        let mut records = HashMap::new();
        for file in self.directory.names()? {
            if !name_of_file(&file).is_some_and(|(_, is_record)| is_record) {
                continue;
            }
            let known = called.records.remove(&file).flatten();
            let name = known.or_else(|| self.name_in(&file));
            records.insert(file, name);
        }
        (called.records, called.changed_ns) = (records, is_settled.then_some(changed_ns));
        Ok(())
    }

    fn name_in(&self, record: &str) -> Option<Box<str>> {
        let file = self.directory.open_file(record, OFlags::RDONLY).ok()?;
        let bytes = read_up_to(&file, 0, RECORD_LEN_MAX + 1).ok()?;
        Some((*Record::decode(&bytes).ok()?.name).into())
    }
}
