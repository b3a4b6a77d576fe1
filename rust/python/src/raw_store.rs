//! A store's own operations, as the check of its contract calls them. Tables are worked on by the
//! other files.

use std::collections::HashMap;

use bytes::Bytes;
use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_store::{Listing, ObjectInfo, PutOutcome, Store, block_on};
use futures::TryStreamExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::run;
use crate::snapshot::store;

/// The bytes below one location.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct RawStore(Store);

/// Path, size, time and tag.
type Shown = (String, u64, i64, Option<String>);

fn shown(info: ObjectInfo) -> Shown {
    (info.key, info.size_bytes, info.modified_ms, info.etag)
}

async fn all(listing: Result<Listing>) -> Result<Vec<Shown>> {
    listing?.map_ok(shown).try_collect().await
}

#[boundary]
#[pymethods]
impl RawStore {
    #[staticmethod]
    #[pyo3(signature = (location, options = None))]
    fn open(py: Python<'_>, location: &str, options: Option<HashMap<String, String>>) -> PyResult<Self> {
        run(py, || store(location, options)).map(RawStore)
    }

    fn put(&self, py: Python<'_>, path: &str, data: Vec<u8>) -> PyResult<()> {
        run(py, || block_on(self.0.put(path, Bytes::from(data))))
    }

    fn put_if_absent(&self, py: Python<'_>, path: &str, data: Vec<u8>) -> PyResult<bool> {
        let outcome = run(py, || block_on(self.0.put_if_absent(path, Bytes::from(data))))?;
        Ok(outcome == PutOutcome::Created)
    }

    fn read<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = run(py, || block_on(self.0.read(path)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn read_range<'py>(&self, py: Python<'py>, path: &str, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = run(py, || block_on(self.0.read_range(path, start..end)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn head(&self, py: Python<'_>, path: &str) -> PyResult<Shown> {
        run(py, || block_on(self.0.head(path))).map(shown)
    }

    fn list_from(&self, py: Python<'_>, directory: &str, name: &str) -> PyResult<Vec<Shown>> {
        run(py, || {
            block_on(async { all(self.0.list_from(directory, name).await).await })
        })
    }

    fn list_all(&self, py: Python<'_>, directory: &str) -> PyResult<Vec<Shown>> {
        run(py, || block_on(async { all(self.0.list_all(directory).await).await }))
    }

    /// Names of the directories directly in one, and the files there; `None` where the store can't
    /// tell.
    fn list_level(&self, py: Python<'_>, directory: &str) -> PyResult<Option<(Vec<String>, Vec<Shown>)>> {
        let level = run(py, || block_on(self.0.list_level(directory)))?;
        Ok(level.map(|l| (l.directories, l.files.into_iter().map(shown).collect())))
    }

    fn delete(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        run(py, || block_on(self.0.delete(path)))
    }

    fn delete_all(&self, py: Python<'_>, paths: Vec<String>) -> PyResult<()> {
        run(py, || block_on(self.0.delete_all(&paths)))
    }
}
