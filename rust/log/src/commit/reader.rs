//! Reads commits: state actions are parsed at once, file actions when a plan needs them.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, CommitInfo, LineAction, Metadata, Protocol, parse_line};
use deltaplane_protocol::features::in_commit_timestamp::{self, Stamp};
use deltaplane_protocol::files::lines::{AddLine, FileLine, RemoveLine, parse_file_line};
use deltaplane_protocol::files::{AddRows, RemoveRows};
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile};
use deltaplane_protocol::segment::{LogName, LogSegment};
use deltaplane_store::{ObjectInfo, Store};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use serde::de::DeserializeOwned;
use tracing::warn;

use crate::listing::{listed, name_of};
use crate::now_ms;

/// Runs of commits that are read and parsed concurrently, and the target bytes of a run of several:
/// enough to hide a store's latency, few enough to bound memory.
const CONCURRENT_RUNS: usize = 4;
const RUN_BYTES: u64 = 8 << 20;
/// The most commits of a run. Runs of a long tail are longer, because handing a run to another
/// thread takes as long as reading some commits.
const RUN_COMMITS: usize = 32;
const LONG_RUN_COMMITS: usize = 256;

/// Whether commits keep the text of their file actions, which are most lines, for later readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLines {
    Retained,
    /// For readers of the state alone: `files` and `actions` then fail.
    Dropped,
}

/// One commit; its file actions become columns at the first use.
pub(crate) struct Commit {
    pub name: LogName,
    /// All actions except adds, removes, change files and the commit info.
    pub state: Vec<Action>,
    /// The commit info as JSON, parsed at the first use, since few readers need it.
    info: Option<Bytes>,
    text: Option<Bytes>,
    files: OnceLock<CommitFiles>,
}

/// The file actions of a commit.
#[derive(Clone)]
pub(crate) struct CommitFiles {
    pub adds: RecordBatch,
    pub removes: RecordBatch,
}

impl CommitFiles {
    /// The file actions of a commit without any.
    pub(crate) fn none() -> Result<&'static Self> {
        static NONE: OnceLock<CommitFiles> = OnceLock::new();
        if let Some(none) = NONE.get() {
            return Ok(none);
        }
        let none = FileColumns::with_capacity(0).finish()?;
        Ok(NONE.get_or_init(|| none))
    }
}

/// File actions of several commits, collected into columns.
pub(crate) struct FileColumns {
    adds: AddRows,
    removes: RemoveRows,
}

impl FileColumns {
    /// Reserves room for this many adds.
    pub(crate) fn with_capacity(adds: usize) -> Self {
        FileColumns {
            adds: AddRows::with_capacity(adds),
            removes: RemoveRows::with_capacity(0),
        }
    }

    /// How many adds and removes there are.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.adds.len(), self.removes.len())
    }

    /// Appends those of a commit.
    pub(crate) fn push(&mut self, commit: &Commit) -> Result<()> {
        commit.each_file(|file| match file {
            File::Add(add) => self.adds.push(&add),
            File::Remove(remove) => self.removes.push(&remove),
        })
    }

    /// All of them.
    pub(crate) fn finish(self) -> Result<CommitFiles> {
        Ok(CommitFiles {
            adds: self.adds.finish()?,
            removes: self.removes.finish()?,
        })
    }
}

/// A file action of a commit's text.
pub(crate) enum File<'a> {
    Add(AddLine<'a>),
    Remove(RemoveLine<'a>),
}

/// Whether a line certainly is a file action, judged by its first bytes: these lines are parsed
/// later.
fn is_file_line(line: &str) -> bool {
    ["{\"add\":", "{\"remove\":", "{\"cdc\":"]
        .iter()
        .any(|p| line.starts_with(p))
}

/// Whether a line certainly is no file action, so that it was parsed when the commit was read.
fn is_state_line(line: &str) -> bool {
    [
        "{\"commitInfo\":",
        "{\"txn\":",
        "{\"metaData\":",
        "{\"protocol\":",
        "{\"domainMetadata\":",
    ]
    .iter()
    .any(|p| line.starts_with(p))
}

impl Commit {
    /// A commit of this process as its file will be, with this process's time and without a tag.
    pub(crate) fn own(version: u64, text: Bytes) -> Result<Self> {
        let info = ObjectInfo {
            key: paths::commit(version),
            size_bytes: text.len() as u64,
            modified_ms: now_ms(),
            etag: None,
        };
        let name = name_of(info).ok_or_else(|| Error::internal("a commit's name isn't one"))?;
        Self::parse(name, text)
    }

    pub(crate) fn parse(name: LogName, text: Bytes) -> Result<Self> {
        let (mut state, mut info) = (Vec::new(), None);
        for line in as_text(&text, &name)?.lines().filter(|l| !is_file_line(l)) {
            match in_commit(parse_file_line(line), &name)? {
                Some(LineAction::Add(_) | LineAction::Remove(_) | LineAction::Cdc(_)) | None => {}
                Some(LineAction::CommitInfo(said)) => info = info.or(Some(text.slice_ref(said.get().as_bytes()))),
                Some(LineAction::Metadata(m)) => state.push(Action::Metadata(m)),
                Some(LineAction::Protocol(p)) => state.push(Action::Protocol(p)),
                Some(LineAction::Txn(t)) => state.push(Action::Txn(t)),
                Some(LineAction::DomainMetadata(d)) => state.push(Action::DomainMetadata(d)),
            }
        }
        let commit = Commit {
            name,
            state,
            info,
            text: Some(text),
            files: OnceLock::new(),
        };
        // Damage of a compaction must be found while the commits can still be read instead (P011).
        if !commit.is_single() {
            commit.files()?;
        }
        Ok(commit)
    }

    pub(crate) fn with(self, lines: FileLines) -> Self {
        match lines {
            FileLines::Retained => self,
            FileLines::Dropped => Commit {
                // A copy, because a slice would keep the whole text in memory.
                info: self.info.as_deref().map(Bytes::copy_from_slice),
                text: None,
                files: OnceLock::new(),
                ..self
            },
        }
    }

    fn lines(&self) -> Result<std::str::Lines<'_>> {
        let dropped = || Error::internal("a commit's file actions are asked for that were dropped");
        let text = self.text.as_ref().ok_or_else(dropped)?;
        Ok(as_text(text, &self.name)?.lines())
    }

    /// Whether `text` is exactly this commit's.
    pub(crate) fn is_text(&self, text: &Bytes) -> bool {
        self.text.as_ref().is_some_and(|own| own == text)
    }

    /// Whether its text is small and has not been converted to columns.
    pub(crate) fn is_small(&self, bytes: usize) -> bool {
        self.files.get().is_none() && self.text.as_ref().is_some_and(|text| text.len() <= bytes)
    }

    /// The last version that it covers.
    pub(crate) fn version(&self) -> u64 {
        match self.name.kind {
            LogFile::Compaction { to } => to,
            _ => self.name.version,
        }
    }

    /// Whether it is one version's commit rather than a compaction of several.
    pub(crate) fn is_single(&self) -> bool {
        self.name.kind == LogFile::Commit
    }

    /// All actions, parsed again.
    pub(crate) fn actions(&self) -> Result<Vec<Action>> {
        self.lines()?
            .filter_map(|line| in_commit(parse_line(line), &self.name).transpose())
            .collect()
    }

    /// Its commit info; empty if it has none.
    pub(crate) fn info(&self) -> Result<CommitInfo> {
        self.info_as()
    }

    /// Its commit info as another type, such as one with fewer fields; empty if it has none.
    pub(crate) fn info_as<T: DeserializeOwned + Default>(&self) -> Result<T> {
        let Some(info) = &self.info else {
            return Ok(T::default());
        };
        let damaged = |e| {
            Error::corrupt_log(format!(
                "what the commit says of itself isn't a JSON object ({e}): the file was damaged or written by a faulty program"
            ))
        };
        in_commit(serde_json::from_slice(info).map_err(damaged), &self.name)
    }

    /// The commit's own time in ms, which its table requires (P085); nothing else of its info is
    /// parsed.
    pub(crate) fn own_time_ms(&self) -> Result<i64> {
        let stamp: Stamp = self.info_as()?;
        in_commit_timestamp::required(stamp.time_ms(), self.version())
    }

    /// Parses each file action and passes it on.
    pub(crate) fn each_file(&self, mut take: impl FnMut(File<'_>) -> Result<()>) -> Result<()> {
        for line in self.lines()?.filter(|l| !is_state_line(l)) {
            match in_commit(parse_file_line(line), &self.name)? {
                Some(FileLine::Add(add)) => take(File::Add(add))?,
                Some(FileLine::Remove(remove)) => take(File::Remove(remove))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The file actions, parsed at the first call.
    pub(crate) fn files(&self) -> Result<&CommitFiles> {
        if let Some(f) = self.files.get() {
            return Ok(f);
        }
        let mut columns = FileColumns::with_capacity(0);
        columns.push(self)?;
        let files = columns.finish()?;
        Ok(self.files.get_or_init(|| files))
    }
}

fn as_text<'a>(bytes: &'a Bytes, name: &LogName) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|_| {
        Error::corrupt_log("the commit isn't UTF-8 text: the file was damaged; restore it from a backup")
            .with_version(name.version)
            .with_path(format!("{LOG_DIR}/{}", name.name))
    })
}

fn in_commit<T>(r: Result<T>, name: &LogName) -> Result<T> {
    r.map_err(|e| {
        e.with_version(name.version)
            .with_path(format!("{LOG_DIR}/{}", name.name))
    })
}

/// Reads a segment's commits: by its compactions where these are readable (P011), otherwise one by
/// one.
pub(crate) async fn read_segment(store: &Store, segment: &LogSegment, lines: FileLines) -> Result<Vec<Arc<Commit>>> {
    let all = |names: &[LogName]| stream(store, names.to_vec(), lines).try_collect();
    match all(&segment.pieces).await {
        Err(e) if segment.pieces != segment.commits && is_damage(&e) => {
            warn!(error = %e, "a log compaction can't be used, reading the commits themselves");
            all(&segment.commits).await
        }
        done => done,
    }
}

/// Whether an error means that a file of the log is damaged or missing, rather than temporarily
/// unreachable.
pub(crate) fn is_damage(e: &Error) -> bool {
    matches!(
        e.kind(),
        Kind::CorruptFile | Kind::CorruptLog | Kind::ObjectNotFound | Kind::VersionNotFound
    )
}

/// The newest protocol and metadata among these commits (ascending).
pub(crate) fn newest_state(commits: &[Arc<Commit>]) -> (Option<&Protocol>, Option<&Metadata>) {
    let (mut protocol, mut metadata) = (None, None);
    for a in commits.iter().rev().flat_map(|c| &c.state) {
        match a {
            Action::Protocol(p) => protocol = protocol.or(Some(p)),
            Action::Metadata(m) => metadata = metadata.or(Some(m)),
            _ => {}
        }
    }
    (protocol, metadata)
}

/// Reads these commits, in order.
pub(crate) async fn read(store: &Store, names: &[LogName]) -> Result<Vec<Arc<Commit>>> {
    stream(store, names.to_vec(), FileLines::Retained).try_collect().await
}

/// As `read`, without their file actions.
pub(crate) async fn read_states(store: &Store, names: Vec<LogName>) -> Result<Vec<Arc<Commit>>> {
    stream(store, names, FileLines::Dropped).try_collect().await
}

/// As `read`, one after the other.
pub(crate) fn stream(store: &Store, names: Vec<LogName>, lines: FileLines) -> BoxStream<'static, Result<Arc<Commit>>> {
    let store = store.clone();
    let mut runs = in_runs(names);
    if runs.len() <= 1 {
        let run = runs.pop().unwrap_or_default();
        // Handing it to another thread would take longer than reading it.
        let read =
            async move { futures::stream::iter(read_run(&store, run, lines).await.unwrap_or_else(|e| vec![Err(e)])) };
        return futures::stream::once(read).flatten().boxed();
    }
    futures::stream::iter(runs)
        .map(move |run| {
            let store = store.clone();
            // A task of its own, so that parsing uses every core.
            let task = deltaplane_store::spawn_task(async move { read_run(&store, run, lines).await });
            async move {
                let failed = |e: Error| vec![Err(e)];
                let read = task.await;
                let read = read.map_err(|e| Error::internal(format!("reading commits failed: {e}")));
                futures::stream::iter(read.and_then(|read| read).unwrap_or_else(failed))
            }
        })
        .buffered(CONCURRENT_RUNS)
        .flatten()
        .boxed()
}

/// Commits grouped into runs that are read together, in their order.
fn in_runs(names: Vec<LogName>) -> Vec<Vec<LogName>> {
    let most = (names.len() / (4 * CONCURRENT_RUNS)).clamp(RUN_COMMITS, LONG_RUN_COMMITS);
    // The smallest commit also counts with a share, so that a run holds at most `most` commits.
    let share = RUN_BYTES / u64::try_from(most).unwrap_or(1);
    let weighed = |name: LogName| {
        let bytes = name.size_bytes.max(share);
        (name, bytes)
    };
    packed(names.into_iter().map(weighed), RUN_BYTES)
}

/// Groups these items into runs of about `target` bytes.
pub(crate) fn packed<T>(things: impl IntoIterator<Item = (T, u64)>, target_bytes: u64) -> Vec<Vec<T>> {
    let (mut runs, mut run, mut weight) = (Vec::new(), Vec::new(), 0u64);
    for (thing, bytes) in things {
        if !run.is_empty() && weight.saturating_add(bytes) > target_bytes {
            runs.push(std::mem::take(&mut run));
            weight = 0;
        }
        weight = weight.saturating_add(bytes);
        run.push(thing);
    }
    if !run.is_empty() {
        runs.push(run);
    }
    runs
}

async fn read_run(store: &Store, names: Vec<LogName>, lines: FileLines) -> Result<Vec<Result<Arc<Commit>>>> {
    let read = store.read_texts(names.iter().map(listed).collect()).await?;
    let parsed = |(name, bytes): (LogName, Result<Bytes>)| {
        let bytes = bytes.map_err(|e| unread(e, &name))?;
        Ok(Arc::new(Commit::parse(name, bytes)?.with(lines)))
    };
    Ok(names.into_iter().zip(read).map(parsed).collect())
}

fn unread(e: Error, name: &LogName) -> Error {
    match e.kind() {
        Kind::CorruptLog => e.with_version(name.version),
        // The store returned a truncated body.
        Kind::CorruptFile => e.with_kind(Kind::CorruptLog).with_version(name.version),
        Kind::ObjectNotFound => Error::version_not_found(
            "a commit vanished while the table was being read: log cleanup removed it; open the table again",
        )
        .with_version(name.version)
        .with_path(name.name.to_string()),
        _ => e,
    }
}
