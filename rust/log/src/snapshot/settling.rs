//! An own commit that the store is still being asked for: its snapshot becomes known later.

use std::future::Future;
use std::process;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::Snapshot;

/// The snapshot of an own commit as the store shows it, once it has answered.
#[derive(Clone)]
pub(crate) struct Settling {
    /// A forked child has none of its parent's tasks.
    pid: u32,
    snapshot: Shared<BoxFuture<'static, Option<Snapshot>>>,
}

impl Settling {
    /// Of a task of this process, which returns `None` if the store didn't answer.
    pub(crate) fn new(snapshot: impl Future<Output = Option<Snapshot>> + Send + 'static) -> Self {
        Settling {
            pid: process::id(),
            snapshot: snapshot.boxed().shared(),
        }
    }

    /// `None` if the store didn't answer, and in a forked child.
    pub(crate) async fn settled(&self) -> Option<Snapshot> {
        match self.pid == process::id() {
            true => self.snapshot.clone().await,
            false => None,
        }
    }
}
