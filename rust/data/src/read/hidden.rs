//! The hidden columns that a scan can return besides the table's: a row's file, its position there,
//! its id and the version that last wrote it (P143). Names their sources; `plan` finds stored ones,
//! `decode` makes arrays.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::{Field, Primitive, StructType};

use super::{FileRead, ReadSpec};
use crate::types::row_schema;

/// The decoded path of the row's file.
pub const FILE: &str = "_file";
/// The row's position in its file, 0 for the first, whether earlier rows are deleted or not.
pub const ROW: &str = "_row";
/// The row's id.
pub const ROW_ID: &str = "_row_id";
/// The version that last wrote the row.
pub const ROW_COMMIT_VERSION: &str = "_row_commit_version";

static FIELDS: LazyLock<[Field; 4]> = LazyLock::new(|| {
    [
        Field::new(FILE, Primitive::String, true),
        Field::new(ROW, Primitive::Long, true),
        Field::new(ROW_ID, Primitive::Long, true),
        Field::new(ROW_COMMIT_VERSION, Primitive::Long, true),
    ]
});

/// The schema of these columns; with `encoded` the files' paths are a dictionary with one entry per
/// batch.
pub(super) fn schema<'a>(fields: impl IntoIterator<Item = &'a Field>, table: &StructType, encoded: bool) -> SchemaRef {
    let plain = row_schema(fields);
    if !encoded || table.field_ignore_case(FILE).is_some() {
        return plain;
    }
    let fields = plain.fields().iter().map(|f| match f.name() == FILE {
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
    Ok(Some(match name {
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
