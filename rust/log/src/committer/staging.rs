//! The folder of staged commits: what a clean-up deletes of it, and files that no version needs.

use deltaplane_error::{Kind, Result};
use deltaplane_protocol::paths::{self, LOG_DIR, STAGED_DIR};
use deltaplane_store::{ObjectInfo, Store};
use futures::TryStreamExt;
use tracing::warn;

use crate::committer::Content;
use crate::committer::managed::{self, Managed};

/// Makes the folder, where a store has folders of its own: Delta's kernel writes staged commits
/// only to a folder that the creator of the table has made.
pub(super) fn make_folder(managed: &Managed) {
    let Some(root) = managed.behind.local_path("") else {
        return;
    };
    let folder = root.join(LOG_DIR).join(STAGED_DIR);
    if let Err(e) = std::fs::create_dir_all(&folder) {
        // Our own writers make it when they stage a commit.
        warn!("the folder {} can't be made: {e}", folder.display());
    }
}

/// The staged commits, each with its version.
async fn staged(managed: &Managed) -> Result<Vec<(u64, ObjectInfo)>> {
    let dir = format!("{LOG_DIR}/{STAGED_DIR}");
    let objects: Vec<ObjectInfo> = match managed.behind.list_from(&dir, "").await {
        Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(Vec::new()),
        listed => listed?.try_collect().await?,
    };
    let version = |o: &ObjectInfo| o.key.rsplit('/').next().and_then(paths::staged_version);
    Ok(objects.into_iter().filter_map(|o| Some((version(&o)?, o))).collect())
}

/// Staged commits of ratified versions that the catalog doesn't name, written before this time: of
/// proposals that lost, or were published. Nothing reads them.
pub(crate) async fn orphans(store: &Store, cutoff_ms: i64) -> Result<Vec<ObjectInfo>> {
    let Some(managed) = managed::of(store) else {
        return Ok(Vec::new());
    };
    // Files first: a version that is decided after the listing shows no orphan.
    let staged = staged(&managed).await?;
    let latest = managed.ask_tail(0).await?;
    let known = managed.known();
    let is_held = |version: u64, object: &ObjectInfo| {
        known.commit(version).is_some_and(
            |c| matches!(&c.content, Content::Staged(file) if object.key == paths::staged_commit(&file.name)),
        )
    };
    let orphans = staged.into_iter().filter(|(version, object)| {
        Some(*version) <= latest && object.modified_ms < cutoff_ms && !is_held(*version, object)
    });
    Ok(orphans.map(|(_, object)| object).collect())
}

/// Deletes the staged commits of versions before `oldest`, which were cleaned up (P063); returns
/// their number. What the catalog still names stays.
pub(crate) async fn delete_staged(store: &Store, oldest: u64) -> Result<u64> {
    let Some(managed) = managed::of(store) else {
        return Ok(0);
    };
    let old: Vec<String> = {
        let staged = staged(&managed).await?;
        let known = managed.known();
        let is_old =
            |version: u64| version < oldest && Some(version) <= known.published && known.commit(version).is_none();
        staged
            .into_iter()
            .filter(|(version, _)| is_old(*version))
            .map(|(_, o)| o.key)
            .collect()
    };
    managed.behind.delete_all(&old).await?;
    Ok(old.len() as u64)
}
