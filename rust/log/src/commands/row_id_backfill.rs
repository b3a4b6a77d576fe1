//! Row ids for the files of a table that gets row tracking late (P140, P141): first every writer
//! must know the feature, then old files get ids, a bounded number in each commit, then the
//! property may say that all rows have one; and the way back. Each commit leaves a sound table;
//! what was begun is gone on with by calling again.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::features::{self, Directives, row_tracking};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_store::Store;
use futures::TryStreamExt;
use serde_json::json;
use tracing::info;

use crate::transaction::{Operation, Staged, commit};
use crate::{PlanColumns, Snapshot};

/// Files that one commit numbers: about ten megabytes of log.
const FILES_IN_A_COMMIT: usize = 10_000;
/// Commits beyond those that the files of the first look need: for files of writers who were still
/// on their way.
const SPARE_COMMITS: usize = 10;

/// What becomes of the files' row ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowIds {
    /// Files without ids get some.
    Assigned,
    /// Files with ids lose them; writers must have been told to give no more.
    Taken,
}

impl RowIds {
    fn operation(self) -> &'static str {
        match self {
            RowIds::Assigned => row_tracking::BACKFILL,
            RowIds::Taken => row_tracking::UNBACKFILL,
        }
    }

    /// Whether a file isn't yet as it shall be.
    fn waits(self, base_row_id: Option<i64>) -> bool {
        base_row_id.is_some() == (self == RowIds::Taken)
    }
}

/// Gives row ids to all live files, or takes them away; returns a version in which all are as
/// wanted. `settings` holds what every commit carries.
///
/// Errors: `UnsupportedFeature` for files without the statistic that says how many rows they have:
/// nothing is committed then.
pub(crate) async fn number_files(store: &Store, base: Snapshot, settings: &Staged, to: RowIds) -> Result<Snapshot> {
    let first = waiting(&base, to).await?;
    first.check_counted()?;
    let most = first.found / FILES_IN_A_COMMIT + SPARE_COMMITS;
    let mut now = match to {
        RowIds::Assigned => supported(store, base, settings).await?,
        RowIds::Taken => base,
    };
    for batch in 0..=most {
        let left = waiting(&now, to).await?;
        if left.found == 0 {
            info!(table = %store.location(), version = now.version(), commits = batch, "row ids: {to:?}");
            return Ok(now);
        }
        left.check_counted()?;
        let staged = Staged {
            adds: left.files,
            operation: Operation {
                name: to.operation().to_owned(),
                parameters: [("batchId".to_owned(), json!(batch.to_string()))].into(),
                ..Operation::default()
            },
            ..settings.clone()
        };
        now = commit(store, Some(now), &staged).await?.snapshot;
    }
    Err(Error::internal(format!(
        "other writers add files faster than {most} commits can number them: they don't keep the table's features; stop them and run this again"
    )))
}

/// The table with the feature supported, so that files added from now on have ids.
async fn supported(store: &Store, base: Snapshot, settings: &Staged) -> Result<Snapshot> {
    let state = base.state();
    let mut asked = Directives::default();
    row_tracking::ask(&mut asked);
    let protocol = features::protocol_with(Some(state.protocol()), state.view(), &asked)?;
    if protocol == *state.protocol() {
        return Ok(base);
    }
    features::check_write(&protocol, state.view())?;
    let staged = Staged {
        operation: Operation {
            name: "UPGRADE PROTOCOL".to_owned(),
            parameters: [("newProtocol".to_owned(), json!(json!(protocol).to_string()))].into(),
            ..Operation::default()
        },
        protocol: Some(protocol),
        ..settings.clone()
    };
    Ok(commit(store, Some(base), &staged).await?.snapshot)
}

/// Live files whose row ids aren't as wanted.
#[derive(Default)]
struct Waiting {
    /// How many there are.
    found: usize,
    /// How many of them would have to say how many rows they have, and don't; and one such.
    uncounted: usize,
    example: Option<String>,
    /// As many as fit into a commit, as it adds them again.
    files: Vec<Add>,
}

async fn waiting(snapshot: &Snapshot, to: RowIds) -> Result<Waiting> {
    let mut out = Waiting::default();
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in (0..batch.num_rows()).filter(|r| to.waits(rows.base_row_id(*r))) {
            out.found += 1;
            if to == RowIds::Assigned && rows.num_records(row).is_none() {
                out.uncounted += 1;
                out.example.get_or_insert(rows.path(row)?.to_owned());
            } else if out.files.len() < FILES_IN_A_COMMIT {
                out.files.push(Add {
                    data_change: false,
                    base_row_id: None,
                    default_row_commit_version: None,
                    ..rows.add(row)?
                });
            }
        }
    }
    Ok(out)
}

impl Waiting {
    fn check_counted(&self) -> Result<()> {
        let Some(path) = &self.example else { return Ok(()) };
        Err(Error::unsupported_feature(format!(
            "{} files of the table don't say in the log how many rows they have, so that these can't be numbered (P140, DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS): let delta-spark run ANALYZE TABLE … COMPUTE DELTA STATISTICS first, or write the table anew",
            self.uncounted
        ))
        .with_path(path.clone()))
    }
}
