//! What is known of a checkpoint's copy in the local cache, for all versions that start from that
//! checkpoint. `local_copy` looks for it and makes it.

use std::sync::Arc;

use deltaplane_store::Store;
use tokio::sync::Mutex;

use crate::checkpoint::reader::CheckpointReader;

/// What became of the copy of one checkpoint. The versions that start from it share it.
#[derive(Clone, Default)]
pub(crate) struct CheckpointCopy(pub(crate) Arc<Mutex<Sought>>);

/// How far the search for it is.
#[derive(Default)]
pub(crate) enum Sought {
    /// No plan has asked for it.
    #[default]
    NotYet,
    /// There is none, and none is to be made.
    InVain,
    /// Here it is.
    Found(Copied),
}

/// A copy.
#[derive(Clone)]
pub(crate) struct Copied {
    pub(crate) reader: Arc<CheckpointReader>,
    /// Where the cache has it, and under which name.
    pub(crate) made: Store,
    pub(crate) key: String,
}
