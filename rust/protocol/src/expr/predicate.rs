//! A predicate bound to one schema, shared, and evaluated on batches with that schema. Combines
//! binding and evaluation; owns neither.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};

use super::node::Node;
use super::{Expr, bind, evaluate};
use crate::Result;
use crate::schema::StructType;

/// A predicate bound to a schema. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Predicate {
    root: Arc<Node>,
}

impl Predicate {
    /// Resolves columns and types literals; timestamps without time zone are UTC.
    ///
    /// Unknown columns and values that don't fit their column's type are `InvalidArgument`;
    /// expressions that can't be evaluated with Spark's meaning are `UnsupportedExpression`.
    pub fn bind(expr: &Expr, schema: &StructType) -> Result<Predicate> {
        Ok(Predicate {
            root: Arc::new(bind::predicate(expr, schema)?),
        })
    }

    /// The logical paths of its columns, in the schema's case, without duplicates.
    pub fn columns(&self) -> Vec<Vec<String>> {
        let mut bound_columns = Vec::new();
        self.root.columns(&mut bound_columns);
        let mut paths: Vec<Vec<String>> = Vec::new();
        for c in bound_columns {
            if !paths.contains(&c.path) {
                paths.push(c.path.clone());
            }
        }
        paths
    }

    /// TRUE, FALSE or NULL for each row of a batch with the logical column names of the schema.
    /// Callers keep the rows that are TRUE.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        evaluate::evaluate(&self.root, batch)
    }

    /// Whether it uses only these columns.
    pub fn partition_only(&self, partition_columns: &[String]) -> bool {
        self.columns().iter().all(|path| match path.as_slice() {
            [name] => partition_columns
                .iter()
                .any(|p| p.to_lowercase() == name.to_lowercase()),
            _ => false,
        })
    }

    pub(crate) fn node(&self) -> &Node {
        &self.root
    }
}
