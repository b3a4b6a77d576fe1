//! ALTER: one change of a table's metadata or protocol, planned on the newest version, reported or
//! committed. Each kind of change is a function from a draft to a draft; this file validates the
//! result as a whole.

mod clustered;
mod clustering;
mod columns;
mod constraints;
mod dependants;
mod draft;
mod drop_feature;
mod identity;
mod lengths;
mod live_files;
mod names;
mod properties;
mod protocol;
mod stats_columns;

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Protocol};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::features::{self, iceberg_compat, row_tracking};
use deltaplane_protocol::schema_changes::edit::Position;
use deltaplane_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Snapshot;
use crate::commands::feature_usage::RewriteFirst;
use crate::commands::row_id_backfill::{RowIds, number_files};
use crate::table_info::as_info;
use crate::table_schema::TableSchema;
use crate::transaction::{Staged, commit};
use crate::write::request::{CommitRequest, engine_info};
use draft::Draft;
use drop_feature::Drop;

/// Columns that are added at one position.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewColumns {
    /// The struct that gets them, the table itself when empty.
    #[serde(default)]
    pub into: String,
    /// The fields to add.
    pub fields: TableSchema,
    /// Where the first one goes; the others follow it.
    #[serde(default)]
    pub position: Option<Position>,
}

/// What to change.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// Sets properties; instructions about the protocol among them are followed (P096).
    SetProperties {
        /// Key → value.
        properties: BTreeMap<String, String>,
    },
    /// Removes properties.
    UnsetProperties {
        /// Their keys.
        keys: Vec<String>,
        /// Whether keys that aren't set are ignored.
        #[serde(default)]
        if_exists: bool,
    },
    /// Sets or removes the table's name.
    SetName {
        /// The name.
        name: Option<String>,
    },
    /// Sets or removes the table's description.
    SetDescription {
        /// The description.
        description: Option<String>,
    },
    /// Adds columns, or fields to existing structs, one after the other.
    AddColumns {
        /// Columns that are added together.
        columns: Vec<NewColumns>,
    },
    /// Replaces all columns: may add columns, drops none.
    ReplaceColumns {
        /// The new list of columns.
        fields: TableSchema,
    },
    /// Moves a column among its siblings.
    MoveColumn {
        /// Its path.
        column: String,
        /// Where to.
        position: Position,
    },
    /// Sets or removes a column's comment.
    SetComment {
        /// The column's path.
        column: String,
        /// The comment.
        comment: Option<String>,
    },
    /// Makes a column nullable.
    DropNotNull {
        /// The column's path.
        column: String,
    },
    /// Renames a column.
    RenameColumn {
        /// The column's path.
        column: String,
        /// The last part of its new path.
        to: String,
    },
    /// Drops columns.
    DropColumns {
        /// Their paths.
        columns: Vec<String>,
    },
    /// Changes a column, or a part of one, to a wider type.
    ChangeType {
        /// The column's path.
        column: String,
        /// The new type's name in a schema.
        to: String,
        /// For strings with a length, the type as Spark writes it: `varchar(10)`.
        #[serde(default)]
        lengths: Option<String>,
    },
    /// Sets keys of a column's metadata; null removes a key.
    SetColumnMetadata {
        /// The column's path.
        column: String,
        /// Key → value.
        metadata: Map<String, Value>,
    },
    /// Sets or removes the value that writers fill in for a missing column.
    SetDefault {
        /// The column's name.
        column: String,
        /// The value as a constant expression in Spark SQL.
        expression: Option<String>,
    },
    /// Makes several changes of columns in one commit, in this order.
    ChangeColumns {
        /// The changes, each of one existing column.
        changes: Vec<Change>,
    },
    /// Adds a CHECK constraint; the caller has checked the rows of version `seen`.
    AddConstraint {
        /// Its name.
        name: String,
        /// The condition in Spark SQL.
        expression: String,
        /// The version whose rows meet it; absent if they weren't checked.
        #[serde(default)]
        seen: Option<u64>,
        /// Further constraints of the same commit: name → condition.
        #[serde(default)]
        others: BTreeMap<String, String>,
    },
    /// Drops a CHECK constraint.
    DropConstraint {
        /// Its name.
        name: String,
        /// Whether a missing constraint is ignored.
        #[serde(default)]
        if_exists: bool,
    },
    /// Moves the high-water mark of an identity column beyond the values of existing rows.
    SyncIdentity {
        /// The column's name.
        column: String,
        /// The extreme value in version `seen`, in the direction of the column's steps.
        #[serde(default)]
        furthest: Option<i64>,
        /// The version whose rows were read; absent if none was.
        #[serde(default)]
        seen: Option<u64>,
    },
    /// Clusters the table by these columns from now on.
    ClusterBy {
        /// Their paths; empty to end clustering.
        columns: Vec<String>,
    },
    /// Supports features without using them.
    AddFeatures {
        /// Their names.
        features: Vec<String>,
        /// Whether the protocol may go to the versions that list features.
        #[serde(default)]
        allow_protocol_versions_increase: bool,
    },
    /// Drops a feature, where that is safe.
    DropFeature {
        /// Its name.
        feature: String,
        /// Whether history that needs it is deleted instead of kept behind protected checkpoints.
        #[serde(default)]
        truncate_history: bool,
        /// The version at which a purge found nothing left to do; in a dry run, the version that
        /// the purge would make.
        #[serde(default)]
        rewritten: Option<u64>,
    },
    /// Supports all features that these protocol versions imply.
    UpgradeProtocol {
        /// Reader version.
        reader: i32,
        /// Writer version.
        writer: i32,
    },
}

/// A change and the settings of its commit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlterRequest {
    /// What to change.
    pub change: Change,
    /// Only plan.
    #[serde(default)]
    pub dry_run: bool,
    /// Commit a change that changes nothing, too, as most of delta-spark's statements do.
    #[serde(default)]
    pub always: bool,
    /// The settings of the commit, without applications' versions and clean-up.
    #[serde(default)]
    pub commit: CommitRequest,
}

/// What a change did or would do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename = "AlterResult")]
pub struct Altered {
    /// The version committed; `None` when it was only planned or there was nothing to change.
    pub version: Option<u64>,
    /// Whether anything changed.
    pub changed: bool,
    /// The operation's name in the history.
    pub operation: String,
    /// The protocol before.
    #[serde(serialize_with = "as_info")]
    pub before: Protocol,
    /// The protocol after.
    #[serde(serialize_with = "as_info")]
    pub after: Protocol,
}

/// Plans a change on the newest version and, unless it is a dry run, commits it: in one commit, or
/// in several if files get row ids first or a feature is dropped.
///
/// Errors: `InvalidArgument` for a change that the table can't have, `UnsupportedFeature` for one
/// whose feature this build doesn't support and for settings that no such commit has, a conflict
/// kind if another writer changed the metadata first.
pub async fn alter(store: &Store, request: &AlterRequest) -> Result<Altered> {
    let done = alter_newest(store, request).await;
    done.map_err(|e| e.with_table(store.location().as_str()))
}

impl Snapshot {
    /// How live files have to be rewritten before a feature can be dropped (P098); `None` where
    /// they can stay.
    ///
    /// Errors: those of the drop, where it isn't legal.
    pub async fn rewrite_before_drop(&self, feature: &str) -> Result<Option<RewriteFirst>> {
        let rewrite = drop_feature::rewrite_first(self, feature).await;
        rewrite.map_err(|e| e.with_table(self.store().location().as_str()))
    }
}

async fn alter_newest(store: &Store, request: &AlterRequest) -> Result<Altered> {
    check_settings(&request.commit)?;
    let mut base = match &request.change {
        // The rows that were checked are those of one version; rows added since are a conflict.
        Change::AddConstraint { seen: Some(v), .. } | Change::SyncIdentity { seen: Some(v), .. } => {
            Snapshot::open(store, Some(*v)).await?
        }
        _ => Snapshot::open(store, None).await?,
    };
    if let Change::DropFeature {
        feature,
        truncate_history,
        rewritten,
    } = &request.change
    {
        let drop = Drop {
            store,
            feature,
            truncate_history: *truncate_history,
            rewritten: *rewritten,
            dry_run: request.dry_run,
            settings: with_settings(Staged::default(), &request.commit),
        };
        return drop.run(base).await;
    }
    let mut planned = plan(&base, &request.change, &request.commit).await?;
    let before = base.state().protocol().clone();
    let mut done = Altered {
        version: None,
        changed: planned.metadata.is_some() || planned.protocol.is_some() || !planned.domains.is_empty(),
        operation: planned.operation.name.clone(),
        after: planned.protocol.clone().unwrap_or_else(|| before.clone()),
        before,
    };
    if (done.changed || (request.always && !makes_no_version(&request.change))) && !request.dry_run {
        if begins_row_tracking(&base, &planned) {
            let settings = with_settings(Staged::default(), &request.commit);
            base = number_files(store, base, &settings, RowIds::Assigned).await?;
            planned = plan(&base, &request.change, &request.commit).await?;
        }
        let staged = with_settings(planned, &request.commit);
        done.version = Some(commit(store, Some(base), &staged).await?.version);
    }
    Ok(done)
}

/// Whether delta-spark commits nothing either if this change changes nothing: the type that a
/// column has, and the end of a clustering that isn't there.
fn makes_no_version(change: &Change) -> bool {
    match change {
        Change::ChangeType { .. } => true,
        Change::ClusterBy { columns } => columns.is_empty(),
        Change::ChangeColumns { changes } => changes.iter().all(makes_no_version),
        _ => false,
    }
}

/// The commit that a change of this version makes.
async fn plan(base: &Snapshot, change: &Change, settings: &CommitRequest) -> Result<Staged> {
    base.state().check_write()?;
    let mut draft = Draft::new(base.state(), domains_of(base).await?, settings);
    apply(&mut draft, change)?;
    lengths::check_notes(base.state().schema(), &draft.schema)?;
    let mut planned = draft.finish()?;
    if let Some(metadata) = &planned.metadata
        && let Some(version) = iceberg_compat::switched_on(base.state().metadata(), metadata)
    {
        live_files::check_for_iceberg(base, &version).await?;
        // A file that another writer adds meanwhile wouldn't have been checked.
        planned.read = ReadSet::Table;
    }
    Ok(planned)
}

async fn domains_of(base: &Snapshot) -> Result<Vec<DomainMetadata>> {
    match features::needs_domains(base.state().protocol()) {
        true => base.domains().await,
        false => Ok(Vec::new()),
    }
}

/// Whether files must get row ids before this change of the metadata.
fn begins_row_tracking(base: &Snapshot, planned: &Staged) -> bool {
    let after = planned.metadata.as_ref();
    after.is_some_and(|m| row_tracking::begins(base.state().metadata(), m))
}

fn apply(draft: &mut Draft<'_>, change: &Change) -> Result<()> {
    match change {
        Change::SetProperties { properties } => properties::set(draft, properties),
        Change::UnsetProperties { keys, if_exists } => properties::unset(draft, keys, *if_exists),
        Change::SetName { name } => names::set_name(draft, name.clone()),
        Change::SetDescription { description } => names::set_description(draft, description.clone()),
        Change::AddColumns { columns } => columns::add(draft, columns),
        Change::ReplaceColumns { fields } => columns::replace(draft, &fields.0),
        Change::MoveColumn { column, position } => columns::reposition(draft, column, position),
        Change::SetComment { column, comment } => columns::set_comment(draft, column, comment.as_deref()),
        Change::DropNotNull { column } => columns::drop_not_null(draft, column),
        Change::RenameColumn { column, to } => columns::rename(draft, column, to),
        Change::DropColumns { columns } => columns::drop(draft, columns),
        Change::ChangeType { column, to, lengths } => columns::change_type(draft, column, to, lengths.as_deref()),
        Change::SetColumnMetadata { column, metadata } => columns::set_metadata(draft, column, metadata),
        Change::SetDefault { column, expression } => columns::set_default(draft, column, expression.as_deref()),
        Change::ChangeColumns { changes } => several(draft, changes),
        Change::AddConstraint {
            name,
            expression,
            others,
            ..
        } => {
            for (other, condition) in others {
                constraints::add(draft, other, condition)?;
            }
            constraints::add(draft, name, expression)
        }
        Change::DropConstraint { name, if_exists } => constraints::drop(draft, name, *if_exists),
        Change::SyncIdentity { column, furthest, .. } => identity::sync(draft, column, *furthest),
        Change::ClusterBy { columns } => clustering::set(draft, columns),
        Change::AddFeatures {
            features,
            allow_protocol_versions_increase,
        } => protocol::add_features(draft, features, *allow_protocol_versions_increase),
        Change::DropFeature { .. } => Err(Error::internal(
            "dropping a feature is more than one change of the metadata",
        )),
        Change::UpgradeProtocol { reader, writer } => protocol::upgrade(draft, *reader, *writer),
    }
}

/// Several changes of columns as one, with delta-spark's name in the history: that of a single
/// change if all of them are of one column.
fn several(draft: &mut Draft<'_>, changes: &[Change]) -> Result<()> {
    not_empty(changes, "change")?;
    let mut said = Vec::with_capacity(changes.len());
    let mut position = None;
    for change in changes {
        apply(draft, change)?;
        if draft.operation.name != columns::CHANGED {
            return Err(Error::invalid_argument(format!(
                "{} stands in a statement of its own: it can't be one of several changes of columns",
                draft.operation.name
            )));
        }
        said.push(columns::column_facts(&draft.operation.parameters));
        position = draft.operation.parameters.get("position").cloned().or(position);
    }
    let mut names = said.iter().map(|facts| facts.get("name"));
    let first = names.next();
    if names.all(|name| Some(name) == first) {
        // The last change describes the column as all of them leave it.
        let place = position.map(|p| ("position".to_owned(), p));
        draft.operation.parameters.extend(place);
        return Ok(());
    }
    draft.says("CHANGE COLUMNS", [("columns", json!(Value::Array(said).to_string()))]);
    Ok(())
}

/// Refuses settings that a commit of metadata doesn't have.
fn check_settings(commit: &CommitRequest) -> Result<()> {
    let refused = match commit {
        CommitRequest { txn, .. } if !txn.is_empty() => {
            "a change of the table carries no application's version: leave it out"
        }
        CommitRequest {
            cleanup: Some(true), ..
        } => "a change of the table leaves old log files alone: leave clean-up to a write",
        _ => return Ok(()),
    };
    Err(Error::unsupported_feature(refused))
}

fn with_settings(planned: Staged, settings: &CommitRequest) -> Staged {
    Staged {
        user_metadata: settings.user_metadata.clone(),
        extra_info: settings.commit_info.clone(),
        engine_info: engine_info(settings.engine_info.as_deref()),
        skip_checkpoint: settings.checkpoint == Some(false),
        max_attempts: settings.max_commit_retries.map(|n| n.saturating_add(1)),
        as_delta_rs: settings.delta_rs.is_some(),
        ..planned
    }
}

/// Refuses an empty list, whose commit would have no effect.
fn not_empty<T>(items: &[T], what: &str) -> Result<()> {
    if items.is_empty() {
        return Err(Error::invalid_argument(format!(
            "no {what} is given: name at least one"
        )));
    }
    Ok(())
}
