//! What a table keeps when it is replaced as a whole with other properties or another definition:
//! everything else goes, as in delta-spark.

use std::collections::BTreeMap;

use deltaplane_error::Result;
use deltaplane_protocol::actions::Metadata;
use deltaplane_protocol::features::{
    Directives, column_mapping, outlives_definition, outlives_replacement, row_tracking,
};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::properties::canonical_key;

use crate::environment::new_id;
use crate::write::request::WriteRequest;

/// The metadata with the request's name, description and properties, each if the request has it,
/// and the protocol that the properties need. A definition replaces description and properties
/// completely. Columns are the caller's.
pub(crate) fn replaced(before: &Metadata, request: &WriteRequest) -> Result<(Metadata, Directives)> {
    let is_anew = request.defines_anew();
    let mut after = Metadata {
        name: request.name.clone().or_else(|| before.name.clone()),
        description: request
            .description
            .clone()
            .or_else(|| before.description.clone().filter(|_| !is_anew)),
        ..before.clone()
    };
    if request.configuration.is_empty() && !is_anew {
        return Ok((after, request.commit.no_directives()));
    }
    let mut wanted = request.configuration.clone();
    let (asked, stored) = request.commit.directives(&mut wanted)?;
    let mut configuration = BTreeMap::new();
    for (key, value) in &wanted {
        configuration.insert(canonical_key(key)?, value.clone());
    }
    // Retained properties belong to writers, and can't be set.
    request.validate(&configuration)?;
    configuration.extend(stored);
    let outlives = if is_anew {
        outlives_definition
    } else {
        outlives_replacement
    };
    for (key, value) in before.configuration.iter().filter(|(key, value)| outlives(key, value)) {
        configuration.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if is_anew {
        keep_max_id(before, &mut configuration)?;
    } else {
        column_mapping::check_mode_change(Mapping::of(&before.configuration)?, Mapping::of(&configuration)?)?;
    }
    after.configuration = configuration;
    row_tracking::complete(&mut after, &asked, &new_id().to_string())?;
    Ok((after, asked))
}

/// Lets a table that stays mapped give no column id twice.
fn keep_max_id(before: &Metadata, configuration: &mut BTreeMap<String, String>) -> Result<()> {
    if Mapping::of(configuration)? != Mapping::None
        && let Some(id) = before.configuration.get(column_mapping::MAX_ID)
    {
        configuration.insert(column_mapping::MAX_ID.to_owned(), id.clone());
    }
    Ok(())
}
