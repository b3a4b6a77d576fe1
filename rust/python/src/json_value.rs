//! Plain Python values as JSON, where their shape isn't known or their depth is the caller's.

use deltaplane_error::Error;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Number, Value};

use crate::errors::to_python;

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
