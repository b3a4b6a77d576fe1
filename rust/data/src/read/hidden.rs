//! The hidden columns that a scan can return besides the table's: their fields and sources. `plan`
//! finds stored ones, `decode` makes arrays.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::hidden_columns::{self, FILE, ROW, ROW_COMMIT_VERSION, ROW_ID};
use deltaplane_protocol::schema::{Field, Primitive, StructType};

use super::{FileRead, ReadSpec};
use crate::types::row_schema;

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let field = |column: &str, name: &str| {
        let kind = if column == FILE {
            Primitive::String
        } else {
            Primitive::Long
        };
        Field::new(name, kind, true)
    };
    let names = hidden_columns::NAMES.into_iter();
    names
        .flat_map(|(reserved, short)| [field(reserved, reserved), field(reserved, short)])
        .collect()
});

/// The schema of these columns; with `encoded` the files' paths are a dictionary with one entry per
/// batch.
pub(super) fn schema<'a>(fields: impl IntoIterator<Item = &'a Field>, table: &StructType, encoded: bool) -> SchemaRef {
    let plain = row_schema(fields);
    if !encoded {
        return plain;
    }
    let is_file = |name: &str| hidden_columns::reserved(name) == Some(FILE) && table.field_ignore_case(name).is_none();
    let fields = plain.fields().iter().map(|f| match is_file(f.name()) {
        true => Arc::new(f.as_ref().clone().with_data_type(encoded_type())),
        false => f.clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn encoded_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The hidden column of this name. A table's own column of the name takes precedence.
pub(super) fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|f| f.name == name)
}

/// The values of a hidden column that the file doesn't store.
#[derive(Debug, Clone)]
pub(super) enum Hidden {
    /// The same in every row: an array of one.
    Constant(ArrayRef),
    /// This number plus the row's position.
    Position(i64),
}

/// The name under which a file may store the column, and its values otherwise.
pub(super) fn source<'a>(name: &str, spec: &'a ReadSpec, file: &FileRead) -> Result<Option<(Option<&'a str>, Hidden)>> {
    let missing = |what: &str| {
        Error::corrupt_log(format!(
            "the log gives a data file no {what}, which it must have in a table with row tracking (P140): the file was added by a faulty program"
        ))
    };
    let Some(column) = hidden_columns::reserved(name) else {
        return Ok(None);
    };
    Ok(Some(match column {
        FILE => {
            let path: ArrayRef = Arc::new(StringArray::from(vec![file.path.clone()]));
            let path = match spec.encoded_files {
                true => Arc::new(DictionaryArray::new(Int32Array::from(vec![0]), path)),
                false => path,
            };
            (None, Hidden::Constant(path))
        }
        ROW => (None, Hidden::Position(0)),
        ROW_ID => {
            let base = file.base_row_id.ok_or_else(|| missing("baseRowId"))?;
            (spec.stored_row_ids.as_deref(), Hidden::Position(base))
        }
        ROW_COMMIT_VERSION => {
            let version = file
                .default_row_commit_version
                .ok_or_else(|| missing("defaultRowCommitVersion"))?;
            let constant = Hidden::Constant(Arc::new(Int64Array::from(vec![version])));
            (spec.stored_row_commit_versions.as_deref(), constant)
        }
        _ => return Ok(None),
    }))
}
