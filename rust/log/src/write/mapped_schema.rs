//! Assigns ids and physical names to columns that a write or a change of the table adds:
//! `features::column_mapping` with new names generated here.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::{arrow_metadata, column_mapping, iceberg_compat};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use uuid::Uuid;

use crate::environment::new_id;

/// The data's schema without the ids and physical names that another table recorded for its own
/// files.
pub(crate) fn incoming_schema(data: &StructType) -> StructType {
    arrow_metadata::shareable(data)
}

/// The schema with an id and a physical name for each field that lacks them, if the table maps its
/// columns. Names are derived from the seed (a UUID): the same seed gives the same names.
pub(crate) fn mapped(
    mapping: Mapping,
    schema: StructType,
    configuration: &mut BTreeMap<String, String>,
    seed: Option<&str>,
) -> Result<StructType> {
    if mapping == Mapping::None {
        return Ok(schema);
    }
    let seed = seed.map_or_else(|| Ok(new_id()), Uuid::parse_str);
    let seed = seed.map_err(|e| Error::invalid_argument(format!("names_seed isn't a UUID: {e}")))?;
    let mut last = seed.as_u128();
    let mut fresh = || {
        last = last.wrapping_add(1);
        format!("col-{}", Uuid::from_u128(last))
    };
    let max_id = column_mapping::max_id(configuration, &schema);
    let mut assigned = column_mapping::assign(&schema, max_id, &mut fresh)?;
    if iceberg_compat::needs_nested_ids(configuration) {
        assigned = column_mapping::assign_nested(&assigned.schema, assigned.max_id)?;
    }
    configuration.insert(column_mapping::MAX_ID.to_owned(), assigned.max_id.to_string());
    Ok(assigned.schema)
}

/// The schema of an existing table after a change: when mapping is enabled, its own columns keep
/// their names in files, and new columns get new ones.
pub(crate) fn remapped(
    before: Mapping,
    after: Mapping,
    schema: StructType,
    configuration: &mut BTreeMap<String, String>,
) -> Result<StructType> {
    column_mapping::check_mode_change(before, after)?;
    if before == Mapping::None && after != Mapping::None {
        let mut upgraded = column_mapping::upgrade(&schema)?;
        if iceberg_compat::needs_nested_ids(configuration) {
            upgraded = column_mapping::assign_nested(&upgraded.schema, upgraded.max_id)?;
        }
        configuration.insert(column_mapping::MAX_ID.to_owned(), upgraded.max_id.to_string());
        return Ok(upgraded.schema);
    }
    mapped(after, schema, configuration, None)
}
