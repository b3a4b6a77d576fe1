//! Writers: appends, overwrites, deletes of partitions, deletes and updates of rows by deletion
//! vectors, moves of rows, changes of properties, and appends that an application must make once.
//! Everything goes through the product's planning, its resolver of row conflicts and its commit.

use std::sync::Arc;

use deltaplane_data::{SelectedFile, delete_rows};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{
    AlterRequest, Rewrite, RewriteRequest, Rewritten, WritePlan, WriteRequest, alter, new_id, plan_write_after,
};
use deltaplane_operations::rewrite::row_conflicts::MarkedRows;
use deltaplane_protocol::actions::{Add, DeletionVector};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::schema::{Field, Primitive, StructType};
use futures::TryStreamExt;
use serde_json::{Value, json};

use super::files::{add_of, new_add};
use super::{Context, Weather, wrong};
use crate::book::{Fate, IntentId, Operation, Row, read};
use crate::planted::Bug;
use crate::world::lock;

/// Partitions of the table.
const PARTITIONS: usize = 2;
/// How often a transaction that lost is run again.
const TRIES: usize = 4;

/// Commits until all turns are done.
pub async fn act(mut me: Context) {
    loop {
        let turn = {
            let mut book = read(&me.book);
            let turn = book.progress.entry(me.place).or_default();
            *turn += 1;
            *turn
        };
        if turn > me.turns {
            return;
        }
        let is_application = me.chance.happens(250);
        if is_application {
            application(&mut me, turn).await;
        } else {
            transaction(&mut me).await;
        }
    }
}

/// The schema of simulated tables.
pub fn schema() -> StructType {
    StructType::new(vec![
        Field::new("id", Primitive::Long, true),
        Field::new("p", Primitive::Integer, true),
    ])
}

/// The condition that a row is in this partition.
fn in_partition(partition: u8) -> Value {
    json!({
        "op": "compare", "cmp": "=",
        "left": {"op": "column", "name": ["p"]},
        "right": {"op": "literal", "value": partition.to_string(), "type": "integer"},
    })
}

/// How a try ended.
enum Ended {
    /// It is in the table.
    Done(u64),
    /// There was nothing to do.
    Idle,
    /// It lost, or nobody knows.
    Not(Error),
}

async fn transaction(me: &mut Context) {
    let partition = me.chance.below(PARTITIONS) as u8;
    let operation = match (me.newest(), me.chance.below(14)) {
        (None, _) | (_, 0..=3) => Operation::Append,
        (_, 4) => Operation::Overwrite,
        (_, 5) => Operation::Replace(partition),
        (_, 6) => Operation::Delete(partition),
        (_, 7..=9) => Operation::Update(0),
        (_, 10) => Operation::Compact(partition),
        (_, 11) => Operation::Alter,
        _ => Operation::DeleteRow(0),
    };
    for _ in 0..TRIES {
        let intent = read(&me.book).begin(operation.clone(), None);
        let weather = me.weather();
        let ended = attempt(me, intent, partition).await;
        let fate = settle(me, intent, weather, ended);
        if fate == Fate::Unclear && me.bug() == Some(Bug::UnclearRepeated) {
            wrong::repeat(me, intent).await;
        }
        if !matches!(fate, Fate::Failed(_)) {
            return;
        }
    }
}

async fn attempt(me: &mut Context, intent: IntentId, partition: u8) -> Result<Ended> {
    let operation = read(&me.book).intents[intent].operation.clone();
    match operation {
        Operation::Append => write(me, intent, partition, json!({"mode": "append"})).await,
        Operation::Overwrite => write(me, intent, partition, json!({"mode": "overwrite"})).await,
        Operation::Replace(p) => {
            let request =
                json!({"mode": "overwrite", "predicate": in_partition(p), "predicate_sql": format!("p = {p}")});
            write(me, intent, p, request).await
        }
        Operation::Delete(p) => rewrite(me, intent, p, "DELETE").await,
        Operation::Update(_) => rewrite(me, intent, partition, "UPDATE").await,
        Operation::DeleteRow(_) => rewrite(me, intent, partition, "DELETE").await,
        Operation::Compact(p) => rewrite(me, intent, p, "OPTIMIZE").await,
        Operation::Alter | Operation::Create => change(me, intent).await,
    }
}

/// The end of a try as its caller must take it; accuses where the product had no right to fail.
fn settle(me: &Context, intent: IntentId, weather: Weather, ended: Result<Ended>) -> Fate {
    let created = read(&me.book).intents[intent].began.is_none();
    let fate = match ended {
        Ok(Ended::Done(version)) => Fate::Committed(version),
        Ok(Ended::Idle) => Fate::Open,
        Ok(Ended::Not(e)) | Err(e) => {
            let excused = match e.kind() {
                Kind::ConcurrentWrite => me.weather().jumps > weather.jumps,
                Kind::TableAlreadyExists => created,
                kind => kind.is_conflict() || me.excuses(weather, &e),
            };
            if !excused {
                me.accuse(format!("transaction {intent} failed without a reason: {e}"));
            }
            match e.kind() {
                Kind::StoreUnavailable => Fate::Unclear,
                kind => Fate::Failed(kind),
            }
        }
    };
    read(&me.book).settle(intent, fate);
    fate
}

/// Appends under an application's version until that is in the table, whatever happens.
async fn application(me: &mut Context, turn: usize) {
    let app = match me.scenario.shared_application {
        true => "app".to_owned(),
        false => format!("app{}", me.place),
    };
    let txn = (app.clone(), turn as i64);
    for _ in 0..TRIES {
        let intent = read(&me.book).begin(Operation::Append, Some(txn.clone()));
        let weather = me.weather();
        let mut request = json!({"mode": "append", "commit": {"txn": [{"app_id": app, "version": turn}]}});
        if me.bug() == Some(Bug::ApplicationUnchecked) {
            request["commit"] = json!({});
        }
        let ended = write(me, intent, 0, request).await;
        let idle = matches!(ended, Ok(Ended::Idle));
        let fate = settle(me, intent, weather, ended);
        let newest = read(&me.book).versions.last().and_then(|v| v.txns.get(&app).copied());
        if idle && newest.is_none_or(|n| n < turn as i64) {
            me.accuse(format!("{app} {turn} was skipped and was never done"));
        }
        if idle || matches!(fate, Fate::Committed(_)) {
            return;
        }
    }
}

async fn write(me: &mut Context, intent: IntentId, partition: u8, mut request: Value) -> Result<Ended> {
    request["partition_by"] = json!(["p"]);
    request["configuration"] = me.scenario.properties.iter().cloned().collect();
    request["commit"]["commit_info"] = json!({"simIntent": intent});
    let request: WriteRequest = serde_json::from_value(request).expect("a request");
    let planned = match plan_write_after(&me.store, me.own.as_ref(), schema(), request).await? {
        WritePlan::Skip(_) => return Ok(Ended::Idle),
        WritePlan::Go(planned) => planned,
    };
    let adds = vec![new_add(me, intent, partition)];
    me.write_rows().await;
    Ok(match planned.commit(adds).await {
        Ok(done) => {
            me.own = (!done.begins_anew).then_some(done.snapshot);
            Ended::Done(done.version)
        }
        Err(e) => Ended::Not(e),
    })
}

async fn change(me: &Context, intent: IntentId) -> Result<Ended> {
    let request = json!({
        "change": {"change": "set_properties", "properties": {"turn": intent.to_string()}},
        "commit": {"commit_info": {"simIntent": intent}},
    });
    let request: AlterRequest = serde_json::from_value(request).expect("a request");
    Ok(match alter(&me.store, &request).await {
        Ok(done) => done.version.map_or(Ended::Idle, Ended::Done),
        Err(e) => Ended::Not(e),
    })
}

async fn rewrite(me: &mut Context, intent: IntentId, partition: u8, operation: &str) -> Result<Ended> {
    let request = json!({
        "operation": operation,
        "data_change": operation != "OPTIMIZE",
        "predicate": in_partition(partition),
        "commit": {"commit_info": {"simIntent": intent}},
    });
    let request: RewriteRequest = serde_json::from_value(request).expect("a request");
    let base = deltaplane_log::Snapshot::open(&me.store, None).await?;
    let plan = Rewrite::plan(&base, request.clone()).await?;
    let files = candidates(&plan).await?;
    let intended = read(&me.book).intents[intent].operation.clone();
    let done = match intended {
        Operation::Delete(_) => take_all(me, &files),
        Operation::Update(_) | Operation::DeleteRow(_) => change_row(me, intent, &files).await?,
        _ => compact(me, intent, partition, &files),
    };
    let Some(done) = done else { return Ok(Ended::Idle) };
    me.write_rows().await;
    let committed = match me.bug() {
        Some(bug @ (Bug::WinnersUnchecked | Bug::OneWinnerChecked)) => {
            wrong::commit(me, bug, request, base.version(), done).await
        }
        _ => plan.commit(done).await,
    };
    Ok(match committed {
        Ok(done) => Ended::Done(done.version),
        Err(e) => Ended::Not(e),
    })
}

async fn candidates(plan: &Rewrite) -> Result<Vec<Add>> {
    let mut batches = plan.candidates();
    let mut out = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            out.push(rows.add(row)?);
        }
    }
    Ok(out)
}

fn take_all(me: &Context, files: &[Add]) -> Option<Rewritten> {
    let now = lock(&me.world).now_ms;
    (!files.is_empty()).then(|| Rewritten {
        removes: files.iter().map(|f| f.to_remove(now, true)).collect(),
        ..Rewritten::default()
    })
}

fn compact(me: &Context, intent: IntentId, partition: u8, files: &[Add]) -> Option<Rewritten> {
    let done = take_all(me, files).filter(|_| files.len() > 1)?;
    let rows: Vec<Row> = {
        let book = read(&me.book);
        files
            .iter()
            .flat_map(|f| book.rows_of(&f.path, vector_of(f).as_deref()))
            .collect()
    };
    let count = rows.len();
    let path = read(&me.book).file_of(intent, partition, rows);
    Some(Rewritten {
        adds: vec![add_of(me, path, partition, count)],
        ..done
    })
}

async fn change_row(me: &mut Context, intent: IntentId, files: &[Add]) -> Result<Option<Rewritten>> {
    if files.is_empty() {
        return Ok(None);
    }
    let file = &files[me.chance.below(files.len())];
    let partition = file.partition_values["p"]
        .as_deref()
        .and_then(|p| p.parse().ok())
        .unwrap_or(0);
    let position = {
        let book = read(&me.book);
        let left = book.rows_of(&file.path, vector_of(file).as_deref());
        let row = left[me.chance.below(left.len())];
        drop(book);
        let mut book = read(&me.book);
        let operation = &mut book.intents[intent].operation;
        *operation = match operation {
            Operation::Update(_) => Operation::Update(row),
            _ => Operation::DeleteRow(row),
        };
        book.files[&file.path].rows.iter().position(|r| *r == row).unwrap_or(0)
    };
    let rows = Positions::from_iter([position as u64]);
    let selected = [SelectedFile::new(file.clone(), rows)];
    let now_ms = lock(&me.world).now_ms;
    let marked = delete_rows(&me.store, &selected, true, now_ms, new_id()).await?;
    let resolver = MarkedRows::new(me.store.clone(), &selected, &marked.adds, Vec::new(), None);
    let mut adds = marked.adds;
    if matches!(read(&me.book).intents[intent].operation, Operation::Update(_)) {
        let path = read(&me.book).new_file(intent, partition, 1);
        adds.push(add_of(me, path, partition, 1));
    }
    Ok(Some(Rewritten {
        adds,
        removes: marked.removes,
        row_conflicts: Some(match me.bug() {
            Some(Bug::WinnersVectorForgotten) => Arc::new(wrong::Forgetful::new(resolver, file)),
            _ => Arc::new(resolver),
        }),
        ..Rewritten::default()
    }))
}

fn vector_of(add: &Add) -> Option<String> {
    add.deletion_vector.as_ref().map(DeletionVector::unique_id)
}
