//! Writes the rows that a command rewrites to files of the table and, if changes are recorded, to
//! change files (P130). Rows keep their ids if they have some (P142).

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::Result;
use deltaplane_protocol::actions::{Add, AddCdcFile};
use deltaplane_protocol::features::StoredIds;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::Store;
use parquet::basic::CompressionCodec;
use parquet::schema::types::ColumnDescPtr;

use super::{CopiedColumn, FileWriter, WriteSpec, as_change, change_file, name_ids};
use crate::cast::cast_batch;

/// The files that a command wrote.
#[derive(Debug, Default)]
pub struct Written {
    /// Files of the table.
    pub adds: Vec<Add>,
    /// Files of changed rows.
    pub cdc: Vec<AddCdcFile>,
}

/// One kind of files.
struct Files {
    writer: FileWriter,
    schema: Arc<StructType>,
}

impl Files {
    fn new(store: Store, spec: WriteSpec) -> Result<Self> {
        let schema = spec.schema.clone();
        let writer = FileWriter::new(store, spec)?;
        Ok(Files { writer, schema })
    }

    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(cast_batch(batch, &self.schema)?).await
    }
}

/// Takes rewritten rows. After an error only [`RowSink::abort`] is useful.
pub struct RowSink {
    data: Files,
    changes: Option<Files>,
    ids: Option<StoredIds>,
}

impl RowSink {
    /// A sink for rows of the table that `spec` describes, which keep their ids in the columns
    /// `ids`.
    ///
    /// # Errors
    /// As [`FileWriter::new`].
    pub fn new(store: &Store, spec: WriteSpec, ids: Option<StoredIds>, records_changes: bool) -> Result<Self> {
        let changes = match records_changes {
            true => Some(Files::new(store.clone(), spec.clone().of_changes())?),
            false => None,
        };
        let spec = match &ids {
            Some(ids) => spec.keeping_ids(ids),
            None => spec,
        };
        Ok(RowSink {
            data: Files::new(store.clone(), spec)?,
            changes,
            ids,
        })
    }

    /// Writes rows that become part of the table; their ids and versions are the scan's hidden
    /// columns.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match &self.ids {
            Some(ids) => self.data.write(&name_ids(batch, ids)?).await,
            None => self.data.write(batch).await,
        }
    }

    /// As `FileWriter::copyable`.
    pub(crate) fn copyable(&self) -> Result<(Vec<(usize, ColumnDescPtr)>, CompressionCodec)> {
        self.data.writer.copyable()
    }

    /// As `FileWriter::write_beside`; ids and versions are the scan's hidden columns.
    pub(crate) async fn write_beside(
        &mut self,
        columns: Vec<(usize, CopiedColumn)>,
        batches: Vec<RecordBatch>,
    ) -> Result<()> {
        let named = |batch: RecordBatch| match &self.ids {
            Some(ids) => name_ids(&batch, ids),
            None => Ok(batch),
        };
        let batches = batches.into_iter().map(named).collect::<Result<_>>()?;
        self.data.writer.write_beside(columns, batches).await
    }

    /// Records changes of rows, if changes are recorded.
    pub async fn record(&mut self, batch: &RecordBatch, change: &str) -> Result<()> {
        match &mut self.changes {
            Some(files) => files.write(&as_change(batch, change)?).await,
            None => Ok(()),
        }
    }

    /// Closes all files.
    pub async fn finish(self) -> Result<Written> {
        let adds = self.data.writer.finish().await?;
        let cdc = match self.changes {
            Some(files) => files.writer.finish().await?,
            None => Vec::new(),
        };
        Ok(Written {
            adds,
            cdc: cdc.into_iter().map(change_file).collect(),
        })
    }

    /// Deletes the written files, as far as the store permits.
    pub async fn abort(self) {
        self.data.writer.abort().await;
        if let Some(files) = self.changes {
            files.writer.abort().await;
        }
    }
}
