//! [`RecordFilter`]: which records are meant, by what their attributes say; and [`FilterWalk`],
//! which finds out whether its conditions can be meant at all.

use super::Stop;
use super::columns::{each_head, name_of_attribute};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, KIND, Name, Value};
use crate::pack::list::kinds::Kinds;
use crate::pack::state::open::Pack;

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

    /// Refuses conditions that no record can meet: one without a value, and a kind of file that is
    /// left out anyway.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the attribute.
    pub fn check(&self) -> Result<()> {
        for (name, wanted) in &self.attributes {
            if wanted.is_empty() {
                let name = name_of_attribute(name);
                return Err(Error::Invalid(format!(
                    "the condition on {name} has one value, or several, not none: nothing would be taken"
                )));
            }
            let kind =
                |value: &Value| value.number().and_then(|code| FileKind::from_code(code.try_into().ok()?));
            if *name == Name::Id(KIND) && !wanted.iter().any(|value| self.kinds.takes(kind(value))) {
                let kinds: Vec<&str> = wanted.iter().filter_map(kind).map(FileKind::as_str).collect();
                return Err(Error::Invalid(format!(
                    "the condition on kind wants {}, which is left out by kinds: choose that, or all, by kinds",
                    kinds.join(" or ")
                )));
            }
        }
        Ok(())
    }

    fn takes_attributes(&self, attributes: &Attributes) -> bool {
        self.kinds.takes(attributes.file_kind())
            && self.attributes.iter().all(|(name, wanted)| {
                let value = value_in(attributes, name);
                value.is_some_and(|value| wanted.iter().any(|one| is_same(one, value)))
            })
    }
}

/// A filter while records are looked at. It notes which of its conditions were about something: a
/// name that no record has, or a value of a type that it never has, would select nothing in
/// silence.
#[derive(Debug, Clone)]
pub(super) struct FilterWalk {
    filter: RecordFilter,
    met: Vec<ConditionFit>,
    /// Conditions that were not met.
    unmet: usize,
}

/// What records said of the attribute of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionFit {
    /// None had it.
    Nothing,
    /// What it was where there was one, and none of the type of a value that is wanted.
    OtherType(&'static str),
    /// A value of a type that is wanted.
    Fitting,
}

impl FilterWalk {
    pub(super) fn new(filter: RecordFilter) -> Self {
        let unmet = filter.attributes.len();
        Self { met: vec![ConditionFit::Nothing; unmet], unmet, filter }
    }

    /// Whether every record is meant, whatever it is.
    pub(super) fn is_all(&self) -> bool {
        self.filter.is_all()
    }

    pub(super) fn kinds(&self) -> Kinds {
        self.filter.kinds
    }

    /// Whether attributes other than kinds matter.
    pub(super) fn has_conditions(&self) -> bool {
        !self.filter.attributes.is_empty()
    }

    /// Whether a record with these encoded attributes is meant.
    ///
    /// # Errors
    /// [`Error::Invalid`] where they are looked at and are of a form that is not known here.
    pub(super) fn takes(&mut self, encoded: &[u8]) -> Result<bool> {
        if !self.filter.kinds.takes(Attributes::kind_of(encoded)) {
            return Ok(false);
        }
        if self.filter.attributes.is_empty() {
            return Ok(true);
        }
        Ok(self.takes_attributes(&decoded(encoded)?))
    }

    /// Whether a record with these attributes is meant.
    pub(super) fn takes_attributes(&mut self, attributes: &Attributes) -> bool {
        self.note(attributes);
        self.filter.takes_attributes(attributes)
    }

    fn note(&mut self, attributes: &Attributes) {
        if self.unmet == 0 {
            return;
        }
        for (met, (name, wanted)) in self.met.iter_mut().zip(&self.filter.attributes) {
            let Some(value) = value_in(attributes, name).filter(|_| *met != ConditionFit::Fitting) else {
                continue;
            };
            *met = match wanted.iter().any(|one| called(one) == called(value)) {
                true => ConditionFit::Fitting,
                false => ConditionFit::OtherType(called(value)),
            };
            self.unmet -= usize::from(*met == ConditionFit::Fitting);
        }
    }

    /// Asked once nothing is left to look at. Where some condition was not met, all records of the
    /// pack are looked at until they are: what was looked at may have been a part of it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a condition on an attribute that no record of the pack has, or that
    /// has values of other types only; what reading meets. Where damage may hide a record that has
    /// it there is none.
    pub(super) fn check_met(&self, pack: &Pack, stop: Stop) -> Result<()> {
        if self.unmet == 0 {
            return Ok(());
        }
        let mut all = self.clone();
        let looked_at = each_head(pack, stop, &mut |attributes| {
            all.note(attributes);
            all.unmet > 0
        })?;
        match looked_at.is_all {
            true if looked_at.records > 0 => all.refusal(),
            _ => Ok(()),
        }
    }

    fn refusal(&self) -> Result<()> {
        for (met, (name, wanted)) in self.met.iter().zip(&self.filter.attributes) {
            let name = name_of_attribute(name);
            let text = match met {
                ConditionFit::Fitting => continue,
                ConditionFit::Nothing => {
                    format!("no record of this pack has the attribute {name}, on which there is a condition")
                }
                ConditionFit::OtherType(found) => {
                    let wanted = wanted.first().map_or("", called);
                    format!("the condition on {name} wants {wanted}, and records have {found} there")
                }
            };
            return Err(Error::Invalid(text));
        }
        Ok(())
    }
}

const FILE: Value = Value::U8(FileKind::File.code());

/// What a record has under a name. What does not say what it is, is a file.
fn value_in<'a>(attributes: &'a Attributes, name: &Name) -> Option<&'a Value> {
    attributes.get(name).or((*name == Name::Id(KIND)).then_some(&FILE))
}

/// What values of this type are called.
fn called(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytes",
        _ => "a number",
    }
}

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
            FilterWalk::new(filter).takes(&encoded).unwrap()
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
        assert!(RecordFilter::from(Kinds::ALL).is_all() && !filter.is_all());
        assert!(matches!(FilterWalk::new(filter).takes(&[1, 9, 1]), Err(Error::Invalid(_))));
        assert!(FilterWalk::new(Kinds::FILES.into()).takes(&[1, 9, 1]).unwrap());
    }

    #[test]
    fn what_no_record_can_meet_is_refused_at_once() {
        let text = |text: &str| Value::Text(text.into());
        let checked = |kinds, name, wanted: Vec<Value>| {
            let attributes = vec![(name, wanted)];
            RecordFilter { kinds, attributes }.check().map_err(|error| error.to_string())
        };
        let label = || Name::Text("label".into());
        assert!(checked(Kinds::FILES, label(), vec![]).unwrap_err().contains("the condition on label"));
        checked(Kinds::FILES, label(), vec![text("cat")]).unwrap();
        let (link, directory) = (Value::U8(FileKind::HardLink.code()), Value::U8(FileKind::Directory.code()));
        checked(Kinds::FILES, Name::Id(KIND), vec![directory.clone(), link]).unwrap();
        checked(Kinds::ALL, Name::Id(KIND), vec![directory.clone()]).unwrap();
        let refused = checked(Kinds::FILES, Name::Id(KIND), vec![directory]).unwrap_err();
        assert!(refused.contains("wants directory"), "{refused}");
    }

    #[test]
    fn a_walk_knows_which_conditions_were_about_something() {
        let wanted =
            [("label", Value::Text("cat".into())), ("width", Value::U64(7)), ("none", Value::U64(7))];
        let attributes = wanted.into_iter().map(|(name, value)| (Name::Text(name.into()), vec![value]));
        let mut walk = FilterWalk::new(RecordFilter { kinds: Kinds::ALL, attributes: attributes.collect() });
        let mut attributes = Attributes::new();
        attributes.set(Name::Text("label".into()), Value::Text("dog".into()));
        attributes.set(Name::Text("width".into()), Value::Text("7".into()));
        assert!(!walk.takes_attributes(&attributes));
        assert_eq!(
            (&walk.met[..], walk.unmet),
            (&[ConditionFit::Fitting, ConditionFit::OtherType("text"), ConditionFit::Nothing][..], 2)
        );
        assert!(
            walk.refusal()
                .unwrap_err()
                .to_string()
                .contains("on width wants a number, and records have text")
        );
        attributes.set(Name::Text("width".into()), Value::U8(3));
        walk.takes_attributes(&attributes);
        assert!(
            walk.refusal().unwrap_err().to_string().contains("no record of this pack has the attribute none")
        );
        attributes.set(Name::Text("none".into()), Value::I64(-3));
        walk.takes_attributes(&attributes);
        assert_eq!(walk.unmet, 0);
        walk.refusal().unwrap();
    }
}
