//! Plans of Spark scans: the filters of Catalyst become predicates, the files that can hold rows
//! become the bytes that the file index of Spark reads. Splits and the distributed replay of large
//! logs. No Python.
//!
//! ```
//! use deltaplane_spark_plan::question::{Answer, Asked, JvmValue, Question};
//!
//! let question = Question::parse("size\0\0Europe/Berlin\x0042")?;
//! assert_eq!((question.asked, question.known_version), (Asked::Size, Some(42)));
//! assert_eq!(Answer::Size(1024).to_jvm()?, JvmValue::Text("1024".to_owned()));
//! # Ok::<(), deltaplane_error::Error>(())
//! ```

mod blob;
mod columns;
pub mod plan;
pub mod question;
pub mod replay;
mod row;
pub mod splits;
#[cfg(test)]
mod tests;

pub use columns::{relation_partition_columns, relation_schema};
