//! Deletion vectors (P120–P125): the codec is `crate::deletion_vectors`. Vectors are applied wherever rows are
//! read, whatever the property says; adding and removing whole files is always legal on such a table.

use super::{Kind, TableFeature, fine, supported};
use crate::actions::{Metadata, Protocol};
use crate::{Error, Result};

pub(super) const PROPERTY: &str = "delta.enableDeletionVectors";

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
    name: "deletionVectors",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted: |v| v.is_on(PROPERTY),
    refuse_read: fine,
    refuse_write: fine,
};
