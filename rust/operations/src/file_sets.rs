//! Selects the files of a scan by something other than a predicate: files that another version
//! lacks, or a sample of the rows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_data::{FileRead, SelectedRows};
use deltaplane_error::Result;
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::actions::DeletionVector;
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use futures::TryStreamExt;

/// Places in files from which a sample is taken: each costs a page or two of each column.
const WINDOWS: u64 = 256;
/// Rows of such a place: about those of a page.
const WINDOW_ROWS: u64 = 16_384;

/// The files of a batch of adds, as the data crate wants them.
pub fn file_reads(batch: &RecordBatch) -> Result<Vec<FileRead>> {
    let rows = FileRows::new(batch);
    (0..batch.num_rows()).map(|row| file_read(&rows, row)).collect()
}

/// One of them.
pub fn file_read(rows: &FileRows<'_>, row: usize) -> Result<FileRead> {
    Ok(FileRead {
        path: paths::decode(rows.path(row)?)?,
        size_bytes: u64::try_from(rows.size(row)).unwrap_or(0),
        partition_values: rows.partition_values(row),
        deletion_vector: rows.deletion_vector(row),
        base_row_id: rows.base_row_id(row),
        default_row_commit_version: rows.default_row_commit_version(row),
        ..FileRead::default()
    })
}

/// The files of a version: 16 bytes for each that has no deletion vector.
#[derive(Default)]
pub struct FileSet {
    whole: HashSet<u128>,
    marked: HashMap<u128, DeletionVector>,
}

impl FileSet {
    /// Of this version.
    pub async fn of(snapshot: &Snapshot) -> Result<Self> {
        let mut set = FileSet::default();
        let mut batches = snapshot.plan(None, PlanColumns::Files);
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                let key = key(&paths::decode(rows.path(row)?)?);
                match rows.deletion_vector(row) {
                    Some(vector) => {
                        set.marked.insert(key, vector);
                    }
                    None => {
                        set.whole.insert(key);
                    }
                }
            }
        }
        Ok(set)
    }

    /// What is to be read of a file so that each row is among it which these files don't have;
    /// `None` for nothing.
    pub fn rows_missing_in(&self, mut file: FileRead) -> Option<FileRead> {
        let key = key(&file.path);
        if self.whole.contains(&key) {
            return None;
        }
        if let Some(theirs) = self.marked.get(&key) {
            if file.deletion_vector.as_ref() == Some(theirs) {
                return None;
            }
            file.only = Some(theirs.clone());
        }
        Some(file)
    }
}

fn key(path: &str) -> u128 {
    (u128::from(chance((0_u8, path))) << 64) | u128::from(chance((1_u8, path)))
}

/// A number that looks random, and is the same for the same thing.
fn chance(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A sample of about `rows` rows, from at most `files` files with a known number of rows. Each file
/// contributes in proportion to its rows. The same version and seed yield the same sample.
pub async fn sampled(snapshot: &Snapshot, files: usize, rows: u64, seed: u64) -> Result<Vec<FileRead>> {
    snapshot.note_read(None);
    let mut chosen: BTreeMap<u64, (FileRead, u64)> = BTreeMap::new();
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let of_batch = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let place = chance((seed, of_batch.path(row)?));
            if chosen.len() >= files && chosen.last_key_value().is_none_or(|(last, _)| *last < place) {
                continue;
            }
            let records = of_batch.num_records(row).and_then(|n| u64::try_from(n).ok());
            if let Some(records) = records.filter(|n| *n > 0) {
                chosen.insert(place, (file_read(&of_batch, row)?, records));
                if chosen.len() > files {
                    chosen.pop_last();
                }
            }
        }
    }
    let total = chosen.values().fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
    let windows = WINDOWS.div_ceil(chosen.len().max(1) as u64);
    let picked = chosen.into_iter().map(|(place, (mut file, records))| {
        let share = u128::from(rows) * u128::from(records) / u128::from(total.max(1));
        let share = u64::try_from(share).unwrap_or(rows).clamp(1, records);
        file.selected = Some(SelectedRows::Only(Arc::new(spread(records, share, windows, place))));
        file
    });
    Ok(picked.collect())
}

/// Positions of `rows` rows of a file, in a few windows if the file is large.
fn spread(records: u64, rows: u64, windows: u64, seed: u64) -> Positions {
    let windows = windows.clamp(1, rows);
    let stratum = records / windows;
    let width = stratum.min(WINDOW_ROWS);
    let each = rows.div_ceil(windows).min(width);
    let in_window = |w: u64| {
        let start = w * stratum + chance((seed, w)) % (stratum - width + 1);
        (0..each).map(move |i| {
            let (low, end) = (i * width / each, (i + 1) * width / each);
            start + low + chance((seed, w, i)) % (end - low).max(1)
        })
    };
    (0..windows).flat_map(in_window).collect()
}
