//! Sets a table's domains (P151) by a commit that changes nothing else.

use std::collections::BTreeMap;

use deltaplane_error::Result;
use deltaplane_protocol::actions::DomainMetadata;
use deltaplane_protocol::features::domain_metadata::check_user_domain;
use serde_json::json;

use crate::Snapshot;
use crate::transaction::{Committed, Operation, Staged, commit};
use crate::write::request::engine_info;

impl Snapshot {
    /// Sets a user's domain to this configuration, or removes it without one.
    ///
    /// Errors: `InvalidArgument` for a name of the protocol's, or for removing an unknown domain,
    /// `UnsupportedFeature` if the table doesn't support domains, `ConcurrentTransaction` if
    /// another writer set the same domain first.
    pub async fn set_domain(&self, domain: &str, configuration: Option<String>) -> Result<Committed> {
        check_user_domain(domain).map_err(|e| e.with_table(self.store().location().as_str()))?;
        let removed = configuration.is_none();
        let staged = Staged {
            domains: vec![DomainMetadata {
                domain: domain.to_owned(),
                configuration: configuration.unwrap_or_default(),
                removed,
            }],
            operation: Operation {
                name: if removed {
                    "REMOVE DOMAIN METADATA"
                } else {
                    "SET DOMAIN METADATA"
                }
                .to_owned(),
                parameters: BTreeMap::from([("domain".to_owned(), json!(domain))]),
                ..Operation::default()
            },
            engine_info: engine_info(None),
            ..Staged::default()
        };
        commit(self.store(), Some(self.clone()), &staged).await
    }
}
