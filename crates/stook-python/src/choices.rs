//! Arguments that are strings, one of a few strings, or yes or no.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::arguments::{arguments, wrong_type};
use crate::errors::invalid;

/// The text of an argument; `None` where the type allows it. Any other type of object is refused
/// by the name of the argument.
fn argument<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
) -> PyResult<T> {
    match value.extract::<T>() {
        Err(_) if !value.is_instance_of::<PyString>() => Err(wrong_type(name, "a str", value)),
        extracted => extracted,
    }
}

/// An argument that is `True` or `False`.
fn flag(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name = name.trim_start_matches("r#");
    value.extract().map_err(|_| wrong_type(name, "True or False", value))
}

arguments! {
    argument:
        access backup cursor durability group group_by identity key mode name on_damage on_difference order
        origin overwrite prefix value
}

arguments! {
    flag -> bool:
        accept allow_extra as_file cached checksum delete deterministic dry_run even exact force ignore_case
        map mirror r#move one_file_system proofs read_back shuffle specials wait whole_file wipe with_owner
        without_names xattrs
}

/// The choice with this name. `what` names the argument in the error where there is none.
pub(crate) fn chosen<T: Copy>(what: &str, text: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
    found.ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
        let names = match names.as_slice() {
            [one, other] => format!("{one} or {other}"),
            all => format!("one of {}", all.join(", ")),
        };
        invalid(format!("{what} is {names}, not {text:?}"))
    })
}

/// The name of a choice.
pub(crate) fn name_of<T: PartialEq>(choice: &T, choices: &[(&'static str, T)]) -> &'static str {
    choices.iter().find(|(_, known)| known == choice).map_or("", |(name, _)| name)
}
