//! Partition columns in data files (P156), for readers that don't use partition values of the log.
//! Our reader uses the log's values.

use super::{Kind, TableFeature, View, iceberg_compat, supported};
use crate::actions::Protocol;

/// Whether data files hold the partition columns too: the feature or an Iceberg reader needs them,
/// or the table asks for them without needing the feature.
fn in_files(protocol: &Protocol, view: View<'_>) -> bool {
    supported(protocol).contains(FEATURE.name)
        || iceberg_compat::is_active(view)
        || view.is_on("delta.writePartitionColumnsToParquet")
}

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| v.is_on("delta.enableMaterializePartitionColumnsFeature"),
    may_begin: true,
    file_form: |protocol, view, form| form.partition_columns = in_files(protocol, view),
    ..TableFeature::new("materializePartitionColumns", Kind::Writer)
};
