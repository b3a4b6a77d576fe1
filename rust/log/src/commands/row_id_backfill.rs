//! Row ids for the files of a table that gets row tracking later (P140, P141): first the feature is
//! supported, so that every writer knows it; then old files get ids, a bounded number per commit;
//! then the property may promise that all rows have one. Also the way back. Each commit leaves a
//! sound table; calling again continues an interrupted backfill.

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

/// Files per commit: about ten megabytes of log.
const FILES_IN_A_COMMIT: usize = 10_000;
/// Commits beyond those that the files of the first pass need: for files that other writers add
/// meanwhile.
const SPARE_COMMITS: usize = 10;

/// The goal of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowIds {
    /// Files without ids get ids.
    Assigned,
    /// Files with ids lose them; writers must have stopped assigning ids.
    Taken,
}

impl RowIds {
    fn operation(self) -> &'static str {
        match self {
            RowIds::Assigned => row_tracking::BACKFILL,
            RowIds::Taken => row_tracking::UNBACKFILL,
        }
    }

    /// Whether a file isn't in the wanted state yet.
    fn waits(self, base_row_id: Option<i64>) -> bool {
        base_row_id.is_some() == (self == RowIds::Taken)
    }
}

/// Assigns row ids to all live files, or removes them; returns a version in which all files are in
/// the wanted state. `settings` are those of every commit.
///
/// Errors: `UnsupportedFeature` for files whose statistics lack the number of rows: nothing is
/// committed then.
pub(crate) async fn number_files(store: &Store, base: Snapshot, settings: &Staged, to: RowIds) -> Result<Snapshot> {
    let first = waiting(&base, to).await?;
    first.check_counted()?;
    let most = first.count / FILES_IN_A_COMMIT + SPARE_COMMITS;
    let mut now = match to {
        RowIds::Assigned => supported(store, base, settings).await?,
        RowIds::Taken => base,
    };
    for batch in 0..=most {
        let left = waiting(&now, to).await?;
        if left.count == 0 {
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

/// Supports the feature, so that files added from now on have ids.
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

/// Live files that aren't in the wanted state yet.
#[derive(Default)]
struct Waiting {
    /// How many there are.
    count: usize,
    /// How many of them lack the number of rows that ids need, and one such file.
    uncounted: usize,
    example: Option<String>,
    /// The files for one commit, which adds them again.
    files: Vec<Add>,
}

async fn waiting(snapshot: &Snapshot, to: RowIds) -> Result<Waiting> {
    let mut out = Waiting::default();
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in (0..batch.num_rows()).filter(|r| to.waits(rows.base_row_id(*r))) {
            out.count += 1;
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
