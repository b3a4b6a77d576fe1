//! Converts Arrow arrays to the row type of a Delta column without loss: planned once per schema,
//! then applied to every batch. Fields are matched by name; knows neither files nor tables.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, filter};
use arrow::datatypes::{
    DataType as ArrowType, FieldRef, Fields, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{DataType, Field, Primitive};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::hidden_values::shown_offsets;
use crate::types::row_type;
use crate::variant;

/// The differences between types that are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// A data file's column, named as the mapping says: physical variants and widened types (P182);
    /// unknown fields are ignored.
    File(Mapping),
    /// A user's column: conversions that keep every value; unknown fields are refused.
    User,
}

impl Rules {
    fn is_file(self) -> bool {
        matches!(self, Rules::File(_))
    }

    /// Whether equal types imply equal columns: under column mapping a field in a file may have
    /// another field's name.
    fn names_are_true(self) -> bool {
        matches!(self, Rules::User | Rules::File(Mapping::None))
    }

    fn find(self, fields: &Fields, field: &Field) -> Option<usize> {
        match self {
            Rules::User => find_name(fields, &field.name),
            Rules::File(mapping) => find_column(fields, field, mapping),
        }
    }
}

/// Why a column can't be converted.
#[derive(Debug)]
pub(crate) enum Mismatch {
    /// The types don't fit.
    Type {
        column: String,
        expected: String,
        actual: String,
    },
    /// The user's struct has a field that the table's doesn't.
    Extra { column: String },
    /// Two of the user's names are equal when case is ignored.
    Ambiguous { column: String },
}

/// How to convert an array of one type.
#[derive(Debug, Clone)]
pub(crate) enum Convert {
    /// The array has the type already.
    Same,
    /// A null for every row, of this type.
    Null(ArrowType),
    /// Arrow's cast to this type; a value that doesn't fit is an error.
    Cast(ArrowType),
    /// The same microseconds under another zone.
    Relabel(ArrowType),
    /// Nanoseconds to microseconds, then the zone; `exact` refuses to truncate.
    Nanos { to: ArrowType, exact: bool },
    /// One after the other.
    Then(Box<Convert>, Box<Convert>),
    /// A struct, field by field.
    Struct(Fields, Vec<Child>),
    /// Shredded variants.
    Unshred(Fields),
    /// A list.
    List(FieldRef, Box<Convert>),
    /// A map: its field, key, value.
    Map(FieldRef, Box<Convert>, Box<Convert>),
}

/// The source of a struct's field.
#[derive(Debug, Clone)]
pub(crate) enum Child {
    /// Field at this position of the source.
    At(usize, Convert),
    /// Not in the source: nulls of this type.
    Missing(ArrowType),
}

impl Convert {
    /// Plans the conversion of arrays of type `from` to rows of type `to`; `path` names the column
    /// in errors.
    pub(crate) fn new(from: &ArrowType, to: &DataType, rules: Rules, path: &str) -> Result<Convert, Mismatch> {
        let target = row_type(to);
        if *from == target && (rules.names_are_true() || !from.is_nested()) {
            return Ok(Convert::Same);
        }
        match from {
            ArrowType::Null => return Ok(Convert::Null(target)),
            ArrowType::Dictionary(_, value) => return unpack(value.as_ref().clone(), to, rules, path),
            ArrowType::RunEndEncoded(_, value) => return unpack(value.data_type().clone(), to, rules, path),
            ArrowType::LargeList(e)
            | ArrowType::ListView(e)
            | ArrowType::LargeListView(e)
            | ArrowType::FixedSizeList(e, _) => {
                return unpack(ArrowType::List(e.clone()), to, rules, path);
            }
            _ => {}
        }
        let mismatch = || Mismatch::Type {
            column: path.to_owned(),
            expected: to.to_string(),
            actual: from.to_string(),
        };
        match (from, to, &target) {
            (_, DataType::Primitive(Primitive::Void), _) if rules.is_file() => Ok(Convert::Null(target)),
            (ArrowType::Struct(fields), DataType::Struct(s), ArrowType::Struct(out)) => {
                let children = s.fields().iter().map(|f| (rules.find(fields, f), &f.data_type));
                struct_convert(fields, children, out, rules, path)
            }
            (ArrowType::Struct(fields), DataType::Primitive(Primitive::Variant), ArrowType::Struct(out)) => {
                if !variant::is_variant(fields) {
                    return Err(mismatch());
                }
                if variant::is_shredded(fields) {
                    return Ok(Convert::Unshred(out.clone()));
                }
                let binary = DataType::Primitive(Primitive::Binary);
                let children = out.iter().map(|o| (find_name(fields, o.name()), &binary));
                struct_convert(fields, children, out, rules, path)
            }
            (ArrowType::List(e), DataType::Array(a), ArrowType::List(out)) => {
                let child = Convert::new(e.data_type(), &a.element, rules, &format!("{path}.element"))?;
                Ok(Convert::List(out.clone(), Box::new(child)))
            }
            (ArrowType::Map(entries, _), DataType::Map(m), ArrowType::Map(out, _)) => {
                let ArrowType::Struct(kv) = entries.data_type() else {
                    return Err(mismatch());
                };
                let [key, value] = kv.as_ref() else {
                    return Err(mismatch());
                };
                let key = Convert::new(key.data_type(), &m.key, rules, &format!("{path}.key"))?;
                let value = Convert::new(value.data_type(), &m.value, rules, &format!("{path}.value"))?;
                Ok(Convert::Map(out.clone(), Box::new(key), Box::new(value)))
            }
            (_, DataType::Primitive(p), _) => primitive(from, *p, &target, rules).ok_or_else(mismatch),
            _ => Err(mismatch()),
        }
    }

    /// The converted array.
    pub(crate) fn apply(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self {
            Convert::Same => Ok(array.clone()),
            Convert::Null(t) => Ok(new_null_array(t, array.len())),
            Convert::Cast(t) => cast_with_options(
                array,
                t,
                &CastOptions {
                    safe: false,
                    ..Default::default()
                },
            ),
            Convert::Relabel(t) => relabel(array, t),
            Convert::Nanos { to, exact } => nanos(array, to, *exact),
            Convert::Then(first, second) => second.apply(&first.apply(array)?),
            Convert::Struct(fields, children) => structs(array, fields, children),
            Convert::Unshred(fields) => variant::unshred(array, fields),
            Convert::List(field, child) => {
                let list = array.as_list_opt::<i32>().ok_or_else(unexpected)?;
                let values = child.apply(list.values())?;
                Ok(Arc::new(ListArray::try_new(
                    field.clone(),
                    list.offsets().clone(),
                    values,
                    list.nulls().cloned(),
                )?))
            }
            Convert::Map(field, key, value) => maps(array, field, key, value),
        }
    }
}

fn unpack(value: ArrowType, to: &DataType, rules: Rules, path: &str) -> Result<Convert, Mismatch> {
    let rest = Convert::new(&value, to, rules, path)?;
    Ok(Convert::Then(Box::new(Convert::Cast(value)), Box::new(rest)))
}

/// The position of a name: an exact match, or the only match that ignores case.
pub(crate) fn find_name(fields: &Fields, name: &str) -> Option<usize> {
    fields.iter().position(|f| f.name() == name).or_else(|| {
        let lower = name.to_lowercase();
        fields.iter().position(|f| f.name().to_lowercase() == lower)
    })
}

/// The position of a table's field among a file's, as the mapping says (P113).
pub(crate) fn find_column(fields: &Fields, field: &Field, mapping: Mapping) -> Option<usize> {
    match mapping {
        Mapping::None | Mapping::Name => find_name(fields, mapping.physical_name(field)),
        Mapping::Id => {
            let id = mapping.id(field)?;
            fields.iter().position(|f| field_id(f) == Some(id))
        }
    }
}

/// The id that a file gives to a column.
pub(crate) fn field_id(f: &FieldRef) -> Option<i32> {
    f.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// `to` has the position in `from` and the type of each field of `out`.
fn struct_convert<'a>(
    from: &Fields,
    to: impl Iterator<Item = (Option<usize>, &'a DataType)>,
    out: &Fields,
    rules: Rules,
    path: &str,
) -> Result<Convert, Mismatch> {
    let mut used = vec![false; from.len()];
    let mut children = Vec::with_capacity(out.len());
    for (field, (from_place, t)) in out.iter().zip(to) {
        let source = from_place.and_then(|i| from.get(i).map(|f| (i, f)));
        children.push(match source {
            Some((i, f)) => {
                if let Some(u) = used.get_mut(i) {
                    *u = true;
                }
                Child::At(
                    i,
                    Convert::new(f.data_type(), t, rules, &format!("{path}.{}", field.name()))?,
                )
            }
            None => Child::Missing(field.data_type().clone()),
        });
    }
    if rules == Rules::User
        && let Some((f, _)) = from.iter().zip(&used).find(|(_, used)| !**used)
    {
        let column = format!("{path}.{}", f.name());
        let twin = out.iter().any(|o| o.name().to_lowercase() == f.name().to_lowercase());
        return Err(if twin {
            Mismatch::Ambiguous { column }
        } else {
            Mismatch::Extra { column }
        });
    }
    Ok(Convert::Struct(out.clone(), children))
}

fn primitive(from: &ArrowType, to: Primitive, target: &ArrowType, rules: Rules) -> Option<Convert> {
    use ArrowType as A;
    use Primitive as P;
    let file = rules.is_file();
    let cast = || Some(Convert::Cast(target.clone()));
    match (from, to) {
        (A::LargeUtf8 | A::Utf8View, P::String) => cast(),
        (A::LargeBinary | A::BinaryView | A::FixedSizeBinary(_), P::Binary) => cast(),
        (A::Binary, P::String) | (A::Utf8, P::Binary) if file => cast(),
        (A::Int8 | A::UInt8, P::Short | P::Integer | P::Long) => cast(),
        (A::Int16 | A::UInt16, P::Integer | P::Long) => cast(),
        (A::Int32 | A::UInt32, P::Long) => cast(),
        // A writer may leave out the annotation that a 32-bit integer holds a smaller one.
        (A::Int32, P::Byte | P::Short) if file => cast(),
        (A::Float16, P::Float | P::Double) | (A::Float32, P::Double) => cast(),
        // Type widening (P182): every value of the narrower type is in the wider one.
        (A::Int8 | A::Int16 | A::Int32, P::Double) if file => cast(),
        (A::Int8 | A::Int16 | A::Int32 | A::Int64, P::Decimal { precision, scale }) if file => {
            let digits = if *from == A::Int64 { 20 } else { 10 };
            (i16::from(precision) - i16::from(scale) >= digits).then(|| Convert::Cast(target.clone()))
        }
        (A::UInt64, P::Decimal { precision, scale }) if i16::from(precision) - i16::from(scale) >= 20 => cast(),
        (
            A::Decimal32(p, s) | A::Decimal64(p, s) | A::Decimal128(p, s) | A::Decimal256(p, s),
            P::Decimal { precision, scale },
        ) => {
            let whole = i16::from(precision) - i16::from(scale);
            (scale >= *s && whole >= i16::from(*p) - i16::from(*s)).then(|| Convert::Cast(target.clone()))
        }
        (A::Date64, P::Date) => cast(),
        (A::Date32, P::TimestampNtz) if file => cast(),
        (A::Timestamp(unit, zone), P::Timestamp | P::TimestampNtz) => {
            let zoned = to == P::Timestamp;
            (file || zone.is_some() == zoned).then(|| timestamp(*unit, zone.as_ref(), target, file))
        }
        _ => None,
    }
}

fn timestamp(unit: TimeUnit, zone: Option<&Arc<str>>, target: &ArrowType, file: bool) -> Convert {
    match unit {
        TimeUnit::Microsecond => Convert::Relabel(target.clone()),
        TimeUnit::Nanosecond => Convert::Nanos {
            to: target.clone(),
            exact: !file,
        },
        TimeUnit::Second | TimeUnit::Millisecond => {
            let micros = ArrowType::Timestamp(TimeUnit::Microsecond, zone.cloned());
            Convert::Then(
                Box::new(Convert::Cast(micros)),
                Box::new(Convert::Relabel(target.clone())),
            )
        }
    }
}

fn zone(t: &ArrowType) -> Option<Arc<str>> {
    match t {
        ArrowType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

fn relabel(array: &ArrayRef, to: &ArrowType) -> Result<ArrayRef, ArrowError> {
    let micros = array
        .as_primitive_opt::<TimestampMicrosecondType>()
        .ok_or_else(unexpected)?;
    Ok(Arc::new(micros.clone().with_timezone_opt(zone(to))))
}

fn nanos(array: &ArrayRef, to: &ArrowType, exact: bool) -> Result<ArrayRef, ArrowError> {
    let nanos = array
        .as_primitive_opt::<TimestampNanosecondType>()
        .ok_or_else(unexpected)?;
    if exact && nanos.iter().flatten().any(|v| v % 1000 != 0) {
        return Err(ArrowError::CastError(
            "a timestamp has nanoseconds, which Delta's microseconds can't hold: round it first".to_owned(),
        ));
    }
    let micros = nanos.unary::<_, TimestampMicrosecondType>(|v| v.div_euclid(1000));
    Ok(Arc::new(micros.with_timezone_opt(zone(to))))
}

fn structs(array: &ArrayRef, fields: &Fields, children: &[Child]) -> Result<ArrayRef, ArrowError> {
    let from = array.as_struct_opt().ok_or_else(unexpected)?;
    let children = children
        .iter()
        .map(|c| match c {
            Child::At(i, convert) => convert.apply(from.columns().get(*i).ok_or_else(unexpected)?),
            Child::Missing(t) => Ok(new_null_array(t, from.len())),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let out = StructArray::try_new_with_length(fields.clone(), children, from.nulls().cloned(), from.len())?;
    Ok(Arc::new(out))
}

fn maps(array: &ArrayRef, field: &FieldRef, key: &Convert, value: &Convert) -> Result<ArrayRef, ArrowError> {
    let map = array.as_map_opt().ok_or_else(unexpected)?;
    let ArrowType::Struct(fields) = field.data_type() else {
        return Err(unexpected());
    };
    // Keys behind a null map may be null, which entries can't hold.
    let (offsets, shown) = shown_offsets(map.offsets(), map.keys().len(), map.nulls());
    let parts = match &shown {
        Some(keep) => [filter(map.keys(), keep)?, filter(map.values(), keep)?],
        None => [map.keys().clone(), map.values().clone()],
    };
    let [keys, values] = &parts;
    let columns = vec![key.apply(keys)?, value.apply(values)?];
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    let out = MapArray::try_new(field.clone(), offsets, entries, map.nulls().cloned(), false)?;
    Ok(Arc::new(out))
}

fn unexpected() -> ArrowError {
    ArrowError::InvalidArgumentError("a batch's type differs from its schema".to_owned())
}
