//! Partition columns in data files (P156), for readers that know no partition values. Ours use the log's values.

use super::{Kind, TableFeature, View, fine, iceberg_compat, supported};
use crate::actions::{Metadata, Protocol};
use crate::schema::StructType;

/// Whether data files hold the partition columns too: the feature or an Iceberg reader needs them, or the table
/// asks for them without needing the feature.
pub(super) fn in_files(protocol: &Protocol, metadata: &Metadata, schema: &StructType) -> bool {
    let view = View { metadata, schema };
    supported(protocol).contains(FEATURE.name)
        || iceberg_compat::is_active(view)
        || view.is_on("delta.writePartitionColumnsToParquet")
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "materializePartitionColumns",
    kind: Kind::Writer,
    legacy: None,
    requires: &[],
    wanted: |v| v.is_on("delta.enableMaterializePartitionColumnsFeature"),
    refuse_read: fine,
    refuse_write: fine,
};
