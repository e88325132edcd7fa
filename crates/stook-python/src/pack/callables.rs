//! Callables of Python that select what is packed or unpacked, and describe it; threads that read call them.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};
use stook::names::{Patterns, Selection};
use stook::ops::pack::Predicate;
use stook::pack::tree::OwnAttributes;

use super::attributes;
use crate::errors::invalid;
use crate::key::text_of;

/// The first error that any of them raised.
#[derive(Default)]
pub(crate) struct Callables(Mutex<Option<PyErr>>);

impl Callables {
    /// A callable that is called with paths, or nothing.
    pub(crate) fn predicate(&self, callable: Option<Py<PyAny>>) -> Option<Predicate<'_>> {
        let callable = callable?;
        Some(Box::new(move |path| self.call(&callable, path, |said| said.is_truthy())))
    }

    /// A callable that is called with paths and gives dicts, or nothing.
    pub(crate) fn attributes(&self, callable: Option<Py<PyAny>>) -> Option<OwnAttributes<'_>> {
        let callable = callable?;
        Some(Box::new(move |path| {
            self.call(&callable, path, |given| match given.is_none() {
                true => attributes::from_python(None),
                false => attributes::from_python(Some(given.cast::<PyMapping>()?)),
            })
        }))
    }

    /// What a callable gives for a path; `None` where that raised.
    fn call<T>(
        &self,
        callable: &Py<PyAny>,
        path: &[u8],
        take: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let called = Python::attach(|py| take(callable.call1(py, (text_of(py, path)?,))?.bind(py)));
        match called {
            Ok(taken) => Some(taken),
            Err(error) => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                None
            }
        }
    }

    /// What one of them raised, if one did.
    pub(crate) fn into_error(self) -> Option<PyErr> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A callable that an argument gives, if it gives one.
pub(crate) fn callable(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match given {
        None => Ok(None),
        Some(given) if given.is_callable() => Ok(Some(given.clone().unbind())),
        Some(_) => Err(invalid(format!("{name} is called with paths, and so must be a callable"))),
    }
}

/// What `include`, `exclude` and `select` give.
pub(crate) struct Selecting {
    pub(crate) patterns: Selection,
    pub(crate) exclude: Option<Py<PyAny>>,
    pub(crate) select: Option<Py<PyAny>>,
}

impl Selecting {
    /// `include` gives patterns, `select` a callable, `exclude` either.
    pub(crate) fn new(
        include: Option<&Bound<'_, PyAny>>,
        exclude: Option<&Bound<'_, PyAny>>,
        select: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let excludes = exclude.filter(|exclude| exclude.is_callable());
        let left_out = match excludes {
            Some(_) => Patterns::default(),
            None => patterns("exclude", exclude)?,
        };
        Ok(Self {
            patterns: Selection::of(patterns("include", include)?, left_out),
            exclude: callable("exclude", excludes)?,
            select: callable("select", select)?,
        })
    }
}

/// The patterns that an argument gives: one, or several in a list.
fn patterns(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Patterns> {
    let texts: Vec<String> = match given {
        None => Vec::new(),
        Some(one) if one.is_instance_of::<PyString>() => vec![one.extract()?],
        Some(several) => several.extract()?,
    };
    Patterns::new(&texts).map_err(|error| invalid(format!("{name}: {error}")))
}
