//! Opens the files of a scan: footers, live rows, and the units to decode. Small local files are
//! opened and decoded several at a time: to pass such a file from thread to thread takes longer
//! than to read it.

use std::collections::HashSet;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_store::Store;
use futures::future::join_all;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use super::decode::{SharedPlan, Unit};
use super::plan::{FilePlan, Prepared};
use super::row_groups::units;
use super::source::{self, Source};
use super::vectors::{LiveRows, Vectors};
use super::{DEFAULT_BATCH_ROWS, FileRead, SourceFile, bloom};

/// Most local files that are read together.
const TOGETHER_FILES: usize = 16;
/// Most bytes of files that are read together, and most rows where the log states them: other
/// threads would have nothing to do meanwhile.
const TOGETHER_BYTES: u64 = 512 << 10;
const TOGETHER_ROWS: u64 = DEFAULT_BATCH_ROWS as u64;

/// A file that is ready to be decoded.
pub(super) struct Opened {
    pub(super) source: Source,
    pub(super) plan: SharedPlan,
    pub(super) units: Vec<Unit>,
}

impl Opened {
    pub(super) fn new(
        opened: SourceFile,
        prepared: Arc<Prepared>,
        file: &FileRead,
        live: &LiveRows,
        parallelism: usize,
    ) -> Result<Self> {
        let plan = FilePlan::new(prepared, file, opened.footer)?;
        let units = units(
            &plan,
            file,
            live,
            opened.source.is_remote(),
            parallelism,
            &HashSet::new(),
        )?;
        Ok(Opened {
            source: opened.source,
            plan: Arc::new(plan),
            units,
        })
    }
}

/// What all files of a scan have in common.
#[derive(Clone)]
pub(super) struct Opener {
    store: Store,
    prepared: Arc<Prepared>,
    vectors: Arc<Vectors>,
    parallelism: usize,
}

impl Opener {
    pub(super) fn new(store: Store, prepared: Arc<Prepared>, parallelism: usize) -> Opener {
        Opener {
            vectors: Arc::new(Vectors::new(store.clone())),
            store,
            prepared,
            parallelism,
        }
    }

    /// Opens a file.
    pub(super) async fn open(&self, file: &FileRead) -> Result<Opened> {
        let source = source::open(&self.store, file).await.map_err(|e| self.named(e, file))?;
        let footer = source.footer(self.prepared.pruner.is_some());
        let (footer, live) = futures::try_join!(footer, self.vectors.rows(file)).map_err(|e| self.named(e, file))?;
        self.planned(SourceFile { source, footer }, file, &live).await
    }

    /// Opens files that are read together. Those of an object store, and local ones of which one
    /// can't be read at all, are opened each by itself: an error must name its file.
    pub(super) async fn open_together(&self, files: Vec<Result<FileRead>>) -> Vec<Result<Opened>> {
        let (files, error) = until_error(files);
        let opened = match files.as_slice() {
            [_, ..] => source::open_local(&self.store, &files, self.prepared.pruner.is_some()).await,
            [] => None,
        };
        let mut all = match opened {
            None => join_all(files.iter().map(|file| self.open(file))).await,
            Some(sources) => {
                let opened = files.iter().zip(sources).map(|(file, source)| async move {
                    let live = self.vectors.rows(file).await.map_err(|e| self.named(e, file))?;
                    self.planned(source.map_err(|e| self.named(e, file))?, file, &live)
                        .await
                });
                join_all(opened).await
            }
        };
        all.extend(error.map(Err));
        all
    }

    async fn planned(&self, opened: SourceFile, file: &FileRead, live: &LiveRows) -> Result<Opened> {
        let prepared = self.prepared.clone();
        let made = Opened::new(opened, prepared, file, live, self.parallelism);
        let mut opened = made.map_err(|e| self.named(e, file))?;
        let absent = bloom::absent(&opened.plan, &opened.source, &opened.units);
        let absent = absent.await.map_err(|e| self.named(e, file))?;
        if !absent.is_empty() {
            let remote = opened.source.is_remote();
            // The workers share what is left.
            let left = units(&opened.plan, file, live, remote, self.parallelism, &absent);
            opened.units = left.map_err(|e| self.named(e, file))?;
        }
        Ok(opened)
    }

    fn named(&self, e: Error, file: &FileRead) -> Error {
        e.with_path(file.path.clone())
            .with_table(self.store.location().as_str())
    }
}

/// What comes before the first error, and the error: a scan ends with it.
pub(super) fn until_error<T>(all: Vec<Result<T>>) -> (Vec<T>, Option<Error>) {
    let mut good = Vec::with_capacity(all.len());
    for item in all {
        match item {
            Ok(item) => good.push(item),
            Err(e) => return (good, Some(e)),
        }
    }
    (good, None)
}

/// The files in their order, in groups that are opened together.
pub(super) fn grouped(
    store: &Store,
    files: BoxStream<'static, Result<FileRead>>,
) -> BoxStream<'static, Vec<Result<FileRead>>> {
    match store.is_local() {
        false => files.map(|file| vec![file]).boxed(),
        // Files that are still to be planned aren't waited for.
        true => files
            .ready_chunks(TOGETHER_FILES)
            .flat_map(|ready| stream::iter(groups(ready)))
            .boxed(),
    }
}

fn groups(files: Vec<Result<FileRead>>) -> Vec<Vec<Result<FileRead>>> {
    let mut groups: Vec<Vec<_>> = Vec::new();
    let (mut bytes, mut rows) = (0_u64, 0_u64);
    for file in files {
        let (its_bytes, its_rows) = match &file {
            // A file of unknown size is read alone.
            Ok(file) if file.size_bytes == 0 => (u64::MAX, 0),
            Ok(file) => (file.size_bytes, file.num_records.unwrap_or(0)),
            Err(_) => (0, 0),
        };
        bytes = bytes.saturating_add(its_bytes);
        rows = rows.saturating_add(its_rows);
        match groups.last_mut() {
            Some(group) if bytes <= TOGETHER_BYTES && rows <= TOGETHER_ROWS => group.push(file),
            _ => {
                groups.push(vec![file]);
                (bytes, rows) = (its_bytes, its_rows);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use deltaplane_error::{Error, Kind};
    use deltaplane_protocol::schema::Primitive;
    use futures::{StreamExt, stream};
    use proptest::prelude::*;

    use super::{FileRead, Result, TOGETHER_BYTES, TOGETHER_ROWS, groups};
    use crate::ReadSpec;
    use crate::read::scan;
    use crate::testing::{Folder, batch, schema};

    fn file(number: usize, size_bytes: u64, num_records: Option<u64>) -> FileRead {
        FileRead {
            path: number.to_string(),
            size_bytes,
            num_records,
            ..FileRead::default()
        }
    }

    proptest! {
        #[test]
        fn groups_keep_the_order_and_their_limits(
            sizes in proptest::collection::vec((0..TOGETHER_BYTES * 3 / 2, proptest::option::of(0..TOGETHER_ROWS * 2)), 0..40),
        ) {
            let files = sizes.iter().enumerate().map(|(n, (bytes, rows))| Ok(file(n, *bytes / 7, *rows)));
            let made = groups(files.collect());
            let paths: Vec<_> = made.iter().flatten().map(|f| f.as_ref().unwrap().path.clone()).collect();
            prop_assert!(paths.into_iter().eq((0..sizes.len()).map(|n| n.to_string())));
            for group in made.iter().filter(|group| group.len() > 1) {
                let all: Vec<_> = group.iter().map(|f| f.as_ref().unwrap()).collect();
                prop_assert!(all.iter().map(|f| f.size_bytes).sum::<u64>() <= TOGETHER_BYTES);
                prop_assert!(all.iter().filter_map(|f| f.num_records).sum::<u64>() <= TOGETHER_ROWS);
                prop_assert!(all.iter().all(|f| f.size_bytes > 0), "a file of unknown size is alone");
            }
        }
    }

    #[test]
    fn small_files_are_together_and_large_ones_alone() {
        let sizes = [10, 20, TOGETHER_BYTES, 30, 40, 0, 50];
        let files = sizes.iter().enumerate().map(|(n, bytes)| Ok(file(n, *bytes, None)));
        let counts: Vec<_> = groups(files.collect()).iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1, 2, 1, 1]);
        let failed = groups(vec![
            Ok(file(0, 1, None)),
            Err(Error::internal("planning")),
            Ok(file(1, 1, None)),
        ]);
        assert_eq!(failed.len(), 1);
    }
    /// The rows before the first error, and the error.
    fn read(t: &Folder, files: &[FileRead]) -> (Vec<i64>, Option<Error>) {
        let spec = ReadSpec::new(schema(&[("v", Primitive::Long)]), vec![]);
        let files = stream::iter(files.iter().cloned().map(Ok).collect::<Vec<_>>()).boxed();
        let read = scan(t.store.clone(), files, Arc::new(spec), 2).collect::<Vec<Result<RecordBatch>>>();
        let (mut rows, mut error) = (Vec::new(), None);
        for batch in deltaplane_store::block_on(read) {
            match batch {
                Ok(batch) => rows.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values()),
                Err(e) => error = Some(e),
            }
        }
        (rows, error)
    }

    #[test]
    fn rows_before_a_damaged_file_come_and_its_error_names_it() {
        let t = Folder::new();
        let made = |name: &str, values: [i64; 3]| {
            t.put_parquet(name, &batch(vec![("v", Arc::new(Int64Array::from(values.to_vec())))]))
        };
        let (first, second, last) = (made("a", [0, 1, 2]), made("b", [3, 4, 5]), made("z", [6, 7, 8]));
        let with = |third: FileRead| [first.clone(), second.clone(), third, last.clone()];
        let missing = FileRead {
            path: "gone".into(),
            ..first.clone()
        };
        let (rows, error) = read(&t, &with(missing));
        let error = error.unwrap();
        assert_eq!((error.kind(), error.path()), (Kind::FileMissing, Some("gone")));
        assert_eq!(rows, [0, 1, 2, 3, 4, 5]);

        let bytes = std::fs::read(t.path("z")).unwrap();
        let mut errors = 0;
        for damaged in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[damaged] ^= 0xff;
            let (rows, error) = read(&t, &with(t.put("bad", &bytes)));
            assert_eq!(rows[..6], [0, 1, 2, 3, 4, 5], "byte {damaged}");
            match error {
                None => assert_eq!(rows[rows.len() - 3..], [6, 7, 8], "byte {damaged}"),
                Some(e) => {
                    assert_eq!(
                        (e.kind(), e.path()),
                        (Kind::CorruptFile, Some("bad")),
                        "byte {damaged}: {e}"
                    );
                    errors += 1;
                }
            }
        }
        assert!(errors > 10 && errors < bytes.len(), "{errors}");
    }
}
