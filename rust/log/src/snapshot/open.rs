//! Opens a version: from the best usable checkpoint and the commits after it, or from commits
//! alone; and finds a replacement for a checkpoint that turns out damaged later.

use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, Metadata, Protocol};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::features;
use deltaplane_protocol::segment::{CheckpointFiles, LogName, LogSegment, complete_checkpoints};
use deltaplane_protocol::state::TableState;
use deltaplane_store::Store;
use futures::future::Either;
use tracing::{debug, warn};

use crate::checkpoint::reader::CheckpointReader;
use crate::commit::reader;
use crate::commit::reader::{Commit, FileLines, is_damage, newest_state};
use crate::committer::{self, authority, with_one_answer};
use crate::listing::last_checkpoint;
use crate::listing::list_from;
use crate::now_ms;
use crate::snapshot::Snapshot;
use crate::snapshot::checksum;

/// How often the log is listed again while clean-ups delete listed files.
const LISTINGS: usize = 4;

impl Snapshot {
    /// Opens a version, or the newest one.
    ///
    /// Costs one listing, one read per commit after the checkpoint, and one of the version's
    /// checksum; without a valid checksum, the checkpoint's footer with its few state rows.
    pub async fn open(store: &Store, version: Option<u64>) -> Result<Self> {
        let opened = Self::load(store, version, FileLines::Retained).await;
        opened.map_err(|e| e.with_table(store.location().as_str()))
    }

    pub(crate) async fn load(store: &Store, version: Option<u64>, lines: FileLines) -> Result<Self> {
        let mut listings = 1;
        loop {
            let listed_ms = now_ms();
            let loaded = match committer::of(store) {
                None => Self::load_listed(store, version, lines).await,
                Some(managed) => Box::pin(with_one_answer(managed, Self::load_listed(store, version, lines))).await,
            };
            match loaded {
                // A clean-up deleted files between the listing and the reading: a newer checkpoint
                // replaces them.
                Err(e) if e.kind() == Kind::VersionNotFound && version.is_none() && listings < LISTINGS => {
                    debug!(error = %e, "the log changed while it was read, listing it again");
                    listings += 1;
                }
                Err(e) => return Err(e),
                Ok(loaded) if version.is_none() => return Ok(loaded.newest_until(listed_ms)),
                Ok(loaded) => return Ok(loaded),
            }
        }
    }

    async fn load_listed(store: &Store, version: Option<u64>, lines: FileLines) -> Result<Self> {
        let names = match first_look(store).await? {
            FirstLook::Listed(names) => names,
            FirstLook::Hint(hint) => {
                if let Some(h) = hint.filter(|h| version.is_none_or(|v| *h <= v)) {
                    let names = list_from(store, h).await?;
                    let candidates = complete_checkpoints(&names, version);
                    if let Ok(best) = Self::from_best(store, &names, candidates, version, lines).await? {
                        return Ok(best);
                    }
                    debug!(hint = h, "the checkpoint hint leads nowhere, listing the whole log");
                }
                list_from(store, 0).await?
            }
        };
        let candidates = complete_checkpoints(&names, version);
        match Self::from_best(store, &names, candidates, version, lines).await? {
            Ok(best) => Ok(best),
            Err(damage) => {
                let loaded = Self::from_commits(store, &names, version, lines).await;
                loaded.map_err(|e| with_damage(e, damage))
            }
        }
    }

    /// From the first of these checkpoints that is usable; otherwise the error of the newest one.
    async fn from_best(
        store: &Store,
        names: &[LogName],
        candidates: Vec<CheckpointFiles>,
        version: Option<u64>,
        lines: FileLines,
    ) -> Result<Result<Self, Option<Error>>> {
        let mut damage = None;
        for files in candidates {
            let checkpoint_version = files.version;
            match Self::from_checkpoint(store, names, files, version, lines).await? {
                Ok(from) => return Ok(Ok(from)),
                Err(e) => {
                    warn!(version = checkpoint_version, error = %e, "a checkpoint can't be used, trying an older one");
                    damage = damage.or(Some(e));
                }
            }
        }
        Ok(Err(damage))
    }

    /// From this checkpoint, or the error that makes it unusable.
    async fn from_checkpoint(
        store: &Store,
        names: &[LogName],
        files: CheckpointFiles,
        version: Option<u64>,
        lines: FileLines,
    ) -> Result<Result<Self, Error>> {
        let segment = LogSegment::build(names, Some(files.clone()), version)?;
        let (commits, ahead) = futures::join!(
            reader::read_segment(store, &segment, lines),
            ReadAhead::begin(store, &segment, &files)
        );
        let commits = commits?;
        let (sum, opened) = match ahead {
            ReadAhead::Nothing => (None, None),
            ReadAhead::Sum(sum) => (Some(*sum), None),
            ReadAhead::Checkpoint(opened) => (None, Some(opened)),
        };
        let state = state_beside_checkpoint(store, &segment, &commits, sum).await;
        let state = state.map_err(|e| e.with_version(segment.version))?;
        let late = state.as_ref().and_then(|s| opened_late(store, &files, s, &commits));
        let reader = match late {
            Some(reader) => reader,
            None => {
                let opened = match opened {
                    Some(opened) => *opened,
                    None => CheckpointReader::open(store, &files).await,
                };
                match opened {
                    Err(e) if is_damage(&e) => return Ok(Err(e)),
                    reader => reader?,
                }
            }
        };
        let state = match state {
            Some(state) => Ok(state),
            None => read_state(store, &reader, &commits).await,
        };
        match state.map_err(|e| e.with_version(segment.version)) {
            Err(e) if e.kind() == Kind::CorruptFile => Ok(Err(e)),
            state => Ok(Ok(Self::assemble(
                store,
                segment,
                Some(Arc::new(reader)),
                commits,
                Arc::new(state?),
            ))),
        }
    }

    /// From its commits alone.
    async fn from_commits(store: &Store, names: &[LogName], version: Option<u64>, lines: FileLines) -> Result<Self> {
        let segment = LogSegment::build(names, None, version)?;
        let commits = reader::read_segment(store, &segment, lines).await?;
        let state = state_of(store, newest_state(&commits), Vec::new()).map_err(|e| e.with_version(segment.version))?;
        Ok(Self::assemble(store, segment, None, commits, Arc::new(state)))
    }

    /// The version of a table's only commit.
    pub(super) fn of_first(store: &Store, name: LogName, commit: Arc<Commit>) -> Result<Self> {
        let (opened_ms, commits) = (now_ms(), vec![commit]);
        let segment = LogSegment::build(&[name], None, None)?;
        let state = state_of(store, newest_state(&commits), Vec::new())?;
        Ok(Self::assemble(store, segment, None, commits, Arc::new(state)).newest_until(opened_ms))
    }

    /// The same version without the damaged checkpoint: from the best other usable one, or from
    /// commits alone. Errors: the damage if there is no other way; the error of the attempt.
    pub(crate) async fn beside_checkpoint(&self, damage: Error) -> Result<Snapshot> {
        let Some((bad, _)) = self.base_checkpoint() else {
            return Err(damage);
        };
        match self.load_beside(bad).await {
            Ok(other) => {
                warn!(version = bad.version, error = %damage, "a checkpoint turned out damaged, going on without it");
                Ok(other)
            }
            Err(e) if e.kind() == Kind::StoreUnavailable => Err(e),
            Err(e) => {
                warn!(version = bad.version, error = %e, "nothing else stands in for the damaged checkpoint");
                Err(damage)
            }
        }
    }

    async fn load_beside(&self, bad: &CheckpointFiles) -> Result<Snapshot> {
        let names = list_from(self.store(), 0).await?;
        let mut candidates = complete_checkpoints(&names, Some(self.version()));
        // Best first: those before the damaged one were no better, or didn't exist at the opening.
        // A missing one was cleaned up, and newer ones replace it.
        if let Some(index) = candidates.iter().position(|c| c.files == bad.files) {
            candidates.drain(..=index).for_each(drop);
        }
        let (store, version, lines) = (self.store(), Some(self.version()), FileLines::Retained);
        match Self::from_best(store, &names, candidates, version, lines).await? {
            Ok(best) => Ok(best),
            Err(_) => Self::from_commits(store, &names, version, lines).await,
        }
    }

    /// The same version with its checkpoint opened, or from another one if it is damaged, for
    /// callers that read its files' metadata.
    pub(crate) async fn with_open_checkpoint(&self) -> Result<Self> {
        match self.checkpoint_reader() {
            Some(checkpoint) => match checkpoint.open_all().await {
                Err(e) if is_damage(&e) => self.beside_checkpoint(e).await,
                opened => opened.map(|()| self.clone()),
            },
            None => Ok(self.clone()),
        }
    }
}

/// Hinted versions below this one have all their log files in one page of a listing, which has a
/// thousand names: up to three for each version.
const ONE_PAGE: u64 = 250;

/// What the first requests of an opening showed.
enum FirstLook {
    /// All files of the log.
    Listed(Vec<LogName>),
    /// The hinted version, if there is a hint.
    Hint(Option<u64>),
}

/// Reads the hint. In an object store the whole log is listed at the same time: that saves a round
/// for a log without a hint, or with few versions, and is given up for all others.
async fn first_look(store: &Store) -> Result<FirstLook> {
    let hint = last_checkpoint::read(store);
    if store.is_local() {
        return Ok(FirstLook::Hint(hint.await?));
    }
    let (hint, listing) = (std::pin::pin!(hint), std::pin::pin!(list_from(store, 0)));
    match futures::future::select(hint, listing).await {
        Either::Left((hint, listing)) => match hint? {
            Some(h) if h >= ONE_PAGE => Ok(FirstLook::Hint(Some(h))),
            _ => Ok(FirstLook::Listed(listing.await?)),
        },
        // A failing store is reported by the first request that was made.
        Either::Right((Err(e), hint)) => Err(hint.await.err().unwrap_or(e)),
        Either::Right((Ok(names), _)) => Ok(FirstLook::Listed(names)),
    }
}

/// What is read of an object store at the same time as the commits, since the state of most tables
/// is in neither of them.
enum ReadAhead {
    /// A local file costs less than reading it in vain.
    Nothing,
    /// The newest checksum.
    Sum(Box<Result<Option<VersionChecksum>>>),
    /// The checkpoint, where there is no checksum.
    Checkpoint(Box<Result<CheckpointReader>>),
}

impl ReadAhead {
    async fn begin(store: &Store, segment: &LogSegment, files: &CheckpointFiles) -> Self {
        match &segment.checksum {
            _ if store.is_local() => ReadAhead::Nothing,
            Some(name) => ReadAhead::Sum(Box::new(checksum::read(store, name).await)),
            None => ReadAhead::Checkpoint(Box::new(CheckpointReader::open(store, files).await)),
        }
    }
}

/// The error of opening from commits alone, together with the damage of the checkpoint that would
/// have replaced the missing ones.
fn with_damage(e: Error, damage: Option<Error>) -> Error {
    let named = damage
        .as_ref()
        .and_then(|d| Some((d.path()?.to_owned(), d.message().to_owned())));
    let Some((path, message)) = named.filter(|_| e.kind() == Kind::CorruptLog && e.path().is_none()) else {
        return e;
    };
    let text = format!("{}; a checkpoint can't be used: {message}", e.message());
    let error = Error::corrupt_log(text).with_path(path);
    match e.version() {
        Some(version) => error.with_version(version),
        None => error,
    }
}

/// Protocol and metadata without reading the checkpoint, where possible: the newest in the commits,
/// otherwise the checksum's.
async fn state_beside_checkpoint(
    store: &Store,
    segment: &LogSegment,
    commits: &[Arc<Commit>],
    read_ahead: Option<Result<Option<VersionChecksum>>>,
) -> Result<Option<TableState>> {
    let (protocol, metadata) = newest_state(commits);
    if protocol.is_some() && metadata.is_some() {
        return state_of(store, (protocol, metadata), Vec::new()).map(Some);
    }
    let sum = match (&segment.checksum, read_ahead) {
        (Some(name), Some(sum)) => checksum::sound(sum?, name, commits),
        _ => checksum::read_sound(store, segment, commits).await?,
    };
    let Some(sum) = sum else { return Ok(None) };
    let (p, m) = (
        protocol.cloned().unwrap_or(sum.protocol),
        metadata.cloned().unwrap_or(sum.metadata),
    );
    match TableState::new(p, m, authority(store)) {
        Ok(state) => Ok(Some(state)),
        Err(e) => {
            warn!(error = %e, "a version checksum gives no state, asking the checkpoint");
            Ok(None)
        }
    }
}

/// Protocol and metadata, reading the checkpoint.
async fn read_state(store: &Store, checkpoint: &CheckpointReader, commits: &[Arc<Commit>]) -> Result<TableState> {
    state_of(store, newest_state(commits), checkpoint.state_actions().await?)
}

/// The checkpoint to be opened at the first read, if its kind is certain: from a known state and
/// its file's name.
fn opened_late(
    store: &Store,
    files: &CheckpointFiles,
    state: &TableState,
    commits: &[Arc<Commit>],
) -> Option<CheckpointReader> {
    if state.writes_v2_checkpoints() {
        // The size of its sidecars, which isn't known before, has no influence on the schedule.
        return CheckpointReader::of_sidecars(store, files);
    }
    CheckpointReader::of_one_file(store, files).filter(|_| !may_have_sidecars(state, commits))
}

/// Whether the checkpoint before these commits may have sidecars, by the protocol at its time
/// (P056).
fn may_have_sidecars(state: &TableState, commits: &[Arc<Commit>]) -> bool {
    let (since, _) = newest_state(commits);
    since.is_some() || features::allows_v2_checkpoints(state.protocol())
}

/// Protocol and metadata: the newest in the commits, otherwise those of the checkpoint.
fn state_of(
    store: &Store,
    newest: (Option<&Protocol>, Option<&Metadata>),
    checkpoint: Vec<Action>,
) -> Result<TableState> {
    let (mut protocol, mut metadata) = (newest.0.cloned(), newest.1.cloned());
    for a in checkpoint {
        match a {
            Action::Protocol(p) => protocol = protocol.or(Some(p)),
            Action::Metadata(m) => metadata = metadata.or(Some(m)),
            _ => {}
        }
    }
    let missing = |what: &str| {
        Error::corrupt_log(format!(
            "no {what} action in the whole log: the table can't be read; restore the log's first commit"
        ))
    };
    // The protocol comes first: it decides whether the rest can be understood (P047, P048).
    let protocol = protocol.ok_or_else(|| missing("protocol"))?;
    TableState::new(protocol, metadata.ok_or_else(|| missing("metaData"))?, authority(store))
}
