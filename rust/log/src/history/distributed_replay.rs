//! Splits the replay of one version into parts for other processes, and reads one part.
//!
//! A file of the checkpoint is live unless a later commit names its key; among commits the newest
//! action on a key decides (`deltaplane_protocol::replay`). Callers join all parts by key.

use std::sync::Arc;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::paths::{LOG_DIR, LogFile};
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::segment::LogName;
use deltaplane_protocol::state::TableState;
use deltaplane_store::{ObjectInfo, Store};
use futures::stream::{BoxStream, StreamExt};
use futures::{TryStreamExt, future};
use serde::{Deserialize, Serialize};

use crate::checkpoint::contents::manifest_adds;
use crate::checkpoint::part::{FileActions, Part};
use crate::checkpoint::reader::{CheckpointReader, PlanColumns};
use crate::checkpoint::row_filter::Skipping;
use crate::commit::reader;
use crate::commit::reader::{FileLines, packed};
use crate::committer::managed;
use crate::history::{HistoryEntry, version_at};
use crate::snapshot::Snapshot;
use crate::snapshot::file_scan::{emit, fed, prune};

/// One portion of a version's file actions, as text for other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayPart {
    /// Commits after the checkpoint, or compactions, by their bare names.
    Commits(Vec<String>),
    /// Commits that the table's catalog holds, with their content: other processes open the table's
    /// files by their place, and don't ask the catalog.
    CatalogCommits(Vec<CatalogCommit>),
    /// Row groups of a checkpoint file, which must be the exact file that the version was opened
    /// from.
    RowGroups(SeenFile, Vec<usize>),
    /// Sidecars, by their keys, which are never reused (P056).
    Sidecars(Vec<String>),
    /// The adds in a V2 checkpoint's JSON manifest, by its key.
    Manifest(String),
}

impl ReplayPart {
    /// What it holds, as it is called in the serialized form.
    pub fn kind(&self) -> &'static str {
        match self {
            ReplayPart::Commits(_) | ReplayPart::CatalogCommits(_) => "commits",
            ReplayPart::RowGroups(..) => "row_groups",
            ReplayPart::Sidecars(_) => "sidecars",
            ReplayPart::Manifest(_) => "manifest",
        }
    }
}

/// A commit that isn't published, or that the catalog doesn't know to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogCommit {
    name: String,
    text: String,
}

impl CatalogCommit {
    fn new(name: String, content: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(content)
            .map_err(|e| Error::corrupt_log(format!("{name} isn't UTF-8: {e}")))?
            .to_owned();
        Ok(CatalogCommit { name, text })
    }

    fn parse(self) -> Result<reader::Commit> {
        let name = LogName::parse(&self.name, 1, 0).ok_or_else(|| not_a_commit(&self.name))?;
        reader::Commit::parse(name, self.text.into())
    }
}

/// A file as the store listed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    key: String,
    size_bytes: u64,
    modified_ms: i64,
    etag: Option<String>,
}

impl From<&ObjectInfo> for SeenFile {
    fn from(info: &ObjectInfo) -> Self {
        SeenFile {
            key: info.key.clone(),
            size_bytes: info.size_bytes,
            modified_ms: info.modified_ms,
            etag: info.etag.clone(),
        }
    }
}

impl From<&SeenFile> for ObjectInfo {
    fn from(seen: &SeenFile) -> Self {
        ObjectInfo {
            key: seen.key.clone(),
            size_bytes: seen.size_bytes,
            modified_ms: seen.modified_ms,
            etag: seen.etag.clone(),
        }
    }
}

/// All parts of a version.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayParts {
    /// The parts with the checkpoint's files.
    pub checkpoint: Vec<ReplayPart>,
    /// Whether the checkpoint may name a file twice, of which one add counts: foreign checkpoints
    /// may (P040).
    pub may_repeat: bool,
    /// The parts with the commits after it.
    pub commits: Vec<ReplayPart>,
    /// Bytes of these commits.
    pub commit_bytes: u64,
}

/// The file actions of a commit, in the order of the replay: adds, then removes.
#[derive(Debug, Clone)]
pub struct CommitActions {
    /// Its version, or the last version that a compaction covers.
    pub version: u64,
    /// Adds, with the protocol's column names.
    pub adds: RecordBatch,
    /// Removes, likewise.
    pub removes: RecordBatch,
}

/// A version without its file list, for readers that replay the files elsewhere. Skips the file
/// actions of commits, of which there may be gigabytes; can't plan scans.
pub struct LogHead(Snapshot);

impl LogHead {
    /// Opens a version, or the newest one. Costs the same reads as opening a snapshot, but memory
    /// only for state actions.
    pub async fn open(store: &Store, version: Option<u64>) -> Result<Self> {
        let opened = Snapshot::load(store, version, FileLines::Dropped).await;
        Ok(LogHead(opened.map_err(|e| e.with_table(store.location().as_str()))?))
    }

    /// Opens the newest version at or before a time in ms since the epoch (P086).
    pub async fn open_at(store: &Store, timestamp_ms: i64) -> Result<Self> {
        let version = version_at(store, timestamp_ms).await;
        let version = version.map_err(|e| e.with_table(store.location().as_str()))?;
        Self::open(store, Some(version)).await
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.0.version()
    }

    /// Protocol, metadata, properties.
    pub fn state(&self) -> &TableState {
        self.0.state()
    }

    /// As [`Snapshot::history`].
    pub async fn history(&self, limit: Option<usize>) -> Result<Vec<HistoryEntry>> {
        self.0.history(limit).await
    }

    /// This version's parts, as [`Snapshot::replay_parts`].
    pub async fn replay_parts(&self, target_bytes: u64) -> Result<ReplayParts> {
        self.0.replay_parts(target_bytes).await
    }
}

impl Snapshot {
    /// This version's parts, each of about this many bytes, or one item that is larger.
    pub async fn replay_parts(&self, target_bytes: u64) -> Result<ReplayParts> {
        self.with_open_checkpoint().await?.parts_of_open(target_bytes).await
    }

    async fn parts_of_open(&self, target_bytes: u64) -> Result<ReplayParts> {
        let managed = managed::of(self.store());
        let (mut commits, mut held) = (Vec::new(), Vec::new());
        for file in self.commit_files() {
            let (name, size_bytes) = (file.name.to_string(), file.size_bytes);
            let content = match &managed {
                Some(managed) if file.kind == LogFile::Commit => managed.held_content(file.version).await?,
                _ => None,
            };
            match content {
                Some(content) => held.push((CatalogCommit::new(name, &content)?, size_bytes)),
                None => commits.push((name, size_bytes)),
            }
        }
        let checkpoint = self.base_checkpoint();
        let (in_parquet, has_manifest_adds, may_repeat) = match checkpoint {
            Some((_, reader)) => (
                reader.parts().await?,
                reader.has_manifest_adds().await?,
                reader.may_repeat().await?,
            ),
            None => (&[][..], false, false),
        };
        let files = checkpoint.iter().flat_map(|(files, _)| &files.files);
        let manifests = files
            .filter(|f| has_manifest_adds && matches!(f.kind, LogFile::UuidCheckpoint { json: true }))
            .map(|f| ReplayPart::Manifest(format!("{LOG_DIR}/{}", f.name)));
        let mut row_groups = Vec::new();
        // An earlier plan may have opened a sidecar as well.
        for part in in_parquet.iter().filter(|part| part.sidecar.is_none()) {
            let closed = || Error::internal("a checkpoint's file isn't open").with_path(part.key());
            let (seen, groups) = part.groups_of_adds().ok_or_else(closed)?;
            let cut = packed(groups, target_bytes).into_iter();
            row_groups.extend(cut.map(|groups| ReplayPart::RowGroups(seen.into(), groups)));
        }
        let sidecars = in_parquet.iter().filter_map(|part| {
            let named = part.sidecar.as_ref()?;
            Some((part.key().to_owned(), u64::try_from(named.size_in_bytes).unwrap_or(0)))
        });
        let sidecars = packed(sidecars, target_bytes).into_iter().map(ReplayPart::Sidecars);
        Ok(ReplayParts {
            may_repeat,
            checkpoint: manifests.chain(row_groups).chain(sidecars).collect(),
            commit_bytes: commits
                .iter()
                .map(|(_, bytes)| *bytes)
                .chain(held.iter().map(|(_, bytes)| *bytes))
                .fold(0, u64::saturating_add),
            commits: packed(commits, target_bytes)
                .into_iter()
                .map(ReplayPart::Commits)
                .chain(packed(held, target_bytes).into_iter().map(ReplayPart::CatalogCommits))
                .collect(),
        })
    }

    /// Bytes of the log's files that a plan of this version may have to read, without the sidecars
    /// that `pruner` rules out; sidecars count with the sizes in the checkpoint, which is opened.
    pub async fn replay_bytes(&self, pruner: Option<Arc<Pruner>>) -> Result<u64> {
        let opened = self.with_open_checkpoint().await?;
        let Some((pruner, checkpoint)) = pruner.zip(opened.checkpoint_reader()) else {
            return Ok(opened.known_replay_bytes());
        };
        let skipping = Skipping { pruner, counters: None };
        let sidecars = checkpoint.sidecar_bytes(&skipping).await?;
        Ok(opened.log_bytes().saturating_add(sidecars))
    }
}

/// The adds of a part of a checkpoint, as in a plan: without those that the pruner rules out,
/// before later commits are applied.
///
/// Errors: a damaged file, by name; a file that is missing, or isn't the one that was opened. There
/// is no fallback to an older checkpoint: parts that were read already would come twice.
pub fn checkpoint_adds(
    store: &Store,
    part: ReplayPart,
    pruner: Option<Arc<Pruner>>,
    columns: PlanColumns,
) -> BoxStream<'static, Result<RecordBatch>> {
    let store = store.clone();
    fed(|mut send| async move {
        let skipping = pruner.map(|pruner| Skipping { pruner, counters: None });
        let parts = match part {
            ReplayPart::Commits(_) | ReplayPart::CatalogCommits(_) => {
                return Err(Error::internal("commits are no part of a checkpoint"));
            }
            ReplayPart::RowGroups(seen, groups) => vec![Part::of_row_groups(&store, (&seen).into(), groups)],
            ReplayPart::Sidecars(keys) => keys.into_iter().map(|key| Part::new(&store, key, None)).collect(),
            ReplayPart::Manifest(key) => {
                let adds = manifest_adds(&store, &key).await?;
                emit(&mut send, prune(adds, skipping.as_ref())?).await;
                Vec::new()
            }
        };
        for part in &parts {
            let mut batches = CheckpointReader::part_files(part, FileActions::Adds, columns.clone(), skipping.as_ref());
            while let Some(batch) = batches.try_next().await? {
                if !emit(&mut send, prune(batch, skipping.as_ref())?).await {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// The file actions of a part's commits, in any order.
pub fn commit_actions(store: &Store, part: ReplayPart) -> BoxStream<'static, Result<CommitActions>> {
    let names = match part {
        ReplayPart::Commits(names) => names,
        ReplayPart::CatalogCommits(held) => {
            let actions = held.into_iter().map(|commit| actions_of(&commit.parse()?));
            return futures::stream::iter(actions).boxed();
        }
        _ => return failed(Error::internal("a part of a checkpoint has no commits")),
    };
    // Sizes and times only serve to form the parts, none of which is empty.
    let parsed: Option<Vec<LogName>> = names.iter().map(|name| LogName::parse(name, 1, 0)).collect();
    let Some(parsed) = parsed else {
        return failed(not_a_commit(&names.concat()));
    };
    let commits = reader::stream(store, parsed, FileLines::Retained);
    commits.and_then(|commit| future::ready(actions_of(&commit))).boxed()
}

fn actions_of(commit: &reader::Commit) -> Result<CommitActions> {
    let files = commit.files()?;
    Ok(CommitActions {
        version: commit.version(),
        adds: files.adds.clone(),
        removes: files.removes.clone(),
    })
}

fn not_a_commit(name: &str) -> Error {
    Error::internal(format!("a part of the commits names something else: {name}"))
}

fn failed(e: Error) -> BoxStream<'static, Result<CommitActions>> {
    futures::stream::once(future::ready(Err(e))).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_everything_once_and_stay_near_their_size() {
        let sizes = [5, 5, 5, 100, 1, 0, 9];
        let runs = packed(sizes.into_iter().enumerate(), 10);
        assert_eq!(runs, [vec![0, 1], vec![2], vec![3], vec![4, 5, 6]]);
        assert!(packed(Vec::<(u8, u64)>::new(), 10).is_empty());
        assert_eq!(packed([('a', u64::MAX), ('b', u64::MAX)], u64::MAX), [vec!['a', 'b']]);
    }

    #[test]
    fn commits_of_a_catalog_travel_with_their_content() {
        let text = concat!(
            r#"{"commitInfo":{"operation":"WRITE"}}"#,
            "\n",
            r#"{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}"#
        );
        let commit = CatalogCommit::new(format!("{:020}.json", 7), text.as_bytes()).unwrap();
        let actions = actions_of(&commit.parse().unwrap()).unwrap();
        assert_eq!(
            (actions.version, actions.adds.num_rows(), actions.removes.num_rows()),
            (7, 1, 0)
        );
        assert!(CatalogCommit::new("x".to_owned(), &[0xff]).is_err());
    }

    #[test]
    fn parts_travel_as_text() {
        let part = ReplayPart::RowGroups(
            SeenFile {
                key: "_delta_log/x.parquet".into(),
                size_bytes: 7,
                modified_ms: -1,
                etag: None,
            },
            vec![0, 3],
        );
        let text = serde_json::to_string(&part).unwrap_or_default();
        assert_eq!(serde_json::from_str::<ReplayPart>(&text).ok(), Some(part));
    }
}
