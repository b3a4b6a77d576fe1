//! Conditions of rows as a frozen class that holds the parsed tree.

use std::hash::{DefaultHasher, Hash, Hasher};

use deltaplane_boundary::boundary;
use deltaplane_protocol::expr::Expr;
use pyo3::prelude::*;
use pythonize::depythonize;
use serde_json::Value;

use crate::errors::to_python;
use crate::record::Record;
use crate::values::pickling::{Pickled, pickled};

/// A condition of rows, not yet bound to columns.
#[pyclass(frozen, eq, module = "deltaplane._native")]
#[derive(PartialEq)]
pub(crate) struct Predicate(pub(crate) Expr);

#[boundary]
impl Predicate {
    /// From a tree as `deltaplane.expr.tree` makes it, or its JSON, as pickling has it.
    #[new]
    fn new(tree: &Bound<'_, PyAny>) -> PyResult<Self> {
        let parsed = match tree.extract::<&[u8]>() {
            Ok(bytes) => Expr::from_json(&String::from_utf8_lossy(bytes)),
            Err(_) => Expr::from_value(depythonize(tree)?),
        };
        parsed.map(Predicate).map_err(|e| to_python(&e))
    }

    /// The tree as plain values.
    fn to_dict(&self) -> Record<Value> {
        Record(self.0.to_value())
    }

    /// The condition that all of some are met; None without any.
    #[staticmethod]
    fn all_of(predicates: Vec<PyRef<'_, Predicate>>) -> Option<Self> {
        Expr::all_of(predicates.iter().map(|p| p.0.clone()).collect()).map(Predicate)
    }

    /// The condition that one of some is met; None without any.
    #[staticmethod]
    fn any_of(predicates: Vec<PyRef<'_, Predicate>>) -> Option<Self> {
        Expr::any_of(predicates.iter().map(|p| p.0.clone()).collect()).map(Predicate)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.to_value().to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("Predicate({})", self.0.to_value())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf.as_any(), &slf.get().0)
    }
}

/// The core's part of an optional argument.
pub(crate) fn expr(predicate: Option<&Predicate>) -> Option<&Expr> {
    predicate.map(|p| &p.0)
}
