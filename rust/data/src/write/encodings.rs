//! Encodings of columns that the caller chooses instead of the writer.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::schema_changes::edit::{join_path, split_path};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Encoding, Type as Physical};
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::ColumnPath;

use super::WriteSpec;
use crate::types::file_schema;

/// Properties with the chosen encodings of columns in files of this schema.
///
/// # Errors
/// `InvalidArgument` for a column that the files don't have, an unknown encoding, or one that the
/// column's Parquet type can't have.
pub(super) fn applied(
    stored: &StructType,
    spec: &WriteSpec,
    to: WriterPropertiesBuilder,
) -> Result<WriterPropertiesBuilder> {
    if spec.encodings.is_empty() {
        return Ok(to);
    }
    let schema = ArrowSchemaConverter::new()
        .convert(&file_schema(stored, spec.mapping))
        .map_err(|e| Error::schema_mismatch(format!("Parquet can't hold the table's schema: {e}")))?;
    spec.encodings.iter().try_fold(to, |properties, (column, name)| {
        let refused = |what: String| Err(Error::invalid_argument(format!("the encoding of `{column}` {what}")));
        let Some(path) = spec.mapping.physical_path(stored, &split_path(column)?) else {
            return refused("is of a column that the files don't have".to_owned());
        };
        let leaf = schema.columns().iter().find(|leaf| leaf.path().parts() == path);
        let Some(leaf) = leaf else {
            return refused(format!(
                "is of `{}`, which isn't a single column of the files",
                join_path(&path)
            ));
        };
        let Some(encoding) = encoding(name) else {
            return refused(format!("can't be `{name}`"));
        };
        let kind = leaf.physical_type();
        if !holds(encoding, kind) {
            return refused(format!("can't be {name}: its values are stored as {kind}"));
        }
        let path = ColumnPath::new(path);
        Ok(properties
            .set_column_encoding(path.clone(), encoding)
            .set_column_dictionary_enabled(path, false))
    })
}

fn encoding(name: &str) -> Option<Encoding> {
    match name.to_ascii_uppercase().as_str() {
        "PLAIN" => Some(Encoding::PLAIN),
        "RLE" => Some(Encoding::RLE),
        "DELTA_BINARY_PACKED" => Some(Encoding::DELTA_BINARY_PACKED),
        "DELTA_LENGTH_BYTE_ARRAY" => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        "DELTA_BYTE_ARRAY" => Some(Encoding::DELTA_BYTE_ARRAY),
        "BYTE_STREAM_SPLIT" => Some(Encoding::BYTE_STREAM_SPLIT),
        _ => None,
    }
}

/// Whether Parquet has an encoding for values of this type.
fn holds(encoding: Encoding, kind: Physical) -> bool {
    match encoding {
        Encoding::PLAIN => true,
        Encoding::RLE => kind == Physical::BOOLEAN,
        Encoding::DELTA_BINARY_PACKED => matches!(kind, Physical::INT32 | Physical::INT64),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => kind == Physical::BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY => matches!(kind, Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY),
        Encoding::BYTE_STREAM_SPLIT => !matches!(kind, Physical::BOOLEAN | Physical::BYTE_ARRAY | Physical::INT96),
        _ => false,
    }
}
