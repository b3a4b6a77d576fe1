//! Plans of Spark scans: the filters of Catalyst become predicates, the files that can hold rows become
//! the bytes that the file index of Spark reads. Splits and the distributed replay of large logs. No Python.

mod blob;
mod columns;
pub mod plan;
pub mod question;
pub mod replay;
mod row;
pub mod splits;

pub use columns::{relation_partition_columns, relation_schema};
