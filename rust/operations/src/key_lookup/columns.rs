//! Which columns of a table are indexed: properties of the table, which other writers keep and
//! needn't know. They have the columns' names in files, which survive renaming.

use deltaplane_data::FILE;
use deltaplane_error::{Error, Result};
use deltaplane_index::KeyClass;
use deltaplane_protocol::schema::{DataType, Field};
use deltaplane_protocol::state::TableState;

/// The first part of the property's name, before the column's name in files: a property for each
/// column, so that writers who add indexes at the same time don't replace each other's.
pub const PROPERTY: &str = "deltaplane.index.";
/// The property's value. Other values are kinds of indexes that aren't known.
const KIND: &str = "keys";

/// Keys of a field's metadata that change which strings are equal.
const SPECIAL_STRINGS: [&str; 2] = ["__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING"];

/// An indexed column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexedColumn {
    /// Its name in the table.
    pub(crate) name: String,
    /// Its name in files.
    pub(crate) physical: String,
    pub(crate) class: KeyClass,
}

/// Whether the column with this name in files is indexed.
fn is_indexed(state: &TableState, physical: &str) -> bool {
    let value = state.metadata().configuration.get(&property(physical));
    value.is_some_and(|kind| kind == KIND)
}

fn property(physical: &str) -> String {
    format!("{PROPERTY}{physical}")
}

/// The indexed columns that the table has, with types that can be indexed.
pub(crate) fn indexed_columns(state: &TableState) -> Vec<IndexedColumn> {
    if !state
        .metadata()
        .configuration
        .keys()
        .any(|key| key.starts_with(PROPERTY))
    {
        return Vec::new();
    }
    let physical = |f: &Field| state.mapping().physical_name(f).to_owned();
    let fields = state.schema().fields().iter();
    fields
        .filter(|f| is_indexed(state, &physical(f)))
        .filter_map(|f| {
            Some(IndexedColumn {
                name: f.name.clone(),
                physical: physical(f),
                class: class_of(state, f).ok()?,
            })
        })
        .collect()
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

/// The property that makes an index of a column, and its value.
///
/// # Errors
/// `InvalidArgument` for an unknown column, `UnsupportedFeature` for one that isn't indexed.
pub fn property_to_add(state: &TableState, name: &str) -> Result<(String, &'static str)> {
    let Some(field) = state.schema().field_ignore_case(name) else {
        return Err(Error::invalid_argument(format!(
            "the table has no column `{name}` to index: name a top-level column"
        )));
    };
    class_of(state, field)?;
    Ok((property(state.mapping().physical_name(field)), KIND))
}

/// The property that a column's index has.
///
/// # Errors
/// `InvalidArgument` for a column without an index.
pub fn property_to_drop(state: &TableState, name: &str) -> Result<String> {
    let field = state.schema().field_ignore_case(name);
    let physical = field
        .map(|f| state.mapping().physical_name(f))
        .filter(|p| is_indexed(state, p));
    let none = || Error::invalid_argument(format!("the column `{name}` has no key index to drop"));
    physical.map(property).ok_or_else(none)
}
