//! A table without Python: creates it in a temporary directory, appends, prunes by a predicate,
//! scans, replaces the rows of a partition, deletes rows. Each step is asserted. `cargo test` runs
//! it, and so does `cargo run -p deltaplane-operations --example scan`.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use deltaplane_log::{Committed, PlanColumns, RewriteRequest, Snapshot, WriteMode, WriteRequest};
use deltaplane_operations::file_sets::file_reads;
use deltaplane_operations::rewrite::Rewrite;
use deltaplane_operations::scan::{Scan, ScanRequest, bind_expr};
use deltaplane_operations::write_job::{WriteJob, write_files};
use deltaplane_protocol::arrow_types::from_arrow_schema;
use deltaplane_protocol::expr::{Comparison, Expr};
use deltaplane_protocol::hidden_columns::{FILE, ROW};
use deltaplane_store::{Location, Options, Store, block_on};
use futures::TryStreamExt;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let location = Location::parse(&dir.path().to_string_lossy())?;
    let store = Store::open(&location, &Options::default())?;
    run(&store)
}

fn run(store: &Store) -> Result<()> {
    // The first append creates the table.
    block_on(append(store, rows(&["kg", "kg", "lb"], &[1, 2, 3])?))?;
    block_on(append(store, rows(&["kg", "kg", "oz"], &[40, 41, 50])?))?;
    let snapshot = block_on(Snapshot::open(store, None))?;
    assert_eq!(snapshot.version(), 1);
    assert_eq!(block_on(scan(&snapshot, None))?, [1, 2, 3, 40, 41, 50]);

    // Of four files the two whose statistics say that no value is above 10 are not read.
    let above_10 = compare("value", Comparison::Gt, "10", "long");
    assert_eq!(block_on(files(&snapshot, &above_10))?, 2);
    assert_eq!(block_on(scan(&snapshot, Some(above_10)))?, [40, 41, 50]);

    // The rows of a partition give way to others; those of the other partitions stay in their
    // files.
    let pounds = compare("unit", Comparison::Eq, "lb", "string");
    let replaced = block_on(replace(store, &pounds, rows(&["lb"], &[60])?))?;
    assert_eq!(block_on(scan(&replaced.snapshot, None))?, [1, 2, 40, 41, 50, 60]);

    // One row of a file goes by a deletion vector, all rows of another one with their file.
    let version = delete(&replaced.snapshot, &compare("value", Comparison::Ge, "41", "long"))?;
    let newest = block_on(Snapshot::open(store, None))?;
    assert_eq!(newest.version(), version);
    assert_eq!(block_on(scan(&newest, None))?, [1, 2, 40]);

    // An older version still has its rows.
    let older = block_on(Snapshot::open(store, Some(1)))?;
    assert_eq!(block_on(scan(&older, None))?, [1, 2, 3, 40, 41, 50]);
    println!("version {version} has the rows that are expected");
    Ok(())
}

fn rows(units: &[&str], values: &[i64]) -> Result<RecordBatch> {
    let units = Arc::new(StringArray::from(units.to_vec())) as ArrayRef;
    let values = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    Ok(RecordBatch::try_from_iter([("unit", units), ("value", values)])?)
}

fn compare(column: &str, cmp: Comparison, value: &str, type_name: &str) -> Expr {
    Expr::Compare {
        cmp,
        left: Box::new(Expr::Column {
            name: vec![column.to_owned()],
        }),
        right: Box::new(Expr::Literal {
            value: Some(value.to_owned()),
            type_name: type_name.to_owned(),
        }),
    }
}

async fn append(store: &Store, rows: RecordBatch) -> Result<Committed> {
    write(store, rows, WriteRequest::new(WriteMode::Append)).await
}

/// Puts rows in the place of those that meet a condition on partition columns.
async fn replace(store: &Store, condition: &Expr, rows: RecordBatch) -> Result<Committed> {
    let request = WriteRequest {
        predicate: Some(condition.clone()),
        ..WriteRequest::new(WriteMode::Overwrite)
    };
    write(store, rows, request).await
}

/// Plans a write, writes its files and commits them.
async fn write(store: &Store, rows: RecordBatch, request: WriteRequest) -> Result<Committed> {
    let request = WriteRequest {
        partition_by: Some(vec!["unit".to_owned()]),
        configuration: BTreeMap::from([("delta.enableDeletionVectors".to_owned(), "true".to_owned())]),
        ..request
    };
    let job = WriteJob::begin(store, None, from_arrow_schema(&rows.schema())?, request).await?;
    let adds = write_files(store.clone(), &job.spec()?, [Ok(rows)].into_iter(), 0).await?;
    let committed = job.commit(adds).await?;
    committed.ok_or_else(|| "only mode ignore leaves a write out".into())
}

/// Deletes the rows that meet a condition: some of a file's by a deletion vector, all of a file's
/// with the file. Returns the new version.
fn delete(base: &Snapshot, condition: &Expr) -> Result<u64> {
    let request: RewriteRequest = serde_json::from_value(json!({"operation": "DELETE", "predicate": condition}))?;
    let rewrite = Rewrite::begin(base, request)?;
    assert!(rewrite.command().marks_rows(), "the table has deletion vectors");
    let positions = ScanRequest {
        columns: Some([FILE, ROW].map(str::to_owned).to_vec()),
        predicate: Some(condition.clone()),
        ..ScanRequest::default()
    };
    let positions: Vec<RecordBatch> = block_on(Scan::new(base, positions)?.stream().try_collect())?;
    let (selected, _) = rewrite.select_rows(positions.into_iter().map(Ok))?;
    // Deletes the files it wrote if it is dropped here.
    let staged = selected.finish()?;
    Ok(staged.commit(BTreeMap::new())?)
}

/// The values of the rows that meet a predicate, sorted.
async fn scan(snapshot: &Snapshot, predicate: Option<Expr>) -> Result<Vec<i64>> {
    let request = ScanRequest {
        columns: Some(vec!["value".to_owned()]),
        predicate,
        ..ScanRequest::default()
    };
    let batches: Vec<RecordBatch> = Scan::new(snapshot, request)?.stream().try_collect().await?;
    let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
    let mut values: Vec<i64> = columns.flat_map(|column| column.values().to_vec()).collect();
    values.sort_unstable();
    Ok(values)
}

/// How many files can hold a row that meets a predicate.
async fn files(snapshot: &Snapshot, predicate: &Expr) -> Result<usize> {
    let (_, pruner) = bind_expr(snapshot.state(), predicate)?;
    let batches = snapshot.plan(Some(pruner), PlanColumns::Logged);
    let counts = batches.and_then(|batch| async move { Ok(file_reads(&batch)?.len()) });
    Ok(counts.try_fold(0, |sum, count| async move { Ok(sum + count) }).await?)
}
