//! Operations that need the log and the rows of a table: scans, change feeds, writes, commands that
//! rewrite rows, OPTIMIZE. No Python: the boundary and Rust programs call the same functions.
//!
//! A write is planned ([`write_job::WriteJob`]), its files are written, also by other processes
//! ([`write_job::write_files`]), and then committed. A [`scan::Scan`] reads the rows of one
//! version. `examples/scan.rs` also prunes, replaces and deletes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use deltaplane_log::{WriteMode, WriteRequest};
//! use deltaplane_operations::scan::{Scan, ScanRequest};
//! use deltaplane_operations::write_job::{WriteJob, write_files};
//! use deltaplane_protocol::arrow_types::from_arrow_schema;
//! use deltaplane_store::{Location, Options, Store, block_on};
//! use futures::TryStreamExt;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(&Location::parse("memory://documented")?, &Options::default())?;
//! let ids = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
//! let rows = RecordBatch::try_from_iter([("id", ids)])?;
//! let (schema, request) = (from_arrow_schema(&rows.schema())?, WriteRequest::new(WriteMode::Append));
//! let read: Vec<RecordBatch> = block_on(async {
//!     let job = WriteJob::begin(&store, None, schema, request).await?;
//!     let adds = write_files(store.clone(), &job.spec()?, [Ok(rows.clone())].into_iter(), 0).await?;
//!     let committed = job.commit(adds).await?.expect("an append is never left out");
//!     Scan::new(&committed.snapshot, ScanRequest::default())?.stream().try_collect().await
//! })?;
//! assert_eq!((read.len(), read[0].column(0)), (1, rows.column(0)));
//! # Ok(())
//! # }
//! ```

pub mod add_view;
pub mod c_stream;
pub mod changes;
pub mod core_functions;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests fail by it")]
#[path = "../../store/tests/contract/counted.rs"]
mod counted;
pub mod decimals;
pub mod error_classes;
pub mod event_buffer;
pub mod file_inventory;
pub mod file_list;
pub mod file_sets;
pub mod incoming;
pub mod key_index;
pub mod key_lookup;
pub mod newest_version;
pub mod optimize;
pub mod panics;
pub mod rewrite;
pub mod row_source;
pub mod scan;
pub mod strict_math;
pub mod string_list;
pub mod struct_shapes;
pub mod table_check;
pub mod table_types;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "helpers of tests fail by it")]
mod testing;
pub mod vector_masks;
pub mod write_job;
