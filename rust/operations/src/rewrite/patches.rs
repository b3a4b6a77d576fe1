//! New values for columns of files, as they stream in: each file is written in the background once
//! its values are complete. How a file is written is decided by the data crate.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type};
use deltaplane_data::{Patcher, SelectedFile};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::hidden_columns::{FILE, ROW};
use deltaplane_protocol::paths;
use deltaplane_store::block_on;
use tokio::task::JoinSet;

/// Writes files with new values in some columns.
pub struct Patches {
    patcher: Arc<Patcher>,
    /// Those whose values haven't come yet, by decoded path.
    files: HashMap<String, SelectedFile>,
    /// The file whose values come, and those that came.
    file: Option<String>,
    values: Vec<RecordBatch>,
    /// What becomes of each, with its number.
    under_way: JoinSet<(usize, Result<Add>)>,
    begun: usize,
    /// With the numbers of their files: they end in any order.
    written: Vec<(usize, Add)>,
    done: PatchedFiles,
}

/// Files that were written with new values of columns.
#[derive(Default)]
pub struct PatchedFiles {
    /// The new files.
    pub adds: Vec<Add>,
    /// Rows with new values.
    pub rows: usize,
    /// Rows beside them.
    pub copied_rows: usize,
}

impl Patches {
    /// For these files.
    pub(super) fn of<'a>(patcher: Arc<Patcher>, files: impl Iterator<Item = &'a SelectedFile>) -> Result<Self> {
        let files = files.map(|f| Ok((paths::decode(&f.add.path)?, f.clone())));
        Ok(Patches {
            patcher,
            files: files.collect::<Result<_>>()?,
            file: None,
            values: Vec::new(),
            under_way: JoinSet::new(),
            begun: 0,
            written: Vec::new(),
            done: PatchedFiles::default(),
        })
    }

    /// Writes the files with the values that batches have for rows, named by `_file` and `_row`, in
    /// the files' order. Returns the files that were written, also where it failed; no file is
    /// being written afterwards.
    pub fn write(mut self, batches: impl Iterator<Item = Result<RecordBatch>>) -> (PatchedFiles, Result<()>) {
        let mut taken = Ok(());
        for batch in batches {
            taken = batch.and_then(|batch| self.take(&batch));
            if taken.is_err() {
                break;
            }
        }
        if taken.is_ok() {
            taken = self.end_file();
        }
        while !self.under_way.is_empty() {
            let ended = self.collect_one();
            taken = taken.and(ended);
        }
        self.written.sort_unstable_by_key(|(number, _)| *number);
        self.done.adds = self.written.into_iter().map(|(_, add)| add).collect();
        (self.done, taken)
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        for (file, rows) in by_file(batch)? {
            if self.file.as_ref() != Some(&file) {
                self.end_file()?;
                self.file = Some(file);
            }
            self.done.rows += rows.num_rows();
            self.values.push(rows);
        }
        Ok(())
    }

    /// Begins to write the file whose values are all there.
    fn end_file(&mut self) -> Result<()> {
        let Some(path) = self.file.take() else { return Ok(()) };
        let wrong = |what: &str| Error::internal(format!("new values came {what}")).with_path(path.clone());
        let Some(file) = self.files.remove(&path) else {
            return Err(wrong("for a file that takes none, or twice"));
        };
        let values = std::mem::take(&mut self.values);
        let Some(schema) = values.first().map(RecordBatch::schema) else {
            return Err(wrong("without a row"));
        };
        let values = concat_batches(&schema, &values).map_err(|_| wrong("in several types"))?;
        let rows = values
            .column_by_name(ROW)
            .and_then(|c| c.as_primitive_opt::<Int64Type>());
        if rows.is_none_or(out_of_order) {
            return Err(wrong("in another order than the rows that they are for"));
        }
        let others = file.others_by_the_log().0.unwrap_or_default();
        self.done.copied_rows += usize::try_from(others).unwrap_or(usize::MAX);
        let (number, patcher) = (self.begun, self.patcher.clone());
        let made = patcher.new_path(&file.add, number)?;
        self.begun += 1;
        // Those that are made, of which the patcher knows how many it makes at a time, may wait for
        // the store.
        let most = 3 * deltaplane_data::processors();
        while self.under_way.len() >= most {
            self.collect_one()?;
        }
        let work = async move {
            let made = patcher.patch(&file.add, file.rows.as_deref(), &made, &values).await;
            (number, made)
        };
        block_on(async { self.under_way.spawn(work) });
        Ok(())
    }

    /// Waits for whichever ends first.
    fn collect_one(&mut self) -> Result<()> {
        let Some(ended) = block_on(self.under_way.join_next()) else {
            return Ok(());
        };
        let (number, made) = ended.map_err(|e| Error::internal(format!("a data file wasn't written: {e}")))?;
        self.written.push((number, made?));
        Ok(())
    }
}

fn out_of_order(rows: &Int64Array) -> bool {
    !rows.values().is_sorted_by(|a, b| a < b)
}

/// The parts of a batch whose rows are of one file.
fn by_file(batch: &RecordBatch) -> Result<Vec<(String, RecordBatch)>> {
    let wrong = || Error::internal(format!("new values come without the column {FILE}"));
    let files = batch.column_by_name(FILE).ok_or_else(wrong)?;
    let files = files.as_dictionary_opt::<Int32Type>().ok_or_else(wrong)?;
    let paths = files.values().as_string_opt::<i32>().ok_or_else(wrong)?;
    let (mut parts, mut from) = (Vec::new(), 0);
    for run in files.keys().values().chunk_by(|a, b| a == b) {
        let key = run.first().and_then(|k| usize::try_from(*k).ok());
        let path = paths.value(key.filter(|k| *k < paths.len()).ok_or_else(wrong)?);
        parts.push((path.to_owned(), batch.slice(from, run.len())));
        from += run.len();
    }
    Ok(parts)
}
