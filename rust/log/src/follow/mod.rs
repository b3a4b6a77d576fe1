//! Follows a table: where a reader starts, how far it gets in one batch, and which files have the
//! rows between two offsets. Reads the commits between them, and for a starting version its file
//! list, but no rows.

pub(crate) mod ahead;
pub(crate) mod columns;
pub(crate) mod offset;
pub(crate) mod starting_files;

use std::sync::{Arc, Mutex};

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, Add, Metadata};
use deltaplane_protocol::changes::{self, FileChange};
use deltaplane_protocol::features::View;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::segment::{LogName, monotone_times};
use deltaplane_protocol::state::TableState;
use deltaplane_protocol::tail::{TailRules, new_files};
use deltaplane_store::Store;
use futures::lock::Mutex as AsyncMutex;
use regex::Regex;
use serde::Deserialize;

use crate::commit::reader::Commit;
use crate::committer::authority;
use crate::follow::ahead::{Ahead, Passed};
use crate::follow::columns::TrackedColumns;
use crate::follow::offset::{TailLimits, TailOffset, Taken, place};
use crate::follow::starting_files::{SnapshotFiles, slim};
use crate::history::changes::{CommittedChange, metadata_at, metadata_in};
use crate::history::{commits, moment, version_at};
use crate::listing::list_from;
use crate::snapshot::Snapshot;

/// Options of a follower.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TailRequest {
    /// Skips commits that only delete.
    pub ignore_deletes: bool,
    /// Returns every row of files that commits add when they change rows, changed or not.
    pub ignore_changes: bool,
    /// Skips commits that delete or change rows.
    pub skip_change_commits: bool,
    /// Ignores files whose path matches this regular expression.
    pub exclude: Option<String>,
    /// Skips commits that log clean-up deleted before they were read.
    pub allow_data_loss: bool,
    /// Waits for a start in the future.
    pub waits_for_start: bool,
    /// Returns changes of rows from the change data feed instead of new rows.
    pub changes: bool,
    /// Shows rows with these columns, and stops before a commit that changes them.
    pub columns: Option<TrackedColumns>,
}

impl TailRequest {
    /// How commits other than appends are treated.
    fn rules(&self) -> TailRules {
        TailRules {
            ignore_deletes: self.ignore_deletes,
            ignore_changes: self.ignore_changes,
            skip_change_commits: self.skip_change_commits,
        }
    }
}

/// Where a follower starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "StartFields")]
pub enum TailStart {
    /// With all rows of the newest version.
    Snapshot,
    /// After the newest version.
    Latest,
    /// After this version, which may be the newest one.
    After(u64),
    /// With the rows that this version added.
    Version(u64),
    /// With the first version at or after this time in ms.
    Timestamp(i64),
}

/// A start as its user writes it: the first that is given counts.
#[derive(Default, Deserialize)]
#[serde(rename = "TailStart", default)]
struct StartFields {
    after: Option<u64>,
    version: Option<u64>,
    timestamp_ms: Option<i64>,
    latest: bool,
}

impl From<StartFields> for TailStart {
    fn from(fields: StartFields) -> Self {
        match (fields.after, fields.version, fields.timestamp_ms) {
            (Some(version), _, _) => TailStart::After(version),
            (None, Some(version), _) => TailStart::Version(version),
            (None, None, Some(ms)) => TailStart::Timestamp(ms),
            (None, None, None) if fields.latest => TailStart::Latest,
            (None, None, None) => TailStart::Snapshot,
        }
    }
}

/// A followed table, with the columns of its opening or of the request.
pub struct Tail {
    store: Store,
    reading: Snapshot,
    newest: Mutex<Snapshot>,
    starting: Mutex<Option<Arc<SnapshotFiles>>>,
    ahead: AsyncMutex<Ahead>,
    passed: AsyncMutex<Passed>,
    exclude: Option<Regex>,
    request: TailRequest,
}

impl Tail {
    /// Opens a table to follow it.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid regular expression; the errors of opening the table.
    pub async fn open(store: &Store, request: TailRequest) -> Result<Self> {
        let exclude = request.exclude.as_deref().map(Regex::new).transpose();
        let exclude =
            exclude.map_err(|e| Error::invalid_argument(format!("excludeRegex is no regular expression: {e}")))?;
        let newest = Snapshot::open(store, None).await?;
        let reading = match &request.columns {
            None => newest.clone(),
            Some(previous) if previous.metadata.id != newest.state().metadata().id => return Err(replaced()),
            Some(previous) => newest.showing(TableState::new(
                previous.protocol.clone(),
                previous.metadata.clone(),
                authority(store),
            )?),
        };
        Ok(Tail {
            store: store.clone(),
            newest: Mutex::new(newest),
            reading,
            starting: Mutex::new(None),
            ahead: AsyncMutex::default(),
            passed: AsyncMutex::default(),
            exclude,
            request,
        })
    }

    /// The version whose columns rows are shown with.
    pub fn reading(&self) -> &Snapshot {
        &self.reading
    }

    /// Whether it returns changes of rows.
    pub fn tells_changes(&self) -> bool {
        self.request.changes
    }

    /// The newest version of the table now.
    pub async fn newest(&self) -> Result<Snapshot> {
        let known = self.newest.lock().map_err(broken)?.clone();
        let newest = known.update_by_next().await?;
        if newest.state().metadata().id != self.table_id() {
            return Err(replaced().with_table(self.table()));
        }
        *self.newest.lock().map_err(broken)? = newest.clone();
        Ok(newest)
    }

    /// The first offset.
    ///
    /// # Errors
    /// `VersionNotFound` for a start that doesn't exist yet, or no longer.
    pub async fn start(&self, from: TailStart) -> Result<TailOffset> {
        self.find_start(from).await.map_err(|e| e.with_table(self.table()))
    }

    async fn find_start(&self, from: TailStart) -> Result<TailOffset> {
        let known = self.newest().await?;
        let newest = known.version();
        let offset_at = |version: u64, whole: bool| TailOffset {
            table_id: self.table_id().to_owned(),
            version,
            index: 0,
            is_starting_version: whole,
            after: None,
        };
        let version = match from {
            TailStart::Snapshot => return Ok(offset_at(newest, true)),
            TailStart::Latest => return Ok(offset_at(newest + 1, false)),
            TailStart::After(version) if version == newest => return Ok(offset_at(newest + 1, false)),
            TailStart::After(version) => version.saturating_add(1),
            TailStart::Version(version) => version,
            TailStart::Timestamp(ms) => match version_at(&self.store, ms.saturating_sub(1)).await {
                Ok(before) => before + 1,
                Err(e) if e.kind() == Kind::VersionNotFound => commits(list_from(&self.store, 0).await?)
                    .first()
                    .map_or(0, |c| c.version),
                Err(e) => return Err(e),
            },
        };
        if version > newest {
            if self.request.waits_for_start {
                return Ok(offset_at(version, false));
            }
            if let TailStart::Timestamp(ms) = from {
                let committed = known.timestamp_ms().await?.unwrap_or_default();
                return Err(Error::version_not_found(format!(
                    "{} is after the newest commit: version {newest} was committed at {}; start with the latest, or with a time at or before it",
                    moment(ms),
                    moment(committed)
                )));
            }
            return Err(Error::version_not_found(format!(
                "there is no version to start with yet: the newest one is {newest}; start with it, or with the latest"
            ))
            .with_version(version));
        }
        let first = self
            .commit_names_or(version, newest + 1, "the version to start with is gone")
            .await?;
        Ok(offset_at(first.first().map_or(version, |c| c.version), false))
    }

    /// The offset at which a batch ends that starts at `start` and goes up to version `until` or
    /// the newest one. Equals `start` if nothing is new.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a commit that isn't an append, unless the request's rules cover it;
    /// `SchemaMismatch` if the table's columns changed; `VersionNotFound` for missing commits;
    /// `TableNotFound` for a table that is gone or was replaced by another one.
    pub async fn end(&self, start: &TailOffset, limits: TailLimits, until: Option<u64>) -> Result<TailOffset> {
        let end = self.find_end(start, limits, until).await;
        end.map_err(|e| e.with_table(self.table()))
    }

    async fn find_end(&self, start: &TailOffset, limits: TailLimits, until: Option<u64>) -> Result<TailOffset> {
        self.check_table(start)?;
        let before = |end: u64| until.map_or(end, |until| end.min(until.saturating_add(1)));
        let mut taken = Taken::default();
        let mut offset = start.clone();
        if offset.is_starting_version {
            self.newest().await?;
            offset = self.end_in_snapshot(offset, limits, &mut taken).await?;
            if offset.is_starting_version {
                return Ok(offset);
            }
            taken.version();
        }
        // Commits that are known to follow are taken before the newest version is asked for.
        let mut end = before(self.ahead.lock().await.end_from(offset.version));
        let mut is_newest = false;
        while !taken.ends(limits) {
            if offset.version >= end && !is_newest {
                let newest_end = self.newest().await?.version() + 1;
                if offset.version > newest_end {
                    return Ok(offset);
                }
                (end, is_newest) = (before(newest_end), true);
                if offset.version >= end && !self.has_no_news(&offset, end) {
                    self.commit_names(offset.version, end).await?;
                }
            }
            let Some(commit) = self.next_commit(offset.version, end).await? else {
                if is_newest {
                    break;
                } else {
                    end = offset.version;
                    continue;
                };
            };
            let version = commit.version();
            if self.changed(&commit)?.is_some() {
                return Ok(offset);
            }
            let sizes = self.sizes(&commit)?;
            let before = if version == offset.version { offset.index } else { 0 };
            for (index, size) in (0_u64..).zip(sizes) {
                if index < before {
                    continue;
                }
                // Changes of one commit stay together in one batch.
                if taken.fills(limits) && !self.request.changes {
                    return Ok(TailOffset {
                        version,
                        index,
                        ..offset
                    });
                }
                taken.file(size);
            }
            taken.version();
            offset = offset.behind(version);
        }
        Ok(offset)
    }

    /// The first commit from a version on and before `end`, if there is one.
    async fn next_commit(&self, version: u64, end: u64) -> Result<Option<Arc<Commit>>> {
        if version >= end {
            return Ok(None);
        }
        let mut ahead = self.ahead.lock().await;
        if let Some(known) = ahead.in_memory(version) {
            return Ok(Some(known));
        }
        if !ahead.continues_at(version) {
            let names = self.commit_names(version, end).await?;
            ahead.list(&self.store, names);
        }
        ahead.read_next().await
    }

    /// Whether an offset is at the end of the log, which then isn't listed. A listing would show
    /// that the table was deleted: on a local disk it costs no request.
    fn has_no_news(&self, offset: &TailOffset, end: u64) -> bool {
        offset.version >= end && !self.store.is_local()
    }

    async fn end_in_snapshot(&self, offset: TailOffset, limits: TailLimits, taken: &mut Taken) -> Result<TailOffset> {
        let files = self.starting(offset.version).await?;
        if limits.files.is_none() && limits.bytes.is_none() {
            return Ok(offset.behind(offset.version));
        }
        let mut offset = offset;
        loop {
            let (next, to_the_end) = files.behind(offset.after.as_ref()).await?;
            for add in next {
                if taken.fills(limits) {
                    return Ok(offset);
                }
                if self.wants(&add) {
                    taken.file(add.size);
                }
                offset = offset.behind_files(1, place(&add));
            }
            if to_the_end {
                return Ok(offset.behind(offset.version));
            }
        }
    }

    /// The columns of the next rows, for a reader that fixes its columns and has reached a commit
    /// that changes them. Consecutive commits that change nothing else are taken together.
    ///
    /// # Errors
    /// As [`Tail::end`].
    pub async fn next_columns(&self, offset: &TailOffset) -> Result<Option<TrackedColumns>> {
        let next = self.find_next_columns(offset).await;
        next.map_err(|e| e.with_table(self.table()))
    }

    async fn find_next_columns(&self, offset: &TailOffset) -> Result<Option<TrackedColumns>> {
        self.check_table(offset)?;
        if offset.is_starting_version {
            return Ok(None);
        }
        let end = self.newest().await?.version() + 1;
        if offset.version > end || self.has_no_news(offset, end) {
            return Ok(None);
        }
        let mut columns: Option<TrackedColumns> = None;
        let mut version = offset.version;
        while let Some(commit) = self.next_commit(version, end).await? {
            version = commit.version() + 1;
            let next = match &columns {
                None => self.changed(&commit)?,
                Some(columns) => columns.after(&commit)?,
            };
            let Some(next) = next else { break };
            columns = Some(next);
            let is_file = |a: &Action| matches!(a, Action::Add(_) | Action::Remove(_) | Action::Cdc(_));
            if commit.actions()?.iter().any(is_file) {
                break;
            }
        }
        Ok(columns)
    }

    /// The columns at an offset, or of the newest version if nothing was read yet.
    ///
    /// # Errors
    /// `VersionNotFound` if log clean-up deleted the needed commits.
    pub async fn columns_at(&self, offset: &TailOffset) -> Result<TrackedColumns> {
        let columns = self.find_columns_at(offset).await;
        columns.map_err(|e| e.with_table(self.table()))
    }

    async fn find_columns_at(&self, offset: &TailOffset) -> Result<TrackedColumns> {
        self.check_table(offset)?;
        let newest = self.newest().await?;
        let snapshot = match offset.version < newest.version() {
            true => Snapshot::open(&self.store, Some(offset.version)).await?,
            false => newest,
        };
        Ok(TrackedColumns::of(snapshot.version(), snapshot.state()))
    }

    /// The columns after a commit, if it changes those of this reader.
    fn changed(&self, commit: &Commit) -> Result<Option<TrackedColumns>> {
        match &self.request.columns {
            Some(previous) if commit.version() > previous.version => previous.after(commit),
            _ => Ok(None),
        }
    }

    /// The files whose rows are new between two offsets.
    ///
    /// # Errors
    /// As [`Tail::end`].
    pub async fn files(&self, start: &TailOffset, end: &TailOffset) -> Result<Vec<Add>> {
        let files = self.find_files(start, end).await;
        files.map_err(|e| e.with_table(self.table()))
    }

    async fn find_files(&self, start: &TailOffset, end: &TailOffset) -> Result<Vec<Add>> {
        self.check_table(start)?;
        self.check_table(end)?;
        let mut files = self.snapshot_files(start, end).await?;
        let mut version = start.first_commit();
        while let Some(commit) = self.next_commit(version, end.commits_end()).await? {
            version = commit.version() + 1;
            let index = |index_in: &TailOffset, other: u64| match index_in.version == commit.version()
                && !index_in.is_starting_version
            {
                true => index_in.index,
                false => other,
            };
            let range = index(start, 0)..index(end, u64::MAX);
            let actions = commit.actions().map_err(|e| e.with_version(commit.version()))?;
            let new = (0_u64..).zip(self.new_files(&commit, &actions)?);
            files.extend(
                new.filter(|(file_index, _)| range.contains(file_index))
                    .map(|(_, add)| slim(add.clone())),
            );
        }
        Ok(files)
    }

    async fn snapshot_files(&self, start: &TailOffset, end: &TailOffset) -> Result<Vec<Add>> {
        if !start.is_starting_version {
            return Ok(Vec::new());
        }
        let files = self.starting(start.version).await?;
        let until = end.after.as_ref().filter(|_| end.is_starting_version);
        if end.is_starting_version && until.is_none() {
            return Ok(Vec::new());
        }
        let mut adds = files.between(start.after.as_ref(), until).await?;
        adds.retain(|add| self.wants(add));
        Ok(adds)
    }

    /// Changes of rows between two offsets; all rows of a starting version count as inserted.
    ///
    /// # Errors
    /// As [`Tail::end`]; `InvalidArgument` if changes weren't recorded.
    pub async fn changes(&self, start: &TailOffset, end: &TailOffset) -> Result<Vec<CommittedChange>> {
        let all_changes = self.find_changes(start, end).await;
        all_changes.map_err(|e| e.with_table(self.table()))
    }

    async fn find_changes(&self, start: &TailOffset, end: &TailOffset) -> Result<Vec<CommittedChange>> {
        self.check_table(start)?;
        self.check_table(end)?;
        let mut changes = Vec::new();
        if start.is_starting_version {
            let snapshot = &self.starting(start.version).await?.snapshot;
            let timestamp_ms = snapshot.timestamp_ms().await?.unwrap_or_default();
            let inserted = |add: Add| -> Result<CommittedChange> {
                Ok(CommittedChange {
                    version: start.version,
                    timestamp_ms,
                    file: FileChange::inserted(&add)?,
                })
            };
            let files = self.snapshot_files(start, end).await?;
            changes = files.into_iter().map(inserted).collect::<Result<_>>()?;
        }
        let mut commits = Vec::new();
        let mut version = start.first_commit();
        while let Some(commit) = self.next_commit(version, end.commits_end()).await? {
            version = commit.version() + 1;
            commits.push(commit);
        }
        let recorded = self.recorded_changes(&commits).await?;
        changes.extend(recorded.into_iter().filter(|c| self.wants_path(&c.file.path)));
        Ok(changes)
    }

    /// The changes that consecutive commits recorded. What the log before them tells is kept for
    /// the commits that follow.
    async fn recorded_changes(&self, read: &[Arc<Commit>]) -> Result<Vec<CommittedChange>> {
        let (Some(first), Some(last)) = (read.first(), read.last()) else {
            return Ok(Vec::new());
        };
        let mut passed = self.passed.lock().await;
        if passed.times.last().is_none_or(|(version, _)| *version < last.version()) {
            passed.times = monotone_times(&commits(list_from(&self.store, 0).await?));
        }
        let metadata = match (metadata_in(first), passed.metadata_before(first.version())) {
            (Some(changed), _) => changed.clone(),
            (None, Some(known)) => known.clone(),
            (None, None) => metadata_at(&self.store, first.version()).await?,
        };
        let (changes, after) = self.reading.changes_of(read, metadata.clone(), &passed.times)?;
        passed.metadata = [(first.version(), metadata), (last.version() + 1, after)].into();
        Ok(changes)
    }

    /// The files of the version that a follower starts with.
    async fn starting(&self, version: u64) -> Result<Arc<SnapshotFiles>> {
        let known = self.starting.lock().map_err(broken)?.clone();
        if let Some(known) = known.filter(|k| k.snapshot.version() == version) {
            return Ok(known);
        }
        let snapshot = match self.reading.version() == version && self.request.columns.is_none() {
            true => self.reading.clone(),
            false => Snapshot::open(&self.store, Some(version)).await?,
        };
        self.check_columns(snapshot.state().metadata(), version)?;
        let opened = Arc::new(SnapshotFiles::new(snapshot));
        *self.starting.lock().map_err(broken)? = Some(opened.clone());
        Ok(opened)
    }

    /// The commits' files; missing ones are an error, or are skipped if that is allowed.
    async fn commit_names(&self, first: u64, end: u64) -> Result<Vec<LogName>> {
        let gone = format!("commits from version {first} on, which weren't read yet, are gone");
        self.commit_names_or(first, end, &gone).await
    }

    async fn commit_names_or(&self, first: u64, end: u64, gone: &str) -> Result<Vec<LogName>> {
        // The previous commit is listed too: if even that is missing, the table is gone.
        let listed = list_from(&self.store, first.saturating_sub(1)).await?;
        if listed.is_empty() {
            return Err(Error::table_not_found(format!(
                "the log has nothing of version {} and later any more: the table that was followed was deleted or created again; start again with another checkpoint location",
                first.saturating_sub(1)
            )));
        }
        let mut names = commits(listed);
        names.retain(|n| (first..end).contains(&n.version));
        let oldest = names.first().map_or(end, |n| n.version);
        if oldest > first && !self.request.allow_data_loss {
            return Err(Error::version_not_found(format!(
                "{gone}: log cleanup removed those before version {oldest}; start again, or set failOnDataLoss to false to go on without their rows"
            ))
            .with_version(first));
        }
        match (oldest..)
            .zip(&names)
            .find(|(expected, name)| *expected != name.version)
        {
            Some((missing, _)) => Err(Error::corrupt_log(format!(
                "the commit of version {missing} isn't there, between others that are: restore it from a backup"
            ))
            .with_version(missing)),
            None => Ok(names),
        }
    }

    /// Sizes of the files that a commit contributes.
    fn sizes(&self, commit: &Commit) -> Result<Vec<i64>> {
        let actions = commit.actions()?;
        if !self.request.changes {
            return Ok(self.new_files(commit, &actions)?.map(|add| add.size).collect());
        }
        self.check_commit(commit)?;
        let partitioned = !self.reading.state().partition_columns().is_empty();
        let committed = changes::of_commit(&actions, partitioned).map_err(|e| e.with_version(commit.version()))?;
        let wanted = committed.into_iter().filter(|change| self.wants_path(&change.path));
        Ok(wanted.map(|change| change.size).collect())
    }

    fn new_files<'a>(
        &'a self,
        commit: &Commit,
        actions: &'a [Action],
    ) -> Result<impl Iterator<Item = &'a Add> + use<'a>> {
        self.check_commit(commit)?;
        let new = new_files(actions, self.request.rules()).map_err(|e| e.with_version(commit.version()))?;
        Ok(new.into_iter().filter(|add| self.wants(add)))
    }

    fn wants(&self, add: &Add) -> bool {
        self.wants_path(&add.path)
    }

    fn wants_path(&self, path: &str) -> bool {
        self.exclude.as_ref().is_none_or(|pattern| !pattern.is_match(path))
    }

    fn check_commit(&self, commit: &Commit) -> Result<()> {
        metadata_in(commit).map_or(Ok(()), |metadata| self.check_columns(metadata, commit.version()))
    }

    /// Checks that a version has the columns that its rows are shown with.
    fn check_columns(&self, metadata: &Metadata, version: u64) -> Result<()> {
        if metadata.id != self.table_id() {
            return Err(replaced().with_version(version));
        }
        // The reader's columns are newer than the last version that it read with others.
        if self
            .request
            .columns
            .as_ref()
            .is_some_and(|columns| version <= columns.version)
        {
            return Ok(());
        }
        let there = StructType::from_json(metadata.schema_string.as_deref().unwrap_or_default())?;
        let (state, shown) = (self.reading.state(), self.reading.schema());
        let shown_of = self
            .request
            .columns
            .as_ref()
            .map_or(self.reading.version(), |c| c.version);
        let is_newer = version > shown_of;
        let mut why = changes::incompatibility(&there, shown, state.mapping());
        let ended = if is_newer {
            why = why.or_else(|| changes::incompatibility(shown, &there, state.mapping()));
            changes::names_ended(state.view(), Mapping::of(&metadata.configuration)?)
        } else {
            let view = View {
                metadata,
                schema: &there,
            };
            changes::names_ended(view, state.mapping())
        };
        why = why.or(ended);
        if metadata.partition_columns != state.partition_columns() {
            why = Some("other columns partition the table".to_owned());
        }
        let Some(why) = why else { return Ok(()) };
        let advice = match is_newer {
            true => "open the table, or define the stream, again to go on with the new ones",
            false => "start behind this version",
        };
        Err(Error::new(
            Kind::SchemaMismatch,
            format!(
                "the table's columns in version {version} aren't those of version {shown_of}, which rows are shown with ({why}): {advice}"
            ),
        )
        .with_version(version))
    }

    fn check_table(&self, offset: &TailOffset) -> Result<()> {
        match offset.table_id == self.table_id() {
            true => Ok(()),
            false => Err(replaced()),
        }
    }

    fn table_id(&self) -> &str {
        &self.reading.state().metadata().id
    }

    fn table(&self) -> &str {
        self.store.location().as_str()
    }
}

fn replaced() -> Error {
    Error::table_not_found(
        "another table is where the followed one was: it was deleted and created again; start again with another checkpoint location, or without an offset",
    )
}

fn broken<T>(_: T) -> Error {
    Error::internal("a followed table was left by a failed reader")
}
