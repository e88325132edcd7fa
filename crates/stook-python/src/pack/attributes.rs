//! Conversion of attributes of records from and to `dict`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFrozenSet, PyInt, PyList, PyMapping, PySet, PyString, PyTuple};
use stook::pack::format::attributes::{Name, Value};
use stook::pack::{Attributes, WantedColumn};

use crate::arguments::wrong_type;
use crate::errors::{OrRaise as _, invalid};
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
pub(crate) fn from_python(given: Option<&Bound<'_, PyAny>>) -> PyResult<Attributes> {
    let mut attributes = Attributes::new();
    let Some(given) = given else { return Ok(attributes) };
    let mapping = given.cast::<PyMapping>().map_err(|_| wrong_type("attributes", "a dict", given))?;
    for pair in mapping.items()? {
        let (name, value) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let name = name_of(&name)?;
        let value = value_of(&name, &value)?;
        attributes.set(name, value);
    }
    Ok(attributes)
}

/// An attribute, by the name of its column, and the value that it has to have, or several in a
/// list, a tuple or a set.
pub(super) fn condition_of(
    name: &Bound<'_, PyAny>,
    wanted: &Bound<'_, PyAny>,
) -> PyResult<(Name, Vec<Value>)> {
    let name = match name.cast::<PyString>() {
        // As columns of tables are called.
        Ok(text) => WantedColumn::attribute_named(text.to_str()?).or_raise()?,
        Err(_) => name_of(name)?,
    };
    let is_several = wanted.is_instance_of::<PyList>()
        || wanted.is_instance_of::<PyTuple>()
        || wanted.is_instance_of::<PySet>()
        || wanted.is_instance_of::<PyFrozenSet>();
    let values = match is_several {
        true => wanted.try_iter()?.map(|one| value_of(&name, &one?)).collect::<PyResult<_>>()?,
        false => vec![value_of(&name, wanted)?],
    };
    Ok((name, values))
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
    let given = if value.is_instance_of::<PyString>() {
        Value::Text(value.extract()?)
    } else if value.is_instance_of::<PyBytes>() {
        Value::Bytes(value.extract()?)
    } else if let Some(number) = number_of(value) {
        let positive = number.extract::<u64>().map(Value::U64);
        positive
            .or_else(|_| number.extract::<i64>().map(Value::I64))
            .map_err(|_| invalid(format!("the attribute {name} does not fit into 64 bits: {number}")))?
    } else if matches!(name, Name::Id(..128)) {
        return Err(invalid(format!("the attribute {name} is a number, a str or bytes, not {value}")));
    } else {
        let given = value.get_type().name()?;
        let instead = instead_of(&given.to_string_lossy());
        return Err(PyTypeError::new_err(format!(
            "attributes are int, str or bytes; {name} is {given}{instead}"
        )));
    };
    name.typed(given).map_err(|wanted| invalid(format!("the attribute {name} is {wanted}, not {value}")))
}

/// The integer that an object is, also one of another library, such as numpy. Truth values have an
/// index, but are not meant as numbers.
fn number_of<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyInt>() {
        return (!value.is_instance_of::<PyBool>()).then(|| value.clone());
    }
    let kind = value.get_type().name().ok()?;
    // The truth values of numpy, by the names of both of its generations.
    if matches!(kind.to_str().ok()?, "bool" | "bool_") {
        return None;
    }
    value.call_method0("__index__").ok()
}

/// What to give instead of a value of this type: scalars of numpy have the same names as those of
/// Python, with their width after it.
fn instead_of(kind: &str) -> &'static str {
    match kind {
        "bool" | "bool_" => ": give int(value), 0 or 1",
        "datetime64" | "datetime" | "timedelta64" | "timedelta" => ": give nanoseconds as an int",
        float if float.starts_with("float") || float == "longdouble" => ": give str(value), or its bytes",
        _ => "",
    }
}
