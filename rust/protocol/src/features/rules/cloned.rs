//! The table that a CLONE makes or replaces: the source's metadata under an id of its own, its
//! protocol, and those of its domains that its files need.

use std::collections::BTreeMap;

use crate::actions::{DomainMetadata, Metadata, Protocol};
use crate::features::{Directives, View, all, check_write, protocol_with, row_tracking, supported};
use crate::properties::canonical_key;
use crate::schema::StructType;
use crate::{Error, Result};

/// The metadata: properties are the source's with some of the caller's, the id that of the table
/// which is replaced, or `id`. As in delta-spark, the description isn't copied. What a catalog gave
/// the source isn't either.
pub fn metadata(
    source: &Metadata,
    replaced: Option<&Metadata>,
    properties: &BTreeMap<String, String>,
    id: String,
    now_ms: i64,
) -> Result<Metadata> {
    let mut metadata = source.clone();
    metadata.id = replaced.map_or(id, |r| r.id.clone());
    metadata.description = None;
    metadata.created_time = replaced.map_or(Some(now_ms), |r| r.created_time);
    // Properties that refer to versions of the source's log are invalid in another log.
    for key in all().flat_map(|f| f.log_properties) {
        metadata.configuration.remove(*key);
    }
    for (key, value) in properties {
        metadata.configuration.insert(canonical_key(key)?, value.clone());
    }
    Ok(metadata)
}

/// The protocol: what the source needs except of its catalog, what the properties and `asked` ask
/// for, and what the table had that is replaced.
///
/// # Errors
/// `UnsupportedFeature` for a table that this build can't write.
pub fn protocol(
    source: &Protocol,
    replaced: Option<&Protocol>,
    metadata: &Metadata,
    schema: &StructType,
    mut asked: Directives,
) -> Result<Protocol> {
    let view = View { metadata, schema };
    asked.features.extend(replaced.map(supported).unwrap_or_default());
    let protocol = protocol_with(Some(&without_catalog(source)), view, &asked)?;
    check_write(&protocol, view)?;
    all().try_for_each(|f| (f.check_change)(None, view))?;
    Ok(protocol)
}

/// A protocol without the features by which a catalog decides about the table.
fn without_catalog(protocol: &Protocol) -> Protocol {
    let own = |names: &Option<Vec<String>>| {
        let mut names = names.clone()?;
        names.retain(|name| !all().any(|f| f.needs_catalog && f.name == name));
        Some(names)
    };
    Protocol {
        reader_features: own(&protocol.reader_features),
        writer_features: own(&protocol.writer_features),
        ..protocol.clone()
    }
}

/// The domains to set, as their features decide from those of the source and of the table that is
/// replaced.
pub fn domains(source: &[DomainMetadata], replaced: &[DomainMetadata]) -> Result<Vec<DomainMetadata>> {
    let named = |all: &[DomainMetadata], name: &str| all.iter().find(|d| d.domain == name).cloned();
    let cloned = all()
        .filter_map(|f| f.domain)
        .map(|own| (own.cloned)(named(source, own.name), named(replaced, own.name)));
    cloned.filter_map(Result::transpose).collect()
}

/// Refuses a file that would get row ids which other rows have.
pub fn check_numbered(domains: &[DomainMetadata], base_row_id: Option<i64>, path: &str) -> Result<()> {
    match base_row_id.is_none() && domains.iter().any(|d| d.domain == row_tracking::DOMAIN) {
        false => Ok(()),
        true => Err(Error::unsupported_feature(format!(
            "the file `{path}` of the source has no row ids, and others have ({}): switch {} on for the source first, which numbers all rows",
            row_tracking::FEATURE.name,
            row_tracking::ENABLED
        ))),
    }
}
