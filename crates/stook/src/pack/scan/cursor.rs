//! [`Cursor`]: where a scan is, to continue from there later, in another process too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::entries::AfterKey;
use super::split::{Piece, check_pieces};
use super::token::{self, Hex, Origin};
use super::{KeyRange, OnDamage, Scan, ScanOptions, ScanOrder, ScanRecord, Stop};
use crate::pack::error::{Error, Result};
use crate::pack::state::open::Pack;

const KIND: &str = "cursor";

/// How far a scan has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Position {
    Start,
    /// After the record with a frame there.
    Disk {
        segment: u64,
        offset: u64,
    },
    /// After the record with this key, whose frame is there.
    Key {
        form: Hex,
        segment: u64,
        offset: u64,
    },
    End,
}

impl Position {
    pub(super) fn after(record: &ScanRecord<'_>, order: ScanOrder) -> Self {
        let (segment, offset) = (record.segment(), record.offset());
        match (order, record.key()) {
            (ScanOrder::Key, Some(key)) => Self::Key { form: Hex(key.sort_form().to_vec()), segment, offset },
            _ => Self::Disk { segment, offset },
        }
    }

    pub(super) fn after_key(&self, pack: &Pack) -> Option<AfterKey> {
        let Self::Key { form, segment, offset } = self else { return None };
        let segment = pack.number_of(*segment)?;
        Some(AfterKey { form: form.0.clone(), segment, offset: *offset })
    }
}

/// Where a [`Scan`] is and what it goes through: everything that [`Pack::scan_from`] needs. Its
/// text (`to_string`, `parse`, or serde) can be kept and read by another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    body: CursorBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CursorBody {
    #[serde(flatten)]
    origin: Origin,
    by_key: bool,
    groups: Vec<String>,
    start: Hex,
    end: Option<Hex>,
    split: Option<Vec<Piece>>,
    position: Position,
}

impl Cursor {
    pub(super) fn new(scan: &Scan<'_>) -> Self {
        let ScanOptions { groups, order, keys, .. } = &scan.options;
        let body = CursorBody {
            origin: Origin::of(scan.pack, scan.filter.view),
            by_key: *order == ScanOrder::Key,
            groups: groups.clone(),
            start: Hex(keys.start().to_vec()),
            end: keys.end().map(|end| Hex(end.to_vec())),
            split: scan.pieces.clone(),
            position: scan.position.clone(),
        };
        Self { body }
    }

    /// What the scan goes through, with damage to be treated like this.
    pub fn options(&self, on_damage: OnDamage) -> ScanOptions {
        let CursorBody { by_key, groups, start, end, .. } = &self.body;
        ScanOptions {
            groups: groups.clone(),
            on_damage,
            stop: Stop::default(),
            order: if *by_key { ScanOrder::Key } else { ScanOrder::Disk },
            keys: KeyRange::from_bounds(start.0.clone(), end.as_ref().map(|end| end.0.clone())),
        }
    }

    /// Whether the scan goes through a split.
    pub fn is_of_split(&self) -> bool {
        self.body.split.is_some()
    }

    /// Whether the scan had handed out its last record and had said so.
    pub fn is_at_end(&self) -> bool {
        self.body.position == Position::End
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&token::write(KIND, &self.body))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self { body: token::read(KIND, text)? })
    }
}

impl TryFrom<String> for Cursor {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}

impl Pack {
    /// Continues a scan, right after the record that it returned last: of the same pack, at
    /// the same generation. What was appended since is not seen, as the scan would not have seen
    /// it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cursor is of another pack or another generation.
    pub fn scan_from(&self, cursor: &Cursor, on_damage: OnDamage) -> Result<Scan<'_>> {
        let CursorBody { origin, split, position, .. } = &cursor.body;
        let view = origin.view_in(self, KIND)?;
        if let Some(pieces) = split {
            check_pieces(self, pieces)?;
        }
        if let Position::Disk { segment, .. } | Position::Key { segment, .. } = position
            && self.number_of(*segment).is_none()
        {
            return Err(Error::Invalid(format!(
                "segment {segment:016x}, in which the cursor is, cannot be read"
            )));
        }
        Ok(Scan::new(self, cursor.options(on_damage), view, split.clone(), position))
    }
}
