//! Checks whether data fits a table's schema, and computes the schema for both: the rule of all
//! writes. Columns are matched ignoring case; a type may be narrower than the table's, never wider.

use crate::schema::{ArrayType, DataType, Field, MapType, Primitive, StructType};
use crate::{Error, Result};

/// Refuses data that doesn't fit a table's schema: an unknown column, or a type that can't be
/// widened to the column's without loss. Columns that the data lacks must be nullable.
pub fn check_fits(table: &StructType, data: &StructType) -> Result<()> {
    for f in data.fields() {
        let Some(own) = table.field_ignore_case(&f.name) else {
            return Err(unknown(table, &f.name));
        };
        fits(&own.data_type, &f.data_type, &f.name, None)?;
    }
    check_missing(table, data, "")
}

fn check_missing(table: &StructType, data: &StructType, path: &str) -> Result<()> {
    match table
        .fields()
        .iter()
        .find(|f| !f.nullable && data.field_ignore_case(&f.name).is_none())
    {
        None => Ok(()),
        Some(f) => Err(Error::schema_mismatch(format!(
            "the data lacks the column `{path}{}`, which is NOT NULL in the table: add it (expected {})",
            f.name, f.data_type
        ))),
    }
}

fn unknown(table: &StructType, path: &str) -> Error {
    let names: Vec<&str> = table.fields().iter().take(20).map(|f| f.name.as_str()).collect();
    Error::schema_mismatch(format!(
        "the data has the column `{path}`, which the table doesn't have (it has {}): drop or rename it, or have it added to the table by schema_mode=\"merge\", in a merge by merge_schema=True",
        names.join(", ")
    ))
}

fn mismatch(path: &str, table: &DataType, data: &DataType) -> Error {
    Error::schema_mismatch(format!(
        "column `{path}`: expected {table} as in the table, found {data} in the data: cast the data, or rewrite the table with mode=\"overwrite\" and schema_mode=\"overwrite\""
    ))
}

fn untyped(path: &str, data: &DataType) -> Error {
    Error::schema_mismatch(format!(
        "column `{path}` has no type in the table yet (void: only nulls), found {data} in the data: schema_mode=\"merge\", in a merge merge_schema=True, gives the column this type"
    ))
}

/// Whether a column of the first type may be widened to the second, for data of that type.
pub type Widening<'a> = &'a dyn Fn(Primitive, Primitive) -> bool;

/// Whether `data` fits into `table`. `grow` permits new fields in structs, and wider columns.
fn fits(table: &DataType, data: &DataType, path: &str, grow: Option<Widening<'_>>) -> Result<()> {
    match (table, data) {
        (DataType::Primitive(t), DataType::Primitive(d)) if t == d || widens(*d, *t) => Ok(()),
        (DataType::Primitive(t), DataType::Primitive(d)) if grow.is_some_and(|g| g(*t, *d)) => Ok(()),
        (_, DataType::Primitive(Primitive::Void)) => Ok(()),
        // A column that holds only nulls takes the type of the first data that has one (P153).
        (DataType::Primitive(Primitive::Void), _) if grow.is_some() => Ok(()),
        (DataType::Primitive(Primitive::Void), _) => Err(untyped(path, data)),
        (DataType::Primitive(Primitive::Variant), DataType::Struct(d)) if holds_variants(d) => Ok(()),
        (DataType::Array(t), DataType::Array(d)) => fits(&t.element, &d.element, &format!("{path}.element"), grow),
        (DataType::Map(t), DataType::Map(d)) => {
            fits(&t.key, &d.key, &format!("{path}.key"), grow)?;
            fits(&t.value, &d.value, &format!("{path}.value"), grow)
        }
        (DataType::Struct(t), DataType::Struct(d)) => {
            for f in d.fields() {
                let inner = format!("{path}.{}", f.name);
                match t.field_ignore_case(&f.name) {
                    Some(own) => fits(&own.data_type, &f.data_type, &inner, grow)?,
                    None if grow.is_some() => {}
                    None => return Err(unknown(t, &inner)),
                }
            }
            check_missing(t, d, &format!("{path}."))
        }
        _ => Err(mismatch(path, table, data)),
    }
}

/// Whether a struct may be a variant whose Arrow field lost its extension name (P154).
fn holds_variants(s: &StructType) -> bool {
    let parts = ["metadata", "value", "typed_value"];
    s.field("metadata").is_some() && s.fields().iter().all(|f| parts.contains(&f.name.as_str()))
}

/// Whether every value of `from` is a value of `to`.
fn widens(from: Primitive, to: Primitive) -> bool {
    use Primitive::{Byte, Decimal, Double, Float, Integer, Long, Short};
    let digits = |p| match p {
        Byte => Some(3),
        Short => Some(5),
        Integer => Some(10),
        Long => Some(20),
        _ => None,
    };
    match (from, to) {
        (Byte, Short | Integer | Long) | (Short, Integer | Long) | (Integer, Long) => true,
        (Float, Double) | (Byte | Short | Integer, Double) | (Byte | Short, Float) => true,
        (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => {
            t >= s && i16::from(q) - i16::from(t) >= i16::from(p) - i16::from(s)
        }
        (from, Decimal { precision, scale }) => {
            digits(from).is_some_and(|d| i16::from(precision) - i16::from(scale) >= d)
        }
        _ => false,
    }
}

/// The schema for the table's rows and the data's: the table's columns, then the data's new ones
/// (nullable). If the data's type is wider and `widening` permits it, the column is widened; other
/// differing types are refused.
pub fn merge(table: &StructType, data: &StructType, widening: Widening<'_>) -> Result<StructType> {
    for f in data.fields() {
        if let Some(own) = table.field_ignore_case(&f.name) {
            fits(&own.data_type, &f.data_type, &f.name, Some(widening))?;
        }
    }
    check_missing(table, data, "")?;
    Ok(merge_struct(table, data, widening))
}

/// The schema for the rows of two files: common columns have one type, others are null in the file
/// that lacks them.
pub fn merge_equal(first: &StructType, other: &StructType) -> Result<StructType> {
    // Types that fit both ways are equal.
    merge(other, first, &|_, _| false)?;
    merge(first, other, &|_, _| false)
}

fn merge_struct(table: &StructType, data: &StructType, widening: Widening<'_>) -> StructType {
    let old = table
        .fields()
        .iter()
        .map(|own| match data.field_ignore_case(&own.name) {
            Some(f) => Field {
                data_type: merge_type(&own.data_type, &f.data_type, widening),
                ..own.clone()
            },
            None => own.clone(),
        });
    let new = data
        .fields()
        .iter()
        .filter(|f| table.field_ignore_case(&f.name).is_none());
    // Existing rows have no value for a new column.
    let new = new.map(|f| Field {
        nullable: true,
        ..f.clone()
    });
    StructType::new(old.chain(new).collect())
}

fn merge_type(table: &DataType, data: &DataType, widening: Widening<'_>) -> DataType {
    match (table, data) {
        (DataType::Struct(t), DataType::Struct(d)) => DataType::Struct(merge_struct(t, d, widening)),
        (DataType::Array(t), DataType::Array(d)) => DataType::Array(Box::new(ArrayType {
            element: merge_type(&t.element, &d.element, widening),
            contains_null: t.contains_null,
        })),
        (DataType::Map(t), DataType::Map(d)) => DataType::Map(Box::new(MapType {
            key: merge_type(&t.key, &d.key, widening),
            value: merge_type(&t.value, &d.value, widening),
            value_contains_null: t.value_contains_null,
        })),
        // void → any needs no feature (P153)
        (DataType::Primitive(Primitive::Void), d) => nullable(d),
        (DataType::Primitive(t), DataType::Primitive(d)) if t != d && !widens(*d, *t) && widening(*t, *d) => {
            (*d).into()
        }
        (t, _) => t.clone(),
    }
}

/// The type with every field of a struct nullable, at every depth: existing rows have null for the
/// whole.
fn nullable(t: &DataType) -> DataType {
    let whole = StructType::new(vec![Field::new("", t.clone(), true)]).map_fields(&mut |mut f| {
        f.nullable = true;
        f
    });
    whole
        .fields()
        .first()
        .map_or_else(|| t.clone(), |f| f.data_type.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn table() -> StructType {
        StructType::new(vec![
            Field::new("id", Primitive::Long, false),
            Field::new(
                "s",
                DataType::Struct(StructType::new(vec![Field::new("x", Primitive::Integer, true)])),
                true,
            ),
        ])
    }

    #[test]
    fn mismatches_name_column_expected_and_found() {
        let data = StructType::new(vec![Field::new("ID", Primitive::String, true)]);
        let m = check_fits(&table(), &data).unwrap_err().message().to_owned();
        assert!(
            m.contains("`ID`") && m.contains("expected long") && m.contains("found string"),
            "{m}"
        );
        let data = StructType::new(vec![Field::new("s", Primitive::Void, true)]);
        assert!(check_fits(&table(), &data).unwrap_err().message().contains("`id`"));
        let data = StructType::new(vec![
            Field::new("id", Primitive::Integer, true),
            Field::new("new", Primitive::Long, true),
        ]);
        assert!(
            check_fits(&table(), &data)
                .unwrap_err()
                .message()
                .contains("schema_mode=\"merge\"")
        );
    }

    #[test]
    fn merge_adds_columns_at_every_level() {
        let inner = StructType::new(vec![Field::new("y", Primitive::Date, false)]);
        let data = StructType::new(vec![
            Field::new("id", Primitive::Short, true),
            Field::new("S", DataType::Struct(inner), true),
            Field::new("n", Primitive::Long, false),
        ]);
        let m = merge(&table(), &data, &|_, _| false).unwrap();
        assert_eq!(m.to_string(), "struct<id:long,s:struct<x:integer,y:date>,n:long>");
        assert!(m.fields()[2].nullable && !m.fields()[0].nullable);
    }

    #[test]
    fn a_column_follows_wider_data_where_it_may() {
        let wider = StructType::new(vec![Field::new("x", Primitive::Long, true)]);
        let data = StructType::new(vec![
            Field::new("id", Primitive::Byte, true),
            Field::new("s", DataType::Struct(wider), true),
        ]);
        assert!(merge(&table(), &data, &|_, _| false).is_err());
        let m = merge(&table(), &data, &|from, _| from == Primitive::Integer).unwrap();
        assert_eq!(m.to_string(), "struct<id:long,s:struct<x:long>>");
        assert!(check_fits(&table(), &data).is_err());
    }

    #[test]
    fn void_takes_the_type_of_the_data_at_every_depth() {
        // P153
        let inner = |t: DataType| {
            DataType::Struct(StructType::new(vec![
                Field::new("v", t, true),
                Field::new("x", Primitive::Long, true),
            ]))
        };
        let strict = DataType::Struct(StructType::new(vec![Field::new("y", Primitive::Long, false)]));
        for typed in [Primitive::String.into(), strict] {
            let (void, data) = (inner(Primitive::Void.into()), inner(typed));
            let (table, data) = (
                StructType::new(vec![Field::new("s", void, true)]),
                StructType::new(vec![Field::new("s", data, true)]),
            );
            let merged = merge(&table, &data, &|_, _| false).unwrap();
            assert_eq!(merged.to_string(), data.to_string());
            assert!(!merged.to_json().contains("\"nullable\":false"), "{}", merged.to_json());
            let e = check_fits(&table, &data).unwrap_err();
            assert!(
                e.message().contains("`s.v`") && e.message().contains("schema_mode=\"merge\""),
                "{e}"
            );
            assert_eq!(
                merge(&merged, &table, &|_, _| false).unwrap(),
                merged,
                "void data fits every type"
            );
        }
    }

    #[test]
    fn only_lossless_widening() {
        let d = |p, s| Primitive::Decimal { precision: p, scale: s };
        assert!(widens(d(10, 2), d(12, 2)) && !widens(d(10, 2), d(10, 3)) && widens(Primitive::Long, d(20, 0)));
        assert!(!widens(Primitive::Long, Primitive::Double) && !widens(Primitive::Long, Primitive::Integer));
    }
}
