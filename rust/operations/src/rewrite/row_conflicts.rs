//! Resolves conflicts by row: a commit that lost a race marks its rows again, on deletion vectors
//! that other writers extended and in files to which they moved rows with ids. How rows are marked
//! is decided by the data crate.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use deltaplane_data::{FileRead, ReadSpec, SelectedFile, Vectors, mark_rows, read_file, reapply_deletes};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{ReappliedRows, RowConflictResolver, new_id, now_ms};
use deltaplane_protocol::actions::{Add, DeletionVector};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use futures::TryStreamExt;
use futures::future::BoxFuture;

/// The rows that one command deletes by deletion vectors.
pub struct MarkedRows {
    store: Store,
    /// Reads the ids of rows and their places, where rows have ids.
    ids: Option<Arc<ReadSpec>>,
    state: Mutex<State>,
}

struct State {
    files: Vec<SelectedFile>,
    /// What tasks on other machines marked: files as they were, and with their new vectors.
    adopted: Vec<(Add, Add)>,
    /// Vectors that were written for later attempts of the commit.
    vector_files: Vec<String>,
}

impl MarkedRows {
    /// The rows of those of these files which `marked` has, with their new vectors, and of files
    /// that tasks on other machines marked (`adopted`: as they were, and with their new vectors).
    /// `ids` reads row ids and positions, in tables whose rows have ids.
    pub fn new(
        store: Store,
        files: &[SelectedFile],
        marked: &[Add],
        adopted: Vec<(Add, Add)>,
        ids: Option<ReadSpec>,
    ) -> Self {
        let marked: HashSet<&str> = marked.iter().map(|add| add.path.as_str()).collect();
        let files = files.iter().filter(|f| marked.contains(f.add.path.as_str()));
        MarkedRows {
            store,
            ids: ids.map(Arc::new),
            state: Mutex::new(State {
                files: files.cloned().collect(),
                adopted,
                vector_files: Vec::new(),
            }),
        }
    }

    /// Takes the paths of the vector files that attempts of the commit wrote, relative to the
    /// table's root.
    pub fn take_vector_files(&self) -> Vec<String> {
        std::mem::take(&mut self.locked().vector_files)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The picked rows of the files with these decoded paths; those that tasks marked are what
    /// their new vectors have and the old ones haven't.
    async fn selected_in(&self, wanted: &HashSet<String>) -> Result<Vec<SelectedFile>> {
        let is_wanted = |add: &Add| paths::decode(&add.path).is_ok_and(|path| wanted.contains(&path));
        let (mut selected, adopted) = {
            let state = self.locked();
            let selected = state.files.iter().filter(|f| is_wanted(&f.add)).cloned();
            let adopted = state.adopted.iter().filter(|(old, _)| is_wanted(old)).cloned();
            (selected.collect::<Vec<_>>(), adopted.collect::<Vec<_>>())
        };
        let vectors = Vectors::new(self.store.clone());
        let load = async |dv: Option<&DeletionVector>| match dv {
            Some(dv) => vectors.load(dv).await,
            None => Ok(Positions::new()),
        };
        for (old, new) in adopted {
            let before = load(old.deletion_vector.as_ref()).await?;
            let after = load(new.deletion_vector.as_ref()).await?;
            let rows = after.iter().filter(|row| !before.contains(*row)).collect();
            selected.push(SelectedFile::new(old, rows));
        }
        Ok(selected)
    }

    /// The ids of picked rows.
    async fn ids_of(&self, selected: &[SelectedFile], spec: &Arc<ReadSpec>) -> Result<HashSet<i64>> {
        let mut ids = HashSet::new();
        for file in selected {
            let mut rows = read_file(&self.store, &file.selected()?, spec).await?;
            while let Some(batch) = rows.try_next().await? {
                ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
        }
        Ok(ids)
    }

    /// Where a file's rows with these ids stand.
    async fn places(&self, file: &Add, ids: &HashSet<i64>, spec: &Arc<ReadSpec>) -> Result<Positions> {
        let mut positions = Positions::new();
        let mut rows = read_file(&self.store, &FileRead::of(file)?, spec).await?;
        while let Some(batch) = rows.try_next().await? {
            let (here, places) = (
                batch.column(0).as_primitive::<Int64Type>().values(),
                batch.column(1).as_primitive::<Int64Type>().values(),
            );
            for (_, place) in here.iter().zip(places).filter(|(id, _)| ids.contains(id)) {
                positions.insert(u64::try_from(*place).map_err(|_| Error::internal("a row before its file"))?);
            }
        }
        Ok(positions)
    }

    async fn relocate_by_id(&self, from: HashSet<String>, to: Vec<Add>) -> Result<ReappliedRows> {
        let spec = self
            .ids
            .as_ref()
            .ok_or_else(|| Error::internal("moved rows without ids were to be found"))?;
        let selected = self.selected_in(&from).await?;
        let ids = self.ids_of(&selected, spec).await?;
        let may_hold = |add: &&Add| selected.iter().any(|f| f.add.partition_values == add.partition_values);
        let (mut marked, mut count) = (Vec::new(), 0);
        for add in to.iter().filter(may_hold) {
            let rows = self.places(add, &ids, spec).await?;
            if !rows.is_empty() {
                count += rows.len();
                marked.push((add.clone(), rows));
            }
        }
        if count != ids.len() as u64 {
            return Err(Error::new(
                Kind::ConcurrentDeleteDelete,
                "other writers moved rows that this transaction deletes, and deleted or changed some of them, first: nothing of this transaction was committed; load the newest version and run it again",
            ));
        }
        let done = mark_rows(&self.store, marked.clone(), now_ms(), new_id()).await?;
        let mut replaced = from;
        for (add, _) in &marked {
            replaced.insert(paths::decode(&add.path)?);
        }
        let mut state = self.locked();
        let stays = |add: &Add| paths::decode(&add.path).is_ok_and(|path| !replaced.contains(&path));
        state.files.retain(|f| stays(&f.add));
        state.adopted.retain(|(old, _)| stays(old));
        let moved = marked.into_iter().map(|(add, rows)| SelectedFile {
            add,
            rows: Some(Arc::new(rows)),
        });
        state.files.extend(moved);
        state.vector_files.extend(done.vector_file);
        Ok(ReappliedRows {
            replaced,
            removes: done.removes,
            adds: done.adds,
        })
    }
}

impl RowConflictResolver for MarkedRows {
    fn paths(&self) -> HashSet<String> {
        // Those of files of the log: they were decoded when rows of them were found.
        let state = self.locked();
        let files = state.files.iter().map(|f| &f.add);
        files
            .chain(state.adopted.iter().map(|(old, _)| old))
            .filter_map(|add| paths::decode(&add.path).ok())
            .collect()
    }

    fn reapply(&self, files: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>> {
        Box::pin(async move {
            let replaced: HashSet<String> = files.iter().map(|f| paths::decode(&f.path)).collect::<Result<_>>()?;
            let selected = self.selected_in(&replaced).await?;
            let marked = reapply_deletes(&self.store, &selected, files, now_ms(), new_id()).await?;
            self.locked().vector_files.extend(marked.vector_file);
            Ok(ReappliedRows {
                replaced,
                removes: marked.removes,
                adds: marked.adds,
            })
        })
    }

    fn relocates_rows(&self) -> bool {
        self.ids.is_some()
    }

    fn relocate(&self, from: HashSet<String>, to: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>> {
        Box::pin(self.relocate_by_id(from, to))
    }
}
