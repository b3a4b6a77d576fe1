//! Publishers of a catalog's table: they publish some version that they opened, at once or much
//! later, beside the writers, who do so too.

use deltaplane_error::{Kind, Result};
use deltaplane_log::Snapshot;

use super::Context;
use crate::planted::Bug;
use crate::world::{Call, ask, lock};

/// Publishes.
pub async fn act(mut me: Context) {
    for _ in 0..me.turns {
        let weather = me.weather();
        if me.newest().is_none() {
            continue;
        }
        if let Err(e) = turn(&mut me).await
            && !me.excuses(weather, &e)
        {
            me.accuse(format!("can't publish: {e}"));
        }
    }
}

async fn turn(me: &mut Context) -> Result<()> {
    let snapshot = Snapshot::open(&me.store, None).await?;
    let jumps = me.weather().jumps;
    for _ in 0..me.chance.below(20) {
        let _ = ask(&me.world, me.who, Call::Sleep).await;
    }
    if me.bug() == Some(Bug::PublishedOutOfOrder) {
        return publish_newest(me).await;
    }
    match snapshot.publish().await {
        // What it opened was cleaned up while it slept.
        Err(e) if e.kind() == Kind::CorruptLog && me.weather().jumps > jumps => Ok(()),
        done => done.map(drop),
    }
}

/// Publishes the newest version alone.
async fn publish_newest(me: &Context) -> Result<()> {
    let newest = {
        let world = lock(&me.world);
        let held = world
            .catalogs
            .first()
            .and_then(|c| c.held.values().next_back().cloned());
        held.and_then(|c| Some((c.version, world.content("", &c.content)?)))
    };
    if let Some((version, bytes)) = newest {
        let key = deltaplane_protocol::paths::commit(version);
        ask(&me.world, me.who, Call::PutIfAbsent(key, bytes)).await?;
    }
    Ok(())
}
