//! Vacuum protocol check (P150): VACUUM must check the reader and the writer protocol first. It
//! does so for every table, so that the feature needs no code of its own.

use super::hooks::removal::{Removable, Removal};
use super::{Kind, TableFeature};

pub(super) static FEATURE: TableFeature = TableFeature {
    may_appear: true,
    // A duty of those who delete files: old versions are as readable without it.
    removable: Some(Removable::new(Removal::Unused(""))),
    ..TableFeature::new("vacuumProtocolCheck", Kind::ReaderWriter)
};
