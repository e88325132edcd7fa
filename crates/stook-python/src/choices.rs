//! Arguments that are one of a few texts.

use pyo3::prelude::*;

use crate::errors::invalid;

/// What a text stands for. `what` names the argument where it is none of the choices.
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

/// The text that stands for a choice.
pub(crate) fn name_of<T: PartialEq>(choice: &T, choices: &[(&'static str, T)]) -> &'static str {
    choices.iter().find(|(_, known)| known == choice).map_or("", |(name, _)| name)
}
