//! Sorted runs of rows, and their merging into one run: streamed, with one batch of each run in
//! memory. Runs beyond the memory limit are in unnamed temporary files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, StructArray};
use arrow::compute::interleave;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use deltaplane_error::{Error, Kind, Result};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

/// Rows in a slice of the merged result.
pub(crate) const SLICE_ROWS: usize = 16 * 1024;
/// Most rows per batch of a spilled run, and fewest: one batch of each run is in memory during a
/// merge.
const SPILLED_ROWS: usize = 1_024;
const FEWEST_ROWS: usize = 64;
/// This many runs have full batches. Later runs have smaller ones, so that one batch of each takes
/// memory by the logarithm of the number of runs.
const FULL_RUNS: usize = 8;

/// Rows per batch of a run that is merged with this many others.
fn spilled_rows(others: usize) -> usize {
    (SPILLED_ROWS * FULL_RUNS / (others + 1)).clamp(FEWEST_ROWS, SPILLED_ROWS)
}

/// Rows, and their keys in the same order.
#[derive(Clone)]
pub struct Keyed {
    /// The rows.
    pub rows: StructArray,
    /// The key of each row.
    pub keys: BinaryArray,
}

impl Keyed {
    fn key(&self, row: usize) -> &[u8] {
        self.keys.value(row)
    }

    /// `rows` rows from row `from` on.
    pub fn slice(&self, from: usize, rows: usize) -> Keyed {
        Keyed {
            rows: self.rows.slice(from, rows),
            keys: self.keys.slice(from, rows),
        }
    }

    /// The number of leading rows whose keys satisfy `is_before`; rows whose keys do so come first.
    pub fn place(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.keys.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_before(self.key(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Rows in the order of their keys.
pub type Run<'a> = BoxStream<'a, Result<Keyed>>;

/// A run in an unnamed file, which the system deletes with its handle, even after a crash.
pub struct SpilledRun {
    file: File,
}

impl SpilledRun {
    /// Writes a run, which will be merged with `others` earlier ones. Returns the system's error,
    /// for callers that can go on without spilling.
    pub fn write(slices: impl Iterator<Item = Result<Keyed>>, others: usize) -> Result<Option<SpilledRun>> {
        let most = spilled_rows(others);
        let mut writer: Option<StreamWriter<BufWriter<File>>> = None;
        for slice in slices {
            let Keyed { rows, keys } = slice?;
            let batch = batch(rows, keys)?;
            let out = match &mut writer {
                Some(out) => out,
                none => {
                    let file = tempfile::tempfile().map_err(no_room)?;
                    none.insert(StreamWriter::try_new_buffered(file, &batch.schema()).map_err(not_spilled)?)
                }
            };
            for start in (0..batch.num_rows()).step_by(most) {
                let some = batch.slice(start, most.min(batch.num_rows() - start));
                out.write(&some).map_err(not_spilled)?;
            }
        }
        let written = writer.map(|w| {
            let buffer = w.into_inner().map_err(not_spilled)?;
            let file = buffer.into_inner().map_err(|e| no_room(e.into_error()))?;
            Ok(SpilledRun { file })
        });
        written.transpose()
    }

    /// The file's length.
    pub fn size_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |m| m.len())
    }

    /// Reads the run from its beginning.
    pub fn read(mut self) -> Result<Run<'static>> {
        self.file.rewind().map_err(no_room)?;
        let reader = StreamReader::try_new(BufReader::new(self.file), None).map_err(not_spilled)?;
        let keyed = |batch: Result<RecordBatch, ArrowError>| {
            let batch = batch.map_err(not_spilled)?;
            let rows = batch.column(0).as_struct_opt().cloned();
            let keys = batch.columns().get(1).and_then(|k| k.as_binary_opt::<i32>()).cloned();
            let both = rows.zip(keys).map(|(rows, keys)| Keyed { rows, keys });
            both.ok_or_else(|| Error::internal("a temporary file of sorted rows holds something else"))
        };
        Ok(stream::iter(reader.map(keyed)).boxed())
    }
}

/// Rows in an unnamed file, in their original order.
pub struct SpilledRows {
    out: StreamWriter<BufWriter<File>>,
}

impl SpilledRows {
    /// Empty.
    ///
    /// # Errors
    /// `StoreUnavailable` where the temporary folder has no room.
    pub fn new(schema: &Schema) -> Result<SpilledRows> {
        let file = tempfile::tempfile().map_err(no_room)?;
        let out = StreamWriter::try_new_buffered(file, schema).map_err(not_spilled)?;
        Ok(SpilledRows { out })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        self.out.write(rows).map_err(not_spilled)
    }

    /// All rows, batch by batch.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn read(self) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send> {
        let mut file = self.out.into_inner().map_err(not_spilled)?;
        file.rewind().map_err(no_room)?;
        let file = file.into_inner().map_err(|e| no_room(e.into_error()))?;
        let reader = StreamReader::try_new(BufReader::new(file), None).map_err(not_spilled)?;
        Ok(reader.map(|batch| batch.map_err(not_spilled)))
    }
}

fn batch(rows: StructArray, keys: BinaryArray) -> Result<RecordBatch> {
    let schema = Schema::new(vec![
        Field::new("rows", rows.data_type().clone(), true),
        Field::new("keys", keys.data_type().clone(), false),
    ]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(rows), Arc::new(keys)]).map_err(not_spilled)
}

fn no_room(e: std::io::Error) -> Error {
    Error::new(
        Kind::StoreUnavailable,
        format!(
            "rows can't be kept in the temporary folder {} while they are sorted ({e}): make room there, or name another by TMPDIR",
            std::env::temp_dir().display()
        ),
    )
    .with_source(e)
}

fn not_spilled(e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(_, e) => no_room(e),
        e => Error::internal(format!("rows can't be kept in a temporary file: {e}")).with_source(e),
    }
}

/// All rows of these runs in the order of their keys.
pub fn merge<'a>(runs: Vec<Run<'a>>) -> Run<'a> {
    let begun = async {
        let mut merge = Merge {
            heads: Vec::new(),
            heap: Vec::new(),
        };
        for mut run in runs {
            if let Some(now) = next_rows(&mut run).await? {
                merge.heads.push(Head { run, now, position: 0 });
                merge.heap.push(merge.heads.len() - 1);
            }
        }
        for index in (0..merge.heap.len() / 2).rev() {
            merge.sink(index);
        }
        Ok(stream::try_unfold(merge, |mut merge| async move {
            Ok(merge.slice().await?.map(|slice| (slice, merge)))
        }))
    };
    stream::once(begun).try_flatten().boxed()
}

async fn next_rows(run: &mut Run<'_>) -> Result<Option<Keyed>> {
    while let Some(next) = run.try_next().await? {
        if !next.rows.is_empty() {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// The current position in a run.
struct Head<'a> {
    run: Run<'a>,
    now: Keyed,
    position: usize,
}

impl Head<'_> {
    fn key(&self) -> &[u8] {
        self.now.key(self.position)
    }

    /// How many rows of the current batch, at most `most`, have a key up to `bound`.
    fn until(&self, bound: Option<&[u8]>, most: usize) -> usize {
        let end = self.now.keys.len().min(self.position + most);
        let Some(bound) = bound else { return end - self.position };
        // Runs that overlap alternate often, the others hardly ever: the step doubles until it
        // passes the bound.
        let mut step = 1;
        let mut sure = self.position;
        while sure + step < end && self.now.key(sure + step) <= bound {
            sure += step;
            step *= 2;
        }
        let (mut low, mut high) = (sure + 1, end.min(sure + step));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.now.key(middle) <= bound {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low - self.position
    }
}

/// The merge of several runs. The heap holds the runs that have rows left, the one with the least
/// key first.
struct Merge<'a> {
    heads: Vec<Head<'a>>,
    heap: Vec<usize>,
}

impl Merge<'_> {
    fn key_at(&self, place: usize) -> Option<&[u8]> {
        Some(self.heads.get(*self.heap.get(place)?)?.key())
    }

    fn less(&self, a: usize, b: usize) -> bool {
        match (self.key_at(a), self.key_at(b)) {
            // Among equal keys the earlier run wins, so that the result is deterministic.
            (Some(x), Some(y)) => (x, self.heap.get(a)) < (y, self.heap.get(b)),
            (value, _) => value.is_some(),
        }
    }

    fn sink(&mut self, mut index: usize) {
        loop {
            let (left, right) = (2 * index + 1, 2 * index + 2);
            let child = if self.less(right, left) { right } else { left };
            if child >= self.heap.len() || !self.less(child, index) {
                return;
            }
            self.heap.swap(index, child);
            index = child;
        }
    }

    /// The next slice of merged rows; `None` at the end.
    async fn slice(&mut self) -> Result<Option<Keyed>> {
        let mut arrays: Vec<Keyed> = Vec::new();
        // For each run, the index of its current batch among the arrays.
        let mut places_of: Vec<Option<usize>> = vec![None; self.heads.len()];
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(SLICE_ROWS);
        while places.len() < SLICE_ROWS
            && let Some(first) = self.heap.first().copied()
        {
            let second = if self.less(2, 1) {
                self.key_at(2)
            } else {
                self.key_at(1)
            };
            let Some(head) = self.heads.get(first) else { break };
            let (from, take) = (head.position, head.until(second, SLICE_ROWS - places.len()));
            let array = match places_of.get(first).copied().flatten() {
                Some(array) => array,
                None => {
                    arrays.push(head.now.clone());
                    arrays.len() - 1
                }
            };
            places.extend((from..from + take).map(|row| (array, row)));
            if let Some(place) = places_of.get_mut(first) {
                *place = Some(array);
            }
            let Some(head) = self.heads.get_mut(first) else { break };
            head.position += take;
            if head.position == head.now.keys.len() {
                match next_rows(&mut head.run).await? {
                    Some(next) => (head.now, head.position) = (next, 0),
                    None => {
                        self.heap.swap_remove(0);
                    }
                }
                if let Some(place) = places_of.get_mut(first) {
                    *place = None;
                }
            }
            self.sink(0);
        }
        (!places.is_empty()).then(|| gather(&arrays, &places)).transpose()
    }
}

/// The rows at these positions, each an array and a row in it.
pub fn gather(arrays: &[Keyed], places: &[(usize, usize)]) -> Result<Keyed> {
    let (first, last) = (places.first().copied(), places.last().copied());
    if let (Some((array, from)), Some((_, to)), [array_of_all]) = (first, last, arrays)
        && array == 0
        && to.checked_sub(from) == Some(places.len() - 1)
        && places.is_sorted()
    {
        return Ok(array_of_all.slice(from, places.len()));
    }
    let pick = |values_of: Vec<&dyn Array>| -> Result<ArrayRef> {
        interleave(&values_of, places).map_err(|e| Error::internal(format!("rows can't be sorted: {e}")).with_source(e))
    };
    Ok(Keyed {
        rows: pick(arrays.iter().map(|a| &a.rows as &dyn Array).collect())?
            .as_struct()
            .clone(),
        keys: pick(arrays.iter().map(|a| &a.keys as &dyn Array).collect())?
            .as_binary()
            .clone(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::Int64Array;
    use arrow::datatypes::DataType;
    use futures::executor::block_on;

    fn keyed(numbers: &[i64]) -> Keyed {
        let id: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let field = Arc::new(Field::new("id", DataType::Int64, true));
        Keyed {
            rows: StructArray::from(vec![(field, id)]),
            keys: BinaryArray::from_iter_values(numbers.iter().map(|n| n.to_be_bytes())),
        }
    }

    fn run_of(slices: Vec<Keyed>) -> Run<'static> {
        stream::iter(slices.into_iter().map(Ok)).boxed()
    }

    fn ids(slices: &[Keyed]) -> Vec<i64> {
        let ids_of = |s: &Keyed| {
            s.rows
                .column(0)
                .as_primitive::<arrow::datatypes::Int64Type>()
                .values()
                .to_vec()
        };
        slices.iter().flat_map(ids_of).collect()
    }

    #[test]
    fn merged_runs_are_one_run() {
        let (a, b): (Vec<i64>, Vec<i64>) = (0..40_000).partition(|n| n % 7 < 3 || *n > 30_000);
        let runs = vec![
            run_of(vec![keyed(&a[..5]), keyed(&[]), keyed(&a[5..])]),
            run_of(vec![]),
            run_of(vec![keyed(&b)]),
            run_of(vec![keyed(&[7, 7, 50_000])]),
        ];
        let merged: Vec<Keyed> = block_on(merge(runs).try_collect()).unwrap();
        let mut expected: Vec<i64> = (0..40_000).chain([7, 7, 50_000]).collect();
        expected.sort_unstable();
        assert_eq!(ids(&merged), expected);
        assert!(
            merged
                .iter()
                .all(|s| s.rows.len() == s.keys.len() && s.rows.len() <= SLICE_ROWS)
        );
        assert!(block_on(merge(vec![]).try_collect::<Vec<_>>()).unwrap().is_empty());
    }

    #[test]
    fn a_run_comes_back_from_its_file() {
        let all: Vec<i64> = (0..3_000).collect();
        for (others, most) in [(0, SPILLED_ROWS), (31, SPILLED_ROWS / 4), (100_000, FEWEST_ROWS)] {
            let slices = [keyed(&all[..10]), keyed(&all[10..])];
            let run = SpilledRun::write(slices.into_iter().map(Ok), others).unwrap().unwrap();
            assert!(run.size_bytes() > 24_000);
            let back: Vec<Keyed> = block_on(run.read().unwrap().try_collect()).unwrap();
            assert_eq!(ids(&back), all);
            assert_eq!(back.iter().map(|s| s.rows.len()).max(), Some(most));
        }
        assert!(SpilledRun::write(std::iter::empty(), 0).unwrap().is_none());
    }
}
