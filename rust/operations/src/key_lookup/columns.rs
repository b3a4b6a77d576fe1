//! Which indexes of keys a table has: properties of the table, which other writers keep and needn't
//! know. They have the columns' names in files, which survive renaming.

use deltaplane_error::{Error, Result};
use deltaplane_index::{KeyClass, KeyColumn, SegmentInfo};
use deltaplane_protocol::hidden_columns::FILE;
use deltaplane_protocol::schema::{DataType, Field};
use deltaplane_protocol::state::TableState;
use serde::{Deserialize, Serialize};

/// The first part of the property's name, before the column's name in files, or in parentheses the
/// names of several: a property for each index, so that writers who add indexes at the same time
/// don't replace each other's.
pub const PROPERTY: &str = "deltaplane.index.";
/// The property's value for an index of one column; that of several is their names in files with
/// commas between. Other values are kinds of indexes that aren't known.
const KIND: &str = "keys";

/// Keys of a field's metadata that change which strings are equal.
const SPECIAL_STRINGS: [&str; 2] = ["__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING"];

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableIndex {
    /// The names in the table of the columns that keys are made of, in the order of their values.
    pub(crate) names: Vec<String>,
    /// The same columns, as files have them.
    pub(crate) columns: Vec<KeyColumn>,
}

impl TableIndex {
    /// Whether a segment has keys of it.
    pub(crate) fn has(&self, segment: &SegmentInfo) -> bool {
        segment.columns == self.columns
    }
}

/// The columns, by their names in files, of the index that a property makes; `None` for other
/// properties and for kinds of indexes that aren't known.
fn indexed_by(property: &str, value: &str) -> Option<Vec<String>> {
    let column = property.strip_prefix(PROPERTY)?;
    if value == KIND {
        return Some(vec![column.to_owned()]);
    }
    let columns: Vec<String> = value.split(',').map(from_list).collect();
    (columns.len() > 1 && self::property(&columns) == (property.to_owned(), value.to_owned())).then_some(columns)
}

/// The property that makes an index of the columns with these names in files, and its value.
fn property(columns: &[String]) -> (String, String) {
    match columns {
        [only] => (format!("{PROPERTY}{only}"), KIND.to_owned()),
        several => {
            let listed = several.iter().map(|name| in_list(name)).collect::<Vec<_>>().join(",");
            (format!("{PROPERTY}({listed})"), listed)
        }
    }
}

/// A name as a list has it: a comma in it doesn't end it.
fn in_list(name: &str) -> String {
    name.replace('%', "%25").replace(',', "%2C")
}

/// The name that a list has so.
fn from_list(listed: &str) -> String {
    listed.replace("%2C", ",").replace("%25", "%")
}

/// The indexes that the table has, whose columns have types that can be indexed.
pub(crate) fn table_indexes(state: &TableState) -> Vec<TableIndex> {
    let configured = &state.metadata().configuration;
    let indexed = configured
        .iter()
        .filter_map(|(property, value)| indexed_by(property, value));
    let mut indexes: Vec<TableIndex> = indexed.filter_map(|columns| of_columns(state, &columns)).collect();
    // In the order of the table's columns.
    let place = |name: &String| state.schema().fields().iter().position(|f| f.name == *name);
    indexes.sort_by_cached_key(|index| index.names.iter().map(place).collect::<Vec<_>>());
    indexes
}

/// The index of the columns with these names in files; `None` if the table has one of them no more,
/// or if its type isn't indexed any more.
fn of_columns(state: &TableState, columns: &[String]) -> Option<TableIndex> {
    let field = |name: &String| {
        let mut fields = state.schema().fields().iter();
        fields.find(|f| state.mapping().physical_name(f) == name)
    };
    let fields = columns.iter().map(field).collect::<Option<Vec<&Field>>>()?;
    let classes = fields.iter().map(|f| class_of(state, f).ok());
    let classes = classes.collect::<Option<Vec<KeyClass>>>()?;
    let named = columns.iter().zip(classes);
    Some(TableIndex {
        names: fields.iter().map(|f| f.name.clone()).collect(),
        columns: named
            .map(|(name, class)| KeyColumn {
                name: name.clone(),
                class,
            })
            .collect(),
    })
}

/// The class of a column's values.
fn class_of(state: &TableState, field: &Field) -> Result<KeyClass> {
    let refused = |why: String| {
        Err(Error::unsupported_feature(format!(
            "the column `{}` can't have a key index, since {why}",
            field.name
        )))
    };
    if state.schema().field_ignore_case(FILE).is_some() {
        return refused(format!(
            "the table has a column `{FILE}`, a name under which rows are found"
        ));
    }
    let is_partition = |p: &String| p.to_lowercase() == field.name.to_lowercase();
    if state.partition_columns().iter().any(is_partition) {
        return refused("the table is partitioned by it: plans select its files by their partition values".to_owned());
    }
    let is_special = |key: &&str| match field.metadata.get(*key) {
        Some(serde_json::Value::String(ty)) => !ty.starts_with("varchar"),
        Some(_) => true,
        None => false,
    };
    if SPECIAL_STRINGS.iter().any(is_special) {
        return refused("its strings are compared by a collation or with padding (CHAR)".to_owned());
    }
    let DataType::Primitive(ty) = &field.data_type else {
        return refused("its type is nested".to_owned());
    };
    match KeyClass::of(*ty) {
        Some(class) => Ok(class),
        None => refused(format!(
            "values of the type {ty} aren't looked up: integers, decimals, strings, binary values, dates and timestamps are"
        )),
    }
}

/// The property that makes an index of columns, and its value. An index of the same columns in
/// another order is the same.
///
/// # Errors
/// `InvalidArgument` for an unknown column and for one that is named twice, `UnsupportedFeature`
/// for one that isn't indexed.
pub fn property_to_add(state: &TableState, names: &[String]) -> Result<(String, String)> {
    let mut columns: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let Some(field) = state.schema().field_ignore_case(name) else {
            return Err(Error::invalid_argument(format!(
                "the table has no column `{name}` to index: name a top-level column"
            )));
        };
        class_of(state, field)?;
        let physical = state.mapping().physical_name(field).to_owned();
        if columns.contains(&physical) {
            return Err(Error::invalid_argument(format!(
                "the index names the column `{name}` twice: name each column once"
            )));
        }
        columns.push(physical);
    }
    if let Some(known) = of_same_columns(state, &columns) {
        return Ok(known);
    }
    let (property, value) = property(&columns);
    match state.metadata().configuration.get(&property) {
        Some(other) if *other != value => Err(Error::invalid_argument(format!(
            "the table's property `{property}` is `{other}`, so that it can't make an index of {}: unset it first",
            names.join(", ")
        ))),
        _ => Ok((property, value)),
    }
}

/// The property of the index of these columns in any order, and its value.
fn of_same_columns(state: &TableState, columns: &[String]) -> Option<(String, String)> {
    let sorted = |columns: &[String]| {
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let wanted = sorted(columns);
    let mut configured = state.metadata().configuration.iter();
    configured
        .find(|(property, value)| indexed_by(property, value).is_some_and(|known| sorted(&known) == wanted))
        .map(|(property, value)| (property.clone(), value.clone()))
}

/// The property that the index of these columns has.
///
/// # Errors
/// `InvalidArgument` for columns without an index.
pub fn property_to_drop(state: &TableState, names: &[String]) -> Result<String> {
    let physical = |name: &String| {
        let field = state.schema().field_ignore_case(name)?;
        Some(state.mapping().physical_name(field).to_owned())
    };
    let columns = names.iter().map(physical).collect::<Option<Vec<String>>>();
    let known = columns.and_then(|columns| of_same_columns(state, &columns));
    let none = || {
        let named = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let what = if names.len() == 1 { "the column" } else { "the columns" };
        let has = if names.len() == 1 { "has" } else { "have" };
        Error::invalid_argument(format!("{what} {} {has} no key index to drop", named.join(", ")))
    };
    known.map(|(property, _)| property).ok_or_else(none)
}
