//! [`TableRows`]: batches of records as columns.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::cells::{ColumnData, ColumnFilling, check_text};
use super::choose::{check_known, of_records, of_wanted, type_elsewhere};
use super::draft::TableDraft;
use super::heads::HeadWalk;
use super::walked::fill_from;
use super::{ColumnContent, ColumnType, TableColumn, WantedColumn};
use crate::pack::damages::Damages;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{FileKind, KIND, Name, Value};
use crate::pack::key::KeyValue;
use crate::pack::read::record::RecordHead;
use crate::pack::scan::filter::{FilterWalk, RecordFilter};
use crate::pack::scan::split::Split;
use crate::pack::scan::{Scan, ScanOptions, Stop};
use crate::pack::state::open::Pack;

/// Records as columns, all of the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableBatch {
    /// How many records.
    pub rows: usize,
    /// Their cells, in the order of the columns.
    pub columns: Vec<ColumnData>,
}

/// Where records come from: a scan, or the index and the heads of a pack.
pub enum TableSource<'a, 'p> {
    /// A scan that walks through records, their values included: the same whenever it is asked.
    Scan(&'a mut Scan<'p>),
    /// A pack of which only the index and heads are read.
    Index(&'a Pack),
}

impl fmt::Debug for TableSource<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scan(_) => "TableSource::Scan",
            Self::Index(_) => "TableSource::Index",
        })
    }
}

impl TableSource<'_, '_> {
    fn pack(&self) -> &Pack {
        match self {
            Self::Scan(scan) => scan.pack,
            Self::Index(pack) => pack,
        }
    }
}

/// Batches of records of one source, which is given whenever it reads.
#[derive(Debug)]
pub struct TableRows {
    filter: FilterWalk,
    /// `None` where those are meant that the records have.
    wanted: Option<Vec<WantedColumn>>,
    /// What records may have, where they may not have anything else.
    known: Option<Vec<ColumnContent>>,
    /// Whether it is one of several parts, which says nothing of the whole.
    is_part: bool,
    /// Columns of bytes that are to be text.
    texts: Vec<String>,
    /// Records of the scan to skip, where a cursor points into a batch.
    to_skip: u64,
    /// Of an index.
    heads: Option<HeadWalk>,
    /// Once the first batch was read.
    columns: Option<Arc<[TableColumn]>>,
    /// What was read and not handed out.
    draft: Option<TableDraft>,
    error: Option<Error>,
    ended: bool,
    damages: Damages,
}

impl TableRows {
    /// Those of a scan that begins now that are meant, without the first `to_skip` records.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no column, and one that is there twice; those of
    /// [`RecordFilter::check`].
    pub fn of_scan(filter: RecordFilter, wanted: Option<Vec<WantedColumn>>, to_skip: u64) -> Result<Self> {
        check_wanted(wanted.as_deref())?;
        filter.check()?;
        Ok(Self {
            filter: FilterWalk::new(filter),
            wanted,
            known: None,
            is_part: false,
            texts: Vec::new(),
            to_skip,
            heads: None,
            columns: None,
            draft: None,
            error: None,
            ended: false,
            damages: Damages::default(),
        })
    }

    /// Those that the index and the heads of a pack have: columns other than values, in the order
    /// of keys, whatever order the options say.
    ///
    /// # Errors
    /// As [`of_scan`](Self::of_scan), and for a column of values.
    pub fn of_index(
        filter: RecordFilter,
        wanted: Vec<WantedColumn>,
        options: ScanOptions,
        split: Option<Split>,
    ) -> Result<Self> {
        if wanted.iter().any(WantedColumn::is_value) {
            return Err(Error::Invalid("no index has values".into()));
        }
        let needs_heads = !filter.is_all() || !wanted.iter().all(WantedColumn::is_of_index);
        let heads = Some(HeadWalk::new(options, split, needs_heads));
        Ok(Self { heads, ..Self::of_scan(filter, Some(wanted), 0)? })
    }

    /// Takes it as one of several parts of a table: columns were chosen for all of them, and
    /// whether conditions are met by any record was found out. With `known` columns a record that
    /// has what none of them is of is an error, as where none are asked for.
    pub fn take_as_part(&mut self, known: Option<Vec<WantedColumn>>) {
        self.is_part = true;
        self.known = known.map(|known| known.into_iter().map(|column| column.content).collect());
    }

    /// Makes text of columns of bytes with these names, before anything is read.
    pub fn take_as_text(&mut self, names: Vec<String>) {
        self.texts = names;
    }

    /// The columns. The first batch is read for them.
    ///
    /// # Errors
    /// What reading it meets, where it has no record; [`Error::Invalid`] for a column whose type is
    /// not known, and, where no record is meant, for a condition that none of the pack can meet.
    pub fn columns(&mut self, source: &mut TableSource<'_, '_>) -> Result<Arc<[TableColumn]>> {
        if let Some(columns) = &self.columns {
            return Ok(columns.clone());
        }
        if self.draft.is_none() {
            self.draft = Some(self.read(source));
        }
        let has_records = self.draft.as_ref().is_some_and(|draft| !draft.heads.is_empty());
        if !has_records && self.error.is_some() {
            return Err(self.take_error());
        }
        let empty = TableDraft::default();
        let draft = self.draft.as_ref().unwrap_or(&empty);
        let has_groups = source.pack().groups().iter().any(|group| !group.is_empty());
        let mut columns = match &self.wanted {
            Some(wanted) => {
                let (pack, stop) = (source.pack(), self.stop(source));
                of_wanted(wanted, draft, &mut |attribute| type_elsewhere(attribute, pack, stop))?
            }
            None => of_records(draft, has_groups)?,
        };
        if self.wanted.is_none() {
            self.known = Some(columns.iter().map(|column| column.content.clone()).collect());
        }
        for column in &mut columns {
            if column.cells == ColumnType::Binary && self.texts.contains(&column.name) {
                column.cells = ColumnType::Text;
            }
        }
        let columns: Arc<[TableColumn]> = columns.into();
        self.columns = Some(columns.clone());
        Ok(columns)
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// As [`Scan::next`], after the records before it; [`Error::Invalid`] for a record that has
    /// what does not fit into its column, or what no column is of; after the last, for a condition
    /// that no record of the pack can meet.
    pub fn next(&mut self, source: &mut TableSource<'_, '_>) -> Result<Option<TableBatch>> {
        let columns = self.columns(source)?;
        loop {
            let draft = match self.draft.take() {
                Some(draft) => draft,
                None if self.error.is_some() => return Err(self.take_error()),
                None if self.ended => return Ok(None),
                None => self.read(source),
            };
            if draft.heads.is_empty() {
                continue;
            }
            let made = self.batch_of(draft, &columns, source.pack());
            if made.is_err() {
                (self.ended, self.error) = (true, None);
            }
            return made.map(Some);
        }
    }

    /// The damage that was passed over.
    pub fn damages(&self) -> &Damages {
        &self.damages
    }

    fn take_error(&mut self) -> Error {
        self.ended = true;
        self.error.take().unwrap_or(Error::Stopped)
    }

    /// Reads until a batch has records, or nothing is left.
    fn read(&mut self, source: &mut TableSource<'_, '_>) -> TableDraft {
        let mut draft = TableDraft::default();
        while draft.heads.is_empty() && !self.ended && self.error.is_none() {
            let filled = match (&mut *source, &mut self.heads) {
                (TableSource::Scan(scan), _) => {
                    fill_from(scan, &mut self.filter, &mut self.to_skip, &mut draft)
                }
                (TableSource::Index(pack), Some(heads)) => heads.fill(pack, &mut self.filter, &mut draft),
                (TableSource::Index(_), None) => Ok(false),
            };
            match filled {
                Ok(true) => {}
                Ok(false) => {
                    self.ended = true;
                    if !self.is_part {
                        self.error = self.filter.check_met(source.pack(), self.stop(source)).err();
                    }
                }
                Err(error) => self.error = Some(error),
            }
        }
        let found: &[crate::pack::Damage] = match (&*source, &self.heads) {
            (TableSource::Scan(scan), _) => scan.damages(),
            (_, Some(heads)) => &heads.damages,
            _ => &[],
        };
        self.damages = source.pack().damages().into_iter().chain(found.iter().cloned()).collect();
        draft
    }

    /// Whom to ask whether to stop.
    fn stop(&self, source: &TableSource<'_, '_>) -> Stop {
        match (source, &self.heads) {
            (TableSource::Scan(scan), _) => scan.filter.stop,
            (_, Some(heads)) => heads.stop(),
            _ => Stop::default(),
        }
    }

    fn batch_of(&self, draft: TableDraft, columns: &[TableColumn], pack: &Pack) -> Result<TableBatch> {
        let TableDraft { heads, mut values, .. } = draft;
        if let Some(known) = &self.known {
            heads.iter().try_for_each(|head| check_known(head, known))?;
        }
        let mut made = Vec::with_capacity(columns.len());
        for column in columns {
            made.push(match &column.content {
                ColumnContent::Value => {
                    let values = std::mem::take(&mut values);
                    if column.cells == ColumnType::Text {
                        let mut cells = heads.iter().zip(values.iter());
                        cells.try_for_each(|(head, value)| check_text(&head.key, column, value))?;
                    }
                    ColumnData { cells: values.into(), valid: Vec::new(), nulls: 0 }
                }
                ColumnContent::Group => groups_of(column, &heads, pack)?,
                _ => cells_of(column, &heads)?,
            });
        }
        Ok(TableBatch { rows: heads.len(), columns: made })
    }
}

fn check_wanted(wanted: Option<&[WantedColumn]>) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    if wanted.is_empty() {
        return Err(Error::Invalid("a table has one column or more, not none".into()));
    }
    for (number, column) in wanted.iter().enumerate() {
        let before = wanted.get(..number).unwrap_or_default();
        if before.iter().any(|other| other.name == column.name || other.content == column.content) {
            return Err(Error::Invalid(format!("the column {} is asked for twice", column.name)));
        }
    }
    Ok(())
}

fn groups_of(column: &TableColumn, heads: &[RecordHead], pack: &Pack) -> Result<ColumnData> {
    let mut known: HashMap<u64, &str> = HashMap::new();
    let mut filling = ColumnFilling::new(column, heads.len());
    for head in heads {
        let group = known.entry(head.segment).or_insert_with(|| pack.group_of_segment(head.segment));
        filling.push_bytes(&head.key, Some(group.as_bytes()))?;
    }
    Ok(filling.done())
}

fn cells_of(column: &TableColumn, heads: &[RecordHead]) -> Result<ColumnData> {
    let mut filling = ColumnFilling::new(column, heads.len());
    for head in heads {
        match (&column.content, head.key.value()) {
            (ColumnContent::Key, KeyValue::Bytes(key)) => filling.push_bytes(&head.key, Some(key))?,
            (ColumnContent::Id, KeyValue::Id(id)) => filling.push(&head.key, Some(Value::U64(id)))?,
            (content, _) => filling.push(&head.key, value_of(content, head))?,
        }
    }
    Ok(filling.done())
}

/// What a record has in a column of its head.
fn value_of(content: &ColumnContent, head: &RecordHead) -> Option<Value> {
    match content {
        ColumnContent::Size => head.body_len.map(Value::U64),
        ColumnContent::Sequence => Some(Value::U64(head.sequence)),
        ColumnContent::Put => Some(Value::I64(head.time_ns)),
        // What does not say what it is, is a file.
        ColumnContent::Attribute(Name::Id(KIND)) => {
            let kind = head.attributes.file_kind().unwrap_or(FileKind::File);
            Some(Value::Text(kind.as_str().to_owned()))
        }
        ColumnContent::Attribute(name) => head.attributes.get(name).cloned(),
        ColumnContent::Key | ColumnContent::Id | ColumnContent::Value | ColumnContent::Group => None,
    }
}
