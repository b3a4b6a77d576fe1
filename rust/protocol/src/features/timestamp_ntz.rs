//! Timestamps without a zone (P150): the type needs the feature.

use super::{Kind, TableFeature, fine};
use crate::schema::Primitive;

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "timestampNtz",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted: |v| v.holds(Primitive::TimestampNtz),
    refuse_read: fine,
    refuse_write: fine,
};
