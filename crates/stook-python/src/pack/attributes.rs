//! Attributes of records as a dict.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyMapping, PyString};
use stook::pack::Attributes;
use stook::pack::format::attributes::{
    CTIME_NS, GROUP_ID, INODE, KIND, MODE, MTIME_NS, NAMES, Name, USER_ID, Value,
};

use super::kinds;
use crate::errors::invalid;

/// Numbers that the format defines, and what they are called here.
const KNOWN: [(u8, &str); 8] = [
    (KIND, "kind"),
    (MODE, "mode"),
    (MTIME_NS, "mtime_ns"),
    (USER_ID, "user_id"),
    (GROUP_ID, "group_id"),
    (NAMES, "names"),
    (CTIME_NS, "ctime_ns"),
    (INODE, "inode"),
];

/// The dict of attributes.
pub(crate) fn to_python<'py>(py: Python<'py>, attributes: &Attributes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in attributes.iter() {
        let name = match name {
            // What the format defines is what its name means, wherever a text has the same.
            Name::Text(text) if known_of(text).is_some_and(|id| attributes.get(&id).is_some()) => continue,
            Name::Text(text) => text.into_pyobject(py)?.into_any(),
            Name::Id(id) => match KNOWN.iter().find(|(known, _)| known == id) {
                Some((_, name)) => name.into_pyobject(py)?.into_any(),
                None => id.into_pyobject(py)?.into_any(),
            },
        };
        dict.set_item(name, value_to_python(py, value)?)?;
    }
    if let Some(kind) = attributes.file_kind()
        && let Some((_, name)) = kinds::NAMES.iter().find(|(known, _)| *known == kind)
    {
        dict.set_item("kind", name)?;
    }
    Ok(dict)
}

/// What the format calls a name that it defines.
fn known_of(text: &str) -> Option<Name> {
    KNOWN.iter().find(|(_, known)| *known == text).map(|(id, _)| Name::Id(*id))
}

fn value_to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::U64(number) => number.into_pyobject(py)?.into_any(),
        Value::I64(number) => number.into_pyobject(py)?.into_any(),
        Value::U32(number) => number.into_pyobject(py)?.into_any(),
        Value::U8(number) => number.into_pyobject(py)?.into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
    })
}

/// The attributes that a dict says.
pub(crate) fn from_python(mapping: Option<&Bound<'_, PyMapping>>) -> PyResult<Attributes> {
    let mut attributes = Attributes::new();
    let Some(mapping) = mapping else { return Ok(attributes) };
    for pair in mapping.items()? {
        let (name, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let name = name_of(&name)?;
        let value = value_of(&name, &value)?;
        attributes.set(name, value);
    }
    Ok(attributes)
}

fn name_of(name: &Bound<'_, PyAny>) -> PyResult<Name> {
    if let Ok(text) = name.extract::<String>() {
        return Ok(known_of(&text).unwrap_or(Name::Text(text)));
    }
    match name.extract::<u8>() {
        Ok(id) if id >= 128 => Ok(Name::Id(id)),
        _ => Err(PyTypeError::new_err(format!(
            "attributes are named by str, or by a number from 128 to 255, not {}",
            name.repr()?
        ))),
    }
}

fn value_of(name: &Name, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let wrong = |wanted: &str| invalid(format!("the attribute {} is {wanted}, not {value}", said(name)));
    let number = |wanted: &str| value.extract::<u32>().map_err(|_| wrong(wanted));
    match name {
        Name::Id(KIND) => {
            let text = value.extract::<String>().unwrap_or_default();
            let kind = kinds::NAMES.iter().find(|(_, known)| *known == text);
            let kind = kind.ok_or_else(|| wrong("one of file, directory, symlink, hard_link"))?;
            Ok(Value::U8(kind.0.code()))
        }
        Name::Id(MODE | USER_ID | GROUP_ID | NAMES) => Ok(Value::U32(number("a number of 32 bits")?)),
        Name::Id(INODE) => value.extract().map(Value::U64).map_err(|_| wrong("a number of 64 bits")),
        Name::Id(MTIME_NS | CTIME_NS) => {
            value.extract().map(Value::I64).map_err(|_| wrong("nanoseconds since 1970 as an int"))
        }
        _ => any_value(name, value),
    }
}

fn said(name: &Name) -> String {
    match name {
        Name::Text(text) => text.clone(),
        Name::Id(id) => match KNOWN.iter().find(|(known, _)| known == id) {
            Some((_, name)) => (*name).to_owned(),
            None => id.to_string(),
        },
    }
}

fn any_value(name: &Name, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::Text(text.to_str()?.to_owned()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        let positive = value.extract::<u64>().map(Value::U64);
        return positive.or_else(|_| value.extract::<i64>().map(Value::I64)).map_err(|_| {
            invalid(format!("the attribute {} does not fit into 64 bits: {value}", said(name)))
        });
    }
    Err(PyTypeError::new_err(format!(
        "attributes are int, str or bytes; {} is {}",
        said(name),
        value.get_type().name()?
    )))
}
