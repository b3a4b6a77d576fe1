//! Checkpointers: checkpoints of whatever version they have in hand, and compactions. The scheduler
//! judges what they write when it appears.

use deltaplane_error::{Kind, Result};
use deltaplane_log::Snapshot;

use super::Context;

/// Writes checkpoints.
pub async fn act(mut me: Context) {
    for _ in 0..me.turns {
        let weather = me.weather();
        if me.newest().is_none() {
            continue;
        }
        if let Err(e) = turn(&mut me).await
            && !me.excuses(weather, &e)
        {
            me.accuse(format!("can't write a checkpoint: {e}"));
        }
    }
}

async fn turn(me: &mut Context) -> Result<()> {
    let snapshot = Snapshot::open(&me.store, None).await?;
    if me.chance.happens(250) && snapshot.version() > 1 {
        let from = me.chance.below(snapshot.version() as usize) as u64;
        return match snapshot.compact_logs(from, snapshot.version()).await {
            // Old commits may be cleaned up at any time.
            Err(e) if e.kind() == Kind::VersionNotFound && me.weather().jumps > 0 => Ok(()),
            done => done,
        };
    }
    snapshot.checkpoint().await.map(drop)
}
