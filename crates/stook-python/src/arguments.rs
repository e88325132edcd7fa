//! Converters of arguments, and errors of arguments: each has the name of the argument, what was
//! given, and what is wanted. The name that PyO3 adds is a note, which Python before 3.11 lacks.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::numbers::named;

/// The exception for an argument of a type that it cannot have.
pub(crate) fn wrong_type(name: &str, wanted: &str, given: &Bound<'_, PyAny>) -> PyErr {
    match given.get_type().name() {
        Ok(given) => PyTypeError::new_err(format!("argument '{name}': {wanted} is wanted, not {given}")),
        Err(error) => error,
    }
}

/// What an argument gives, one after another.
pub(crate) fn iter_of<'py>(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    given.try_iter().map_err(|error| named(given.py(), name, error))
}

/// What was given, shortened, as errors show it.
pub(crate) fn shown(given: &Bound<'_, PyAny>) -> String {
    let short = || given.py().import("reprlib")?.call_method1("repr", (given,))?.extract();
    short().unwrap_or_else(|_| "that".to_owned())
}

/// Functions for `from_py_with`, each named as the argument that it converts: PyO3 does not pass
/// the name on.
macro_rules! arguments {
    ($argument:ident -> $type:ty: $($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$type> {
            $argument(stringify!($name), value)
        }
    )+};
    ($argument:ident: $($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>>(
            value: &'a Bound<'py, PyAny>,
        ) -> PyResult<T> {
            $argument(stringify!($name), value)
        }
    )+};
}

pub(crate) use arguments;
