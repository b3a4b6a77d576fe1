//! The state of a checkpoint's copy in the local cache, shared by all versions that start from that
//! checkpoint. `local_copy` looks the copy up and writes it.

use std::sync::Arc;

use deltaplane_store::Store;
use tokio::sync::Mutex;

use crate::checkpoint::reader::CheckpointReader;

/// The copy of one checkpoint, shared by the versions that start from it.
#[derive(Clone, Default)]
pub(crate) struct CheckpointCopy(pub(crate) Arc<Mutex<Sought>>);

/// The state of the search for a copy.
#[derive(Default)]
pub(crate) enum Sought {
    /// No plan has asked for the copy yet.
    #[default]
    NotYet,
    /// There is no copy, and none will be written.
    InVain,
    /// The copy.
    Found(Copied),
}

/// A copy.
#[derive(Clone)]
pub(crate) struct Copied {
    pub(crate) reader: Arc<CheckpointReader>,
    /// The cache and the name under which it has the copy.
    pub(crate) made: Store,
    pub(crate) key: String,
}
