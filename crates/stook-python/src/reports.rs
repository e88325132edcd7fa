//! Reports of the library as data classes of the package, and attributes that only show what it
//! knows.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An object of a data class of the package: first the fields that the report has under the same
/// names, then others.
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

/// Attributes of a class that can only be read: each with its type, and how it is got from the
/// object, as `this`, and the interpreter where that is needed.
macro_rules! getters {
    ($class:ident { $(
        $(#[$($doc:tt)*])*
        $name:ident: $type:ty = |$this:ident $(, $py:ident)?| $value:expr;
    )* }) => {
        #[pymethods]
        impl $class {
            $(
                $(#[$($doc)*])*
                #[getter]
                fn $name(slf: Bound<'_, Self>) -> $type {
                    let $this = slf.get();
                    $(let $py = slf.py();)?
                    $value
                }
            )*
        }
    };
}

pub(crate) use getters;
