//! Columns of a table as a frozen class: parsed once by the core, so that no caller reads schema
//! JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::TableField;
use deltaplane_protocol::arrow_types::{from_arrow_schema, to_arrow_schema_with_metadata};
use deltaplane_protocol::features::arrow_metadata;
use deltaplane_protocol::schema::StructType;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use serde_json::Value;

use crate::arrow_bridge::schema_capsule;
use crate::incoming::Columns;
use crate::record::Record;

/// The columns of a version, or of files.
#[pyclass(frozen, eq, module = "deltaplane._native")]
#[derive(PartialEq)]
pub(crate) struct TableSchema {
    pub(crate) schema: Arc<StructType>,
}

impl From<Arc<StructType>> for TableSchema {
    fn from(schema: Arc<StructType>) -> Self {
        TableSchema { schema }
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

    /// The Delta schema that holds every value of an Arrow schema.
    #[staticmethod]
    fn of_arrow(schema: Columns) -> Result<Self> {
        arrow_metadata::from_arrow_text(&from_arrow_schema(&schema.0)?).map(Into::into)
    }

    /// In the table's order.
    #[getter]
    fn fields(&self) -> Record<Vec<TableField>> {
        Record(self.schema.fields().iter().map(TableField::from).collect())
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

    /// Where a request holds the columns.
    fn to_dict(&self) -> BTreeMap<&'static str, String> {
        [("text", self.schema.to_json())].into()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = to_arrow_schema_with_metadata(&arrow_metadata::shareable(&self.schema));
        schema_capsule(py, &schema)
    }

    fn __repr__(&self) -> String {
        format!("TableSchema({})", self.schema)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().schema.to_json(),))
    }
}
