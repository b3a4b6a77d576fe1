//! Columns of a table as frozen classes: parsed once by the core, so that no caller reads schema
//! JSON.

use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_protocol::schema::{Field, StructType, type_value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use serde_json::{Map, Value};

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
impl TableSchema {
    /// From the text of a table's `schemaString`.
    #[new]
    fn new(text: &str) -> Result<Self> {
        StructType::from_json(text).map(Into::into)
    }

    /// In the table's order.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let made = self.fields.get_or_try_init(py, || {
            let fields = self.schema.fields().iter();
            let fields = fields.map(|field| Bound::new(py, TableField(field.clone())));
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
    fn to_value(&self) -> Record<Value> {
        Record(self.schema.to_value())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<TableSchema>();
        other.is_ok_and(|other| self.schema == other.get().schema)
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("TableSchema({})", self.names()?.join(", ")))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().schema.to_json(),))
    }
}

/// One column.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct TableField(Field);

#[boundary]
impl TableField {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// A primitive type's name, else the type's parts by the names of a `schemaString`.
    #[getter]
    fn data_type(&self) -> Record<Value> {
        Record(type_value(&self.0.data_type))
    }

    #[getter]
    fn nullable(&self) -> bool {
        self.0.nullable
    }

    #[getter]
    fn metadata(&self) -> Record<&Map<String, Value>> {
        Record(&self.0.metadata)
    }

    fn __repr__(&self) -> String {
        format!("TableField({}: {})", self.0.name, self.0.data_type)
    }
}
