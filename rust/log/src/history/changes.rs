//! The change data feed: which files have the rows that a range of versions changed (P131–P134),
//! and whether changes were recorded in the whole range. Reads the range's commits, no rows.

use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, Metadata};
use deltaplane_protocol::changes::{self, FileChange};
use deltaplane_protocol::features::{View, change_data_feed, in_commit_timestamp};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::segment::monotone_times;
use deltaplane_store::Store;

use crate::commit::reader;
use crate::commit::reader::Commit;
use crate::history::commits;
use crate::listing::list_from;
use crate::snapshot::Snapshot;

/// Changed rows of one file, and the commit that changed them.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedChange {
    /// The commit's version.
    pub version: u64,
    /// Its time, ms since the epoch (P132).
    pub timestamp_ms: i64,
    /// The rows.
    pub file: FileChange,
}

/// The first and the last version within a range of times; `None` if there is none.
///
/// The range begins with the first version at or after `from_ms` and ends with the last one at or
/// before `until_ms`; without a bound it goes on to the oldest or newest version of the log.
pub async fn versions_between(
    latest: &Snapshot,
    from_ms: Option<i64>,
    until_ms: Option<i64>,
) -> Result<Option<(u64, u64)>> {
    let within = |t: i64| from_ms.is_none_or(|from| t >= from) && until_ms.is_none_or(|until| t <= until);
    // Newest first.
    let entries = latest.history(None).await?;
    let mut versions = entries.iter().filter(|e| within(e.timestamp_ms)).map(|e| e.version);
    let Some(last) = versions.next() else {
        return Ok(None);
    };
    Ok(Some((versions.next_back().unwrap_or(last), last)))
}

impl Snapshot {
    /// The changes of the versions from `first` up to this one, oldest first, for display with this
    /// version's columns.
    ///
    /// # Errors
    /// `VersionNotFound` for a range that the log doesn't have, `InvalidArgument` if the feed was
    /// off in the range, or if a column changed so that older rows can't be shown (P132).
    pub async fn changes(&self, first: u64) -> Result<Vec<CommittedChange>> {
        let all_changes = self.changes_between(first, self.version()).await;
        all_changes.map_err(|e| e.with_table(self.store().location().as_str()))
    }

    /// As `changes`, up to another version.
    pub(crate) async fn changes_between(&self, first: u64, last: u64) -> Result<Vec<CommittedChange>> {
        let names = commits(list_from(self.store(), 0).await?);
        let times: Vec<(u64, i64)> = monotone_times(&names);
        let range = first..=last;
        let wanted: Vec<_> = names.into_iter().filter(|n| range.contains(&n.version)).collect();
        let expected = usize::try_from((last + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        if wanted.len() != expected {
            let oldest = wanted.first().map_or(last, |n| n.version);
            return Err(Error::version_not_found(format!(
                "the changes since version {first} aren't all there: log cleanup removed commits before version {oldest}; begin the range with a later version"
            ))
            .with_version(first));
        }
        let read = reader::read(self.store(), &wanted).await?;
        let Some(oldest) = wanted.first() else {
            return Ok(Vec::new());
        };
        let metadata = metadata_at(self.store(), oldest.version).await?;
        Ok(self.changes_of(&read, metadata, &times)?.0)
    }

    /// The changes of consecutive commits, and the metadata after them. `metadata` is that after
    /// the first one; `times` are the times of the log's files, by ascending version.
    pub(crate) fn changes_of(
        &self,
        read: &[Arc<Commit>],
        mut metadata: Metadata,
        times: &[(u64, i64)],
    ) -> Result<(Vec<CommittedChange>, Metadata)> {
        self.check_one_mapping(&metadata, read)?;
        let partitioned = !self.state().partition_columns().is_empty();
        let mut committed = Vec::new();
        for commit in read {
            let version = commit.version();
            if let Some(new) = metadata_in(commit) {
                metadata = new.clone();
            }
            self.check_recorded(&metadata, version)?;
            let position = times.binary_search_by_key(&version, |(v, _)| *v).ok();
            let file_time = position.and_then(|index| times.get(index)).map_or(0, |(_, time)| *time);
            let timestamp_ms = time_of(commit, &metadata, file_time)?;
            let changes = changes::of_commit(&commit.actions()?, partitioned).map_err(|e| e.with_version(version))?;
            committed.extend(changes.into_iter().map(|file| CommittedChange {
                version,
                timestamp_ms,
                file,
            }));
        }
        Ok((committed, metadata))
    }

    /// Checks that column names in files mean the same in all of these commits; `first` is the
    /// metadata after the first one.
    fn check_one_mapping(&self, first: &Metadata, commits: &[Arc<Commit>]) -> Result<()> {
        let mut before = first;
        for commit in commits {
            if let Some(new) = metadata_in(commit) {
                self.check_names(before, Mapping::of(&new.configuration)?, commit.version())?;
                before = new;
            }
        }
        self.check_names(before, self.state().mapping(), self.version())
    }

    /// Checks that column names in files mean the same after a version's change of the metadata.
    fn check_names(&self, before: &Metadata, after: Mapping, version: u64) -> Result<()> {
        let schema = StructType::from_json(before.schema_string.as_deref().unwrap_or_default())?;
        let view = View {
            metadata: before,
            schema: &schema,
        };
        match changes::names_ended(view, after) {
            None => Ok(()),
            Some(why) => Err(Error::new(
                Kind::SchemaMismatch,
                format!(
                    "changes before version {version} can't be shown with the columns of version {}: {why}; end the range before version {version}, and begin another one with it",
                    self.version()
                ),
            )
            .with_version(version)),
        }
    }

    /// Checks that changes were recorded in this version, and can be shown with the columns of this
    /// snapshot.
    fn check_recorded(&self, metadata: &Metadata, version: u64) -> Result<()> {
        if !change_data_feed::is_on(metadata) {
            return Err(Error::invalid_argument(format!(
                "the change data feed was off (delta.enableChangeDataFeed) in version {version}, so what it changed wasn't recorded: choose a range of versions in which it was on"
            ))
            .with_version(version));
        }
        let old = StructType::from_json(metadata.schema_string.as_deref().unwrap_or_default())?;
        match changes::incompatibility(&old, self.schema(), self.state().mapping()) {
            None => Ok(()),
            Some(why) => Err(Error::new(
                Kind::SchemaMismatch,
                format!(
                    "changes of version {version} can't be shown with the columns of version {}: {why}; end the range before the columns changed, and begin another one after it",
                    self.version()
                ),
            )
            .with_version(version)),
        }
    }
}

pub(crate) async fn metadata_at(store: &Store, version: u64) -> Result<Metadata> {
    Ok(Snapshot::open(store, Some(version)).await?.state().metadata().clone())
}

/// The metadata that a commit sets, if it does.
pub(crate) fn metadata_in(commit: &Commit) -> Option<&Metadata> {
    commit.state.iter().find_map(|action| match action {
        Action::Metadata(metadata) => Some(metadata),
        _ => None,
    })
}

/// The in-commit timestamp where it is required (P082, P085), otherwise the file's time.
fn time_of(commit: &Commit, metadata: &Metadata, file_time: i64) -> Result<i64> {
    let version = commit.version();
    match in_commit_timestamp::enabled_from(metadata) {
        Some(from) if from <= version => commit.own_time_ms(),
        _ => Ok(file_time),
    }
}
