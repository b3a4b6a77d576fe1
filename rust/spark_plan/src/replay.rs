//! Distributed replay: what a Spark task makes of a part of the log. The rules are the walk's own
//! (`protocol::replay`, the pruner, the view of adds); Spark only brings rows of one key together.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_log::{
    CommitActions, LogHead, PlanColumns, ReplayPart, ReplayParts, Snapshot, checkpoint_adds, commit_actions,
};
use deltaplane_operations::add_view::AddView;
use deltaplane_operations::scan::bind_to;
use deltaplane_protocol::actions::{Add, Metadata, Protocol};
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::features::catalog_managed::Authority;
use deltaplane_protocol::files::adds_to_batch;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::replay;
use deltaplane_protocol::state::TableState;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream, StreamExt};
use futures::{FutureExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::plan::{Files, pruner, spark_uri};

/// Rows of commits that travel together: enough that what a batch costs by itself doesn't count.
const BATCH_ROWS: usize = 8 * 1024;

/// Rows and their schema.
pub type Rows = (SchemaRef, BoxStream<'static, Result<RecordBatch>>);

/// Bytes of the log's files that a plan of a version may have to read, with Catalyst's filters and
/// their time zone.
///
/// # Errors
/// As opening the checkpoint.
pub async fn replay_bytes(snapshot: &Snapshot, filters: Option<(Vec<String>, String)>) -> Result<u64> {
    let by_filters = filters.map(|(filters, zone)| pruner(snapshot.state(), &filters, &zone));
    let pruner = by_filters.transpose()?.and_then(|(pruner, _)| pruner);
    snapshot.replay_bytes(pruner).await
}

/// What all tasks of a plan are told: serializes, and is made a [`Plan`] by each of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanSpec {
    version: u64,
    protocol: Protocol,
    metadata: Metadata,
    selection: Selection,
    show: String,
    files: String,
    keyed: bool,
}

/// Which files are planned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum Selection {
    /// All of them.
    #[default]
    All,
    /// Those that can hold rows which meet a condition.
    Predicate(Expr),
    /// Those that can hold rows which meet Catalyst's filters, as `toJSON` texts, in a session time
    /// zone.
    Filters(Vec<String>, String),
}

impl Selection {
    /// By a condition, else by filters and their time zone, else all.
    pub fn new(predicate: Option<Expr>, filters: Option<(Vec<String>, String)>) -> Self {
        match (predicate, filters) {
            (Some(predicate), _) => Selection::Predicate(predicate),
            (None, Some((filters, zone))) => Selection::Filters(filters, zone),
            (None, None) => Selection::All,
        }
    }
}

/// A version's state and its log in parts: what a distributed plan begins with.
pub struct Replay {
    version: u64,
    state: TableState,
    /// The log.
    pub parts: ReplayParts,
}

impl Replay {
    /// The replay of a version, in parts of about `target_bytes` bytes.
    ///
    /// # Errors
    /// As reading the checkpoint's footers.
    pub async fn of(snapshot: &Snapshot, target_bytes: u64) -> Result<Self> {
        Ok(Replay {
            version: snapshot.version(),
            state: snapshot.state().clone(),
            parts: snapshot.replay_parts(target_bytes).await?,
        })
    }

    /// The same of a table that isn't open, at a version, at a time or at the newest version: what
    /// its commits say of files is read past, not held.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a location that other processes can't see.
    pub async fn of_unopened(
        store: &Store,
        version: Option<u64>,
        timestamp_ms: Option<i64>,
        target_bytes: u64,
    ) -> Result<Self> {
        spark_uri(store.location())?;
        let head = match timestamp_ms {
            Some(time) => LogHead::open_at(store, time).await?,
            None => LogHead::open(store, version).await?,
        };
        Ok(Replay {
            version: head.version(),
            state: head.state().clone(),
            parts: head.replay_parts(target_bytes).await?,
        })
    }

    /// A plan of these files, of which it shows `plan`, `adds` or `sizes`.
    ///
    /// # Errors
    /// `InvalidArgument` for a condition that names no column of the table.
    pub fn plan(&self, selection: Selection, show: &str, files: &str) -> Result<PlanSpec> {
        let spec = PlanSpec {
            version: self.version,
            protocol: self.state.protocol().clone(),
            metadata: self.state.metadata().clone(),
            selection,
            show: show.to_owned(),
            files: files.to_owned(),
            keyed: !self.parts.commits.is_empty() || self.parts.may_repeat,
        };
        Plan::new(&spec)?;
        Ok(spec)
    }
}

/// One distributed plan, as its tasks know it.
pub struct Plan {
    version: u64,
    pruner: Option<Arc<Pruner>>,
    shown: Shown,
    files: Files,
    keyed: bool,
}

/// What is shown of each file.
enum Shown {
    /// The columns of a plan.
    View(Box<AddView>),
    /// The add action as JSON, without statistics and tags.
    Adds,
    /// The file's size.
    Sizes,
}

impl Plan {
    /// What the spec says, with its condition bound.
    ///
    /// # Errors
    /// `InvalidArgument` for a condition that names no column of the table.
    pub fn new(spec: &PlanSpec) -> Result<Self> {
        let authority = Authority::of_opened(&spec.protocol);
        let state = TableState::new(spec.protocol.clone(), spec.metadata.clone(), authority)?;
        let pruner = match &spec.selection {
            Selection::All => None,
            Selection::Predicate(predicate) => bind_to(&state, Some(predicate))?.map(|(_, pruner)| pruner),
            Selection::Filters(filters, zone) => pruner(&state, filters, zone)?.0,
        };
        let shown = match spec.show.as_str() {
            "plan" => Shown::View(Box::new(AddView::new(&state, true).with_vectors())),
            "adds" => Shown::Adds,
            "sizes" => Shown::Sizes,
            other => return Err(Error::internal(format!("nothing of a file is called {other:?}"))),
        };
        Ok(Plan {
            version: spec.version,
            pruner,
            shown,
            files: Files::parse(&spec.files)?,
            keyed: spec.keyed,
        })
    }

    /// What is shown.
    pub fn schema(&self) -> SchemaRef {
        match &self.shown {
            Shown::View(view) => view.schema().clone(),
            Shown::Adds => Arc::new(Schema::new(vec![Field::new("add", DataType::Utf8, false)])),
            Shown::Sizes => Arc::new(Schema::new(vec![Field::new("size_bytes", DataType::Int64, false)])),
        }
    }

    /// Files of a part of the checkpoint that may match; with their keys if commits are to be held
    /// against them.
    pub fn checkpoint_files(self, store: &Store, part: ReplayPart) -> Result<Rows> {
        let columns = match (&self.pruner, &self.shown) {
            (Some(_), _) => PlanColumns::Parsed,
            (None, Shown::View(view)) => view.plan_columns(),
            (None, Shown::Adds) => PlanColumns::Logged,
            (None, Shown::Sizes) => PlanColumns::Files,
        };
        let adds = checkpoint_adds(store, part, self.pruner.clone(), columns);
        let (schema, table, version) = (self.keyed_schema(), store.location().as_str().to_owned(), self.version);
        let of_batch = move |batch: Result<RecordBatch>| self.keyed_rows(&self.of_kind(batch?)?);
        let rows = adds
            .map(of_batch)
            .map_err(move |e| e.with_table(&table).with_version(version));
        Ok((schema, rows.boxed()))
    }

    /// The files of these add actions that may match.
    pub fn live_files(self, adds: &[Add]) -> Result<Rows> {
        let batch = self.of_kind(adds_to_batch(adds)?)?;
        let batch = match &self.pruner {
            Some(pruner) => filter_record_batch(&batch, &pruner.keep(&batch)?).map_err(layout)?,
            None => batch,
        };
        let rows = self.rows(&batch).map_err(|e| e.with_version(self.version));
        Ok((self.schema(), stream::iter([rows]).boxed()))
    }

    fn of_kind(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.files == Files::All {
            return Ok(batch);
        }
        let rows = FileRows::new(&batch);
        let keep = (0..batch.num_rows()).map(|row| self.files.has(rows.deletion_vector(row).as_ref()).map(Some));
        filter_record_batch(&batch, &keep.collect::<Result<_>>()?).map_err(layout)
    }

    fn rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = FileRows::new(batch);
        let every = 0..batch.num_rows();
        let column: ArrayRef = match &self.shown {
            Shown::View(view) => return view.rows(batch.clone()),
            Shown::Adds => {
                let bare = |row| {
                    let add = rows.add(row)?;
                    to_json(&Add {
                        stats: None,
                        tags: None,
                        ..add
                    })
                };
                Arc::new(StringArray::from(every.map(bare).collect::<Result<Vec<_>>>()?))
            }
            Shown::Sizes => Arc::new(Int64Array::from_iter_values(every.map(|row| rows.size(row)))),
        };
        RecordBatch::try_new(self.schema(), vec![column]).map_err(layout)
    }

    fn keyed_schema(&self) -> SchemaRef {
        let (shown, [path, vector]) = (self.schema(), key_fields());
        if !self.keyed {
            return shown;
        }
        let mut fields: Vec<_> = shown.fields().iter().cloned().collect();
        if shown.column_with_name(path.name()).is_none() {
            fields.push(Arc::new(path));
        }
        fields.push(Arc::new(vector));
        Arc::new(Schema::new(fields))
    }

    fn keyed_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let shown = self.rows(batch)?;
        if !self.keyed {
            return Ok(shown);
        }
        let (paths, vectors) = replay::keys(batch)?;
        let mut columns = shown.columns().to_vec();
        let schema = self.keyed_schema();
        if columns.len() + 2 == schema.fields().len() {
            columns.push(Arc::new(paths));
        }
        columns.push(Arc::new(vectors));
        RecordBatch::try_new(schema, columns).map_err(layout)
    }
}

/// The keys that a part of the commits names; with their words on them (version, turn, and the add
/// unless the word is a remove) if they are to be reconciled.
pub fn commit_words(store: &Store, part: ReplayPart, keys_only: bool) -> Rows {
    let schema = word_schema(keys_only);
    let (words, table) = (schema.clone(), store.location().as_str().to_owned());
    let rows = commit_actions(store, part).map(move |commit| {
        let commit = commit?;
        words_of(&commit, &words, keys_only).map_err(|e| e.with_version(commit.version))
    });
    let (rows, joined) = (rows.boxed(), schema.clone());
    let gathered = stream::try_unfold(rows, move |rows| gather(joined.clone(), rows).boxed());
    (schema, gathered.map_err(move |e| e.with_table(&table)).boxed())
}

type Gathered<S> = Result<Option<(RecordBatch, S)>>;

async fn gather(
    schema: SchemaRef,
    mut rows: BoxStream<'static, Result<RecordBatch>>,
) -> Gathered<BoxStream<'static, Result<RecordBatch>>> {
    let (mut batches, mut count) = (Vec::new(), 0);
    while count < BATCH_ROWS
        && let Some(batch) = rows.try_next().await?
    {
        count += batch.num_rows();
        batches.push(batch);
    }
    if batches.is_empty() {
        return Ok(None);
    }
    Ok(Some((concat_batches(&schema, &batches).map_err(layout)?, rows)))
}

fn words_of(commit: &CommitActions, schema: &SchemaRef, keys_only: bool) -> Result<RecordBatch> {
    let (adds, removes) = (&commit.adds, &commit.removes);
    let (turns, removed) = replay::in_turn(adds.num_rows(), removes.num_rows());
    let version = i64::try_from(commit.version).map_err(|_| Error::internal("a version is out of range"))?;
    let words_of_rows = |batch: &RecordBatch, turns: std::ops::Range<usize>, are_adds: bool| {
        let (paths, vectors) = replay::keys(batch)?;
        let mut columns: Vec<ArrayRef> = vec![Arc::new(paths), Arc::new(vectors)];
        if !keys_only {
            let rows = FileRows::new(batch);
            let text = |row| are_adds.then(|| to_json(&rows.add(row)?)).transpose();
            let texts = (0..batch.num_rows()).map(text).collect::<Result<Vec<_>>>()?;
            let turns = turns.map(|turn| i64::try_from(turn).unwrap_or(i64::MAX));
            columns.push(Arc::new(Int64Array::from(vec![version; batch.num_rows()])));
            columns.push(Arc::new(Int64Array::from_iter_values(turns)));
            columns.push(Arc::new(StringArray::from(texts)));
        }
        RecordBatch::try_new(schema.clone(), columns).map_err(layout)
    };
    let both = [
        words_of_rows(adds, turns, true)?,
        words_of_rows(removes, removed, false)?,
    ];
    concat_batches(schema, &both).map_err(layout)
}

fn key_fields() -> [Field; 2] {
    [
        Field::new("path", DataType::Utf8, false),
        Field::new("vector_id", DataType::Utf8, true),
    ]
}

fn word_schema(keys_only: bool) -> SchemaRef {
    let mut fields = key_fields().to_vec();
    if !keys_only {
        fields.push(Field::new("version", DataType::Int64, false));
        fields.push(Field::new("turn", DataType::Int64, false));
        fields.push(Field::new("add", DataType::Utf8, true));
    }
    Arc::new(Schema::new(fields))
}

fn to_json(add: &Add) -> Result<String> {
    serde_json::to_string(add).map_err(|e| Error::internal(format!("can't write an add action as JSON: {e}")))
}

fn layout(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("can't lay out the files of a part of the log: {e}"))
}
