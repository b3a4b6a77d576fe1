//! The seam between the log and what decides commits: a committer answers proposals of writers, and
//! tells readers which commits are ratified (P158). The file system decides by put-if-absent and
//! needs none of this; a catalog implements [`Committer`].

use std::time::Duration;

use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata, Protocol};
use deltaplane_store::async_trait;

/// What decides the commits of one catalog-managed table. All methods may be called at the same
/// time, also in a forked child.
///
/// An implementation promises: a version is ratified at most once, and after its predecessor;
/// `log_tail` shows every version that `propose` ratified before it was asked; a ratified commit is
/// shown until `published` was called with its version, or with a later one.
#[async_trait]
pub trait Committer: Send + Sync {
    /// The catalog and the table as messages name them, without any credential. Equal names mean
    /// the same table of the same catalog.
    fn name(&self) -> String;

    /// Proposes a version, and waits for the decision. A proposal may be repeated: the same version
    /// and content is answered by `Ratified` or `Taken`, and never ratified twice.
    ///
    /// # Errors
    /// The proposal was certainly not ratified, and never will be: `StoreDenied` for missing
    /// rights, `InvalidArgument` for what the catalog refuses. `StoreUnavailable` is taken for
    /// [`Decision::Unknown`].
    async fn propose(&self, proposal: &Proposal) -> Result<Decision>;

    /// The newest ratified version, and the ratified commits from version `from` on that may not be
    /// published yet.
    ///
    /// # Errors
    /// `TableNotFound` if the catalog doesn't have the table any more; `StoreUnavailable`;
    /// `StoreDenied`.
    async fn log_tail(&self, from: u64) -> Result<LogTail>;

    /// Tells that all versions up to this one are published, so that the catalog needn't hold their
    /// commits any more. May come more than once, and late.
    ///
    /// # Errors
    /// As [`log_tail`](Self::log_tail); the next call may tell the same.
    async fn published(&self, version: u64) -> Result<()>;

    /// How long after a version was published the catalog is notified of it by
    /// [`published`](Self::published), if no later proposal did so: zero for at once, before the
    /// commit returns. `None`, the default, leaves it to the next proposal.
    fn report_delay(&self) -> Option<Duration> {
        None
    }

    /// Whether commits of this process to the table propose one after another instead of racing:
    /// the next one continues from the version of the one before it. By default they race.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Whether the catalog lets this client do such work (P158). Nothing is permitted by default.
    fn permits(&self, _work: Maintenance) -> bool {
        false
    }

    /// The largest commit in bytes that the catalog takes inline; larger ones are staged as files.
    /// By default it takes none.
    fn most_inline_bytes(&self) -> u64 {
        0
    }
}

/// A commit that a writer proposes.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Its version: the successor of the newest ratified one, as the writer knows it.
    pub version: u64,
    /// Where its content is.
    pub content: Content,
    /// Its in-commit timestamp, ms since the epoch.
    pub timestamp_ms: i64,
    /// The unique id of its transaction: `txnId` of the commit info.
    pub txn_id: String,
    /// Its protocol, if it changes it; the first version always has one.
    pub protocol: Option<Protocol>,
    /// Its metadata, if it changes them; the first version always has some.
    pub metadata: Option<Metadata>,
    /// Domains that it sets or removes.
    pub domains: Vec<DomainMetadata>,
    /// The highest version that the writer knows to be published: saves a call of
    /// [`Committer::published`].
    pub published: Option<u64>,
}

/// Where the content of a commit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// In a file of `_delta_log/_staged_commits`.
    Staged(StagedFile),
    /// In the catalog.
    Inline(Bytes),
    /// In the published file already: the first version of a table, whose creation the catalog
    /// completes when it is proposed.
    Published(StagedFile),
}

/// A file with a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// Bare name: `<version, 20 digits>.<uuid>.json`, of a published file without the uuid.
    pub name: String,
    /// Its length.
    pub size_bytes: u64,
    /// When it was written, ms since the epoch.
    pub modified_ms: i64,
}

/// The catalog's answer to a proposal.
#[derive(Debug)]
pub enum Decision {
    /// The proposal is the version now.
    Ratified,
    /// The version was ratified before: with another commit, or with this one by an earlier call
    /// whose answer was lost. The caller reads the commit to know which. The log tail from this
    /// version on, if the catalog gave it with its answer.
    Taken(Option<LogTail>),
    /// The catalog holds as many unpublished commits as it wants to; it ratified nothing. The
    /// caller publishes, and proposes again.
    PublishFirst,
    /// The answer was lost: the proposal may have been ratified, or may be later. The caller looks
    /// it up.
    Unknown(Error),
}

/// The newest commits of a table, as its catalog has ratified them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogTail {
    /// The newest ratified version; `None` while the table's first version isn't.
    pub latest: Option<u64>,
    /// The ratified commits from the asked version on that the catalog holds, ascending and without
    /// a gap, up to `latest`. Some may be published.
    pub commits: Vec<Ratified>,
    /// The highest version up to which the catalog knows all versions to be published.
    pub published: Option<u64>,
}

/// A ratified commit that the catalog holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ratified {
    /// Its version.
    pub version: u64,
    /// Where its content is; never `Published`.
    pub content: Content,
    /// Its in-commit timestamp, ms since the epoch.
    pub timestamp_ms: i64,
}

/// Work on a table that its catalog has to permit (P158). Commits, checkpoints, compactions of the
/// log and checksums need no permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance {
    /// Deleting old commits and checkpoints.
    LogCleanup,
    /// Deleting data files that no version names.
    Vacuum,
    /// Rewriting files without changing rows: OPTIMIZE, REORG.
    Optimize,
}
