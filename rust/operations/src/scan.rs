//! Scans: the rows of one version of a table as a stream of Arrow batches. The log plans the files,
//! the data crate reads the rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use deltaplane_data::{FileRead, Members, ReadSpec, RowGroups};
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, ScanReport, Snapshot};
use deltaplane_protocol::arrow_types::with_declared_nullability;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::hidden_columns::{self, ROW_COMMIT_VERSION, ROW_ID};
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::state::TableState;
use futures::future;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::file_sets::{FileSet, file_reads};
use crate::key_lookup::{KeyRows, narrowed};

/// What a scan of a version shows of it.
#[derive(Default)]
pub struct ScanRequest {
    /// Columns, in this order; all of them when absent.
    pub columns: Option<Vec<String>>,
    /// Condition of every row that is shown.
    pub predicate: Option<Expr>,
    /// Rows of a batch, at most.
    pub batch_rows: Option<usize>,
    /// Whether the column `_file` comes as a dictionary.
    pub encoded_files: bool,
    /// What a row has to hold in columns.
    pub sought: Sought,
}

/// The values of another table's rows, as of a MERGE's source, that rows must hold to be shown.
#[derive(Default)]
pub struct Sought {
    /// A column, and the values of which a row has to hold one there.
    members: Option<Members>,
    /// Keys of several columns, of which every wanted row has one; others may be shown too.
    keys: Option<KeyRows>,
}

impl Sought {
    /// The values of a stream's first column as those of which a column has to hold one, and the
    /// keys of its rows, whose further columns have the names of the table's. What has a type that
    /// isn't looked up leaves no row out.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn of(column: &str, rows: impl Iterator<Item = Result<RecordBatch>>, nulls: bool) -> Result<Sought> {
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let arrays: Vec<_> = rows.iter().filter_map(|b| b.columns().first().cloned()).collect();
        Ok(Sought {
            members: Members::new(column, &arrays, nulls),
            keys: KeyRows::new(&rows),
        })
    }
}

/// Rows of one version of a table. Each stream reads them from the beginning.
pub struct Scan {
    snapshot: Snapshot,
    spec: Arc<ReadSpec>,
    schema: SchemaRef,
    files: Files,
}

/// The files of a scan.
enum Files {
    /// Those that may hold rows which the pruner keeps, and one of these keys.
    Planned(Option<Arc<Pruner>>, Option<Arc<KeyRows>>),
    /// These.
    Listed(Vec<FileRead>),
    /// Of a version, that may be another one than the columns', what these files lack.
    MissingRows(Snapshot, Arc<FileSet>),
}

/// All rows of a version with these columns.
pub fn read_spec(snapshot: &Snapshot, columns: Option<Vec<String>>) -> Result<ReadSpec> {
    let state = snapshot.state();
    refuse_missing_ids(snapshot, columns.as_deref())?;
    let mut spec = ReadSpec::new(state.schema().clone(), state.partition_columns().to_vec());
    spec.mapping = state.mapping();
    spec.columns = columns;
    (spec.stored_row_ids, spec.stored_row_commit_versions) = row_tracking::materialised(state.metadata());
    Ok(spec)
}

/// Binds a predicate to a snapshot.
pub fn bind(snapshot: &Snapshot, predicate: Option<&Expr>) -> Result<Option<(Predicate, Arc<Pruner>)>> {
    bind_to(snapshot.state(), predicate)
}

/// The same to the table's state.
pub fn bind_to(state: &TableState, predicate: Option<&Expr>) -> Result<Option<(Predicate, Arc<Pruner>)>> {
    predicate.map(|expr| bind_expr(state, expr)).transpose()
}

/// A condition of rows for tables in this state, and what prunes files by it.
pub fn bind_expr(state: &TableState, expr: &Expr) -> Result<(Predicate, Arc<Pruner>)> {
    let predicate = Predicate::bind(expr, state.schema())?;
    let pruner = Pruner::new(&predicate, state.schema(), state.partition_columns(), state.mapping())?;
    Ok((predicate, Arc::new(pruner)))
}

/// Of the first `most_files` files that may hold a matching row: the number of row groups, and of
/// those that may hold one.
///
/// # Errors
/// As of [`Scan::new`] and [`Scan::row_groups`].
pub async fn row_groups(snapshot: &Snapshot, predicate: Option<&Expr>, most_files: usize) -> Result<(usize, usize)> {
    let request = ScanRequest {
        predicate: predicate.cloned(),
        ..ScanRequest::default()
    };
    let counted = Scan::new(snapshot, request)?.row_groups(most_files).await?;
    Ok((counted.all, counted.selected))
}

/// What a plan of a version with a condition reads; without one, of a plan of all files.
///
/// # Errors
/// A condition that doesn't fit the table; those of reading the log.
pub async fn explain(snapshot: &Snapshot, predicate: Option<&Expr>) -> Result<ScanReport> {
    let always = Expr::Literal {
        value: Some("true".to_owned()),
        type_name: "boolean".to_owned(),
    };
    let (bound, pruner) = bind_expr(snapshot.state(), predicate.unwrap_or(&always))?;
    let narrower = narrowed(
        snapshot,
        snapshot.schema(),
        Some(&bound),
        (None, None),
        Some(pruner.clone()),
    )
    .await;
    snapshot.explain(narrower.unwrap_or(pruner)).await
}

/// What prunes the files of a plan with this condition, by statistics and by indexes of keys.
///
/// # Errors
/// A condition that doesn't fit the table.
pub async fn pruner_of(snapshot: &Snapshot, predicate: Option<&Expr>) -> Result<Option<Arc<Pruner>>> {
    match bind(snapshot, predicate)? {
        None => Ok(None),
        Some((bound, pruner)) => {
            Ok(narrowed(snapshot, snapshot.schema(), Some(&bound), (None, None), Some(pruner)).await)
        }
    }
}

/// The files of a version that may hold rows which the pruner keeps.
fn files_of(snapshot: &Snapshot, pruner: Option<Arc<Pruner>>) -> BoxStream<'static, Result<FileRead>> {
    let batches = snapshot.plan(pruner, PlanColumns::Logged);
    let files = batches.map(|batch| file_reads(&batch?));
    files
        .map_ok(|files| stream::iter(files.into_iter().map(Ok)))
        .try_flatten()
        .boxed()
}

/// The names that one state's schema has for the columns by which another one is partitioned.
fn partition_columns_of(state: &TableState, named_by: &TableState) -> Vec<String> {
    let key = |key_of: &TableState, column: &str| key_of.mapping().partition_key(key_of.schema(), column).to_owned();
    let keys: Vec<String> = state.partition_columns().iter().map(|c| key(state, c)).collect();
    let fields = named_by.schema().fields().iter().map(|f| f.name.clone());
    fields.filter(|name| keys.contains(&key(named_by, name))).collect()
}

/// Row ids are asked for only of tables that have them (P143).
fn refuse_missing_ids(snapshot: &Snapshot, columns: Option<&[String]>) -> Result<()> {
    let wanted = columns.unwrap_or_default().iter().find(|name| {
        let is_id = hidden_columns::reserved(name).is_some_and(|column| [ROW_ID, ROW_COMMIT_VERSION].contains(&column));
        is_id && snapshot.schema().field_ignore_case(name).is_none()
    });
    match wanted {
        Some(name) if !row_tracking::is_on(snapshot.state().metadata()) => Err(Error::invalid_argument(format!(
            "the column `{name}` is there only in tables with row tracking (delta.enableRowTracking = true), which this one hasn't"
        ))),
        _ => Ok(()),
    }
}

impl Scan {
    /// The rows of a version that a request asks for.
    ///
    /// # Errors
    /// `InvalidArgument` for a column that the table hasn't, `UnsupportedExpression` for a
    /// predicate that can't be bound.
    pub fn new(snapshot: &Snapshot, request: ScanRequest) -> Result<Self> {
        let bound = request.predicate.map(|expr| bind_expr(snapshot.state(), &expr));
        let (predicate, pruner) = bound.transpose()?.unzip();
        snapshot.note_read(pruner.as_ref());
        let mut spec = read_spec(snapshot, request.columns)?;
        spec.predicate = predicate;
        spec.encoded_files = request.encoded_files;
        spec.members = request.sought.members.map(Arc::new);
        if let Some(n) = request.batch_rows {
            spec.batch_rows = n.max(1);
        }
        Self::of(
            snapshot,
            spec,
            Files::Planned(pruner, request.sought.keys.map(Arc::new)),
        )
    }

    /// The rows of these files of a version; `_file` comes as a dictionary.
    pub fn of_files(snapshot: &Snapshot, files: Vec<FileRead>, columns: Vec<String>) -> Result<Self> {
        let spec = ReadSpec {
            encoded_files: true,
            ..read_spec(snapshot, Some(columns))?
        };
        Self::of(snapshot, spec, Files::Listed(files))
    }

    /// The rows that a version has in files, or has left in files, which another version hasn't; as
    /// this snapshot's columns.
    pub fn of_rows_missing_in(
        snapshot: &Snapshot,
        base: &Snapshot,
        others: FileSet,
        columns: Vec<String>,
    ) -> Result<Self> {
        let mut spec = read_spec(snapshot, Some(columns))?;
        spec.partition_columns = partition_columns_of(base.state(), snapshot.state());
        Self::of(snapshot, spec, Files::MissingRows(base.clone(), Arc::new(others)))
    }

    fn of(snapshot: &Snapshot, spec: ReadSpec, files: Files) -> Result<Self> {
        Ok(Scan {
            schema: spec.output_schema()?,
            snapshot: snapshot.clone(),
            spec: Arc::new(spec),
            files,
        })
    }

    fn file_stream(&self) -> BoxStream<'static, Result<FileRead>> {
        match &self.files {
            Files::Listed(files) => stream::iter(files.clone().into_iter().map(Ok)).boxed(),
            Files::Planned(pruner, keys) => {
                let (snapshot, spec) = (self.snapshot.clone(), self.spec.clone());
                let (pruner, keys) = (pruner.clone(), keys.clone());
                let planned = async move {
                    let predicate = spec.predicate.as_ref();
                    let sought = (spec.members.as_deref(), keys.as_deref());
                    let pruner = narrowed(&snapshot, snapshot.schema(), predicate, sought, pruner).await;
                    files_of(&snapshot, pruner)
                };
                stream::once(planned).flatten().boxed()
            }
            Files::MissingRows(other, others) => {
                let others = others.clone();
                files_of(other, None)
                    .try_filter_map(move |file| future::ready(Ok(others.rows_missing_in(file))))
                    .boxed()
            }
        }
    }

    /// Counts the row groups of the first `most_files` files that may have a row for which the
    /// predicate is true; reads their footers.
    ///
    /// # Errors
    /// As of the stream.
    pub async fn row_groups(&self, most_files: usize) -> Result<RowGroups> {
        let files = self.file_stream().take(most_files).boxed();
        let counted = deltaplane_data::row_groups(self.snapshot.store(), files, &self.spec).await;
        let table = self.snapshot.store().location().as_str();
        counted.map_err(|e| e.with_table(table).with_version(self.snapshot.version()))
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The same columns, NOT NULL where the table declares them so.
    pub fn declared_schema(&self) -> SchemaRef {
        with_declared_nullability(&self.schema, &self.spec.schema)
    }

    /// The rows, read by as many tasks as there are processors; an error names the table and its
    /// version.
    pub fn stream(&self) -> BoxStream<'static, Result<RecordBatch>> {
        let files = self.file_stream();
        let parallelism = deltaplane_data::processors();
        let (table, version) = (
            self.snapshot.store().location().as_str().to_owned(),
            self.snapshot.version(),
        );
        deltaplane_data::scan(self.snapshot.store().clone(), files, self.spec.clone(), parallelism)
            .map_err(move |e| e.with_table(&table).with_version(version))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use deltaplane_error::Kind;
    use deltaplane_store::block_on;

    use super::*;
    use crate::testing::{Table, above, ids, rows};

    fn three_files() -> (Table, Snapshot) {
        let table = Table::new();
        for file in [[1, 2], [11, 12], [21, 22]] {
            table.append(&file);
        }
        let snapshot = table.snapshot();
        (table, snapshot)
    }

    #[test]
    fn rows_of_all_files_come_with_the_columns_asked_for() {
        let (_table, snapshot) = three_files();
        let all = Scan::new(&snapshot, ScanRequest::default()).unwrap();
        let mut read = ids(all.stream());
        read.sort_unstable();
        assert_eq!(read, [1, 2, 11, 12, 21, 22]);
        assert_eq!(all.schema().fields().len(), 2);
        let columns = Some(vec!["id".to_owned()]);
        let scan = Scan::new(
            &snapshot,
            ScanRequest {
                columns,
                ..ScanRequest::default()
            },
        )
        .unwrap();
        assert_eq!(
            scan.schema()
                .fields()
                .iter()
                .map(|f| f.name().as_str())
                .collect::<Vec<_>>(),
            ["id"]
        );
        assert_eq!(
            ids(scan.stream()).len(),
            ids(scan.stream()).len(),
            "each stream reads from the beginning"
        );
    }

    #[test]
    fn a_predicate_prunes_files_and_filters_rows() {
        let (_table, snapshot) = three_files();
        let request = ScanRequest {
            predicate: Some(above(11)),
            ..ScanRequest::default()
        };
        let scan = Scan::new(&snapshot, request).unwrap();
        let files: Vec<FileRead> = block_on(scan.file_stream().try_collect()).unwrap();
        assert_eq!(files.len(), 2, "the file of 1 and 2 is not opened");
        let mut read = ids(scan.stream());
        read.sort_unstable();
        assert_eq!(read, [12, 21, 22]);
    }

    #[test]
    fn row_groups_are_counted_by_the_statistics_of_the_footers() {
        let (_table, snapshot) = three_files();
        let counted = |predicate, most| {
            let request = ScanRequest {
                predicate,
                ..ScanRequest::default()
            };
            let scan = Scan::new(&snapshot, request).unwrap();
            let RowGroups { all, selected } = block_on(scan.row_groups(most)).unwrap();
            (all, selected)
        };
        assert_eq!(counted(None, 10), (3, 3));
        assert_eq!(counted(None, 2), (2, 2));
        assert_eq!(counted(Some(above(12)), 10), (1, 1), "the log excludes the other files");
    }

    #[test]
    fn a_plan_explains_which_files_its_condition_keeps() {
        let (_table, snapshot) = three_files();
        let all = block_on(explain(&snapshot, None)).unwrap();
        let some = block_on(explain(&snapshot, Some(&above(11)))).unwrap();
        assert_ne!(
            serde_json::to_value(&all).unwrap(),
            serde_json::to_value(&some).unwrap()
        );
        let unknown = Expr::Column {
            name: vec!["missing".to_owned()],
        };
        assert!(block_on(explain(&snapshot, Some(&unknown))).is_err());
    }

    #[test]
    fn values_of_another_table_select_rows() {
        let (_table, snapshot) = three_files();
        let values = RecordBatch::try_from_iter([("other", Arc::new(Int64Array::from(vec![2, 21, 99])) as ArrayRef)]);
        let sought = Sought::of("id", [Ok(values.unwrap())].into_iter(), false).unwrap();
        assert!(sought.members.is_some() && sought.keys.is_none());
        let scan = Scan::new(
            &snapshot,
            ScanRequest {
                sought,
                ..ScanRequest::default()
            },
        )
        .unwrap();
        let mut read = ids(scan.stream());
        read.sort_unstable();
        assert_eq!(read, [2, 21]);
    }

    #[test]
    fn rows_missing_in_an_older_version_are_those_of_newer_files() {
        let table = Table::new();
        table.append(&[1]);
        let older = table.snapshot();
        table.append(&[2, 3]);
        let newer = table.snapshot();
        let columns = || vec!["id".to_owned()];
        let known = block_on(FileSet::of(&older)).unwrap();
        let new = Scan::of_rows_missing_in(&newer, &newer, known, columns()).unwrap();
        assert_eq!(ids(new.stream()), [2, 3]);
        let known = block_on(FileSet::of(&newer)).unwrap();
        let gone = Scan::of_rows_missing_in(&newer, &older, known, columns()).unwrap();
        assert_eq!(ids(gone.stream()), Vec::<i64>::new());
    }

    #[test]
    fn row_ids_of_a_table_without_row_tracking_are_refused() {
        let (_table, snapshot) = three_files();
        let columns = Some(vec![ROW_ID.to_owned()]);
        let refused = Scan::new(
            &snapshot,
            ScanRequest {
                columns,
                ..ScanRequest::default()
            },
        );
        let error = refused.map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.to_string().contains("delta.enableRowTracking"), "{error}");
    }

    #[test]
    fn an_error_of_a_stream_names_the_table_and_its_version() {
        let (table, snapshot) = three_files();
        let file = block_on(
            Scan::new(&snapshot, ScanRequest::default())
                .unwrap()
                .file_stream()
                .try_next(),
        );
        block_on(table.store.delete(&file.unwrap().unwrap().path)).unwrap();
        let scan = Scan::new(&snapshot, ScanRequest::default()).unwrap();
        let read: Result<Vec<RecordBatch>> = block_on(scan.stream().try_collect());
        let error = read.unwrap_err();
        assert_eq!(error.kind(), Kind::FileMissing);
        assert_eq!(
            (error.version(), error.table()),
            (Some(2), Some(table.store.location().as_str()))
        );
    }

    #[test]
    fn batches_have_at_most_the_rows_asked_for() {
        let table = Table::new();
        table.append(&(0..100).collect::<Vec<_>>());
        let request = ScanRequest {
            batch_rows: Some(30),
            ..ScanRequest::default()
        };
        let scan = Scan::new(&table.snapshot(), request).unwrap();
        let batches: Vec<RecordBatch> = block_on(scan.stream().try_collect()).unwrap();
        assert!(batches.iter().all(|b| b.num_rows() <= 30));
        assert_eq!(
            batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
            rows(&[0; 100]).num_rows()
        );
    }
}
