//! Deletion vectors (P120–P125). Adding and removing whole files is always legal on such a table;
//! a file that carries a vector is refused where its rows are read.

use super::{Kind, TableFeature, fine};

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "deletionVectors",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted: |v| v.is_on("delta.enableDeletionVectors"),
    refuse_read: fine,
    refuse_write: fine,
};
