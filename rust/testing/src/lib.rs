//! Proofs that need no store: a deterministic simulation of writers, readers, checkpointers and
//! cleaners that run the product's own code over a simulated store, and an exhaustive model of the
//! protocol. Development only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "nothing of this is shipped; a failed expectation is a finding"
)]

mod actors;
mod book;
mod catalog;
mod chance;
mod checkpoints;
mod committer;
mod judge;
mod model;
mod planted;
mod report;
mod scenario;
mod simulation;
mod store;
mod world;

pub use model::{Cast, Explored, GroupMistake, Mistake, explore, explore_tables};
pub use planted::Bug;
pub use report::Report;
pub use simulation::{Outcome, run};
