//! The Delta protocol as pure code: no async, no I/O, no clock, no randomness. Types, actions and
//! log names at the bottom; segment, replay and state above them; features, pruning and conflict
//! rules on top. It knows neither `log` and `data` nor a store.

pub mod actions;
pub mod arrow_types;
pub mod bloom_filters;
pub mod changes;
pub mod checksum;
pub mod conflict;
pub mod curves;
pub mod deletion_vectors;
pub mod expr;
pub mod features;
pub mod files;
pub mod hidden_columns;
pub mod hint;
pub mod layout;
pub mod mapping;
pub mod partition_values;
pub mod paths;
pub mod properties;
pub mod prune;
pub mod replay;
pub mod retained_files;
pub mod schema;
pub mod schema_changes;
pub mod segment;
pub mod state;
pub mod stats_columns;
pub mod tail;
pub mod z85;
pub mod zorder;

pub use deltaplane_error::{Error, Kind, Result};
