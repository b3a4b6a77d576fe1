//! Timestamps without a zone (P150): the type needs the feature.

use super::{Kind, TableFeature, View, fine};
use crate::schema::{DataType, Primitive};

fn holds_ntz(t: &DataType) -> bool {
    match t {
        DataType::Primitive(p) => *p == Primitive::TimestampNtz,
        DataType::Array(a) => holds_ntz(&a.element),
        DataType::Map(m) => holds_ntz(&m.key) || holds_ntz(&m.value),
        DataType::Struct(s) => s.fields().iter().any(|f| holds_ntz(&f.data_type)),
    }
}

fn wanted(v: View<'_>) -> bool {
    v.schema.fields().iter().any(|f| holds_ntz(&f.data_type))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "timestampNtz",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted,
    refuse_read: fine,
    refuse_write: fine,
};
