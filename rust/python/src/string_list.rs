//! Builds a Python list of strings from one contiguous buffer: one Rust string for each would take
//! as long as creating Python's own.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// The texts, in their order.
#[derive(Default)]
pub(crate) struct StringList {
    all: String,
    ends: Vec<usize>,
}

impl StringList {
    /// One more, of these parts.
    pub(crate) fn push(&mut self, parts: &[&str]) {
        self.all.extend(parts.iter().copied());
        self.ends.push(self.all.len());
    }
}

impl<'py> IntoPyObject<'py> for StringList {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let mut from = 0;
        let texts = self.ends.iter().map(|end| {
            let text = self.all.get(from..*end).unwrap_or_default();
            from = *end;
            text
        });
        PyList::new(py, texts)
    }
}
