//! The transactions that this process has open, by their ids: the storage option
//! `catalog_transaction` makes commands on a name part of one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use deltaplane_error::{Error, Result};
use deltaplane_log::new_id;
use deltaplane_store::{PerProcess, Store};
use tokio::sync::OnceCell;

use crate::api::LoadedTable;
use crate::catalog::Catalog;
use crate::named::connections::Connected;
use crate::named::settings::CatalogSettings;
use crate::named::vended::Owner;
use crate::named::{Resolving, SharedSession};
use crate::names::TableName;
use crate::transaction::{TableStores, Transaction, TransactionIsolation};

/// The storage option with the id of a transaction.
pub(super) const OPTION: &str = "catalog_transaction";

/// A transaction, which begins when its first table is opened.
struct Open {
    settings: CatalogSettings,
    names: Vec<TableName>,
    isolation: TransactionIsolation,
    begun: OnceCell<Transaction>,
}

static OPEN: PerProcess<Mutex<HashMap<String, Arc<Open>>>> = PerProcess::new(Mutex::default, drop);

fn known() -> MutexGuard<'static, HashMap<String, Arc<Open>>> {
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a transaction over tables of a catalog. Returns its id.
pub(super) fn register(settings: CatalogSettings, names: Vec<TableName>, isolation: TransactionIsolation) -> String {
    let id = new_id().to_string();
    let open = Open {
        settings,
        names,
        isolation,
        begun: OnceCell::new(),
    };
    known().insert(id.clone(), Arc::new(open));
    id
}

/// The store of a table as the transaction sees it. The first table begins the transaction: all of
/// its named tables are loaded at that instant.
///
/// # Errors
/// `InvalidArgument` for a transaction that has ended, that another process has, or of another
/// catalog; as of [`Transaction::begin`] and [`Transaction::table`].
pub(super) async fn table<S: SharedSession>(
    id: &str,
    settings: CatalogSettings,
    name: &TableName,
    options: HashMap<String, String>,
    session: &S,
) -> Result<Store> {
    let open = known().get(id).cloned().ok_or_else(not_open)?;
    if settings != open.settings {
        return Err(Error::invalid_argument(format!(
            "{name} is named in another catalog than the transaction's tables: a transaction has tables of one catalog"
        )));
    }
    let begin = || async {
        let catalog: Arc<dyn Catalog> = Arc::new(Connected::new(settings));
        let stores = Stores {
            catalog: Arc::clone(&catalog),
            options,
            session: session.clone(),
        };
        let mut names = open.names.clone();
        if !names.contains(name) {
            names.push(name.clone());
        }
        Transaction::begin(catalog, Arc::new(stores), &names, open.isolation).await
    };
    open.begun.get_or_try_init(begin).await?.table(name).await
}

/// Commits a transaction. Returns the new version of each table that was written to.
///
/// # Errors
/// As of [`Transaction::commit`].
pub(super) async fn commit(id: &str) -> Result<Vec<(TableName, u64)>> {
    let open = known().remove(id).ok_or_else(not_open)?;
    match open.begun.get() {
        Some(transaction) => transaction.commit().await,
        None => Ok(Vec::new()),
    }
}

/// Ends a transaction without a commit. Returns the number of files that were deleted.
///
/// # Errors
/// `InvalidArgument` for a transaction that has ended.
pub(super) async fn rollback(id: &str) -> Result<usize> {
    let open = known().remove(id).ok_or_else(not_open)?;
    match open.begun.get() {
        Some(transaction) => transaction.rollback().await,
        None => Ok(0),
    }
}

/// An error for a location outside of any catalog, within a transaction.
pub(super) fn outside(location: &str) -> Error {
    Error::unsupported_feature(format!(
        "{location} is outside of the transaction's catalog, which can't decide its commits: name a managed table of the catalog, or write to it outside of the transaction"
    ))
}

fn not_open() -> Error {
    Error::invalid_argument("the transaction has ended, or another process has it: begin another one")
}

/// Opens the locations of tables as names are opened, without their committer.
struct Stores<S> {
    catalog: Arc<dyn Catalog>,
    options: HashMap<String, String>,
    session: S,
}

#[async_trait]
impl<S: SharedSession> TableStores for Stores<S> {
    async fn open(&self, name: &TableName, loaded: &LoadedTable) -> Result<Store> {
        let table = Resolving {
            location: loaded.metadata.location.clone(),
            options: self.options.clone(),
            committer: None,
            tail: None,
            required: BTreeMap::new(),
            catalog: Arc::clone(&self.catalog),
            owner: Owner::Table(name.clone()),
        };
        table.open(&self.session).map(|resolved| resolved.store)
    }
}
