//! Variant columns (P154): semi-structured values, in files either one binary value or shredded into
//! typed columns. Files of both forms are read whatever the property says, which says how new ones are written.

use super::{Kind, TableFeature, View, fine, never, supported};
use crate::actions::{Metadata, Protocol};
use crate::schema::{Primitive, StructType};

/// Whether new files have typed columns for variants: the table asks for it, and its readers know them.
pub(super) fn is_shredded(protocol: &Protocol, metadata: &Metadata, schema: &StructType) -> bool {
    let names = supported(protocol);
    let view = View { metadata, schema };
    (SHREDDING.wanted)(view) && [&SHREDDING, &SHREDDING_PREVIEW].iter().any(|f| names.contains(f.name))
}

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
