//! The states before a command's files are complete: `Rewrite`, which selects rows, and `Selected`,
//! which writes what becomes of them: new rows, copies of the rows beside them, patched columns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use deltaplane_data::{FileRead, IdentityValues, Marked, Patcher, RowSink, SelectedFile, delete_rows, is_outdated};
use deltaplane_error::{Error, Result};
use deltaplane_log::{Rewrite as Plan, RewriteRequest, Snapshot, new_id, now_ms};
use deltaplane_protocol::actions::{Add, claimed_sum};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::features::identity_columns;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::hidden_columns::{FILE, ROW};
use deltaplane_protocol::paths;
use deltaplane_store::block_on;
use futures::{StreamExt, TryStreamExt, stream};

use super::command::{Command, adds_of, all_columns, id_columns, not_of_version};
use super::patches::{PatchedFiles, Patches};
use super::row_conflicts::MarkedRows;
use super::stage::Staged;
use super::tasks::Outcome;
use super::written_files::WrittenFiles;
use crate::scan::{Scan, read_spec};

/// Footers that are read at once.
const PARALLEL_FOOTERS: usize = 16;

/// Rows by the decoded path of their file.
type RowsByPath = HashMap<String, Positions>;

/// A command that was checked against one version of a table, and has not selected its rows.
pub struct Rewrite {
    command: Arc<Command>,
}

/// A command whose rows are selected. Its new files are deleted when it is dropped.
pub struct Selected {
    command: Arc<Command>,
    files: Vec<SelectedFile>,
    written: WrittenFiles,
    /// The actions by which tasks on other machines deleted rows.
    deleted: Marked,
    /// What tasks on other machines marked: files as they were, and with their new vectors.
    adopted: Vec<(Add, Add)>,
    copied_rows: usize,
    added_rows: usize,
    /// Of a dry run: the rows that would be copied, as files of their bytes.
    copies: Vec<Add>,
    patcher: Option<Arc<Patcher>>,
    /// Paths in the log of the files that the patcher writes.
    patched: HashSet<String>,
    identity: Option<IdentityValues>,
}

impl Rewrite {
    /// Checks a command against this version.
    ///
    /// # Errors
    /// As [`deltaplane_log::Rewrite::plan`].
    pub fn begin(snapshot: &Snapshot, request: RewriteRequest) -> Result<Self> {
        let plan = block_on(Plan::plan(snapshot, request))?;
        Ok(Rewrite {
            command: Arc::new(Command::new(plan)),
        })
    }

    /// What the command is.
    pub fn command(&self) -> &Arc<Command> {
        &self.command
    }

    /// Selects the rows that batches name by `_file` (string) and `_row` (long); returns how many.
    ///
    /// # Errors
    /// The first error of the batches; `InvalidArgument` for other columns and for a file that
    /// isn't of the version.
    pub fn select_rows(self, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<(Selected, u64)> {
        let mut rows_by_path = RowsByPath::new();
        for batch in batches {
            collect(&batch?, &mut rows_by_path)?;
        }
        let rows = rows_by_path.values().map(Positions::len).sum();
        let files = block_on(files_of(&self.command.plan, rows_by_path))?;
        Ok((self.selected(files), rows))
    }

    /// Selects no row: for a command that only brings new ones, or whose rows tasks on other
    /// machines select.
    pub fn select_nothing(self) -> Selected {
        self.selected(Vec::new())
    }

    /// Selects all rows of the files that the command's condition selects; returns how many, if the
    /// log says so.
    pub fn select_files(self) -> Result<(Selected, Option<i64>)> {
        let selection =
            self.command
                .plan
                .candidates()
                .try_fold((Vec::new(), Some(0)), |(mut files, mut sum), batch| async move {
                    let adds = FileRows::new(&batch);
                    for row in 0..batch.num_rows() {
                        sum = sum.zip(adds.live_records(row)).map(|(s, n): (i64, i64)| s + n);
                        files.push(SelectedFile {
                            add: adds.add(row)?,
                            rows: None,
                        });
                    }
                    Ok((files, sum))
                });
        let (files, rows) = block_on(selection)?;
        Ok((self.selected(files), rows))
    }

    /// Selects no row of the files that hold columns or values which the table no longer has, so
    /// that all their rows are copied.
    pub fn select_outdated(self) -> Result<Selected> {
        let base = self.command.base();
        let spec = read_spec(base, None)?;
        let adds = self.command.plan.candidates().map(|b| adds_of(&b?));
        let adds = adds.map_ok(|adds| stream::iter(adds.into_iter().map(Ok))).try_flatten();
        let judged = adds.map(async |add: Result<Add>| {
            let add = add?;
            let outdated = is_outdated(base.store(), &FileRead::of(&add)?, &spec).await?;
            Result::Ok(outdated.then(|| without_rows(add)))
        });
        let judged_files = judged.buffered(PARALLEL_FOOTERS).try_filter_map(async |f| Ok(f));
        let files = block_on(judged_files.try_collect())?;
        Ok(self.selected(files))
    }

    /// Selects no row of any file where the command gives columns other names in files, so that all
    /// rows are copied.
    pub fn select_renamed(self) -> Result<Selected> {
        if !self.command.plan.renames_columns() {
            return Ok(self.select_nothing());
        }
        let candidates = self.command.plan.candidates();
        let candidates = candidates.try_fold(Vec::new(), async |mut files, batch| {
            files.extend(adds_of(&batch)?.into_iter().map(without_rows));
            Ok(files)
        });
        let files = block_on(candidates)?;
        Ok(self.selected(files))
    }

    fn selected(self, files: Vec<SelectedFile>) -> Selected {
        Selected {
            written: WrittenFiles::new(self.command.store().clone()),
            command: self.command,
            files,
            deleted: Marked::default(),
            adopted: Vec::new(),
            copied_rows: 0,
            added_rows: 0,
            copies: Vec::new(),
            patcher: None,
            patched: HashSet::new(),
            identity: None,
        }
    }
}

impl Selected {
    /// The number of files with selected rows.
    pub fn num_files(&self) -> usize {
        self.files.len()
    }

    /// The bytes of these files.
    pub fn num_bytes(&self) -> i64 {
        claimed_sum(self.files.iter().map(|f| f.add.size))
    }

    /// Whether rows beside the selected ones are copied.
    pub fn copies_rows(&self) -> bool {
        self.rewritten().any(|f| self.command.is_copied(f))
    }

    /// The rows that were written, without copied ones.
    pub fn written_rows(&self) -> usize {
        self.added_rows
    }

    /// Takes over what tasks on other machines did.
    pub fn adopt(&mut self, mut outcome: Outcome) {
        self.written.adopt(&mut outcome);
        self.copied_rows += outcome.copied_rows;
        self.copies.extend(outcome.copies);
        self.added_rows += outcome.written_rows;
        for new in &outcome.marked {
            if let Some(before) = outcome.removes.iter().find(|r| r.path == new.path) {
                let old = Add {
                    deletion_vector: before.deletion_vector.clone(),
                    ..new.clone()
                };
                self.adopted.push((old, new.clone()));
            }
        }
        self.deleted.adds.extend(outcome.marked);
        self.deleted.removes.extend(outcome.removes);
    }

    /// The selected rows, with their ids where they have some.
    pub fn rows(&self) -> Result<Scan> {
        self.scan(self.rewritten(), all_columns(&self.command.plan)?)
    }

    /// These columns of the selected rows, with their ids where they have some, and their
    /// positions.
    pub fn positioned_rows(&self, columns: Vec<String>) -> Result<Scan> {
        let ids = id_columns(&self.command.plan)?.iter().map(|c| (*c).to_owned());
        let columns = columns.into_iter().chain(ids).chain(positions()).collect();
        self.scan(self.rewritten(), columns)
    }

    /// Copies the rows beside the selected ones to new files, where files are not marked. A dry run
    /// only counts them.
    pub fn copy_others(&mut self) -> Result<()> {
        if self.command.plan.is_dry_run() {
            return self.count_others();
        }
        let copied = self.rewritten().filter(|f| self.command.is_copied(f));
        let reads = copied.map(SelectedFile::others).collect::<Result<Vec<_>>>()?;
        let reads = reads.into_iter().flatten().collect();
        let mut rows = Scan::of_files(self.command.base(), reads, all_columns(&self.command.plan)?)?.stream();
        block_on(async {
            while let Some(batch) = rows.try_next().await? {
                self.copied_rows += batch.num_rows();
                self.sink()?.write(&batch).await?;
            }
            Ok(())
        })
    }

    /// Chooses the files of selected rows that keep all but these columns as they are, byte for
    /// byte; returns how many. From then on [`rows`](Self::rows) and
    /// [`copy_others`](Self::copy_others) leave them out. Files of fewer than `min_bytes` bytes are
    /// not chosen.
    pub fn patch_columns(&mut self, columns: &[String], min_bytes: i64) -> Result<usize> {
        let plan = &self.command.plan;
        let may_patch = plan.stored_ids()?.is_none()
            && !plan.records_changes()
            && !plan.is_dry_run()
            && plan.row_rules().generated.is_empty();
        if !may_patch {
            return Ok(0);
        }
        let Some(patcher) = Patcher::new(plan.store(), &self.command.spec()?.write_spec()?, columns)? else {
            return Ok(0);
        };
        let is_large = |f: &&SelectedFile| f.add.size >= min_bytes && (f.rows.is_none() || self.command.is_copied(f));
        let files: Vec<_> = self.files.iter().filter(is_large).cloned().collect();
        let patcher = Arc::new(patcher);
        let judged = stream::iter(files).map(async |f| Result::Ok(patcher.takes(&f.add).await?.then_some(f.add.path)));
        let patches: Vec<_> = block_on(judged.buffered(PARALLEL_FOOTERS).try_collect())?;
        self.patched = patches.into_iter().flatten().collect();
        self.patcher = Some(patcher);
        Ok(self.patched.len())
    }

    /// The decoded paths of the files whose columns are patched.
    pub fn patched_paths(&self) -> Result<Vec<String>> {
        self.patched.iter().map(|path| paths::decode(path)).collect()
    }

    /// These columns of the selected rows of patched files, with their positions.
    pub fn patched_rows(&self, columns: Vec<String>) -> Result<Scan> {
        let files = self.files.iter().filter(|f| self.is_patched(f));
        self.scan(files, columns.into_iter().chain(positions()).collect())
    }

    /// Begins to patch the chosen files; `None` where none was chosen. What [`Patches::write`]
    /// wrote goes to [`adopt_patched`](Self::adopt_patched), also where it failed.
    pub fn patches(&self) -> Result<Option<Patches>> {
        let Some(patcher) = self.patcher.clone() else {
            return Ok(None);
        };
        let files = self.files.iter().filter(|f| self.is_patched(f));
        Patches::of(patcher, files).map(Some)
    }

    /// Takes over patched files.
    pub fn adopt_patched(&mut self, patched: PatchedFiles) {
        self.written.adds.extend(patched.adds);
        self.copied_rows += patched.copied_rows;
        self.added_rows += patched.rows;
    }

    /// Writes rows that the table has from now on, recorded as this change.
    ///
    /// # Errors
    /// The first error of the rows, of their cast to the table's types, or of the store.
    pub fn write(&mut self, rows: impl Iterator<Item = Result<RecordBatch>>, change: Option<&str>) -> Result<()> {
        for batch in rows {
            let batch = batch?;
            self.added_rows += batch.num_rows();
            self.write_batch(&batch, change)?;
        }
        Ok(())
    }

    /// Writes rows that are new in the table, recorded as this change; identity columns that they
    /// lack are filled. Returns how many rows.
    pub fn insert(&mut self, rows: impl Iterator<Item = Result<RecordBatch>>, change: Option<&str>) -> Result<usize> {
        let mut identity = match self.identity.take() {
            Some(identity) => identity,
            None => IdentityValues::new(self.command.plan.fills().to_vec(), 0),
        };
        let mut inserted = 0;
        for batch in rows {
            let batch = identity.fill(batch?)?;
            inserted += batch.num_rows();
            self.write_batch(&batch, change)?;
        }
        self.identity = Some(identity);
        Ok(inserted)
    }

    /// Records rows as this change, where changes are recorded.
    pub fn record(&mut self, rows: impl Iterator<Item = Result<RecordBatch>>, change: &str) -> Result<()> {
        for batch in rows {
            let batch = batch?;
            block_on(self.sink()?.record(&batch, change))?;
        }
        Ok(())
    }

    /// Records the selected rows as this change, where changes are recorded.
    pub fn record_selected(&mut self, change: &str) -> Result<()> {
        if !self.command.records_changes() {
            return Ok(());
        }
        let mut rows = self.rows()?.stream();
        block_on(async {
            while let Some(batch) = rows.try_next().await? {
                self.sink()?.record(&batch, change).await?;
            }
            Ok(())
        })
    }

    /// Completes the new files and deletes the selected rows: by deletion vectors, or with their
    /// files.
    pub fn finish(mut self) -> Result<Staged> {
        let identity = self.identity.take().map(|identity| identity.last()).transpose()?;
        if let Some(sink) = self.written.sink.take() {
            let mut written = block_on(sink.finish())?;
            if let Some(last) = identity {
                identity_columns::stamp(&mut written.adds, &last);
            }
            self.written.adds.append(&mut written.adds);
            self.written.cdc.append(&mut written.cdc);
        }
        let store = self.command.store();
        let deleted = delete_rows(store, &self.files, self.command.by_vector, now_ms(), new_id());
        let deleted = block_on(deleted)?;
        self.deleted.adds.extend(deleted.adds);
        self.deleted.removes.extend(deleted.removes);
        self.written.vector_files.extend(deleted.vector_file);
        let row_conflicts = MarkedRows::new(
            store.clone(),
            &self.files,
            &self.deleted.adds,
            self.adopted,
            self.command.row_id_spec()?,
        );
        Ok(Staged {
            num_files: self.files.len(),
            num_bytes: claimed_sum(self.files.iter().map(|f| f.add.size)),
            row_conflicts: Arc::new(row_conflicts),
            written: self.written,
            deleted: self.deleted,
            copies: self.copies,
            copied_rows: self.copied_rows,
            added_rows: self.added_rows,
            command: self.command.clone(),
        })
    }

    /// Deletes the new files.
    pub fn abort(mut self) -> Result<()> {
        self.written.delete()
    }

    /// Whether columns of the file are patched.
    fn is_patched(&self, file: &SelectedFile) -> bool {
        self.patched.contains(&file.add.path)
    }

    /// The files of which rows are read and written.
    fn rewritten(&self) -> impl Iterator<Item = &SelectedFile> {
        self.files.iter().filter(|f| !self.is_patched(f))
    }

    fn scan<'a>(&self, files: impl Iterator<Item = &'a SelectedFile>, columns: Vec<String>) -> Result<Scan> {
        let reads = files.map(SelectedFile::selected).collect::<Result<_>>()?;
        Scan::of_files(self.command.base(), reads, columns)
    }

    /// Counts the rows that would be copied, as far as the log says; else by reading them.
    fn count_others(&mut self) -> Result<()> {
        let mut uncounted = Vec::new();
        for file in self.files.iter().filter(|f| self.command.is_copied(f)) {
            let (others, size) = file.others_by_the_log();
            match others {
                Some(n) => self.copied_rows += usize::try_from(n).unwrap_or(usize::MAX),
                None => uncounted.extend(file.others()?),
            }
            if others != Some(0) {
                self.copies.push(Add {
                    size,
                    ..file.add.clone()
                });
            }
        }
        let mut rows = Scan::of_files(self.command.base(), uncounted, vec![ROW.to_owned()])?.stream();
        block_on(async {
            while let Some(batch) = rows.try_next().await? {
                self.copied_rows += batch.num_rows();
            }
            Ok(())
        })
    }

    fn sink(&mut self) -> Result<&mut RowSink> {
        match &mut self.written.sink {
            Some(sink) => Ok(sink),
            empty => {
                let plan = &self.command.plan;
                let spec = self.command.spec()?.write_spec()?;
                let sink = RowSink::new(plan.store(), spec, plan.stored_ids()?, plan.records_changes())?;
                Ok(empty.insert(sink))
            }
        }
    }

    fn write_batch(&mut self, rows: &RecordBatch, change: Option<&str>) -> Result<()> {
        let sink = self.sink()?;
        block_on(async {
            sink.write(rows).await?;
            match change {
                Some(change) => sink.record(rows, change).await,
                None => Ok(()),
            }
        })
    }
}

/// A file of which no row is selected.
fn without_rows(add: Add) -> SelectedFile {
    SelectedFile {
        add,
        rows: Some(Arc::default()),
    }
}

fn positions() -> impl Iterator<Item = String> {
    [FILE, ROW].map(str::to_owned).into_iter()
}

/// The live files of these rows.
async fn files_of(plan: &Plan, mut rows_by_path: RowsByPath) -> Result<Vec<SelectedFile>> {
    let mut files = Vec::with_capacity(rows_by_path.len());
    let mut batches = plan.candidates();
    while let Some(batch) = batches.try_next().await? {
        let adds = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if let Some(rows) = rows_by_path.remove(&paths::decode(adds.path(row)?)?) {
                files.push(SelectedFile::new(adds.add(row)?, rows));
            }
        }
    }
    match rows_by_path.into_keys().next() {
        None => Ok(files),
        Some(path) => Err(not_of_version().with_path(path)),
    }
}

/// Adds the rows that a batch names.
fn collect(batch: &RecordBatch, rows_by_path: &mut RowsByPath) -> Result<()> {
    let wrong = || {
        Error::invalid_argument(format!(
            "rows are picked by the columns {FILE} (string) and {ROW} (long)"
        ))
    };
    let column = |name: &str| batch.column_by_name(name).ok_or_else(wrong);
    // Paths are long and repeat: numbers of them are compared.
    let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let files = arrow::compute::cast(column(FILE)?, &encoded).map_err(|_| wrong())?;
    let files = files.as_dictionary::<Int32Type>();
    let (numbers, paths) = (files.keys(), files.values().as_string::<i32>());
    let rows = column(ROW)?.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    if files.is_nullable() || rows.null_count() > 0 {
        return Err(wrong());
    }
    let mut places = numbers.values().iter().zip(rows.values()).peekable();
    while let Some((number, _)) = places.peek().copied() {
        // Rows of one file are adjacent: one look-up for each run.
        let path = usize::try_from(*number).map_err(|_| wrong())?;
        let positions = rows_by_path.entry(paths.value(path).to_owned()).or_default();
        while let Some((_, row)) = places.next_if(|(n, _)| *n == number) {
            positions.insert(u64::try_from(*row).map_err(|_| wrong())?);
        }
    }
    Ok(())
}
