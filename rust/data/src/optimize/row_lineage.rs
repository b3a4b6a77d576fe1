//! Row lineage of a sorted file: the old file and position of each row, eight bytes a row in a
//! temporary file until the commit, so that concurrent deletes can be carried over.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, UInt64Type};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_store::Store;
use uuid::Uuid;

use crate::read::{FILE, FileRead, ROW, ReadSpec};

/// A place is a file's number in the group and, in so many bits below it, the row's position.
const POSITION_BITS: u32 = 40;
const PLACE: &str = "_place";
/// Bytes that are read at once: whole places.
const PART: u64 = 8 << 20;

/// What a scan of one group's files must show so that rows can be followed, and how that becomes
/// one number.
pub(super) struct Places {
    numbers: HashMap<String, u64>,
}

impl Places {
    /// The scan with the columns that tell; `None` where columns of the table have their names.
    pub(super) fn of(files: &[FileRead], read: &ReadSpec) -> Option<(Places, ReadSpec)> {
        let taken = |name: &str| read.schema.field_ignore_case(name).is_some();
        if taken(FILE) || taken(ROW) {
            return None;
        }
        let all = || read.schema.fields().iter().map(|f| f.name.clone()).collect();
        let mut columns: Vec<String> = read.columns.clone().unwrap_or_else(all);
        columns.extend([FILE.to_owned(), ROW.to_owned()]);
        let numbers = files.iter().enumerate().map(|(n, file)| (file.path.clone(), n as u64));
        let shown = ReadSpec {
            columns: Some(columns),
            encoded_files: true,
            ..read.clone()
        };
        let numbers = numbers.collect();
        Some((Places { numbers }, shown))
    }

    /// The rows with their places in one column, the last.
    pub(super) fn put(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let wrong = || Error::internal("a scan doesn't say where its rows are");
        let (mut fields, mut columns) = (rows.schema().fields().to_vec(), rows.columns().to_vec());
        let position = columns.pop().ok_or_else(wrong)?;
        let file = columns.pop().ok_or_else(wrong)?;
        fields.truncate(columns.len());
        let position = position.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
        let file = file.as_dictionary_opt::<Int32Type>().ok_or_else(wrong)?;
        let names = file.values().as_string_opt::<i32>().ok_or_else(wrong)?;
        let numbers: Vec<u64> = names
            .iter()
            .map(|name| name.and_then(|name| self.numbers.get(name).copied()).ok_or_else(wrong))
            .collect::<Result<_>>()?;
        let keys = file.keys().values().iter().zip(position.values());
        let places = keys.map(|(key, position)| {
            let number = usize::try_from(*key).ok().and_then(|key| numbers.get(key));
            let position = u64::try_from(*position).ok().filter(|p| *p < 1 << POSITION_BITS);
            number
                .zip(position)
                .map(|(n, p)| n << POSITION_BITS | p)
                .ok_or_else(wrong)
        });
        let places: ArrayRef = Arc::new(UInt64Array::from(places.collect::<Result<Vec<_>>>()?));
        fields.push(Arc::new(Field::new(PLACE, DataType::UInt64, true)));
        columns.push(places);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|e| Error::internal(format!("rows and their places don't fit: {e}")))
    }
}

/// The rows, and the places of those that have some.
pub(super) fn taken_off(rows: &RecordBatch) -> Result<(RecordBatch, Option<UInt64Array>)> {
    let last = rows.num_columns().saturating_sub(1);
    // No column of a table is unsigned.
    let ours = |f: &Arc<Field>| f.name() == PLACE && *f.data_type() == DataType::UInt64;
    if !rows.schema().fields().get(last).is_some_and(ours) {
        return Ok((rows.clone(), None));
    }
    let places = rows.column(last).as_primitive_opt::<UInt64Type>().cloned();
    let storage: Vec<usize> = (0..last).collect();
    let rows = rows
        .project(&storage)
        .map_err(|e| Error::internal(format!("rows without their places: {e}")))?;
    Ok((rows, places))
}

/// Whether it is kept where sorted rows were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageStorage {
    /// Nobody asks.
    No,
    /// In temporary files.
    Here,
    /// In files of the table's store, for who commits on another machine, and deletes them. They
    /// have no hidden names: what a crash leaves behind VACUUM takes.
    Stored,
}

/// The trace of a file that is being written. Where there is no room for it there is none: what
/// others mark meanwhile can't be followed then, as if it weren't kept.
#[derive(Default)]
pub(super) enum LineageWriter {
    #[default]
    Unbegun,
    Writing(BufWriter<File>),
    Failed,
}

impl LineageWriter {
    pub(super) fn push(&mut self, places: &UInt64Array) {
        if let Err(e) = self.write(places) {
            warn_without_lineage(&e);
            *self = LineageWriter::Failed;
        }
    }

    fn write(&mut self, places: &UInt64Array) -> std::io::Result<()> {
        if matches!(self, LineageWriter::Unbegun) {
            *self = LineageWriter::Writing(BufWriter::new(tempfile::tempfile()?));
        }
        if let LineageWriter::Writing(out) = self {
            for place in places.values() {
                out.write_all(&place.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// What was written, from now on to be read.
    pub(super) async fn end(self, store: &Store, storage: LineageStorage) -> Option<RowLineage> {
        let LineageWriter::Writing(out) = self else { return None };
        let mut file = out.into_inner().inspect_err(|e| warn_without_lineage(e)).ok()?;
        match storage {
            LineageStorage::No => None,
            LineageStorage::Here => Some(RowLineage(Location::Here(Mutex::new(file)))),
            LineageStorage::Stored => match stored(&mut file, store).await {
                Ok(key) => Some(RowLineage::stored(store.clone(), key)),
                Err(e) => {
                    warn_without_lineage(&e);
                    None
                }
            },
        }
    }
}

fn warn_without_lineage(e: &dyn std::fmt::Display) {
    tracing::warn!(error = %e, "where rows were can't be kept: OPTIMIZE gives way to others that delete rows meanwhile");
}

async fn stored(file: &mut File, store: &Store) -> Result<String> {
    let key = format!("moved-{}.rows", Uuid::new_v4());
    file.rewind().map_err(unreadable)?;
    let mut upload = store.upload(&key).await?;
    while let Some(part) = part_of(file)? {
        upload.write(part.into()).await?;
    }
    upload.finish().await?;
    Ok(key)
}

/// The next bytes, whole places; none at the end.
fn part_of(file: &mut File) -> Result<Option<Vec<u8>>> {
    let mut part = Vec::new();
    file.take(PART).read_to_end(&mut part).map_err(unreadable)?;
    Ok(Some(part).filter(|part| !part.is_empty()))
}

/// Where the rows of a new file were.
#[derive(Debug)]
pub struct RowLineage(Location);

#[derive(Debug)]
enum Location {
    Here(Mutex<File>),
    Stored { store: Store, key: String },
}

impl RowLineage {
    /// One that another machine kept.
    pub fn stored(store: Store, key: String) -> RowLineage {
        RowLineage(Location::Stored { store, key })
    }

    /// The file in the table's store that is to be deleted when nobody asks any more.
    pub fn key(&self) -> Option<&str> {
        match &self.0 {
            Location::Here(_) => None,
            Location::Stored { key, .. } => Some(key),
        }
    }

    /// The rows of the new file that stand for marked rows of the old ones, which are given in
    /// their order.
    ///
    /// # Errors
    /// `StoreUnavailable` where the temporary file can't be read; as the store, for one that is
    /// kept there.
    pub async fn marked(&self, old: &[Positions]) -> Result<Positions> {
        let (mut found, mut row) = (Positions::new(), 0);
        if old.iter().all(Positions::is_empty) {
            return Ok(found);
        }
        let mut look = |part: &[u8]| {
            for place in part.as_chunks().0 {
                let place = u64::from_le_bytes(*place);
                let marked = usize::try_from(place >> POSITION_BITS).ok().and_then(|n| old.get(n));
                if marked.is_some_and(|m| m.contains(place & ((1 << POSITION_BITS) - 1))) {
                    found.insert(row);
                }
                row += 1;
            }
        };
        match &self.0 {
            Location::Here(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.rewind().map_err(unreadable)?;
                while let Some(part) = part_of(&mut file)? {
                    look(&part);
                }
            }
            Location::Stored { store, key } => {
                let shown = store.head(key).await?;
                let mut at = 0;
                while at < shown.size_bytes {
                    let until = shown.size_bytes.min(at + PART);
                    look(&store.read_part(&shown, at..until).await?);
                    at = until;
                }
            }
        }
        Ok(found)
    }
}

fn unreadable(e: std::io::Error) -> Error {
    let said = format!("where rows were before they were sorted can't be read again ({e}): run OPTIMIZE again");
    Error::new(Kind::StoreUnavailable, said).with_source(e)
}
