//! Vacuum protocol check (P150): VACUUM must check the reader and the writer protocol first. It does so for every table, so that
//! the feature needs no code of its own.

use super::{Kind, TableFeature, fine, never};

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "vacuumProtocolCheck",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted: never,
    refuse_read: fine,
    refuse_write: fine,
};
