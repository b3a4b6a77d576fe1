//! Leaves files out of a plan whose keys an index knows, where a predicate or a set of join keys
//! asks for certain keys. Whatever can't be read of an index leaves nothing out.

use std::sync::Arc;

use deltaplane_data::Members;
use deltaplane_index::{KeyClass, SegmentInfo, hash_scalar};
use deltaplane_log::Snapshot;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::prune::{AbsentFiles, KeyTest, Pruner};
use deltaplane_protocol::schema::{DataType, StructType};
use deltaplane_store::with_retry_limit;
use futures::future;
use tracing::warn;

use super::columns::{IndexedColumn, indexed_columns};
use super::opened::{OpenIndex, RETRY};

/// Keys that are looked up at most; a plan with more uses no index.
const MOST_KEYS: usize = 100_000;

/// A pruner that also leaves out the files in which an index has none of the wanted keys; the same
/// one if there is no index, or nothing that it knows is asked for. `schema` is what the predicate
/// was bound to.
pub async fn narrowed(
    snapshot: &Snapshot,
    schema: &StructType,
    predicate: Option<&Predicate>,
    members: Option<&Members>,
    pruner: Option<Arc<Pruner>>,
) -> Option<Arc<Pruner>> {
    narrowed_by(
        indexed_columns(snapshot.state()),
        snapshot,
        schema,
        predicate,
        members,
        pruner,
    )
    .await
}

/// The same for rows that Spark decodes: it shifts old dates and times of some files, so that
/// indexes of them aren't used.
pub async fn narrowed_for_spark(
    snapshot: &Snapshot,
    schema: &StructType,
    predicate: &Predicate,
    pruner: Arc<Pruner>,
) -> Option<Arc<Pruner>> {
    let mut columns = indexed_columns(snapshot.state());
    columns.retain(|c| matches!(c.class, KeyClass::Number | KeyClass::Text | KeyClass::Binary));
    narrowed_by(columns, snapshot, schema, Some(predicate), None, Some(pruner)).await
}

async fn narrowed_by(
    columns: Vec<IndexedColumn>,
    snapshot: &Snapshot,
    schema: &StructType,
    predicate: Option<&Predicate>,
    members: Option<&Members>,
    pruner: Option<Arc<Pruner>>,
) -> Option<Arc<Pruner>> {
    if columns.is_empty() {
        return pruner;
    }
    let mapping = snapshot.state().mapping();
    let by_predicate = predicate.map(|p| KeyTest::of(p, schema, mapping));
    let by_members = members.and_then(|m| test_of_members(snapshot, m));
    let test = KeyTest::All(by_predicate.into_iter().chain(by_members).collect());
    let Some(absent) = absent(snapshot, &columns, &test).await else {
        return pruner;
    };
    let base = match pruner {
        Some(pruner) => pruner,
        None => always(snapshot)?,
    };
    Some(Arc::new(base.excluding(absent)))
}

/// A pruner that keeps all files.
fn always(snapshot: &Snapshot) -> Option<Arc<Pruner>> {
    let always = Expr::Literal {
        value: Some("true".to_owned()),
        type_name: "boolean".to_owned(),
    };
    let state = snapshot.state();
    let predicate = Predicate::bind(&always, state.schema()).ok()?;
    let pruner = Pruner::new(&predicate, state.schema(), state.partition_columns(), state.mapping());
    pruner.ok().map(Arc::new)
}

/// The condition that a column has one of these values, by the type of the column.
fn test_of_members(snapshot: &Snapshot, members: &Members) -> Option<KeyTest> {
    let state = snapshot.state();
    let field = state.schema().field_ignore_case(members.column())?;
    let DataType::Primitive(ty) = field.data_type else {
        return None;
    };
    let values = members.scalars(ty, MOST_KEYS)?;
    Some(KeyTest::OneOf {
        column: state.mapping().physical_name(field).to_owned(),
        ty,
        values,
    })
}

/// What is looked up in one column.
struct LookUp<'a> {
    column: &'a IndexedColumn,
    hashes: Vec<u64>,
}

/// The files without a row that meets a test; `None` if nothing is known.
async fn absent(snapshot: &Snapshot, columns: &[IndexedColumn], test: &KeyTest) -> Option<AbsentFiles> {
    let mut wanted: Vec<Option<LookUp<'_>>> = Vec::new();
    let mut keys = 0;
    test.for_each(&mut |column, ty, values| {
        keys += values.len();
        let column = columns.iter().find(|c| c.physical == column);
        let column = column.filter(|c| KeyClass::of(ty) == Some(c.class));
        let hashes: Option<Vec<u64>> = values.iter().map(|v| hash_scalar(ty, v)).collect();
        wanted.push(column.zip(hashes).map(|(column, hashes)| LookUp { column, hashes }));
    });
    if keys > MOST_KEYS || wanted.iter().all(Option::is_none) {
        return None;
    }
    let index = OpenIndex::of(snapshot);
    let manifest = match with_retry_limit(RETRY, index.manifest()).await {
        Ok(manifest) => manifest,
        Err(e) => {
            warn!(table = %snapshot.store().location(), error = %e, "a key index can't be listed, reading files without it");
            return None;
        }
    };
    let mut known = Vec::with_capacity(wanted.len());
    for look_up in wanted {
        known.push(match look_up {
            None => None,
            Some(look_up) => {
                let of_column =
                    |s: &&SegmentInfo| s.column == look_up.column.physical && s.class == look_up.column.class;
                let segments = manifest.segments.iter().filter(of_column);
                let asked: Vec<_> = segments.map(|info| unmatched(&index, info, &look_up.hashes)).collect();
                let unmatched_files = future::join_all(asked).await;
                let unmatched_files: Vec<AbsentFiles> = unmatched_files.into_iter().flatten().collect();
                (!unmatched_files.is_empty()).then_some(AbsentFiles::InAny(unmatched_files))
            }
        });
    }
    let mut known = known.into_iter();
    test.absent(&mut || known.next().flatten())
}

/// The files of a segment in which it has none of the keys with these hashes.
async fn unmatched(index: &OpenIndex, info: &SegmentInfo, hashes: &[u64]) -> Option<AbsentFiles> {
    let (covered, matched) = index.find(info, hashes).await?;
    Some(AbsentFiles::Unmatched(covered, matched))
}
