//! Column mapping (P110–P116) as a table feature: when it is active, and how a schema gets, keeps
//! and changes its ids and physical names. What these mean for files is in `mapping`. Pure: new
//! names come from the caller.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::hooks::removal::{Removable, Removal, Removed};
use super::hooks::safe_property::{always, safe};
use super::{Kind, Refusal, TableFeature, View, supported};
use crate::actions::{Action, Metadata, Protocol};
use crate::mapping::{ID, MODE, Mapping, NESTED_IDS, PHYSICAL_NAME, id_of};
use crate::schema::{ArrayType, DataType, Field, MapType, StructType};
use crate::{Error, Result};

/// Table property: the highest id that the table ever gave to a column.
pub const MAX_ID: &str = "delta.columnMapping.maxColumnId";
/// All keys of column mapping in a field's metadata begin so.
pub(super) const PREFIX: &str = "delta.columnMapping.";

fn is_wanted(v: View<'_>) -> bool {
    Mapping::of(&v.metadata.configuration).is_ok_and(|m| m != Mapping::None)
}

fn unknown_mode(v: View<'_>) -> Refusal {
    Mapping::of(&v.metadata.configuration)
        .err()
        .map(|e| format!("but {}", e.message()))
}

fn by_name_now(old: Option<&str>, new: &str) -> bool {
    old.is_none_or(|o| o == Mapping::None.as_str()) && new == Mapping::Name.as_str()
}

/// Ids of columns that the table has had since stay used.
fn restore_highest_id(now: View<'_>, _: View<'_>, metadata: &mut Metadata) {
    let highest = |m: &Metadata| m.configuration.get(MAX_ID).and_then(|v| v.parse::<i64>().ok());
    if let (Some(now), Some(then)) = (highest(now.metadata), highest(metadata)) {
        metadata
            .configuration
            .insert(MAX_ID.to_owned(), now.max(then).to_string());
    }
}

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((2, 5)),
    wanted: is_wanted,
    refuse_read: unknown_mode,
    refuse_write: unknown_mode,
    may_begin: true,
    may_appear: true,
    safe_properties: &[safe(MODE, by_name_now), safe(MAX_ID, always)],
    removable: Some(Removable {
        uses: Some(|a| matches!(a, Action::Metadata(m) if is_mapped(m))),
        ..Removable::new(Removal::By(|v| Removed {
            metadata: without_column_mapping(v),
            rewrite: needed(v),
            usage: None,
        }))
    }),
    lasting_properties: &[MODE, MAX_ID],
    restore: restore_highest_id,
    own_field_keys: &[PREFIX],
    example: |e| {
        e.property(MODE, Mapping::Name.as_str());
        e.property(MAX_ID, "100");
    },
    ..TableFeature::new("columnMapping", Kind::ReaderWriter)
};

/// The mapping that a table's files have: the property means nothing without the feature (P093).
///
/// # Errors
/// `UnsupportedFeature` for an unknown mode.
pub fn mapping(protocol: &Protocol, metadata: &Metadata) -> Result<Mapping> {
    if supported(protocol).contains(FEATURE.name) {
        Mapping::of(&metadata.configuration)
    } else {
        Ok(Mapping::None)
    }
}

/// A schema whose fields all have ids and physical names, and the highest id ever given.
#[derive(Debug, Clone, PartialEq)]
pub struct Assigned {
    /// The schema.
    pub schema: StructType,
    /// What the table property [`MAX_ID`] has to say.
    pub max_id: i32,
}

/// Gives an id above `max_id` and a physical name from `fresh` to each field that has none: depth
/// first, a field before those inside of it (P110, P111).
///
/// # Errors
/// `InvalidArgument` when the ids are used up.
pub fn assign(schema: &StructType, max_id: i32, fresh: &mut dyn FnMut() -> String) -> Result<Assigned> {
    give(schema, max_id, &mut |_| fresh())
}

/// The columns of a mapped table that replaces all rows of another version of itself: a field that
/// the old schema has, with the same path (ignoring case) and type, gets its id and physical name
/// back, as in delta-spark. Fields of other types get none, so that no reader takes old values for
/// new ones.
pub fn reuse(before: &StructType, schema: &StructType) -> StructType {
    let fields = schema.fields().iter().map(|field| {
        let mut field = field.clone();
        let Some(old) = before.field_ignore_case(&field.name) else {
            return field;
        };
        field.data_type = reuse_inside(&old.data_type, &field.data_type);
        if may_be_null(old.nullable, field.nullable) && reads_as(&old.data_type, &field.data_type) {
            for key in [ID, PHYSICAL_NAME, NESTED_IDS] {
                if let Some(value) = old.metadata.get(key) {
                    field.metadata.insert(key.to_owned(), value.clone());
                }
            }
        }
        field
    });
    StructType::new(fields.collect())
}

fn reuse_inside(before: &DataType, data_type: &DataType) -> DataType {
    match (before, data_type) {
        (DataType::Struct(old), DataType::Struct(new)) => DataType::Struct(reuse(old, new)),
        (DataType::Array(old), DataType::Array(new)) => DataType::Array(Box::new(ArrayType {
            element: reuse_inside(&old.element, &new.element),
            ..new.as_ref().clone()
        })),
        (DataType::Map(old), DataType::Map(new)) => DataType::Map(Box::new(MapType {
            key: reuse_inside(&old.key, &new.key),
            value: reuse_inside(&old.value, &new.value),
            ..new.as_ref().clone()
        })),
        _ => data_type.clone(),
    }
}

/// Whether a value may be null wherever it may have been.
fn may_be_null(from: bool, to: bool) -> bool {
    to || !from
}

/// Whether all values of one type are values of another one: the same names and types at every
/// depth, which may be null wherever they were.
fn reads_as(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            let pairs = || from.fields().iter().zip(to.fields());
            from.fields().len() == to.fields().len()
                && pairs().all(|(f, t)| {
                    f.name == t.name && may_be_null(f.nullable, t.nullable) && reads_as(&f.data_type, &t.data_type)
                })
        }
        (DataType::Array(from), DataType::Array(to)) => {
            may_be_null(from.contains_null, to.contains_null) && reads_as(&from.element, &to.element)
        }
        (DataType::Map(from), DataType::Map(to)) => {
            may_be_null(from.value_contains_null, to.value_contains_null)
                && reads_as(&from.key, &to.key)
                && reads_as(&from.value, &to.value)
        }
        _ => from == to,
    }
}

/// The schema of a table that had no mapping when it gets one: files are there already, so each
/// field's physical name is its name (P111).
///
/// # Errors
/// `InvalidArgument` when the ids are used up.
pub fn upgrade(schema: &StructType) -> Result<Assigned> {
    give(&strip(schema), 0, &mut |f| f.name.clone())
}

fn give(schema: &StructType, max_id: i32, name: &mut dyn FnMut(&Field) -> String) -> Result<Assigned> {
    let mut last = Some(max_id_of(schema, max_id));
    let schema = schema.map_fields(&mut |mut f| {
        if id_of(&f).is_none() {
            last = last.and_then(|id| id.checked_add(1));
            f.metadata.insert(ID.to_owned(), last.into());
        }
        if !f.metadata.contains_key(PHYSICAL_NAME) {
            let name = name(&f);
            f.metadata.insert(PHYSICAL_NAME.to_owned(), name.into());
        }
        f
    });
    assigned(schema, last)
}

fn assigned(schema: StructType, last: Option<i32>) -> Result<Assigned> {
    let max_id = last.ok_or_else(|| {
        Error::invalid_argument("the table has used up all column ids (2147483647): write it to a new table")
    })?;
    Ok(Assigned { schema, max_id })
}

/// Gives an id above `max_id` to each element, key and value that has none, kept by path with the
/// nearest field (P115). Fields must have their physical names.
///
/// # Errors
/// `InvalidArgument` when the ids are used up.
pub fn assign_nested(schema: &StructType, max_id: i32) -> Result<Assigned> {
    let mut last = Some(max_id_of(schema, max_id));
    let schema = schema.map_fields(&mut |mut f| {
        let mut ids = nested_ids(&f);
        visit_nested(&f.data_type, Mapping::Name.physical_name(&f), &mut |path| {
            if !ids.contains_key(path) {
                last = last.and_then(|id| id.checked_add(1));
                ids.insert(path.to_owned(), last.into());
            }
        });
        if !ids.is_empty() {
            f.metadata.insert(NESTED_IDS.to_owned(), Value::Object(ids));
        }
        f
    });
    assigned(schema, last)
}

fn nested_ids(f: &Field) -> Map<String, Value> {
    let ids = f.metadata.get(NESTED_IDS).and_then(Value::as_object);
    ids.cloned().unwrap_or_default()
}

/// The paths of elements, keys and values down to the next struct.
fn visit_nested(t: &DataType, path: &str, visit: &mut dyn FnMut(&str)) {
    let mut step = |name: &str, t: &DataType| {
        let below = format!("{path}.{name}");
        visit(&below);
        visit_nested(t, &below, visit);
    };
    match t {
        DataType::Primitive(_) | DataType::Struct(_) => {}
        DataType::Array(a) => step("element", &a.element),
        DataType::Map(m) => {
            step("key", &m.key);
            step("value", &m.value);
        }
    }
}

fn max_id_of(schema: &StructType, known: i32) -> i32 {
    let mut max = known;
    schema.map_fields(&mut |f| {
        let nested = nested_ids(&f).values().filter_map(Value::as_i64).max();
        let nested = nested.and_then(|id| i32::try_from(id).ok());
        max = max.max(id_of(&f).unwrap_or(0)).max(nested.unwrap_or(0));
        f
    });
    max
}

/// The highest id that a table with this metadata ever gave: what the property says, or a column
/// has (P110).
pub fn max_id(configuration: &BTreeMap<String, String>, schema: &StructType) -> i32 {
    let stored = configuration.get(MAX_ID).and_then(|v| v.trim().parse().ok());
    max_id_of(schema, stored.unwrap_or(0))
}

/// The schema without any trace of column mapping.
pub fn strip(schema: &StructType) -> StructType {
    schema.map_fields(&mut |mut f| {
        f.metadata.retain(|key, _| !key.starts_with(PREFIX));
        f
    })
}

/// Whether a table's files are found by physical names or ids.
pub(super) fn is_mapped(m: &Metadata) -> bool {
    m.configuration
        .get(MODE)
        .is_some_and(|mode| mode != Mapping::None.as_str())
}

/// Why the files of a table can't do without the mapping; `None` where they have the names of its
/// columns, and no columns that it doesn't have.
pub fn needed(view: View<'_>) -> Option<String> {
    if !is_mapped(view.metadata) {
        return None;
    }
    let renamed = |f: &Field| Mapping::Name.physical_name(f) != f.name;
    if let Some(column) = view.find_field(&renamed) {
        return Some(format!("`{column}` has another name in files"));
    }
    let mut known = 0;
    view.schema.map_fields(&mut |f| {
        known += 1 + nested_ids(&f).len();
        f
    });
    let highest = usize::try_from(max_id(&view.metadata.configuration, view.schema)).unwrap_or(0);
    (highest != known).then(|| "columns were dropped that files still hold".to_owned())
}

/// The metadata without any trace of column mapping.
pub fn without_column_mapping(view: View<'_>) -> Metadata {
    let mut metadata = view.metadata.clone();
    if is_mapped(view.metadata) {
        metadata.schema_string = Some(strip(view.schema).to_json());
    }
    metadata.configuration.retain(|k, _| !k.starts_with(PREFIX));
    metadata
}

/// Refuses a change of mode that existing files can't follow (P114).
///
/// # Errors
/// `InvalidArgument` for all but none to name, and no change.
pub fn check_mode_change(from: Mapping, to: Mapping) -> Result<()> {
    if from == to {
        return Ok(());
    }
    let remedy = match (from, to) {
        (Mapping::None, Mapping::Name) => return Ok(()),
        (Mapping::None, Mapping::Id) => "its files have no column ids; use the mode name, or write a new table",
        (_, Mapping::None) => {
            "files may have other names than columns: set it to none by itself with alter.set_table_properties, which writes them anew"
        }
        (Mapping::Name | Mapping::Id, _) => "its files were written for the other one; write the rows to a new table",
    };
    Err(Error::invalid_argument(format!(
        "{MODE} can't change from `{}` to `{}` on an existing table (P114): {remedy}",
        from.as_str(),
        to.as_str()
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::schema::Primitive;

    fn schema() -> StructType {
        let inner = |name: &str| DataType::Struct(StructType::new(vec![Field::new(name, Primitive::Long, true)]));
        let list = DataType::Array(Box::new(ArrayType {
            element: inner("e"),
            contains_null: true,
        }));
        StructType::new(vec![
            Field::new("s", inner("x"), true),
            Field::new("l", list, true),
            Field::new("a", Primitive::Date, true),
        ])
    }

    fn fresh() -> impl FnMut() -> String {
        let mut n = 0;
        move || {
            n += 1;
            format!("col-{n}")
        }
    }

    fn ids(s: &StructType) -> Vec<(String, i32, String)> {
        let mut out = Vec::new();
        s.map_fields(&mut |f| {
            out.push((
                f.name.clone(),
                id_of(&f).unwrap(),
                Mapping::Name.physical_name(&f).to_owned(),
            ));
            f
        });
        out
    }

    #[test]
    fn ids_are_given_depth_first_and_never_again() {
        // P110, P111
        let first = assign(&schema(), 0, &mut fresh()).unwrap();
        let ids_given: Vec<_> = ids(&first.schema).into_iter().map(|(n, id, _)| (n, id)).collect();
        let expected = [("s", 1), ("x", 2), ("l", 3), ("e", 4), ("a", 5)].map(|(n, id)| (n.to_owned(), id));
        assert_eq!((ids_given.as_slice(), first.max_id), (expected.as_slice(), 5));
        Mapping::Id.check(&first.schema).unwrap();

        let mut fields = first.schema.fields()[..2].to_vec();
        fields.push(Field::new("a", Primitive::Date, true));
        let again = assign(&StructType::new(fields), first.max_id, &mut || "col-new".to_owned()).unwrap();
        assert_eq!(ids(&again.schema)[4], ("a".to_owned(), 6, "col-new".to_owned()));
        assert_eq!(ids(&again.schema)[..4], ids(&first.schema)[..4]);
        assert!(assign(&schema(), i32::MAX - 1, &mut fresh()).is_err());
    }

    #[test]
    fn a_replaced_schema_reuses_ids_of_fields_with_the_same_path_and_type() {
        // P110: delta-spark gives these fields the same ids and physical names.
        let inner = |fields: Vec<Field>| DataType::Struct(StructType::new(fields));
        let list = |element: DataType| {
            DataType::Array(Box::new(ArrayType {
                element,
                contains_null: true,
            }))
        };
        let long = |name: &str| Field::new(name, Primitive::Long, true);
        let before = assign(&schema(), 0, &mut fresh()).unwrap();
        let after = StructType::new(vec![
            Field::new("A", Primitive::Date, true),
            Field::new("s", inner(vec![long("x"), long("y")]), true),
            Field::new("l", list(inner(vec![long("e")])), true),
            Field::new("x", Primitive::Long, true),
        ]);
        let reused = assign(&reuse(&before.schema, &after), before.max_id, &mut || "new".to_owned()).unwrap();
        let expected = [
            ("A", 5, "col-5"),
            ("s", 6, "new"),
            ("x", 2, "col-2"),
            ("y", 7, "new"),
            ("l", 3, "col-3"),
            ("e", 4, "col-4"),
            ("x", 8, "new"),
        ];
        let expected = expected.map(|(name, id, physical)| (name.to_owned(), id, physical.to_owned()));
        assert_eq!(ids(&reused.schema), expected);
        let required = StructType::new(vec![Field::new("a", Primitive::Date, false), long("l")]);
        let reused = reuse(&before.schema, &required);
        assert!(
            !reused.fields()[0].metadata.contains_key(ID),
            "old values may be null, new ones not"
        );
        assert!(!reused.fields()[1].metadata.contains_key(ID), "another type");
    }

    #[test]
    fn elements_keys_and_values_get_ids_of_their_own() {
        // P115
        let lists = |t: DataType| {
            DataType::Array(Box::new(ArrayType {
                element: t,
                contains_null: true,
            }))
        };
        let map = DataType::Map(Box::new(MapType {
            key: Primitive::String.into(),
            value: lists(lists(Primitive::Long.into())),
            value_contains_null: true,
        }));
        let fields = vec![Field::new("m", map, true), Field::new("a", Primitive::Date, true)];
        let plain = assign(&StructType::new(fields), 0, &mut fresh()).unwrap();
        let nested = assign_nested(&plain.schema, plain.max_id).unwrap();
        let ids = nested.schema.fields()[0].metadata[NESTED_IDS].to_string();
        assert_eq!(
            ids,
            r#"{"col-1.key":3,"col-1.value":4,"col-1.value.element":5,"col-1.value.element.element":6}"#
        );
        assert_eq!(nested.max_id, 6);
        assert_eq!(assign_nested(&nested.schema, 0).unwrap(), nested);
        assert!(!nested.schema.fields()[1].metadata.contains_key(NESTED_IDS));
    }

    #[test]
    fn an_upgrade_keeps_the_names_of_files() {
        // P111
        let up = upgrade(&schema()).unwrap();
        assert!(ids(&up.schema).iter().all(|(name, _, physical)| name == physical));
        assert_eq!(up.max_id, 5);
        assert_eq!(strip(&up.schema), schema());
        let configuration = BTreeMap::from([(MAX_ID.to_owned(), "9".to_owned())]);
        assert_eq!(max_id(&configuration, &up.schema), 9);
        assert_eq!(max_id(&BTreeMap::new(), &up.schema), 5);
    }

    #[test]
    fn modes_change_only_where_files_can_follow() {
        // P114
        use Mapping::{Id, Name, None};
        for (from, to, legal) in [
            (None, Name, true),
            (None, Id, false),
            (Name, Id, false),
            (Name, None, false),
            (Id, Id, true),
        ] {
            assert_eq!(check_mode_change(from, to).is_ok(), legal, "{from:?} {to:?}");
        }
    }
}
