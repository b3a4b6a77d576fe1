//! Encodes assigned columns of a row group that can't be patched page by page.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, RecordBatch};
use deltaplane_error::{Error, Result};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};

use super::append::Chunk;
use super::values::GroupValues;
use super::{Column, blocking, failed};
use crate::write::bounds;
use crate::write::file::{encoding, leaf_count};

/// Assigned columns of one row group, each with the writers of its leaves.
pub(super) struct Encoder(Vec<(Column, Vec<ArrowColumnWriter>)>);

impl Encoder {
    pub(super) fn new(factory: &ArrowRowGroupWriterFactory, columns: Vec<Column>, group: usize) -> Result<Self> {
        let made = factory.create_column_writers(group).map_err(failed)?;
        let mut made: BTreeMap<usize, ArrowColumnWriter> = made.into_iter().enumerate().collect();
        let own = columns.into_iter().map(|column| {
            let leaves = column.leaf..column.leaf + leaf_count(column.field.data_type());
            let writers = leaves.filter_map(|leaf| made.remove(&leaf)).collect();
            (column, writers)
        });
        Ok(Encoder(own.collect()))
    }

    /// Encodes the rows of a group; returns the columns, and their chunks by leaf number.
    pub(super) async fn encode(
        mut self,
        mut old: Option<BoxStream<'static, Result<RecordBatch>>>,
        new: &GroupValues,
    ) -> Result<(Vec<Column>, BTreeMap<usize, Chunk>)> {
        let numbers: Vec<usize> = self.0.iter().map(|(column, _)| column.number).collect();
        let mut from = 0;
        while from < new.count {
            let batch = match &mut old {
                Some(old) => Some(old.try_next().await?.ok_or_else(|| {
                    Error::corrupt_file("a data file has fewer rows than its footer says: it is damaged")
                })?),
                None => None,
            };
            let arrays = new.of_rows(from, batch.as_ref(), &numbers)?;
            from += arrays.first().map_or(new.count, |a| a.len());
            self = blocking(move || self.take(&arrays)).await?;
        }
        blocking(move || self.close()).await
    }

    fn take(mut self, arrays: &[ArrayRef]) -> Result<Self> {
        for ((column, writers), array) in self.0.iter_mut().zip(arrays) {
            if let Some(stats) = &mut column.stats {
                stats.update(array)?;
                stats.update_typed(array)?;
            }
            let leaves = compute_leaves(&column.field, array).map_err(|e| encoding(column.field.name(), &e))?;
            for (writer, leaf) in writers.iter_mut().zip(&leaves) {
                writer.write(leaf).map_err(|e| encoding(column.field.name(), &e))?;
            }
        }
        Ok(self)
    }

    fn close(self) -> Result<(Vec<Column>, BTreeMap<usize, Chunk>)> {
        let (mut columns, mut chunks) = (Vec::with_capacity(self.0.len()), BTreeMap::new());
        for (column, writers) in self.0 {
            for (i, writer) in writers.into_iter().enumerate() {
                chunks.insert(column.leaf + i, Chunk::Encoded(bounds::closed(writer).map_err(failed)?));
            }
            columns.push(column);
        }
        Ok((columns, chunks))
    }
}
