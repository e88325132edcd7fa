//! Which columns a table has, and of which types: what is asked for, completed by what the records
//! of the first batch have.

use super::draft::TableDraft;
use super::survey::each_head;
use super::{ColumnContent, ColumnType, OWN, TableColumn, WantedColumn, name_of_attribute, usual_type};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Name, Value};
use crate::pack::key::{Key, KeyValue};
use crate::pack::read::record::RecordHead;
use crate::pack::scan::Stop;
use crate::pack::state::open::Pack;

/// The columns that are asked for. Where no record is selected, `elsewhere` gives the type that an
/// attribute has in others.
pub(super) fn of_wanted(
    wanted: &[WantedColumn],
    first: &TableDraft,
    elsewhere: &mut dyn FnMut(&Name) -> Result<Option<ColumnType>>,
) -> Result<Vec<TableColumn>> {
    let mut column = |wanted: &WantedColumn| {
        let WantedColumn { name, content, cells } = wanted.clone();
        let cells = match (cells, &content) {
            (Some(cells), _) => cells,
            (None, ColumnContent::Attribute(attribute)) => {
                let found = match first.heads.is_empty() {
                    true => elsewhere(attribute)?,
                    false => attribute_type(attribute, first)?,
                };
                found.ok_or_else(|| no_type(attribute, &name, first.heads.len()))?
            }
            (None, _) => ColumnType::Binary,
        };
        Ok(TableColumn { name, content, cells })
    };
    wanted.iter().map(&mut column).collect()
}

/// That none of the records has an attribute by which its column would have a type: of those of the
/// pack, where none is selected.
fn no_type(attribute: &Name, column: &str, records: usize) -> Error {
    let whose = match records {
        0 => "no record of this pack".to_owned(),
        many => format!("none of the first {many} records"),
    };
    Error::Invalid(format!(
        "{whose} has the attribute {attribute}: is it misspelt? Else give the column {column} a type"
    ))
}

/// The type that an attribute has in any record of a pack; that of bytes in a pack without records.
pub(super) fn type_elsewhere(attribute: &Name, pack: &Pack, stop: Stop) -> Result<Option<ColumnType>> {
    let mut found = None;
    let looked_at = each_head(pack, stop, &mut |attributes| {
        found = attributes.get(attribute).map(type_of);
        found.is_none()
    })?;
    Ok(found.or((looked_at.records == 0).then_some(ColumnType::Binary)))
}

/// The columns where none are asked for: key and value, the group where there are several, and the
/// attributes that the first records have.
pub(super) fn of_records(first: &TableDraft, has_groups: bool) -> Result<Vec<TableColumn>> {
    let is_id = |head: &RecordHead| matches!(head.key.value(), KeyValue::Id(_));
    let has_ids = first.heads.iter().any(is_id);
    let has_keys = first.heads.iter().any(|head| !is_id(head)) || first.heads.is_empty();
    let own = OWN.iter().filter(|(_, content, _)| match content {
        ColumnContent::Key => has_keys,
        ColumnContent::Id => has_ids,
        ColumnContent::Value => true,
        ColumnContent::Group => has_groups,
        _ => false,
    });
    let own = own.map(|(name, content, cells)| TableColumn {
        name: (*name).to_owned(),
        content: content.clone(),
        cells: *cells,
    });
    let mut columns: Vec<TableColumn> = own.collect();
    for attribute in attributes_of(first) {
        let usual = WantedColumn::named(&name_of_attribute(&attribute), None)?.cells;
        let cells = match usual {
            Some(usual) => usual,
            None => attribute_type(&attribute, first)?.unwrap_or(ColumnType::Binary),
        };
        columns.push(TableColumn::of_attribute(&attribute, cells));
    }
    Ok(columns)
}

/// The attributes of the records: first those that the format defines, then others as they occur.
fn attributes_of(first: &TableDraft) -> Vec<Name> {
    let mut known: Vec<Name> = Vec::new();
    for head in &first.heads {
        for (name, _) in head.attributes.iter() {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
    known.sort_by_key(|name| match name {
        Name::Id(id) => *id,
        Name::Text(_) => u8::MAX,
    });
    known
}

/// The type of an attribute by the values that it has; `None` where no record has it.
fn attribute_type(attribute: &Name, first: &TableDraft) -> Result<Option<ColumnType>> {
    if let Some(usual) = usual_type(attribute) {
        return Ok(Some(usual));
    }
    let mut found: Option<(ColumnType, &Key)> = None;
    for head in &first.heads {
        let Some(value) = head.attributes.get(attribute) else { continue };
        let one = type_of(value);
        let (both, key) = match found {
            None => (one, &head.key),
            Some((before, key)) if before == one => (before, key),
            Some((ColumnType::U64 | ColumnType::I64, key)) if value.number().is_some() => {
                (ColumnType::U64, key)
            }
            Some((before, key)) => {
                return Err(Error::Invalid(format!(
                    "the attribute {attribute} has the type {} in {key} and {} in {}: give its column a type",
                    before.name(),
                    one.name(),
                    head.key
                )));
            }
        };
        found = Some((both, key));
    }
    Ok(found.map(|(cells, _)| cells))
}

/// Numbers are signed unless one is too large for that.
fn type_of(value: &Value) -> ColumnType {
    match value {
        Value::Text(_) => ColumnType::Text,
        Value::Bytes(_) => ColumnType::Binary,
        number => match number.number().map(i64::try_from) {
            Some(Err(_)) => ColumnType::U64,
            _ => ColumnType::I64,
        },
    }
}

/// Refuses a record that has what no column is of, where none were asked for.
pub(super) fn check_known(head: &RecordHead, known: &[ColumnContent]) -> Result<()> {
    let has = |content: &ColumnContent| known.contains(content);
    let refused = |what: String| {
        Error::Invalid(format!(
            "{} {what}, and none of the first records has one: name the columns that are wanted (columns=)",
            head.key
        ))
    };
    let (key, called) = match head.key.value() {
        KeyValue::Id(_) => (ColumnContent::Id, "has a number as its key"),
        KeyValue::Bytes(_) => (ColumnContent::Key, "has a byte string as its key"),
    };
    if !has(&key) {
        return Err(refused(called.to_owned()));
    }
    for (name, _) in head.attributes.iter() {
        if !has(&ColumnContent::Attribute(name.clone())) {
            return Err(refused(format!("has the attribute {name}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::format::attributes::Attributes;

    fn draft(values: &[Value]) -> TableDraft {
        let mut draft = TableDraft::default();
        for (number, value) in values.iter().enumerate() {
            let mut attributes = Attributes::new();
            attributes.set(Name::Text("a".into()), value.clone());
            let key = Key::id(number as u64);
            let head = RecordHead {
                key,
                attributes,
                body_len: None,
                sequence: 0,
                time_ns: 0,
                segment: 0,
                offset: 0,
            };
            draft.push(head, 0, false);
        }
        draft
    }

    #[test]
    fn the_type_of_an_attribute_is_one_that_all_its_values_have() {
        let of = |values: &[Value]| attribute_type(&Name::Text("a".into()), &draft(values));
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[Value::U64(1), Value::I64(-1)]).unwrap(), Some(ColumnType::I64));
        assert_eq!(of(&[Value::U8(1), Value::U64(u64::MAX), Value::U8(1)]).unwrap(), Some(ColumnType::U64));
        assert_eq!(of(&[Value::Text("x".into())]).unwrap(), Some(ColumnType::Text));
        assert_eq!(of(&[Value::Bytes(vec![1])]).unwrap(), Some(ColumnType::Binary));
        for values in
            [[Value::U64(1), Value::Text("x".into())], [Value::Bytes(vec![]), Value::Text("x".into())]]
        {
            assert!(of(&values).unwrap_err().to_string().contains("give its column a type"));
        }
    }

    #[test]
    fn what_the_first_records_lack_is_refused_later() {
        let columns = of_records(&draft(&[Value::U64(1)]), false).unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["id", "value", "a"]);
        let columns: Vec<ColumnContent> = columns.into_iter().map(|column| column.content).collect();
        let mut head = draft(&[Value::U64(2)]).heads.remove(0);
        check_known(&head, &columns).unwrap();
        head.attributes.set(Name::Text("b".into()), Value::U64(1));
        assert!(check_known(&head, &columns).unwrap_err().to_string().contains("has the attribute b"));
        let other = RecordHead { key: Key::bytes("k").unwrap(), attributes: Attributes::new(), ..head };
        assert!(check_known(&other, &columns).unwrap_err().to_string().contains("k has a byte string"));
    }
}
