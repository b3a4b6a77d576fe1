//! Fetches the deletion vectors of a scan's files and computes which rows are read. A vector costs
//! one ranged read; a small file of vectors that is read again is cached as a whole.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::DeletionVector;
use deltaplane_protocol::deletion_vectors::{FRAME_BYTES, Place, Positions, unframe};
use deltaplane_store::Store;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use tokio::sync::OnceCell;

use super::source::READS;
use super::{FileRead, SelectedRows};

/// Files of vectors up to this size are cached.
const WHOLE_BYTES: u64 = 8 << 20;
/// Files of vectors in the cache: the files of one commit are adjacent in a plan.
const REMEMBERED: usize = 8;

type Whole = Arc<OnceCell<Option<Bytes>>>;

/// The deletion vectors of a table, fetched on demand.
pub struct Vectors {
    store: Store,
    /// Files that were read, the most recent last.
    files: Mutex<Vec<(String, Whole)>>,
}

impl Vectors {
    /// Of the table in this store.
    pub fn new(store: Store) -> Self {
        Vectors {
            store,
            files: Mutex::default(),
        }
    }

    /// Which rows of a file are read.
    pub(super) async fn rows(&self, file: &FileRead) -> Result<LiveRows> {
        let mut rows = LiveRows {
            deleted: self.optional(file.deletion_vector.as_ref()).await?,
            only: self.optional(file.only.as_ref()).await?,
        };
        match &file.selected {
            None => {}
            Some(SelectedRows::Without(these)) => rows.deleted.get_or_insert_default().union(these),
            Some(SelectedRows::Only(these)) => {
                let only = rows.only.get_or_insert_with(|| these.as_ref().clone());
                only.intersect(these);
            }
        }
        Ok(rows)
    }

    async fn optional(&self, dv: Option<&DeletionVector>) -> Result<Option<Positions>> {
        match dv {
            Some(dv) => self.load(dv).await.map(Some),
            None => Ok(None),
        }
    }

    /// The deleted rows of a vector.
    ///
    /// # Errors
    /// `FileMissing` and `CorruptFile` (P120), `UnsupportedFeature` for another kind of storage,
    /// and the store's errors.
    pub async fn load(&self, dv: &DeletionVector) -> Result<Positions> {
        match Place::of(dv)? {
            Place::Inline(bytes) => Positions::parse(&bytes, dv.cardinality),
            Place::File {
                path,
                offset,
                size_bytes,
            } => {
                let end = offset + size_bytes as u64 + FRAME_BYTES;
                let frame = self.whole_frame(&path, offset..end).await;
                let read = frame.and_then(|f| Positions::parse(unframe(&f, size_bytes)?, dv.cardinality));
                read.map_err(|e| e.with_path(path))
            }
        }
    }

    /// A vector's bytes. A truncated answer is read again.
    async fn whole_frame(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let expected = range.end - range.start;
        let mut frame = self.fetch(path, range.clone()).await?;
        for _ in 1..READS {
            if frame.len() as u64 == expected {
                break;
            }
            frame = self.fetch(path, range.clone()).await?;
        }
        Ok(frame)
    }

    /// A range of a file, cut at the file's end.
    async fn fetch(&self, path: &str, range: Range<u64>) -> Result<Bytes> {
        let (store, key) = self.store.resolve(path)?;
        let Some(whole) = self.known(path) else {
            let read = store.read_range(&key, range.clone()).await;
            return match read {
                Err(e) if e.kind() != Kind::ObjectNotFound => Ok(clipped(&store, &key, range).await?.ok_or(e)?),
                other => other.map_err(missing),
            };
        };
        let small = whole
            .get_or_try_init(|| read_if_small(&store, &key))
            .await
            .map_err(missing)?;
        match small {
            Some(bytes) => {
                let offset = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
                Ok(bytes.slice(offset(range.start)..offset(range.end)))
            }
            None => store.read_range(&key, range).await.map_err(missing),
        }
    }

    /// The cache entry of a file, if it is read for the second time.
    fn known(&self, path: &str) -> Option<Whole> {
        let mut files = self.files.lock().ok()?;
        if let Some((_, whole)) = files.iter().find(|(known, _)| known == path) {
            return Some(whole.clone());
        }
        if files.len() == REMEMBERED {
            files.remove(0);
        }
        files.push((path.to_owned(), Whole::default()));
        None
    }
}

async fn read_if_small(store: &Store, key: &str) -> Result<Option<Bytes>> {
    let shown = store.head(key).await?;
    match shown.size_bytes <= WHOLE_BYTES {
        true => store.read_listed(&shown).await.map(Some),
        false => Ok(None),
    }
}

/// The part of a range before the file's end; `None` if a failure has another reason.
async fn clipped(store: &Store, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
    let size = store.head(key).await.map_err(missing)?.size_bytes;
    if size >= range.end {
        return Ok(None);
    }
    if size <= range.start {
        return Ok(Some(Bytes::new()));
    }
    store.read_range(key, range.start..size).await.map(Some)
}

fn missing(e: Error) -> Error {
    if e.kind() != Kind::ObjectNotFound {
        return e;
    }
    Error::file_missing(
        "a file of deletion vectors that the table's log names is missing, so which rows are deleted is unknown: restore it from a backup, or restore the table to an earlier version; it may have been vacuumed or deleted by hand",
    )
    .with_source(e)
}

/// Which rows of a file are read, by physical position (P124). Positions beyond the last row are
/// ignored, as in the reference engine.
#[derive(Debug, Default)]
pub(super) struct LiveRows {
    deleted: Option<Positions>,
    only: Option<Positions>,
}

impl LiveRows {
    /// The rows to read of `rows` rows from `start` on; `None` for all.
    pub(super) fn selection(&self, start: u64, rows: usize) -> Option<RowSelection> {
        let within = start..start + rows as u64;
        let runs_of = |positions: &Positions| positions.runs(within.clone());
        let here = |position: u64| usize::try_from(position - start).unwrap_or(rows);
        let only = self.only.as_ref().map(|p| {
            let runs = runs_of(p).into_iter().map(|r| here(r.start)..here(r.end));
            RowSelection::from_consecutive_ranges(runs, rows)
        });
        let deleted = self.deleted.as_ref().map(runs_of).filter(|runs| !runs.is_empty());
        let live = deleted.map(|runs| {
            let mut selectors = Vec::with_capacity(runs.len() * 2 + 1);
            let mut position = 0;
            for run in runs {
                selectors.push(RowSelector::select(here(run.start) - position));
                position = here(run.end);
                selectors.push(RowSelector::skip(position - here(run.start)));
            }
            selectors.push(RowSelector::select(rows - position));
            RowSelection::from(selectors)
        });
        both(only, live)
    }
}

/// The intersection of both selections.
pub(super) fn both(a: Option<RowSelection>, b: Option<RowSelection>) -> Option<RowSelection> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(&b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use deltaplane_protocol::deletion_vectors::{VectorFile, name_file};
    use deltaplane_protocol::expr::{Expr, Predicate};
    use deltaplane_protocol::schema::Primitive;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Folder, batch, file_read, schema};
    use crate::{ReadSpec, WriteSpec};

    /// These sets as vectors of one file.
    fn put(t: &Folder, sets: &[Positions]) -> Vec<DeletionVector> {
        put_as(t, 7, sets)
    }

    fn put_as(t: &Folder, id: u128, sets: &[Positions]) -> Vec<DeletionVector> {
        let (name, text) = name_file(uuid::Uuid::from_u128(id));
        let mut file = VectorFile::default();
        let vectors = sets.iter().map(|s| DeletionVector {
            path_or_inline_dv: text.clone(),
            ..file.append(s).unwrap()
        });
        let vectors = vectors.collect();
        t.put(&name, &file.into_bytes());
        vectors
    }

    /// A file of the numbers from 0 on, in row groups of `group_rows` rows.
    fn numbers(t: &Folder, rows: i64, group_rows: usize) -> (ReadSpec, FileRead) {
        let s = schema(&[("v", Primitive::Long), ("p", Primitive::Long)]);
        let v: Int64Array = (0..rows).collect();
        let spec = WriteSpec {
            row_group_rows: group_rows,
            ..WriteSpec::new(s.clone(), vec!["p".into()], 0)
        };
        let p = Int64Array::from_value(1, v.len());
        let adds = t
            .write_spec(spec, &[batch(vec![("v", Arc::new(v)), ("p", Arc::new(p))])])
            .unwrap();
        (ReadSpec::new(s, vec!["p".into()]), file_read(&adds[0]))
    }

    fn read(t: &Folder, spec: &ReadSpec, file: &FileRead) -> Result<Vec<i64>> {
        let batches = t.read(spec.clone(), vec![file.clone()])?;
        let ids_of = |b: &arrow::array::RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
        Ok(batches.iter().flat_map(ids_of).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// P120, P124: whatever row groups and pages are skipped, positions count physical rows.
        #[test]
        fn deleted_rows_are_not_read(
            deleted in proptest::collection::btree_set(0_u64..100, 0..100),
            only in proptest::option::of(proptest::collection::btree_set(0_u64..100, 0..100)),
            rows_per_group in 1_usize..120, from in proptest::option::of(0_i64..110), batch_rows in 1_usize..40,
        ) {
            let t = Folder::new();
            let (mut spec, mut file) = numbers(&t, 100, rows_per_group);
            let sets: Vec<Positions> = [Some(&deleted), only.as_ref()].into_iter().flatten()
                .map(|s| s.iter().copied().collect()).collect();
            let mut vectors = put(&t, &sets).into_iter();
            (file.deletion_vector, file.only) = (vectors.next(), vectors.next());
            spec.batch_rows = batch_rows;
            if let Some(from) = from {
                let json = serde_json::json!({"op": "compare", "cmp": ">=", "left": {"op": "column", "name": ["v"]},
                    "right": {"op": "literal", "value": from.to_string(), "type": "long"}});
                let expr = Expr::from_json(&json.to_string()).unwrap();
                spec.predicate = Some(Predicate::bind(&expr, &spec.schema).unwrap());
            }
            let expected: Vec<i64> = (0..100_u64)
                .filter(|r| !deleted.contains(r) && only.as_ref().is_none_or(|o| o.contains(r)))
                .map(|r| r as i64).filter(|r| *r >= from.unwrap_or(0)).collect();
            prop_assert_eq!(read(&t, &spec, &file).unwrap(), expected.clone());
            // Nothing of the file is decoded, and yet rows are counted.
            spec.columns = Some(vec!["p".into()]);
            prop_assert_eq!(read(&t, &spec, &file).unwrap().len(), expected.len());
        }
    }

    fn values(batches: &[arrow::array::RecordBatch]) -> Vec<i64> {
        let columns = batches.iter().map(|b| b.column(0).as_primitive::<Int64Type>());
        columns.flat_map(|column| column.values().to_vec()).collect()
    }

    #[test]
    fn many_vectors_of_one_file_are_told_apart() {
        let t = Folder::new();
        let (spec, file) = numbers(&t, 100, 100);
        let sets: Vec<Positions> = (0..20).map(|i| [i].into_iter().collect()).collect();
        let files = put(&t, &sets).into_iter().map(|dv| FileRead {
            deletion_vector: Some(dv),
            ..file.clone()
        });
        let values = values(&t.read(spec, files.collect()).unwrap());
        let firsts: Vec<i64> = values.chunks(99).map(|of_file| of_file[0]).collect();
        assert_eq!(firsts, [1].into_iter().chain([0; 19]).collect::<Vec<i64>>());
    }

    #[test]
    fn vectors_of_several_files_are_told_apart() {
        // P120: also where a file that is remembered lies at the same place in another one.
        let t = Folder::new();
        let (spec, file) = numbers(&t, 100, 100);
        let rows_of = |id: u64| [2 * id, 2 * id + 1].map(|row| [row].into_iter().collect());
        let stored: Vec<Vec<DeletionVector>> = (0..10).map(|id| put_as(&t, id.into(), &rows_of(id))).collect();
        // More files than are remembered, each asked for again after the others.
        let asked = [0, 1].map(|i| stored.iter().map(move |vectors| vectors[i].clone()));
        let files = asked.into_iter().flatten().map(|dv| FileRead {
            deletion_vector: Some(dv),
            ..file.clone()
        });
        let values = values(&t.read(spec, files.collect()).unwrap());
        let of_all: i64 = (0..100).sum();
        let of_files = values.chunks(99);
        let mut deleted: Vec<i64> = of_files.map(|of_file| of_all - of_file.iter().sum::<i64>()).collect();
        deleted.sort_unstable();
        assert_eq!(deleted, (0..20).collect::<Vec<i64>>());
    }

    #[test]
    fn picked_rows_are_read_of_those_that_a_vector_names() {
        // P124
        let t = Folder::new();
        let (spec, file) = numbers(&t, 10, 4);
        let rows = |rows: &[u64]| -> Positions { rows.iter().copied().collect() };
        let vectors = put(&t, &[rows(&[1, 2, 3, 8]), rows(&[3, 9])]);
        for (selected, expected) in [
            (None, &[1, 2, 8][..]),
            (Some(SelectedRows::Only(Arc::new(rows(&[2, 3, 4, 8])))), &[2, 8]),
            (Some(SelectedRows::Without(Arc::new(rows(&[2, 4])))), &[1, 8]),
        ] {
            let file = FileRead {
                only: Some(vectors[0].clone()),
                deletion_vector: Some(vectors[1].clone()),
                selected,
                ..file.clone()
            };
            assert_eq!(read(&t, &spec, &file).unwrap(), expected);
        }
    }

    #[test]
    fn positions_behind_the_file_mean_nothing() {
        let t = Folder::new();
        let (spec, mut file) = numbers(&t, 4, 2);
        file.deletion_vector = put(&t, &[[1, 4, 1 << 40].into_iter().collect()]).pop();
        assert_eq!(read(&t, &spec, &file).unwrap(), [0, 2, 3]);
    }

    #[test]
    fn damage_is_named() {
        // P120
        let t = Folder::new();
        let (spec, file) = numbers(&t, 10, 10);
        let good = put(&t, &[[3].into_iter().collect()]).remove(0);
        let refused = |dv: DeletionVector| {
            let file = FileRead {
                deletion_vector: Some(dv),
                ..file.clone()
            };
            read(&t, &spec, &file).unwrap_err()
        };
        let longer = |by: i32, cardinality: i64| DeletionVector {
            size_in_bytes: good.size_in_bytes + by,
            cardinality,
            ..good.clone()
        };
        assert!(refused(longer(1, 1)).message().contains("size mismatch"));
        assert!(refused(longer(100, 1)).message().contains("size mismatch"));
        assert!(refused(longer(0, 2)).message().contains("cardinality mismatch"));
        let path = t.path(&name_file(uuid::Uuid::from_u128(7)).0);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let damaged = refused(good.clone());
        assert_eq!(damaged.kind(), Kind::CorruptFile);
        assert!(damaged.message().contains("checksum mismatch"));
        std::fs::remove_file(path).unwrap();
        assert_eq!(refused(good).kind(), Kind::FileMissing);
    }
}
