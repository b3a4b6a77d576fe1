//! Append-only tables: no remove may change rows while the property is on (P100).

use super::hooks::removal::{Removable, Removal};
use super::{Kind, TableFeature};

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((1, 2)),
    wanted: |v| v.is_on("delta.appendOnly"),
    in_new_tables: true,
    may_begin: true,
    may_appear: true,
    removable: Some(Removable::new(Removal::Properties(&["delta.appendOnly"]))),
    ..TableFeature::new("appendOnly", Kind::Writer)
};
