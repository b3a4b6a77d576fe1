//! A table without Python: creates it in a temporary directory, appends rows, prunes by a predicate, scans, replaces the
//! rows of a partition and deletes those of another. Each step is asserted; `make test` runs it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use deltaplane_error::Result;
use deltaplane_log::{Committed, Snapshot, WriteMode, WriteRequest};
use deltaplane_operations::file_sets::file_reads;
use deltaplane_operations::scan::{Scan, ScanRequest, bind_expr};
use deltaplane_operations::write_job::{WriteJob, write_files};
use deltaplane_protocol::arrow_types::from_arrow_schema;
use deltaplane_protocol::expr::{Comparison, Expr};
use deltaplane_store::{Location, Options, Store, block_on};
use futures::TryStreamExt;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let location = Location::parse(&dir.path().to_string_lossy())?;
    let store = Store::open(&location, &Options::default())?;
    Ok(block_on(run(&store))?)
}

async fn run(store: &Store) -> Result<()> {
    // The first append creates the table.
    append(store, &rows(&["kg", "kg", "lb"], &[1, 2, 3])).await?;
    append(store, &rows(&["kg", "oz"], &[40, 50])).await?;
    let snapshot = Snapshot::open(store, None).await?;
    assert_eq!(snapshot.version(), 1);
    assert_eq!(scan(&snapshot, None).await?, [1, 2, 3, 40, 50]);

    // Files whose statistics say that no value is above 10 are not read.
    let above_10 = compare("value", Comparison::Gt, "10", "long");
    assert_eq!(files(&snapshot, &above_10).await?, 2);
    assert_eq!(scan(&snapshot, Some(above_10)).await?, [40, 50]);

    // The rows of the other partitions stay in their files.
    let replaced = replace(store, compare("unit", Comparison::Eq, "kg", "string"), &rows(&["kg"], &[60])).await?;
    assert_eq!(scan(&replaced.snapshot, None).await?, [3, 50, 60]);

    // No rows in the place of those of a partition: they are deleted.
    let deleted = replace(store, compare("unit", Comparison::Eq, "lb", "string"), &rows(&[], &[])).await?;
    assert_eq!(scan(&deleted.snapshot, None).await?, [50, 60]);

    // An older version still has its rows.
    let older = Snapshot::open(store, Some(1)).await?;
    assert_eq!(scan(&older, None).await?, [1, 2, 3, 40, 50]);
    println!("version {} has the rows that are expected", deleted.version);
    Ok(())
}

fn rows(units: &[&str], values: &[i64]) -> RecordBatch {
    let units = Arc::new(StringArray::from(units.to_vec())) as ArrayRef;
    let values = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    RecordBatch::try_from_iter([("unit", units), ("value", values)]).unwrap_or_else(|e| unreachable!("{e}"))
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

async fn append(store: &Store, rows: &RecordBatch) -> Result<Committed> {
    write(store, rows, WriteRequest::new(WriteMode::Append)).await
}

/// Puts rows in the place of those that meet a condition on partition columns.
async fn replace(store: &Store, condition: Expr, rows: &RecordBatch) -> Result<Committed> {
    let request = WriteRequest {
        predicate: Some(condition.to_json()?),
        ..WriteRequest::new(WriteMode::Overwrite)
    };
    write(store, rows, request).await
}

/// Plans a write, writes its files and commits them.
async fn write(store: &Store, rows: &RecordBatch, request: WriteRequest) -> Result<Committed> {
    let request = WriteRequest {
        partition_by: Some(vec!["unit".to_owned()]),
        ..request
    };
    let job = WriteJob::begin(store, None, from_arrow_schema(&rows.schema())?, request).await?;
    let adds = write_files(store.clone(), &job.spec()?, [Ok(rows.clone())].into_iter(), 0).await?;
    let committed = job.commit(adds).await?;
    committed.ok_or_else(|| deltaplane_error::Error::internal("an append or overwrite is never skipped"))
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
    let batches = snapshot.plan(Some(pruner), deltaplane_log::PlanColumns::Logged);
    let counts = batches.and_then(|batch| async move { Ok(file_reads(&batch)?.len()) });
    counts.try_fold(0, |sum, count| async move { Ok(sum + count) }).await
}
