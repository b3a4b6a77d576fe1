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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deltaplane_error::Kind;
    use deltaplane_log::{Committed, WriteMode, WriteRequest};
    use deltaplane_protocol::arrow_types::from_arrow_schema;
    use deltaplane_protocol::schema::StructType;
    use deltaplane_store::{Store, block_on, finish_background};
    use serde_json::json;

    use super::*;
    use crate::counted::{self, Asked};
    use crate::testing::rows;
    use crate::write_job::{WriteJob, write_files};

    /// A store as S3 is one for commits, and what it is asked.
    fn stores(name: &str) -> (Store, Store, Asked) {
        counted::at(&format!("s3://{name}/t"))
    }

    fn schema() -> StructType {
        from_arrow_schema(&rows(&[]).schema()).unwrap()
    }

    fn append() -> WriteRequest {
        WriteRequest::new(WriteMode::Append)
    }

    async fn commit(store: &Store, job: &WriteJob, ids: &[i64]) -> Result<Committed> {
        let files = write_files(store.clone(), &job.spec()?, [Ok(rows(ids))].into_iter(), 0).await?;
        Ok(job.commit(files).await?.unwrap())
    }

    /// A commit without knowledge of earlier ones.
    async fn committed(store: &Store, ids: &[i64]) -> Snapshot {
        let job = WriteJob::begin(store, None, schema(), append()).await.unwrap();
        commit(store, &job, ids).await.unwrap().snapshot
    }

    async fn set(store: &Store, properties: serde_json::Value) {
        let change = json!({"change": {"change": "set_properties", "properties": properties}, "commit": {}});
        deltaplane_log::alter(store, &serde_json::from_value(change).unwrap())
            .await
            .unwrap();
    }

    fn settled(asked: &Asked) -> Vec<String> {
        finish_background(Duration::from_secs(60));
        asked.take()
    }

    fn log_requests(asked: Vec<String>) -> Vec<String> {
        let is_log =
            |what: &String| what.contains("_delta_log") && !what.starts_with("put") && !what.starts_with("head");
        asked.into_iter().filter(is_log).collect()
    }

    #[test]
    fn a_job_begun_ahead_lists_the_log_once_and_commits_on_the_newest_version() {
        block_on(async {
            let (store, others, asked) = stores("ahead-once");
            committed(&store, &[1]).await;
            let own = committed(&store, &[2]).await;
            settled(&asked);
            let job = WriteJob::begin_ahead(&store, Some(&own), schema(), append())
                .await
                .unwrap();
            assert!(job.confirm(false).await.unwrap());
            assert_eq!(log_requests(settled(&asked)), ["list _delta_log"]);
            assert_eq!(commit(&store, &job, &[3]).await.unwrap().version, 2);
            assert_eq!(log_requests(settled(&asked)), Vec::<String>::new());
            // A version of another writer that changes nothing but rows is taken over.
            let job = WriteJob::begin_ahead(&store, Some(&own), schema(), append())
                .await
                .unwrap();
            assert!(job.confirm(false).await.unwrap());
            committed(&others, &[4]).await;
            let done = commit(&store, &job, &[5]).await.unwrap();
            assert_eq!((done.version, done.attempts), (4, 2));
        });
    }

    #[test]
    fn a_job_begun_ahead_is_refused_if_the_table_changed() {
        block_on(async {
            let (store, others, asked) = stores("ahead-changed");
            committed(&store, &[1]).await;
            let own = committed(&store, &[2]).await;
            set(&others, json!({"delta.appendOnly": "true"})).await;
            settled(&asked);
            let job = WriteJob::begin_ahead(&store, Some(&own), schema(), append())
                .await
                .unwrap();
            for _ in 0..2 {
                assert!(!job.confirm(false).await.unwrap());
            }
            let refused = commit(&store, &job, &[3]).await.err().unwrap();
            assert_eq!(refused.kind(), Kind::MetadataChanged);
            assert!(settled(&asked).iter().all(|what| !what.contains("put _delta_log")));
            assert_eq!(Snapshot::open(&others, None).await.unwrap().version(), 2);
        });
    }

    #[test]
    fn a_job_begun_ahead_commits_nothing_if_the_listing_fails() {
        block_on(async {
            let (store, others, asked) = stores("ahead-fails");
            committed(&store, &[1]).await;
            let own = committed(&store, &[2]).await;
            settled(&asked);
            asked.fail(Some("list"));
            let job = WriteJob::begin_ahead(&store, Some(&own), schema(), append())
                .await
                .unwrap();
            assert_eq!(job.confirm(false).await.err().unwrap().kind(), Kind::StoreUnavailable);
            asked.fail(None);
            assert_eq!(
                commit(&store, &job, &[3]).await.err().unwrap().kind(),
                Kind::MetadataChanged
            );
            assert_eq!(Snapshot::open(&others, None).await.unwrap().version(), 1);
        });
    }

    #[test]
    fn a_job_begins_on_an_answer_unless_it_is_outdated_or_missing() {
        block_on(async {
            let (store, others, asked) = stores("begin-on");
            committed(&store, &[1]).await;
            let own = committed(&store, &[2]).await;
            committed(&others, &[3]).await;
            settled(&asked);
            let newest = NewestVersion::ask(&own).unwrap();
            let begin = async |own: &Snapshot, newest: &NewestVersion| {
                WriteJob::begin_on(&store, Some(own), newest, schema(), append())
                    .await
                    .unwrap()
            };
            let job = begin(&own, &newest).await;
            assert_eq!(job.version().unwrap(), Some(2));
            assert_eq!(
                log_requests(settled(&asked))
                    .iter()
                    .filter(|what| what.starts_with("list"))
                    .count(),
                1
            );
            let later = commit(&store, &job, &[4]).await.unwrap().snapshot;
            settled(&asked);
            // The answer was taken: the store is asked again.
            assert_eq!(begin(&later, &newest).await.version().unwrap(), Some(3));
            assert_eq!(log_requests(settled(&asked)), ["list _delta_log"]);
            // The answer is older than this process's last commit.
            let outdated = NewestVersion::ask(&own).unwrap();
            let known = outdated.answer().await.unwrap().unwrap();
            assert_eq!(known.version(), 3);
            let outdated = NewestVersion::ask(&own).unwrap();
            finish_asking(&outdated).await;
            let job = WriteJob::begin(&store, Some(&later), schema(), append()).await.unwrap();
            let last = commit(&store, &job, &[5]).await.unwrap().snapshot;
            settled(&asked);
            assert_eq!(begin(&last, &outdated).await.version().unwrap(), Some(4));
            assert_eq!(log_requests(settled(&asked)), ["list _delta_log"]);
            // A failure of the early listing is made good by another one.
            asked.fail(Some("list"));
            let failed = NewestVersion::ask(&last).unwrap();
            finish_asking(&failed).await;
            asked.fail(None);
            assert_eq!(begin(&last, &failed).await.version().unwrap(), Some(4));
        });
    }

    /// Waits until the listing has ended.
    async fn finish_asking(newest: &NewestVersion) {
        let is_finished = || newest.0.lock().unwrap().as_ref().is_some_and(JoinHandle::is_finished);
        while !is_finished() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
