//! DROP FEATURE (P098): a sequence of commits, each of which leaves a sound table. First the
//! feature is switched off, so that writers leave no further use of it; then files and history are
//! checked or protected; last the protocol changes, decided again on every base.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::Metadata;
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::features::{Dropped, FeatureUsage, without_feature};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_store::Store;
use serde_json::{Value, json};

use super::{Altered, domains_of};
use crate::Snapshot;
use crate::commands::feature_usage;
use crate::commands::feature_usage::RewriteFirst;
use crate::commands::row_id_backfill::{RowIds, number_files};
use crate::transaction::{Operation, Staged, commit};
use crate::write::schema_checks::check_field_names;

/// Checkpoints between the last use of a feature and the commit that drops it: readers that can't
/// use a checkpoint try the previous one, delta-spark up to three times, and must not reach one
/// with uses.
const BARRIERS: usize = 3;
/// Attempts of the last commit; each one that loses the race is decided again on the new base.
const ATTEMPTS: usize = 100;

/// What to drop.
pub(super) struct Drop<'a> {
    pub store: &'a Store,
    pub feature: &'a str,
    /// Whether history that needs the feature is deleted instead of kept behind protected
    /// checkpoints.
    pub truncate_history: bool,
    /// The version at which no live file was found to have an older type than its column; in a dry
    /// run any version.
    pub rewritten: Option<u64>,
    pub dry_run: bool,
    /// Settings of every commit.
    pub settings: Staged,
}

/// The rewrite of live files that must precede this drop; errors as for the drop itself.
pub(super) async fn rewrite_first(base: &Snapshot, feature: &str) -> Result<Option<RewriteFirst>> {
    let domains = domains_of(base).await?;
    let state = base.state();
    let dropped = without_feature(state.protocol(), state.view(), &domains, feature)?;
    feature_usage::rewrite_first(base, &dropped).await
}

impl Drop<'_> {
    pub(super) async fn run(&self, base: Snapshot) -> Result<Altered> {
        let dropped = self.judge(&base).await?;
        // A dry run assumes that the rewrite would succeed.
        if !(self.dry_run && self.rewritten.is_some()) {
            feature_usage::check_names(&base, &dropped).await?;
            feature_usage::check_files(&base, &dropped, self.rewritten).await?;
        }
        let before = base.state().protocol().clone();
        let staged = self.last_commit(&base, &dropped);
        let mut done = Altered {
            version: None,
            changed: true,
            operation: staged.operation.name,
            after: staged.protocol.unwrap_or_else(|| before.clone()),
            before,
        };
        if self.dry_run {
            return Ok(done);
        }
        let was_in_use = dropped.prepared.is_some();
        let mut now = self.prepare(base, &dropped).await?;
        if dropped.uses.is_some() {
            now = self.barriers(now).await?;
        }
        if self.truncate_history {
            feature_usage::truncate(&now, &dropped, was_in_use).await?;
        }
        now = self.drop(now).await?;
        if self.keeps_history(&dropped) {
            now.checkpoint().await?;
        }
        done.version = Some(now.version());
        Ok(done)
    }

    /// Whether the drop is legal on this version.
    async fn judge(&self, base: &Snapshot) -> Result<Dropped> {
        let state = base.state();
        state.check_write()?;
        let domains = domains_of(base).await?;
        let dropped = without_feature(state.protocol(), state.view(), &domains, self.feature)?;
        if state.mapping() != Mapping::None && Mapping::of(&dropped.metadata.configuration)? == Mapping::None {
            check_field_names(state.schema(), Mapping::None)?;
        }
        let has_history = dropped.uses.is_some() || dropped.protects_history;
        if self.truncate_history && !has_history {
            return Err(Error::invalid_argument(format!(
                "old versions don't need the feature {} to be read: drop it without truncate_history (DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED)",
                dropped.feature
            )));
        }
        if dropped.protects_history && !self.truncate_history {
            return Err(Error::invalid_argument(format!(
                "the feature {} protects old versions: drop it with truncate_history=True, which deletes them",
                dropped.feature
            )));
        }
        Ok(dropped)
    }

    fn keeps_history(&self, dropped: &Dropped) -> bool {
        dropped.uses.is_some() && !self.truncate_history
    }

    /// The commit without the feature, on this base.
    fn last_commit(&self, base: &Snapshot, dropped: &Dropped) -> Staged {
        let (protocol, metadata) = match self.keeps_history(dropped) {
            true => dropped.protected(base.version() + 1),
            false => (dropped.protocol.clone(), dropped.metadata.clone()),
        };
        let parameters = [
            ("featureName", json!(dropped.feature)),
            ("truncateHistory", json!(self.truncate_history)),
        ];
        Staged {
            metadata: (metadata != *base.state().metadata()).then_some(metadata),
            protocol: Some(protocol),
            domains: dropped.domains.clone(),
            max_attempts: Some(1),
            ..self.staged("DROP FEATURE", parameters)
        }
    }

    fn staged(&self, operation: &str, parameters: impl IntoIterator<Item = (&'static str, Value)>) -> Staged {
        Staged {
            operation: Operation {
                name: operation.to_owned(),
                parameters: parameters.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
                metrics: BTreeMap::new(),
            },
            ..self.settings.clone()
        }
    }

    /// Commits the change after which writers make no further use of the feature, and returns a
    /// table whose files have none.
    async fn prepare(&self, base: Snapshot, dropped: &Dropped) -> Result<Snapshot> {
        let mut now = base;
        if let Some(metadata) = &dropped.prepared {
            let staged = Staged {
                metadata: Some(metadata.clone()),
                // Files that another writer adds meanwhile may need rewriting.
                read: match dropped.rewrite.is_some() || dropped.usage == FeatureUsage::OldTypes {
                    true => ReadSet::Table,
                    false => ReadSet::Nothing,
                },
                ..self.staged(
                    "SET TBLPROPERTIES",
                    [("properties", json!(differences(&now, metadata)))],
                )
            };
            now = commit(self.store, Some(now), &staged).await?.snapshot;
        }
        match dropped.usage {
            FeatureUsage::RowIds => number_files(self.store, now, &self.settings, RowIds::Taken).await,
            FeatureUsage::Vectors => self.keep_vectors(now).await,
            FeatureUsage::None | FeatureUsage::OldTypes => Ok(now),
        }
    }

    /// Commits tombstones that protect deletion vectors of old versions from programs that don't
    /// know them.
    async fn keep_vectors(&self, base: Snapshot) -> Result<Snapshot> {
        let removes = feature_usage::vector_tombstones(&base).await?;
        if removes.is_empty() {
            return Ok(base);
        }
        let staged = Staged {
            removes,
            ..self.staged("ADD DELETION VECTORS TOMBSTONES", [])
        };
        Ok(commit(self.store, Some(base), &staged).await?.snapshot)
    }

    /// Writes checkpoints of versions without uses: one if history is deleted anyway.
    async fn barriers(&self, base: Snapshot) -> Result<Snapshot> {
        let mut now = base;
        let count = if self.truncate_history { 1 } else { BARRIERS };
        for _ in 0..count {
            let staged = Staged {
                skip_checkpoint: true,
                ..self.staged("Empty Commit", [])
            };
            now = commit(self.store, Some(now), &staged).await?.snapshot;
            now.checkpoint().await?;
        }
        Ok(now)
    }

    /// Drops the feature from the newest version that permits it. After a lost race the winner's
    /// version is checked again.
    async fn drop(&self, base: Snapshot) -> Result<Snapshot> {
        let mut now = base;
        for _ in 0..ATTEMPTS {
            let dropped = self.judge(&now).await?;
            if dropped.prepared.is_some() {
                return Err(Error::new(
                    Kind::MetadataChanged,
                    format!(
                        "another writer took the feature {} into use again while it was being dropped: nothing is lost, run it again (DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL)",
                        dropped.feature
                    ),
                )
                .with_version(now.version()));
            }
            feature_usage::check_names(&now, &dropped).await?;
            feature_usage::check_files(&now, &dropped, self.rewritten).await?;
            feature_usage::check_no_ids(&now, &dropped).await?;
            let staged = self.last_commit(&now, &dropped);
            match commit(self.store, Some(now.clone()), &staged).await {
                Ok(done) => return Ok(done.snapshot),
                Err(e) if e.kind() == Kind::ConcurrentWrite => now = now.update().await?,
                Err(e) => return Err(e),
            }
        }
        Err(Error::new(
            Kind::ConcurrentWrite,
            format!("other writers committed first in each of {ATTEMPTS} attempts: try again"),
        ))
    }
}

/// The difference between two versions of the metadata, as text for the history.
fn differences(base: &Snapshot, new: &Metadata) -> String {
    let old = &base.state().metadata().configuration;
    let set = new.configuration.iter().filter(|(k, v)| old.get(*k) != Some(*v));
    let gone = old.keys().filter(|k| !new.configuration.contains_key(*k));
    let all: BTreeMap<&String, Value> = set
        .map(|(k, v)| (k, json!(v)))
        .chain(gone.map(|k| (k, Value::Null)))
        .collect();
    json!(all).to_string()
}
