//! Splits of scans for readers in Python workers: both pickle, the snapshot stays on the driver.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
pub(crate) use deltaplane_spark_plan::splits::of_parts as split_parts;
use deltaplane_spark_plan::splits::{self, Split as CoreSplit, SplitScan as CoreScan};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::arrow_bridge::ArrowStream;
use crate::snapshot::{Options, Snapshot, store};
use crate::values::predicate::{Predicate, expr};

/// Some files of a scan, which one task reads.
#[boundary(pickles)]
pub(crate) struct Split(CoreSplit);

pub(crate) fn splits_of(splits: Vec<CoreSplit>) -> Vec<Split> {
    splits.into_iter().map(Split).collect()
}

/// What is the same for all splits of a scan.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SplitScan(CoreScan);

#[boundary(pickles)]
impl SplitScan {
    /// A version's rows that meet a condition, or changed rows with the columns of changes.
    #[staticmethod]
    #[pyo3(signature = (snapshot, predicate = None, changes = false))]
    fn of(snapshot: &Snapshot, predicate: Option<&Predicate>, changes: bool) -> Result<Self> {
        let predicate = expr(predicate).cloned();
        let scan = match changes {
            true => CoreScan::of_changes(&snapshot.0, predicate)?,
            false => CoreScan::of_rows(&snapshot.0, predicate),
        };
        Ok(SplitScan(scan))
    }

    /// The rows of one split with these columns, on any machine.
    fn rows(&self, location: &str, options: Options, columns: Vec<String>, split: &Split) -> Result<ArrowStream> {
        let rows = self.0.read(store(location, options)?, columns, split.0.clone());
        rows.map(Into::into)
    }
}

/// The files that can match a predicate, in splits of about `target_bytes` of files each.
#[boundary]
pub(crate) fn scan_splits(snapshot: &Snapshot, predicate: Option<&Predicate>, target_bytes: u64) -> Result<Vec<Split>> {
    block_on(splits::splits(&snapshot.0, expr(predicate), target_bytes)).map(splits_of)
}

/// The files with the rows that the versions from `first` up to the snapshot's changed, likewise.
#[boundary]
pub(crate) fn change_splits(
    snapshot: &Snapshot,
    first: u64,
    predicate: Option<&Predicate>,
    target_bytes: u64,
) -> Result<Vec<Split>> {
    let splits = splits::change_splits(&snapshot.0, first, expr(predicate), target_bytes);
    block_on(splits).map(splits_of)
}
