//! Where a table is: bytes and atomicity over local disk, memory and object stores. Owns locations,
//! options, put-if-absent, listing, retries and the runtime; it must know nothing of Delta.

mod backend;
mod backend_objects;
mod cache;
mod credentials;
mod dry_run;
mod error;
mod external_files;
mod length_check;
mod limited_parts;
mod limits;
mod location;
mod options;
mod per_process;
mod plugin_store;
mod retry;
mod retry_limit;
mod runtime;
mod session;
mod store;
mod stores;
mod traced_work;

// Needed by implementations of `Backend`.
pub use async_trait::async_trait;
pub use backend::{Backend, Level, Listing, ObjectInfo, ProbeResult, PutDraft, PutOutcome, Sink};
pub use backend_objects::objects_of;
pub use cache::{CacheContents, CachedTable, Cleared, cache_contents, cache_dir, clear_cache};
pub use credentials::{CredentialSource, ProvidedFields, set_credential_source};
pub use location::{Location, Scheme};
pub use object_store::ObjectStore;
pub use object_store::path::Path as ObjectPath;
pub use options::Options;
pub use per_process::PerProcess;
pub use plugin_store::{PluginCall, PluginReply, PluginStore, StorePlugin};
pub use retry_limit::{begin_thread_limit, end_thread_limit, retry_limit, spawn_task, with_retry_limit};
pub use runtime::{block_on, finish_background, handle, pause_in_background, run_in_background};
pub use session::{Session, open_in_session};
pub use store::{Store, Upload};
pub use stores::{Opener, register_scheme};
pub use traced_work::{
    RunningWork, TracedWork, begin_traced, enter_operation, take_traced_work, thread_operation, with_operation,
};
