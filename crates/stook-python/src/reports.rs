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

/// Makes a context manager one of asyncio, too, which is left in a thread: what ends it may wait
/// for the medium.
macro_rules! async_context {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                let entered = slf.call_method0("__enter__")?;
                slf.py().import("stook._aio")?.call_method1("given", (entered,))
            }

            #[pyo3(signature = (*exception))]
            fn __aexit__<'py>(
                slf: &Bound<'py, Self>,
                exception: &Bound<'py, pyo3::types::PyTuple>,
            ) -> PyResult<Bound<'py, PyAny>> {
                slf.py().import("stook._aio")?.call_method1("left", (slf.getattr("__exit__")?, exception))
            }
        }
    };
}

pub(crate) use async_context;

/// Makes an iterator one of asyncio, too: what its `ready` gives comes at once, and everything
/// else is waited for in a thread.
macro_rules! async_iterator {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                slf.py().import("stook._aio")?.getattr("Coming")?.call1((slf,))
            }
        }
    };
}

pub(crate) use async_iterator;
