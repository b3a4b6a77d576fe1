//! The log segment: which checkpoint and which commits make a version, as a pure function of the
//! names in the log folder (P003–P009). Reads nothing; `log` lists the folder and opens the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::paths::{LOG_DIR, LogFile, parse_log_name};
use crate::{Error, Result};

/// One listed file of the log folder. Cheap to clone, since each version refers to all files of the
/// previous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogName {
    /// Version that the name starts with.
    pub version: u64,
    /// What the file is.
    pub kind: LogFile,
    /// Bare file name.
    pub name: Arc<str>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Last modification, ms since the epoch.
    pub modified_ms: i64,
    /// A value that changes with the content, if the listing has one.
    pub etag: Option<Arc<str>>,
}

impl LogName {
    /// The listed file, or `None` for an unknown name, or for an empty file that would replace
    /// others (P002, P004).
    pub fn parse(name: &str, size_bytes: u64, modified_ms: i64) -> Option<Self> {
        let (version, kind) = parse_log_name(name)?;
        let stands_for_commits = matches!(
            kind,
            LogFile::ClassicCheckpoint
                | LogFile::MultipartCheckpoint { .. }
                | LogFile::UuidCheckpoint { .. }
                | LogFile::Compaction { .. }
        );
        if stands_for_commits && size_bytes == 0 {
            return None;
        }
        Some(LogName {
            version,
            kind,
            name: Arc::from(name),
            size_bytes,
            modified_ms,
            etag: None,
        })
    }

    /// The same file with the listing's tag.
    pub fn with_etag(self, etag: Option<String>) -> Self {
        LogName {
            etag: etag.map(Arc::from),
            ..self
        }
    }
}

/// A complete checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointFiles {
    /// The version it holds.
    pub version: u64,
    /// Its files: one, or all parts in order.
    pub files: Vec<LogName>,
}

/// The files to read to rebuild one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSegment {
    /// The version of this segment.
    pub version: u64,
    /// The checkpoint to start from, if any.
    pub checkpoint: Option<CheckpointFiles>,
    /// Commits after the checkpoint, ascending, without a gap, up to `version`.
    pub commits: Vec<LogName>,
    /// The files to read for these commits, ascending: a compaction replaces the commits that it
    /// covers.
    pub pieces: Vec<LogName>,
    /// The newest checksum at or below `version` and at or above the checkpoint.
    pub checksum: Option<LogName>,
}

/// All complete checkpoints at or below `target`, best first: the newest; of one version the
/// UUID-named, then the multi-part, then the classic one, as the reference prefers (P004, P005).
pub fn complete_checkpoints(names: &[LogName], target: Option<u64>) -> Vec<CheckpointFiles> {
    let mut classic = Vec::new();
    let mut multipart: BTreeMap<(u64, u32), BTreeMap<u32, &LogName>> = BTreeMap::new();
    for n in names.iter().filter(|n| target.is_none_or(|t| n.version <= t)) {
        match &n.kind {
            LogFile::ClassicCheckpoint => classic.push((n.version, 0, vec![n.clone()])),
            LogFile::UuidCheckpoint { .. } => classic.push((n.version, 2, vec![n.clone()])),
            LogFile::MultipartCheckpoint { part, parts } => {
                multipart.entry((n.version, *parts)).or_default().insert(*part, n);
            }
            LogFile::Commit | LogFile::Compaction { .. } | LogFile::Checksum => {}
        }
    }
    let whole = multipart
        .into_iter()
        .filter(|((_, parts), parts_there)| parts_there.len() == *parts as usize)
        .map(|((version, _), parts_there)| (version, 1, parts_there.into_values().cloned().collect()));
    let mut all: Vec<(u64, u8, Vec<LogName>)> = classic.into_iter().chain(whole).collect();
    all.sort_by_key(|c| std::cmp::Reverse((c.0, c.1)));
    all.into_iter()
        .map(|(version, _, files)| CheckpointFiles { version, files })
        .collect()
}

impl LogSegment {
    /// Bytes of its files: the checkpoint without its sidecars, and the commits after it.
    pub fn size_bytes(&self) -> u64 {
        let checkpoint = self.checkpoint.iter().flat_map(|c| &c.files);
        checkpoint
            .chain(&self.pieces)
            .map(|n| n.size_bytes)
            .fold(0, u64::saturating_add)
    }

    /// The segment of `target`, or of the newest version, from a listing of the log folder that
    /// starts at `checkpoint` or earlier. `checkpoint` is one of [`complete_checkpoints`], or
    /// `None` to start from version 0.
    ///
    /// Errors: `TableNotFound` without any commit; `VersionNotFound` for a missing version;
    /// `CorruptLog` for a missing commit in between (P009).
    pub fn build(names: &[LogName], checkpoint: Option<CheckpointFiles>, target: Option<u64>) -> Result<Self> {
        let first_needed = checkpoint.as_ref().map_or(0, |c| c.version + 1);
        let mut commits: Vec<LogName> = names
            .iter()
            .filter(|n| n.kind == LogFile::Commit && n.version >= first_needed)
            .filter(|n| target.is_none_or(|t| n.version <= t))
            .cloned()
            .collect();
        commits.sort_by_key(|n| n.version);
        let reached = match (commits.last(), &checkpoint) {
            (Some(last), _) => last.version,
            (None, Some(c)) => c.version,
            (None, None) => return Err(nothing_to_start_from(names, target)),
        };
        check_contiguous(&commits, first_needed, checkpoint.is_some()).map_err(|e| match target {
            Some(t) => behind_checkpoint(names, t, e),
            None => e,
        })?;
        if let Some(t) = target.filter(|t| *t != reached) {
            return Err(Error::version_not_found(format!(
                "version {t} doesn't exist: the newest version is {reached}"
            ))
            .with_version(t));
        }
        let checksum = names
            .iter()
            .filter(|n| n.kind == LogFile::Checksum && n.version <= reached)
            .filter(|n| checkpoint.as_ref().is_none_or(|c| n.version >= c.version))
            .max_by_key(|n| n.version)
            .cloned();
        Ok(LogSegment {
            version: reached,
            checkpoint,
            pieces: cover(&commits, names),
            commits,
            checksum,
        })
    }

    /// Starts the same version from a newer checkpoint. Returns false, and changes nothing, where a
    /// compaction covers commits on both sides of the checkpoint.
    pub fn start_from(&mut self, checkpoint: CheckpointFiles) -> bool {
        let version = checkpoint.version;
        let crosses =
            |n: &LogName| matches!(n.kind, LogFile::Compaction { to } if n.version <= version && to > version);
        if self.pieces.iter().any(crosses) {
            return false;
        }
        self.pieces.retain(|n| n.version > version);
        self.commits.retain(|n| n.version > version);
        self.checksum = self.checksum.take().filter(|n| n.version >= version);
        self.checkpoint = Some(checkpoint);
        true
    }

    /// The segment extended by these commits, which follow without a gap.
    pub fn extend(&mut self, news: Vec<LogName>) {
        self.version = news.last().map_or(self.version, |n| n.version);
        self.pieces.extend(news.iter().cloned());
        self.commits.extend(news);
    }
}

/// The fewest files that cover these commits: from each position the longest compaction that starts
/// there and doesn't reach beyond the end (P011).
fn cover(commits: &[LogName], names: &[LogName]) -> Vec<LogName> {
    let last = commits.last().map_or(0, |c| c.version);
    let mut longest: BTreeMap<u64, (u64, &LogName)> = BTreeMap::new();
    for n in names {
        if let LogFile::Compaction { to } = n.kind
            && to > n.version
            && to <= last
            && longest.get(&n.version).is_none_or(|(t, _)| to > *t)
        {
            longest.insert(n.version, (to, n));
        }
    }
    let (mut out, mut covered) = (Vec::new(), None);
    for c in commits {
        if covered.is_some_and(|to| c.version <= to) {
            continue;
        }
        match longest.get(&c.version) {
            Some((to, compaction)) => {
                covered = Some(*to);
                out.push((*compaction).clone());
            }
            None => out.push(c.clone()),
        }
    }
    out
}

fn nothing_to_start_from(names: &[LogName], target: Option<u64>) -> Error {
    let first = names
        .iter()
        .filter(|n| n.kind == LogFile::Commit)
        .map(|n| n.version)
        .min();
    let is_checkpoint =
        |n: &&LogName| !matches!(n.kind, LogFile::Commit | LogFile::Checksum | LogFile::Compaction { .. });
    let checkpoint = names.iter().filter(is_checkpoint).max_by_key(|n| n.version);
    match (first, checkpoint, target) {
        (None, Some(c), Some(t)) if t < c.version => Error::version_not_found(format!(
            "version {t} can't be rebuilt: its commits were cleaned up"
        ))
        .with_version(t),
        (Some(first), _, Some(t)) if t < first => Error::version_not_found(format!(
            "version {t} can't be rebuilt: the log starts at version {first}, older commits were cleaned up"
        ))
        .with_version(t),
        // The error isn't "no table": a caller that believed so would create a table over one that
        // can be restored.
        (None, Some(c), _) => Error::corrupt_log(format!(
            "the checkpoint of version {} can't be used, and the commits that it stands for were cleaned up: restore it or them from a backup",
            c.version
        ))
        .with_path(format!("{LOG_DIR}/{}", c.name))
        .with_version(c.version),
        _ => Error::table_not_found(
            "no Delta table here: the _delta_log folder is missing or holds no commit; check the path, or create the table first",
        ),
    }
}

fn check_contiguous(commits: &[LogName], first_needed: u64, after_checkpoint: bool) -> Result<()> {
    for (expected, commit) in (first_needed..).zip(commits) {
        if commit.version == expected {
            continue;
        }
        let v = commit.version;
        let e = if expected > first_needed || after_checkpoint {
            Error::corrupt_log(format!(
                "the log has a gap: commit {expected} is missing but {v} exists; restore _delta_log/{expected:020}.json from a backup"
            ))
        } else {
            Error::corrupt_log(format!(
                "the log is truncated: it starts at commit {v}, and no complete checkpoint stands in for the commits before it; restore them or a checkpoint from a backup"
            ))
        };
        return Err(e.with_version(expected));
    }
    Ok(())
}

/// Log clean-up leaves a gap in the commits of an old version when a later checkpoint replaces
/// them.
fn behind_checkpoint(names: &[LogName], target: u64, hole: Error) -> Error {
    match complete_checkpoints(names, None).first() {
        Some(newer) if newer.version > target => Error::version_not_found(format!(
            "version {target} can't be rebuilt any more: commits before the checkpoint of version {} were cleaned up",
            newer.version
        ))
        .with_version(target)
        .with_source(hole),
        _ => hole,
    }
}

/// Commit times made strictly increasing (P081): t(v) = max(mtime(v), t(v-1) + 1).
/// `commits` ascend by version; the result has one time in ms for each.
pub fn monotone_times(commits: &[LogName]) -> Vec<(u64, i64)> {
    let mut last = i64::MIN;
    commits
        .iter()
        .map(|c| {
            last = c.modified_ms.max(last.saturating_add(1));
            (c.version, last)
        })
        .collect()
}

/// The newest commit whose time is at or before `cutoff_ms` (P063).
pub fn newest_until(names: &[LogName], cutoff_ms: i64) -> Option<u64> {
    let mut commits: Vec<LogName> = names.iter().filter(|n| n.kind == LogFile::Commit).cloned().collect();
    commits.sort_by_key(|n| n.version);
    let times = monotone_times(&commits);
    times.iter().rev().find(|(_, t)| *t <= cutoff_ms).map(|(v, _)| *v)
}

/// The files that no version from `kept` on needs, if `kept` has a checkpoint: commits first and
/// ascending, so that a checkpoint outlives the commits before it (P063, P157).
pub fn obsolete(names: &[LogName], oldest: u64) -> Vec<LogName> {
    let goes = |n: &&LogName| match n.kind {
        LogFile::Compaction { .. } => n.version <= oldest,
        _ => n.version < oldest,
    };
    let mut old: Vec<LogName> = names.iter().filter(goes).cloned().collect();
    old.sort_by_key(|n| (n.kind != LogFile::Commit, n.version));
    old
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_error::Kind;

    fn names(list: &[&str]) -> Vec<LogName> {
        list.iter().filter_map(|n| LogName::parse(n, 1, 0)).collect()
    }
    fn commits(range: impl IntoIterator<Item = u64>) -> Vec<LogName> {
        range
            .into_iter()
            .map(|v| LogName::parse(&format!("{v:020}.json"), 1, 0).unwrap())
            .collect()
    }

    #[test]
    fn newest_complete_checkpoint_wins() {
        // P004, P005
        let n = names(&[
            "00000000000000000004.checkpoint.parquet",
            "00000000000000000006.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000005.checkpoint.0000000001.0000000002.parquet",
            "00000000000000000005.checkpoint.0000000002.0000000002.parquet",
        ]);
        let versions: Vec<u64> = complete_checkpoints(&n, None).iter().map(|c| c.version).collect();
        assert_eq!(versions, [5, 4]);
        assert_eq!(complete_checkpoints(&n, Some(4)).len(), 1);
        assert_eq!(LogName::parse("00000000000000000004.checkpoint.parquet", 0, 0), None);
    }

    #[test]
    fn gaps_and_truncation_are_told_apart() {
        // P009
        let gap = LogSegment::build(&commits([0, 1, 3]), None, None).unwrap_err();
        assert!(gap.message().contains("gap") && gap.kind() == Kind::CorruptLog);
        let cut = LogSegment::build(&commits([5, 6]), None, None).unwrap_err();
        assert!(cut.message().contains("truncated"), "{cut}");
        assert_eq!(
            LogSegment::build(&[], None, None).unwrap_err().kind(),
            Kind::TableNotFound
        );
        // A table with an unusable checkpoint still exists: no writer may create one over it.
        let left = names(&["00000000000000000004.checkpoint.parquet"]);
        let kind = |target| LogSegment::build(&left, None, target).unwrap_err().kind();
        assert_eq!((kind(None), kind(Some(3))), (Kind::CorruptLog, Kind::VersionNotFound));
        // A partial clean-up of an old version isn't damage.
        let mut cleaned = commits([1, 2, 4, 5, 6]);
        let kind = |n: &[LogName], t| LogSegment::build(n, None, t).unwrap_err().kind();
        assert_eq!(kind(&cleaned, Some(4)), Kind::CorruptLog);
        cleaned.extend(names(&["00000000000000000005.checkpoint.parquet"]));
        assert_eq!(kind(&cleaned, Some(4)), Kind::VersionNotFound);
        assert_eq!(kind(&cleaned, Some(6)), Kind::CorruptLog);
        let cp = CheckpointFiles {
            version: 5,
            files: vec![],
        };
        let gap = LogSegment::build(&commits([5, 7]), Some(cp), None).unwrap_err();
        assert!(gap.message().contains("commit 6"), "{gap}");
    }

    #[test]
    fn a_version_above_the_newest_is_not_found() {
        let e = LogSegment::build(&commits(0..3), None, Some(7)).unwrap_err();
        assert_eq!((e.kind(), e.version()), (Kind::VersionNotFound, Some(7)));
        assert_eq!(
            LogSegment::build(&commits(0..3), None, Some(1)).unwrap().commits.len(),
            2
        );
    }

    #[test]
    fn an_empty_file_stands_for_nothing_but_a_commit() {
        // P004, P011
        let parse = |name: &str, size| LogName::parse(name, size, 0).is_some();
        for name in [
            "00000000000000000001.checkpoint.parquet",
            "00000000000000000001.00000000000000000002.compacted.json",
        ] {
            assert!(!parse(name, 0) && parse(name, 1), "{name}");
        }
        assert!(parse("00000000000000000001.json", 0));
    }

    #[test]
    fn compactions_stand_for_whole_runs_of_commits() {
        // P011
        let mut listed = commits(0..8);
        listed.extend(names(&[
            "00000000000000000001.00000000000000000002.compacted.json",
            "00000000000000000001.00000000000000000004.compacted.json",
            "00000000000000000003.00000000000000000006.compacted.json",
            "00000000000000000006.00000000000000000009.compacted.json",
        ]));
        let pieces = |target| {
            let s = LogSegment::build(&listed, None, target).unwrap();
            s.pieces
                .iter()
                .map(|p| p.name.trim_start_matches('0').to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            pieces(Some(3)),
            [".json", "1.00000000000000000002.compacted.json", "3.json"]
        );
        let newest = pieces(None);
        assert_eq!(
            newest,
            [
                ".json",
                "1.00000000000000000004.compacted.json",
                "5.json",
                "6.json",
                "7.json"
            ]
        );
        // A compaction that begins below the checkpoint covers versions of the checkpoint.
        let cp = CheckpointFiles {
            version: 1,
            files: vec![],
        };
        let s = LogSegment::build(&listed, Some(cp), None).unwrap();
        assert_eq!(s.pieces.len(), 3);
        // It never excuses a missing commit.
        listed.retain(|n| n.kind != LogFile::Commit || n.version != 2);
        assert_eq!(
            LogSegment::build(&listed, None, None).unwrap_err().kind(),
            Kind::CorruptLog
        );
    }

    #[test]
    fn cleanup_keeps_what_a_promised_version_needs() {
        // P063
        let mut listed = commits(0..6);
        for (n, t) in listed.iter_mut().zip([10, 50, 20, 30, 70, 80]) {
            n.modified_ms = t;
        }
        listed.extend(names(&[
            "00000000000000000001.checkpoint.parquet",
            "00000000000000000003.checkpoint.parquet",
            "00000000000000000002.crc",
            "00000000000000000003.crc",
            "00000000000000000003.00000000000000000004.compacted.json",
            "00000000000000000004.00000000000000000005.compacted.json",
        ]));
        // Times only grow: version 3 counts as 52.
        let until: Vec<_> = [9, 10, 51, 52, 99].iter().map(|t| newest_until(&listed, *t)).collect();
        assert_eq!(until, [None, Some(0), Some(2), Some(3), Some(5)]);
        let gone: Vec<String> = obsolete(&listed, 3).into_iter().map(|n| n.name.to_string()).collect();
        assert_eq!(
            gone,
            [
                "00000000000000000000.json",
                "00000000000000000001.json",
                "00000000000000000002.json",
                "00000000000000000001.checkpoint.parquet",
                "00000000000000000002.crc",
                "00000000000000000003.00000000000000000004.compacted.json",
            ]
        );
    }

    #[test]
    fn times_only_grow() {
        // P081
        let mut c = commits(0..3);
        for (n, t) in c.iter_mut().zip([10, 5, 11]) {
            n.modified_ms = t;
        }
        assert_eq!(monotone_times(&c), [(0, 10), (1, 11), (2, 12)]);
    }
}
