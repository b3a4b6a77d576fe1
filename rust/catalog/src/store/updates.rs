//! Updates of tables: ratifying commits, reporting publication, changing metadata. Each is decided
//! before anything is written, so that a refusal leaves a shared transaction as it was.

use std::collections::BTreeSet;

use crate::api::tables::{LoadedTable, TableType};
use crate::api::{AssertedTable, Commit, Extensions, TableUpdate, UpdateOutcome, UpdateTable};
use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::MAX_TRANSACTION_TABLES;
use crate::names::TableName;
use crate::store::access::{Access, Principal, audit};
use crate::store::connection::Connection;
use crate::store::metadata::{apply, changes_metadata, check_uniform, is_iceberg, touches_record};
use crate::store::record::{Head, TableRecord};
use crate::store::tables::{Key, load, no_table, required, save_metadata, uuid_of};
use crate::store::value::params;
use crate::store::{Store, StoreOptions, commits, now_ms};

/// A checked request for one table.
#[derive(Clone)]
struct Request {
    name: TableName,
    asserted: AssertedTable,
    update: UpdateTable,
    /// The version that must be the latest one of a table that is only read.
    unchanged: Option<i64>,
}

/// What a request will write.
struct Plan<'a> {
    uuid: &'a str,
    before: Head,
    after: Head,
    commit: Option<&'a Commit>,
    record: Option<TableRecord>,
    metadata: bool,
    /// The request was ratified before: nothing is written.
    replay: bool,
}

impl Plan<'_> {
    /// Whether it changes nothing, as a repeated report of publication.
    fn is_idle(&self) -> bool {
        self.commit.is_none() && self.record.is_none() && self.after == self.before
    }
}

impl Store {
    /// Updates a table, and answers with its latest version and etag.
    pub async fn update(&self, name: &TableName, update: UpdateTable, by: &Principal) -> Result<UpdateOutcome> {
        let outcomes = self.update_all(vec![(name.clone(), update)], by).await?;
        let outcome = outcomes.into_iter().next();
        outcome.ok_or_else(|| CatalogError::internal("an update has no outcome"))
    }

    /// Updates a table, and loads it in the same transaction.
    pub async fn update_and_load(
        &self,
        name: &TableName,
        update: UpdateTable,
        extensions: Extensions,
        by: &Principal,
    ) -> Result<LoadedTable> {
        let (request, options) = (check(name.clone(), update, by)?, self.options.clone());
        let (key, by) = (request.asserted.uuid.clone(), by.name.clone());
        self.write(&key, move |connection| {
            run(connection, std::slice::from_ref(&request), &options, &by)?;
            load(connection, &request.name, extensions, None)
        })
        .await
    }

    /// Updates several tables in one database transaction: all or nothing.
    pub async fn update_all(
        &self,
        updates: Vec<(TableName, UpdateTable)>,
        by: &Principal,
    ) -> Result<Vec<UpdateOutcome>> {
        if updates.is_empty() || updates.len() > MAX_TRANSACTION_TABLES {
            return Err(CatalogError::invalid(format!(
                "a transaction has 1 to {MAX_TRANSACTION_TABLES} tables, not {}",
                updates.len()
            )));
        }
        let mut names = BTreeSet::new();
        let mut requests = Vec::with_capacity(updates.len());
        for (name, update) in updates {
            if !names.insert(name.clone()) {
                return Err(CatalogError::invalid(format!(
                    "the table {name} occurs twice in the transaction"
                )));
            }
            requests.push(check(name, update, by)?);
        }
        let (options, by) = (self.options.clone(), by.name.clone());
        let key = requests
            .iter()
            .map(|request| request.asserted.uuid.clone())
            .min()
            .unwrap_or_default();
        self.write(&key, move |connection| run(connection, &requests, &options, &by))
            .await
    }
}

impl Store {
    /// Whether the table with this name has this identity.
    pub async fn has_identity(&self, name: &TableName, uuid: &str, by: &Principal) -> Result<bool> {
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        let (name, uuid) = (name.clone(), uuid.to_owned());
        self.read(move |connection| {
            let actual = uuid_of(connection, &name)?.ok_or_else(|| no_table(&name.to_string()))?;
            Ok(actual.eq_ignore_ascii_case(&uuid))
        })
        .await
    }
}

fn check(name: TableName, update: UpdateTable, by: &Principal) -> Result<Request> {
    let unchanged = update.unchanged_version()?;
    let access = match unchanged {
        Some(_) => Access::Read,
        None => Access::Write,
    };
    by.check(access, Some(&name.catalog), Some(&name.schema))?;
    let asserted = update.asserted()?;
    if unchanged.is_none() {
        update.check()?;
    }
    Ok(Request {
        name,
        asserted,
        update,
        unchanged,
    })
}

fn run(
    connection: &mut Connection,
    requests: &[Request],
    options: &StoreOptions,
    by: &str,
) -> Result<Vec<UpdateOutcome>> {
    let mut locks: Vec<_> = requests.iter().map(|request| request.asserted.uuid.as_str()).collect();
    locks.sort_unstable();
    // A single table is locked by the statement that finds it.
    if locks.len() > 1 {
        for uuid in locks {
            connection.lock_table(uuid)?;
        }
    }
    let mut plans = Vec::with_capacity(requests.len());
    for request in requests {
        plans.push(match request.unchanged {
            Some(_) => None,
            None => Some(decide(connection, request, options)?),
        });
    }
    // A transaction whose answer was lost is repeated whole. Half of one was never ratified.
    let replays = plans.iter().flatten().filter(|plan| plan.replay).count();
    if replays > 0 && replays < plans.iter().flatten().count() {
        return Err(CatalogError::new(
            ErrorType::CommitVersionConflict,
            "some commits of the transaction are ratified already, and others are not",
        ));
    }
    let mut outcomes = Vec::with_capacity(plans.len());
    let mut heads = Vec::with_capacity(requests.len());
    for (plan, request) in plans.iter().zip(requests) {
        heads.push(match plan {
            Some(plan) => plan.after.clone(),
            // What was read before a ratified transaction may have changed since.
            None => unchanged(connection, request, replays > 0)?,
        });
    }
    for ((plan, head), request) in plans.iter().zip(heads).zip(requests) {
        if let Some(plan) = plan.as_ref().filter(|plan| !plan.replay && !plan.is_idle()) {
            write(connection, plan)?;
            if plan.metadata {
                audit(connection, by, "CHANGE METADATA", &request.name.to_string())?;
            }
        }
        outcomes.push(UpdateOutcome {
            latest_table_version: head.latest,
            etag: head.etag_text(&request.asserted.uuid),
        });
    }
    Ok(outcomes)
}

/// The head of a table that a transaction only read, which must have no later version.
fn unchanged(connection: &mut Connection, request: &Request, is_replay: bool) -> Result<Head> {
    let (_, _, head) = find(connection, request)?;
    if head.latest.is_none() {
        return Err(CatalogError::invalid(format!(
            "{} is an external table: the catalog doesn't know its latest version",
            request.name
        )));
    }
    match is_replay || head.latest == request.unchanged {
        true => Ok(head),
        false => Err(CatalogError::new(
            ErrorType::CommitVersionConflict,
            format!(
                "{}, which the transaction read, has version {} now",
                request.name,
                head.latest.unwrap_or_default()
            ),
        )),
    }
}

/// Decides a request. Writes nothing.
fn decide<'a>(connection: &mut Connection, request: &'a Request, options: &StoreOptions) -> Result<Plan<'a>> {
    let uuid = request.asserted.uuid.as_str();
    let (table_type, location, before) = find(connection, request)?;
    let updates = &request.update.updates;
    let commit = request.update.commit();
    let mut after = before.clone();
    let plan_of = |after: Head, record: Option<TableRecord>, metadata: bool, replay: bool| Plan {
        uuid,
        before: before.clone(),
        after,
        commit,
        record,
        metadata,
        replay,
    };
    let latest = match (table_type, before.latest) {
        (TableType::Managed, Some(latest)) => Some(latest),
        _ => None,
    };
    let coordinates = |update: &TableUpdate| {
        matches!(
            update,
            TableUpdate::AddCommit { .. } | TableUpdate::SetLatestBackfilledVersion { .. }
        )
    };
    let Some(latest) = latest else {
        if updates.iter().any(coordinates) {
            return Err(CatalogError::invalid(format!(
                "{} is an external table: its commits don't go through the catalog",
                request.name
            )));
        }
        check_etag(request, &before)?;
        let record = changed_record(connection, request, None)?;
        after.etag += 1;
        return Ok(plan_of(after, Some(record), true, false));
    };
    if let Some(commit) = commit
        && commit.version <= latest
    {
        // Before the etag, which the first of two equal requests may have changed.
        return match commits::file_name(connection, uuid, commit.version)? {
            Some(name) if name == commit.file_name => Ok(plan_of(before.clone(), None, false, true)),
            _ => Err(CatalogError::new(
                ErrorType::CommitVersionConflict,
                format!(
                    "version {} of {} was ratified with another commit",
                    commit.version, request.name
                ),
            )),
        };
    }
    check_etag(request, &before)?;
    let reported = updates.iter().find_map(|update| match update {
        TableUpdate::SetLatestBackfilledVersion {
            latest_published_version,
        } => Some(*latest_published_version),
        _ => None,
    });
    if let Some(published) = reported {
        if published > latest {
            return Err(CatalogError::invalid(format!(
                "version {published} can't be published: the latest ratified one is {latest}"
            )));
        }
        if published > before.published {
            after.published = published;
        }
        if published > before.published && before.inline_bytes > 0 {
            after.inline_bytes -= commits::inline_bytes(connection, uuid, before.published, published)?;
        }
    }
    if let Some(commit) = commit {
        ratify(&mut after, commit, latest, options, &request.name)?;
    }
    let metadata = updates.iter().any(changes_metadata);
    let mut record = None;
    if updates.iter().any(touches_record) {
        let changed = changed_record(connection, request, metadata.then_some(commit).flatten())?;
        after.iceberg = is_iceberg(&changed);
        record = Some(changed);
    }
    if metadata {
        after.etag += 1;
    }
    check_iceberg(updates, after.iceberg, &location)?;
    Ok(plan_of(after, record, metadata, false))
}

/// Selects a table's head, with a lock where the database has locks of rows.
macro_rules! find_sql {
    ($lock:literal) => {
        concat!(
            "SELECT t.uuid, t.table_type, t.location, h.etag, h.latest, h.latest_timestamp, h.published, h.inline_bytes,
                    h.iceberg
             FROM tables t JOIN heads h ON h.uuid = t.uuid WHERE t.catalog = $1 AND t.schema = $2 AND t.name = $3",
            $lock
        )
    };
}

/// The table of a request, which must be the one whose identity it asserts.
fn find(connection: &mut Connection, request: &Request) -> Result<(TableType, String, Head)> {
    let name = &request.name;
    let sql = match connection.is_postgres() {
        true => find_sql!(" FOR UPDATE OF h"),
        false => find_sql!(""),
    };
    let row = connection.first(sql, params![&name.catalog, &name.schema, &name.table])?;
    let Some(mut row) = row else {
        return Err(no_table(&name.to_string()));
    };
    let uuid = row.text()?;
    if !uuid.eq_ignore_ascii_case(&request.asserted.uuid) {
        return Err(CatalogError::new(
            ErrorType::UpdateRequirementConflict,
            format!(
                "{name} has the identity {uuid}, not {}: it was replaced",
                request.asserted.uuid
            ),
        ));
    }
    let table_type = TableType::parse(&row.text()?)?;
    let location = row.text()?;
    let head = Head {
        etag: row.int()?,
        latest: row.opt_int()?,
        latest_timestamp: row.int()?,
        published: row.int()?,
        inline_bytes: row.int()?,
        iceberg: row.int()? != 0,
    };
    Ok((table_type, location, head))
}

fn check_etag(request: &Request, head: &Head) -> Result<()> {
    let own = head.etag_text(&request.asserted.uuid);
    match &request.asserted.etag {
        Some(etag) if *etag != own => Err(CatalogError::new(
            ErrorType::UpdateRequirementConflict,
            format!(
                "the metadata of {} changed: its etag is {own}, not {etag}",
                request.name
            ),
        )),
        _ => Ok(()),
    }
}

/// The new head after ratifying a commit above `latest`.
fn ratify(after: &mut Head, commit: &Commit, latest: i64, options: &StoreOptions, name: &TableName) -> Result<()> {
    if commit.version != latest + 1 {
        return Err(CatalogError::invalid(format!(
            "version {} of {name} can't be ratified: the latest one is {latest}",
            commit.version
        )));
    }
    if commit.timestamp <= after.latest_timestamp {
        return Err(CatalogError::invalid(format!(
            "the timestamp of version {} of {name} must be above {}, that of version {latest}: it is {}",
            commit.version, after.latest_timestamp, commit.timestamp
        )));
    }
    let content_bytes = commit.content.as_ref().map_or(0, |content| content.len() as i64);
    if latest - after.published >= options.max_unpublished
        || after.inline_bytes + content_bytes > options.max_inline_bytes
    {
        return Err(CatalogError::new(
            ErrorType::ResourceExhausted,
            format!(
                "{} commits of {name} are unpublished ({} bytes inline): publish them and report it",
                latest - after.published,
                after.inline_bytes
            ),
        ));
    }
    after.latest = Some(commit.version);
    after.latest_timestamp = commit.timestamp;
    after.inline_bytes += content_bytes;
    Ok(())
}

/// The table's metadata after the request; `commit` is the one that changes them.
fn changed_record(connection: &mut Connection, request: &Request, commit: Option<&Commit>) -> Result<TableRecord> {
    let (mut record, _) = required(connection, &Key::Name(request.name.clone()))?;
    apply(&mut record, &request.update.updates)?;
    if let Some(commit) = commit {
        record.last_update_version = Some(commit.version);
        record.last_update_ms = Some(commit.timestamp);
    }
    record.updated_at = now_ms();
    Ok(record)
}

/// A commit carries its conversion to Iceberg exactly if the table has one.
fn check_iceberg(updates: &[TableUpdate], iceberg: bool, location: &str) -> Result<()> {
    for update in updates {
        if let TableUpdate::AddCommit { uniform, .. } = update {
            if uniform.is_some() != iceberg {
                return Err(CatalogError::invalid(
                    "a commit carries uniform if and only if delta.universalFormat.enabledFormats has iceberg",
                ));
            }
            check_uniform(uniform.as_ref(), location)?;
        }
    }
    Ok(())
}

fn write(connection: &mut Connection, plan: &Plan<'_>) -> Result<()> {
    let (before, after) = (&plan.before, &plan.after);
    connection.send(
        "UPDATE heads SET etag = $1, latest = $2, latest_timestamp = $3, published = $4, inline_bytes = $5,
             iceberg = $6 WHERE uuid = $7",
        params![
            after.etag,
            after.latest,
            after.latest_timestamp,
            after.published,
            after.inline_bytes,
            i64::from(after.iceberg),
            plan.uuid
        ],
    )?;
    if let Some(commit) = plan.commit {
        commits::insert(connection, plan.uuid, commit)?;
    }
    if after.published > before.published {
        commits::forget(connection, plan.uuid, before.published, after.published)?;
    }
    match &plan.record {
        Some(record) => save_metadata(connection, record),
        None => Ok(()),
    }
}
