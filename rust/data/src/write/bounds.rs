//! Makes bounds of floating-point chunks and pages safe for every reader's pruning. Footers and
//! page indexes leave NaN out of minimum and maximum, yet Spark orders it above all numbers (P168):
//! a chunk with NaN gets no bounds. A bound of zero gets the sign that covers both zeros. The same
//! for Bloom filters (`bloom`). Applied wherever a chunk goes into a file; knows no file.

use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter};
use parquet::basic::{Encoding, Type as Physical};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::AsBytes;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::bloom;
use super::plain::Kind;

/// Removes or corrects bounds of floating-point numbers by which a reader could skip matching rows.
///
/// # Errors
/// Those of the Parquet library for metadata that contradicts itself.
pub(super) fn make_sound(close: &mut ColumnCloseResult) -> Result<()> {
    bloom::make_sound(close);
    let Some(kind) = Kind::of(close.metadata.column_descr().physical_type()).filter(|kind| kind.is_float()) else {
        return Ok(());
    };
    let bounds = close.metadata.statistics().map(sound);
    let mut metadata = close.metadata.clone().into_builder();
    if has_dictionary(&close.metadata) && bounds.as_ref().is_none_or(may_hold_zero) {
        // Spark looks for 0.0 in a dictionary by its bits, which -0.0 doesn't have. It uses a
        // dictionary only if these counts say that all pages use it.
        metadata = metadata.clear_page_encoding_stats();
    }
    if let Some(bounds) = bounds {
        metadata = metadata.set_statistics(bounds);
    }
    close.metadata = metadata.build()?;
    close.column_index = match close.column_index.take() {
        Some(index) => sound_index(kind, index)?,
        None => None,
    };
    Ok(())
}

/// Closes a column, with bounds that are safe for every reader.
///
/// # Errors
/// Those of the writer.
pub(super) fn closed(writer: ArrowColumnWriter) -> Result<ArrowColumnChunk> {
    let mut chunk = writer.close()?;
    make_sound(chunk.close_mut())?;
    Ok(chunk)
}

/// The statistics without bounds if a value may be NaN, otherwise with bounds that cover both
/// zeros.
fn sound(stats: &Statistics) -> Statistics {
    let numbers = stats.nan_count_opt() == Some(0) && !stats.is_min_max_deprecated();
    macro_rules! floats {
        ($stats:expr) => {{
            let both = $stats.min_opt().copied().zip($stats.max_opt().copied());
            let both = both.filter(|(min, max)| numbers && !min.is_nan() && !max.is_nan());
            // Adding zero turns both zeros into +0.0.
            let (min, max) = both.map(|(min, max)| (-(-min + 0.0), max + 0.0)).unzip();
            ValueStatistics::new(min, max, $stats.distinct_count(), $stats.null_count_opt(), false)
                .with_nan_count($stats.nan_count_opt())
        }};
    }
    match stats {
        Statistics::Float(stats) => Statistics::Float(floats!(stats)),
        Statistics::Double(stats) => Statistics::Double(floats!(stats)),
        other => other.clone(),
    }
}

/// The index with bounds that cover both zeros; `None` if a page may have NaN.
fn sound_index(kind: Kind, index: ColumnIndexMetaData) -> Result<Option<ColumnIndexMetaData>> {
    let pages = 0..usize::try_from(index.num_pages())?;
    if !pages.clone().all(|page| index.nan_count(page) == Some(0)) {
        return Ok(None);
    }
    let mut made = ColumnIndexBuilder::new(match kind {
        Kind::Float => Physical::FLOAT,
        _ => Physical::DOUBLE,
    });
    if let Some(order) = index.get_boundary_order() {
        made.set_boundary_order(order);
    }
    let mut same = true;
    for page in pages {
        let (min, max) = page_bounds(&index, page);
        let Some(nulls) = index.null_count(page) else {
            return Ok(None);
        };
        let is_null = index.is_null_page(page);
        let (low, high) = match is_null {
            true => (Vec::new(), Vec::new()),
            false => (kind.bound(&min, false), kind.bound(&max, true)),
        };
        same = same && (is_null || (low == min && high == max));
        made.append(is_null, low, high, nulls, Some(0));
        let histogram = |levels: Option<&[i64]>| levels.map(|levels| levels.to_vec().into());
        made.append_histograms(
            &histogram(index.repetition_level_histogram(page)),
            &histogram(index.definition_level_histogram(page)),
        );
    }
    match same {
        true => Ok(Some(index)),
        false => made.build().map(Some),
    }
}

/// A page's bounds as bytes; empty if it has no value.
pub(super) fn page_bounds(index: &ColumnIndexMetaData, page: usize) -> (Vec<u8>, Vec<u8>) {
    fn bytes<T: AsBytes + ?Sized>(min: Option<&T>, max: Option<&T>) -> (Vec<u8>, Vec<u8>) {
        let bytes = |v: Option<&T>| v.map(|v| v.as_bytes().to_vec()).unwrap_or_default();
        (bytes(min), bytes(max))
    }
    match index {
        ColumnIndexMetaData::INT32(i) => bytes(i.min_value(page), i.max_value(page)),
        ColumnIndexMetaData::INT64(i) => bytes(i.min_value(page), i.max_value(page)),
        ColumnIndexMetaData::FLOAT(i) => bytes(i.min_value(page), i.max_value(page)),
        ColumnIndexMetaData::DOUBLE(i) => bytes(i.min_value(page), i.max_value(page)),
        ColumnIndexMetaData::BYTE_ARRAY(i) => bytes(i.min_value(page), i.max_value(page)),
        _ => (Vec::new(), Vec::new()),
    }
}

fn has_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    chunk.dictionary_page_offset().is_some()
        || chunk
            .encodings()
            .any(|e| matches!(e, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY))
}

/// Whether one of the values may be a zero.
fn may_hold_zero(stats: &Statistics) -> bool {
    fn within<T: PartialOrd + Default>(values: &ValueStatistics<T>) -> bool {
        let zero = T::default();
        values.min_opt().is_none_or(|min| *min <= zero) && values.max_opt().is_none_or(|max| *max >= zero)
    }
    match stats {
        Statistics::Float(stats) => within(stats),
        Statistics::Double(stats) => within(stats),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float32Array, Float64Array, RecordBatch};
    use parquet::arrow::ArrowSchemaConverter;
    use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use proptest::prelude::*;

    use super::*;

    const PAGE_ROWS: usize = 4;

    /// The ended chunk of a column with pages of a few rows.
    fn chunk(array: &ArrayRef, dictionary: bool) -> ColumnCloseResult {
        let rows = RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true)]).unwrap();
        let schema = rows.schema();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(dictionary)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_write_batch_size(1);
        let parquet = ArrowSchemaConverter::new().convert(&schema).unwrap();
        let file = SerializedFileWriter::new(Vec::new(), parquet.root_schema_ptr(), Arc::new(properties.build()));
        let factory = ArrowRowGroupWriterFactory::new(&file.unwrap(), schema.clone());
        let mut writer = factory.create_column_writers(0).unwrap().remove(0);
        for leaf in compute_leaves(schema.field(0), array).unwrap() {
            writer.write(&leaf).unwrap();
        }
        let mut made = closed(writer).unwrap();
        let close = made.close_mut();
        let again = (close.metadata.statistics().cloned(), close.column_index.clone());
        make_sound(close).unwrap();
        assert_eq!(
            (close.metadata.statistics().cloned(), close.column_index.clone()),
            again
        );
        ColumnCloseResult {
            bytes_written: close.bytes_written,
            rows_written: close.rows_written,
            metadata: close.metadata.clone(),
            bloom_filter: None,
            column_index: close.column_index.clone(),
            offset_index: close.offset_index.clone(),
        }
    }

    /// Whether all values lie within the bounds, by the bits: -0.0 is below 0.0.
    fn is_within(min: &[u8], max: &[u8], values: &[f64], double: bool) -> bool {
        let read = |bytes: &[u8]| match double {
            true => f64::from_le_bytes(bytes.try_into().unwrap()),
            false => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        };
        let (min, max) = (read(min), read(max));
        let zeros = min.to_bits() != 0.0_f64.to_bits() && max.to_bits() != (-0.0_f64).to_bits();
        let inside = |v: &f64| min.total_cmp(v).is_le() && v.total_cmp(&max).is_le();
        zeros && values.iter().all(inside)
    }

    fn check(values: &[Option<f64>], double: bool, dictionary: bool) {
        #[allow(clippy::cast_possible_truncation)]
        let singles = || values.iter().map(|v| v.map(|v| v as f32)).collect::<Float32Array>();
        let array: ArrayRef = match double {
            true => Arc::new(values.iter().copied().collect::<Float64Array>()),
            false => Arc::new(singles()),
        };
        let close = chunk(&array, dictionary);
        let numbers: Vec<f64> = values.iter().flatten().copied().collect();
        let has_nan = numbers.iter().any(|v| v.is_nan());
        let stats = close.metadata.statistics().unwrap();
        assert_eq!(stats.null_count_opt(), Some((values.len() - numbers.len()) as u64));
        let bounded = stats.min_bytes_opt().zip(stats.max_bytes_opt());
        assert_eq!(bounded.is_some(), !has_nan && !numbers.is_empty());
        assert!(bounded.is_none_or(|(min, max)| is_within(min, max, &numbers, double)));
        assert_eq!(close.column_index.is_some(), !has_nan);
        if let Some(index) = &close.column_index {
            for (page, rows) in values.chunks(PAGE_ROWS).enumerate() {
                let rows: Vec<f64> = rows.iter().flatten().copied().collect();
                assert_eq!(index.is_null_page(page), rows.is_empty());
                let (min, max) = page_bounds(index, page);
                assert!(rows.is_empty() || is_within(&min, &max, &rows, double));
            }
        }
        // A reader that compares bits asks no dictionary that may hold a zero.
        let may_be_asked = close.metadata.page_encoding_stats().is_some();
        assert!(!(may_be_asked && dictionary && numbers.contains(&0.0)));
    }

    proptest! {
        #[test]
        fn bounds_hold_all_values_or_are_left_out(
            values in prop::collection::vec(
                prop::option::weighted(0.8, prop::sample::select(vec![
                    -0.0, 0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN,
                ])),
                1..20,
            ),
            numbers_alone in any::<bool>(),
            double in any::<bool>(),
            dictionary in any::<bool>(),
        ) {
            let is_counted = |v: &Option<f64>| !numbers_alone || v.is_none_or(|v| !v.is_nan());
            let values: Vec<_> = values.into_iter().filter(is_counted).collect();
            prop_assume!(!values.is_empty());
            check(&values, double, dictionary);
        }
    }

    #[test]
    fn a_dictionary_without_zero_may_be_asked() {
        let close = chunk(&(Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef), true);
        assert!(close.metadata.page_encoding_stats().is_some());
    }
}
