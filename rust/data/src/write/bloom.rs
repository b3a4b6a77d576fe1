//! Bloom filters of new files: which leaves get one, and for how many values it has room. The
//! Parquet writer fills them and folds them to the size that their values need.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::bloom_filters::BloomFilter;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::schema_changes::edit::join_path;
use parquet::basic::Type as Physical;
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::properties::{BloomFilterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::WriteSpec;

/// Most bytes of the filters of one unfinished row group: the encoder holds all of them, each with
/// room for every row, so that those of many columns get less room.
const FILTERS_BYTES: usize = 32 << 20;

/// The filters of a file's leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct Filters(Vec<Leaf>);

#[derive(Debug, Clone)]
struct Leaf {
    path: ColumnPath,
    fpp: f64,
    ndv: Option<u64>,
}

impl Filters {
    /// The filters of files with these columns.
    ///
    /// # Errors
    /// `Internal` for a column that the files don't have: the plan of the write refuses it.
    pub(super) fn new(stored: &StructType, spec: &WriteSpec) -> Result<Self> {
        let leaves = spec
            .bloom_filters
            .iter()
            .map(|filter| leaf(stored, spec.mapping, filter));
        leaves.collect::<Result<_>>().map(Filters)
    }

    /// Whether a top-level column or a leaf inside it has a filter.
    pub(super) fn concern(&self, column: &str) -> bool {
        self.0
            .iter()
            .any(|leaf| leaf.path.parts().first().is_some_and(|p| p == column))
    }

    /// Whether a leaf has a filter.
    pub(super) fn has(&self, path: &ColumnPath) -> bool {
        self.0.iter().any(|leaf| leaf.path == *path)
    }

    /// Whether no column has one.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Properties with these filters, for row groups of at most this many rows.
    pub(super) fn applied(&self, to: WriterPropertiesBuilder, rows: usize) -> Result<WriterPropertiesBuilder> {
        let room = FILTERS_BYTES / self.0.len().max(1);
        self.0.iter().try_fold(to, |properties, leaf| {
            let rows = rows.max(1) as u64;
            let values = leaf.ndv.unwrap_or_else(|| rows.min(values_within(room, leaf.fpp)));
            let filter = BloomFilterProperties::builder()
                .with_fpp(leaf.fpp)
                .with_max_ndv(values.min(rows).max(1))
                .try_build()
                .map_err(|e| Error::invalid_argument(format!("a Bloom filter: {e}")))?;
            Ok(properties.set_column_bloom_filter_properties(leaf.path.clone(), filter))
        })
    }
}

/// How many distinct values a filter of this size can hold at this probability of false answers.
fn values_within(bytes: usize, fpp: f64) -> u64 {
    let bits_each = -8.0 / (1.0 - fpp.powf(1.0 / 8.0)).ln();
    ((bytes * 8) as f64 / bits_each) as u64
}

fn leaf(stored: &StructType, mapping: Mapping, filter: &BloomFilter) -> Result<Leaf> {
    let path = mapping.physical_path(stored, &filter.column).ok_or_else(|| {
        let name = join_path(&filter.column);
        Error::internal(format!("a Bloom filter of `{name}`, which the files don't have"))
    })?;
    Ok(Leaf {
        path: ColumnPath::new(path),
        fpp: filter.fpp,
        ndv: filter.ndv,
    })
}

/// Adds the values under which other readers look for floating-point numbers that are stored with
/// other bits: both zeros are equal, and so are all NaN. Spark and DuckDB look for one of them, by
/// its bits.
pub(super) fn make_sound(close: &mut ColumnCloseResult) {
    let double = match close.metadata.column_descr().physical_type() {
        Physical::FLOAT => false,
        Physical::DOUBLE => true,
        _ => return,
    };
    let may_be_nan = close.metadata.statistics().and_then(|s| s.nan_count_opt()) != Some(0);
    let Some(filter) = &mut close.bloom_filter else { return };
    add_equals(filter, double, &[0.0, -0.0], false);
    add_equals(filter, double, &[f64::NAN, -f64::NAN], may_be_nan);
}

/// Adds all of these values if the filter has one of them, or in any case.
// The values are zeros and NaN, which a float has as well.
#[allow(clippy::cast_possible_truncation)]
fn add_equals(filter: &mut Sbbf, double: bool, values: &[f64], always: bool) {
    let has = |v: &f64| match double {
        true => filter.check(v),
        false => filter.check(&(*v as f32)),
    };
    if !always && !values.iter().any(has) {
        return;
    }
    for value in values {
        match double {
            true => filter.insert(value),
            false => filter.insert(&(*value as f32)),
        }
    }
}
