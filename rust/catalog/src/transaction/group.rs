//! The commits of a transaction in one call of the catalog, to a known outcome: a lost answer is
//! looked up, never guessed.

use std::sync::Arc;

use async_trait::async_trait;
use deltaplane_error::Result;
use deltaplane_log::committer::{GroupCommitter, GroupDecision, GroupProposal};

use crate::api::{LoadedTable, UpdateTable};
use crate::catalog::Catalog;
use crate::commit::{ATTEMPTS, Found, PAUSE, find};
use crate::committer::{CatalogCommitter, tail_of};
use crate::error::ErrorType;
use crate::names::TableName;

/// The tables of a transaction that is being committed.
pub(super) struct CatalogGroup {
    catalog: Arc<dyn Catalog>,
    members: Vec<Arc<CatalogCommitter>>,
    names: Vec<TableName>,
}

impl CatalogGroup {
    pub(super) fn new(catalog: Arc<dyn Catalog>, members: Vec<Arc<CatalogCommitter>>) -> Self {
        CatalogGroup {
            names: members.iter().map(|member| member.table().clone()).collect(),
            catalog,
            members,
        }
    }

    async fn requests(&self, group: &[GroupProposal]) -> Result<Vec<(TableName, UpdateTable)>> {
        let changes_metadata = |p: &GroupProposal| matches!(p, GroupProposal::Commit(p) if p.metadata.is_some());
        // Properties that the metadata no longer has are removed by name.
        let loaded = match group.iter().any(changes_metadata) {
            true => self.catalog.load_all(&self.names).await?,
            false => Vec::new(),
        };
        let mut requests = Vec::with_capacity(group.len());
        for (number, (member, proposal)) in self.members.iter().zip(group).enumerate() {
            let request = match proposal {
                GroupProposal::Commit(proposal) => member.request(proposal, loaded.get(number))?,
                GroupProposal::Unchanged(version) => {
                    UpdateTable::unchanged(member.identity(), i64::try_from(*version).unwrap_or(i64::MAX))
                }
            };
            requests.push((member.table().clone(), request));
        }
        Ok(requests)
    }

    fn tails(&self, loaded: &[LoadedTable]) -> Result<GroupDecision> {
        let tails = loaded.iter().map(|table| tail_of(table, 0)).collect::<Result<_>>()?;
        Ok(GroupDecision::Taken(tails))
    }
}

/// What became of a group, by the tables as they are now.
fn look_up(loaded: &[LoadedTable], requests: &[(TableName, UpdateTable)]) -> Found {
    let mut group = Found::Absent;
    for (loaded, (_, request)) in loaded.iter().zip(requests) {
        let outcome = match request.unchanged_version() {
            Ok(Some(version)) if loaded.latest_table_version != Some(version) => Found::Other,
            Ok(Some(_)) => Found::Absent,
            _ => find(loaded, request),
        };
        match outcome {
            // All are ratified together.
            Found::Own => return Found::Own,
            Found::Other => group = Found::Other,
            Found::Absent => {}
        }
    }
    group
}

#[async_trait]
impl GroupCommitter for CatalogGroup {
    fn catalog(&self) -> String {
        self.catalog.describe()
    }

    fn table_id(&self, member: usize) -> String {
        self.members
            .get(member)
            .map(|m| m.identity().to_owned())
            .unwrap_or_default()
    }

    async fn propose_all(&self, group: &[GroupProposal]) -> Result<GroupDecision> {
        let requests = self.requests(group).await?;
        let mut unclear = false;
        let mut pause = PAUSE;
        let mut attempt = 0;
        loop {
            let error = match self.catalog.update_all(&requests).await {
                Ok(_) => return Ok(GroupDecision::Ratified),
                Err(error) => error,
            };
            match error.error_type {
                ErrorType::ResourceExhausted if !unclear => {
                    return Ok(GroupDecision::PublishFirst { is_unclear: false });
                }
                // The first attempt may have been ratified: what counts is which commits have the
                // versions.
                ErrorType::ResourceExhausted | ErrorType::UpdateRequirementConflict if unclear => {}
                ErrorType::CommitVersionConflict => {}
                kind if kind.rules_out_change() && !unclear => return Err(error.into()),
                _ => unclear = true,
            }
            if let Ok(loaded) = self.catalog.load_all(&self.names).await {
                match look_up(&loaded, &requests) {
                    Found::Own => return Ok(GroupDecision::Ratified),
                    Found::Other => return self.tails(&loaded),
                    Found::Absent => match error.error_type {
                        ErrorType::CommitVersionConflict => return self.tails(&loaded),
                        ErrorType::ResourceExhausted => return Ok(GroupDecision::PublishFirst { is_unclear: true }),
                        // An earlier request may still arrive.
                        _ => {}
                    },
                }
            }
            attempt += 1;
            if attempt >= ATTEMPTS {
                return Ok(GroupDecision::Unknown(error.into()));
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause *= 3;
        }
    }
}
