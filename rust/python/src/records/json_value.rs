//! Free JSON values of the format, such as a commit's own words or a field's metadata, as plain
//! Python values. Everything whose shape is known crosses as a class instead.

use deltaplane_error::Error;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

use crate::errors::to_python;

/// A JSON object with any content: a dict in Python.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct JsonObject(pub(crate) Map<String, Value>);

impl<'py> IntoPyObject<'py> for JsonObject {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        dict_of(py, &self.0)
    }
}

impl<'py> FromPyObject<'_, 'py> for JsonObject {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value_of(&object)? {
            Value::Object(map) => Ok(JsonObject(map)),
            _ => Err(PyTypeError::new_err("a JSON object is a dict")),
        }
    }
}

fn dict_of<'py>(py: Python<'py>, map: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in map {
        dict.set_item(key, object_of(py, value)?)?;
    }
    Ok(dict)
}

/// A JSON value as Python's `json.loads` makes it.
pub(crate) fn object_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(b) => b.into_bound_py_any(py),
        Value::Number(n) => number_of(py, n),
        Value::String(s) => s.into_bound_py_any(py),
        Value::Array(items) => {
            let items = items.iter().map(|v| object_of(py, v)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_bound_py_any(py)
        }
        Value::Object(map) => dict_of(py, map)?.into_bound_py_any(py),
    }
}

/// Numbers keep their text, so that none is rounded: what has a point or an exponent is a float.
fn number_of<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    if let Some(n) = number.as_i64() {
        return n.into_bound_py_any(py);
    }
    let text = number.as_str();
    let class = match text.contains(['.', 'e', 'E']) {
        true => py.get_type::<PyFloat>(),
        false => py.get_type::<PyInt>(),
    };
    class.call1((text,))
}

/// Deeper values are refused, as `serde_json` refuses deeper texts: recursion must fit the stack.
const MOST_LEVELS: u8 = 127;

/// A plain Python value as JSON.
pub(crate) fn value_of(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    value_within(object, MOST_LEVELS)
}

fn value_within(object: &Bound<'_, PyAny>, levels: u8) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(b) = object.cast::<PyBool>() {
        return Ok(Value::Bool(b.is_true()));
    }
    if object.is_instance_of::<PyInt>() || object.is_instance_of::<PyFloat>() {
        return number_from(object);
    }
    if let Ok(s) = object.cast::<PyString>() {
        return Ok(Value::String(s.to_str()?.to_owned()));
    }
    let Some(levels) = levels.checked_sub(1) else {
        return Err(to_python(&Error::invalid_argument("a JSON value is nested too deeply")));
    };
    if let Ok(dict) = object.cast::<PyDict>() {
        let pair =
            |(k, v): (Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((k.extract::<String>()?, value_within(&v, levels)?));
        return Ok(Value::Object(dict.iter().map(pair).collect::<PyResult<_>>()?));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.map(|item| value_within(&item?, levels));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    let class = object.get_type();
    Err(PyTypeError::new_err(format!("{} is no JSON value", class.name()?)))
}

fn number_from(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let text = object.repr()?.to_string();
    let number: Number =
        serde_json::from_str(&text).map_err(|_| PyTypeError::new_err(format!("{text} is no JSON number")))?;
    Ok(Value::Number(number))
}
