//! Readers: the newest version is at least the one that was newest when they asked, older ones are
//! what they were, and none is ever seen in half.

use deltaplane_error::Kind;
use deltaplane_log::Snapshot;

use super::{Context, Weather, compare, wrong};
use crate::planted::Bug;

/// Opens versions.
pub async fn act(mut me: Context) {
    let mut known: Option<Snapshot> = None;
    for _ in 0..me.turns {
        let (weather, floor) = (me.weather(), me.newest());
        let Some(floor) = floor else { continue };
        let update = known.clone().filter(|_| me.chance.happens(500));
        let older = me
            .chance
            .happens(300)
            .then(|| me.chance.below(floor as usize + 1) as u64);
        let opened = match (me.bug(), update, older) {
            (Some(Bug::HintForTruth), ..) => wrong::open_hinted(&me.store).await,
            (Some(Bug::GapsAccepted), ..) => {
                wrong::read_past_gaps(&me).await;
                continue;
            }
            (_, Some(snapshot), _) => snapshot.update().await,
            (_, None, older) => Snapshot::open(&me.store, older).await,
        };
        let snapshot = match opened {
            Ok(snapshot) => snapshot,
            Err(e) => {
                // An older version may have been cleaned up for good before this turn.
                let gone = older.is_some() && e.kind() == Kind::VersionNotFound;
                if !gone && !me.excuses(weather, &e) {
                    me.accuse(format!("can't open version {older:?}: {e}"));
                }
                continue;
            }
        };
        judge(&me, weather, floor, older, &snapshot).await;
        known = Some(snapshot);
    }
}

async fn judge(me: &Context, weather: Weather, floor: u64, older: Option<u64>, snapshot: &Snapshot) {
    let version = snapshot.version();
    if older.is_none_or(|wanted| wanted != version) && version < floor {
        me.accuse(format!("read version {version} when version {floor} was there"));
    }
    match compare(snapshot, &me.book).await {
        Ok(None) => {}
        Ok(Some(difference)) => me.accuse(difference),
        // An older version may be cleaned up while it is read.
        Err(e) if older.is_some() && e.kind() == Kind::VersionNotFound => {}
        Err(e) if me.excuses(weather, &e) => {}
        Err(e) => me.accuse(format!("can't read version {version}: {e}")),
    }
}
