//! The newest version of a table, which is asked for while its writer is busy with the rows.

use std::sync::{Mutex, PoisonError};

use deltaplane_error::{Error, Result};
use deltaplane_log::Snapshot;
use tokio::task::JoinHandle;

/// A listing of the log that runs in the background, from this process's last commit on.
pub struct NewestVersion(Mutex<Option<JoinHandle<Result<Option<Snapshot>>>>>);

impl NewestVersion {
    /// Begins to ask. `None` where nothing is known that a listing could begin with, and on a local
    /// store, where asking takes no time. Must be called inside a tokio runtime.
    pub fn ask(own: &Snapshot) -> Option<Self> {
        own.can_list_ahead().then(|| Self::asked(own))
    }

    pub(crate) fn asked(own: &Snapshot) -> Self {
        let own = own.clone();
        let asked = tokio::spawn(async move { own.newest_after_own().await });
        NewestVersion(Mutex::new(Some(asked)))
    }

    /// The answer, once: `None` if only opening the table can tell, and from the second call on.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn answer(&self) -> Result<Option<Snapshot>> {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match asked {
            Some(asked) => asked.await.unwrap_or_else(|e| {
                Err(Error::internal(format!(
                    "asking for the newest version was cut short: {e}"
                )))
            }),
            None => Ok(None),
        }
    }
}
