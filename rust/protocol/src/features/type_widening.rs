//! Type widening (P153): which type may follow which, and the record of it in `delta.typeChanges`.
//! Files keep the type they were written with; readers convert. Pure.

use serde_json::{Value, json};

use super::hooks::removal::{FeatureUsage, Removable, Removal, Removed};
use super::{Kind, Refusal, TableFeature, View};
use crate::actions::{Action, Metadata};
use crate::schema::{ArrayType, DataType, Field, MapType, Primitive, StructType};
use crate::{Error, Result};

const ENABLED: &str = "delta.enableTypeWidening";
const CHANGES: &str = "delta.typeChanges";

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| v.is_on(ENABLED),
    refuse_read: unknown_change,
    may_begin: true,
    may_appear: true,
    removable: Some(Removable {
        uses: Some(|a| matches!(a, Action::Metadata(m) if is_recorded(m))),
        ..Removable::new(Removal::By(|v| Removed {
            metadata: forgotten(v),
            rewrite: None,
            usage: needed(v).map(|_| FeatureUsage::OldTypes),
        }))
    }),
    own_field_keys: &[CHANGES],
    ..TableFeature::new("typeWidening", Kind::ReaderWriter)
};

pub(super) static PREVIEW: TableFeature = TableFeature {
    name: "typeWidening-preview",
    wanted: super::never,
    may_begin: false,
    may_appear: false,
    ..FEATURE
};

/// Why the files of a table can't do without the feature; `None` where no column was ever widened.
fn needed(view: View<'_>) -> Option<String> {
    let column = view.find_field(&|f| f.metadata.contains_key(CHANGES))?;
    Some(format!("files may be older than the type of `{column}`"))
}

/// The metadata without any trace of type widening.
fn forgotten(view: View<'_>) -> Metadata {
    let mut metadata = view.metadata.clone();
    metadata.configuration.remove(ENABLED);
    if needed(view).is_some() {
        let schema = view.schema.map_fields(&mut |mut f| {
            f.metadata.remove(CHANGES);
            f
        });
        metadata.schema_string = Some(schema.to_json());
    }
    metadata
}

/// Whether a table's schema records a change of type.
fn is_recorded(m: &Metadata) -> bool {
    m.schema_string.as_ref().is_some_and(|s| s.contains(CHANGES))
}

/// Whether readers must know how to turn `from` into `to` (P153).
pub fn is_change(from: Primitive, to: Primitive) -> bool {
    use Primitive::{Byte, Date, Decimal, Double, Float, Integer, Long, Short, TimestampNtz};
    match (from, to) {
        (Byte, Short | Integer | Long) | (Short, Integer | Long) | (Integer, Long) => true,
        (Float | Byte | Short | Integer, Double) | (Date, TimestampNtz) => true,
        (Byte | Short | Integer, Decimal { precision, scale }) => whole_digits(precision, scale) >= 10,
        (Long, Decimal { precision, scale }) => whole_digits(precision, scale) >= 20,
        (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => {
            (p, s) != (q, t) && t >= s && whole_digits(q, t) >= whole_digits(p, s)
        }
        _ => false,
    }
}

fn whole_digits(precision: u8, scale: i8) -> i16 {
    i16::from(precision) - i16::from(scale)
}

/// Whether data that is wider than the table may change the table's type by itself: integers don't
/// become doubles or decimals by accident.
fn is_automatic(from: Primitive, to: Primitive) -> bool {
    let to_other_kind = matches!(
        (from, to),
        (
            Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long,
            Primitive::Double | Primitive::Decimal { .. }
        )
    );
    is_change(from, to) && !to_other_kind
}

/// Whether this table lets a column's type change from `from` to `to`.
///
/// # Errors
/// `InvalidArgument` when the property is off, when no reader could follow, or when the table must
/// stay readable as Iceberg, which has fewer such changes.
pub fn check_change(view: View<'_>, column: &str, from: Primitive, to: Primitive) -> Result<()> {
    let refuse = |why: String| {
        Err(Error::invalid_argument(format!(
            "the type of the column `{column}` can't change from {from} to {to}: {why}"
        )))
    };
    // A void column has only nulls, which are values of every type.
    if from == Primitive::Void {
        return Ok(());
    }
    if !is_change(from, to) {
        return refuse("a type may only become wider, so that every value stays as it is (P153)".to_owned());
    }
    if !view.is_on(ENABLED) {
        return refuse(format!(
            "the table doesn't allow it; set the property {ENABLED} to true first"
        ));
    }
    if let Some(iceberg) = blocked_by_iceberg(view, from, to) {
        return refuse(format!(
            "{iceberg} is on, and Iceberg has no such change; turn it off first"
        ));
    }
    Ok(())
}

fn blocked_by_iceberg(view: View<'_>, from: Primitive, to: Primitive) -> Option<&'static str> {
    let follows = match (from, to) {
        (Primitive::Decimal { scale: s, .. }, Primitive::Decimal { scale: t, .. }) => s == t,
        (_, Primitive::Double) => from == Primitive::Float,
        (_, Primitive::Decimal { .. } | Primitive::TimestampNtz) => false,
        _ => true,
    };
    let active = || {
        [
            "delta.enableIcebergCompatV1",
            "delta.enableIcebergCompatV2",
            "delta.enableIcebergCompatV3",
        ]
        .into_iter()
        .find(|p| view.is_on(p))
    };
    if follows { None } else { active() }
}

/// Whether wider data in a write that may change the schema widens this table's column.
pub fn widens_by_itself(view: View<'_>, from: Primitive, to: Primitive) -> bool {
    view.is_on(ENABLED) && is_automatic(from, to) && blocked_by_iceberg(view, from, to).is_none()
}

/// The table's schema with the type `to` at a path, and the change recorded.
///
/// The parts of `path` are names of fields, and `element`, `key`, `value` below arrays and maps.
/// A column that has the type already is left alone.
///
/// # Errors
/// `InvalidArgument` for an unknown path, a column that isn't primitive, or a change that this
/// table doesn't allow ([`check_change`]).
pub fn widen(view: View<'_>, path: &[String], to: Primitive) -> Result<StructType> {
    let column = path.join(".");
    let unknown = || Error::invalid_argument(format!("the table has no column `{column}` whose type could change"));
    let root = DataType::Struct(view.schema.clone());
    let wider = retype(&root, path, &mut |t| match t {
        DataType::Primitive(from) if *from == to => Ok(t.clone()),
        DataType::Primitive(from) => check_change(view, &column, *from, to).map(|()| to.into()),
        other => Err(Error::invalid_argument(format!(
            "the column `{column}` is of type {other}: only the type of a primitive column or part of one can change"
        ))),
    });
    match wider.transpose()?.ok_or_else(unknown)? {
        DataType::Struct(s) => Ok(record(view.schema, &s)),
        _ => Err(unknown()),
    }
}

type Retype<'a> = &'a mut dyn FnMut(&DataType) -> Result<DataType>;

/// The type with the part at `path` replaced; `None` where there is no such part.
fn retype(t: &DataType, path: &[String], change: Retype<'_>) -> Option<Result<DataType>> {
    let Some((first, rest)) = path.split_first() else {
        return Some(change(t));
    };
    match t {
        DataType::Struct(s) => {
            let index = s.index_ignore_case(first)?;
            let mut fields = s.fields().to_vec();
            let field = fields.get_mut(index)?;
            field.data_type = match retype(&field.data_type, rest, change)? {
                Ok(t) => t,
                Err(e) => return Some(Err(e)),
            };
            Some(Ok(DataType::Struct(StructType::new(fields))))
        }
        DataType::Array(a) if first == "element" => Some(retype(&a.element, rest, change)?.map(|element| {
            DataType::Array(Box::new(ArrayType {
                element,
                contains_null: a.contains_null,
            }))
        })),
        DataType::Map(m) if first == "key" => {
            Some(retype(&m.key, rest, change)?.map(|key| DataType::Map(Box::new(MapType { key, ..(**m).clone() }))))
        }
        DataType::Map(m) if first == "value" => Some(
            retype(&m.value, rest, change)?.map(|value| DataType::Map(Box::new(MapType { value, ..(**m).clone() }))),
        ),
        _ => None,
    }
}

/// `new` with every change from the types of `old` recorded on the nearest field (P153).
/// A void column that got a type isn't such a change.
pub fn record(old: &StructType, new: &StructType) -> StructType {
    let fields = new.fields().iter().map(|f| match old.field_ignore_case(&f.name) {
        Some(before) => record_field(before, f),
        None => f.clone(),
    });
    StructType::new(fields.collect())
}

fn record_field(old: &Field, new: &Field) -> Field {
    let mut changes = Vec::new();
    let data_type = record_type(&old.data_type, &new.data_type, "", &mut changes);
    let mut metadata = new.metadata.clone();
    if !changes.is_empty()
        && let Value::Array(all) = metadata.entry(CHANGES).or_insert_with(|| json!([]))
    {
        all.extend(changes);
    }
    Field {
        data_type,
        metadata,
        ..new.clone()
    }
}

fn record_type(old: &DataType, new: &DataType, path: &str, changes: &mut Vec<Value>) -> DataType {
    let below = |part: &str| {
        if path.is_empty() {
            part.to_owned()
        } else {
            format!("{path}.{part}")
        }
    };
    match (old, new) {
        (DataType::Primitive(from), DataType::Primitive(to)) if from != to && *from != Primitive::Void => {
            let mut change = json!({"fromType": from.to_string(), "toType": to.to_string()});
            if let Some(o) = change.as_object_mut().filter(|_| !path.is_empty()) {
                o.insert("fieldPath".to_owned(), json!(path));
            }
            changes.push(change);
            new.clone()
        }
        (DataType::Struct(old), DataType::Struct(new)) => DataType::Struct(record(old, new)),
        (DataType::Array(old), DataType::Array(new)) => DataType::Array(Box::new(ArrayType {
            element: record_type(&old.element, &new.element, &below("element"), changes),
            contains_null: new.contains_null,
        })),
        (DataType::Map(old), DataType::Map(new)) => DataType::Map(Box::new(MapType {
            key: record_type(&old.key, &new.key, &below("key"), changes),
            value: record_type(&old.value, &new.value, &below("value"), changes),
            value_contains_null: new.value_contains_null,
        })),
        _ => new.clone(),
    }
}

fn changes(f: &Field) -> &[Value] {
    f.metadata
        .get(CHANGES)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// From which type to which; `None` for text that names no primitive.
fn parse(change: &Value) -> Option<(Primitive, Primitive)> {
    let type_of = |key: &str| change.get(key).and_then(Value::as_str).and_then(Primitive::parse);
    Some((type_of("fromType")?, type_of("toType")?))
}

/// Whether older files may hold this column as floats, and their statistics a float's digits.
pub fn was_float(f: &Field) -> bool {
    changes(f)
        .iter()
        .any(|c| parse(c) == Some((Primitive::Float, Primitive::Double)) && c.get("fieldPath").is_none())
}

fn unknown_change(v: View<'_>) -> Refusal {
    let strange = |f: &Field| {
        let known = |c: &Value| parse(c).is_some_and(|(from, to)| is_change(from, to));
        changes(f).iter().find(|c| !known(c)).cloned()
    };
    let (column, change) = v.find_in_fields(&strange)?;
    let text = |key: &str| change.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    Some(format!(
        "and the type of column `{column}` was changed from {} to {}, which isn't a change that the protocol allows (DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA)",
        text("fromType"),
        text("toType")
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::actions::Metadata;

    fn with<T>(schema: &StructType, on: &[&str], f: impl FnOnce(View<'_>) -> T) -> T {
        let metadata = Metadata {
            configuration: on.iter().map(|k| ((*k).to_owned(), "true".to_owned())).collect(),
            ..Metadata::default()
        };
        f(View {
            metadata: &metadata,
            schema,
        })
    }

    fn nested() -> StructType {
        let map = DataType::Map(Box::new(MapType {
            key: Primitive::Byte.into(),
            value: DataType::Array(Box::new(ArrayType {
                element: Primitive::Float.into(),
                contains_null: true,
            })),
            value_contains_null: true,
        }));
        let inner = StructType::new(vec![
            Field::new("x", Primitive::Short, true),
            Field::new("m", map, true),
        ]);
        StructType::new(vec![Field::new("s", DataType::Struct(inner), true)])
    }

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn the_protocols_changes_and_no_others() {
        // P153
        let d = |p, s| Primitive::Decimal { precision: p, scale: s };
        for (from, to) in [
            (Primitive::Byte, Primitive::Long),
            (Primitive::Float, Primitive::Double),
            (Primitive::Integer, Primitive::Double),
            (Primitive::Date, Primitive::TimestampNtz),
            (Primitive::Byte, d(10, 0)),
            (Primitive::Integer, d(12, 2)),
            (Primitive::Long, d(20, 0)),
            (d(10, 2), d(12, 4)),
        ] {
            assert!(is_change(from, to) && !is_change(to, from), "{from} {to}");
        }
        for (from, to) in [
            (Primitive::Long, Primitive::Double),
            (Primitive::Byte, d(4, 1)),
            (Primitive::Long, d(19, 0)),
            (d(10, 2), d(11, 4)),
            (Primitive::Date, Primitive::Timestamp),
            (Primitive::Integer, Primitive::Integer),
        ] {
            assert!(!is_change(from, to), "{from} {to}");
        }
    }

    #[test]
    fn a_change_is_recorded_on_the_nearest_field() {
        // P153
        let on = [ENABLED];
        let once = with(&nested(), &on, |v| {
            widen(v, &path("S.m.value.element"), Primitive::Double)
        })
        .unwrap();
        let twice = with(&once, &on, |v| widen(v, &path("s.m.key"), Primitive::Integer)).unwrap();
        let m = twice.field_at(&["s", "m"]).unwrap();
        assert_eq!(m.data_type.to_string(), "map<integer,array<double>>");
        assert_eq!(
            m.metadata[CHANGES],
            json!([
                {"fromType": "float", "toType": "double", "fieldPath": "value.element"},
                {"fromType": "byte", "toType": "integer", "fieldPath": "key"}
            ])
        );
        let x = with(&twice, &on, |v| widen(v, &path("s.x"), Primitive::Long)).unwrap();
        let x = x.field_at(&["s", "x"]).unwrap().clone();
        assert_eq!(x.metadata[CHANGES], json!([{"fromType": "short", "toType": "long"}]));
        assert!(!was_float(m) && !was_float(&x));
    }

    #[test]
    fn refused_changes_say_why() {
        let message = |on: &[&str], place: &str, to| {
            with(&nested(), on, |v| widen(v, &path(place), to))
                .unwrap_err()
                .message()
                .to_owned()
        };
        assert!(message(&[], "s.x", Primitive::Long).contains(ENABLED));
        assert!(message(&[ENABLED], "s.x", Primitive::Byte).contains("wider"));
        assert!(message(&[ENABLED], "s.y", Primitive::Byte).contains("no column `s.y`"));
        assert!(message(&[ENABLED], "s.m", Primitive::Byte).contains("map<"));
        let iceberg = [ENABLED, "delta.enableIcebergCompatV2"];
        assert!(message(&iceberg, "s.x", Primitive::Double).contains("IcebergCompatV2"));
        assert!(with(&nested(), &iceberg, |v| widen(v, &path("s.x"), Primitive::Long)).is_ok());
    }

    #[test]
    fn a_void_column_takes_every_type_without_a_record() {
        let schema = StructType::new(vec![Field::new("v", Primitive::Void, true)]);
        for to in [Primitive::Integer, Primitive::String, Primitive::Date] {
            let typed = with(&schema, &[], |v| widen(v, &path("V"), to)).unwrap();
            assert_eq!(typed, StructType::new(vec![Field::new("v", to, true)]));
        }
    }

    #[test]
    fn unknown_changes_are_named() {
        // P153
        let mut f = Field::new("b", Primitive::Decimal { precision: 4, scale: 1 }, true);
        f.metadata.insert(
            CHANGES.to_owned(),
            json!([{"fromType": "byte", "toType": "decimal(4,1)"}]),
        );
        let inner = DataType::Struct(StructType::new(vec![f]));
        let schema = StructType::new(vec![Field::new("s", inner, true)]);
        let why = with(&schema, &[], unknown_change).unwrap();
        assert!(
            why.contains("`b`") && why.contains("DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA"),
            "{why}"
        );
        assert_eq!(with(&nested(), &[], unknown_change), None);
    }
}
