//! The tables of a transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_log::committer::{Buffer, Committer, buffered, managed};
use deltaplane_log::{GroupMember, own_commits};
use deltaplane_store::Store;
use futures::future::join_all;
use tracing::warn;

use crate::api::LoadedTable;
use crate::catalog::Catalog;
use crate::committer::CatalogCommitter;
use crate::names::TableName;
use crate::transaction::TableStores;

/// A table of a transaction.
pub(super) struct Member {
    pub(super) committer: Arc<CatalogCommitter>,
    pub(super) buffer: Arc<Buffer>,
    /// The table's location, without a committer.
    plain: Store,
    /// The table outside of the transaction.
    outside: Store,
    /// The table in the transaction.
    inside: Store,
    table_id: String,
    /// Whether the transaction gave its store away, so that it may have been read.
    pub(super) is_used: bool,
}

impl Member {
    pub(super) async fn open(
        catalog: &Arc<dyn Catalog>,
        stores: &dyn TableStores,
        name: &TableName,
        loaded: &LoadedTable,
        transaction_id: &str,
    ) -> Result<Self> {
        if loaded.latest_table_version.is_none() {
            return Err(Error::unsupported_feature(format!(
                "{name} is an external table of {}, which doesn't decide its commits: it can't be part of a transaction over several tables",
                catalog.describe()
            )));
        }
        let (committer, tail) = CatalogCommitter::open(Arc::clone(catalog), name.clone(), loaded).await?;
        let committer = Arc::new(committer);
        let plain = stores.open(name, loaded).await?;
        let in_transaction = format!("{} in transaction {transaction_id}", committer.name());
        let buffer = Arc::new(Buffer::new(in_transaction, tail.clone(), committer.as_ref())?);
        let outside = managed(&plain, Arc::clone(&committer) as Arc<dyn Committer>, Some(tail))?;
        let inside = buffered(&plain, Arc::clone(&buffer))?;
        own_commits::lend(&outside, &inside, &buffer);
        Ok(Member {
            inside,
            table_id: loaded.metadata.table_uuid.clone(),
            committer,
            buffer,
            plain,
            outside,
            is_used: false,
        })
    }

    /// Whether the table is as it was loaded.
    pub(super) fn is_at(&self, loaded: &LoadedTable) -> bool {
        let version = loaded
            .latest_table_version
            .and_then(|version| u64::try_from(version).ok());
        version == Some(self.buffer.base_version()) && loaded.metadata.table_uuid == self.table_id
    }

    /// The table in the transaction.
    pub(super) fn used(&mut self) -> Store {
        self.is_used = true;
        self.inside.clone()
    }

    pub(super) fn for_commit(&self) -> GroupMember {
        GroupMember {
            store: self.outside.clone(),
            buffer: Arc::clone(&self.buffer),
        }
    }

    pub(super) fn end(&self) {
        self.buffer.end();
    }

    /// Deletes the files that the transaction wrote, except these; returns their number.
    pub(super) async fn delete_except(&self, named: BTreeSet<String>) -> usize {
        let keys = self.buffer.written_except(&named);
        if keys.is_empty() {
            return 0;
        }
        match self.plain.delete_all(&keys).await {
            Ok(()) => keys.len(),
            Err(e) => {
                warn!(table = %self.plain.location(), error = %e, "files of a transaction are left behind: vacuum removes them");
                0
            }
        }
    }
}

/// Deletes all files that a transaction wrote, which nothing names.
pub(super) async fn delete_written(members: impl Iterator<Item = &Member>) -> usize {
    let deleted = join_all(members.map(|member| member.delete_except(BTreeSet::new()))).await;
    deleted.into_iter().sum()
}
