//! Converts variants of files and users to the common form of a variant's rows: metadata and value,
//! both binary (P154). Shredded variants, which have typed columns besides the value, are
//! reassembled.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryBuilder, StructArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use chrono::{DateTime, NaiveDate, NaiveTime};
use parquet_variant::{
    ObjectFieldBuilder, Variant, VariantBuilder, VariantBuilderExt, VariantDecimal4, VariantDecimal8, VariantDecimal16,
    VariantMetadata,
};
use uuid::Uuid;

type Result<T> = std::result::Result<T, ArrowError>;

pub(crate) const METADATA: &str = "metadata";
pub(crate) const VALUE: &str = "value";
pub(crate) const TYPED: &str = "typed_value";

/// Whether a struct can hold variants: metadata, a value in one or both forms, and nothing else.
pub(crate) fn is_variant(fields: &Fields) -> bool {
    let has = |name: &str| fields.iter().any(|f| f.name() == name);
    let known = fields
        .iter()
        .all(|f| [METADATA, VALUE, TYPED].contains(&f.name().as_str()));
    known && has(METADATA) && (has(VALUE) || has(TYPED))
}

/// Whether some of the values may be in typed columns.
pub(crate) fn is_shredded(fields: &Fields) -> bool {
    fields.iter().any(|f| f.name() == TYPED)
}

/// Shredded variants as a struct of these two fields.
pub(crate) fn unshred(array: &ArrayRef, fields: &Fields) -> Result<ArrayRef> {
    let group = array.as_struct_opt().ok_or_else(|| malformed("isn't a struct"))?;
    let of_rows = group
        .column_by_name(METADATA)
        .ok_or_else(|| malformed("has no metadata"))?;
    let (mut metadata, mut value) = (BinaryBuilder::new(), BinaryBuilder::new());
    for row in 0..group.len() {
        if group.is_null(row) {
            metadata.append_null();
            value.append_null();
            continue;
        }
        let names = binary(of_rows, row)?.ok_or_else(|| malformed("has no metadata"))?;
        let mut builder = VariantBuilder::new();
        append(&mut builder, &VariantMetadata::try_new(names)?, group, row)?;
        let (m, v) = builder.try_finish()?;
        metadata.append_value(m);
        value.append_value(v);
    }
    let (metadata, value) = (metadata.finish(), value.finish());
    let columns = fields.iter().map(|f| -> ArrayRef {
        if f.name() == METADATA {
            Arc::new(metadata.clone())
        } else {
            Arc::new(value.clone())
        }
    });
    let whole = StructArray::try_new(fields.clone(), columns.collect(), group.nulls().cloned())?;
    Ok(Arc::new(whole))
}

fn malformed(what: &str) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("a shredded variant {what}"))
}

/// Appends the value of a group of `value` and `typed_value`. A field of an object with neither is
/// missing; any other value with neither is a variant null.
fn append(
    out: &mut impl VariantBuilderExt,
    names: &VariantMetadata<'_>,
    group: &StructArray,
    row: usize,
) -> Result<()> {
    if group.is_null(row) {
        out.append_null();
        return Ok(());
    }
    let bytes = match group.column_by_name(VALUE) {
        Some(values) => binary(values, row)?,
        None => None,
    };
    let rest = bytes
        .map(|b| Variant::try_new_with_metadata(names.clone(), b))
        .transpose()?;
    match (group.column_by_name(TYPED).filter(|t| t.is_valid(row)), rest) {
        (None, None) => out.append_null(),
        (None, Some(v)) => out.append_value(v),
        (Some(typed), rest) => append_typed(out, names, typed, rest, row)?,
    }
    Ok(())
}

fn append_typed(
    out: &mut impl VariantBuilderExt,
    names: &VariantMetadata<'_>,
    typed: &ArrayRef,
    rest: Option<Variant<'_, '_>>,
    row: usize,
) -> Result<()> {
    if let Some(fields) = typed.as_struct_opt() {
        return append_object(out, names, fields, rest, row);
    }
    if rest.is_some() {
        return Err(malformed("has two values in one place"));
    }
    let Some(list) = typed.as_list_opt::<i32>() else {
        out.append_value(primitive(typed, row)?);
        return Ok(());
    };
    let elements = list.value(row);
    let elements = elements.as_struct_opt().ok_or_else(|| malformed("has bare elements"))?;
    let mut items = out.try_new_list()?;
    for i in 0..elements.len() {
        append(&mut items, names, elements, i)?;
    }
    items.finish();
    Ok(())
}

/// The fields that have columns of their own, then those that don't.
fn append_object(
    out: &mut impl VariantBuilderExt,
    names: &VariantMetadata<'_>,
    fields: &StructArray,
    rest: Option<Variant<'_, '_>>,
    row: usize,
) -> Result<()> {
    let mut object = out.try_new_object()?;
    for (field, column) in fields.fields().iter().zip(fields.columns()) {
        let group = column.as_struct_opt().ok_or_else(|| malformed("has bare fields"))?;
        append(
            &mut ObjectFieldBuilder::new(field.name(), &mut object),
            names,
            group,
            row,
        )?;
    }
    match rest {
        None => {}
        Some(Variant::Object(rest)) => {
            for entry in rest.iter_try() {
                let (name, value) = entry?;
                if fields.column_by_name(name).is_some() {
                    return Err(malformed("has a field twice"));
                }
                object.try_insert(name, value)?;
            }
        }
        Some(_) => return Err(malformed("has two values in one place")),
    }
    object.finish();
    Ok(())
}

/// The bytes of a row, `None` for null.
fn binary(array: &ArrayRef, row: usize) -> Result<Option<&[u8]>> {
    if array.is_null(row) {
        return Ok(None);
    }
    let bytes = match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        other => return Err(malformed(&format!("has {other} where bytes belong"))),
    };
    Ok(Some(bytes))
}

fn at<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn primitive(array: &ArrayRef, row: usize) -> Result<Variant<'_, '_>> {
    let range = || malformed("has a value out of range");
    Ok(match array.data_type() {
        DataType::Boolean => Variant::from(array.as_boolean().value(row)),
        DataType::Int8 => Variant::Int8(at::<Int8Type>(array, row)),
        DataType::Int16 => Variant::Int16(at::<Int16Type>(array, row)),
        DataType::Int32 => Variant::Int32(at::<Int32Type>(array, row)),
        DataType::Int64 => narrowest(at::<Int64Type>(array, row)),
        DataType::Float32 => Variant::Float(at::<Float32Type>(array, row)),
        DataType::Float64 => Variant::Double(at::<Float64Type>(array, row)),
        DataType::Decimal128(precision, scale) => decimal(at::<Decimal128Type>(array, row), *precision, *scale)?,
        DataType::Date32 => {
            let days = at::<Date32Type>(array, row).checked_add(719_163).ok_or_else(range)?;
            Variant::Date(NaiveDate::from_num_days_from_ce_opt(days).ok_or_else(range)?)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let time = DateTime::from_timestamp_micros(at::<TimestampMicrosecondType>(array, row)).ok_or_else(range)?;
            match zone {
                Some(_) => Variant::TimestampMicros(time),
                None => Variant::TimestampNtzMicros(time.naive_utc()),
            }
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let time = DateTime::from_timestamp_nanos(at::<TimestampNanosecondType>(array, row));
            match zone {
                Some(_) => Variant::TimestampNanos(time),
                None => Variant::TimestampNtzNanos(time.naive_utc()),
            }
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let micros = at::<Time64MicrosecondType>(array, row);
            let seconds = u32::try_from(micros / 1_000_000).map_err(|_| range())?;
            let nanos = u32::try_from(micros % 1_000_000 * 1_000).map_err(|_| range())?;
            Variant::Time(NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos).ok_or_else(range)?)
        }
        DataType::Utf8 => Variant::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Variant::from(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Variant::from(array.as_string_view().value(row)),
        DataType::FixedSizeBinary(16) => {
            let bytes = array.as_fixed_size_binary().value(row);
            Variant::Uuid(Uuid::from_slice(bytes).map_err(|_| range())?)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Variant::Binary(binary(array, row)?.unwrap_or_default())
        }
        other => return Err(malformed(&format!("has a column of the type {other}"))),
    })
}

/// Writers store integers of all widths in one column: the smallest width restores the original,
/// and is Spark's result.
fn narrowest(v: i64) -> Variant<'static, 'static> {
    let narrow = i8::try_from(v).map(Variant::Int8);
    let narrow = narrow.or_else(|_| i16::try_from(v).map(Variant::Int16));
    let narrow = narrow.or_else(|_| i32::try_from(v).map(Variant::Int32));
    narrow.unwrap_or(Variant::Int64(v))
}

fn decimal(v: i128, precision: u8, scale: i8) -> Result<Variant<'static, 'static>> {
    let range = |_| malformed("has a decimal out of range");
    let scale = u8::try_from(scale).map_err(range)?;
    Ok(match precision {
        ..=9 => VariantDecimal4::try_new(i32::try_from(v).map_err(range)?, scale)?.into(),
        10..=18 => VariantDecimal8::try_new(i64::try_from(v).map_err(range)?, scale)?.into(),
        _ => VariantDecimal16::try_new(v, scale)?.into(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{BinaryArray, Int64Array, ListArray, StringArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::Field;

    use super::*;

    fn structure(columns: Vec<(&str, ArrayRef)>) -> StructArray {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns
            .into_iter()
            .map(|(n, a)| (Field::new(n, a.data_type().clone(), true), a))
            .unzip();
        StructArray::new(fields.into(), arrays, None)
    }

    fn group(value: Option<ArrayRef>, typed: ArrayRef) -> ArrayRef {
        let value = value.map(|v| (VALUE, v));
        Arc::new(structure(value.into_iter().chain([(TYPED, typed)]).collect()))
    }

    fn rows(array: &ArrayRef) -> Vec<Option<Variant<'_, '_>>> {
        let s = array.as_struct();
        let (m, v) = (s.column(0).as_binary::<i32>(), s.column(1).as_binary::<i32>());
        let variant_at = |i: usize| s.is_valid(i).then(|| Variant::try_new(m.value(i), v.value(i)).unwrap());
        (0..s.len()).map(variant_at).collect()
    }

    fn target() -> Fields {
        vec![
            Field::new(METADATA, DataType::Binary, false),
            Field::new(VALUE, DataType::Binary, false),
        ]
        .into()
    }

    #[test]
    fn objects_lists_and_rests_become_one_value() {
        // P154: {a: int64 or else, l: list of strings}, and what has no column of its own
        let mut rest = VariantBuilder::new();
        rest.new_object().with_field("b", true).finish();
        let (names, rest) = rest.finish();
        let (_, text) = VariantBuilder::new().with_value("plain").finish();
        let lists = ListArray::new(
            Arc::new(Field::new(
                "element",
                group(None, Arc::new(StringArray::from(vec!["x"]))).data_type().clone(),
                true,
            )),
            OffsetBuffer::from_lengths([2, 0, 0]),
            group(None, Arc::new(StringArray::from(vec![Some("x"), None]))),
            None,
        );
        let object = structure(vec![
            ("a", group(None, Arc::new(Int64Array::from(vec![Some(7), None, None])))),
            ("l", group(None, Arc::new(lists))),
        ]);
        let (fields, columns, _) = object.into_parts();
        let object = StructArray::new(fields, columns, Some(NullBuffer::from(vec![true, false, false])));
        let whole = structure(vec![
            (METADATA, Arc::new(BinaryArray::from_iter_values([&names; 3]))),
            (
                VALUE,
                Arc::new(BinaryArray::from_opt_vec(vec![Some(&rest), Some(&text), None])),
            ),
            (TYPED, Arc::new(object)),
        ]);
        let made = unshred(&(Arc::new(whole) as ArrayRef), &target()).unwrap();
        let mut expected = VariantBuilder::new();
        let mut object = expected.new_object();
        object.insert("a", 7_i8);
        let mut list = object.new_list("l");
        list.append_value("x");
        list.append_value(Variant::Null);
        list.finish();
        object.insert("b", true);
        object.finish();
        let (m, v) = expected.finish();
        assert_eq!(
            rows(&made),
            [
                Some(Variant::try_new(&m, &v).unwrap()),
                Some(Variant::from("plain")),
                Some(Variant::Null)
            ]
        );
    }

    #[test]
    fn what_breaks_the_rules_is_an_error() {
        let (names, value) = VariantBuilder::new().with_value(1_i8).finish();
        let both = structure(vec![
            (METADATA, Arc::new(BinaryArray::from_iter_values([&names]))),
            (VALUE, Arc::new(BinaryArray::from_iter_values([&value]))),
            (TYPED, Arc::new(Int64Array::from(vec![1]))),
        ]);
        assert!(unshred(&(Arc::new(both) as ArrayRef), &target()).is_err());
        let odd = structure(vec![
            (METADATA, Arc::new(BinaryArray::from_iter_values([b"\xff\xff"]))),
            (TYPED, Arc::new(Int64Array::from(vec![1]))),
        ]);
        assert!(unshred(&(Arc::new(odd) as ArrayRef), &target()).is_err());
    }
}
