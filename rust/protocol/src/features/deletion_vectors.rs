//! Deletion vectors (P120–P125): the codec is `crate::deletion_vectors`. Vectors are applied
//! wherever rows are read, whatever the property says; adding and removing whole files is always
//! legal on such a table.

use super::hooks::removal::{FeatureUsage, Removable, Removal};
use super::hooks::safe_property::{safe, switched_on};
use super::{Kind, TableFeature, supported};
use crate::actions::{Action, Metadata, Protocol};
use crate::{Error, Result};

pub(crate) const PROPERTY: &str = "delta.enableDeletionVectors";

/// Whether files of such a table may carry vectors.
pub fn may_have_vectors(p: &Protocol) -> bool {
    supported(p).contains(FEATURE.name)
}

/// Refuses to write new vectors where the table doesn't want them (P121).
pub fn check_may_mark(p: &Protocol, m: &Metadata) -> Result<()> {
    let on = m
        .configuration
        .get(PROPERTY)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"));
    if on && may_have_vectors(p) {
        return Ok(());
    }
    Err(Error::invalid_argument(
        "the table takes no new deletion vectors: set delta.enableDeletionVectors = true first, or rewrite its files",
    ))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| v.is_on(PROPERTY),
    may_begin: true,
    may_appear: true,
    safe_properties: &[safe(PROPERTY, switched_on)],
    removable: Some(Removable {
        usage: FeatureUsage::Vectors,
        uses: Some(|a| match a {
            Action::Add(add) => add.deletion_vector.is_some(),
            Action::Remove(remove) => remove.deletion_vector.is_some(),
            _ => false,
        }),
        ..Removable::new(Removal::Properties(&[PROPERTY]))
    }),
    ..TableFeature::new("deletionVectors", Kind::ReaderWriter)
};
