//! Reports of the library as data classes of the package.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An object of a data class in a module of the package: with fields that the report has under the same names, and others.
macro_rules! report {
    (
        $py:ident, $module:literal, $class:literal,
        $report:ident { $($same:ident),* $(,)? } $(, $name:ident: $value:expr)* $(,)?
    ) => {{
        let fields = pyo3::types::PyDict::new($py);
        $(fields.set_item(stringify!($same), &$report.$same)?;)*
        $(fields.set_item(stringify!($name), $value)?;)*
        $crate::reports::make(&fields, $module, $class)
    }};
}

pub(crate) use report;

pub(crate) fn make<'py>(
    fields: &Bound<'py, PyDict>,
    module: &str,
    class: &str,
) -> PyResult<Bound<'py, PyAny>> {
    fields.py().import(module)?.getattr(class)?.call((), Some(fields))
}
