//! A version's replay in parts: together they hold what a plan holds, and no part is read of
//! another file than was opened.

use super::*;
use deltaplane_log::{CommitActions, LogHead, ReplayPart, checkpoint_adds, commit_actions};
use deltaplane_protocol::replay::{Replay, Turn};
use std::time::{Duration, SystemTime};

async fn paths(batches: Vec<RecordBatch>) -> Vec<String> {
    let paths_of = |b: &RecordBatch| -> Vec<String> {
        let rows = FileRows::new(b);
        (0..b.num_rows()).map(|r| rows.path(r).unwrap().to_owned()).collect()
    };
    batches.iter().flat_map(paths_of).collect()
}

async fn reconciled(s: &Snapshot, target_bytes: u64) -> Vec<String> {
    let parts = s.replay_parts(target_bytes).await.unwrap();
    let mut commits: Vec<CommitActions> = Vec::new();
    for part in parts.commits {
        commits.extend(commit_actions(s.store(), part).try_collect::<Vec<_>>().await.unwrap());
    }
    commits.sort_by_key(|c| std::cmp::Reverse(c.version));
    let (mut walk, mut live_adds) = (Replay::new(), Vec::new());
    for c in &commits {
        let turn = Turn::whole(c.version, &c.adds, &c.removes);
        let live = walk.commits(&c.adds, &c.removes, &[turn]).unwrap();
        live_adds.push(arrow::compute::filter_record_batch(&c.adds, &live).unwrap());
    }
    for part in parts.checkpoint {
        let batches = checkpoint_adds(s.store(), part, None, PlanColumns::Logged);
        for batch in batches.try_collect::<Vec<_>>().await.unwrap() {
            let live = walk.checkpoint(&batch).unwrap();
            live_adds.push(arrow::compute::filter_record_batch(&batch, &live).unwrap());
        }
    }
    let mut out = paths(live_adds).await;
    out.sort();
    out
}

#[test]
fn parts_hold_what_a_plan_holds() {
    // P041, P056
    for policy in ["classic", "v2"] {
        run(async |store, _| {
            let asked = json!({"mode": "error", "configuration": {"delta.checkpointPolicy": policy}});
            create_table(&store, schema(), request(asked)).await.unwrap();
            for path in ["a", "b", "c"] {
                append(&store, path).await;
            }
            let before = Snapshot::open(&store, None).await.unwrap();
            assert_eq!(before.replay_parts(1).await.unwrap().commits.len(), 4);
            assert_eq!(reconciled(&before, 1).await, ["a", "b", "c"]);
            before.checkpoint().await.unwrap();
            append(&store, "d").await;
            for (mode, left) in [("append", vec!["a", "b", "c", "d", "e"]), ("overwrite", vec!["f"])] {
                let p = planned(&store, json!({ "mode": mode })).await;
                p.commit(vec![add(left.last().unwrap(), None)]).await.unwrap();
                let s = Snapshot::open(&store, None).await.unwrap();
                assert_eq!(files(&s).await, left);
                for bytes in [1, u64::MAX] {
                    assert_eq!(reconciled(&s, bytes).await, left, "{policy} {mode} {bytes}");
                }
                let parts = s.replay_parts(1).await.unwrap();
                assert_eq!(
                    (
                        parts.checkpoint.len(),
                        s.replay_parts(u64::MAX).await.unwrap().commits.len()
                    ),
                    (1, 1)
                );
                assert!(parts.commit_bytes > 0 && s.replay_bytes(None).await.unwrap() > parts.commit_bytes);
                let head = LogHead::open(&store, None).await.unwrap();
                assert_eq!(
                    (head.version(), head.replay_parts(1).await.unwrap()),
                    (s.version(), parts.clone())
                );
                assert_eq!(head.state().metadata(), s.state().metadata());
                let in_sidecar = matches!(parts.checkpoint[0], ReplayPart::Sidecars(_));
                assert_eq!(in_sidecar, policy == "v2");
            }
        });
    }
}

#[test]
fn a_checkpoint_that_was_replaced_is_not_read_for_the_one_that_was_opened() {
    run(async |store, dir| {
        append(&store, "a").await;
        Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
        let s = Snapshot::open(&store, None).await.unwrap();
        let part = s.replay_parts(1).await.unwrap().checkpoint.remove(0);
        let text = serde_json::to_string(&part).unwrap();
        let read = async || {
            let part: ReplayPart = serde_json::from_str(&text).unwrap();
            checkpoint_adds(s.store(), part, None, PlanColumns::Files)
                .try_collect::<Vec<_>>()
                .await
        };
        assert_eq!(paths(read().await.unwrap()).await, ["a"]);
        let path = dir.path().join(format!("_delta_log/{:020}.checkpoint.parquet", 0));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let later = SystemTime::now() + Duration::from_secs(7);
        std::fs::File::open(&path).unwrap().set_modified(later).unwrap();
        let e = read().await.err().unwrap();
        assert_eq!(e.kind(), Kind::VersionNotFound);
        assert!(e.path().is_some_and(|p| p.contains("checkpoint")), "{e}");
    });
}
