//! Variant columns (P154): semi-structured values, in files either one binary value or shredded into
//! typed columns. Files of both forms are read whatever the property says; what is written is unshredded.

use super::{Kind, TableFeature, fine, never};
use crate::schema::Primitive;

pub(super) static TYPE: TableFeature = TableFeature {
    name: "variantType",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted: |v| v.holds(Primitive::Variant),
    refuse_read: fine,
    refuse_write: fine,
};

pub(super) static TYPE_PREVIEW: TableFeature = TableFeature {
    name: "variantType-preview",
    wanted: never,
    ..TYPE
};

pub(super) static SHREDDING: TableFeature = TableFeature {
    name: "variantShredding",
    wanted: |v| v.is_on("delta.enableVariantShredding"),
    ..TYPE
};

pub(super) static SHREDDING_PREVIEW: TableFeature = TableFeature {
    name: "variantShredding-preview",
    wanted: never,
    ..TYPE
};
