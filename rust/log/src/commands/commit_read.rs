//! Committing a read: a commit that changes nothing, so that what was read has its place among the
//! versions. It fails when another writer changed any of it meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::conflict::{ReadSet, Selection};
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use futures::TryStreamExt;
use serde::Deserialize;
use serde_json::json;

use crate::transaction::{Committed, Operation, Staged, commit};
use crate::write::request::CommitRequest;
use crate::{PlanColumns, Snapshot, now_ms};

/// A read as the caller asks for it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The condition, as expression JSON.
    #[serde(default)]
    pub predicate: Option<String>,
    /// The same as text, for the history.
    #[serde(default)]
    pub predicate_sql: String,
    /// What the commit carries.
    #[serde(default)]
    pub commit: CommitRequest,
}

impl Snapshot {
    /// Commits that the rows of this version that meet a condition were read, all rows without one.
    ///
    /// # Errors
    /// `ConcurrentAppend` and `ConcurrentDeleteRead` when another writer's rows should have been
    /// read, or rows that were read are gone or changed; those of any commit.
    pub async fn commit_read(&self, request: &ReadRequest) -> Result<Committed> {
        let staged = self.staged_read(request).await;
        let staged = staged.map_err(|e| e.with_table(self.store().location().as_str()))?;
        commit(self.store(), Some(self.clone()), &staged).await
    }

    async fn staged_read(&self, request: &ReadRequest) -> Result<Staged> {
        Ok(Staged {
            read: self.read_set(request.predicate.as_deref()).await?,
            is_serializable: true,
            operation: Operation {
                name: "READ".to_owned(),
                parameters: BTreeMap::from([("predicate".to_owned(), json!(request.predicate_sql))]),
                ..Operation::default()
            },
            ..request.commit.staged(now_ms())
        })
    }

    async fn read_set(&self, predicate: Option<&str>) -> Result<ReadSet> {
        let Some(text) = predicate else {
            return Ok(ReadSet::Set(None));
        };
        let state = self.state();
        let predicate = Predicate::bind(&Expr::from_json(text)?, state.schema())?;
        let pruner = Pruner::new(&predicate, state.schema(), state.partition_columns(), state.mapping())?;
        let pruner = Arc::new(pruner);
        let mut plan = self.plan(Some(pruner.clone()), PlanColumns::Logged);
        let mut files = HashSet::new();
        while let Some(batch) = plan.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                files.insert(paths::decode(rows.path(row)?)?);
            }
        }
        let files = Arc::new(files);
        Ok(ReadSet::Set(Some(Selection { files, pruner })))
    }
}
