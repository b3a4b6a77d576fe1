//! The clustering columns that a write preserves or sets (P152).

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata};
use deltaplane_protocol::features::clustering;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::zorder;

use crate::Snapshot;
use crate::write::request::WriteRequest;

/// The columns by which a table is clustered after a write: the same ones, which a new schema must
/// contain (P152).
pub(crate) async fn clustered_by(
    base: &Snapshot,
    new: Option<&Metadata>,
    schema: &StructType,
    request: &WriteRequest,
) -> Result<Vec<Vec<String>>> {
    let is_checked = new.is_some() || request.cluster_by.is_some();
    if !is_checked && !clustering::may_be(base.state().protocol()) {
        return Ok(Vec::new());
    }
    let domains = base.domains().await?;
    let Some(domain) = domains.iter().find(|d| d.domain == clustering::DOMAIN) else {
        return match &request.cluster_by {
            Some(asked) if !asked.is_empty() => Err(Error::invalid_argument(
                "the table isn't clustered: leave cluster_by out, or create the table with it",
            )),
            _ => Ok(Vec::new()),
        };
    };
    let metadata = new.unwrap_or(base.state().metadata());
    let now = clustering::columns(domain)?;
    let names: Vec<String> = now
        .iter()
        .map(|path| clustering::logical_name(metadata, schema, path))
        .collect::<Result<_>>()?;
    let paths = match names.is_empty() {
        true => Ok(Vec::new()),
        false => zorder::paths(schema, &metadata.partition_columns, &names),
    };
    if !is_checked {
        // Order is optional for plain rows: columns by which another program clusters may have no
        // order here.
        return Ok(paths.unwrap_or_default());
    }
    if !now.is_empty() {
        clustering::domain_for(metadata, schema, &names)?;
    }
    match &request.cluster_by {
        Some(asked) if clustering::columns(&clustering::domain_for(metadata, schema, asked)?)? != now => {
            Err(Error::invalid_argument(format!(
                "the table is clustered by [{}], not by [{}]: leave cluster_by out",
                names.join(", "),
                asked.join(", ")
            )))
        }
        _ => paths,
    }
}

/// The clustering columns of a definition that replaces the table's: those that it names, or none;
/// with the domain that records them, if it changes.
pub(crate) async fn clustered_anew(
    base: &Snapshot,
    metadata: &Metadata,
    schema: &StructType,
    asked: &[String],
) -> Result<(Vec<Vec<String>>, Option<DomainMetadata>)> {
    let domains = base.domains().await?;
    let domain = domains.iter().find(|d| d.domain == clustering::DOMAIN);
    let before = domain.map(clustering::columns).transpose()?.unwrap_or_default();
    if asked.is_empty() && before.is_empty() {
        return Ok((Vec::new(), None));
    }
    let domain = clustering::domain_for(metadata, schema, asked)?;
    let paths = match asked.is_empty() {
        true => Vec::new(),
        false => zorder::paths(schema, &metadata.partition_columns, asked)?,
    };
    let says_otherwise = clustering::columns(&domain)? != before;
    Ok((paths, says_otherwise.then_some(domain)))
}
