//! Frozen classes whose only content is their fields: arguments, repr, equality and pickling come
//! from one list of fields, so that they cannot disagree.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

/// Defines a frozen class `deltaplane._native.Name` with a getter for each field. Its constructor
/// takes the fields in order, pickling calls it, and two records are equal if all fields are.
macro_rules! record {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $kind:ty $(= $default:expr)?,)+ }) => {
        $(#[$about])*
        #[pyo3::pyclass(frozen, get_all, eq, from_py_object, module = "deltaplane._native")]
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name {
            $($(#[$field_about])* pub(crate) $field: $kind,)+
        }

        #[deltaplane_boundary::boundary]
        #[pyo3::pymethods]
        impl $name {
            #[new]
            #[pyo3(signature = ($($field $(= $default)?),+))]
            #[allow(clippy::too_many_arguments, reason = "a record takes each of its fields")]
            fn new($($field: $kind),+) -> Self {
                $name { $($field),+ }
            }

            fn __repr__(slf: &pyo3::Bound<'_, Self>) -> PyResult<String> {
                $crate::records::repr(slf.as_any(), &[$(stringify!($field)),+])
            }

            /// The fields by name, those of records within too, for callers whose own results are
            /// dicts.
            fn to_dict<'py>(slf: &pyo3::Bound<'py, Self>) -> PyResult<pyo3::Bound<'py, pyo3::types::PyDict>> {
                $crate::records::dict(slf.as_any(), &[$(stringify!($field)),+])
            }

            fn __reduce__<'py>(slf: &pyo3::Bound<'py, Self>) -> PyResult<crate::records::Reduced<'py>> {
                $crate::records::reduce(slf.as_any(), &[$(stringify!($field)),+])
            }
        }
    };
}
pub(crate) use record;

/// A class and the arguments that make the object again.
pub(crate) type Reduced<'py> = (Bound<'py, PyType>, Bound<'py, PyTuple>);

/// What pickle needs of an object whose constructor takes these attributes.
pub(crate) fn reduce<'py>(object: &Bound<'py, PyAny>, fields: &[&str]) -> PyResult<Reduced<'py>> {
    let values = fields
        .iter()
        .map(|f| object.getattr(*f))
        .collect::<PyResult<Vec<_>>>()?;
    Ok((object.get_type(), PyTuple::new(object.py(), values)?))
}

/// The attributes by name, in the order of the names.
pub(crate) fn dict<'py>(object: &Bound<'py, PyAny>, fields: &[&str]) -> PyResult<Bound<'py, PyDict>> {
    let mut fields = fields.to_vec();
    fields.sort_unstable();
    let dict = PyDict::new(object.py());
    for field in fields {
        let value = object.getattr(field)?;
        let value = match value.getattr_opt("to_dict")? {
            Some(method) => method.call0()?,
            None => value,
        };
        dict.set_item(field, value)?;
    }
    Ok(dict)
}

/// The object as the call that makes it.
pub(crate) fn repr(object: &Bound<'_, PyAny>, fields: &[&str]) -> PyResult<String> {
    let value = |f: &&str| Ok(format!("{f}={}", object.getattr(*f)?.repr()?));
    let values = fields.iter().map(value).collect::<PyResult<Vec<_>>>()?;
    Ok(format!("{}({})", object.get_type().name()?, values.join(", ")))
}
