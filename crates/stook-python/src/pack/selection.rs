//! What `include`, `exclude` and `select` say: patterns, and callables that are asked about paths.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use stook::names::{Patterns, Selection};
use stook::ops::Predicate;

use crate::errors::invalid;
use crate::key::text_of;

/// Patterns and predicates, and what a callable of them raised.
pub(crate) struct Selecting {
    pub(crate) patterns: Selection,
    pub(crate) exclude: Option<Predicate<'static>>,
    pub(crate) select: Option<Predicate<'static>>,
    pub(crate) raised: Raised,
}

/// What the first callable that failed raised.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// It, if one failed.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Selecting {
    /// `include` is a list of patterns, `select` a callable, `exclude` either.
    ///
    /// # Errors
    /// One of them is something else, or a pattern is none.
    pub(crate) fn new(
        include: Option<&Bound<'_, PyAny>>,
        exclude: Option<&Bound<'_, PyAny>>,
        select: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if select.is_some_and(|select| !select.is_callable()) {
            return Err(invalid("select is called with paths, and so must be a callable"));
        }
        let raised = Raised::default();
        let called = exclude.filter(|exclude| exclude.is_callable());
        let listed = exclude.filter(|exclude| !exclude.is_callable());
        Ok(Self {
            patterns: Selection::of(patterns("include", include)?, patterns("exclude", listed)?),
            exclude: called.map(|callable| predicate(callable, &raised)),
            select: select.map(|callable| predicate(callable, &raised)),
            raised,
        })
    }
}

fn patterns(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Patterns> {
    let Some(given) = given else { return Ok(Patterns::default()) };
    // A text can be gone through, too: its characters would be patterns.
    let is_one = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    let texts = given.extract::<Vec<String>>().ok().filter(|_| !is_one).ok_or_else(|| match name {
        "exclude" => invalid("exclude is a list of patterns, or a callable that is asked about paths"),
        _ => invalid(format!("{name} is a list of patterns")),
    })?;
    Patterns::new(texts).map_err(|error| invalid(format!("{name}: {error}")))
}

fn predicate(callable: &Bound<'_, PyAny>, raised: &Raised) -> Predicate<'static> {
    let (callable, raised) = (callable.clone().unbind(), raised.clone());
    Box::new(move |path| {
        let said = Python::attach(|py| callable.call1(py, (text_of(py, path)?,))?.is_truthy(py));
        let note = |error| {
            raised.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        };
        said.map_err(note).ok()
    })
}
