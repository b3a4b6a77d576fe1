//! Variant columns (P154): semi-structured values, in files either one binary value or shredded
//! into typed columns. Files of both forms are read whatever the property says, which says how new
//! ones are written.

use super::{Kind, TableFeature, View, never, supported};
use crate::actions::Protocol;
use crate::schema::Primitive;

/// Whether new files have typed columns for variants: the table asks for it, and its readers know
/// them.
fn is_shredded(protocol: &Protocol, view: View<'_>) -> bool {
    let names = supported(protocol);
    (SHREDDING.wanted)(view) && [&SHREDDING, &SHREDDING_PREVIEW].iter().any(|f| names.contains(f.name))
}

pub(super) static TYPE: TableFeature = TableFeature {
    wanted: |v| v.holds(Primitive::Variant),
    example: |e| e.column("any", Primitive::Variant, &[]),
    ..TableFeature::new("variantType", Kind::ReaderWriter)
};

pub(super) static TYPE_PREVIEW: TableFeature = TableFeature {
    name: "variantType-preview",
    aliases: &["variantTypePreview"],
    wanted: never,
    example: |_| {},
    ..TYPE
};

pub(super) static SHREDDING: TableFeature = TableFeature {
    name: "variantShredding",
    wanted: |v| v.is_on("delta.enableVariantShredding"),
    // Old files stay as they are, which all readers of the feature know.
    may_begin: true,
    file_form: |protocol, view, form| form.typed_variants = is_shredded(protocol, view),
    example: |_| {},
    ..TYPE
};

pub(super) static SHREDDING_PREVIEW: TableFeature = TableFeature {
    name: "variantShredding-preview",
    wanted: never,
    example: |_| {},
    ..TYPE
};
