//! The arguments `include`, `exclude`, `select` and `attributes`: patterns, and callables that
//! reading threads call with paths.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyString};
use stook::names::{Patterns, Selection};
use stook::ops::Predicate;
use stook::ops::contents::KeyPatterns;
use stook::pack::Attributes;
use stook::pack::tree::OwnAttributes;

use super::attributes;
use crate::arguments::shown;
use crate::errors::invalid;
use crate::key::text_of;
use crate::locks::locked;
use crate::numbers::with_prefix;

/// Patterns and predicates, and what one of the callables raised.
pub(crate) struct Selecting {
    pub(crate) patterns: Selection,
    pub(crate) exclude: Option<Predicate<'static>>,
    pub(crate) select: Option<Predicate<'static>>,
    pub(crate) raised: Raised,
}

/// The exception of the first callable that failed.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// The exception, if there is one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        locked(&self.0).take()
    }

    /// Calls a callable with a path; `None` where it raised.
    fn call<T>(
        &self,
        callable: &Py<PyAny>,
        path: &[u8],
        take: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let called = Python::attach(|py| take(callable.call1(py, (text_of(py, path)?,))?.bind(py)));
        let note = |error| {
            locked(&self.0).get_or_insert(error);
        };
        called.map_err(note).ok()
    }
}

impl Selecting {
    /// `include` is a pattern or a list of them, `select` a callable, `exclude` either.
    ///
    /// # Errors
    /// One of them has another type, or a pattern is invalid.
    pub(crate) fn new(
        include: Option<&Bound<'_, PyAny>>,
        exclude: Option<&Bound<'_, PyAny>>,
        select: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let raised = Raised::default();
        let called = exclude.filter(|exclude| exclude.is_callable());
        let listed = exclude.filter(|exclude| !exclude.is_callable());
        Ok(Self {
            patterns: Selection::of(included(include)?, patterns("exclude", listed, OR_CALLABLE)?),
            exclude: predicate("exclude", called, &raised)?,
            select: predicate("select", select, &raised)?,
            raised,
        })
    }

    /// The hook of `attributes`: called with paths, it returns a dict or `None`.
    ///
    /// # Errors
    /// It is not callable.
    pub(crate) fn attributes(
        &self,
        given: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<OwnAttributes<'static>>> {
        let Some(callable) = callable("attributes", given)? else { return Ok(None) };
        let raised = self.raised.clone();
        Ok(Some(Box::new(move |path| raised.call(&callable, path, |given| attributes_of(path, given)))))
    }
}

/// The patterns of `include` and `exclude`, where no callable is asked.
///
/// # Errors
/// One of them has another type, or a pattern is invalid.
pub(crate) fn selection(
    include: Option<&Bound<'_, PyAny>>,
    exclude: Option<&Bound<'_, PyAny>>,
) -> PyResult<Selection> {
    Ok(Selection::of(included(include)?, patterns("exclude", exclude, "")?))
}

/// Converts what the callable returned for a path.
///
/// # Errors
/// Errors name the path.
fn attributes_of(path: &[u8], given: &Bound<'_, PyAny>) -> PyResult<Attributes> {
    let attributes = match given.is_none() || given.cast::<PyMapping>().is_ok() {
        true => attributes::from_python(Some(given).filter(|given| !given.is_none())),
        false => {
            let given = given.repr()?;
            Err(PyTypeError::new_err(format!("a dict, or None, is wanted of the callable, not {given}")))
        }
    };
    let prefix = || format!("argument 'attributes', for {:?}", String::from_utf8_lossy(path));
    attributes.map_err(|error| with_prefix(given.py(), &prefix(), error))
}

/// What is included. An empty list would be everything: a program that made it found nothing.
fn included(given: Option<&Bound<'_, PyAny>>) -> PyResult<Patterns> {
    let included = patterns("include", given, "")?;
    match given {
        Some(given) if included.is_empty() => Err(no_patterns("include", given, "")),
        _ => Ok(included),
    }
}

fn patterns(name: &str, given: Option<&Bound<'_, PyAny>>, or: &str) -> PyResult<Patterns> {
    let texts = given.map_or(Ok(Vec::new()), |given| texts(name, given, or))?;
    Patterns::new(&texts).map_err(|error| invalid(format!("{name}: {error}")))
}

/// Patterns on keys: one, or several.
pub(super) fn key_patterns(name: &str, given: &Bound<'_, PyAny>) -> PyResult<KeyPatterns> {
    let texts = texts(name, given, "")?;
    if texts.is_empty() {
        return Err(no_patterns(name, given, ""));
    }
    KeyPatterns::new(&texts).map_err(|error| invalid(format!("{name}: {error}")))
}

fn texts(name: &str, given: &Bound<'_, PyAny>, or: &str) -> PyResult<Vec<String>> {
    if given.is_instance_of::<PyString>() {
        return Ok(vec![given.extract()?]);
    }
    // `bytes` is iterable, too, and its numbers would be taken for patterns.
    let several = if given.is_instance_of::<PyBytes>() { None } else { given.extract().ok() };
    several.ok_or_else(|| no_patterns(name, given, or))
}

/// What `exclude` may be, too, where callables are asked.
const OR_CALLABLE: &str = ", or a callable that is asked about paths";

fn no_patterns(name: &str, given: &Bound<'_, PyAny>, or: &str) -> PyErr {
    invalid(format!("{name} is a pattern, or a list of patterns{or}, not {}", shown(given)))
}

fn callable(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match given {
        None => Ok(None),
        Some(given) if given.is_callable() => Ok(Some(given.clone().unbind())),
        Some(given) => {
            let given = shown(given);
            Err(invalid(format!("{name} is called with paths, and so must be a callable, not {given}")))
        }
    }
}

fn predicate(
    name: &str,
    given: Option<&Bound<'_, PyAny>>,
    raised: &Raised,
) -> PyResult<Option<Predicate<'static>>> {
    let Some(callable) = callable(name, given)? else { return Ok(None) };
    let raised = raised.clone();
    Ok(Some(Box::new(move |path| raised.call(&callable, path, |said| said.is_truthy()))))
}
