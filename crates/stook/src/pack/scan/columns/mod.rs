//! Records as columns: what tables are made of.
//!
//! [`TableRows`] reads batches of records, from a scan or, where no values are wanted, by the index
//! and the heads alone, and makes a [`TableBatch`] of each. Columns that are not asked for by name
//! are those that the records of the first batch have; a record that has another is an error then,
//! so that nothing is left out in silence.

mod cells;
mod choose;
mod draft;
mod heads;
mod reader;
mod survey;
mod walked;

pub use cells::{ColumnCells, ColumnData};
pub use reader::{TableBatch, TableRows, TableSource};
pub(super) use survey::each_head;

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{
    CTIME_NS, GROUP_ID, HOLES, INODE, KIND, MODE, MTIME_NS, NAMES, Name, USER_ID, XATTRS,
};

/// The type of all cells of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// Bytes of any content.
    Binary,
    /// UTF-8.
    Text,
    /// A number from 0 on.
    U64,
    /// A number with a sign.
    I64,
    /// A short number from 0 on.
    U32,
    /// Nanoseconds since 1970.
    Time,
}

/// Types by their names.
const TYPES: [(&str, ColumnType); 6] = [
    ("binary", ColumnType::Binary),
    ("string", ColumnType::Text),
    ("uint64", ColumnType::U64),
    ("int64", ColumnType::I64),
    ("uint32", ColumnType::U32),
    ("timestamp", ColumnType::Time),
];

impl ColumnType {
    /// The type that has this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is none.
    pub fn named(name: &str) -> Result<Self> {
        let found = TYPES.iter().find(|(known, _)| *known == name);
        found.map(|(_, known)| *known).ok_or_else(|| {
            let names: Vec<&str> = TYPES.iter().map(|(known, _)| *known).collect();
            Error::Invalid(format!("columns have one of the types {}, not {name:?}", names.join(", ")))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// What of a record is in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnContent {
    /// Its key, where that is a byte string.
    Key,
    /// Its key, where that is a number.
    Id,
    /// Its body; of a hard link to a file that of the file.
    Value,
    /// Bytes of its value.
    Size,
    /// The group that it is in.
    Group,
    /// Its sequence number.
    Sequence,
    /// When it was put.
    Put,
    /// An attribute.
    Attribute(Name),
}

/// What is of a record itself, by the names of the columns.
static OWN: [(&str, ColumnContent, ColumnType); 7] = [
    ("key", ColumnContent::Key, ColumnType::Binary),
    ("id", ColumnContent::Id, ColumnType::U64),
    ("value", ColumnContent::Value, ColumnType::Binary),
    ("size", ColumnContent::Size, ColumnType::U64),
    ("group", ColumnContent::Group, ColumnType::Text),
    ("sequence", ColumnContent::Sequence, ColumnType::U64),
    ("time", ColumnContent::Put, ColumnType::Time),
];

/// The attributes that are times, by the names of their columns.
const TIMES: [(&str, u8); 2] = [("mtime", MTIME_NS), ("ctime", CTIME_NS)];

/// Before the name of an attribute that a column is called otherwise.
const ATTRIBUTE: &str = "attributes.";

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// What it is called.
    pub name: String,
    /// What is in it.
    pub content: ColumnContent,
    /// The type of its cells; each may be null.
    pub cells: ColumnType,
}

/// A column that is asked for. What type an attribute of the caller's own has, the first records
/// say where it is not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedColumn {
    name: String,
    content: ColumnContent,
    cells: Option<ColumnType>,
}

impl WantedColumn {
    /// The column with this name: `key`, `id`, `value`, `size`, `group`, `sequence`, `time`,
    /// `mtime`, `ctime`, or that of an attribute; with `attributes.` before it, that of an
    /// attribute in any case.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty name, and a type that the column cannot have.
    pub fn named(name: &str, cells: Option<ColumnType>) -> Result<Self> {
        if name.is_empty() || name == ATTRIBUTE {
            return Err(Error::Invalid("the name of a column is empty".into()));
        }
        let own = OWN.iter().find(|(known, ..)| *known == name);
        let time = TIMES.iter().find(|(known, _)| *known == name);
        let (content, usual) = match (own, time) {
            (Some((_, content, usual)), _) => (content.clone(), Some(*usual)),
            (_, Some((_, id))) => (ColumnContent::Attribute(Name::Id(*id)), Some(ColumnType::Time)),
            _ => {
                let attribute = attribute_of(name);
                let usual = usual_type(&attribute);
                (ColumnContent::Attribute(attribute), usual)
            }
        };
        let wanted = Self { name: name.to_owned(), content, cells: cells.or(usual) };
        match (usual, cells) {
            (Some(usual), Some(cells)) if !may_be(usual, cells) => Err(Error::Invalid(format!(
                "the column {name} has the type {}, and cannot have {}",
                usual.name(),
                cells.name()
            ))),
            _ => Ok(wanted),
        }
    }

    /// The attribute that a condition on this name is on: that of the column with this name.
    ///
    /// # Errors
    /// As [`named`](Self::named), and for what is of a record itself, with what to use instead.
    pub fn attribute_named(name: &str) -> Result<Name> {
        let instead = match Self::named(name, None)?.content {
            ColumnContent::Attribute(attribute) => return Ok(attribute),
            ColumnContent::Key | ColumnContent::Id => "records are chosen by key with prefix, start and end",
            ColumnContent::Group => "records are chosen by group with group",
            ColumnContent::Value | ColumnContent::Size | ColumnContent::Sequence | ColumnContent::Put => {
                "take it as a column of a table, and filter that"
            }
        };
        Err(Error::Invalid(format!(
            "a condition is on an attribute, and {name} is none: {instead}; an attribute that is called so is \
             {ATTRIBUTE}{name}"
        )))
    }

    /// The attribute that it is of; `None` for what is of a record itself.
    pub fn attribute(&self) -> Option<&Name> {
        match &self.content {
            ColumnContent::Attribute(name) => Some(name),
            _ => None,
        }
    }

    /// Whether it is of the values of records.
    pub fn is_value(&self) -> bool {
        self.content == ColumnContent::Value
    }

    /// Whether the index alone has what is in it.
    fn is_of_index(&self) -> bool {
        matches!(self.content, ColumnContent::Key | ColumnContent::Id | ColumnContent::Group)
    }
}

impl TableColumn {
    /// The column of an attribute, as it is called where none is asked for.
    fn of_attribute(attribute: &Name, cells: ColumnType) -> Self {
        let content = ColumnContent::Attribute(attribute.clone());
        Self { name: name_of_attribute(attribute), content, cells }
    }
}

/// What the column of an attribute is called: [`attribute_of`] finds it by that.
pub(super) fn name_of_attribute(attribute: &Name) -> String {
    if let Some((name, _)) = TIMES.iter().find(|(_, id)| Name::Id(*id) == *attribute) {
        return (*name).to_owned();
    }
    let called = attribute.to_string();
    let is_custom = matches!(attribute, Name::Text(text) if Name::known(text).is_some());
    let is_taken = is_custom
        || OWN.iter().any(|(own, ..)| *own == called)
        || TIMES.iter().any(|(time, _)| *time == called)
        || called.starts_with(ATTRIBUTE);
    let is_id = matches!(attribute, Name::Id(id) if Name::Id(*id).called().is_none());
    if is_taken || is_id { format!("{ATTRIBUTE}{called}") } else { called }
}

/// The attribute that a column is of.
fn attribute_of(column: &str) -> Name {
    let Some(called) = column.strip_prefix(ATTRIBUTE) else {
        return Name::known(column).unwrap_or_else(|| Name::Text(column.to_owned()));
    };
    match called.parse::<u8>() {
        Ok(id) if id >= OWN_IDS_MIN => Name::Id(id),
        _ => Name::Text(called.to_owned()),
    }
}

/// Numbers of attributes from this one on are the caller's own.
const OWN_IDS_MIN: u8 = 128;

/// The type of an attribute that the format defines.
fn usual_type(attribute: &Name) -> Option<ColumnType> {
    match attribute {
        Name::Id(KIND) => Some(ColumnType::Text),
        Name::Id(MODE | USER_ID | GROUP_ID | NAMES) => Some(ColumnType::U32),
        Name::Id(MTIME_NS | CTIME_NS) => Some(ColumnType::I64),
        Name::Id(INODE) => Some(ColumnType::U64),
        Name::Id(XATTRS | HOLES) => Some(ColumnType::Binary),
        _ => None,
    }
}

/// Whether what is usually of one type can be of another.
fn may_be(usual: ColumnType, other: ColumnType) -> bool {
    let is_bytes = |one| matches!(one, ColumnType::Binary | ColumnType::Text);
    is_bytes(usual) == is_bytes(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_the_names_that_they_are_given() {
        let names =
            ["label", "key", "mtime", "attributes.x", "kind", "mode"].map(|name| Name::Text(name.into()));
        let ids = [KIND, MODE, MTIME_NS, CTIME_NS, INODE, 128, 255].map(Name::Id);
        for attribute in names.into_iter().chain(ids) {
            let column = name_of_attribute(&attribute);
            let wanted = WantedColumn::named(&column, None).unwrap();
            assert_eq!(wanted.content, ColumnContent::Attribute(attribute), "{column}");
        }
        assert_eq!(WantedColumn::named("key", None).unwrap().content, ColumnContent::Key);
        assert_eq!(name_of_attribute(&Name::Text("key".into())), "attributes.key");
        assert_eq!(name_of_attribute(&Name::Id(MTIME_NS)), "mtime");
    }

    #[test]
    fn conditions_are_on_what_columns_of_attributes_are_called() {
        let named = |name| WantedColumn::attribute_named(name);
        assert_eq!(named("mtime").unwrap(), Name::Id(MTIME_NS));
        assert_eq!(named("mtime_ns").unwrap(), Name::Id(MTIME_NS));
        assert_eq!(named("attributes.key").unwrap(), Name::Text("key".into()));
        assert_eq!(named("label").unwrap(), named("attributes.label").unwrap());
        for (own, ..) in &OWN {
            let refused = named(own).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("attributes.{own}")), "{refused}");
        }
        assert!(named("").is_err());
    }

    #[test]
    fn types_have_names_and_columns_refuse_those_that_make_no_sense() {
        for (name, known) in TYPES {
            assert_eq!((ColumnType::named(name).unwrap(), known.name()), (known, name));
        }
        for wrong in ["", "float64", "Binary"] {
            assert!(ColumnType::named(wrong).is_err(), "{wrong}");
        }
        assert!(WantedColumn::named("key", Some(ColumnType::Text)).is_ok());
        assert!(WantedColumn::named("key", Some(ColumnType::U64)).is_err());
        assert!(WantedColumn::named("mode", Some(ColumnType::Text)).is_err());
        assert!(WantedColumn::named("", None).is_err() && WantedColumn::named("attributes.", None).is_err());
    }
}
