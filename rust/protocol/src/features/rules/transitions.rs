//! Which changes of a table's metadata are legal by themselves: what may be switched on where rows
//! are already (P093, P097), and what may never change back. Features that need work on rows or ids
//! first are refused.

use crate::features::{View, all, column_mapping, deletion_vectors, row_tracking, v2_checkpoint};
use crate::{Error, Result, mapping};

/// Refuses a change of an existing table's metadata that needs more than a commit of the metadata.
///
/// Errors: `UnsupportedFeature` for a feature that can't be switched on so, `InvalidArgument` for
/// one that clashes.
pub fn check_change(before: View<'_>, after: View<'_>) -> Result<()> {
    for f in all().filter(|f| (f.wanted)(after) && !(f.wanted)(before)) {
        if !f.may_begin {
            return Err(Error::unsupported_feature(format!(
                "the table feature {} can't be switched on for a table that exists: create a table with it, or let delta-spark switch it on",
                f.name
            )));
        }
    }
    check_replacement(before, after)
}

/// The same where a commit replaces all rows: no old file is left that a new feature would ask
/// something of.
///
/// Errors: `InvalidArgument` for a feature that clashes with what the table was.
pub fn check_replacement(before: View<'_>, after: View<'_>) -> Result<()> {
    all().try_for_each(|f| (f.check_change)(Some(before), after))
}

/// Whether a table that is replaced as a whole retains a property: a column mapping, which readers
/// of older versions need, and the features' own records. The replacement may still set it.
pub fn outlives_replacement(key: &str, value: &str) -> bool {
    is_lasting(key) || outlives_definition(key, value)
}

/// Whether a property stays with a table that a new definition replaces
/// (`CREATE OR REPLACE TABLE`), as in delta-spark: row tracking, deletion vectors and V2
/// checkpoints stay enabled, and features keep the properties that they wrote themselves. A column
/// mapping goes, since no file of the old definition stays. The definition may name each of them
/// with another value.
pub fn outlives_definition(key: &str, value: &str) -> bool {
    let is_enabled = match key {
        row_tracking::ENABLED | deletion_vectors::PROPERTY => value.eq_ignore_ascii_case("true"),
        v2_checkpoint::POLICY => value == "v2",
        _ => false,
    };
    is_enabled || (is_lasting(key) && ![mapping::MODE, column_mapping::MAX_ID].contains(&key))
}

fn is_lasting(key: &str) -> bool {
    all().any(|feature| feature.lasting_properties.contains(&key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features::tests::with;
    use crate::schema::{Field, Primitive};

    fn change(fields: &[&str], conf: &[(&str, &str)]) -> Result<()> {
        let fields: Vec<Field> = fields.iter().map(|n| Field::new(*n, Primitive::Long, true)).collect();
        with(fields.clone(), &[], |before| {
            with(fields.clone(), conf, |after| check_change(before, after))
        })
    }

    #[test]
    fn what_old_files_satisfy_may_be_switched_on() {
        for key in [
            "appendOnly",
            "enableChangeDataFeed",
            "enableDeletionVectors",
            "enableVariantShredding",
        ] {
            change(&["a"], &[(&format!("delta.{key}"), "true")]).unwrap();
        }
    }

    #[test]
    fn what_needs_rows_or_ids_is_refused_by_name() {
        let mut numbered = Field::new("a", Primitive::Long, true);
        numbered.metadata.insert("delta.identity.start".to_owned(), 1.into());
        let plain = vec![Field::new("a", Primitive::Long, true)];
        let changed = with(plain, &[], |before| {
            with(vec![numbered.clone()], &[], |after| check_change(before, after))
        });
        let e = changed.unwrap_err();
        assert!(e.message().contains("identityColumns"), "{e}");
    }

    #[test]
    fn change_feed_columns_clash() {
        // P133
        let e = change(&["_Commit_Version"], &[("delta.enableChangeDataFeed", "true")]).unwrap_err();
        assert!(e.message().contains("`_Commit_Version` has a name"), "{e}");
        let on = [("delta.enableChangeDataFeed", "true")];
        let column = |name: &str| vec![Field::new(name, Primitive::Long, true)];
        let came = with(column("a"), &on, |before| {
            with(column("_change_type"), &on, |after| check_change(before, after))
        });
        let e = came.unwrap_err();
        assert!(e.message().contains("`_change_type` can't be written"), "{e}");
        change(&["_change_type"], &[]).unwrap();
    }
}
