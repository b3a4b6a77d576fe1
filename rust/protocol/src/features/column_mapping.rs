//! Column mapping (P110–P116) as a table feature: when it is active, and how a schema gets, keeps and changes its
//! ids and physical names. What these mean for files is in `mapping`. Pure: new names come from the caller.

use std::collections::BTreeMap;

use super::{Kind, Refusal, TableFeature, View, supported};
use crate::actions::{Metadata, Protocol};
use crate::mapping::{ID, MODE, Mapping, PHYSICAL_NAME, id_of};
use crate::schema::{ArrayType, DataType, Field, MapType, StructType};
use crate::{Error, Result};

/// Table property: the highest id that the table ever gave to a column.
pub const MAX_ID: &str = "delta.columnMapping.maxColumnId";
/// All keys of column mapping in a field's metadata begin so.
const PREFIX: &str = "delta.columnMapping.";

fn is_wanted(v: View<'_>) -> bool {
    Mapping::of(&v.metadata.configuration).is_ok_and(|m| m != Mapping::None)
}

fn unknown_mode(v: View<'_>) -> Refusal {
    Mapping::of(&v.metadata.configuration)
        .err()
        .map(|e| format!("but {}", e.message()))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "columnMapping",
    kind: Kind::ReaderWriter,
    legacy: Some((2, 5)),
    requires: &[],
    wanted: is_wanted,
    refuse_read: unknown_mode,
    refuse_write: unknown_mode,
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

/// Gives an id above `max_id` and a physical name from `fresh` to each field that has none: depth first, a field
/// before those inside of it (P110, P111).
///
/// # Errors
/// `InvalidArgument` when the ids are used up.
pub fn assign(schema: &StructType, max_id: i32, fresh: &mut dyn FnMut() -> String) -> Result<Assigned> {
    give(schema, max_id, &mut |_| fresh())
}

/// The schema of a table that had no mapping when it gets one: files are there already, so each field's physical
/// name is its name (P111).
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
    let max_id = last.ok_or_else(|| {
        Error::invalid_argument("the table has used up all column ids (2147483647): write it to a new table")
    })?;
    Ok(Assigned { schema, max_id })
}

fn max_id_of(schema: &StructType, known: i32) -> i32 {
    let mut max = known;
    schema.map_fields(&mut |f| {
        max = max.max(id_of(&f).unwrap_or(0));
        f
    });
    max
}

/// The highest id that a table with this metadata ever gave: what the property says, or a column has (P110).
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
        (_, Mapping::None) => "its files have other names than its columns; write the rows to a new table",
        (Mapping::Name | Mapping::Id, _) => "its files were written for the other one; write the rows to a new table",
    };
    Err(Error::invalid_argument(format!(
        "{MODE} can't change from `{}` to `{}` on an existing table (P114): {remedy}",
        from.as_str(),
        to.as_str()
    )))
}

/// Refuses to rename or drop a column of a table whose files would have to change with it (P114).
///
/// # Errors
/// `UnsupportedFeature` without mapping.
pub fn check_can_rename(mapping: Mapping) -> Result<()> {
    match mapping {
        Mapping::Name | Mapping::Id => Ok(()),
        Mapping::None => Err(Error::unsupported_feature(format!(
            "columns can be renamed and dropped only under column mapping, since data files have their names (P114): set the table property {MODE} to name first"
        ))),
    }
}

/// The schema with the field at `path` renamed; its id and physical name stay. Paths go through structs by field
/// names, through lists by `element`, through maps by `key` and `value`, ignoring case.
///
/// # Errors
/// `InvalidArgument` for a path that leads nowhere, or a name that is taken or empty.
pub fn rename_column(schema: &StructType, path: &[&str], to: &str) -> Result<StructType> {
    let renamed = change(schema, path, &|field, siblings| {
        let other = siblings.field_ignore_case(to).filter(|f| f.name != field.name);
        match other {
            Some(other) => Err(Error::invalid_argument(format!(
                "the column `{}` can't be renamed to `{to}`: `{}` is there already",
                path.join("."),
                other.name
            ))),
            None => Ok(Some(Field {
                name: to.to_owned(),
                ..field.clone()
            })),
        }
    })?;
    renamed.check_names()?;
    Ok(renamed)
}

/// The schema without the field at `path`, which is given as for [`rename_column`].
///
/// # Errors
/// `InvalidArgument` for a path that leads nowhere, or the last field of a struct.
pub fn drop_column(schema: &StructType, path: &[&str]) -> Result<StructType> {
    change(schema, path, &|_, siblings| match siblings.fields().len() {
        1 => Err(Error::invalid_argument(format!(
            "the column `{}` can't be dropped: nothing would be left where it stands",
            path.join(".")
        ))),
        _ => Ok(None),
    })
}

/// What becomes of a field among its siblings; `None` drops it.
type Change<'a> = &'a dyn Fn(&Field, &StructType) -> Result<Option<Field>>;

fn change(schema: &StructType, path: &[&str], with: Change<'_>) -> Result<StructType> {
    let nowhere = || Error::invalid_argument(format!("the table has no column `{}`", path.join(".")));
    change_in(schema, path, with)?.ok_or_else(nowhere)
}

fn change_in(s: &StructType, path: &[&str], with: Change<'_>) -> Result<Option<StructType>> {
    let Some((at, rest)) = path
        .split_first()
        .and_then(|(name, rest)| Some((s.index_ignore_case(name)?, rest)))
    else {
        return Ok(None);
    };
    let mut fields = Vec::with_capacity(s.fields().len());
    for (i, f) in s.fields().iter().enumerate() {
        if i != at {
            fields.push(f.clone());
        } else if rest.is_empty() {
            fields.extend(with(f, s)?);
        } else {
            let Some(data_type) = change_type(&f.data_type, rest, with)? else {
                return Ok(None);
            };
            fields.push(Field { data_type, ..f.clone() });
        }
    }
    Ok(Some(StructType::new(fields)))
}

fn change_type(t: &DataType, path: &[&str], with: Change<'_>) -> Result<Option<DataType>> {
    let step = path.split_first().map(|(step, rest)| (step.to_lowercase(), rest));
    Ok(match (t, step) {
        (DataType::Struct(s), _) => change_in(s, path, with)?.map(DataType::Struct),
        (DataType::Array(a), Some((step, rest))) if step == "element" => {
            change_type(&a.element, rest, with)?.map(|element| {
                DataType::Array(Box::new(ArrayType {
                    element,
                    ..(**a).clone()
                }))
            })
        }
        (DataType::Map(m), Some((step, rest))) if step == "key" => {
            change_type(&m.key, rest, with)?.map(|key| DataType::Map(Box::new(MapType { key, ..(**m).clone() })))
        }
        (DataType::Map(m), Some((step, rest))) if step == "value" => {
            change_type(&m.value, rest, with)?.map(|value| DataType::Map(Box::new(MapType { value, ..(**m).clone() })))
        }
        _ => None,
    })
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
        let found: Vec<_> = ids(&first.schema).into_iter().map(|(n, id, _)| (n, id)).collect();
        let expected = [("s", 1), ("x", 2), ("l", 3), ("e", 4), ("a", 5)].map(|(n, id)| (n.to_owned(), id));
        assert_eq!((found.as_slice(), first.max_id), (expected.as_slice(), 5));
        Mapping::Id.check(&first.schema).unwrap();

        let dropped = drop_column(&first.schema, &["A"]).unwrap();
        let mut fields = dropped.fields().to_vec();
        fields.push(Field::new("a", Primitive::Date, true));
        let again = assign(&StructType::new(fields), first.max_id, &mut || "col-new".to_owned()).unwrap();
        assert_eq!(ids(&again.schema)[4], ("a".to_owned(), 6, "col-new".to_owned()));
        assert_eq!(ids(&again.schema)[..4], ids(&first.schema)[..4]);
        assert!(assign(&schema(), i32::MAX - 1, &mut fresh()).is_err());
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
    fn renames_and_drops_reach_every_depth() {
        let up = upgrade(&schema()).unwrap().schema;
        let renamed = rename_column(&up, &["L", "element", "E"], "new name").unwrap();
        assert_eq!(
            renamed.to_string(),
            "struct<s:struct<x:long>,l:array<struct<new name:long>>,a:date>"
        );
        assert_eq!(ids(&renamed)[3], ("new name".to_owned(), 4, "e".to_owned()));
        assert!(
            rename_column(&up, &["s"], "A")
                .unwrap_err()
                .message()
                .contains("`a` is there already")
        );
        assert!(rename_column(&up, &["a"], "A").is_ok());
        assert!(
            rename_column(&up, &["s", "nope"], "y")
                .unwrap_err()
                .message()
                .contains("no column `s.nope`")
        );
        assert!(
            drop_column(&up, &["s", "x"])
                .unwrap_err()
                .message()
                .contains("nothing would be left")
        );
        assert_eq!(
            drop_column(&up, &["s"]).unwrap().to_string(),
            "struct<l:array<struct<e:long>>,a:date>"
        );
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
        assert!(check_can_rename(None).unwrap_err().message().contains(MODE));
    }
}
