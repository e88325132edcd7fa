//! Macros: reports of the library as data classes, read-only attributes, context managers.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Makes an object of a data class: first the fields that the report has under the same names, then
/// others.
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

/// Defines read-only attributes: name, type, and an expression of the object (`this`) and, if
/// needed, the interpreter (`py`).
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

/// Makes a class a context manager: what entering it asks of the object, and how it is left: with
/// the object, the interpreter, and whether an exception ends the block.
macro_rules! context {
    ($class:ident, |$entered:ident| $ask:expr, |$left:ident, $py:pat_param, $failed:pat_param| $leave:expr) => {
        #[pymethods]
        impl $class {
            fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
                let $entered = slf.get();
                $ask;
                Ok(slf)
            }

            #[pyo3(signature = (*exception))]
            fn __exit__(slf: Bound<'_, Self>, exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
                let failed = exception.iter().next().is_some_and(|kind| !kind.is_none());
                let ($left, $py, $failed) = (slf.get(), slf.py(), failed);
                $leave
            }
        }
    };
}

pub(crate) use context;
