//! Arguments that are texts, or one of a few texts.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::invalid;

/// The text that an argument says, if it says any; the name of the argument is reported where it is
/// no text.
fn argument(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(Some(text.to_str()?.to_owned())),
        Err(_) if value.is_none() => Ok(None),
        Err(_) => {
            let given = value.get_type().name()?;
            Err(PyTypeError::new_err(format!("argument '{name}': a str is wanted, not {given}")))
        }
    }
}

/// What converts arguments by their names: `from_py_with` is not told which one it converts.
macro_rules! arguments {
    ($($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
            argument(stringify!($name), value)
        }
    )+};
}

arguments! {
    group
    group_by
}

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
