//! Columns of a table as frozen classes: parsed once by the core, so that no caller reads schema
//! JSON.

use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_error::Error;
use deltaplane_protocol::schema::{Field, StructType, type_value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::errors::to_python;
use crate::record::Record;

/// The columns of a version, or of files.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct TableSchema {
    schema: Arc<StructType>,
    fields: PyOnceLock<Py<PyTuple>>,
}

impl From<Arc<StructType>> for TableSchema {
    fn from(schema: Arc<StructType>) -> Self {
        TableSchema {
            schema,
            fields: PyOnceLock::new(),
        }
    }
}

impl From<StructType> for TableSchema {
    fn from(schema: StructType) -> Self {
        Arc::new(schema).into()
    }
}

#[boundary]
#[pymethods]
impl TableSchema {
    /// From the text of a table's `schemaString`.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        Ok(StructType::from_json(text).map_err(|e| to_python(&e))?.into())
    }

    /// In the table's order.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let made = self.fields.get_or_try_init(py, || {
            let places = 0..self.schema.fields().len();
            let fields = places.map(|place| {
                let schema = Arc::clone(&self.schema);
                Bound::new(py, TableField { schema, place })
            });
            PyTuple::new(py, fields.collect::<PyResult<Vec<_>>>()?).map(Bound::unbind)
        })?;
        Ok(made.bind(py).clone())
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|f| f.name.clone()).collect()
    }

    /// The text for other programs, as a table's `schemaString` has it.
    fn to_json(&self) -> String {
        self.schema.to_json()
    }

    /// The same as plain values.
    fn to_value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Record(self.schema.to_value()).into_pyobject(py)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<TableSchema>();
        other.is_ok_and(|other| self.schema == other.get().schema)
    }

    fn __repr__(&self) -> String {
        format!("TableSchema({})", self.names_text())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().schema.to_json(),))
    }
}

impl TableSchema {
    fn names_text(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|f| f.name.as_str()).collect();
        names.join(", ")
    }
}

/// One column.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct TableField {
    schema: Arc<StructType>,
    place: usize,
}

impl TableField {
    fn field(&self) -> PyResult<&Field> {
        let found = self.schema.fields().get(self.place);
        found.ok_or_else(|| to_python(&Error::internal("a column beyond its schema")))
    }
}

#[boundary]
#[pymethods]
impl TableField {
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(&self.field()?.name)
    }

    /// A primitive type's name, else the type's parts by the names of a `schemaString`.
    #[getter]
    fn data_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Record(type_value(&self.field()?.data_type)).into_pyobject(py)
    }

    #[getter]
    fn nullable(&self) -> PyResult<bool> {
        Ok(self.field()?.nullable)
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Record(&self.field()?.metadata).into_pyobject(py)
    }

    fn __repr__(&self) -> PyResult<String> {
        let field = self.field()?;
        Ok(format!("TableField({}: {})", field.name, field.data_type))
    }
}
