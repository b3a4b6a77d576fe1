//! Checks that files which stay in a table have the same meaning under new metadata: partition
//! values are found by the names of partition columns, other values by the names of columns in
//! files. Pure.

use std::collections::BTreeSet;

use crate::features::{View, type_widening};
use crate::mapping::Mapping;
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result};

/// The reason why files written under `before` would be read as other rows under `after`; `None` if
/// they have the same meaning. Columns may be added, dropped and widened; a RESTORE reverts such
/// changes.
///
/// # Errors
/// `UnsupportedFeature` for a column mapping that isn't known.
pub fn misread(before: View<'_>, after: View<'_>) -> Result<Option<String>> {
    let (old, new) = (
        Mapping::of(&before.metadata.configuration)?,
        Mapping::of(&after.metadata.configuration)?,
    );
    if partition_keys(before)? != partition_keys(after)? {
        return Ok(Some(format!(
            "the partition columns from [{}] to [{}]",
            before.metadata.partition_columns.join(", "),
            after.metadata.partition_columns.join(", ")
        )));
    }
    Ok(other_type(old, before.schema, new, after.schema))
}

/// The keys of a file's partition values.
///
/// # Errors
/// As [`misread`].
pub fn partition_keys(view: View<'_>) -> Result<BTreeSet<&str>> {
    let mapping = Mapping::of(&view.metadata.configuration)?;
    let columns = view.metadata.partition_columns.iter();
    Ok(columns.map(|c| mapping.partition_key(view.schema, c)).collect())
}

/// The error for a change of metadata that would change the meaning of the table's files.
pub fn refusal(why: &str, path: &str) -> Error {
    Error::invalid_argument(format!(
        "the commit would change {why}, and files stay that were written before, so that their rows would be read as other \
         rows: nothing was committed; replace all rows in the same write (mode overwrite without dynamic partitions and \
         without a predicate). The first such file: {path}"
    ))
}

fn other_type(old: Mapping, before: &StructType, new: Mapping, after: &StructType) -> Option<String> {
    let twin = |f: &Field| {
        let name = old.physical_name(f);
        after.fields().iter().find(|g| new.physical_name(g) == name)
    };
    before.fields().iter().find_map(|field| {
        let now = twin(field)?;
        other(old, &field.data_type, new, &now.data_type).map(|inside| match inside.is_empty() {
            true => format!("the type of the column `{}`", field.name),
            false => inside,
        })
    })
}

/// The path of the difference: empty for the type itself, otherwise the field in it.
fn other(old: Mapping, from: &DataType, new: Mapping, to: &DataType) -> Option<String> {
    match (from, to) {
        (DataType::Primitive(a), DataType::Primitive(b)) => (!are_kin(*a, *b)).then(String::new),
        (DataType::Struct(a), DataType::Struct(b)) => other_type(old, a, new, b),
        (DataType::Array(a), DataType::Array(b)) => other(old, &a.element, new, &b.element),
        (DataType::Map(a), DataType::Map(b)) => {
            other(old, &a.key, new, &b.key).or_else(|| other(old, &a.value, new, &b.value))
        }
        // A void column is in no file.
        (DataType::Primitive(Primitive::Void), _) | (_, DataType::Primitive(Primitive::Void)) => None,
        _ => Some(String::new()),
    }
}

fn are_kin(a: Primitive, b: Primitive) -> bool {
    let void = a == Primitive::Void || b == Primitive::Void;
    a == b || void || type_widening::is_change(a, b) || type_widening::is_change(b, a)
}
