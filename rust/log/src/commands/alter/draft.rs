//! The table as a change would leave it, and the validation of the whole: protocol, features,
//! schema.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::features::{self, Directives, View, iceberg_compat, row_tracking};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::state::TableState;
use serde_json::Value;

use super::clustered;
use crate::transaction::{Operation, Staged};
use crate::write::mapped_schema::remapped;
use crate::write::request::CommitRequest;

/// A change in progress.
pub(super) struct Draft<'a> {
    /// The table before the change.
    pub base: &'a TableState,
    /// Its domains before the change.
    pub domains_before: Vec<DomainMetadata>,
    /// Domains that the change sets or removes.
    pub domains: Vec<DomainMetadata>,
    /// Its metadata after the change, without the schema.
    pub metadata: Metadata,
    /// Its schema after the change.
    pub schema: StructType,
    /// Protocol changes that were asked for, beyond the needs of the metadata.
    pub asked: Directives,
    /// Whether the protocol may go to versions that list features only because `asked` says so.
    pub may_list_features: bool,
    /// The rows that the change depends on.
    pub read: ReadSet,
    /// The history's entry.
    pub operation: Operation,
    /// Whether the commit has the protocol even if it stays the same.
    pub says_protocol: bool,
    /// The settings of the commit.
    pub settings: &'a CommitRequest,
}

impl<'a> Draft<'a> {
    /// Without changes.
    pub(super) fn new(base: &'a TableState, domains_before: Vec<DomainMetadata>, settings: &'a CommitRequest) -> Self {
        Draft {
            base,
            domains_before,
            domains: Vec::new(),
            metadata: base.metadata().clone(),
            schema: base.schema().as_ref().clone(),
            asked: settings.no_directives(),
            says_protocol: false,
            settings,
            may_list_features: true,
            read: ReadSet::Nothing,
            operation: Operation::default(),
        }
    }

    /// Sets the history's entry, with delta-spark's names (protocol.md section 12).
    pub(super) fn says(&mut self, operation: &str, parameters: impl IntoIterator<Item = (&'static str, Value)>) {
        self.operation = Operation {
            name: operation.to_owned(),
            parameters: parameters.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            metrics: BTreeMap::new(),
        };
    }

    /// Every field of a mapped table has an id and a physical name (P110, P111).
    fn map_columns(&mut self) -> Result<()> {
        let (before, after) = (self.base.mapping(), Mapping::of(&self.metadata.configuration)?);
        let ids = |m: &Metadata| iceberg_compat::needs_nested_ids(&m.configuration);
        let more_ids = ids(&self.metadata) && !ids(self.base.metadata());
        if before != after || more_ids || self.schema != **self.base.schema() {
            let schema = std::mem::take(&mut self.schema);
            self.schema = remapped(before, after, schema, &mut self.metadata.configuration)?;
        }
        Ok(())
    }

    /// The commit that applies the change; without actions if nothing changed.
    pub(super) fn finish(mut self) -> Result<Staged> {
        self.map_columns()?;
        row_tracking::complete(
            &mut self.metadata,
            &self.asked,
            &crate::environment::new_id().to_string(),
        )?;
        if self.schema != **self.base.schema() {
            self.schema.check_names()?;
            self.metadata.schema_string = Some(self.schema.to_json());
        }
        let view = View {
            metadata: &self.metadata,
            schema: &self.schema,
        };
        features::check_change(self.base.view(), view)?;
        if self.metadata != *self.base.metadata() && self.domains.is_empty() {
            clustered::check_kept(&self.domains_before, &self.metadata, &self.schema)?;
        }
        let old = self.base.protocol();
        let protocol = features::protocol_with(Some(old), view, &self.asked)?;
        let rises = protocol.min_reader_version > old.min_reader_version
            || protocol.min_writer_version > old.min_writer_version;
        if rises && !self.may_list_features {
            return Err(Error::invalid_argument(format!(
                "the feature needs the protocol ({}, {}), the table has ({}, {}): allow it with allow_protocol_versions_increase=True",
                protocol.min_reader_version,
                protocol.min_writer_version,
                old.min_reader_version,
                old.min_writer_version
            )));
        }
        features::check_write(&protocol, view)?;
        Ok(Staged {
            metadata: (self.metadata != *self.base.metadata()).then_some(self.metadata),
            protocol: (protocol != *old || self.says_protocol).then_some(protocol),
            domains: self.domains,
            operation: self.operation,
            read: self.read,
            ..Staged::default()
        })
    }
}
