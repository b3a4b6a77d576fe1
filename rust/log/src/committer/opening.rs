//! One answer of the catalog for one opening of a table, however often the opening lists the log.

use std::future::Future;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::committer::managed::Managed;
use crate::listing::{is_missing_place, missing_place};

/// The newest ratified version, or the error of asking for it.
pub(super) type Asked = Shared<BoxFuture<'static, Result<Option<u64>, Arc<Error>>>>;

tokio::task_local! {
    /// The answer for the opening that runs.
    static ASKED: Asked;
}

/// An opening for which the catalog is asked at most once, not before it begins.
pub(crate) fn with_one_answer<T>(managed: Arc<Managed>, opening: impl Future<Output = T>) -> impl Future<Output = T> {
    let asked = async move { managed.ask_tail(0).await.map_err(Arc::new) };
    ASKED.scope(asked.boxed().shared(), opening)
}

/// The newest ratified version, with the commits from `from` on known: by the answer of the opening
/// that runs, or by asking the catalog.
pub(super) async fn latest(managed: &Managed, from: u64) -> Result<Option<u64>> {
    match ASKED.try_with(Clone::clone) {
        Ok(asked) => {
            let answer = asked.await;
            let answer = answer.map_err(|e| {
                let own = Error::new(e.kind(), e.message().to_owned());
                if is_missing_place(&e) { missing_place(own) } else { own }
            })?;
            // It may have been asked again since.
            Ok(answer.max(managed.known().latest))
        }
        Err(_) => managed.ask_tail(from).await,
    }
}
