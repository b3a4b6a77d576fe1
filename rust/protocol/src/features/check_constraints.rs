//! CHECK constraints (P103): expressions over a row, kept in the table's properties.

use super::row_rule::RowCheck;
use super::{Kind, TableFeature, View, fine};

pub(super) const PREFIX: &str = "delta.constraints.";

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "checkConstraints",
    kind: Kind::Writer,
    legacy: Some((1, 3)),
    requires: &[],
    wanted: |v| v.metadata.configuration.keys().any(|k| k.starts_with(PREFIX)),
    refuse_read: fine,
    refuse_write: fine,
};

/// The constraints, by name.
pub(super) fn checks(view: View<'_>) -> Vec<RowCheck> {
    let check = |(key, sql): (&String, &String)| {
        Some(RowCheck {
            name: key.strip_prefix(PREFIX)?.to_owned(),
            sql: sql.clone(),
        })
    };
    view.metadata.configuration.iter().filter_map(check).collect()
}
