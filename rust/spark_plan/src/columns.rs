//! The columns of Spark's relation of a table's files: Spark finds them in files by these names, or
//! by field ids. `deltaplane.spark` shows them under the table's names.

use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{Field, StructType};
use deltaplane_protocol::state::TableState;

/// Key of Spark's field metadata by which its Parquet reader finds a column by id.
const SPARK_FIELD_ID: &str = "parquet.field.id";

/// The relation's schema: the table's fields in their order, under other names.
pub fn relation_schema(state: &TableState) -> StructType {
    let mapping = state.mapping();
    match mapping {
        Mapping::None | Mapping::Name => mapping.physical_schema(state.schema()),
        Mapping::Id => state.schema().map_fields(&mut |f| by_id(mapping, f)),
    }
}

/// Spark pushes filters into files by name, even where it finds columns by id: a name that no file
/// has keeps it from judging by another column.
fn by_id(mapping: Mapping, mut f: Field) -> Field {
    if let Some(id) = mapping.id(&f) {
        f.name = format!("column id {id}");
        f.metadata.insert(SPARK_FIELD_ID.to_owned(), id.into());
    }
    f
}

/// The relation's names of the partition columns.
pub fn relation_partition_columns(state: &TableState, relation: &StructType) -> Vec<String> {
    let index = |name: &String| state.schema().index_ignore_case(name);
    let named = |index: usize| relation.fields().get(index).map(|f| f.name.clone());
    state
        .partition_columns()
        .iter()
        .filter_map(|c| named(index(c)?))
        .collect()
}
