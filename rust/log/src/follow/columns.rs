//! The columns that a follower uses until it accepts others: which commits change them, and how two
//! sets differ. Knows no store.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Action, Metadata, Protocol};
use deltaplane_protocol::changes::names_ended;
use deltaplane_protocol::features::{View, type_widening};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{DataType, StructType};
use deltaplane_protocol::state::TableState;
use serde::{Deserialize, Serialize, Serializer};

use crate::commit::reader::Commit;
use crate::table_schema::TableSchema;

/// A table's columns, properties and protocol at a version.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "TrackedFields")]
pub struct TrackedColumns {
    /// The last version that is known to have them.
    pub version: u64,
    /// Columns and properties.
    pub metadata: Metadata,
    /// The protocol.
    pub protocol: Protocol,
}

/// The same in the form in which a follower keeps them.
#[derive(Serialize, Deserialize)]
#[serde(rename = "TrackedColumns")]
struct TrackedFields {
    version: u64,
    id: String,
    schema: TableSchema,
    partition_columns: Vec<String>,
    configuration: BTreeMap<String, String>,
    min_reader_version: i32,
    min_writer_version: i32,
    reader_features: Option<Vec<String>>,
    writer_features: Option<Vec<String>>,
}

impl TrackedFields {
    /// Fails with `CorruptLog` for an invalid schema.
    fn of(columns: &TrackedColumns) -> Result<Self> {
        let TrackedColumns {
            version,
            metadata,
            protocol,
        } = columns.clone();
        Ok(TrackedFields {
            version,
            id: metadata.id,
            schema: columns.schema()?.into(),
            partition_columns: metadata.partition_columns,
            configuration: metadata.configuration,
            min_reader_version: protocol.min_reader_version,
            min_writer_version: protocol.min_writer_version,
            reader_features: protocol.reader_features,
            writer_features: protocol.writer_features,
        })
    }
}

impl Serialize for TrackedColumns {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let fields = TrackedFields::of(self).map_err(serde::ser::Error::custom)?;
        fields.serialize(serializer)
    }
}

impl From<TrackedFields> for TrackedColumns {
    fn from(fields: TrackedFields) -> Self {
        TrackedColumns {
            version: fields.version,
            metadata: Metadata {
                id: fields.id,
                schema_string: Some(fields.schema.0.to_json()),
                partition_columns: fields.partition_columns,
                configuration: fields.configuration,
                ..Metadata::default()
            },
            protocol: Protocol {
                min_reader_version: fields.min_reader_version,
                min_writer_version: fields.min_writer_version,
                reader_features: fields.reader_features,
                writer_features: fields.writer_features,
            },
        }
    }
}

/// How columns differ from older ones, apart from added columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSteps {
    /// Columns and fields with another name, by their older path.
    pub renamed: Vec<String>,
    /// Dropped columns and fields.
    pub dropped: Vec<String>,
    /// Columns with a wider type.
    pub widened: Vec<String>,
    /// Why rows of the older columns can't be read as rows of the newer ones, if they can't.
    pub incompatible: Option<String>,
}

impl TrackedColumns {
    /// Those of a version.
    pub fn of(version: u64, state: &TableState) -> Self {
        TrackedColumns {
            version,
            metadata: state.metadata().clone(),
            protocol: state.protocol().clone(),
        }
    }

    /// The columns after a commit, if it changes columns, partitioning, Delta properties or the
    /// protocol.
    ///
    /// # Errors
    /// `CorruptLog` for an invalid schema.
    pub(crate) fn after(&self, commit: &Commit) -> Result<Option<Self>> {
        let (mut metadata, mut protocol) = (None, None);
        for action in &commit.state {
            match action {
                Action::Metadata(new) => metadata = Some(new),
                Action::Protocol(new) => protocol = Some(new),
                _ => {}
            }
        }
        let next = TrackedColumns {
            version: commit.version(),
            metadata: metadata.unwrap_or(&self.metadata).clone(),
            protocol: protocol.unwrap_or(&self.protocol).clone(),
        };
        Ok((!self.shows_as(&next)?).then_some(next))
    }

    /// Whether both show rows in the same way.
    ///
    /// # Errors
    /// `CorruptLog` for an invalid schema.
    pub fn shows_as(&self, other: &Self) -> Result<bool> {
        Ok(self.protocol == other.protocol
            && self.metadata.partition_columns == other.metadata.partition_columns
            && self.properties().eq(other.properties())
            && self.schema()? == other.schema()?)
    }

    /// The differences from older ones. Columns are matched by their names in files.
    ///
    /// # Errors
    /// `CorruptLog` for an invalid schema.
    pub fn steps_from(&self, older: &Self) -> Result<ColumnSteps> {
        let mapping = Mapping::of(&self.metadata.configuration)?;
        let (before, after) = (older.schema()?, self.schema()?);
        let mut steps = ColumnSteps::default();
        steps.structs(&before, &after, mapping, "");
        let was = View {
            metadata: &older.metadata,
            schema: &before,
        };
        steps.incompatible = steps.incompatible.or_else(|| names_ended(was, mapping));
        Ok(steps)
    }

    fn schema(&self) -> Result<StructType> {
        let text = self.metadata.schema_string.as_deref();
        StructType::from_json(text.ok_or_else(|| Error::corrupt_log("the metadata has no schema"))?)
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &String)> {
        let all = self.metadata.configuration.iter();
        all.filter(|(name, _)| name.starts_with("delta."))
    }
}

impl ColumnSteps {
    fn structs(&mut self, old: &StructType, new: &StructType, mapping: Mapping, above: &str) {
        for was in old.fields() {
            let path = format!("{above}{}", was.name);
            let name = mapping.physical_name(was);
            let Some(is) = new.fields().iter().find(|f| mapping.physical_name(f) == name) else {
                self.dropped.push(path);
                continue;
            };
            if was.name != is.name {
                self.renamed.push(path.clone());
            }
            if was.nullable && !is.nullable {
                self.incompatible = Some(format!("the column `{path}` no longer takes nulls"));
            }
            self.types(&was.data_type, &is.data_type, mapping, &path);
        }
    }

    fn types(&mut self, old: &DataType, new: &DataType, mapping: Mapping, path: &str) {
        match (old, new) {
            (DataType::Struct(a), DataType::Struct(b)) => self.structs(a, b, mapping, &format!("{path}.")),
            (DataType::Array(a), DataType::Array(b)) => {
                self.types(&a.element, &b.element, mapping, &format!("{path}.element"));
            }
            (DataType::Map(a), DataType::Map(b)) => {
                self.types(&a.key, &b.key, mapping, &format!("{path}.key"));
                self.types(&a.value, &b.value, mapping, &format!("{path}.value"));
            }
            (DataType::Primitive(a), DataType::Primitive(b)) if type_widening::is_change(*a, *b) => {
                self.widened.push(path.to_owned());
            }
            (a, b) if a != b => {
                self.incompatible = Some(format!("the column `{path}` was of type {a} and is of type {b}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use deltaplane_protocol::schema::{Field, Primitive};

    use super::*;

    fn field(name: &str, in_files: &str, data_type: impl Into<DataType>) -> Field {
        let mut field = Field::new(name, data_type, true);
        let physical = "delta.columnMapping.physicalName".to_owned();
        field.metadata.insert(physical, in_files.into());
        field
    }

    fn inside(name: &str) -> DataType {
        DataType::Struct(StructType::new(vec![field(name, "e", Primitive::Short)]))
    }

    fn columns(fields: Vec<Field>) -> TrackedColumns {
        let mapped = ("delta.columnMapping.mode".to_owned(), "name".to_owned());
        let metadata = Metadata {
            schema_string: Some(StructType::new(fields).to_json()),
            configuration: [mapped].into(),
            ..Metadata::default()
        };
        TrackedColumns {
            version: 0,
            metadata,
            protocol: Protocol::default(),
        }
    }

    #[test]
    fn columns_are_the_same_by_their_names_in_files() {
        // P110, P153
        let older = columns(vec![
            field("kept", "a", Primitive::Long),
            field("old", "b", Primitive::Integer),
            field("gone", "c", Primitive::Date),
            field("in", "d", inside("x")),
        ]);
        let newer = columns(vec![
            field("new", "b", Primitive::Long),
            field("gone", "f", Primitive::String),
            field("in", "d", inside("y")),
            field("kept", "a", Primitive::Long),
        ]);
        let steps = newer.steps_from(&older).unwrap();
        assert_eq!(steps.renamed, ["old", "in.x"]);
        assert_eq!(steps.dropped, ["gone"]);
        assert_eq!(steps.widened, ["old"]);
        assert_eq!(steps.incompatible, None);
        assert!(!newer.shows_as(&older).unwrap());
        assert_eq!(older.steps_from(&older).unwrap(), ColumnSteps::default());
        let narrowed = columns(vec![field("kept", "a", Primitive::Integer)]);
        let why = narrowed.steps_from(&older).unwrap().incompatible.unwrap();
        assert_eq!(why, "the column `kept` was of type long and is of type integer");
    }

    #[test]
    fn own_properties_of_users_change_nothing() {
        let (table, mut other) = (columns(vec![]), columns(vec![]));
        let set = |tracked: &mut TrackedColumns, name: &str| {
            tracked.metadata.configuration.insert(name.to_owned(), "1".to_owned())
        };
        set(&mut other, "owner");
        assert!(table.shows_as(&other).unwrap());
        set(&mut other, "delta.columnMapping.maxColumnId");
        assert!(!table.shows_as(&other).unwrap());
    }
}
