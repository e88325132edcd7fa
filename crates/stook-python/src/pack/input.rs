//! What `Pack.put_file` reads: a file of the system, or an object of Python with `read`.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use pyo3::prelude::*;
use stook::pack::Attributes;
use stook::pack::input::{self, Body};

use crate::errors::{OrRaise as _, is_directory};
use crate::memory::Given;
use crate::paths;

/// What is read.
pub(super) enum Input {
    Path(PathBuf),
    Object(Py<PyAny>),
}

/// A stream that calls `read` of an object.
struct Stream<'a>(&'a Py<PyAny>);

impl Read for Stream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = Python::attach(|py| {
            let given = self.0.bind(py).call_method1("read", (out.len(),))?;
            let given = Given::new(&given)?;
            let bytes = given.as_slice();
            // More than was asked for is refused by the caller.
            if let Some(out) = out.get_mut(..bytes.len()) {
                out.copy_from_slice(bytes);
            }
            PyResult::Ok(bytes.len())
        });
        read.map_err(io::Error::other)
    }
}

impl Input {
    /// The argument `file`.
    pub(super) fn new(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        match file.hasattr("read")? {
            true => Ok(Self::Object(file.clone().unbind())),
            false => Ok(Self::Path(paths::argument("file", file)?)),
        }
    }

    /// Passes the body to `put`, with the attributes of the file and, before them, those that were
    /// given.
    pub(super) fn with_body<T>(
        &self,
        given: Attributes,
        put: impl FnOnce(Body<'_>, &Attributes) -> PyResult<T>,
    ) -> PyResult<T> {
        let path = match self {
            Self::Object(object) => return put(Body::Stream(&mut Stream(object), "the file".into()), &given),
            Self::Path(path) => path,
        };
        let mut opened =
            File::open(path).map_err(|error| stook::Error::io("open", path, error)).or_raise()?;
        match input::Input::of(&opened, path).or_raise()? {
            input::Input::File(file) => {
                let mut attributes = file.attributes().clone();
                given.iter().for_each(|(name, value)| attributes.set(name.clone(), value.clone()));
                put(Body::File(file), &attributes)
            }
            input::Input::Stream => put(Body::Stream(&mut opened, path.display().to_string()), &given),
            input::Input::Directory => Err(is_directory(path)),
        }
    }
}
