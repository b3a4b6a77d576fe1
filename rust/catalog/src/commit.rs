//! One commit through a catalog, to a known outcome: a lost answer is looked up, never guessed.

use std::time::Duration;

use crate::api::{LoadedTable, UpdateOutcome, UpdateTable};
use crate::catalog::Catalog;
use crate::error::{CatalogError, ErrorType, Result};
use crate::names::TableName;

/// How often an unclear commit is looked up and sent again.
pub(crate) const ATTEMPTS: u32 = 4;
/// The first pause between two attempts.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// What became of a commit.
#[derive(Debug, Clone, PartialEq)]
pub enum CommitOutcome {
    /// The proposal is the version now.
    Ratified(UpdateOutcome),
    /// Another proposal has the version, or the version is published and its name forgotten, so
    /// that only its content tells whose it is. Contains the loaded table.
    Taken(Box<LoadedTable>),
    /// Too many commits are unpublished; nothing was ratified.
    PublishFirst,
    /// The catalog can't be asked: the proposal may have been ratified, or may be later.
    Unknown(CatalogError),
}

/// Sends a request that adds a commit, and waits for its outcome.
///
/// # Errors
/// The commit was certainly not ratified: a missing right, a changed etag or identity, a request
/// that the catalog refuses.
pub async fn commit(catalog: &dyn Catalog, name: &TableName, request: &UpdateTable) -> Result<CommitOutcome> {
    let Some(proposed) = request.commit() else {
        return Err(CatalogError::invalid("the request adds no commit"));
    };
    let mut unclear = false;
    let mut pause = PAUSE;
    for attempt in 1.. {
        let error = match catalog.update(name, request).await {
            Ok(outcome) => return Ok(CommitOutcome::Ratified(outcome)),
            Err(error) => error,
        };
        match error.error_type {
            ErrorType::ResourceExhausted if !unclear => return Ok(CommitOutcome::PublishFirst),
            // The first attempt may have been ratified, and have changed the etag or filled the
            // table up: what counts is which commit has the version.
            ErrorType::ResourceExhausted | ErrorType::UpdateRequirementConflict if unclear => {}
            ErrorType::CommitVersionConflict => {}
            kind if kind.rules_out_change() && !unclear => return Err(error),
            _ => unclear = true,
        }
        match catalog.load(name, Some(proposed.version - 1)).await {
            Ok(loaded) => match find(&loaded, request) {
                Found::Own => return Ok(CommitOutcome::Ratified(UpdateOutcome::from(&loaded))),
                Found::Other => return Ok(CommitOutcome::Taken(Box::new(loaded))),
                Found::Absent => match error.error_type {
                    // Hidden by the catalog, or a false answer: never taken for a success.
                    ErrorType::CommitVersionConflict => return Ok(CommitOutcome::Taken(Box::new(loaded))),
                    ErrorType::ResourceExhausted => return Ok(CommitOutcome::PublishFirst),
                    kind if kind.rules_out_change() => return Err(error),
                    _ => {}
                },
            },
            Err(e) if e.error_type == ErrorType::NoSuchTable => return Err(e),
            Err(_) => {}
        }
        if attempt >= ATTEMPTS {
            return Ok(CommitOutcome::Unknown(error));
        }
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
        pause *= 3;
    }
    Err(CatalogError::internal("the attempts of a commit ended"))
}

/// Which commit has a version.
pub(crate) enum Found {
    /// The proposed one.
    Own,
    /// Another one, or one whose name is forgotten.
    Other,
    /// None yet.
    Absent,
}

/// Which commit has the version that a request proposes.
pub(crate) fn find(loaded: &LoadedTable, request: &UpdateTable) -> Found {
    let Some(proposed) = request.commit() else {
        return Found::Absent;
    };
    let own_table = request
        .asserted()
        .is_ok_and(|asserted| asserted.uuid.eq_ignore_ascii_case(&loaded.metadata.table_uuid));
    if !own_table || loaded.latest_table_version.unwrap_or(-1) < proposed.version {
        return Found::Absent;
    }
    let commits = loaded.commits.as_deref().unwrap_or_default();
    match commits.iter().find(|commit| commit.version == proposed.version) {
        Some(commit) if commit.file_name == proposed.file_name => Found::Own,
        _ => Found::Other,
    }
}

/// Creates a managed table, and looks up the outcome if the answer is lost or a repetition is
/// refused: only the creator of the staging table can have made a table with its identity.
pub async fn create_managed(
    catalog: &dyn Catalog,
    name: &TableName,
    table_id: &str,
    request: crate::api::CreateTable,
) -> Result<LoadedTable> {
    let mut pause = PAUSE;
    for attempt in 1.. {
        let error = match catalog.create_table(&name.catalog, &name.schema, request.clone()).await {
            Ok(loaded) => return Ok(loaded),
            Err(error) => error,
        };
        if let Ok(loaded) = catalog.load(name, None).await
            && loaded.metadata.table_uuid.eq_ignore_ascii_case(table_id)
        {
            return Ok(loaded);
        }
        if error.error_type.rules_out_change() || attempt >= ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
        pause *= 3;
    }
    Err(CatalogError::internal("the attempts of a creation ended"))
}
