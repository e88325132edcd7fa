//! How packs are opened: what the arguments of `Pack` say.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};
use stook::ops::pack::{Making, open_writer};
use stook::pack::{self, AccessRule, Durability, MapRule, OpenOptions, PackWriter, WriterOptions};
use stook::report::time::parse_time;
use stook::storage::Storage;

use crate::choices::{chosen, name_of};
use crate::errors::{OrRaise as _, invalid, plain};

/// What may be done with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `r`: it is read, as it was when it was opened.
    Read,
    /// `r+`: it is read and written, and must be there.
    Change,
    /// `a`: the same, and made if it is not there.
    Append,
    /// `x`: the same, and must not be there.
    Create,
}

impl Mode {
    const ALL: [(&str, Self); 4] =
        [("r", Self::Read), ("r+", Self::Change), ("a", Self::Append), ("x", Self::Create)];

    pub(crate) fn parse(mode: &str) -> PyResult<Self> {
        chosen("the mode", mode, &Self::ALL)
    }

    pub(crate) fn as_str(self) -> &'static str {
        name_of(&self, &Self::ALL)
    }
}

/// The arguments of `Pack`.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) at_ns: Option<i64>,
    pub(crate) generation: Option<u64>,
    pub(crate) map: bool,
    pub(crate) access: AccessRule,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    /// Where the writer writes, once there is one.
    pub(crate) written: Option<Arc<dyn Storage>>,
}

/// How reads go: by rule, past the page cache, through it.
pub(crate) const ACCESS: [(&str, AccessRule); 3] =
    [("auto", AccessRule::Auto), ("direct", AccessRule::Direct), ("cached", AccessRule::Cached)];

/// When puts are durable: `"close"`, `"put"`, or seconds.
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

/// A time: a `datetime`, a text as the command line takes it, nanoseconds as an int, or seconds as
/// a float.
pub(crate) fn time_ns_of(at: &Bound<'_, PyAny>) -> PyResult<i64> {
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
        return whole_ns(at).map_err(|_| PyTypeError::new_err(wanted));
    };
    let seconds = seconds.extract::<f64>()?;
    let ns = seconds * 1e9;
    match ns.is_finite() && ns.abs() < i64::MAX as f64 {
        true => Ok(ns as i64),
        false => Err(invalid(format!("{seconds} is no time that a pack can have"))),
    }
}

/// Where there is no state at a time that is an int: that it was taken for nanoseconds.
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

/// A `datetime` to its last microsecond; a float would have lost some.
fn whole_ns(at: &Bound<'_, PyAny>) -> PyResult<i64> {
    let seconds: f64 = at.call_method0("timestamp")?.extract()?;
    let micros: i64 = at.getattr("microsecond")?.extract()?;
    Ok(((seconds - micros as f64 * 1e-6).round() as i64) * 1_000_000_000 + micros * 1000)
}

impl Settings {
    /// Opens the pack for reading.
    pub(crate) fn open_reader(&self) -> pack::Result<pack::Pack> {
        let options = OpenOptions {
            access: self.access,
            generation: self.generation,
            at_ns: self.at_ns,
            map: if self.map { MapRule::Sealed } else { MapRule::Never },
            ..OpenOptions::default()
        };
        match &self.written {
            // The same directory as the writer's, whatever has its path by now.
            Some(storage) => pack::Pack::open(storage.clone(), options),
            None => pack::Pack::open_path(&self.path, options),
        }
    }

    /// Opens the pack for writing, or makes it. Readers that are opened from then on read the same
    /// directory.
    pub(crate) fn open_writer(&mut self) -> PyResult<PackWriter> {
        if self.at_ns.is_some() || self.generation.is_some() {
            return Err(invalid("a state of the past can only be read: mode 'r'"));
        }
        let writing = WriterOptions {
            durability: self.durability,
            segment_len: self.segment_bytes,
            ..WriterOptions::default()
        };
        // Before anything is made.
        writing.check().map_err(|error| plain("LimitError", format!("segment_bytes: {error}")))?;
        let making = match self.mode {
            Mode::Read | Mode::Change => Making::Never,
            Mode::Append => Making::IfMissing,
            Mode::Create => Making::Always,
        };
        let opened = open_writer(&self.path, writing, making).or_raise()?;
        self.written = Some(opened.storage);
        Ok(opened.writer)
    }
}
