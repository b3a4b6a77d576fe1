//! WHERE a table lives: bytes and atomicity over local disk, memory and object stores.
//! Owns locations, options, put-if-absent, listing, retries and the runtime; it must know nothing
//! of Delta. `log` and `data` call it, `python` hands it locations and options.

mod backend;
mod error;
mod location;
mod options;
mod retry;
mod runtime;
mod store;
mod stores;

pub use backend::{ObjectInfo, PutOutcome};
pub use location::{Location, Scheme};
pub use options::Options;
pub use runtime::{block_on, handle};
pub use store::{Store, Upload};
