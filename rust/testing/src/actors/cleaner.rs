//! Cleaners: the log's clean-up, whose every deletion the scheduler judges.

use deltaplane_log::Snapshot;

use super::{Context, wrong};
use crate::planted::Bug;

/// Cleans up.
pub async fn act(me: Context) {
    for _ in 0..me.turns {
        me.rest().await;
        let weather = me.weather();
        if me.newest().is_none() {
            continue;
        }
        let done = match (me.bug(), Snapshot::open(&me.store, None).await) {
            (Some(Bug::CommitsCleanedWithoutCheckpoint), Ok(s)) => wrong::delete_old_commits(&me, &s).await,
            (_, Ok(s)) => s.cleanup_metadata().await.map(drop),
            (_, Err(e)) => Err(e),
        };
        if let Err(e) = done
            && !me.excuses(weather, &e)
        {
            me.accuse(format!("can't clean up: {e}"));
        }
    }
}
