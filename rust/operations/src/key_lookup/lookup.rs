//! Leaves files out of a plan whose keys an index knows, where a predicate or a set of join keys
//! asks for certain keys. Whatever can't be read of an index leaves nothing out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_data::Members;
use deltaplane_index::{KeyClass, Manifest, SegmentInfo, each_key, hash_of_parts, hash_scalar};
use deltaplane_log::Snapshot;
use deltaplane_protocol::expr::{Expr, Predicate, Scalar};
use deltaplane_protocol::prune::{AbsentFiles, KeyTest, Keys, Pruner};
use deltaplane_protocol::schema::{DataType, StructType};
use deltaplane_store::with_retry_limit;
use futures::future;
use tracing::warn;

use super::columns::{TableIndex, table_indexes};
use super::opened::{OpenIndex, RETRY};

/// Keys that are looked up at most; a plan with more uses no index.
const MOST_KEYS: usize = 100_000;
/// Keys of several columns that are made of the values of each column at most.
const MOST_COMBINED: usize = 10_000;

/// Rows that have a key each of several columns, of which every matching row has one.
pub struct KeyRows {
    /// The rows, whose columns have the names of the table's. A null is no key.
    rows: Vec<RecordBatch>,
}

impl KeyRows {
    /// Of these rows; `None` if they have one column, or are more than are looked up.
    pub fn new(rows: &[RecordBatch]) -> Option<KeyRows> {
        let columns = rows.first()?.num_columns();
        let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
        (columns > 1 && count <= MOST_KEYS).then(|| KeyRows { rows: rows.to_vec() })
    }

    /// The hashes of the keys in an index's columns; `None` if a column isn't there, or has values
    /// of another class.
    fn hashes(&self, index: &TableIndex) -> Option<Vec<u64>> {
        let mut hashes = Vec::new();
        for rows in &self.rows {
            let column = |name: &String| rows.column_by_name(name);
            let arrays = index.names.iter().map(column).collect::<Option<Vec<_>>>()?;
            let columns: Vec<_> = index.columns.iter().map(|c| c.class).zip(arrays).collect();
            let collected = each_key(&columns, |_, hash| {
                hashes.push(hash);
                Ok(())
            });
            collected.ok()?;
        }
        Some(hashes)
    }
}

/// A pruner that also leaves out the files in which an index has none of the wanted keys; the same
/// one if there is no index, or nothing that it knows is asked for. `schema` is what the predicate
/// was bound to.
pub async fn narrowed(
    snapshot: &Snapshot,
    schema: &StructType,
    predicate: Option<&Predicate>,
    members: (Option<&Members>, Option<&KeyRows>),
    pruner: Option<Arc<Pruner>>,
) -> Option<Arc<Pruner>> {
    let indexes = table_indexes(snapshot.state());
    narrowed_by(indexes, snapshot, schema, predicate, members, pruner).await
}

/// The same for rows that Spark decodes: it shifts old dates and times of some files, so that
/// indexes of them aren't used.
pub async fn narrowed_for_spark(
    snapshot: &Snapshot,
    schema: &StructType,
    predicate: &Predicate,
    pruner: Arc<Pruner>,
) -> Option<Arc<Pruner>> {
    let mut indexes = table_indexes(snapshot.state());
    let is_unshifted = |class| matches!(class, KeyClass::Number | KeyClass::Text | KeyClass::Binary);
    indexes.retain(|index| index.columns.iter().all(|c| is_unshifted(c.class)));
    narrowed_by(indexes, snapshot, schema, Some(predicate), (None, None), Some(pruner)).await
}

async fn narrowed_by(
    indexes: Vec<TableIndex>,
    snapshot: &Snapshot,
    schema: &StructType,
    predicate: Option<&Predicate>,
    (members, key_rows): (Option<&Members>, Option<&KeyRows>),
    pruner: Option<Arc<Pruner>>,
) -> Option<Arc<Pruner>> {
    if indexes.is_empty() {
        return pruner;
    }
    let mapping = snapshot.state().mapping();
    let by_predicate = predicate.map(|p| KeyTest::of(p, schema, mapping));
    let by_members = members.and_then(|m| test_of_members(snapshot, m));
    let test = KeyTest::All(by_predicate.into_iter().chain(by_members).collect());
    let Some(absent) = absent(snapshot, &indexes, test, key_rows).await else {
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
    Some(KeyTest::OneOf(Keys {
        columns: vec![(state.mapping().physical_name(field).to_owned(), ty)],
        values,
    }))
}

/// What is looked up in one index.
struct LookUp<'a> {
    index: &'a TableIndex,
    hashes: Vec<u64>,
}

impl LookUp<'_> {
    /// The files that have none of the keys; `None` if nothing is known.
    async fn absent(&self, opened: &OpenIndex, manifest: &Manifest) -> Option<AbsentFiles> {
        let segments = manifest.segments.iter().filter(|s| self.index.has(s));
        let asked: Vec<_> = segments.map(|info| unmatched(opened, info, &self.hashes)).collect();
        let known: Vec<AbsentFiles> = future::join_all(asked).await.into_iter().flatten().collect();
        (!known.is_empty()).then_some(AbsentFiles::InAny(known))
    }
}

/// The look-up of keys in the index of their columns; `None` if there is none.
fn look_up<'a>(indexes: &'a [TableIndex], keys: &Keys) -> Option<LookUp<'a>> {
    let is_of = |index: &&TableIndex| {
        let names: Vec<&str> = index.columns.iter().map(|c| c.name.as_str()).collect();
        let classes = index.columns.iter().map(|c| Some(c.class));
        keys.are_of(&names) && keys.columns.iter().map(|(_, ty)| KeyClass::of(*ty)).eq(classes)
    };
    let index = indexes.iter().find(is_of)?;
    let hash = |key: &[Scalar]| {
        let parts = key.iter().zip(&keys.columns);
        let hashes = parts.map(|(value, (_, ty))| hash_scalar(*ty, value));
        Some(hash_of_parts(&hashes.collect::<Option<Vec<u64>>>()?))
    };
    let hashes = keys.each().map(hash).collect::<Option<Vec<u64>>>()?;
    Some(LookUp { index, hashes })
}

/// The files without a row that meets a test and has one of the keys of some rows; `None` if
/// nothing is known.
async fn absent(
    snapshot: &Snapshot,
    indexes: &[TableIndex],
    test: KeyTest,
    key_rows: Option<&KeyRows>,
) -> Option<AbsentFiles> {
    let several = indexes.iter().filter(|index| index.columns.len() > 1);
    let names = |index: &TableIndex| index.columns.iter().map(|c| c.name.clone()).collect();
    let sets: Vec<Vec<String>> = several.clone().map(names).collect();
    let test = test.with_keys_of(&sets, MOST_COMBINED);
    let mut by_test: Vec<Option<LookUp<'_>>> = Vec::new();
    let mut count = 0;
    test.for_each(&mut |keys| {
        count += keys.count();
        by_test.push(look_up(indexes, keys));
    });
    if count > MOST_KEYS {
        return None;
    }
    let by_rows: Vec<LookUp<'_>> = match key_rows {
        Some(rows) => several
            .filter_map(|index| rows.hashes(index).map(|hashes| LookUp { index, hashes }))
            .collect(),
        None => Vec::new(),
    };
    if by_rows.is_empty() && by_test.iter().all(Option::is_none) {
        return None;
    }
    let opened = OpenIndex::of(snapshot);
    let manifest = match with_retry_limit(RETRY, opened.manifest()).await {
        Ok(manifest) => manifest,
        Err(e) => {
            warn!(table = %snapshot.store().location(), error = %e, "a key index can't be listed, reading files without it");
            return None;
        }
    };
    let mut known = Vec::with_capacity(by_test.len());
    for look_up in by_test {
        known.push(match look_up {
            None => None,
            Some(look_up) => look_up.absent(&opened, &manifest).await,
        });
    }
    let mut known = known.into_iter();
    let mut all: Vec<AbsentFiles> = test.absent(&mut || known.next().flatten()).into_iter().collect();
    for look_up in by_rows {
        all.extend(look_up.absent(&opened, &manifest).await);
    }
    (!all.is_empty()).then_some(AbsentFiles::InAny(all))
}

/// The files of a segment in which it has none of the keys with these hashes.
async fn unmatched(index: &OpenIndex, info: &SegmentInfo, hashes: &[u64]) -> Option<AbsentFiles> {
    let (covered, matched) = index.find(info, hashes).await?;
    Some(AbsentFiles::Unmatched(covered, matched))
}
