//! Opening packs: the arguments of `Pack`.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat};
use stook::ops::pack::Making;
use stook::ops::session::Settings;
use stook::pack::{AccessRule, Durability, OpenOptions};
use stook::report::time::parse_time;

use super::pack::Pack;
use crate::arguments::shown;
use crate::choices::name_of;
use crate::errors::invalid;
use crate::numbers::named;

/// How a pack is opened: `r` reads, and shows the state at opening; all others read and write.
pub(crate) const MODES: [(&str, Option<Making>); 4] =
    [("r", None), ("r+", Some(Making::Never)), ("a", Some(Making::IfMissing)), ("x", Some(Making::Always))];

/// The choices of the argument `access`.
pub(crate) const ACCESS: [(&str, AccessRule); 3] =
    [("auto", AccessRule::Auto), ("direct", AccessRule::Direct), ("cached", AccessRule::Cached)];

/// Parses `durability`: `"sync"`, `"put"`, or seconds.
pub(crate) fn durability_of(durability: &Bound<'_, PyAny>) -> PyResult<Durability> {
    let wrong =
        || invalid(format!("durability is 'sync', 'put', or a number of seconds above 0, not {durability}"));
    if let Ok(name) = durability.extract::<String>() {
        return match name.as_str() {
            "sync" => Ok(Durability::Explicit),
            "put" => Ok(Durability::Every),
            _ => Err(wrong()),
        };
    }
    let seconds = durability.extract::<f64>().map_err(|_| wrong())?;
    let interval = Duration::try_from_secs_f64(seconds).ok().filter(|interval| !interval.is_zero());
    interval.map(Durability::Interval).ok_or_else(wrong)
}

/// Parses the argument `at`.
pub(crate) fn at_ns_of(at: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
    at.map(|at| time_ns_of(at).map_err(|error| named(at.py(), "at", error))).transpose()
}

/// Parses a time: a `datetime`, a text as on the command line, an int of nanoseconds or a float of
/// seconds.
fn time_ns_of(at: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(text) = at.extract::<String>() {
        return parse_time(&text).map_err(|error| invalid(error.to_string()));
    }
    if !at.is_instance_of::<PyBool>()
        && let Ok(ns) = at.extract::<i64>()
    {
        return Ok(ns);
    }
    let Ok(seconds) = at.cast::<PyFloat>() else {
        let wanted = "a time is a datetime, a text like 2026-11-21T20:30:00Z, a float of seconds or an int of nanoseconds since 1970";
        return whole_ns(at).map_err(|_| PyTypeError::new_err(format!("{wanted}, not {}", shown(at))));
    };
    let seconds = seconds.extract::<f64>()?;
    let ns = seconds * 1e9;
    match ns.is_finite() && ns.abs() < i64::MAX as f64 {
        true => Ok(ns as i64),
        false => Err(invalid(format!("{seconds} is no time that a pack can have"))),
    }
}

/// Adds a hint to a `NoSuchStateError` where `at` is an int: it counts nanoseconds.
pub(crate) fn with_time_hint(at: Option<&Bound<'_, PyAny>>, error: PyErr) -> PyErr {
    let Some(at) = at else { return error };
    let hinted = || -> PyResult<PyErr> {
        let class = at.py().import("stook._errors")?.getattr("NoSuchStateError")?;
        if at.extract::<i64>().is_err() || !error.value(at.py()).is_instance(&class)? {
            return Ok(error.clone_ref(at.py()));
        }
        let hint = "an int is nanoseconds; give a float of seconds, a datetime or ISO text";
        Ok(PyErr::from_value(class.call1((format!("{}; {hint}", error.value(at.py())),))?))
    };
    hinted().unwrap_or_else(|error| error)
}

/// A `datetime` in nanoseconds. Its microseconds are taken apart, because a float would round them.
fn whole_ns(at: &Bound<'_, PyAny>) -> PyResult<i64> {
    let seconds: f64 = at.call_method0("timestamp")?.extract()?;
    let micros: i64 = at.getattr("microsecond")?.extract()?;
    Ok(((seconds - micros as f64 * 1e-6).round() as i64) * 1_000_000_000 + micros * 1000)
}

/// A function without arguments that opens the pack for reading, in another process, too: its
/// newest state, unless an earlier one was asked for.
pub(crate) fn recipe<'py>(py: Python<'py>, settings: &Settings) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    let OpenOptions { at_ns, generation, access, .. } = settings.reading;
    options.set_item("at", at_ns)?;
    options.set_item("generation", generation)?;
    options.set_item("map", settings.is_mapped())?;
    options.set_item("access", name_of(&access, &ACCESS))?;
    let path = std::path::absolute(&settings.path)?;
    let open = (py.get_type::<Pack>(), path.into_os_string(), "r");
    py.import("functools")?.getattr("partial")?.call(open, Some(&options))
}
