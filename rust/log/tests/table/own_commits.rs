//! The snapshots that a process keeps of its last commits.

use deltaplane_log::{alter, own_commits};

use super::*;

/// A backup of an earlier version has the table's id, and its next commit may have the version of a
/// commit that the process made before.
#[test]
fn a_table_that_was_replaced_by_its_backup_is_not_taken_for_its_later_versions() {
    for commits_after_backup in 1..4 {
        run(async |store, dir| {
            append(&store, "first").await;
            let log = dir.path().join("_delta_log");
            let backup: Vec<_> = std::fs::read_dir(&log)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            let backup: Vec<_> = backup.iter().map(|path| (path, std::fs::read(path).unwrap())).collect();
            for n in 0..commits_after_backup {
                append(&store, &format!("lost {n}")).await;
            }
            std::fs::remove_dir_all(&log).unwrap();
            std::fs::create_dir(&log).unwrap();
            for (path, content) in &backup {
                std::fs::write(path, content).unwrap();
            }
            let restored = Snapshot::open(&store, None).await.unwrap();
            assert_eq!(restored.version(), 0);
            let change = json!({"change": {"change": "set_properties", "properties": {"mine": "yes"}}, "commit": {}});
            alter(&store, &serde_json::from_value(change).unwrap()).await.unwrap();
            let after = own_commits::after_commit(&restored, 1).await.unwrap();
            assert_eq!((after.version(), files(&after).await), (1, vec!["first".to_owned()]));
            assert_eq!(after.state().metadata().configuration["mine"], "yes");
            append(&store, "second").await;
            let newest = Snapshot::open(&store, None).await.unwrap();
            let names = vec!["first".to_owned(), "second".to_owned()];
            assert_eq!((newest.version(), files(&newest).await), (2, names));
        });
    }
}
