//! Sorts rows by keys that are compared as bytes: sorted runs, in memory or in temporary files, and
//! their merging. Knows neither tables nor stores.

mod runs;
mod sorted;

pub use runs::{Keyed, Run, SpilledRows, SpilledRun, gather, merge};
pub use sorted::Sorted;
