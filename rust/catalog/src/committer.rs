//! A catalog as what decides a table's commits: the adapter between [`Catalog`] and the log's
//! [`Committer`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::{Committer, Content, Decision, LogTail, Maintenance, Proposal, Ratified, StagedFile};
use serde_json::Value;

use crate::api::columns::from_log;
use crate::api::{
    AssertedTable, Commit, CreateTable, Extensions, LoadedTable, Protocol, StagingTable, TableUpdate, UpdateTable,
};
use crate::catalog::Catalog;
use crate::commit::{CommitOutcome, commit, create_managed};
use crate::error::{CatalogError, ErrorType};
use crate::limits::MAX_INLINE_BYTES;
use crate::names::TableName;
use crate::store::is_derived;

/// Decides the commits of one catalog-managed table.
pub struct CatalogCommitter {
    catalog: Arc<dyn Catalog>,
    name: TableName,
    table_id: String,
    extensions: Extensions,
    /// The location of a table whose version 0 isn't registered yet.
    staging: Option<StagingTable>,
}

impl CatalogCommitter {
    /// The committer of a loaded table, and its tail of the log, so that opening costs one call.
    pub async fn open(catalog: Arc<dyn Catalog>, name: TableName, loaded: &LoadedTable) -> Result<(Self, LogTail)> {
        let extensions = catalog.extensions(&name.catalog).await?;
        let tail = tail_of(loaded, 0)?;
        let committer = CatalogCommitter {
            catalog,
            name,
            table_id: loaded.metadata.table_uuid.clone(),
            extensions,
            staging: None,
        };
        Ok((committer, tail))
    }

    /// The committer of a table that is created at a staging table's location: its version 0 is
    /// registered when it is proposed.
    pub async fn create(catalog: Arc<dyn Catalog>, name: TableName, staging: StagingTable) -> Result<Self> {
        let extensions = catalog.extensions(&name.catalog).await?;
        Ok(CatalogCommitter {
            catalog,
            name,
            table_id: staging.table_id.clone(),
            extensions,
            staging: Some(staging),
        })
    }

    async fn register(&self, proposal: &Proposal) -> Result<Decision> {
        let (Some(staging), Some(protocol), Some(metadata)) = (&self.staging, &proposal.protocol, &proposal.metadata)
        else {
            return Err(Error::invalid_argument(
                "version 0 needs a staging table, a protocol and metadata",
            ));
        };
        let domains = proposal.domains.iter().filter(|domain| !domain.removed);
        let request = CreateTable {
            name: self.name.table.clone(),
            location: staging.location.clone(),
            table_type: staging.table_type,
            comment: metadata.description.clone(),
            columns: columns_of(metadata.schema_string.as_deref())?,
            partition_columns: metadata.partition_columns.clone(),
            protocol: protocol_of(protocol),
            properties: metadata.configuration.clone(),
            domain_metadata: Some(
                domains
                    .map(|domain| Ok((domain.domain.clone(), parse(&domain.configuration)?)))
                    .collect::<Result<_>>()?,
            ),
            last_commit_timestamp_ms: proposal.timestamp_ms,
            uniform: None,
        };
        match create_managed(self.catalog.as_ref(), &self.name, &self.table_id, request).await {
            Ok(_) => Ok(Decision::Ratified),
            Err(e) if e.error_type == ErrorType::AlreadyExists => Err(Error::new(
                Kind::TableAlreadyExists,
                format!(
                    "another writer created {} first, and nothing of this write is in it: repeat the write",
                    self.name
                ),
            )),
            Err(e) if e.error_type.rules_out_change() => Err(e.into()),
            Err(e) => Ok(Decision::Unknown(e.into())),
        }
    }

    /// The request of a proposal: the commit, and each change of metadata that it contains.
    pub(crate) fn request(&self, proposal: &Proposal, loaded: Option<&LoadedTable>) -> Result<UpdateTable> {
        let version = as_signed(proposal.version)?;
        let commit = match &proposal.content {
            Content::Staged(file) | Content::Published(file) => Commit {
                version,
                timestamp: proposal.timestamp_ms,
                file_name: file.name.clone(),
                file_size: as_signed(file.size_bytes)?,
                file_modification_timestamp: file.modified_ms,
                content: None,
            },
            Content::Inline(bytes) => Commit {
                version,
                timestamp: proposal.timestamp_ms,
                file_name: inline_name(version, &proposal.txn_id),
                file_size: bytes.len() as i64,
                file_modification_timestamp: proposal.timestamp_ms.max(0),
                content: Some(
                    String::from_utf8(bytes.to_vec())
                        .map_err(|_| Error::invalid_argument("a commit is text in UTF-8"))?,
                ),
            },
        };
        let mut updates = vec![TableUpdate::AddCommit { commit, uniform: None }];
        if let Some(published) = proposal.published {
            updates.push(TableUpdate::SetLatestBackfilledVersion {
                latest_published_version: as_signed(published)?,
            });
        }
        if let Some(protocol) = &proposal.protocol {
            updates.push(TableUpdate::SetProtocol {
                protocol: protocol_of(protocol),
            });
        }
        if let Some(metadata) = &proposal.metadata {
            updates.push(TableUpdate::SetColumns {
                columns: columns_of(metadata.schema_string.as_deref())?,
            });
            updates.push(TableUpdate::SetPartitionColumns {
                partition_columns: metadata.partition_columns.clone(),
            });
            if let Some(comment) = &metadata.description {
                updates.push(TableUpdate::SetTableComment {
                    comment: comment.clone(),
                });
            }
            let own = loaded.map(|loaded| &loaded.metadata.properties).into_iter().flatten();
            let removals: Vec<_> = own
                .map(|(key, _)| key)
                .filter(|key| !is_derived(key) && !metadata.configuration.contains_key(*key))
                .cloned()
                .collect();
            if !removals.is_empty() {
                updates.push(TableUpdate::RemoveProperties { removals });
            }
            updates.push(TableUpdate::SetProperties {
                updates: metadata.configuration.clone(),
            });
        }
        let (removed, set): (Vec<_>, Vec<_>) = proposal.domains.iter().partition(|domain| domain.removed);
        if !set.is_empty() {
            let updates_by_name = set
                .into_iter()
                .map(|domain| Ok((domain.domain.clone(), parse(&domain.configuration)?)))
                .collect::<Result<_>>()?;
            updates.push(TableUpdate::SetDomainMetadata {
                updates: updates_by_name,
            });
        }
        if !removed.is_empty() {
            updates.push(TableUpdate::RemoveDomainMetadata {
                domains: removed.into_iter().map(|domain| domain.domain.clone()).collect(),
            });
        }
        Ok(UpdateTable::new(&self.asserted(), updates))
    }

    /// The table's name.
    pub(crate) fn table(&self) -> &TableName {
        &self.name
    }

    /// The catalog's identifier of the table.
    pub(crate) fn identity(&self) -> &str {
        &self.table_id
    }

    fn asserted(&self) -> AssertedTable {
        AssertedTable {
            uuid: self.table_id.clone(),
            etag: None,
        }
    }

    /// Loads the table, which must still be the same.
    async fn load(&self, from: u64) -> Result<LoadedTable, CatalogError> {
        let after = i64::try_from(from).unwrap_or(i64::MAX) - 1;
        let loaded = self.catalog.load(&self.name, Some(after)).await?;
        match loaded.metadata.table_uuid.eq_ignore_ascii_case(&self.table_id) {
            true => Ok(loaded),
            false => Err(CatalogError::new(
                ErrorType::NoSuchTable,
                format!("{} was replaced by another table", self.name),
            )),
        }
    }
}

#[async_trait]
impl Committer for CatalogCommitter {
    fn name(&self) -> String {
        format!("{} in {}", self.name, self.catalog.describe())
    }

    async fn propose(&self, proposal: &Proposal) -> Result<Decision> {
        if matches!(proposal.content, Content::Published(_)) {
            return self.register(proposal).await;
        }
        // Properties that the metadata no longer has are removed by name.
        let loaded = match &proposal.metadata {
            Some(_) => Some(self.load(proposal.version).await?),
            None => None,
        };
        let request = self.request(proposal, loaded.as_ref())?;
        match commit(self.catalog.as_ref(), &self.name, &request).await? {
            CommitOutcome::Ratified(_) => Ok(Decision::Ratified),
            CommitOutcome::Taken(loaded) => Ok(Decision::Taken(Some(tail_of(&loaded, proposal.version)?))),
            CommitOutcome::PublishFirst => Ok(Decision::PublishFirst),
            CommitOutcome::Unknown(e) => Ok(Decision::Unknown(e.into())),
        }
    }

    async fn log_tail(&self, from: u64) -> Result<LogTail> {
        match self.load(from).await {
            Ok(loaded) => tail_of(&loaded, from),
            Err(e) if e.error_type == ErrorType::NoSuchTable && self.staging.is_some() => Ok(LogTail::default()),
            Err(e) => Err(e.into()),
        }
    }

    async fn published(&self, version: u64) -> Result<()> {
        let reported = TableUpdate::SetLatestBackfilledVersion {
            latest_published_version: as_signed(version)?,
        };
        let request = UpdateTable::new(&self.asserted(), vec![reported]);
        self.catalog.update(&self.name, &request).await?;
        Ok(())
    }

    fn report_delay(&self) -> Option<Duration> {
        Some(self.catalog.report_delay())
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn permits(&self, _work: Maintenance) -> bool {
        self.extensions.maintenance
    }

    fn most_inline_bytes(&self) -> u64 {
        match self.extensions.inline_commits {
            true => MAX_INLINE_BYTES as u64,
            false => 0,
        }
    }
}

/// The tail of a loaded table from a version on.
pub(crate) fn tail_of(loaded: &LoadedTable, from: u64) -> Result<LogTail> {
    let Some(latest) = loaded.latest_table_version else {
        return Err(Error::new(
            Kind::UnsupportedFeature,
            format!(
                "the table at {} is not managed by its catalog",
                loaded.metadata.location
            ),
        ));
    };
    let listed = loaded.commits.as_deref().unwrap_or_default();
    let mut commits = Vec::with_capacity(listed.len());
    for commit in listed.iter().rev() {
        let version = as_unsigned(commit.version)?;
        if version < from {
            continue;
        }
        let content = match &commit.content {
            Some(text) => Content::Inline(Bytes::from(text.clone())),
            None => Content::Staged(StagedFile {
                name: commit.file_name.clone(),
                size_bytes: as_unsigned(commit.file_size)?,
                modified_ms: commit.file_modification_timestamp,
            }),
        };
        commits.push(Ratified {
            version,
            content,
            timestamp_ms: commit.timestamp,
        });
    }
    // With commits left out, that the oldest listed one is the first unpublished one isn't known.
    let published = match listed.last() {
        Some(oldest) if from == 0 => Some(as_unsigned(oldest.version - 1)?),
        _ => None,
    };
    Ok(LogTail {
        latest: Some(as_unsigned(latest)?),
        commits,
        published,
    })
}

/// The name that identifies an inline commit: the same for each repetition of a proposal.
fn inline_name(version: i64, txn_id: &str) -> String {
    let id = uuid::Uuid::try_parse(txn_id).unwrap_or_else(|_| crate::secret::uuid_of(txn_id));
    format!("{version:020}.{id}.json")
}

fn protocol_of(protocol: &deltaplane_protocol::actions::Protocol) -> Protocol {
    Protocol {
        min_reader_version: protocol.min_reader_version,
        min_writer_version: protocol.min_writer_version,
        reader_features: protocol.reader_features.clone(),
        writer_features: protocol.writer_features.clone(),
    }
}

fn columns_of(schema_string: Option<&str>) -> Result<Value> {
    Ok(from_log(&parse(schema_string.unwrap_or_default())?))
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::corrupt_log(format!("metadata of the commit is not JSON: {e}")))
}

fn as_signed(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::invalid_argument(format!("{number} is too large for a catalog")))
}

fn as_unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::corrupt_log(format!("the catalog answered with {number}")))
}
