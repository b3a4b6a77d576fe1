//! CHECK constraints (P103): conditions on rows, stored as table properties.

use super::hooks::removal::{Removable, Removal};
use super::row_rule::RowCheck;
use super::{Kind, TableFeature, View};

const PREFIX: &str = "delta.constraints.";

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((1, 3)),
    wanted: |v| v.metadata.configuration.keys().any(|k| k.starts_with(PREFIX)),
    may_begin: true,
    removable: Some(Removable::new(Removal::Unused(
        "drop every constraint with drop_constraint",
    ))),
    // Constraints are checked before invariants.
    row_rules: |v, rules| {
        rules.checks.splice(0..0, checks(v));
        Ok(())
    },
    example: |e| e.property(&format!("{PREFIX}positive"), "id > 0"),
    ..TableFeature::new("checkConstraints", Kind::Writer)
};

/// The constraints, by name.
fn checks(view: View<'_>) -> Vec<RowCheck> {
    let check = |(key, sql): (&String, &String)| {
        Some(RowCheck {
            name: key.strip_prefix(PREFIX)?.to_owned(),
            sql: sql.clone(),
        })
    };
    view.metadata.configuration.iter().filter_map(check).collect()
}
