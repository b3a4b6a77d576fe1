//! Column names in files and log (column mapping, P110–P113): the only module that knows physical
//! names and ids. Without mapping it is the identity.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::schema::{DataType, Field, StructType};
use crate::{Error, Result};

/// Key of a field's metadata: its name in files and log.
pub const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";
/// Key of a field's metadata: its number, which the table never uses again.
pub const ID: &str = "delta.columnMapping.id";
/// Key of a field's metadata: the numbers of elements, keys and values inside it, by path (P115).
pub const NESTED_IDS: &str = "delta.columnMapping.nested.ids";
/// Table property: how columns are mapped.
pub const MODE: &str = "delta.columnMapping.mode";

/// How a table's columns are found in its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mapping {
    /// By their names.
    #[default]
    None,
    /// By their physical names.
    Name,
    /// By their ids; the log still uses physical names.
    Id,
}

impl Mapping {
    /// The mode in a table's configuration.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a mode that isn't known.
    pub fn of(configuration: &BTreeMap<String, String>) -> Result<Mapping> {
        configuration.get(MODE).map_or(Ok(Mapping::None), |m| Mapping::parse(m))
    }

    /// The mode of this name, ignoring case.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a mode that isn't known.
    pub fn parse(mode: &str) -> Result<Mapping> {
        match mode.to_lowercase().as_str() {
            "none" => Ok(Mapping::None),
            "name" => Ok(Mapping::Name),
            "id" => Ok(Mapping::Id),
            other => Err(Error::unsupported_feature(format!(
                "the table property {MODE} is `{other}`, which no version of the protocol knows: it is none, name or id"
            ))),
        }
    }

    /// The mode's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Mapping::None => "none",
            Mapping::Name => "name",
            Mapping::Id => "id",
        }
    }

    /// The name of a field in files, statistics and partition values.
    pub fn physical_name(self, field: &Field) -> &str {
        let mapped = match self {
            Mapping::None => None,
            Mapping::Name | Mapping::Id => field.metadata.get(PHYSICAL_NAME).and_then(Value::as_str),
        };
        mapped.unwrap_or(&field.name)
    }

    /// The key of a partition column in a file's partition values, from its name in the metadata.
    pub fn partition_key<'s>(self, schema: &'s StructType, column: &'s str) -> &'s str {
        match self {
            Mapping::None => column,
            Mapping::Name | Mapping::Id => schema
                .field_ignore_case(column)
                .map_or(column, |f| self.physical_name(f)),
        }
    }

    /// The number that identifies a file's column; `None` if the name does.
    pub fn id(self, field: &Field) -> Option<i32> {
        (self == Mapping::Id).then(|| id_of(field)).flatten()
    }

    /// The names in files of a path through structs; `None` if the schema doesn't have it.
    pub fn physical_path(self, schema: &StructType, path: &[impl AsRef<str>]) -> Option<Vec<String>> {
        let mut here = Some(schema);
        let mut physical = Vec::with_capacity(path.len());
        for name in path {
            let field = here?.field_ignore_case(name.as_ref())?;
            physical.push(self.physical_name(field).to_owned());
            here = match &field.data_type {
                DataType::Struct(s) => Some(s),
                _ => None,
            };
        }
        Some(physical)
    }

    /// The schema in files: physical names at every depth, everything else unchanged.
    pub fn physical_schema(self, schema: &StructType) -> StructType {
        schema.map_fields(&mut |f| Field {
            name: self.physical_name(&f).to_owned(),
            ..f
        })
    }

    /// Refuses a schema whose fields are ambiguous in files: one lacks its id or physical name, or
    /// shares it with another (P110).
    ///
    /// # Errors
    /// `CorruptLog` with the field's name.
    pub fn check(self, schema: &StructType) -> Result<()> {
        match self {
            Mapping::None => Ok(()),
            Mapping::Name | Mapping::Id => check_struct(schema, &mut HashSet::new()),
        }
    }
}

/// The column id of a field, whatever the mode.
pub fn id_of(field: &Field) -> Option<i32> {
    field.metadata.get(ID)?.as_i64().and_then(|id| i32::try_from(id).ok())
}

/// Every struct directly inside of a type: itself, or those of elements, keys and values.
fn structs_in<'t>(t: &'t DataType, visit: &mut dyn FnMut(&'t StructType) -> Result<()>) -> Result<()> {
    match t {
        DataType::Primitive(_) => Ok(()),
        DataType::Struct(s) => visit(s),
        DataType::Array(a) => structs_in(&a.element, visit),
        DataType::Map(m) => structs_in(&m.key, visit).and_then(|()| structs_in(&m.value, visit)),
    }
}

fn check_struct(s: &StructType, ids: &mut HashSet<i32>) -> Result<()> {
    let broken = |f: &Field, what: &str| {
        Error::corrupt_log(format!(
            "the column `{}` {what}, which column mapping ({MODE}) needs (P110): a faulty program wrote the table's schema",
            f.name
        ))
    };
    let mut names = HashSet::with_capacity(s.fields().len());
    for f in s.fields() {
        let name = f.metadata.get(PHYSICAL_NAME).and_then(Value::as_str);
        let name = name.ok_or_else(|| broken(f, "has no physical name"))?;
        if !names.insert(name.to_lowercase()) {
            return Err(broken(f, "has no physical name of its own"));
        }
        let id = id_of(f).ok_or_else(|| broken(f, "has no id"))?;
        if !ids.insert(id) {
            return Err(broken(f, "has no id of its own"));
        }
        structs_in(&f.data_type, &mut |inner| check_struct(inner, ids))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::{ArrayType, Primitive};

    fn mapped(name: &str, id: i32, t: impl Into<DataType>) -> Field {
        let mut f = Field::new(name, t, true);
        f.metadata.insert(ID.into(), id.into());
        f.metadata.insert(PHYSICAL_NAME.into(), format!("col-{id}").into());
        f
    }

    fn schema() -> StructType {
        let inner = StructType::new(vec![mapped("x y", 2, Primitive::Long)]);
        let list = DataType::Array(Box::new(ArrayType {
            element: DataType::Struct(StructType::new(vec![mapped("e", 5, Primitive::Date)])),
            contains_null: true,
        }));
        StructType::new(vec![mapped("S", 1, DataType::Struct(inner)), mapped("l", 4, list)])
    }

    #[test]
    fn none_is_the_identity() {
        // P113: names of an earlier mapping mean nothing
        let s = schema();
        assert_eq!(Mapping::None.physical_schema(&s), s);
        assert_eq!(Mapping::None.physical_path(&s, &["s", "X Y"]).unwrap(), ["S", "x y"]);
        Mapping::None
            .check(&StructType::new(vec![Field::new("a", Primitive::Long, true)]))
            .unwrap();
    }

    #[test]
    fn names_are_physical_at_every_depth() {
        // P112, P113
        let s = schema();
        for mode in [Mapping::Name, Mapping::Id] {
            assert_eq!(mode.physical_path(&s, &["s", "x Y"]).unwrap(), ["col-1", "col-2"]);
            assert_eq!(mode.physical_path(&s, &["s", "nope"]), None);
            assert_eq!(
                mode.physical_schema(&s).to_string(),
                "struct<col-1:struct<col-2:long>,col-4:array<struct<col-5:date>>>"
            );
            mode.check(&s).unwrap();
        }
        let field = s.field("S").unwrap();
        assert_eq!((Mapping::Id.id(field), Mapping::Name.id(field)), (Some(1), None));
    }

    #[test]
    fn a_schema_without_its_mapping_is_refused() {
        // P110
        let refusal = |fields: Vec<Field>| Mapping::Name.check(&StructType::new(fields)).unwrap_err();
        let plain = Field::new("a", Primitive::Long, true);
        assert!(
            refusal(vec![plain.clone()])
                .message()
                .contains("`a` has no physical name")
        );
        let mut no_id = mapped("b", 1, Primitive::Long);
        no_id.metadata.remove(ID);
        assert!(refusal(vec![no_id]).message().contains("`b` has no id"));
        let twice = vec![mapped("a", 1, Primitive::Long), mapped("b", 1, Primitive::Long)];
        assert!(refusal(twice).message().contains("of its own"));
        let nested = mapped("s", 1, DataType::Struct(StructType::new(vec![plain])));
        assert!(refusal(vec![nested]).message().contains("`a`"));
    }

    #[test]
    fn modes_are_read_ignoring_case() {
        let mode_of = |m: &str| Mapping::of(&BTreeMap::from([(MODE.to_owned(), m.to_owned())]));
        assert_eq!(mode_of("ID").unwrap(), Mapping::Id);
        assert_eq!(mode_of("none").unwrap(), Mapping::None);
        assert!(mode_of("nme").unwrap_err().message().contains("`nme`"));
    }
}
