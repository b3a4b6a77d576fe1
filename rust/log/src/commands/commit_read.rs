//! Commits a read: a commit without changes that gives a read its place in the order of versions.
//! Fails if another writer changed the rows that were read.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::prune::Pruner;
use serde::Deserialize;
use serde_json::json;

use crate::transaction::read_set::selection;
use crate::transaction::{Committed, Operation, Staged, commit};
use crate::write::request::CommitRequest;
use crate::{Snapshot, now_ms};

/// Arguments of the commit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The condition.
    #[serde(default)]
    pub predicate: Option<Expr>,
    /// The condition as text, for the history.
    #[serde(default)]
    pub predicate_sql: String,
    /// Settings of the commit.
    #[serde(default)]
    pub commit: CommitRequest,
}

impl Snapshot {
    /// Commits that rows of this version were read: those that meet a condition, or all rows
    /// without one.
    ///
    /// # Errors
    /// `ConcurrentAppend` if another writer added rows that should have been read,
    /// `ConcurrentDeleteRead` if it removed or changed rows that were read; those of any commit.
    pub async fn commit_read(&self, request: &ReadRequest) -> Result<Committed> {
        let staged = self.staged_read(request).await;
        let staged = staged.map_err(|e| e.with_table(self.store().location().as_str()))?;
        commit(self.store(), Some(self.clone()), &staged).await
    }

    async fn staged_read(&self, request: &ReadRequest) -> Result<Staged> {
        Ok(Staged {
            read: self.read_set(request.predicate.as_ref()).await?,
            is_serializable: true,
            operation: Operation {
                name: "READ".to_owned(),
                parameters: BTreeMap::from([("predicate".to_owned(), json!(request.predicate_sql))]),
                ..Operation::default()
            },
            ..request.commit.staged(now_ms())
        })
    }

    async fn read_set(&self, predicate: Option<&Expr>) -> Result<ReadSet> {
        let Some(condition) = predicate else {
            return Ok(ReadSet::Set(None));
        };
        let state = self.state();
        let predicate = Predicate::bind(condition, state.schema())?;
        let pruner = Pruner::new(&predicate, state.schema(), state.partition_columns(), state.mapping())?;
        selection(self, Some(Arc::new(pruner))).await
    }
}
