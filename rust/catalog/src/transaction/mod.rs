//! Transactions over several tables of one catalog: all tables are loaded at one instant, commands
//! on them are buffered, and one database transaction of the catalog ratifies all commits, or none.

mod group;
mod members;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{GroupMember, commit_group, new_id};
use deltaplane_store::{Store, run_in_background};
use tokio::sync::Mutex;
use tracing::info;

use crate::api::LoadedTable;
use crate::catalog::Catalog;
use crate::names::TableName;
use crate::transaction::group::CatalogGroup;
use crate::transaction::members::{Member, delete_written};

/// Opens the location of a table, with the credentials that its catalog or its user gives.
#[async_trait]
pub trait TableStores: Send + Sync {
    /// The store of a loaded table, without a committer.
    async fn open(&self, name: &TableName, loaded: &LoadedTable) -> Result<Store>;
}

/// Which changes by others make a transaction fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TransactionIsolation {
    /// All changes of rows that the transaction read, also in tables that it doesn't write to: it
    /// has the result that it would have had at the instant of its commit.
    #[default]
    Serializable,
    /// Those that conflict with its own changes, by the isolation level of each table. What it only
    /// read was the state of one instant.
    Snapshot,
}

/// A transaction over tables of one catalog. Dropping it without a commit rolls it back in the
/// background.
pub struct Transaction {
    catalog: Arc<dyn Catalog>,
    stores: Arc<dyn TableStores>,
    isolation: TransactionIsolation,
    id: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: BTreeMap<TableName, Member>,
    has_ended: bool,
}

impl Transaction {
    /// Begins a transaction with these tables, loaded at one instant. Other tables may join later.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a catalog without transactions and for a table whose commits it
    /// doesn't decide; `TableNotFound`; those of opening the tables.
    pub async fn begin(
        catalog: Arc<dyn Catalog>,
        stores: Arc<dyn TableStores>,
        names: &[TableName],
        isolation: TransactionIsolation,
    ) -> Result<Self> {
        let transaction = Transaction {
            catalog,
            stores,
            isolation,
            id: new_id().to_string(),
            state: Mutex::default(),
        };
        transaction.join(&mut *transaction.state.lock().await, names).await?;
        Ok(transaction)
    }

    /// The id that all commits of the transaction have.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A table as the transaction sees it: at the instant of the transaction, with its own changes.
    /// Commands on this store become part of the transaction. A table that wasn't named at the
    /// beginning joins, if the tables that are in use have no newer version.
    ///
    /// # Errors
    /// `ConcurrentWrite` if a table in use has a newer version; as [`begin`](Self::begin) for one
    /// that joins; `InvalidArgument` after the end.
    pub async fn table(&self, name: &TableName) -> Result<Store> {
        let mut state = self.state.lock().await;
        if state.has_ended {
            return Err(ended());
        }
        if !state.members.contains_key(name) {
            self.join(&mut state, std::slice::from_ref(name)).await?;
        }
        match state.members.get_mut(name) {
            Some(member) => Ok(member.used()),
            None => Err(Error::internal(
                "a table that joined a transaction isn't there; please report this",
            )),
        }
    }

    /// Adds tables at one instant with all others.
    async fn join(&self, state: &mut State, names: &[TableName]) -> Result<()> {
        let mut all: Vec<TableName> = state.members.keys().cloned().collect();
        for name in names.iter().filter(|name| !state.members.contains_key(name)) {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        self.check_extension(&all).await?;
        if all.is_empty() {
            return Ok(());
        }
        let tables = self
            .catalog
            .load_all(&all)
            .await
            .map_err(|e| self.not_there(&all, e.into()))?;
        let mut joined = Vec::new();
        for (name, loaded) in all.iter().zip(&tables) {
            match state.members.get(name) {
                Some(member) if member.is_at(loaded) => {}
                Some(member) if member.is_used => {
                    return Err(Error::new(
                        Kind::ConcurrentWrite,
                        format!(
                            "{name} has version {} now, which the transaction doesn't see, so that {} can't be read at the same instant: run the transaction again, and name all of its tables when it begins",
                            loaded.latest_table_version.unwrap_or_default(),
                            names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                        ),
                    ));
                }
                _ => joined.push((name, loaded)),
            }
        }
        let opened = joined
            .iter()
            .map(|(name, loaded)| Member::open(&self.catalog, self.stores.as_ref(), name, loaded, &self.id));
        let opened = futures::future::try_join_all(opened).await?;
        state
            .members
            .extend(joined.into_iter().map(|(name, _)| name.clone()).zip(opened));
        Ok(())
    }

    async fn check_extension(&self, names: &[TableName]) -> Result<()> {
        let mut catalogs: Vec<&str> = names.iter().map(|name| name.catalog.as_str()).collect();
        catalogs.dedup();
        for catalog in catalogs {
            if !self.catalog.extensions(catalog).await?.transactions {
                return Err(Error::unsupported_feature(format!(
                    "{catalog} in {} has no transactions over several tables: use deltaplane's own catalog, or commit each table by itself",
                    self.catalog.describe()
                )));
            }
        }
        Ok(())
    }

    /// An error of loading tables, with their names if it doesn't name one.
    fn not_there(&self, names: &[TableName], e: Error) -> Error {
        let is_named = names.iter().any(|name| e.message().contains(&name.to_string()));
        match (e.kind(), is_named) {
            (Kind::TableNotFound, false) => {
                let all: Vec<String> = names.iter().map(ToString::to_string).collect();
                let what = format!(
                    "{} in {}: {}; a transaction has tables of one catalog",
                    all.join(", "),
                    self.catalog.describe(),
                    e.message()
                );
                Error::new(Kind::TableNotFound, what).with_source(e)
            }
            _ => e,
        }
    }

    /// Commits everything, or nothing. Returns the new version of each table that was written to.
    ///
    /// # Errors
    /// A conflict kind that names the table and the winner, after which nothing is committed and
    /// all files of the transaction are deleted. `StoreUnavailable` if the outcome can't be looked
    /// up: all of it may be committed, and its files stay. `InvalidArgument` after the end.
    pub async fn commit(&self) -> Result<Vec<(TableName, u64)>> {
        let mut state = self.state.lock().await;
        if std::mem::replace(&mut state.has_ended, true) {
            return Err(ended());
        }
        let is_serializable = self.isolation == TransactionIsolation::Serializable;
        let done = self.commit_members(&state, is_serializable).await;
        state.members.values().for_each(Member::end);
        match done {
            Ok(committed) => {
                info!(transaction = %self.id, tables = committed.len(), "committed a transaction");
                Ok(committed)
            }
            Err((error, is_unclear)) => {
                if !is_unclear {
                    delete_written(state.members.values()).await;
                }
                Err(error)
            }
        }
    }

    async fn commit_members(
        &self,
        state: &State,
        is_serializable: bool,
    ) -> Result<Vec<(TableName, u64)>, (Error, bool)> {
        for member in state.members.values() {
            member.buffer.close().map_err(|e| (e, false))?;
        }
        // Without a change, everything was read at one instant, whatever happened since.
        if !state.members.values().any(|member| member.buffer.has_commands()) {
            return Ok(Vec::new());
        }
        let counts = |member: &Member| member.buffer.has_commands() || (is_serializable && member.buffer.has_reads());
        let (names, members): (Vec<&TableName>, Vec<&Member>) =
            state.members.iter().filter(|(_, member)| counts(member)).unzip();
        let committer = CatalogGroup::new(
            Arc::clone(&self.catalog),
            members.iter().map(|member| Arc::clone(&member.committer)).collect(),
        );
        let group: Vec<GroupMember> = members.iter().map(|member| member.for_commit()).collect();
        let done = commit_group(&committer, &self.id, &group, is_serializable).await;
        let done = done.map_err(|failure| (failure.error, failure.is_unclear))?;
        let mut committed = Vec::new();
        let mut transient = Vec::new();
        for ((name, member), done) in names.into_iter().zip(members).zip(done) {
            let Some(done) = done else { continue };
            committed.push((name.clone(), done.version));
            transient.extend(done.files.map(|files| member.delete_except(files)));
        }
        futures::future::join_all(transient).await;
        Ok(committed)
    }

    /// Ends the transaction without a commit, and deletes the files that it wrote. Returns their
    /// number; what can't be deleted is left to vacuum.
    ///
    /// # Errors
    /// `InvalidArgument` after the end.
    pub async fn rollback(&self) -> Result<usize> {
        let mut state = self.state.lock().await;
        if std::mem::replace(&mut state.has_ended, true) {
            return Err(ended());
        }
        state.members.values().for_each(Member::end);
        Ok(delete_written(state.members.values()).await)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if !std::mem::replace(&mut state.has_ended, true) {
            let members = std::mem::take(&mut state.members);
            members.values().for_each(Member::end);
            drop(run_in_background(async move { delete_written(members.values()).await }));
        }
    }
}

fn ended() -> Error {
    Error::invalid_argument("the transaction has ended: begin another one")
}
