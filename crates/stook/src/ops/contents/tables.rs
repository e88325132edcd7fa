//! [`OwnedTable`]: records as columns, for callers whose values may not borrow.

use std::fmt;
use std::sync::Arc;

use super::owned::{OwnedRows, ScanCell, begin_scan, resume_scan};
use crate::pack::{
    self, Damages, Pack, RecordFilter, ScanOptions, Split, TableBatch, TableColumn, TableRows, TableSource,
    WantedColumn,
};

/// What of a pack is to be gone through: rows and tables can be made of it, any number of times.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The pack.
    pub pack: Arc<Pack>,
    /// Which records are meant.
    pub filter: RecordFilter,
    /// How it is scanned.
    pub options: ScanOptions,
    /// Only this part of it.
    pub split: Option<Split>,
    /// Where an earlier scan stopped, as [`OwnedRows::cursor`] gave it; it goes with no options but
    /// `on_damage`.
    pub cursor: Option<String>,
}

impl ScanRequest {
    /// The records one by one.
    ///
    /// # Errors
    /// Those of [`OwnedRows::scan`], [`OwnedRows::resume`] and [`RecordFilter::check`].
    pub fn rows(&self) -> pack::Result<OwnedRows> {
        self.filter.check()?;
        let Self { pack, filter, options, split, cursor } = self.clone();
        match cursor {
            Some(cursor) => OwnedRows::resume(pack, filter, &options, split.as_ref(), &cursor),
            None => OwnedRows::scan(pack, filter, options, split.as_ref()),
        }
    }

    /// The records as columns: those that are wanted, or those that the records have.
    ///
    /// Where no values are wanted, none are read: the index and the heads are gone through in the
    /// order of keys. A cursor is one of a scan that reads values, and so these are read, too.
    ///
    /// # Errors
    /// Those of [`rows`](Self::rows), [`TableRows::of_scan`] and [`TableRows::of_index`].
    pub fn table(&self, wanted: Option<Vec<WantedColumn>>) -> pack::Result<OwnedTable> {
        let Self { pack, filter, options, split, cursor } = self.clone();
        if let Some(cursor) = cursor {
            let (cell, skipped) = resume_scan(pack, &options, split.as_ref(), &cursor)?;
            let rows = TableRows::of_scan(filter, wanted, skipped)?;
            return Ok(OwnedTable { from: Reading::Scan(cell), rows });
        }
        match wanted {
            Some(wanted) if !wanted.iter().any(WantedColumn::is_value) => {
                pack.check_whole(options.on_damage)?;
                pack.check_groups(&options.groups)?;
                let rows = TableRows::of_index(filter, wanted, options, split)?;
                Ok(OwnedTable { from: Reading::Index(pack), rows })
            }
            wanted => {
                let rows = TableRows::of_scan(filter, wanted, 0)?;
                Ok(OwnedTable { from: Reading::Scan(begin_scan(pack, options, split.as_ref())?), rows })
            }
        }
    }
}

enum Reading {
    Scan(ScanCell),
    Index(Arc<Pack>),
}

/// Records of a pack in batches of columns.
pub struct OwnedTable {
    from: Reading,
    rows: TableRows,
}

impl fmt::Debug for OwnedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedTable").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl OwnedTable {
    /// The same with text in columns of bytes that have these names.
    #[must_use]
    pub fn with_texts(mut self, names: Vec<String>) -> Self {
        self.rows.take_as_text(names);
        self
    }

    /// The same as one of several parts of a table: see [`TableRows::take_as_part`].
    #[must_use]
    pub fn into_part(mut self, known: Option<Vec<WantedColumn>>) -> Self {
        self.rows.take_as_part(known);
        self
    }

    /// The columns. The first batch is read for them.
    ///
    /// # Errors
    /// Those of [`TableRows::columns`].
    pub fn columns(&mut self) -> pack::Result<Arc<[TableColumn]>> {
        self.with(|rows, source| rows.columns(source))
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// Those of [`TableRows::next`].
    #[expect(clippy::should_implement_trait, reason = "it is fallible, as `next` of a scan is")]
    pub fn next(&mut self) -> pack::Result<Option<TableBatch>> {
        self.with(|rows, source| rows.next(source))
    }

    /// The damage that was passed over.
    pub fn damages(&self) -> &Damages {
        self.rows.damages()
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut TableRows, &mut TableSource<'_, '_>) -> T) -> T {
        let rows = &mut self.rows;
        match &mut self.from {
            Reading::Scan(cell) => {
                cell.with_dependent_mut(|_, scan| work(rows, &mut TableSource::Scan(scan)))
            }
            Reading::Index(pack) => work(rows, &mut TableSource::Index(pack)),
        }
    }
}
