//! Requests and results cross as frozen classes: the class of the Python package
//! `deltaplane.io.records`, else of this module, that has the name of the serde struct, with the
//! same fields. Knows no struct.

use deltaplane_error::Error;
use deltaplane_operations::struct_shapes::Shape;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};
use pythonize::{Depythonizer, PythonizeNamedMappingType, PythonizeTypes, pythonize_custom};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::to_python;

const MODULES: [&str; 2] = ["deltaplane.io.records", "deltaplane._native"];

/// A value that is an object of the Python class of its name: a result that is converted, or a
/// request that an argument is read as.
pub(crate) struct Record<T>(pub(crate) T);

impl<'py, T: Serialize> IntoPyObject<'py> for Record<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        pythonize_custom::<Classes, T>(py, &self.0)
            .map_err(|e| to_python(&Error::internal(format!("a result of the core fits no class: {e}"))))
    }
}

impl<'py, T: DeserializeOwned> FromPyObject<'_, 'py> for Record<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let class = object.get_type().name()?.to_string();
        let refused = |problem: String| Err(to_python(&Error::invalid_argument(problem)));
        match Shape::of::<T>() {
            Some(shape) if shape.name != class => {
                refused(format!("a {class} was passed where a {} is needed", shape.name))
            }
            _ => {
                let plain = object.call_method0("to_dict")?;
                let read = T::deserialize(&mut Depythonizer::from_object(&plain));
                read.map(Record)
                    .or_else(|e| refused(format!("not a {class} that can be carried out: {e}")))
            }
        }
    }
}

/// Converts a struct to an object of the class of its name, and maps and enums, which have no
/// class, to dicts.
struct Classes;

impl PythonizeTypes for Classes {
    type Map = PyDict;
    type NamedMap = Classes;
    type List = PyList;
}

impl PythonizeNamedMappingType for Classes {
    type Builder<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyDict>);

    fn builder<'py>(py: Python<'py>, _: usize, name: &'static str) -> PyResult<Self::Builder<'py>> {
        let classes = MODULES.iter().map(|module| py.import(*module)?.getattr_opt(name));
        let class = classes.filter_map(PyResult::transpose).next().transpose()?;
        Ok((class, PyDict::new(py)))
    }

    fn push_field<'py>(
        (_, fields): &mut Self::Builder<'py>,
        name: Bound<'py, PyString>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        fields.set_item(name, value)
    }

    fn finish<'py>((class, fields): Self::Builder<'py>) -> PyResult<Bound<'py, PyMapping>> {
        let Some(class) = class else {
            return Ok(fields.into_mapping());
        };
        let record = class.call((), Some(&fields))?;
        // SAFETY: `PyMapping` only calls Python's abstract protocol, which takes any object; the
        // serializer returns it as `PyAny` at once.
        Ok(unsafe { record.cast_into_unchecked() })
    }
}
