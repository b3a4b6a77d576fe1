//! What the tests of this crate share: a temporary table folder, writing to it and reading it back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use deltaplane_error::Result;
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::{Field, Primitive, StructType};
use deltaplane_store::{Location, Options, Store};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tempfile::TempDir;

use crate::{FileRead, FileWriter, ReadSpec, WriteSpec, scan};

/// A table's folder without a log.
pub(crate) struct Folder {
    pub(crate) dir: TempDir,
    pub(crate) store: Store,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
        let store = Store::open(&location, &Options::default()).unwrap();
        Folder { dir, store }
    }

    pub(crate) fn path(&self, key: &str) -> PathBuf {
        self.dir.path().join(key)
    }

    /// All files below, by key, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let list = async {
            self.store
                .list_all("")
                .await
                .unwrap()
                .try_collect::<Vec<_>>()
                .await
                .unwrap()
        };
        let mut keys: Vec<_> = deltaplane_store::block_on(list).into_iter().map(|o| o.key).collect();
        keys.sort();
        keys
    }

    pub(crate) fn write_spec(&self, spec: WriteSpec, batches: &[RecordBatch]) -> Result<Vec<Add>> {
        deltaplane_store::block_on(async {
            let mut writer = FileWriter::new(self.store.clone(), spec)?;
            for b in batches {
                writer.write(b.clone()).await?;
            }
            writer.finish().await
        })
    }

    pub(crate) fn write(
        &self,
        schema: &Arc<StructType>,
        partitions: &[&str],
        batches: &[RecordBatch],
    ) -> Result<Vec<Add>> {
        let partitions = partitions.iter().map(|p| (*p).to_owned()).collect();
        self.write_spec(WriteSpec::new(schema.clone(), partitions, 1_700_000_000_000), batches)
    }

    pub(crate) fn read(&self, spec: ReadSpec, files: Vec<FileRead>) -> Result<Vec<RecordBatch>> {
        let files = stream::iter(files.into_iter().map(Ok)).boxed();
        deltaplane_store::block_on(scan(self.store.clone(), files, Arc::new(spec), 2).try_collect())
    }

    /// All rows as one batch.
    pub(crate) fn read_all(&self, spec: ReadSpec, adds: &[Add]) -> Result<RecordBatch> {
        let schema = spec.output_schema()?;
        let batches = self.read(spec, adds.iter().map(file_read).collect())?;
        Ok(concat_batches(&schema, &batches).unwrap())
    }

    /// Writes bytes as a file and names it for reading.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> FileRead {
        std::fs::write(self.path(key), bytes).unwrap();
        FileRead {
            path: key.to_owned(),
            size_bytes: bytes.len() as u64,
            ..FileRead::default()
        }
    }

    /// Writes a batch as another program might, under its own schema.
    pub(crate) fn put_parquet(&self, key: &str, batch: &RecordBatch) -> FileRead {
        let mut out = Vec::new();
        let mut writer = parquet::arrow::ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        self.put(key, &out)
    }
}

pub(crate) fn file_read(add: &Add) -> FileRead {
    FileRead {
        path: paths::decode(&add.path).unwrap(),
        size_bytes: add.size as u64,
        partition_values: add.partition_values.clone(),
        ..FileRead::default()
    }
}

pub(crate) fn stats(add: &Add) -> Value {
    serde_json::from_str(add.stats.as_ref().unwrap()).unwrap()
}

/// A schema of nullable primitive columns.
pub(crate) fn schema(columns: &[(&str, Primitive)]) -> Arc<StructType> {
    Arc::new(StructType::new(
        columns.iter().map(|(n, p)| Field::new(*n, *p, true)).collect(),
    ))
}

pub(crate) fn json_schema(text: &str) -> Arc<StructType> {
    Arc::new(StructType::from_json(text).unwrap())
}

/// A batch of nullable columns.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> = columns
        .iter()
        .map(|(n, a)| arrow::datatypes::Field::new(*n, a.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, a)| a).collect(),
    )
    .unwrap()
}

/// The rows as text: equal for arrays that differ only below nulls.
pub(crate) fn text(b: &RecordBatch) -> Vec<String> {
    let cell = |c: &ArrayRef, i| arrow::util::display::array_value_to_string(c, i).unwrap();
    (0..b.num_rows())
        .map(|i| b.columns().iter().map(|c| cell(c, i)).collect::<Vec<_>>().join(" | "))
        .collect()
}
