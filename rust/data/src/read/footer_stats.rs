//! Statistics of whole columns from a Parquet footer: minimum, maximum and null count, where the
//! footer covers all rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{concat, filter, is_not_null};
use arrow::datatypes::Int64Type;
use deltaplane_error::Result;
use deltaplane_protocol::schema::{DataType, Primitive};
use parquet::basic::Type as Physical;
use parquet::file::metadata::ParquetMetaData;

use super::part_stats::{Leaf, LeafStats};
use super::plan::{FilePlan, Prepared};
use super::{FileRead, ReadSpec};

/// Writers that never truncate bounds, although their footers lack the newer flag that says so.
const WHOLE_BOUNDS: &str = "parquet-mr";

/// Statistics of a column.
pub(crate) struct ColumnStats {
    /// Least and greatest value of each row group, where known.
    pub bounds: ArrayRef,
    /// Number of null rows.
    pub nulls: u64,
}

/// The file's rows, and for each column of this read its statistics from the footer; `None` where
/// only the rows can tell, as for floats, whose bounds leave NaN out.
pub(crate) fn column_stats(
    footer: &Arc<ParquetMetaData>,
    file: &FileRead,
    spec: &ReadSpec,
) -> Result<(u64, Vec<Option<ColumnStats>>)> {
    let plan = FilePlan::new(Arc::new(Prepared::new(spec)?), file, footer.clone())?;
    let rows = u64::try_from(footer.file_metadata().num_rows()).unwrap_or(0);
    let columns = spec.output_fields()?.into_iter().map(|field| {
        let path = [spec.mapping.physical_name(field).to_owned()];
        let leaf = is_ordered(&field.data_type)
            .then(|| Leaf::find(&plan, &path))
            .flatten()?;
        whole(footer, &leaf, &leaf.of_groups(&plan)?)
    });
    Ok((rows, columns.collect()))
}

/// Whether Parquet orders all values of the type as the table does.
fn is_ordered(ty: &DataType) -> bool {
    use Primitive as P;
    matches!(
        ty,
        DataType::Primitive(
            P::Byte
                | P::Short
                | P::Integer
                | P::Long
                | P::Date
                | P::Timestamp
                | P::TimestampNtz
                | P::Decimal { .. }
                | P::String
        )
    )
}

/// The statistics of the whole column, if those of the row groups determine them.
fn whole(footer: &ParquetMetaData, leaf: &Leaf, stats: &LeafStats) -> Option<ColumnStats> {
    let nulls = stats.nulls.as_primitive_opt::<Int64Type>()?;
    let by_whole = footer
        .file_metadata()
        .created_by()
        .is_some_and(|writer| writer.starts_with(WHOLE_BOUNDS));
    let mut all_nulls = 0;
    for (place, group) in footer.row_groups().iter().enumerate() {
        let count = nulls.is_valid(place).then(|| nulls.value(place))?;
        let column = group.columns().get(leaf.index)?;
        let is_text = column.column_type() == Physical::BYTE_ARRAY;
        let is_exact = column
            .statistics()
            .is_some_and(|s| s.min_is_exact() && s.max_is_exact());
        let is_bounded = stats.min.is_valid(place) && stats.max.is_valid(place) && (!is_text || by_whole || is_exact);
        if count != group.num_rows() && !is_bounded {
            return None;
        }
        all_nulls += u64::try_from(count).ok()?;
    }
    let both = concat(&[stats.min.as_ref(), stats.max.as_ref()]).ok()?;
    let bounds = filter(&both, &is_not_null(&both).ok()?).ok()?;
    Some(ColumnStats {
        bounds,
        nulls: all_nulls,
    })
}
