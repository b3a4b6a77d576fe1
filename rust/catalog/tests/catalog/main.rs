//! The catalog's store, server and client together, over SQLite and a real PostgreSQL.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

mod hostile;
mod lifecycle;
mod managed_tables;
mod postgres;
mod proxy;
mod races;
mod rights;
mod support;
mod transactions;
