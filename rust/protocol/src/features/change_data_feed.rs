//! Change data feed (P130): appends and whole-file removes need no change files, and this build
//! writes nothing else. What a commit changed is in `crate::changes`.

use super::hooks::removal::{Removable, Removal};
use super::{Kind, TableFeature, View};
use crate::actions::Metadata;
use crate::{Error, Result};

const PROPERTY: &str = "delta.enableChangeDataFeed";
/// Columns that the feed adds to rows (P133).
const COLUMNS: [&str; 3] = ["_change_type", "_commit_version", "_commit_timestamp"];

/// Whether changes are recorded while the table has this metadata (P132).
pub fn is_on(m: &Metadata) -> bool {
    m.configuration
        .get(PROPERTY)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// Refuses a table that has the feed on and columns with the names that the feed adds to rows
/// (P133). `before` is the table before the change, if it existed.
///
/// # Errors
/// `InvalidArgument` that says whether the change adds the column or the feed.
pub fn check_columns(before: Option<View<'_>>, after: View<'_>) -> Result<()> {
    if !is_on(after.metadata) {
        return Ok(());
    }
    let Some(field) = COLUMNS.iter().find_map(|c| after.schema.field_ignore_case(c)) else {
        return Ok(());
    };
    let name = &field.name;
    Err(Error::invalid_argument(
        match before.is_some_and(|v| is_on(v.metadata)) {
            true => format!(
                "the column `{name}` can't be written: the table's change data feed needs its name for itself (P133): rename or drop it, or set {PROPERTY} to false"
            ),
            false => format!(
                "column `{name}` has a name that the change data feed needs for itself (P133): rename it, or leave {PROPERTY} off"
            ),
        },
    ))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((1, 4)),
    wanted: |v| is_on(v.metadata),
    may_begin: true,
    may_appear: true,
    check_change: check_columns,
    removable: Some(Removable::new(Removal::Properties(&[PROPERTY]))),
    ..TableFeature::new("changeDataFeed", Kind::Writer)
};
