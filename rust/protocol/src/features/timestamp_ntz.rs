//! Timestamps without a zone (P150): the type needs the feature.

use super::{Kind, TableFeature};
use crate::schema::Primitive;

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| v.holds(Primitive::TimestampNtz),
    aliases: &["timestampWithoutTimezone"],
    may_begin: true,
    may_appear: true,
    example: |e| e.column("at", Primitive::TimestampNtz, &[]),
    ..TableFeature::new("timestampNtz", Kind::ReaderWriter)
};
