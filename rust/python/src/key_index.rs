//! The class that builds indexes of keys by tasks, and the function that builds a segment in one.

use std::sync::{Mutex, PoisonError};

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_operations::key_index::{self, build_segment};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::record::Record;
use crate::snapshot::{Options, Snapshot, store};

/// What is to be done to bring the indexes of keys of one version up to date.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct IndexBuild {
    build: key_index::IndexBuild,
    built: Mutex<Vec<key_index::BuiltSegment>>,
}

#[boundary]
impl IndexBuild {
    /// Plans the work of up to `tasks` tasks at a time; with `again` on all files.
    #[staticmethod]
    fn begin(snapshot: &Snapshot, again: bool, tasks: usize) -> Result<Self> {
        let build = block_on(key_index::IndexBuild::begin(&snapshot.inner, again, tasks))?;
        Ok(IndexBuild {
            build,
            built: Mutex::default(),
        })
    }

    /// The number of files whose keys are read.
    #[getter]
    fn files(&self) -> usize {
        self.build.groups().iter().map(key_index::KeyGroup::file_count).sum()
    }

    /// What a task on another machine must know to build segments.
    #[getter]
    fn task_spec(&self) -> KeySpec {
        KeySpec(self.build.spec().clone())
    }

    /// The groups of files, for `build_segment`.
    fn groups(&self) -> Vec<KeyGroup> {
        self.build.groups().iter().cloned().map(KeyGroup).collect()
    }

    /// Takes over a segment that a task wrote, to be published.
    fn adopt(&self, segment: &BuiltSegment) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.push(segment.0.clone());
    }

    /// Publishes the segments that were taken over. The state of each index.
    fn publish(&self) -> Result<Record<Vec<key_index::KeyIndex>>> {
        let built = self.built.lock().unwrap_or_else(PoisonError::into_inner).clone();
        block_on(self.build.publish(&built)).map(Record)
    }

    /// Builds all segments in this process and publishes them. The state of each index.
    fn run(&self) -> Result<Record<Vec<key_index::KeyIndex>>> {
        block_on(self.build.run()).map(Record)
    }
}

/// What a task must know to build segments.
#[boundary(pickles)]
pub(crate) struct KeySpec(key_index::KeySpec);

/// Files whose keys one task reads.
#[boundary(pickles)]
pub(crate) struct KeyGroup(key_index::KeyGroup);

/// A segment that a task wrote.
#[boundary(pickles)]
pub(crate) struct BuiltSegment(key_index::BuiltSegment);

/// Reads the keys of a group's files, in any process, and writes its segment; returns the argument
/// for `IndexBuild.adopt`.
#[boundary]
pub(crate) fn build_key_segment(
    location: &str,
    options: Options,
    spec: &KeySpec,
    group: &KeyGroup,
) -> Result<BuiltSegment> {
    let store = store(location, options)?;
    // A Spark task has one core, and its siblings the others.
    block_on(build_segment(&store, &spec.0, &group.0, 1)).map(BuiltSegment)
}
