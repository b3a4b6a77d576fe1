//! Writing classic checkpoints (P050–P061): streamed batch by batch, verified, then hinted at.
//! A failure never fails the commit that caused it: the log alone is enough.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, ListBuilder, MapBuilder, MapFieldNames, RecordBatch,
    StringArray, StringBuilder, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata, Protocol, SetTransaction};
use deltaplane_protocol::files::{ADD_SCHEMA, REMOVE_SCHEMA, conform_array, string_map};
use deltaplane_protocol::paths;
use deltaplane_store::{Store, Upload};
use futures::TryStreamExt;
use futures::future::BoxFuture;
use parquet::arrow::async_writer::{AsyncArrowWriter, AsyncFileWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use tracing::{info, warn};

use crate::checkpoint_reader::struct_field;
use crate::history::rows;
use crate::last_checkpoint::{self, LastCheckpoint};
use crate::parquet_file::ParquetFile;
use crate::{PlanColumns, Snapshot, now_ms};

/// Rows of a row group: small enough that a reader can skip most of a large checkpoint.
const ROW_GROUP_ROWS: usize = 100_000;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The version it holds.
    pub version: u64,
    /// Actions in all.
    pub actions: u64,
    /// Live files among them.
    pub adds: u64,
    /// Size of the checkpoint in bytes.
    pub size_bytes: u64,
}

/// Writes a checkpoint when the table's interval says so; a failure is only logged.
pub(crate) async fn after_commit(snapshot: &Snapshot) {
    let due = snapshot.version() > 0
        && snapshot
            .version()
            .is_multiple_of(snapshot.state().properties().checkpoint_interval);
    if due && let Err(e) = snapshot.checkpoint().await {
        warn!(version = snapshot.version(), error = %e, "the commit is safe, but its checkpoint couldn't be written");
    }
}

impl Snapshot {
    /// Writes a classic checkpoint of this version and points the hint at it.
    ///
    /// Memory: a few batches of adds, and the unexpired tombstones.
    pub async fn checkpoint(&self) -> Result<CheckpointReport> {
        let written = self.write_checkpoint().await;
        written.map_err(|e| {
            e.with_table(self.store().location().as_str())
                .with_version(self.version())
        })
    }

    async fn write_checkpoint(&self) -> Result<CheckpointReport> {
        self.state().check_write()?;
        let key = paths::classic_checkpoint(self.version());
        let upload = self.store().upload(&key).await?;
        let (file, size) = UploadFile::new(upload);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_created_by(format!("deltaplane {}", env!("CARGO_PKG_VERSION")))
            .build();
        let mut out = Writer {
            parquet: AsyncArrowWriter::try_new(file, SCHEMA.clone(), Some(properties)).map_err(write_error)?,
            actions: 0,
        };
        let adds = self.write_actions(&mut out).await?;
        let actions = out.actions;
        out.parquet.finish().await.map_err(write_error)?;
        let size_bytes = size.load(std::sync::atomic::Ordering::Acquire);
        verify(self.store(), &key, actions).await?;
        let hint = LastCheckpoint {
            version: self.version(),
            size: i64::try_from(actions).unwrap_or(-1),
            parts: None,
            size_in_bytes: i64::try_from(size_bytes).ok(),
            num_of_add_files: i64::try_from(adds).ok(),
        };
        last_checkpoint::write(self.store(), &hint).await?;
        info!(table = %self.store().location(), version = self.version(), actions, bytes = size_bytes, "wrote a checkpoint");
        Ok(CheckpointReport {
            version: self.version(),
            actions,
            adds,
            size_bytes,
        })
    }

    /// All actions of this version; returns the number of adds.
    async fn write_actions(&self, out: &mut Writer) -> Result<u64> {
        let now = now_ms();
        out.write("protocol", protocol_array(self.state().protocol())?).await?;
        out.write("metaData", metadata_array(self.state().metadata())?).await?;
        out.write("txn", txn_array(&self.transactions(now).await?)?).await?;
        out.write("domainMetadata", domain_array(&self.domains().await?)?)
            .await?;
        let mut adds = 0;
        let keep_stats = self.state().properties().stats_as_json;
        let mut batches = self.plan(None, PlanColumns::Logged);
        while let Some(batch) = batches.try_next().await? {
            adds += batch.num_rows() as u64;
            out.write("add", state_adds(&batch, keep_stats)?).await?;
        }
        let cutoff = now.saturating_sub(self.state().properties().deleted_file_retention_ms);
        let tombstones = self.tombstones(cutoff).await?;
        tracing::debug!(adds, tombstones = rows(&tombstones), "streaming a checkpoint");
        for batch in tombstones {
            out.write("remove", unchanged(&batch)?).await?;
        }
        Ok(adds)
    }
}

static SCHEMA: std::sync::LazyLock<SchemaRef> = std::sync::LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        struct_field("txn", &Schema::new(txn_fields())),
        struct_field("add", &ADD_SCHEMA),
        struct_field("remove", &REMOVE_SCHEMA),
        struct_field("metaData", &Schema::new(metadata_fields())),
        struct_field("protocol", &Schema::new(protocol_fields())),
        struct_field("domainMetadata", &Schema::new(domain_fields())),
    ]))
});

struct Writer {
    parquet: AsyncArrowWriter<UploadFile>,
    actions: u64,
}

impl Writer {
    /// Writes rows that hold just this action.
    async fn write(&mut self, name: &str, action: StructArray) -> Result<()> {
        if action.is_empty() {
            return Ok(());
        }
        let n = action.len();
        let action: ArrayRef = Arc::new(action);
        let columns = SCHEMA
            .fields()
            .iter()
            .map(|f| {
                if f.name() == name {
                    conform_array(&action, f.data_type())
                } else {
                    Ok(new_null_array(f.data_type(), n))
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(SCHEMA.clone(), columns).map_err(arrow_error)?;
        self.actions += n as u64;
        self.parquet.write(&batch).await.map_err(write_error)
    }
}

/// Reads the footer back: a checkpoint with another number of rows than was written must not be hinted at (P061).
async fn verify(store: &Store, key: &str, actions: u64) -> Result<()> {
    let footer = ParquetFile::open(store, key.to_owned()).await?.footer().await?;
    let found = footer.metadata().file_metadata().num_rows();
    if u64::try_from(found) != Ok(actions) {
        store.delete(key).await?;
        return Err(Error::internal(format!(
            "the checkpoint holds {found} actions instead of {actions}: it was deleted"
        ))
        .with_path(key));
    }
    Ok(())
}

fn write_error(e: ParquetError) -> Error {
    Error::internal(format!("the checkpoint can't be written: {e}")).with_source(e)
}

fn arrow_error(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("the checkpoint can't be laid out: {e}")).with_source(e)
}

/// Rows of a checkpoint never change data (P043).
fn unchanged(batch: &RecordBatch) -> Result<StructArray> {
    replace(
        batch,
        "dataChange",
        Arc::new(BooleanArray::from(vec![false; batch.num_rows()])),
    )
}

fn state_adds(batch: &RecordBatch, keep_stats: bool) -> Result<StructArray> {
    let adds = unchanged(batch)?;
    if keep_stats {
        return Ok(adds);
    }
    replace(
        &RecordBatch::from(adds),
        "stats",
        new_null_array(&DataType::Utf8, batch.num_rows()),
    )
}

fn replace(batch: &RecordBatch, column: &str, with: ArrayRef) -> Result<StructArray> {
    let columns = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(f, c)| if f.name() == column { with.clone() } else { c.clone() })
        .collect();
    StructArray::try_new(batch.schema().fields().clone(), columns, None).map_err(arrow_error)
}

fn texts() -> DataType {
    DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)))
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn protocol_fields() -> Vec<Field> {
    vec![
        Field::new("minReaderVersion", DataType::Int32, true),
        Field::new("minWriterVersion", DataType::Int32, true),
        Field::new("readerFeatures", texts(), true),
        Field::new("writerFeatures", texts(), true),
    ]
}

fn metadata_fields() -> Vec<Field> {
    vec![
        text("id"),
        text("name"),
        text("description"),
        Field::new("format", DataType::Struct(format_fields()), true),
        text("schemaString"),
        Field::new("partitionColumns", texts(), true),
        Field::new("configuration", string_map(), true),
        Field::new("createdTime", DataType::Int64, true),
    ]
}

fn format_fields() -> Fields {
    Fields::from(vec![text("provider"), Field::new("options", string_map(), true)])
}

fn txn_fields() -> Vec<Field> {
    vec![
        text("appId"),
        Field::new("version", DataType::Int64, true),
        Field::new("lastUpdated", DataType::Int64, true),
    ]
}

fn domain_fields() -> Vec<Field> {
    vec![
        text("domain"),
        text("configuration"),
        Field::new("removed", DataType::Boolean, true),
    ]
}

fn text_list(items: Option<&Vec<String>>) -> ArrayRef {
    let mut b = ListBuilder::new(StringBuilder::new()).with_field(Field::new("element", DataType::Utf8, true));
    for i in items.into_iter().flatten() {
        b.values().append_value(i);
    }
    b.append(items.is_some());
    Arc::new(b.finish())
}

fn text_map<'a>(entries: impl Iterator<Item = (&'a String, Option<&'a String>)>) -> Result<ArrayRef> {
    let names = MapFieldNames {
        entry: "key_value".into(),
        key: "key".into(),
        value: "value".into(),
    };
    let mut b = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for (k, v) in entries {
        b.keys().append_value(k);
        b.values().append_option(v);
    }
    b.append(true).map_err(arrow_error)?;
    Ok(Arc::new(b.finish()))
}

fn one(value: Option<&String>) -> ArrayRef {
    Arc::new(StringArray::from(vec![value.map(String::as_str)]))
}

fn protocol_array(p: &Protocol) -> Result<StructArray> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![p.min_reader_version])),
        Arc::new(Int32Array::from(vec![p.min_writer_version])),
        text_list(p.reader_features.as_ref()),
        text_list(p.writer_features.as_ref()),
    ];
    StructArray::try_new(protocol_fields().into(), columns, None).map_err(arrow_error)
}

fn metadata_array(m: &Metadata) -> Result<StructArray> {
    let format: Vec<ArrayRef> = vec![
        one(Some(&m.format.provider)),
        text_map(m.format.options.iter().map(|(k, v)| (k, v.as_ref())))?,
    ];
    let columns: Vec<ArrayRef> = vec![
        one(Some(&m.id)),
        one(m.name.as_ref()),
        one(m.description.as_ref()),
        Arc::new(StructArray::try_new(format_fields(), format, None).map_err(arrow_error)?),
        one(m.schema_string.as_ref()),
        text_list(Some(&m.partition_columns)),
        text_map(m.configuration.iter().map(|(k, v)| (k, Some(v))))?,
        Arc::new(Int64Array::from(vec![m.created_time])),
    ];
    StructArray::try_new(metadata_fields().into(), columns, None).map_err(arrow_error)
}

fn txn_array(t: &[SetTransaction]) -> Result<StructArray> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(t.iter().map(|t| &t.app_id))),
        Arc::new(Int64Array::from_iter_values(t.iter().map(|t| t.version))),
        Arc::new(Int64Array::from_iter(t.iter().map(|t| t.last_updated))),
    ];
    StructArray::try_new(txn_fields().into(), columns, None).map_err(arrow_error)
}

fn domain_array(d: &[DomainMetadata]) -> Result<StructArray> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(d.iter().map(|d| &d.domain))),
        Arc::new(StringArray::from_iter_values(d.iter().map(|d| &d.configuration))),
        Arc::new(BooleanArray::from(vec![false; d.len()])),
    ];
    StructArray::try_new(domain_fields().into(), columns, None).map_err(arrow_error)
}

/// A store's upload as the Parquet writer wants its file.
struct UploadFile {
    upload: Option<Upload>,
    size: Arc<std::sync::atomic::AtomicU64>,
}

impl UploadFile {
    fn new(upload: Upload) -> (Self, Arc<std::sync::atomic::AtomicU64>) {
        let size = Arc::new(std::sync::atomic::AtomicU64::new(0));
        (
            UploadFile {
                upload: Some(upload),
                size: size.clone(),
            },
            size,
        )
    }
}

fn external(e: Error) -> ParquetError {
    ParquetError::External(Box::new(e))
}

impl AsyncFileWriter for UploadFile {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), ParquetError>> {
        Box::pin(async move {
            match &mut self.upload {
                Some(u) => u.write(bytes).await.map_err(external),
                None => Err(ParquetError::General("the file is finished already".to_owned())),
            }
        })
    }

    fn complete(&mut self) -> BoxFuture<'_, Result<(), ParquetError>> {
        Box::pin(async move {
            if let Some(u) = self.upload.take() {
                let size = u.finish().await.map_err(external)?;
                self.size.store(size, std::sync::atomic::Ordering::Release);
            }
            Ok(())
        })
    }
}
