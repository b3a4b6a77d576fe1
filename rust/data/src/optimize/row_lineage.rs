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
use deltaplane_protocol::hidden_columns::{FILE, ROW};
use deltaplane_store::Store;
use uuid::Uuid;

use crate::read::{FileRead, ReadSpec};

/// A place is the file's number in the group followed by the row's position in this many bits.
const POSITION_BITS: u32 = 40;
const PLACE: &str = "_place";
/// Bytes that are read at once, a whole number of places.
const PART: u64 = 8 << 20;

/// Encodes each row's file and position as one number while the files of a group are scanned.
pub(super) struct Places {
    numbers: HashMap<String, u64>,
}

impl Places {
    /// The scan with the needed hidden columns; `None` if columns of the table have their names.
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

    /// The rows with their places as the last column.
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

/// The rows without the column of places, and the places if there were any.
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

/// Whether and where the original positions of sorted rows are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageStorage {
    /// Not stored.
    No,
    /// In temporary files.
    Here,
    /// In files of the table's store, for a commit on another machine, which deletes them. They
    /// have no hidden names, so VACUUM deletes what a crash leaves behind.
    Stored,
}

/// Writes the lineage of one file. If there is no room for it, the file has no lineage, and
/// concurrent deletes can't be carried over.
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

    /// Closes the lineage for writing and opens it for reading.
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

/// The next bytes, a whole number of places; empty at the end.
fn part_of(file: &mut File) -> Result<Option<Vec<u8>>> {
    let mut part = Vec::new();
    file.take(PART).read_to_end(&mut part).map_err(unreadable)?;
    Ok(Some(part).filter(|part| !part.is_empty()))
}

/// The original positions of a new file's rows.
#[derive(Debug)]
pub struct RowLineage(Location);

#[derive(Debug)]
enum Location {
    Here(Mutex<File>),
    Stored { store: Store, key: String },
}

impl RowLineage {
    /// A lineage that another machine stored.
    pub fn stored(store: Store, key: String) -> RowLineage {
        RowLineage(Location::Stored { store, key })
    }

    /// The file in the table's store, to be deleted after the last use.
    pub fn key(&self) -> Option<&str> {
        match &self.0 {
            Location::Here(_) => None,
            Location::Stored { key, .. } => Some(key),
        }
    }

    /// The rows of the new file that correspond to deleted rows of the old ones, which are passed
    /// in order.
    ///
    /// # Errors
    /// `StoreUnavailable` if the temporary file can't be read; the store's errors for a stored one.
    pub async fn marked(&self, old: &[Positions]) -> Result<Positions> {
        let (mut marked_rows, mut row) = (Positions::new(), 0);
        if old.iter().all(Positions::is_empty) {
            return Ok(marked_rows);
        }
        let mut look = |part: &[u8]| {
            for place in part.as_chunks().0 {
                let place = u64::from_le_bytes(*place);
                let marked = usize::try_from(place >> POSITION_BITS).ok().and_then(|n| old.get(n));
                if marked.is_some_and(|m| m.contains(place & ((1 << POSITION_BITS) - 1))) {
                    marked_rows.insert(row);
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
                let mut offset = 0;
                while offset < shown.size_bytes {
                    let until = shown.size_bytes.min(offset + PART);
                    look(&store.read_part(&shown, offset..until).await?);
                    offset = until;
                }
            }
        }
        Ok(marked_rows)
    }
}

fn unreadable(e: std::io::Error) -> Error {
    let said = format!("where rows were before they were sorted can't be read again ({e}): run OPTIMIZE again");
    Error::new(Kind::StoreUnavailable, said).with_source(e)
}
