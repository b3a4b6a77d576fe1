//! Plans of a small table in a temporary directory, as Spark's driver and its tasks make them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use deltaplane_error::{Kind, Result};
use deltaplane_log::{CommitRequest, PlanColumns, Snapshot, WriteMode, WriteRequest};
use deltaplane_operations::write_job::{WriteJob, write_files};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::arrow_types::from_arrow_schema;
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_store::{Location, Options, Store, block_on};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};

use crate::plan::{Files, Planned, plan, pruner, size_bytes, spark_uri, uris};
use crate::replay::{Plan, Replay, Selection, commit_words};
use crate::splits::{Split, SplitScan, change_splits, splits};

/// A table with the columns `part`, by which it is partitioned, and `id`.
struct Table {
    store: Store,
    _dir: tempfile::TempDir,
}

impl Table {
    /// One file each of the parts `a` with 1 and 2, and `b` with 11.
    fn new() -> Self {
        Table::with(&[])
    }

    /// The same with these properties.
    fn with(properties: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
        let store = Store::open(&location, &Options::default()).unwrap();
        let table = Table { store, _dir: dir };
        let configuration = properties
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        table.write(
            "a",
            &[1, 2],
            WriteRequest {
                configuration: configuration.collect(),
                ..WriteRequest::new(WriteMode::Append)
            },
        );
        table.append("b", &[11]);
        table
    }

    fn append(&self, part: &str, ids: &[i64]) {
        self.write(part, ids, WriteRequest::new(WriteMode::Append));
    }

    /// Puts these rows in the place of those of the part.
    fn replace(&self, part: &str, ids: &[i64]) {
        let literal = json!({"op": "literal", "value": part, "type": "string"});
        let predicate =
            json!({"op": "compare", "cmp": "=", "left": {"op": "column", "name": ["part"]}, "right": literal});
        self.write(
            part,
            ids,
            WriteRequest {
                predicate: Some(Expr::from_value(predicate).unwrap()),
                ..WriteRequest::new(WriteMode::Overwrite)
            },
        );
    }

    fn write(&self, part: &str, ids: &[i64], request: WriteRequest) {
        let rows = RecordBatch::try_from_iter([
            ("part", Arc::new(StringArray::from(vec![part; ids.len()])) as ArrayRef),
            ("id", Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef),
        ])
        .unwrap();
        let request = WriteRequest {
            partition_by: Some(vec!["part".to_owned()]),
            commit: CommitRequest {
                checkpoint: Some(false),
                ..CommitRequest::default()
            },
            ..request
        };
        let schema = from_arrow_schema(&rows.schema()).unwrap();
        let job = block_on(WriteJob::begin(&self.store, None, schema, request)).unwrap();
        let spec = job.spec().unwrap();
        let adds = block_on(write_files(self.store.clone(), &spec, [Ok(rows)].into_iter(), 0)).unwrap();
        block_on(job.commit(adds)).unwrap().unwrap();
    }

    fn snapshot(&self) -> Snapshot {
        block_on(Snapshot::open(&self.store, None)).unwrap()
    }
}

fn node(class: &str, children: usize, fields: &Value) -> Value {
    let mut node =
        json!({"class": format!("org.apache.spark.sql.catalyst.expressions.{class}"), "num-children": children});
    let fields = fields.as_object().unwrap().clone();
    node.as_object_mut().unwrap().extend(fields);
    node
}

/// A filter that compares a column with a literal, as `Expression.toJSON` prints it.
fn compared(class: &str, column: &str, value: &str, data_type: &str) -> String {
    let column = node("AttributeReference", 0, &json!({"name": column, "dataType": data_type}));
    let literal = node("Literal", 0, &json!({"value": value, "dataType": data_type}));
    json!([node(class, 2, &json!({"left": 0, "right": 1})), column, literal]).to_string()
}

/// A filter of a function that pruning knows nothing of.
fn unknown() -> String {
    json!([
        node("Rand", 1, &json!({})),
        node("Literal", 0, &json!({"value": "1", "dataType": "long"}))
    ])
    .to_string()
}

fn planned(snapshot: &Snapshot, filters: &[String], files: Files, counts_rows: bool) -> Planned {
    block_on(plan(snapshot, filters, "UTC", files, counts_rows)).unwrap()
}

// --- filters ---

#[test]
fn filters_that_are_not_understood_are_left_to_spark() {
    let table = Table::new();
    let state = table.snapshot().state().clone();
    let (none, understood) = pruner(&state, &[unknown()], "UTC").unwrap();
    assert!(none.is_none());
    assert_eq!(understood, 0);
    let filters = [unknown(), compared("GreaterThan", "id", "5", "long")];
    let (some, understood) = pruner(&state, &filters, "UTC").unwrap();
    assert!(some.is_some());
    assert_eq!(understood, 1);
}

#[test]
fn a_filter_on_a_column_that_the_relation_has_not_is_left_to_spark() {
    let table = Table::new();
    let filters = [compared("EqualTo", "missing", "5", "long"), "not JSON".to_owned()];
    let (none, understood) = pruner(table.snapshot().state(), &filters, "UTC").unwrap();
    assert_eq!((none.is_none(), understood), (true, 0));
}

#[test]
fn filters_leave_the_files_that_can_hold_a_row() {
    let table = Table::new();
    let snapshot = table.snapshot();
    let by_statistics = planned(
        &snapshot,
        &[compared("GreaterThan", "id", "5", "long")],
        Files::All,
        true,
    );
    assert_eq!(
        (
            by_statistics.understood,
            by_statistics.rows,
            by_statistics.directories.len()
        ),
        (1, Some(1), 1)
    );
    let by_partition = planned(
        &snapshot,
        &[compared("EqualTo", "part", "a", "string")],
        Files::All,
        true,
    );
    assert_eq!((by_partition.rows, by_partition.directories.len()), (Some(2), 1));
    let both = [
        compared("EqualTo", "part", "a", "string"),
        compared("GreaterThan", "id", "5", "long"),
    ];
    assert!(planned(&snapshot, &both, Files::All, false).directories.is_empty());
}

// --- plan ---

#[test]
fn a_plan_has_each_file_under_its_partition_values() {
    let table = Table::new();
    table.append("a", &[3]);
    let snapshot = table.snapshot();
    let all = planned(&snapshot, &[], Files::All, true);
    let mut sizes: Vec<usize> = all.directories.iter().map(|d| d.files.len()).collect();
    sizes.sort_unstable();
    assert_eq!((sizes, all.rows, all.considered), (vec![1, 2], Some(4), 3));
    let of_plan: BTreeSet<String> = all
        .directories
        .iter()
        .flat_map(|d| &d.files)
        .map(|f| f.uri.clone())
        .collect();
    assert_eq!(
        of_plan,
        block_on(uris(&snapshot, Files::All)).unwrap().into_iter().collect()
    );
    let root = spark_uri(snapshot.store().location()).unwrap();
    assert!(
        of_plan.iter().all(|uri| uri.starts_with(&format!("{root}/part="))),
        "{of_plan:?}"
    );
    let size_by = |is_listed| block_on(size_bytes(&snapshot, Files::All, is_listed)).unwrap();
    assert_eq!(size_by(true), Some(all.size_bytes));
    // The checksum says the same, or nothing.
    assert!(size_by(false).is_none_or(|known| known == all.size_bytes));
    assert!(
        planned(&snapshot, &[], Files::Marked, false).directories.is_empty(),
        "no file has a deletion vector"
    );
}

/// Reads a plan's bytes as `Found.java` does: partition row and URIs of each directory.
fn decoded(blob: &[u8]) -> Vec<(Vec<u8>, Vec<String>)> {
    let mut rest = blob;
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at(n);
        rest = tail;
        head.to_vec()
    };
    let int = |bytes: Vec<u8>| usize::try_from(i32::from_be_bytes(bytes.try_into().unwrap())).unwrap();
    assert_eq!(int(take(4)), 0, "no row ids are asked for");
    let directories = (0..int(take(4)))
        .map(|_| {
            assert_eq!(int(take(4)), 1, "one partition column");
            let length = int(take(4));
            let row = take(length);
            let files = (0..int(take(4)))
                .map(|_| {
                    assert!(i64::from_be_bytes(take(8).try_into().unwrap()) > 0, "the file's size");
                    assert!(i64::from_be_bytes(take(8).try_into().unwrap()) > 0, "the file's time");
                    let length = int(take(4));
                    String::from_utf8(take(length)).unwrap()
                })
                .collect();
            (row, files)
        })
        .collect();
    assert!(rest.is_empty(), "nothing comes after the last file");
    directories
}

#[test]
fn the_bytes_of_a_plan_are_what_the_jvm_reads() {
    let table = Table::new();
    let plan = planned(&table.snapshot(), &[], Files::All, false);
    let encoded = plan.encode().unwrap();
    assert_eq!((encoded.files, encoded.directories), (2, 2));
    let mut read = decoded(&encoded.blob);
    read.sort();
    // An UnsafeRow of one text: no null bit, the place (16) and the length (1) of the text, the
    // text in eight bytes.
    let row = |text: &[u8]| {
        [
            &0u64.to_ne_bytes()[..],
            &((16u64 << 32) | 1).to_ne_bytes(),
            text,
            &[0; 7],
        ]
        .concat()
    };
    let rows: Vec<_> = read.iter().map(|(row, _)| row.clone()).collect();
    assert_eq!(rows, [row(b"a"), row(b"b")]);
    assert!(
        read.iter()
            .all(|(_, files)| files.len() == 1 && files[0].ends_with(".parquet")),
        "{read:?}"
    );
}

#[test]
fn a_table_in_memory_is_no_table_of_spark() {
    let location = Location::parse("memory://spark-plan-test").unwrap();
    assert_eq!(spark_uri(&location).unwrap_err().kind(), Kind::UnsupportedFeature);
    let location = Location::parse("s3://bucket/table").unwrap();
    assert_eq!(spark_uri(&location).unwrap(), "s3a://bucket/table");
}

// --- splits ---

fn ids(rows: BoxStream<'static, Result<RecordBatch>>) -> Vec<i64> {
    let batches: Vec<RecordBatch> = block_on(rows.try_collect()).unwrap();
    let columns = batches
        .iter()
        .map(|b| b.column_by_name("id").unwrap().as_primitive::<Int64Type>());
    columns.flat_map(|ids| ids.values().to_vec()).collect()
}

fn rows_of(table: &Table, split: &Split, predicate: Option<&Expr>) -> Vec<i64> {
    let scan = SplitScan::of_rows(&table.snapshot(), predicate.cloned());
    // As another process gets both.
    let text = json!([scan, split]).to_string();
    let (scan, split): (SplitScan, Split) = serde_json::from_str(&text).unwrap();
    let columns = vec!["id".to_owned(), "part".to_owned()];
    let (schema, rows) = scan.read(table.store.clone(), columns, split).unwrap();
    assert_eq!(schema.fields().len(), 2);
    ids(rows)
}

#[test]
fn splits_have_every_file_once_and_are_cut_by_size() {
    let table = Table::new();
    let snapshot = table.snapshot();
    let whole = block_on(splits(&snapshot, None, u64::MAX)).unwrap();
    assert_eq!(whole.len(), 1);
    let many = block_on(splits(&snapshot, None, 1)).unwrap();
    assert_eq!(many.len(), 2, "a file is never cut");
    let read = |splits: &[Split]| {
        let mut ids: Vec<i64> = splits.iter().flat_map(|split| rows_of(&table, split, None)).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!((read(&whole), read(&many)), (vec![1, 2, 11], vec![1, 2, 11]));
}

#[test]
fn a_predicate_prunes_splits_and_filters_their_rows() {
    let table = Table::new();
    let literal = json!({"op": "literal", "value": "1", "type": "long"});
    let above_1 = json!({"op": "compare", "cmp": ">", "left": {"op": "column", "name": ["id"]}, "right": literal});
    let below_9 = json!({"op": "compare", "cmp": "<", "left": {"op": "column", "name": ["id"]},
        "right": {"op": "literal", "value": "9", "type": "long"}});
    let predicate = Expr::from_value(json!({"op": "and", "args": [above_1, below_9]})).unwrap();
    let matching = block_on(splits(&table.snapshot(), Some(&predicate), 1)).unwrap();
    assert_eq!(matching.len(), 1);
    assert_eq!(rows_of(&table, &matching[0], Some(&predicate)), [2]);
}

#[test]
fn a_column_that_the_rows_lack_is_refused() {
    let table = Table::new();
    let split = block_on(splits(&table.snapshot(), None, 1)).unwrap().remove(0);
    let scan = SplitScan::of_rows(&table.snapshot(), None);
    let columns = vec!["_change_type".to_owned()];
    let refused = scan.read(table.store.clone(), columns, split).map(drop);
    assert_eq!(refused.unwrap_err().kind(), Kind::InvalidArgument);
}

#[test]
fn changed_rows_come_with_the_columns_of_changes() {
    let table = Table::with(&[("delta.enableChangeDataFeed", "true")]);
    let snapshot = table.snapshot();
    let scan = SplitScan::of_changes(&snapshot, None).unwrap();
    let columns = vec!["id".to_owned(), "_change_type".to_owned()];
    let splits = block_on(change_splits(&snapshot, 0, None, u64::MAX)).unwrap();
    let mut read = Vec::new();
    for split in splits {
        let (schema, rows) = scan.read(table.store.clone(), columns.clone(), split).unwrap();
        assert_eq!(schema.field(1).name(), "_change_type");
        read.extend(ids(rows));
    }
    read.sort_unstable();
    assert_eq!(read, [1, 2, 11]);
}

// --- distributed replay ---

fn batches(rows: BoxStream<'static, Result<RecordBatch>>) -> Vec<RecordBatch> {
    block_on(rows.try_collect()).unwrap()
}

fn text_at(batch: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let texts = batch.column_by_name(column).unwrap().as_string::<i32>();
    texts.is_valid(row).then(|| texts.value(row).to_owned())
}

fn long_at(batch: &RecordBatch, column: &str, row: usize) -> i64 {
    batch
        .column_by_name(column)
        .unwrap()
        .as_primitive::<Int64Type>()
        .value(row)
}

/// What Spark makes of a version: paths of the live files, by the parts of its log.
fn replayed(store: &Store, replay: &Replay, selection: Selection) -> BTreeSet<String> {
    let (checkpoint, commits) = (&replay.parts.checkpoint, &replay.parts.commits);
    assert!(
        !checkpoint.is_empty() && !commits.is_empty(),
        "both kinds of parts take part"
    );
    let text = json!(replay.plan(selection, "adds", "all").unwrap()).to_string();
    let plan = || Plan::new(&serde_json::from_str(&text).unwrap()).unwrap();

    type Key = (String, Option<String>);
    let (mut named, mut newest) = (
        HashSet::<Key>::new(),
        BTreeMap::<Key, (i64, i64, Option<String>)>::new(),
    );
    for batch in commits
        .iter()
        .flat_map(|part| batches(commit_words(store, part.clone(), false).1))
    {
        for row in 0..batch.num_rows() {
            let key = (text_at(&batch, "path", row).unwrap(), text_at(&batch, "vector_id", row));
            // The greatest version, and within it the least turn.
            let word = (
                long_at(&batch, "version", row),
                -long_at(&batch, "turn", row),
                text_at(&batch, "add", row),
            );
            named.insert(key.clone());
            let last = newest.entry(key).or_insert_with(|| word.clone());
            if (word.0, word.1) > (last.0, last.1) {
                *last = word;
            }
        }
    }
    let path = |add: &str| serde_json::from_str::<Add>(add).unwrap().path;
    let adds = newest.into_values().filter_map(|(_, _, add)| add);
    let adds: Vec<Add> = adds.map(|add| serde_json::from_str(&add).unwrap()).collect();
    let of_commits = batches(plan().live_files(&adds).unwrap().1);
    let every = |batch: &RecordBatch| {
        (0..batch.num_rows())
            .map(|row| text_at(batch, "add", row).unwrap())
            .collect::<Vec<_>>()
    };
    let mut live: BTreeSet<String> = of_commits.iter().flat_map(every).map(|add| path(&add)).collect();
    for batch in checkpoint
        .iter()
        .flat_map(|part| batches(plan().checkpoint_files(store, part.clone()).unwrap().1))
    {
        for row in 0..batch.num_rows() {
            let key = (text_at(&batch, "path", row).unwrap(), text_at(&batch, "vector_id", row));
            if !named.contains(&key) {
                live.insert(path(&text_at(&batch, "add", row).unwrap()));
            }
        }
    }
    live
}

fn live(snapshot: &Snapshot, filters: &[String]) -> BTreeSet<String> {
    let (pruner, _) = pruner(snapshot.state(), filters, "UTC").unwrap();
    let batches: Vec<RecordBatch> = block_on(snapshot.plan(pruner, PlanColumns::Logged).try_collect()).unwrap();
    let of_batch = |batch: &RecordBatch| {
        let rows = FileRows::new(batch);
        (0..batch.num_rows())
            .map(|row| rows.path(row).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

#[test]
fn a_distributed_replay_finds_the_files_that_the_walk_finds() {
    let table = Table::new();
    block_on(table.snapshot().checkpoint()).unwrap();
    table.append("c", &[21]);
    table.replace("a", &[3, 4]);
    table.replace("c", &[22]);
    let snapshot = table.snapshot();
    let filtered = [compared("LessThan", "id", "15", "long")];
    for target_bytes in [1, u64::MAX] {
        let opened = block_on(Replay::of(&snapshot, target_bytes)).unwrap();
        let unopened = block_on(Replay::of_unopened(&table.store, None, None, target_bytes)).unwrap();
        assert_eq!(opened.parts, unopened.parts);
        let all = replayed(&table.store, &unopened, Selection::All);
        assert_eq!((all.len(), &all), (3, &live(&snapshot, &[])));
        let by_filters = Selection::Filters(filtered.to_vec(), "UTC".to_owned());
        let some = replayed(&table.store, &opened, by_filters);
        assert_eq!((some.len(), &some), (2, &live(&snapshot, &filtered)));
        let below_15 = json!({"op": "compare", "cmp": "<", "left": {"op": "column", "name": ["id"]},
            "right": {"op": "literal", "value": "15", "type": "long"}});
        let by_predicate = Selection::Predicate(Expr::from_value(below_15).unwrap());
        assert_eq!(replayed(&table.store, &opened, by_predicate), some);
    }
}
