//! Rows of a version or rows that versions changed, for callers that read both in one way.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use deltaplane_error::Result;
use futures::stream::BoxStream;

use crate::changes::Changes;
use crate::scan::Scan;

/// Rows that can be read any number of times.
pub enum RowSource {
    /// Rows of a version.
    Version(Scan),
    /// Changed rows, or new rows of a table that is followed.
    Changes(Changes),
}

impl From<Scan> for RowSource {
    fn from(rows: Scan) -> Self {
        RowSource::Version(rows)
    }
}

impl From<Changes> for RowSource {
    fn from(changes: Changes) -> Self {
        RowSource::Changes(changes)
    }
}

impl RowSource {
    /// The schema of the batches, for callers outside: rows of a version say which columns the
    /// table declares NOT NULL. Readers inside go by [`Scan::schema`], whose columns are all
    /// nullable, because a file that another program wrote may break the rule.
    pub fn schema(&self) -> SchemaRef {
        match self {
            RowSource::Version(rows) => rows.declared_schema(),
            RowSource::Changes(changes) => changes.schema().clone(),
        }
    }

    /// The rows from the beginning.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        match self {
            RowSource::Version(rows) => rows.stream(),
            RowSource::Changes(changes) => changes.stream(),
        }
    }

    /// The number of files with changed rows; `None` for rows of a version.
    pub fn num_changed_files(&self) -> Option<usize> {
        match self {
            RowSource::Version(_) => None,
            RowSource::Changes(changes) => Some(changes.num_files()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::ScanRequest;
    use crate::testing::{Table, ids};
    use deltaplane_store::block_on;

    #[test]
    fn both_kinds_of_rows_are_read_in_one_way() {
        let table = Table::new();
        table.append_with(&[1, 2], &[("delta.enableChangeDataFeed", "true")]);
        table.append(&[3]);
        let snapshot = table.snapshot();
        let version = RowSource::from(Scan::new(&snapshot, ScanRequest::default()).unwrap());
        let changes = block_on(Changes::new(&snapshot, 1, None, None))
            .map(RowSource::from)
            .unwrap();
        let sorted = || {
            let mut all = ids(version.stream());
            all.sort_unstable();
            all
        };
        assert_eq!((sorted(), version.num_changed_files()), (vec![1, 2, 3], None));
        assert_eq!((ids(changes.stream()), changes.num_changed_files()), (vec![3], Some(1)));
        assert_eq!(sorted(), [1, 2, 3], "each stream starts at the first row");
        assert!(changes.schema().field_with_name("_change_type").is_ok());
    }
}
