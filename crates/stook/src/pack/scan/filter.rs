//! [`RecordFilter`]: which records are meant, by what their attributes say.

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, KIND, Name, Value};
use crate::pack::list::kinds::Kinds;

/// Records of some kinds that have some attributes; made of [`Kinds`] where attributes do not
/// matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFilter {
    /// Only records of these kinds.
    pub kinds: Kinds,
    /// Only records that have each of these attributes with one of these values. Numbers are equal
    /// whatever their types.
    pub attributes: Vec<(Name, Vec<Value>)>,
}

impl From<Kinds> for RecordFilter {
    fn from(kinds: Kinds) -> Self {
        Self { kinds, attributes: Vec::new() }
    }
}

impl RecordFilter {
    /// Whether every record is meant, whatever it is.
    pub fn is_all(&self) -> bool {
        self.kinds == Kinds::ALL && self.attributes.is_empty()
    }

    /// Whether a record with these encoded attributes is meant.
    ///
    /// # Errors
    /// [`Error::Invalid`] where they are looked at and are of a form that is not known here.
    pub(super) fn takes(&self, encoded: &[u8]) -> Result<bool> {
        if !self.kinds.takes(Attributes::kind_of(encoded)) {
            return Ok(false);
        }
        if self.attributes.is_empty() {
            return Ok(true);
        }
        Ok(self.takes_attributes(&decoded(encoded)?))
    }

    /// Whether a record with these attributes is meant.
    pub(super) fn takes_attributes(&self, attributes: &Attributes) -> bool {
        self.kinds.takes(attributes.file_kind())
            && self.attributes.iter().all(|(name, wanted)| {
                // What does not say what it is, is a file.
                let file = (*name == Name::Id(KIND)).then_some(&FILE);
                let value = attributes.get(name).or(file);
                value.is_some_and(|value| wanted.iter().any(|one| is_same(one, value)))
            })
    }
}

const FILE: Value = Value::U8(FileKind::File.code());

pub(super) fn decoded(encoded: &[u8]) -> Result<Attributes> {
    Attributes::decode(encoded).map_err(|wrong| Error::Invalid(wrong.what))
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one.number(), other.number()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_has_to_have_one_of_its_values() {
        let mut attributes = Attributes::new();
        attributes.set(Name::Text("label".into()), Value::Text("cat".into()));
        attributes.set(Name::Text("width".into()), Value::U64(640));
        let encoded = attributes.encode().unwrap();
        let takes = |wanted: &[(&str, &[Value])]| {
            let wanted = wanted.iter().map(|(name, values)| {
                (Name::known(name).unwrap_or(Name::Text((*name).into())), values.to_vec())
            });
            let filter = RecordFilter { kinds: Kinds::FILES, attributes: wanted.collect() };
            filter.takes(&encoded).unwrap()
        };
        let (cat, dog) = (Value::Text("cat".into()), Value::Text("dog".into()));
        assert!(
            takes(&[("label", std::slice::from_ref(&cat))])
                && takes(&[("label", &[dog.clone(), cat.clone()])])
        );
        assert!(!takes(&[("label", std::slice::from_ref(&dog))]) && !takes(&[("label", &[])]));
        assert!(takes(&[("label", std::slice::from_ref(&cat)), ("width", &[Value::I64(640)])]));
        assert!(!takes(&[("label", &[cat]), ("width", &[Value::I64(641)])]));
        assert!(
            !takes(&[("none", &[Value::U64(0)])]) && !takes(&[("label", &[Value::Bytes(b"cat".into())])])
        );
        assert!(takes(&[("kind", &[Value::U8(1)])]) && !takes(&[("kind", &[Value::U8(2)])]));
    }

    #[test]
    fn what_is_not_attributes_is_an_error_where_they_are_asked_for() {
        let filter = RecordFilter { kinds: Kinds::FILES, attributes: vec![(Name::Text("a".into()), vec![])] };
        assert!(matches!(filter.takes(&[1, 9, 1]), Err(Error::Invalid(_))));
        assert!(RecordFilter::from(Kinds::FILES).takes(&[1, 9, 1]).unwrap());
        assert!(RecordFilter::from(Kinds::ALL).is_all() && !filter.is_all());
    }
}
