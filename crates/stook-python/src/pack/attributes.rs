//! Conversion of attributes of records from and to `dict`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyMapping, PyString};
use stook::pack::format::attributes::{
    CTIME_NS, GROUP_ID, HOLES, INODE, KIND, MODE, MTIME_NS, NAMES, Name, USER_ID, Value, XATTRS,
};
use stook::pack::{Attributes, FileKind};

use crate::errors::invalid;
use crate::key::text_of;

/// Attributes as a dict.
pub(crate) fn to_python<'py>(py: Python<'py>, attributes: &Attributes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in attributes.iter() {
        let name = match name {
            // A built-in attribute takes precedence over a custom one of the same name.
            Name::Text(text) if Name::known(text).is_some_and(|id| attributes.get(&id).is_some()) => continue,
            Name::Id(id) if name.called().is_none() => id.into_pyobject(py)?.into_any(),
            known => known.called().into_pyobject(py)?,
        };
        dict.set_item(name, value_to_python(py, value)?)?;
    }
    if let Some(kind) = attributes.file_kind() {
        dict.set_item("kind", kind.as_str())?;
    }
    Ok(dict)
}

/// The dict of extended attributes.
pub(crate) fn xattrs<'py>(py: Python<'py>, attributes: &Attributes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for xattr in attributes.xattrs().as_slice() {
        let value = xattr.value.as_deref().map(|value| PyBytes::new(py, value));
        dict.set_item(text_of(py, &xattr.name)?, value)?;
    }
    Ok(dict)
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

/// Attributes of a mapping.
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
        return Ok(Name::known(&text).unwrap_or(Name::Text(text)));
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
    let wrong = |wanted: &str| invalid(format!("the attribute {name} is {wanted}, not {value}"));
    let number = |wanted: &str| value.extract::<u32>().map_err(|_| wrong(wanted));
    match name {
        Name::Id(KIND) => {
            let text = value.extract::<String>().unwrap_or_default();
            let kind = FileKind::from_name(&text);
            let kind = kind.ok_or_else(|| wrong("one of file, directory, symlink, hard_link"))?;
            Ok(Value::U8(kind.code()))
        }
        Name::Id(MODE | USER_ID | GROUP_ID | NAMES) => Ok(Value::U32(number("a number of 32 bits")?)),
        Name::Id(INODE) => value.extract().map(Value::U64).map_err(|_| wrong("a number of 64 bits")),
        Name::Id(MTIME_NS | CTIME_NS) => {
            value.extract().map(Value::I64).map_err(|_| wrong("nanoseconds since 1970 as an int"))
        }
        Name::Id(XATTRS | HOLES) => {
            let bytes = value.cast::<PyBytes>().map(|bytes| bytes.as_bytes().to_vec());
            bytes.map(Value::Bytes).map_err(|_| wrong("bytes, as the format of packs has them"))
        }
        _ => any_value(name, value),
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
        return positive
            .or_else(|_| value.extract::<i64>().map(Value::I64))
            .map_err(|_| invalid(format!("the attribute {name} does not fit into 64 bits: {value}")));
    }
    let given = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("attributes are int, str or bytes; {name} is {given}")))
}
