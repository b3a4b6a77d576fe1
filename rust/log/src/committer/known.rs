//! What a catalog has said of a table's commits, checked: a catalog isn't trusted to name files
//! outside of the staging folder, to leave gaps, or to answer without bound.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::paths::{self, LOG_DIR};
use deltaplane_store::ObjectInfo;

use crate::committer::{Committer, Content, LogTail, Proposal, Ratified};

/// Most unpublished commits of an answer. Catalogs bound them at some ten.
const MOST_COMMITS: usize = 10_000;

/// The ratified commits as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The newest ratified version.
    pub latest: Option<u64>,
    /// All versions up to this one are published.
    pub published: Option<u64>,
    /// The catalog knows that all versions up to this one are published.
    pub reported: Option<u64>,
    /// The catalog takes no reports of this client.
    pub must_not_report: bool,
    commits: BTreeMap<u64, Ratified>,
}

impl Known {
    /// Takes in an answer about the versions from `from` on. An older answer than the newest one
    /// takes nothing back.
    ///
    /// Errors: `CorruptLog` if it can't be true.
    pub(crate) fn learn(&mut self, from: u64, tail: LogTail) -> Result<()> {
        check(&tail)?;
        let shown = tail.commits.first().map(|c| c.version);
        // What the catalog doesn't show any more is published.
        self.commits
            .retain(|v, _| *v < from || tail.latest.is_none_or(|latest| *v > latest) || shown.is_some_and(|s| *v >= s));
        self.commits.extend(tail.commits.into_iter().map(|c| (c.version, c)));
        self.latest = self.latest.max(tail.latest);
        self.published = self.published.max(tail.published);
        self.reported = self.reported.max(tail.published);
        Ok(())
    }

    /// A proposal was ratified.
    pub(crate) fn ratified(&mut self, proposal: Proposal) {
        self.latest = self.latest.max(Some(proposal.version));
        self.reported = self.reported.max(proposal.published);
        if matches!(proposal.content, Content::Published(_)) {
            self.published = self.published.max(Some(proposal.version));
            self.reported = self.reported.max(Some(proposal.version));
            return;
        }
        self.commits.insert(
            proposal.version,
            Ratified {
                version: proposal.version,
                content: proposal.content,
                timestamp_ms: proposal.timestamp_ms,
            },
        );
    }

    /// Whether a report that this version is published would be news to the catalog.
    pub(crate) fn lacks_report(&self, version: u64) -> bool {
        !self.must_not_report && self.reported < Some(version)
    }

    /// The catalog's commit of a version, if it holds one.
    pub(crate) fn commit(&self, version: u64) -> Option<&Ratified> {
        self.commits.get(&version)
    }

    /// The catalog's commits from this version on.
    pub(crate) fn commits_from(&self, version: u64) -> impl Iterator<Item = &Ratified> {
        self.commits.range(version..).map(|(_, commit)| commit)
    }
}

/// A ratified commit as a listing of the log shows it: under the name that it will be published
/// under.
pub(crate) fn as_listed(commit: &Ratified) -> ObjectInfo {
    let (size_bytes, modified_ms) = match &commit.content {
        Content::Staged(file) | Content::Published(file) => (file.size_bytes, file.modified_ms),
        Content::Inline(bytes) => (bytes.len() as u64, commit.timestamp_ms),
    };
    ObjectInfo {
        key: paths::commit(commit.version),
        size_bytes,
        modified_ms,
        etag: None,
    }
}

/// The catalog's name added to an error of it.
pub(crate) fn at_catalog(committer: &dyn Committer, e: &Error) -> Error {
    let named = Error::new(e.kind(), format!("{}: {}", committer.name(), e.message()));
    match e.version() {
        Some(version) => named.with_version(version),
        None => named,
    }
}

fn check(tail: &LogTail) -> Result<()> {
    let lie = |what: String| {
        Err(Error::corrupt_log(format!(
            "the catalog's answer can't be true: {what}"
        )))
    };
    let Some(latest) = tail.latest else {
        return match tail.commits.is_empty() && tail.published.is_none() {
            true => Ok(()),
            false => lie("it names commits of a table without a version".to_owned()),
        };
    };
    if i64::try_from(latest).is_err() {
        return lie(format!("version {latest} is larger than any version"));
    }
    if tail.published > tail.latest {
        return lie("versions are published that weren't ratified".to_owned());
    }
    if tail.commits.len() > MOST_COMMITS {
        return lie(format!("it has {} unpublished commits", tail.commits.len()));
    }
    let Some(last) = tail.commits.last() else { return Ok(()) };
    if last.version != latest {
        return lie(format!(
            "its newest version is {latest}, its newest commit {}",
            last.version
        ));
    }
    if let Some((a, b)) = tail
        .commits
        .iter()
        .zip(tail.commits.iter().skip(1))
        .find(|(a, b)| a.version + 1 != b.version)
    {
        return lie(format!("version {} follows version {}", b.version, a.version));
    }
    for commit in &tail.commits {
        match &commit.content {
            Content::Staged(file) if paths::staged_version(&file.name) == Some(commit.version) => {}
            Content::Inline(_) => {}
            Content::Staged(_) | Content::Published(_) => {
                return lie(format!(
                    "the commit of version {} isn't one of {LOG_DIR}/{}",
                    commit.version,
                    paths::STAGED_DIR
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use deltaplane_error::Kind;

    use super::*;
    use crate::committer::StagedFile;

    fn staged(version: u64, name: &str) -> Ratified {
        let file = StagedFile {
            name: name.to_owned(),
            size_bytes: 1,
            modified_ms: 0,
        };
        Ratified {
            version,
            content: Content::Staged(file),
            timestamp_ms: 0,
        }
    }

    fn own(version: u64) -> Ratified {
        staged(
            version,
            &paths::staged_name(version, "0d1cbc6c-e164-4b51-b2d4-3f7b1e0c51a3"),
        )
    }

    fn tail(latest: u64, commits: Vec<Ratified>) -> LogTail {
        LogTail {
            latest: Some(latest),
            commits,
            published: None,
        }
    }

    #[test]
    fn an_answer_that_cannot_be_true_is_refused() {
        // P158
        let outside = |name: &str| tail(3, vec![staged(3, name)]);
        let far = LogTail {
            published: Some(9),
            ..tail(3, Vec::new())
        };
        let other_version = paths::staged_name(4, "0d1cbc6c-e164-4b51-b2d4-3f7b1e0c51a3");
        let lies = [
            tail(u64::MAX, Vec::new()),
            tail(3, vec![own(2)]),
            tail(3, vec![own(1), own(3)]),
            tail(3, vec![own(3), own(3)]),
            outside("../../other/_delta_log/00000000000000000003.json"),
            outside("00000000000000000003.json"),
            outside(&other_version),
            far,
            LogTail {
                latest: None,
                ..tail(0, vec![own(0)])
            },
        ];
        for lie in lies {
            let refused = Known::default().learn(0, lie.clone()).unwrap_err();
            assert_eq!(refused.kind(), Kind::CorruptLog, "{lie:?}");
        }
    }

    #[test]
    fn late_answers_take_nothing_back() {
        let mut known = Known::default();
        known.learn(0, tail(5, vec![own(4), own(5)])).unwrap();
        known.ratified(Proposal {
            version: 6,
            content: own(6).content,
            timestamp_ms: 0,
            txn_id: "6".to_owned(),
            protocol: None,
            metadata: None,
            domains: Vec::new(),
            published: Some(3),
        });
        assert!(!known.lacks_report(3) && known.lacks_report(4));
        known.learn(0, tail(5, vec![own(5)])).unwrap();
        assert_eq!(known.latest, Some(6));
        let held: Vec<u64> = known.commits_from(0).map(|c| c.version).collect();
        assert_eq!(held, [5, 6], "version 4 was published meanwhile");
        known.learn(7, tail(6, Vec::new())).unwrap();
        assert!(known.commit(6).is_some(), "nothing was asked about it");
        known.learn(0, tail(6, Vec::new())).unwrap();
        assert!(known.commit(6).is_none());
    }
}
