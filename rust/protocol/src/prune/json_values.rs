//! Columns of values from JSON scalars. Dispatches on the type once per batch, not per value.

use std::borrow::Cow;

use arrow::array::ArrayRef;

use super::json_scalar;
use crate::Result;
use crate::expr::scalar::{Scalar, ScalarBuilder};
use crate::schema::Primitive;

/// Converts a bound's JSON to a value of the leaf's type, unless that is a string; true for an
/// upper bound.
pub(super) type ReadBound = fn(&str, Primitive, bool) -> Option<Scalar>;

/// A column of bounds being built.
pub(super) struct JsonValues {
    ty: Primitive,
    /// Whether they are upper bounds.
    up: bool,
    values: ScalarBuilder,
}

impl JsonValues {
    /// Without values, with room for some.
    pub(super) fn new(ty: Primitive, up: bool, room: usize) -> Self {
        JsonValues {
            ty,
            up,
            values: ScalarBuilder::new(ty, room),
        }
    }

    /// Appends values. Values that aren't simple are read by `read`.
    pub(super) fn extend<'a>(&mut self, raw: impl Iterator<Item = Option<&'a str>>, read: ReadBound) {
        let (ty, up) = (self.ty, self.up);
        let other = |raw: &str| read(raw, ty, up);
        let whole = |raw: &str| match other(raw)? {
            Scalar::Integer(v) | Scalar::Timestamp(v) => Some(v),
            Scalar::Date(days) => Some(days.into()),
            _ => None,
        };
        let values = &mut self.values;
        match ty {
            Primitive::String => values.extend_texts(raw.map(|raw| json_text(raw?))),
            // A value out of range becomes null.
            Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long => {
                values.extend_whole(raw.map(|raw| json_scalar::long(raw?).or_else(|| whole(raw?))));
            }
            Primitive::Date => values.extend_whole(raw.map(|raw| json_scalar::date(raw?).or_else(|| whole(raw?)))),
            Primitive::Timestamp => {
                values.extend_whole(raw.map(|raw| json_scalar::instant(raw?).or_else(|| whole(raw?))));
            }
            Primitive::TimestampNtz => {
                values.extend_whole(raw.map(|raw| json_scalar::local_time(raw?).or_else(|| whole(raw?))));
            }
            Primitive::Double => {
                let double = |raw: &str| match other(raw)? {
                    Scalar::Double(v) => Some(v),
                    _ => None,
                };
                values.extend_doubles(raw.map(|raw| json_scalar::double(raw?).or_else(|| double(raw?))));
            }
            Primitive::Decimal { precision, scale } => {
                let (precision, scale) = (precision.into(), usize::try_from(scale).ok());
                let decimal = |raw: &str| match other(raw)? {
                    Scalar::Decimal(v) => Some(v),
                    _ => None,
                };
                let plain = |raw: &str| json_scalar::decimal(raw, precision, scale?);
                values.extend_decimals(raw.map(|raw| plain(raw?).or_else(|| decimal(raw?))));
            }
            Primitive::Boolean | Primitive::Float | Primitive::Binary | Primitive::Void | Primitive::Variant => {
                raw.for_each(|raw| values.append(raw.and_then(other).as_ref()));
            }
        }
    }

    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        self.values.finish()
    }
}

/// The decoded text of a JSON string; `None` for other values.
pub(super) fn json_text(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes() {
        [b'"', inside @ .., b'"'] if !inside.contains(&b'\\') => raw.get(1..raw.len() - 1).map(Cow::Borrowed),
        [b'"', ..] => serde_json::from_str(raw).ok().map(Cow::Owned),
        _ => None,
    }
}
