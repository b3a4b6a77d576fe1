//! Bounds of floating-point chunks and pages that every reader may prune by. Footers and page indexes leave NaN out of a
//! smallest and a greatest value, yet Spark orders it above all numbers (P168): a chunk with NaN gets no bounds. A bound
//! of zero gets the sign that covers both zeros. Called wherever a chunk goes into a file; knows no file.

use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter};
use parquet::basic::{Encoding, Type as Physical};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::copied::page_bounds;
use super::plain::Kind;

/// Leaves out or corrects what a reader could prune a chunk of floating-point numbers by and lose rows.
///
/// # Errors
/// Those of the Parquet library for metadata that contradicts itself.
pub(super) fn make_sound(close: &mut ColumnCloseResult) -> Result<()> {
    let Some(kind) = Kind::of(close.metadata.column_descr().physical_type()).filter(|kind| kind.is_float()) else {
        return Ok(());
    };
    let bounds = close.metadata.statistics().map(sound);
    let mut metadata = close.metadata.clone().into_builder();
    if has_dictionary(&close.metadata) && bounds.as_ref().is_none_or(may_hold_zero) {
        // Spark looks for 0.0 in a dictionary by its bits, which -0.0 doesn't have. It asks no dictionary unless these counts
        // say that all pages use it.
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

/// Ends a column, with bounds that every reader may prune by.
///
/// # Errors
/// Those of the writer.
pub(super) fn closed(writer: ArrowColumnWriter) -> Result<ArrowColumnChunk> {
    let mut chunk = writer.close()?;
    make_sound(chunk.close_mut())?;
    Ok(chunk)
}

/// The statistics without bounds where a value is NaN or may be, else with bounds that cover both zeros.
fn sound(of: &Statistics) -> Statistics {
    let numbers = of.nan_count_opt() == Some(0) && !of.is_min_max_deprecated();
    macro_rules! floats {
        ($of:expr) => {{
            let both = $of.min_opt().copied().zip($of.max_opt().copied());
            let both = both.filter(|(min, max)| numbers && !min.is_nan() && !max.is_nan());
            // Adding zero makes +0.0 of both zeros.
            let (min, max) = both.map(|(min, max)| (-(-min + 0.0), max + 0.0)).unzip();
            ValueStatistics::new(min, max, $of.distinct_count(), $of.null_count_opt(), false)
                .with_nan_count($of.nan_count_opt())
        }};
    }
    match of {
        Statistics::Float(of) => Statistics::Float(floats!(of)),
        Statistics::Double(of) => Statistics::Double(floats!(of)),
        other => other.clone(),
    }
}

/// The index with bounds that cover both zeros; `None` where a page holds NaN, or may.
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

fn has_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    chunk.dictionary_page_offset().is_some()
        || chunk
            .encodings()
            .any(|e| matches!(e, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY))
}

/// Whether one of the values may be a zero.
fn may_hold_zero(of: &Statistics) -> bool {
    fn within<T: PartialOrd + Default>(of: &ValueStatistics<T>) -> bool {
        let zero = T::default();
        of.min_opt().is_none_or(|min| *min <= zero) && of.max_opt().is_none_or(|max| *max >= zero)
    }
    match of {
        Statistics::Float(of) => within(of),
        Statistics::Double(of) => within(of),
        _ => true,
    }
}
