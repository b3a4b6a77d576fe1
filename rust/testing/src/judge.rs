//! What must hold after each call that changed the world: commits, checkpoints, hints, deletions,
//! and what a catalog ratified.

use deltaplane_error::Result;
use deltaplane_log::committer::Proposal;
use deltaplane_protocol::paths;
use deltaplane_store::PutOutcome;
use serde_json::Value;

use crate::book::Book;
use crate::catalog::Decided;
use crate::checkpoints::{check, log_file, rebuildable};
use crate::scenario::RETENTION_MS;
use crate::world::{Answer, Call, World};

/// What is wrong, if something is.
type Judgement = std::result::Result<(), String>;

/// What must hold after a change of the world.
pub fn judge(world: &mut World, book: &mut Book, call: &Call, answer: &Result<Answer>) -> Judgement {
    judge_notified(world)?;
    match call {
        Call::Put(key, _) | Call::PutIfAbsent(key, _) => {
            if matches!(answer, Ok(Answer::Put(PutOutcome::Exists))) {
                return Ok(());
            }
            judge_written(world, book, key)
        }
        Call::Delete(key) => judge_deleted(world, book, key),
        Call::Propose(_, proposal) if matches!(answer, Ok(Answer::Decided(Decided::Ratified))) => {
            judge_ratified(world, book, proposal)
        }
        _ => Ok(()),
    }
}

fn judge_written(world: &mut World, book: &mut Book, key: &str) -> Judgement {
    let object = &world.objects[key];
    match log_file(key) {
        Some((version, "json")) => {
            book.learn_vectors(&object.bytes, |path| world.objects.get(path).map(|o| o.bytes.clone()))?;
            book.commit(version, &object.bytes, world.now_ms)?;
            judge_published(world, version)
        }
        Some((version, "checkpoint")) if is_unpublished(world, version) => {
            Err(format!("{key} is of a version that isn't published"))
        }
        Some((version, "checkpoint")) => match book.versions.get(version as usize) {
            Some(_) if is_late_copy(world, key, version) => Ok(()),
            Some(model) => {
                let sidecars = check(world, key, model, RETENTION_MS)?;
                world.checkpoints.insert(key.to_owned(), sidecars);
                Ok(())
            }
            None => Err(format!("{key} is of a version that isn't there")),
        },
        _ if key == "_delta_log/_last_checkpoint" => judge_hint(world, &object.bytes),
        _ => Ok(()),
    }
}

/// Whether a clean-up put its copy of a checkpoint, under the classic name, after another one had
/// deleted the original and perhaps its sidecars. It takes the copy away again; until then nobody
/// needs it, since a newer checkpoint is there and the version's commit isn't.
fn is_late_copy(world: &World, key: &str, version: u64) -> bool {
    let classic = paths::classic_checkpoint(version);
    let original = classic.trim_end_matches("parquet");
    let has_original = world.objects.keys().any(|k| k.starts_with(original) && *k != classic);
    let is_newer = |k: &&String| log_file(k).is_some_and(|(v, _)| v > version);
    let serves = world
        .checkpoints
        .keys()
        .filter(is_newer)
        .any(|k| world.objects.contains_key(k));
    key == classic && !has_original && serves && !world.objects.contains_key(&paths::commit(version))
}

/// P158: a version is ratified when its content is there, once, after its predecessor.
fn judge_ratified(world: &World, book: &mut Book, proposal: &Proposal) -> Judgement {
    let version = proposal.version;
    let bytes = world
        .content("", &proposal.content)
        .ok_or(format!("version {version} was ratified without content"))?;
    book.learn_vectors(&bytes, |path| world.objects.get(path).map(|o| o.bytes.clone()))?;
    book.commit(version, &bytes, world.now_ms)
}

/// P158: versions are published in order, after they were ratified.
fn judge_published(world: &mut World, version: u64) -> Judgement {
    let Some(catalog) = world.catalogs.first_mut() else {
        return Ok(());
    };
    let expected = catalog.published.map_or(0, |v| v + 1);
    if version > expected {
        return Err(format!("version {version} is published before version {expected}"));
    }
    if version > 0 && Some(version) > catalog.latest {
        return Err(format!("version {version} is published and not ratified"));
    }
    catalog.published = catalog.published.max(Some(version));
    Ok(())
}

/// P158: a catalog is notified of versions that are published.
fn judge_notified(world: &World) -> Judgement {
    match world.catalogs.first() {
        Some(catalog) if catalog.notified > catalog.published => Err(format!(
            "the catalog was notified that {:?} is published, and {:?} is",
            catalog.notified, catalog.published
        )),
        _ => Ok(()),
    }
}

fn is_unpublished(world: &World, version: u64) -> bool {
    world.catalogs.first().is_some_and(|c| Some(version) > c.published)
}

/// P013: a hint is written when its checkpoint is there. Clean-up may have deleted an old one
/// since.
fn judge_hint(world: &World, bytes: &[u8]) -> Judgement {
    let hint: Value = serde_json::from_slice(bytes).map_err(|e| format!("the hint is no JSON: {e}"))?;
    let version = hint["version"].as_u64().ok_or("the hint names no version")?;
    let files = world.objects.keys().filter_map(|k| log_file(k));
    let mut checkpoints = files.filter(|(_, kind)| *kind == "checkpoint").map(|(v, _)| v);
    match checkpoints.any(|v| v >= version) {
        true => Ok(()),
        false => Err(format!("the hint names version {version}, which has no checkpoint")),
    }
}

/// A version that was the newest at some time since the retention began can be rebuilt.
fn judge_deleted(world: &World, book: &Book, key: &str) -> Judgement {
    let Some(newest) = book.newest() else { return Ok(()) };
    let cutoff = world.now_ms - RETENTION_MS;
    let rebuildable = rebuildable(world, newest);
    for version in 0..=newest {
        let replaced = book.versions.get(version as usize + 1).map(|next| next.time_ms);
        let promised = replaced.is_none_or(|moment| moment > cutoff);
        if promised && !rebuildable.contains(&version) {
            return Err(format!("version {version} can't be rebuilt since {key} was deleted"));
        }
    }
    Ok(())
}
