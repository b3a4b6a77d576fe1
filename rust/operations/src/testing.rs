//! Tables for tests: in a temporary directory, of whole numbers and texts, written by a
//! [`WriteJob`].

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use deltaplane_log::{Snapshot, WriteMode, WriteRequest};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::arrow_types::from_arrow_schema;
use deltaplane_protocol::expr::{Comparison, Expr};
use deltaplane_protocol::hidden_columns::{FILE, ROW};
use deltaplane_store::{Location, Options, Store, block_on};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use serde_json::json;

use crate::rewrite::Rewrite;
use crate::write_job::{WriteJob, write_files};

/// A directory for a table, which goes with this.
pub(crate) struct Table {
    pub(crate) store: Store,
    _dir: tempfile::TempDir,
}

/// Rows with the columns `id` and `name`.
pub(crate) fn rows(ids: &[i64]) -> RecordBatch {
    let names = ids.iter().map(|id| format!("name {id}"));
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef),
        ("name", Arc::new(StringArray::from_iter_values(names)) as ArrayRef),
    ])
    .unwrap()
}

/// The `id` of each row, in the order in which they come.
pub(crate) fn ids(stream: BoxStream<'static, deltaplane_error::Result<RecordBatch>>) -> Vec<i64> {
    let batches: Vec<RecordBatch> = block_on(stream.try_collect()).unwrap();
    let columns = batches
        .iter()
        .map(|b| b.column_by_name("id").unwrap().as_primitive::<Int64Type>());
    columns.flat_map(|ids| ids.values().to_vec()).collect()
}

/// The id is above this number.
pub(crate) fn above(id: i64) -> Expr {
    Expr::Compare {
        cmp: Comparison::Gt,
        left: Box::new(Expr::Column {
            name: vec!["id".to_owned()],
        }),
        right: Box::new(Expr::Literal {
            value: Some(id.to_string()),
            type_name: "long".to_owned(),
        }),
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
        let store = Store::open(&location, &Options::default()).unwrap();
        Table { store, _dir: dir }
    }

    /// A job that writes rows with the columns of [`rows`].
    pub(crate) fn job(&self, request: WriteRequest) -> WriteJob {
        let schema = from_arrow_schema(&rows(&[]).schema()).unwrap();
        block_on(WriteJob::begin(&self.store, None, schema, request)).unwrap()
    }

    /// Commits a file with these rows to the table, which the first call creates.
    pub(crate) fn append(&self, ids: &[i64]) -> Vec<Add> {
        self.append_with(ids, &[])
    }

    /// The same; a table that this creates has these properties.
    pub(crate) fn append_with(&self, ids: &[i64], properties: &[(&str, &str)]) -> Vec<Add> {
        let properties = properties
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let job = self.job(WriteRequest {
            configuration: properties.collect::<BTreeMap<_, _>>(),
            ..WriteRequest::new(WriteMode::Append)
        });
        let spec = job.spec().unwrap();
        let adds = block_on(write_files(self.store.clone(), &spec, [Ok(rows(ids))].into_iter(), 0)).unwrap();
        block_on(job.commit(adds.clone())).unwrap().unwrap();
        adds
    }

    /// Deletes the first row of the file at this path, by a vector if the table allows it.
    pub(crate) fn delete_first_row_of(&self, path: &str) {
        let rows = RecordBatch::try_from_iter([
            (FILE, Arc::new(StringArray::from(vec![path])) as ArrayRef),
            (ROW, Arc::new(Int64Array::from(vec![0])) as ArrayRef),
        ]);
        let request = serde_json::from_value(json!({"operation": "DELETE"})).unwrap();
        let rewrite = Rewrite::begin(&self.snapshot(), request).unwrap();
        let (selected, _) = rewrite.select_rows([Ok(rows.unwrap())].into_iter()).unwrap();
        selected.finish().unwrap().commit(BTreeMap::new()).unwrap();
    }

    /// The newest version.
    pub(crate) fn snapshot(&self) -> Snapshot {
        block_on(Snapshot::open(&self.store, None)).unwrap()
    }
}
