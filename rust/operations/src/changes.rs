//! The change data feed: changed rows of files, with what happened to them, when and in which
//! version as constants of their files. The log plans the files, the data crate reads the rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use deltaplane_data::{FileRead, ReadSpec};
use deltaplane_error::Result;
use deltaplane_log::{CommittedChange, Snapshot, Tail, TailOffset};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::changes::feed_schema;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::files::adds_to_batch;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::file_sets::file_reads;

/// Changes that are read in one go: the columns that are constants of a file are the same for all
/// of them.
pub struct Part {
    /// Names of these columns.
    pub constants: Vec<&'static str>,
    /// The files, with the values of these columns among their partition values.
    pub files: Vec<FileRead>,
}

/// What the versions from `first` up to the snapshot's changed, oldest first, as far as it can
/// match.
pub async fn parts(snapshot: &Snapshot, first: u64, predicate: Option<&Expr>) -> Result<Vec<Part>> {
    parts_of(snapshot, snapshot.changes(first).await?, predicate)
}

/// The same of changes that are known, to be shown with the snapshot's columns.
pub fn parts_of(snapshot: &Snapshot, changes: Vec<CommittedChange>, predicate: Option<&Expr>) -> Result<Vec<Part>> {
    let keep = keep(snapshot, &changes, predicate)?;
    let mut parts: Vec<Part> = Vec::new();
    for (change, _) in changes.into_iter().zip(keep).filter(|(_, keep)| *keep) {
        let values = change.file.constants(change.version, change.timestamp_ms);
        let constants: Vec<&'static str> = values.iter().map(|(name, _)| *name).collect();
        let mut file = FileRead {
            path: change.file.path,
            size_bytes: u64::try_from(change.file.size).unwrap_or(0),
            partition_values: change.file.partition_values,
            deletion_vector: change.file.deletion_vector,
            only: change.file.only,
            ..FileRead::default()
        };
        let values = values.into_iter().map(|(name, text)| (name.to_owned(), Some(text)));
        file.partition_values.extend(values);
        match parts.last_mut() {
            Some(part) if part.constants == constants => part.files.push(file),
            _ => parts.push(Part {
                constants,
                files: vec![file],
            }),
        }
    }
    Ok(parts)
}

/// What is new in a followed table between two offsets: changed rows if the follower shows changes,
/// else the rows of the files that were added.
///
/// # Errors
/// Those of the follower, for offsets of another table and commits that it doesn't pass.
pub async fn tail_parts(
    tail: &Tail,
    start: &TailOffset,
    end: &TailOffset,
    predicate: Option<&Expr>,
) -> Result<Vec<Part>> {
    if tail.tells_changes() {
        return parts_of(tail.reading(), tail.changes(start, end).await?, predicate);
    }
    let adds = tail.files(start, end).await?;
    Ok(vec![Part {
        constants: Vec::new(),
        files: file_reads(&adds_to_batch(&adds)?)?,
    }])
}

/// Which of the changes may hold a row for which the predicate is true, by partition values and
/// statistics.
fn keep(snapshot: &Snapshot, changes: &[CommittedChange], predicate: Option<&Expr>) -> Result<Vec<bool>> {
    let schema = feed_schema(snapshot.schema())?;
    let Some(predicate) = bind(&schema, predicate)? else {
        return Ok(vec![true; changes.len()]);
    };
    let adds: Vec<Add> = changes
        .iter()
        .map(|c| Add {
            path: c.file.path.clone(),
            partition_values: c.file.partition_values.clone(),
            stats: c.file.stats.clone(),
            ..Add::default()
        })
        .collect();
    let state = snapshot.state();
    let pruner = Pruner::new(&predicate, &schema, state.partition_columns(), state.mapping())?;
    Ok(pruner.keep(&adds_to_batch(&adds)?)?.values().iter().collect())
}

fn bind(schema: &StructType, predicate: Option<&Expr>) -> Result<Option<Predicate>> {
    predicate.map(|expr| Predicate::bind(expr, schema)).transpose()
}

/// Changed rows of a range of versions. Each stream reads them from the beginning.
pub struct Changes {
    store: Store,
    schema: SchemaRef,
    parts: Vec<(Arc<ReadSpec>, Vec<FileRead>)>,
}

impl Changes {
    /// The rows that the versions from `first` up to the snapshot's changed, as far as they meet a
    /// predicate.
    pub async fn new(
        snapshot: &Snapshot,
        first: u64,
        columns: Option<Vec<String>>,
        predicate: Option<&Expr>,
    ) -> Result<Self> {
        let parts = parts(snapshot, first, predicate).await?;
        Self::of_parts(snapshot, parts, columns, predicate, true)
    }

    /// The rows of these parts, with the snapshot's columns or with those of its changes.
    pub fn of_parts(
        snapshot: &Snapshot,
        parts: Vec<Part>,
        columns: Option<Vec<String>>,
        predicate: Option<&Expr>,
        with_changes: bool,
    ) -> Result<Self> {
        let partition_columns = snapshot.state().partition_columns();
        let schema = match with_changes {
            true => Arc::new(feed_schema(snapshot.schema())?),
            false => snapshot.schema().clone(),
        };
        let mut spec = ReadSpec::new(schema, partition_columns.to_vec());
        spec.mapping = snapshot.state().mapping();
        spec.columns = columns;
        spec.predicate = bind(&spec.schema, predicate)?;
        let output_schema = spec.output_schema()?;
        let with_constants = |part: Part| {
            let mut spec = spec.clone();
            spec.partition_columns
                .extend(part.constants.into_iter().map(str::to_owned));
            (Arc::new(spec), part.files)
        };
        Ok(Changes {
            store: snapshot.store().clone(),
            parts: parts.into_iter().map(with_constants).collect(),
            schema: output_schema,
        })
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many files they are in.
    pub fn num_files(&self) -> usize {
        self.parts.iter().map(|(_, files)| files.len()).sum()
    }

    /// The rows, oldest version first; an error names the table.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let parallelism = deltaplane_data::processors();
        let (store, table) = (self.store.clone(), self.store.location().as_str().to_owned());
        stream::iter(self.parts.clone())
            .flat_map(move |(spec, files)| {
                let files = stream::iter(files.into_iter().map(Ok)).boxed();
                deltaplane_data::scan(store.clone(), files, spec, parallelism)
            })
            .map_err(move |e| e.with_table(&table))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use deltaplane_store::block_on;

    use super::*;
    use crate::testing::{Table, above};

    const FEED: &[(&str, &str)] = &[("delta.enableChangeDataFeed", "true")];

    fn read(changes: &Changes) -> Vec<(i64, String, i64)> {
        let batches: Vec<RecordBatch> = block_on(changes.stream().try_collect()).unwrap();
        let of_batch = |batch: &RecordBatch| {
            let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
            let kinds = batch.column_by_name("_change_type").unwrap().as_string::<i32>().clone();
            let versions = batch
                .column_by_name("_commit_version")
                .unwrap()
                .as_primitive::<Int64Type>()
                .clone();
            let row = move |row| (ids.value(row), kinds.value(row).to_owned(), versions.value(row));
            (0..batch.num_rows()).map(row).collect::<Vec<_>>()
        };
        batches.iter().flat_map(of_batch).collect()
    }

    fn table() -> Table {
        let table = Table::new();
        table.append_with(&[1, 2], FEED);
        table.append(&[3]);
        table.append(&[4]);
        table
    }

    #[test]
    fn changes_of_versions_name_kind_and_version_of_each_row() {
        let table = table();
        let changes = block_on(Changes::new(&table.snapshot(), 1, None, None)).unwrap();
        assert_eq!(changes.num_files(), 2);
        assert_eq!(
            read(&changes),
            [(3, "insert".to_owned(), 1), (4, "insert".to_owned(), 2)]
        );
        assert_eq!(read(&changes), read(&changes), "each stream reads from the beginning");
    }

    #[test]
    fn a_predicate_leaves_out_files_of_changes() {
        let table = table();
        let changes = block_on(Changes::new(&table.snapshot(), 0, None, Some(&above(3)))).unwrap();
        assert_eq!(changes.num_files(), 1);
        assert_eq!(read(&changes), [(4, "insert".to_owned(), 2)]);
    }

    #[test]
    fn rows_of_files_alone_have_the_columns_of_the_table() {
        let table = table();
        let snapshot = table.snapshot();
        let parts = block_on(parts(&snapshot, 2, None)).unwrap();
        assert_eq!(parts.len(), 1, "files with the same constants are one part");
        let changes = Changes::of_parts(&snapshot, parts, Some(vec!["id".to_owned()]), None, true).unwrap();
        assert_eq!(changes.schema().fields().len(), 1);
    }
}
