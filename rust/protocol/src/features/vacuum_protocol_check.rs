//! Vacuum protocol check (P150): a duty of VACUUM alone, which this build doesn't have.

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
