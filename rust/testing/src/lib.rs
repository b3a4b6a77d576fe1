//! Proofs that need no store: deterministic simulations of writers, readers, checkpointers and
//! cleaners of one table, and of transactions over two tables of a catalog, that run the product's
//! own code over a simulated store; and an exhaustive model of the protocol. Development only.
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
mod schedule;
mod simulation;
mod store;
mod tables;
mod world;

pub use model::{Cast, Explored, GroupMistake, Mistake, explore, explore_tables};
pub use planted::Bug;
pub use report::Report;
pub use schedule::Outcome;
pub use simulation::run;
pub use tables::{GroupBug, run_tables};
