//! CHECK constraints (P103): expressions over a row, kept in the table's properties.

use super::{Kind, TableFeature, fine};

pub(super) const PREFIX: &str = "delta.constraints.";

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "checkConstraints",
    kind: Kind::Writer,
    legacy: Some((1, 3)),
    requires: &[],
    wanted: |v| v.metadata.configuration.keys().any(|k| k.starts_with(PREFIX)),
    refuse_read: fine,
    refuse_write: |v| {
        let name = v.metadata.configuration.keys().find_map(|k| k.strip_prefix(PREFIX))?;
        Some(format!(
            "and its constraint `{name}` is an expression that this version can't check"
        ))
    },
};
