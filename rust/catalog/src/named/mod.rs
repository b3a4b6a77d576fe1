//! Tables by their names in a catalog: `uc://catalog.schema.table` as a location. Resolves a name
//! to a store whose commits the catalog decides, or for an external table to the store of its
//! location. Knows no Python.

mod committer;
mod connections;
mod directory;
mod registering;
mod settings;
mod transactions;
mod vended;
mod volume_paths;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::{Committer, LogTail, forget_first_answer, managed};
use deltaplane_store::{Location, PerProcess, Scheme, Session, Store, block_on, open_in_session};

use crate::api::{LoadedTable, StagingTable, TableType};
use crate::catalog::Catalog;
use crate::committer::CatalogCommitter;
use crate::error::ErrorType;
use crate::managed_features::CATALOG_MANAGED;
use crate::names::TableName;
use committer::Watched;
use vended::Owner;

pub use connections::Connected;
pub use directory::{CatalogEntry, Directory};
pub use registering::register_external;
pub use settings::{CatalogSettings, TokenProvider, set_token_provider};
pub use vended::{VendedCredentials, VendedFields};

/// What a table's name begins with, where a location is expected.
const SCHEME: &str = "uc://";
/// The most tables whose stores the process keeps.
const MAX_TABLES: usize = 4_096;
/// Parts of the keys of options by which a caller gives credentials of its own.
const CREDENTIAL_KEYS: [&str; 8] = [
    "access_key",
    "account_key",
    "bearer",
    "credential",
    "sas",
    "secret",
    "service_account",
    "skip_signature",
];

/// A session that a transaction keeps until its end.
pub trait SharedSession: Session + Clone + Send + Sync + 'static {}

impl<S: Session + Clone + Send + Sync + 'static> SharedSession for S {}

/// What version 0 of a new table must have, by property.
pub type Required = BTreeMap<String, String>;

/// A location and the options of its call, after the session's.
type Key = (String, BTreeMap<String, String>);

/// The store of a name.
#[derive(Clone)]
struct Resolved {
    store: Store,
    /// The options that the store was opened with.
    options: HashMap<String, String>,
    required: Required,
    /// Set when the catalog said that the name has another table, or none, by now.
    gone: Arc<AtomicBool>,
    /// Set when a new table has its first version.
    exists: Arc<AtomicBool>,
}

static TABLES: PerProcess<Mutex<HashMap<Key, Resolved>>> = PerProcess::new(Mutex::default, drop);

/// Opens the store of a location: by its name in a catalog, else by its URL or path. The options of
/// catalogs are known to this function alone.
///
/// # Errors
/// `TableNotFound` if the catalog has no table of the name; `StoreDenied` for a missing or wrong
/// token; `StoreUnavailable`; else as [`open_in_session`].
pub fn store<S: SharedSession>(location: &str, options: HashMap<String, String>, session: &S) -> Result<Store> {
    resolve(location, options, session, false).map(|resolved| resolved.store)
}

/// Runs work that opens a table: once more if the name has another table by now than the process
/// knew.
///
/// # Errors
/// As [`store`], and those of the work.
pub fn with_store<S: SharedSession, T>(
    location: &str,
    options: HashMap<String, String>,
    session: &S,
    work: impl Fn(&Store) -> Result<T>,
) -> Result<T> {
    with_resolved(
        || resolve(location, options.clone(), session, false),
        |known| work(&known.store),
    )
}

/// As [`with_store`], for a table that is created if there is none. The work is given the
/// properties too that a new table must have.
///
/// # Errors
/// As [`with_store`], except that a name without a table is none.
pub fn with_store_to_create<S: SharedSession, T>(
    location: &str,
    options: HashMap<String, String>,
    session: &S,
    work: impl Fn(&Store, Required) -> Result<T>,
) -> Result<T> {
    with_resolved(
        || resolve(location, options.clone(), session, true),
        |resolved| match resolved.is_new() {
            true => work(&resolved.store, resolved.required.clone()),
            false => work(&resolved.store, Required::new()),
        },
    )
}

/// Whether a location has a table.
///
/// # Errors
/// As [`store`], except that a name without a table is none.
pub fn is_table<S: SharedSession>(location: &str, options: HashMap<String, String>, session: &S) -> Result<bool> {
    match with_store(location, options, session, |store| {
        block_on(deltaplane_log::is_table(store))
    }) {
        Err(e) if e.kind() == Kind::TableNotFound => Ok(false),
        answer => answer,
    }
}

fn with_resolved<T>(resolve: impl Fn() -> Result<Resolved>, work: impl Fn(&Resolved) -> Result<T>) -> Result<T> {
    let first = resolve()?;
    match work(&first) {
        Err(_) if first.gone.load(Ordering::Acquire) => work(&resolve()?),
        done => done,
    }
}

fn resolve<S: SharedSession>(
    location: &str,
    mut options: HashMap<String, String>,
    session: &S,
    create: bool,
) -> Result<Resolved> {
    if let Some((name, path)) = volume_paths::parse(location)? {
        if options.contains_key(transactions::OPTION) {
            return Err(transactions::outside(location));
        }
        let merged = session.merged(location, options)?;
        let resolving = block_on(volume_paths::resolving(name, &path, merged)).map_err(|e| e.with_table(location))?;
        return resolving.open(session);
    }
    let Some(name) = location.strip_prefix(SCHEME) else {
        if options.contains_key(transactions::OPTION) {
            return Err(transactions::outside(location));
        }
        settings::remove(&mut options);
        return open_in_session(location, options, &WithoutCatalog(session)).map(Resolved::of_store);
    };
    let mut merged = session.merged(location, options)?;
    if let Some(id) = merged.remove(transactions::OPTION) {
        let (settings, name) = (
            CatalogSettings::take(&mut merged)?,
            TableName::parse(name).map_err(Error::from)?,
        );
        let store = block_on(transactions::table(&id, settings, &name, merged, session));
        return store.map(Resolved::of_store).map_err(|e| e.with_table(location));
    }
    let key = (
        location.to_owned(),
        merged.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
    );
    let tables = TABLES.get();
    let known = tables.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(known) = known
        && !known.gone.load(Ordering::Acquire)
        && known.is_current(session)?
    {
        forget_first_answer(&known.store);
        return Ok(known);
    }
    let catalog = Connected::new(CatalogSettings::take(&mut merged)?);
    let name = TableName::parse(name).map_err(Error::from)?;
    let resolved = block_on(by_name(catalog, name, merged, create)).map_err(|e| e.with_table(location))?;
    let is_managed = resolved.committer.is_some();
    let resolved = resolved.open(session)?;
    if !is_managed {
        // Nothing would tell that the name has another table by now: each open asks the catalog.
        return Ok(resolved);
    }
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    if tables.len() >= MAX_TABLES {
        tables.clear();
    }
    // Another thread may have begun to create the same table: both write to one place.
    match tables.get(&key).filter(|other| other.is_new() && resolved.is_new()) {
        Some(other) if !other.gone.load(Ordering::Acquire) => Ok(other.clone()),
        _ => {
            tables.insert(key, resolved.clone());
            Ok(resolved)
        }
    }
}

impl Resolved {
    /// A store that no catalog watches.
    fn of_store(store: Store) -> Self {
        Resolved {
            store,
            options: HashMap::new(),
            required: Required::new(),
            gone: Arc::default(),
            exists: Arc::default(),
        }
    }

    /// Whether it is the store of a table that has no version yet.
    fn is_new(&self) -> bool {
        !self.required.is_empty() && !self.exists.load(Ordering::Acquire)
    }

    /// Whether the session has the same options for the store as when it was opened.
    fn is_current<S: Session>(&self, session: &S) -> Result<bool> {
        let location = self.store.location();
        if location.scheme() == Scheme::Local {
            return Ok(true);
        }
        let merged = WithoutCatalog(session).merged(location.as_str(), self.options.clone())?;
        Ok(merged
            .iter()
            .all(|(key, value)| self.store.options().get(key) == Some(value)))
    }
}

/// What a catalog says of a name, before its store is opened.
struct Resolving {
    location: String,
    options: HashMap<String, String>,
    committer: Option<CatalogCommitter>,
    /// The commits that the catalog named with the table: the first opening asks nothing more.
    /// Later ones, to which the process gives the same store, ask.
    tail: Option<LogTail>,
    required: Required,
    catalog: Arc<dyn Catalog>,
    owner: Owner,
}

async fn by_name(
    catalog: Connected,
    name: TableName,
    options: HashMap<String, String>,
    create: bool,
) -> Result<Resolving> {
    let catalog: Arc<dyn Catalog> = Arc::new(catalog);
    let table = match catalog.load(&name, None).await {
        Ok(loaded) => existing(Arc::clone(&catalog), name, &loaded).await?,
        Err(e) if e.error_type == ErrorType::NoSuchTable && create => {
            let staging = catalog.create_staging(&name).await?;
            new(Arc::clone(&catalog), name, staging).await?
        }
        Err(e) => return Err(e.into()),
    };
    Ok(Resolving { options, ..table })
}

async fn existing(catalog: Arc<dyn Catalog>, name: TableName, loaded: &LoadedTable) -> Result<Resolving> {
    let is_managed = loaded.metadata.table_type == TableType::Managed && loaded.latest_table_version.is_some();
    let (committer, tail) = match is_managed {
        true => {
            let (committer, tail) = CatalogCommitter::open(Arc::clone(&catalog), name.clone(), loaded).await?;
            (Some(committer), Some(tail))
        }
        false => (None, None),
    };
    Ok(Resolving {
        location: loaded.metadata.location.clone(),
        options: HashMap::new(),
        committer,
        tail,
        required: Required::new(),
        catalog,
        owner: Owner::Table(name),
    })
}

async fn new(catalog: Arc<dyn Catalog>, name: TableName, staging: StagingTable) -> Result<Resolving> {
    // The log itself asks for the feature that gives the decision about commits to the catalog.
    let features = staging.required_protocol.features();
    let features = features.into_iter().filter(|feature| *feature != CATALOG_MANAGED);
    let mut required: Required = features
        .map(|feature| (format!("delta.feature.{feature}"), "supported".to_owned()))
        .collect();
    for (key, value) in &staging.required_properties {
        required.extend(value.as_ref().map(|value| (key.clone(), value.clone())));
    }
    let (location, id) = (staging.location.clone(), staging.table_id.clone());
    let committer = CatalogCommitter::create(Arc::clone(&catalog), name, staging).await?;
    Ok(Resolving {
        location,
        options: HashMap::new(),
        committer: Some(committer),
        tail: None,
        required,
        catalog,
        owner: Owner::Staging(id),
    })
}

impl Resolving {
    /// Files whose commits, if they are a table's, no catalog decides.
    fn of_files(location: String, options: HashMap<String, String>, catalog: Arc<dyn Catalog>, owner: Owner) -> Self {
        Resolving {
            location,
            options,
            committer: None,
            tail: None,
            required: Required::new(),
            catalog,
            owner,
        }
    }

    /// Opens the store, with credentials of the catalog unless the caller has some.
    fn open<S: Session>(self, session: &S) -> Result<Resolved> {
        let session = WithoutCatalog(session);
        let parsed = Location::parse(&self.location)?;
        let is_local = parsed.scheme() == Scheme::Local;
        let mut options = self.options;
        if !is_local && !has_credentials(&session.merged(&self.location, options.clone())?) {
            let provider = block_on(vended::provider(self.catalog, self.owner, &self.location))?;
            options.extend(provider.map(|name| ("credential_provider".to_owned(), name)));
        }
        let plain = match is_local {
            true => open_in_session(parsed.as_str(), options.clone(), &session)?,
            false => open_in_session(&self.location, options.clone(), &session)?,
        };
        let (gone, exists) = (Arc::default(), Arc::default());
        let store = match self.committer {
            None => plain,
            Some(committer) => {
                let watched = Watched::new(committer, Arc::clone(&gone), Arc::clone(&exists));
                managed(&plain, Arc::new(watched) as Arc<dyn Committer>, self.tail)?
            }
        };
        Ok(Resolved {
            store,
            options,
            required: self.required,
            gone,
            exists,
        })
    }
}

fn has_credentials(options: &HashMap<String, String>) -> bool {
    options.keys().any(|key| {
        let key = key.to_ascii_lowercase();
        key == "token" || key.ends_with("_token") || CREDENTIAL_KEYS.iter().any(|part| key.contains(part))
    })
}

/// The session's options for a table's store, without those of catalogs.
struct WithoutCatalog<'a, S>(&'a S);

impl<S: Session> Session for WithoutCatalog<'_, S> {
    fn merged(&self, location: &str, options: HashMap<String, String>) -> Result<HashMap<String, String>> {
        let mut merged = self.0.merged(location, options)?;
        settings::remove(&mut merged);
        Ok(merged)
    }

    fn advice(&self, location: &str, message: &str) -> Result<Option<String>> {
        self.0.advice(location, message)
    }
}
