//! Skipping row groups and pages of checkpoints: what a plan gives is what looking at every file
//! gives (P164–P170), and what a sorted checkpoint leaves to look at is little.

use super::*;
use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::prune::Pruner;
use serde_json::Value;

/// A generator of its own, so that a failure can be repeated by its seed.
pub(super) struct Draw(pub u64);

impl Draw {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

pub(super) fn wide_schema() -> StructType {
    StructType::new(vec![
        Field::new("id", Primitive::Long, true),
        Field::new("x", Primitive::Double, true),
        Field::new("name", Primitive::String, true),
        Field::new(
            "price",
            Primitive::Decimal {
                precision: 20,
                scale: 2,
            },
            true,
        ),
        Field::new("at", Primitive::Timestamp, true),
        Field::new("day", Primitive::Date, true),
        Field::new("kind", Primitive::String, true),
    ])
}

fn day(n: u64) -> String {
    format!("2026-01-{:02}", 1 + n % 28)
}

/// A file with the statistics of a writer that isn't always right: NaN, missing bounds, minimums
/// above maximums, none.
pub(super) fn file(draw: &mut Draw, number: u64, partitioned: bool) -> Add {
    let low = number as i64 * 10 - if draw.one_in(50) { 5_000 } else { 0 };
    let mut min = json!({
        "id": low, "x": number as f64 / 8.0 - 3.0, "name": format!("name {:05}", number / 3),
        "price": number as f64 / 100.0, "at": format!("{}T00:00:00.{:03}Z", day(number / 40), number % 1000),
    });
    let mut max = json!({
        "id": low + 20, "x": number as f64 / 8.0, "name": format!("name {:05}z", number / 3),
        "price": number as f64 / 50.0, "at": format!("{}T12:00:00.{:03}Z", day(number / 40), number % 1000),
    });
    if draw.one_in(40) {
        max["x"] = json!("NaN");
    }
    if draw.one_in(60) {
        std::mem::swap(&mut min, &mut max);
    }
    for column in ["id", "x", "name", "price", "at"] {
        if draw.one_in(300) {
            min.as_object_mut().unwrap().remove(column);
        }
        if draw.one_in(300) {
            max.as_object_mut().unwrap().remove(column);
        }
    }
    let stats = json!({"numRecords": 5, "minValues": min, "maxValues": max, "nullCount": {"id": draw.below(2)}});
    let day = (!draw.one_in(30)).then(|| day(number / 100));
    let kind = (!draw.one_in(30)).then(|| ["", "a", "b/c"][(number % 3) as usize].to_owned());
    let values = [("day".to_owned(), day), ("kind".to_owned(), kind)];
    Add {
        path: format!("part-{number:06}"),
        partition_values: values.into_iter().filter(|_| partitioned).collect(),
        stats: (!draw.one_in(500)).then(|| stats.to_string()),
        ..add("", None)
    }
}

fn literal(draw: &mut Draw, column: &str, files: u64) -> Value {
    let n = draw.below(files);
    let (value, ty) = match column {
        "id" => ((n * 10).to_string(), "long"),
        "x" if draw.one_in(10) => ("NaN".to_owned(), "double"),
        "x" => ((n as f64 / 8.0).to_string(), "double"),
        "price" => (format!("{}.{:02}", n / 75, n % 100), "decimal(20,2)"),
        "at" => (format!("{}T06:00:00Z", day(n / 40)), "timestamp"),
        "day" => (day(n / 100), "date"),
        "kind" => (["", "a", "b/c", "d"][(n % 4) as usize].to_owned(), "string"),
        _ => (format!("name {:05}", n / 3), "string"),
    };
    json!({"op": "literal", "value": value, "type": ty})
}

pub(super) fn predicate(draw: &mut Draw, files: u64, depth: u32) -> Value {
    const COLUMNS: [&str; 7] = ["id", "x", "name", "price", "at", "day", "kind"];
    if depth > 0 && draw.one_in(2) {
        let args: Vec<Value> = (0..2).map(|_| predicate(draw, files, depth - 1)).collect();
        return match draw.below(3) {
            0 => json!({"op": "and", "args": args}),
            1 => json!({"op": "or", "args": args}),
            _ => json!({"op": "not", "arg": args[0]}),
        };
    }
    let name = COLUMNS[draw.below(7) as usize];
    let column = json!({"op": "column", "name": [name]});
    match draw.below(8) {
        0 => json!({"op": "is_null", "arg": column}),
        1 => {
            let list: Vec<Value> = (0..3).map(|_| literal(draw, name, files)).collect();
            json!({"op": "in", "arg": column, "list": list})
        }
        2 => {
            json!({"op": "starts_with", "arg": {"op": "column", "name": ["name"]}, "prefix": format!("name 0{}", draw.below(10))})
        }
        n => {
            let cmp = ["=", "!=", "<", "<=", ">", ">="][(n as usize + draw.below(6) as usize) % 6];
            json!({"op": "compare", "cmp": cmp, "left": column, "right": literal(draw, name, files)})
        }
    }
}

pub(super) fn pruner(s: &Snapshot, predicate: &Value) -> Arc<Pruner> {
    let state = s.state();
    let bound = Predicate::bind(&Expr::from_json(&predicate.to_string()).unwrap(), state.schema()).unwrap();
    Arc::new(Pruner::new(&bound, state.schema(), state.partition_columns(), state.mapping()).unwrap())
}

fn paths(batch: &RecordBatch) -> Vec<String> {
    let rows = FileRows::new(batch);
    (0..batch.num_rows())
        .map(|r| rows.path(r).unwrap().to_owned())
        .collect()
}

pub(super) async fn table(store: &Store, files: u64, draw: &mut Draw, partitioned: bool, extra: Value) -> Snapshot {
    let mut configuration = json!({"delta.checkpoint.writeStatsAsStruct": "true"});
    configuration
        .as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    let by: &[&str] = if partitioned { &["day", "kind"] } else { &[] };
    let r = json!({"mode": "error", "configuration": configuration, "partition_by": by});
    create_table(store, wide_schema(), request(r)).await.unwrap();
    // In no order.
    let mut numbers: Vec<u64> = (0..files).collect();
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, draw.below(i as u64 + 1) as usize);
    }
    let adds = numbers.iter().map(|n| file(draw, *n, partitioned)).collect();
    let p = plan_write(store, wide_schema(), request(json!({"mode": "append"})))
        .await
        .unwrap();
    let WritePlan::Go(p) = p else { panic!("skipped") };
    p.commit(adds).await.unwrap().snapshot.checkpoint().await.unwrap();
    let s = Snapshot::open(store, None).await.unwrap();
    assert_eq!(s.tail_length(), 0);
    s
}

#[test]
fn a_plan_of_a_checkpoint_is_what_looking_at_every_file_gives() {
    for (seed, files, partitioned, extra) in [
        (1, 30_000, true, json!({})),
        (2, 30_000, false, json!({})),
        (3, 110_000, false, json!({"delta.checkpoint.writeStatsAsJson": "false"})),
        (4, 60_000, true, json!({"delta.checkpointPolicy": "v2"})),
    ] {
        run(async |store, _| {
            let mut draw = Draw(seed);
            let s = table(&store, files, &mut draw, partitioned, extra).await;
            let all: Vec<RecordBatch> = s.plan(None, PlanColumns::Parsed).try_collect().await.unwrap();
            assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, files);
            let mut skipped_some = 0;
            for round in 0..40 {
                let text = predicate(&mut draw, files, 2);
                let pruner = pruner(&s, &text);
                let planned = planned_paths(&s, &text).await;
                let mut expected = BTreeSet::new();
                for batch in &all {
                    let keep = pruner.keep(batch).unwrap();
                    expected.extend(
                        paths(batch)
                            .into_iter()
                            .zip(keep.values())
                            .filter_map(|(p, k)| k.then_some(p)),
                    );
                }
                assert_eq!(planned, expected, "seed {seed}, round {round}: {text}");
                skipped_some += usize::from((planned.len() as u64) < files);
            }
            assert!(
                skipped_some > 10,
                "seed {seed}: {skipped_some} predicates skipped a file"
            );
        });
    }
}

/// Whatever else of the files is asked for.
pub(super) async fn planned_paths(s: &Snapshot, text: &Value) -> BTreeSet<String> {
    let mut sets = Vec::new();
    for columns in [PlanColumns::Files, PlanColumns::Logged, PlanColumns::Parsed] {
        let batches = s.plan(Some(pruner(s, text)), columns);
        let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
        sets.push(batches.iter().flat_map(paths).collect::<BTreeSet<_>>());
    }
    assert_eq!((&sets[0], &sets[1]), (&sets[2], &sets[2]), "{text}");
    sets.swap_remove(0)
}

/// Of every file of the version by looking at it.
pub(super) async fn kept_paths(s: &Snapshot, text: &Value) -> BTreeSet<String> {
    let (pruner, mut selected) = (pruner(s, text), BTreeSet::new());
    let all: Vec<RecordBatch> = s.plan(None, PlanColumns::Parsed).try_collect().await.unwrap();
    for batch in &all {
        let keep = pruner.keep(batch).unwrap();
        let verdicts = paths(batch).into_iter().zip(keep.values());
        selected.extend(verdicts.filter_map(|(p, k)| k.then_some(p)));
    }
    selected
}

/// The checkpoint alone is left to speak.
fn forget_commits(dir: &tempfile::TempDir) {
    for entry in std::fs::read_dir(dir.path().join("_delta_log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json" || e == "crc") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn sidecars_that_can_not_match_are_not_opened() {
    run(async |store, dir| {
        let mut draw = Draw(5);
        table(&store, 40_000, &mut draw, true, json!({"delta.checkpointPolicy": "v2"})).await;
        forget_commits(dir);
        let text = json!({"op": "compare", "cmp": "=", "left": {"op": "column", "name": ["day"]},
            "right": {"op": "literal", "value": day(7), "type": "date"}});
        let s = Snapshot::open(&store, None).await.unwrap();
        let (expected, report) = (
            planned_paths(&s, &text).await,
            s.explain(pruner(&s, &text)).await.unwrap(),
        );
        assert_eq!(
            (report.row_groups, report.in_checkpoint, report.selected),
            (40, 40_000, expected.len() as u64)
        );
        assert!(report.row_groups_skipped >= 36, "{report:?}");
        // All that aren't opened may as well be gone.
        let sidecars = dir.path().join("_delta_log/_sidecars");
        let (mut needed, away) = (0, dir.path().join("away"));
        for entry in std::fs::read_dir(&sidecars).unwrap() {
            let path = entry.unwrap().path();
            std::fs::rename(&path, &away).unwrap();
            let s = Snapshot::open(&store, None).await.unwrap();
            let planned: Result<Vec<RecordBatch>, _> =
                s.plan(Some(pruner(&s, &text)), PlanColumns::Logged).try_collect().await;
            match planned {
                Ok(batches) => assert_eq!(batches.iter().flat_map(paths).collect::<BTreeSet<_>>(), expected),
                Err(_) => needed += 1,
            }
            std::fs::rename(&away, &path).unwrap();
        }
        assert!((1..=4).contains(&needed), "{needed}");
    });
}

async fn commit_lines(store: &Store, version: u64, lines: &[Value]) {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let key = format!("_delta_log/{version:020}.json");
    store.put_if_absent(&key, Bytes::from(text.join("\n"))).await.unwrap();
}

fn add_line(a: &Add) -> Value {
    json!({"add": {"path": a.path, "partitionValues": a.partition_values, "size": 10, "modificationTime": 1,
        "dataChange": true, "stats": a.stats}})
}

#[test]
fn checkpoints_of_changing_tables_say_what_the_commits_say() {
    for (seed, extra) in [
        (6, json!({"delta.checkpointPolicy": "v2"})),
        (
            7,
            json!({"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "false"}),
        ),
        (8, json!({})),
    ] {
        run(async |store, dir| {
            let (mut draw, v2) = (Draw(seed), seed != 8);
            let s = table(&store, 12_000, &mut draw, true, extra).await;
            let mut live: BTreeSet<String> = paths_of(&s).await;
            let (mut version, mut number, mut kept_most) = (s.version(), 12_000, 0);
            for round in 0..24 {
                let mut lines = Vec::new();
                let gone = if draw.one_in(3) { 0 } else { draw.below(20) };
                for path in some_of(&mut draw, &live, gone) {
                    live.remove(&path);
                    lines.push(json!({"remove": {"path": path, "dataChange": true, "deletionTimestamp": deltaplane_log::now_ms()}}));
                }
                for _ in 0..[0, 1, 40, 900][draw.below(4) as usize] {
                    // New files belong anywhere.
                    let mut a = file(&mut draw, number * 7_919 % 12_000, true);
                    a.path = format!("new-{number:06}");
                    (number, _) = (number + 1, live.insert(a.path.clone()));
                    lines.push(add_line(&a));
                }
                version += 1;
                commit_lines(&store, version, &lines).await;
                let report = Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
                assert_eq!(
                    (report.version, report.kind == "v2"),
                    (version, v2),
                    "seed {seed}, round {round}"
                );
                forget_commits(dir);
                let s = Snapshot::open(&store, None).await.unwrap();
                assert_eq!(paths_of(&s).await, live, "seed {seed}, round {round}");
                let text = predicate(&mut draw, 12_000, 2);
                assert_eq!(
                    planned_paths(&s, &text).await,
                    kept_paths(&s, &text).await,
                    "seed {seed}, round {round}: {text}"
                );
                if v2 {
                    assert!(report.sidecars < 60, "seed {seed}, round {round}: {report:?}");
                    kept_most += u64::from(report.kept_sidecars * 2 > report.sidecars);
                }
            }
            assert!(!v2 || kept_most > 3, "seed {seed}: {kept_most}");
        });
    }
}

async fn paths_of(s: &Snapshot) -> BTreeSet<String> {
    let all: Vec<RecordBatch> = s.plan(None, PlanColumns::Files).try_collect().await.unwrap();
    let paths_seen: Vec<String> = all.iter().flat_map(paths).collect();
    let set: BTreeSet<String> = paths_seen.iter().cloned().collect();
    assert_eq!(set.len(), paths_seen.len(), "a file is listed twice");
    set
}

fn some_of(draw: &mut Draw, live: &BTreeSet<String>, count: u64) -> BTreeSet<String> {
    let all: Vec<&String> = live.iter().collect();
    (0..count)
        .map(|_| all[draw.below(all.len() as u64) as usize].clone())
        .collect()
}
