//! Columns of a row group that are pages of other files instead of rows: joined chunks, with their
//! combined indexes and bounds.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use bytes::{Buf, Bytes};
use deltaplane_error::{Error, Result};
use parquet::basic::CompressionCodec;
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;

use super::bounds::{self, page_bounds};
use super::parts::Parts;
use crate::read::Chunk;

/// One column of a row group.
pub(crate) struct CopiedColumn {
    pages: Pages,
    close: ColumnCloseResult,
    bounds: Option<Statistics>,
    /// Its rows.
    pub(crate) rows: u64,
}

impl CopiedColumn {
    /// Joins these chunks of one leaf, in order.
    ///
    /// # Errors
    /// `Internal` if they can't be joined.
    pub(crate) fn join(leaf: &ColumnDescPtr, codec: CompressionCodec, chunks: Vec<Chunk>) -> Result<Self> {
        joined(leaf, codec, chunks).map_err(|e| Error::internal(format!("joining the pages of data files failed: {e}")))
    }

    /// These pages in order, described by `close` and the bounds.
    pub(super) fn new(pages: Vec<Bytes>, close: ColumnCloseResult, bounds: Statistics, rows: u64) -> Self {
        CopiedColumn {
            pages: Pages(pages),
            close,
            bounds: Some(bounds),
            rows,
        }
    }

    /// Smallest and largest value as an array of the column's type, if known; and the null count.
    pub(super) fn bounds(&self, data_type: &ArrowType) -> Result<(Option<ArrayRef>, u64)> {
        let nulls = self.bounds.as_ref().and_then(Statistics::null_count_opt).unwrap_or(0);
        let array = self.bounds.as_ref().map(|b| array(b, data_type)).transpose()?;
        Ok((array.flatten(), nulls))
    }

    /// Closes the next column of a row group with it.
    pub(super) fn append_to(mut self, group: &mut SerializedRowGroupWriter<'_, Parts>) -> ParquetResult<()> {
        bounds::make_sound(&mut self.close)?;
        group.append_column(&self.pages, self.close)
    }
}

/// Buffers that are read as one.
struct Pages(Vec<Bytes>);

impl Length for Pages {
    fn len(&self) -> u64 {
        self.0.iter().map(|b| b.len() as u64).sum()
    }
}

impl ChunkReader for Pages {
    type T = PagesReader;

    fn get_read(&self, start: u64) -> ParquetResult<PagesReader> {
        let mut reader = PagesReader(self.0.clone().into());
        reader.skip(start);
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut out = vec![0; length];
        self.get_read(start)?.read_exact(&mut out).map_err(ParquetError::from)?;
        Ok(out.into())
    }
}

struct PagesReader(std::collections::VecDeque<Bytes>);

impl PagesReader {
    fn skip(&mut self, mut bytes: u64) {
        while let Some(first) = self.0.front_mut() {
            let n = bytes.min(first.len() as u64);
            first.advance(usize::try_from(n).unwrap_or(usize::MAX));
            bytes -= n;
            if !first.is_empty() {
                return;
            }
            self.0.pop_front();
        }
    }
}

impl Read for PagesReader {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.skip(0);
        let Some(first) = self.0.front_mut() else { return Ok(0) };
        let n = first.len().min(out.len());
        let (into, _) = out.split_at_mut(n);
        first.copy_to_slice(into);
        Ok(n)
    }
}

fn joined(leaf: &ColumnDescPtr, codec: CompressionCodec, chunks: Vec<Chunk>) -> ParquetResult<CopiedColumn> {
    let (mut compressed, mut uncompressed, mut values, mut rows) = (0, 0, 0, 0_u64);
    let (mut locations, mut encodings) = (Vec::new(), Vec::new());
    let mut index = ColumnIndexBuilder::new(leaf.physical_type());
    let mut bounds: Option<Statistics> = None;
    let mut pages = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let first_row = i64::try_from(rows).map_err(|e| ParquetError::General(e.to_string()))?;
        locations.extend(chunk.pages.iter().map(|p| PageLocation {
            offset: p.offset + compressed,
            first_row_index: p.first_row_index + first_row,
            ..p.clone()
        }));
        for page in 0..chunk.pages.len() {
            let (min, max) = page_bounds(&chunk.index, page);
            let nulls = chunk.index.null_count(page).unwrap_or(0);
            let nans = chunk.index.nan_count(page);
            index.append(chunk.index.is_null_page(page), min, max, nulls, nans);
        }
        encodings.extend(
            chunk
                .metadata
                .encodings()
                .filter(|e| !encodings.contains(e))
                .collect::<Vec<_>>(),
        );
        compressed += chunk.metadata.compressed_size();
        uncompressed += chunk.metadata.uncompressed_size();
        values += chunk.metadata.num_values();
        rows += chunk.rows;
        if let Some(more) = chunk.metadata.statistics() {
            bounds = Some(match bounds {
                None => more.clone(),
                Some(bounds) => wider(&bounds, more)?,
            });
        }
        pages.push(chunk.bytes);
    }
    let metadata = ColumnChunkMetaData::builder(leaf.clone())
        .set_compression_codec(codec)
        .set_encodings(encodings)
        .set_total_compressed_size(compressed)
        .set_total_uncompressed_size(uncompressed)
        .set_num_values(values)
        .set_data_page_offset(0);
    let metadata = match &bounds {
        Some(bounds) => metadata.set_statistics(bounds.clone()),
        None => metadata,
    };
    let offsets = OffsetIndexMetaData {
        page_locations: locations,
        unencoded_byte_array_data_bytes: None,
    };
    Ok(CopiedColumn {
        close: ColumnCloseResult {
            bytes_written: u64::try_from(compressed).unwrap_or(0),
            rows_written: rows,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: Some(index.build()?),
            offset_index: Some(offsets),
        },
        pages: Pages(pages),
        bounds,
        rows,
    })
}

/// The bounds of both.
fn wider(a: &Statistics, b: &Statistics) -> ParquetResult<Statistics> {
    let nulls = a.null_count_opt().zip(b.null_count_opt()).map(|(a, b)| a + b);
    macro_rules! wider_values {
        ($a:expr, $b:expr, $order:expr) => {{
            let least = pick($a.min_opt(), $b.min_opt(), |a, b| $order(a, b).is_le());
            let most = pick($a.max_opt(), $b.max_opt(), |a, b| $order(a, b).is_ge());
            ValueStatistics::new(least, most, None, nulls, false)
        }};
    }
    Ok(match (a, b) {
        (Statistics::Int32(a), Statistics::Int32(b)) => Statistics::Int32(wider_values!(a, b, i32::cmp)),
        (Statistics::Int64(a), Statistics::Int64(b)) => Statistics::Int64(wider_values!(a, b, i64::cmp)),
        (Statistics::Float(a), Statistics::Float(b)) => {
            Statistics::Float(wider_values!(a, b, f32::total_cmp).with_nan_count(Some(0)))
        }
        (Statistics::Double(a), Statistics::Double(b)) => {
            Statistics::Double(wider_values!(a, b, f64::total_cmp).with_nan_count(Some(0)))
        }
        (Statistics::ByteArray(a), Statistics::ByteArray(b)) => {
            let order = |a: &ByteArray, b: &ByteArray| a.data().cmp(b.data());
            Statistics::ByteArray(wider_values!(a, b, order))
        }
        _ => return Err(ParquetError::General("bounds of different types".to_owned())),
    })
}

fn pick<T: Clone>(a: Option<&T>, b: Option<&T>, first: impl Fn(&T, &T) -> bool) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if first(a, b) { a.clone() } else { b.clone() }),
        (a, b) => a.or(b).cloned(),
    }
}

fn both<T: Clone>(min: Option<&T>, max: Option<&T>) -> Option<Vec<T>> {
    Some(vec![min?.clone(), max?.clone()])
}

/// Both bounds as values of a column of this type.
fn array(bounds: &Statistics, data_type: &ArrowType) -> Result<Option<ArrayRef>> {
    let wrap = |e: arrow::error::ArrowError| Error::internal(format!("bounds of a copied column: {e}"));
    let integers: Option<Vec<i64>> = match bounds {
        Statistics::Int32(s) => both(s.min_opt(), s.max_opt()).map(|v| v.into_iter().map(i64::from).collect()),
        Statistics::Int64(s) => both(s.min_opt(), s.max_opt()),
        Statistics::Float(s) => {
            return Ok(both(s.min_opt(), s.max_opt()).map(|v| Arc::new(Float32Array::from(v)) as ArrayRef));
        }
        Statistics::Double(s) => {
            return Ok(both(s.min_opt(), s.max_opt()).map(|v| Arc::new(Float64Array::from(v)) as ArrayRef));
        }
        Statistics::ByteArray(s) => {
            let Some(values) = both(s.min_opt(), s.max_opt()) else {
                return Ok(None);
            };
            let bytes = BinaryArray::from_iter_values(values.iter().map(ByteArray::data));
            return match data_type {
                ArrowType::Utf8 => {
                    let text = StringArray::try_from_binary(bytes).map_err(wrap)?;
                    Ok(Some(Arc::new(text)))
                }
                _ => Ok(Some(Arc::new(bytes))),
            };
        }
        _ => return Ok(None),
    };
    let Some(values) = integers else {
        return Ok(None);
    };
    Ok(Some(match data_type {
        ArrowType::Decimal128(precision, scale) => {
            let digits = Decimal128Array::from_iter_values(values.into_iter().map(i128::from));
            Arc::new(digits.with_precision_and_scale(*precision, *scale).map_err(wrap)?)
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, zone) => {
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone_opt(zone.clone()))
        }
        ArrowType::Date32 => {
            let days = cast(&Int64Array::from(values), &ArrowType::Int32).map_err(wrap)?;
            cast(&days, &ArrowType::Date32).map_err(wrap)?
        }
        other => cast(&Int64Array::from(values), other).map_err(wrap)?,
    }))
}
