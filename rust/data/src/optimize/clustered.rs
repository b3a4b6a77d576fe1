//! Writes new rows of a clustered table: a large number of rows is sorted first, so that their
//! files can be skipped well; a small number is written as it comes, and OPTIMIZE sorts it later.

use std::sync::Arc;

use arrow::array::{RecordBatch, StructArray};
use deltaplane_error::Result;
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::zorder::{RowOrder, Sample, columns_of};
use deltaplane_sorting::SpilledRows;
use deltaplane_store::Store;
use futures::{TryStreamExt, stream};

use super::Order;
use super::sort::{self, Keys, bytes};
use crate::processors::processors;
use crate::write::{FileWriter, WriteSpec};

/// Bytes of rows in memory during the sort.
const MEMORY_BYTES: usize = 256 << 20;

/// Writes rows to new data files of a table, as [`FileWriter`], sorted if there are many.
pub struct ClusteredWriter {
    writer: FileWriter,
    order: Option<(Order, usize)>,
    held: Held,
}

/// Rows that aren't written yet.
enum Held {
    /// Too few to sort so far.
    Few { rows: Vec<RecordBatch>, bytes: usize },
    /// In a temporary file, until a sample of all rows gives the order.
    Many(Box<Many>),
}

/// Rows in a temporary file.
struct Many {
    rows: SpilledRows,
    count: u64,
    bytes: usize,
    sample: Sample,
}

impl ClusteredWriter {
    /// A writer without rows. Rows are sorted from this many bytes on; without an order never.
    ///
    /// # Errors
    /// As [`FileWriter::new`].
    pub fn new(store: Store, spec: WriteSpec, order: Option<(Order, usize)>) -> Result<Self> {
        Ok(ClusteredWriter {
            writer: FileWriter::new(store, spec)?,
            order,
            held: Held::Few {
                rows: Vec::new(),
                bytes: 0,
            },
        })
    }

    /// Writes rows in the table's schema.
    ///
    /// # Errors
    /// As [`FileWriter::write`]; `StoreUnavailable` if temporary files have no room.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let Some((order, from_bytes)) = &self.order else {
            return self.writer.write(batch).await;
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let more = bytes(&StructArray::from(batch.clone()));
        match &mut self.held {
            Held::Few { rows, bytes } => {
                rows.push(batch);
                *bytes += more;
                if *bytes >= *from_bytes {
                    self.held = Held::many(std::mem::take(rows), order)?;
                }
                Ok(())
            }
            Held::Many(many) => many.push(&batch, order, more),
        }
    }

    /// Writes the rows in memory and closes all files; returns their adds in the order in which the
    /// files were begun.
    ///
    /// # Errors
    /// As [`write`](Self::write); its files are then deleted, as far as the store permits.
    pub async fn finish(mut self) -> Result<Vec<Add>> {
        let written = match (self.held, &self.order) {
            (Held::Few { rows, .. }, _) => as_they_came(&mut self.writer, rows).await,
            (Held::Many(many), Some((order, _))) => in_order(&mut self.writer, order, *many).await,
            (Held::Many(_), None) => Ok(()),
        };
        match written {
            Ok(()) => self.writer.finish().await,
            Err(e) => {
                self.writer.abort().await;
                Err(e)
            }
        }
    }

    /// Deletes every file that was begun, as far as the store permits.
    pub async fn abort(self) {
        self.writer.abort().await;
    }
}

impl Held {
    fn many(rows: Vec<RecordBatch>, order: &Order) -> Result<Self> {
        let Some(first) = rows.first() else {
            return Ok(Held::Few { rows, bytes: 0 });
        };
        let mut many = Many {
            rows: SpilledRows::new(first.schema_ref())?,
            count: 0,
            bytes: 0,
            sample: Sample::default(),
        };
        for batch in rows {
            many.push(&batch, order, bytes(&StructArray::from(batch.clone())))?;
        }
        Ok(Held::Many(Box::new(many)))
    }
}

impl Many {
    fn push(&mut self, batch: &RecordBatch, order: &Order, more: usize) -> Result<()> {
        self.sample.add(&columns_of(batch, &order.columns)?)?;
        self.rows.push(batch)?;
        self.count += batch.num_rows() as u64;
        self.bytes += more;
        Ok(())
    }
}

async fn as_they_came(writer: &mut FileWriter, rows: Vec<RecordBatch>) -> Result<()> {
    for batch in rows {
        writer.write(batch).await?;
    }
    Ok(())
}

async fn in_order(writer: &mut FileWriter, order: &Order, many: Many) -> Result<()> {
    let Many {
        rows,
        count,
        bytes,
        sample,
    } = many;
    tracing::debug!(rows = count, bytes, "new rows of a clustered table are sorted");
    let files = (bytes as u64).div_ceil(writer.target_file_size_bytes()).max(1);
    let keys = Keys {
        by: Arc::new(RowOrder::choose(&sample.columns()?, order.curve, files)?),
        paths: Arc::new(order.columns.clone()),
        places: None,
    };
    let cores = processors();
    let (mut slices, _) = sort::in_order(stream::iter(rows.read()?), &keys, MEMORY_BYTES, cores, || Ok(())).await?;
    while let Some(slice) = slices.try_next().await? {
        writer.write(RecordBatch::from(&slice.rows)).await?;
    }
    Ok(())
}
