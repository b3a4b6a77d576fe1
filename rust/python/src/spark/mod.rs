//! What Spark's scans ask of the core: plans, splits for its tasks, distributed replay.

pub(crate) mod plan;
pub(crate) mod replay;
pub(crate) mod splits;
