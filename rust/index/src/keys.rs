//! The hash of a key: of a form that equal values of one class share, whatever their type; of a key
//! of several columns, of their hashes. Segments store hashes, so that a change of the form or of
//! the seed needs a new version of the format.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::expr::Scalar;
use deltaplane_protocol::schema::Primitive;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Separates these hashes from other uses of the function.
const SEED: u64 = 0x6465_6c74_6b65_7900;
/// The place of a class in the seed, for keys of several columns.
const SEVERAL: u64 = 7;

/// Types whose values are compared with each other. Floating-point numbers, booleans and nested
/// types have none: no index is made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyClass {
    /// Integers and decimals, by value.
    Number,
    /// Strings, by their bytes.
    Text,
    /// Binary values.
    Binary,
    /// Days.
    Date,
    /// Microseconds since the epoch.
    Timestamp,
    /// Microseconds of a local clock.
    TimestampNtz,
}

/// A column whose values are keys, or a part of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyColumn {
    /// The column's name in files.
    pub name: String,
    /// The class of its values.
    pub class: KeyClass,
}

impl KeyClass {
    /// The class of a type; `None` for types that aren't indexed.
    pub fn of(ty: Primitive) -> Option<KeyClass> {
        match ty {
            Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long | Primitive::Decimal { .. } => {
                Some(KeyClass::Number)
            }
            Primitive::String => Some(KeyClass::Text),
            Primitive::Binary => Some(KeyClass::Binary),
            Primitive::Date => Some(KeyClass::Date),
            Primitive::Timestamp => Some(KeyClass::Timestamp),
            Primitive::TimestampNtz => Some(KeyClass::TimestampNtz),
            Primitive::Float | Primitive::Double | Primitive::Boolean | Primitive::Void | Primitive::Variant => None,
        }
    }

    fn hash(self, bytes: &[u8]) -> u64 {
        let tag: u64 = match self {
            KeyClass::Number => 1,
            KeyClass::Text => 2,
            KeyClass::Binary => 3,
            KeyClass::Date => 4,
            KeyClass::Timestamp => 5,
            KeyClass::TimestampNtz => 6,
        };
        xxh3_64_with_seed(bytes, SEED | tag)
    }

    fn long(self, value: i64) -> u64 {
        match self {
            KeyClass::Number => number(i128::from(value), 0),
            _ => self.hash(&value.to_le_bytes()),
        }
    }
}

/// The hash of a number with these digits at this scale, without trailing zeros after its point.
fn number(mut digits: i128, mut scale: u8) -> u64 {
    while scale > 0 && digits % 10 == 0 {
        digits /= 10;
        scale -= 1;
    }
    let mut form = [scale; 17];
    let value = digits.to_le_bytes();
    form.iter_mut().zip(value).for_each(|(slot, byte)| *slot = byte);
    KeyClass::Number.hash(&form)
}

/// The hash of a value of this type; `None` if the value isn't of the type, or the type has no
/// class.
pub fn hash_scalar(ty: Primitive, value: &Scalar) -> Option<u64> {
    let class = KeyClass::of(ty)?;
    match (class, value) {
        (KeyClass::Number, Scalar::Integer(v)) => Some(class.long(*v)),
        (KeyClass::Number, Scalar::Decimal(digits)) => match ty {
            Primitive::Decimal { scale, .. } => Some(number(*digits, u8::try_from(scale).ok()?)),
            _ => None,
        },
        (KeyClass::Text, Scalar::Text(text)) => Some(class.hash(text.as_bytes())),
        (KeyClass::Binary, Scalar::Binary(bytes)) => Some(class.hash(bytes)),
        (KeyClass::Date, Scalar::Date(days)) => Some(class.long(i64::from(*days))),
        (KeyClass::Timestamp | KeyClass::TimestampNtz, Scalar::Timestamp(micros)) => Some(class.long(*micros)),
        _ => None,
    }
}

/// The hash of a key whose values in its columns have these hashes, in the order of the columns.
pub fn hash_of_parts(parts: &[u64]) -> u64 {
    match parts {
        [only] => *only,
        parts => {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_le_bytes()).collect();
            xxh3_64_with_seed(&bytes, SEED | SEVERAL)
        }
    }
}

/// Calls a function with the row and the hash of each key of these arrays, which have the values of
/// its columns in order. A row with a null in a column has no key.
///
/// # Errors
/// `Internal` for an array whose type isn't of its class, and without arrays; those of the
/// function.
pub fn each_key(columns: &[(KeyClass, &ArrayRef)], mut take: impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
    let rows = match columns {
        [] => return Err(Error::internal("a key without columns")),
        [(class, array)] => return each_hash(*class, array, take),
        [(_, array), ..] => array.len(),
    };
    let mut parts = vec![Vec::with_capacity(columns.len()); rows];
    for (class, array) in columns {
        each_hash(*class, array, |row, hash| {
            if let Some(of_row) = parts.get_mut(row) {
                of_row.push(hash);
            }
            Ok(())
        })?;
    }
    for (row, of_row) in parts.iter().enumerate() {
        if of_row.len() == columns.len() {
            take(row, hash_of_parts(of_row))?;
        }
    }
    Ok(())
}

/// Calls a function with the row and the hash of each of a column's values that isn't null.
fn each_hash(class: KeyClass, array: &ArrayRef, take: impl FnMut(usize, u64) -> Result<()>) -> Result<()> {
    macro_rules! longs {
        ($ty:ty) => {
            each(
                array.as_primitive::<$ty>().iter(),
                |v| class.long(i64::from(v)),
                take,
            )
        };
    }
    match (class, array.data_type()) {
        (_, DataType::Null) => Ok(()),
        (KeyClass::Number, DataType::Int8) => longs!(Int8Type),
        (KeyClass::Number, DataType::Int16) => longs!(Int16Type),
        (KeyClass::Number, DataType::Int32) => longs!(Int32Type),
        (KeyClass::Number, DataType::Int64) => longs!(Int64Type),
        (KeyClass::Date, DataType::Date32) => longs!(Date32Type),
        (KeyClass::Timestamp | KeyClass::TimestampNtz, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
            longs!(TimestampMicrosecondType)
        }
        (KeyClass::Number, DataType::Decimal128(_, scale)) => {
            let scale = u8::try_from(*scale).map_err(|_| unfit(class, array))?;
            each(
                array.as_primitive::<Decimal128Type>().iter(),
                |v| number(v, scale),
                take,
            )
        }
        (KeyClass::Text, DataType::Utf8) => each(array.as_string::<i32>().iter(), |v| class.hash(v.as_bytes()), take),
        (KeyClass::Binary, DataType::Binary) => each(array.as_binary::<i32>().iter(), |v| class.hash(v), take),
        _ => Err(unfit(class, array)),
    }
}

fn each<T>(
    values: impl Iterator<Item = Option<T>>,
    hash: impl Fn(T) -> u64,
    mut take: impl FnMut(usize, u64) -> Result<()>,
) -> Result<()> {
    for (row, value) in values.enumerate() {
        if let Some(value) = value {
            take(row, hash(value))?;
        }
    }
    Ok(())
}

fn unfit(class: KeyClass, array: &ArrayRef) -> Error {
    Error::internal(format!("an index of {class:?} values was given {}", array.data_type()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
        StringArray, TimestampMicrosecondArray,
    };

    use super::*;

    fn hash_array(class: KeyClass, array: &ArrayRef) -> Result<Vec<Option<u64>>> {
        let mut hashes = vec![None; array.len()];
        each_hash(class, array, |row, hash| {
            *hashes.get_mut(row).unwrap() = Some(hash);
            Ok(())
        })?;
        Ok(hashes)
    }

    #[test]
    fn equal_numbers_have_one_hash_whatever_their_type() {
        let decimal = |digits: i128, precision: u8, scale: i8| -> ArrayRef {
            Arc::new(
                Decimal128Array::from(vec![digits])
                    .with_precision_and_scale(precision, scale)
                    .unwrap(),
            )
        };
        for v in [0_i64, 1, -1, 100, -128, 7] {
            let small = i8::try_from(v).unwrap();
            let arrays: Vec<ArrayRef> = vec![
                Arc::new(Int8Array::from(vec![small])),
                Arc::new(Int16Array::from(vec![i16::from(small)])),
                Arc::new(Int32Array::from(vec![i32::from(small)])),
                Arc::new(Int64Array::from(vec![v])),
                decimal(i128::from(v), 10, 0),
                decimal(i128::from(v) * 1000, 20, 3),
            ];
            let hashes: HashSet<_> = arrays
                .iter()
                .flat_map(|a| hash_array(KeyClass::Number, a).unwrap())
                .collect();
            assert_eq!(hashes.len(), 1, "{v}");
            let of_long = hash_scalar(Primitive::Long, &Scalar::Integer(v));
            let wide = Primitive::Decimal {
                precision: 38,
                scale: 9,
            };
            let of_decimal = hash_scalar(wide, &Scalar::Decimal(i128::from(v) * 1_000_000_000));
            assert_eq!(hashes, HashSet::from([of_long, of_decimal]));
        }
        let half = hash_array(KeyClass::Number, &decimal(15, 4, 1)).unwrap();
        assert_ne!(half, hash_array(KeyClass::Number, &decimal(15, 4, 0)).unwrap());
    }

    #[test]
    fn scalars_and_arrays_have_the_same_hash_and_classes_differ() {
        let cases: Vec<(Primitive, Scalar, ArrayRef)> = vec![
            (Primitive::Long, Scalar::Integer(5), Arc::new(Int64Array::from(vec![5]))),
            (
                Primitive::String,
                Scalar::Text("5".into()),
                Arc::new(StringArray::from(vec!["5"])),
            ),
            (
                Primitive::Binary,
                Scalar::Binary(b"5".to_vec()),
                Arc::new(BinaryArray::from(vec![b"5".as_slice()])),
            ),
            (Primitive::Date, Scalar::Date(5), Arc::new(Date32Array::from(vec![5]))),
            (
                Primitive::Timestamp,
                Scalar::Timestamp(5),
                Arc::new(TimestampMicrosecondArray::from(vec![5])),
            ),
            (
                Primitive::TimestampNtz,
                Scalar::Timestamp(5),
                Arc::new(TimestampMicrosecondArray::from(vec![5])),
            ),
        ];
        let mut seen = HashSet::new();
        for (ty, scalar, array) in cases {
            let class = KeyClass::of(ty).unwrap();
            let hash = hash_scalar(ty, &scalar).unwrap();
            assert_eq!(hash_array(class, &array).unwrap(), [Some(hash)], "{ty}");
            assert!(seen.insert(hash), "{ty}");
        }
    }

    #[test]
    fn keys_of_several_columns_depend_on_their_order_and_have_no_null() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), None, Some(2)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("u"), None, Some("u"), Some("u")]));
        let keys = |columns: &[(KeyClass, &ArrayRef)]| {
            let mut keys = Vec::new();
            each_key(columns, |row, hash| {
                keys.push((row, hash));
                Ok(())
            })
            .unwrap();
            keys
        };
        let both = keys(&[(KeyClass::Number, &numbers), (KeyClass::Text, &texts)]);
        let part = |ty, value: &Scalar| hash_scalar(ty, value).unwrap();
        let key = |n| {
            hash_of_parts(&[
                part(Primitive::Long, &Scalar::Integer(n)),
                part(Primitive::String, &Scalar::Text("u".into())),
            ])
        };
        assert_eq!(both, [(0, key(1)), (3, key(2))]);
        let reversed = keys(&[(KeyClass::Text, &texts), (KeyClass::Number, &numbers)]);
        assert!(reversed.iter().zip(&both).all(|(a, b)| a.0 == b.0 && a.1 != b.1));
        let single = keys(&[(KeyClass::Number, &numbers)]);
        assert_eq!(single.first(), Some(&(0, part(Primitive::Long, &Scalar::Integer(1)))));
        assert!(each_key(&[], |_, _| Ok(())).is_err());
        assert!(each_key(&[(KeyClass::Number, &texts), (KeyClass::Text, &texts)], |_, _| Ok(())).is_err());
    }

    #[test]
    fn nulls_have_no_hash_and_other_types_are_refused() {
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1)]));
        assert!(hash_array(KeyClass::Number, &nulls).unwrap().first().unwrap().is_none());
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        assert!(hash_array(KeyClass::Number, &floats).is_err());
        assert!(KeyClass::of(Primitive::Double).is_none());
        assert!(hash_scalar(Primitive::Double, &Scalar::Double(1.0)).is_none());
        assert!(hash_scalar(Primitive::Long, &Scalar::Text("1".into())).is_none());
    }
}
