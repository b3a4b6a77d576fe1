//! Which files VACUUM deletes when the age of none protects it (P044, P125, P200): live files and
//! those of unexpired tombstones stay, with the files of their deletion vectors.

use super::*;
use deltaplane_log::{Tell, VacuumCommits, VacuumRequest, vacuum};
use deltaplane_protocol::deletion_vectors::name_file;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

const DAY_MS: i64 = 86_400_000;

/// The JSON of a vector in a file of its own, and the file's name.
fn vector(n: u128) -> (String, String) {
    let (name, text) = name_file(uuid::Uuid::from_u128(n));
    let text = serde_json::to_string(&text).unwrap();
    let vector =
        format!(r#"{{"storageType":"u","pathOrInlineDv":{text},"offset":1,"sizeInBytes":10,"cardinality":1}}"#);
    (vector, name)
}

fn add(path: &str, vector: &str) -> String {
    format!(
        r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":10,"modificationTime":1,"dataChange":true{vector}}}}}"#
    )
}

fn remove(path: &str, days: i64, vector: &str) -> String {
    let deleted_at = deltaplane_log::now_ms() - days * DAY_MS;
    format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":{deleted_at},"dataChange":true{vector}}}}}"#)
}

#[test]
fn only_expired_files_and_vectors_are_deleted() {
    for (lite, checkpoint) in [(false, false), (false, true), (true, false), (true, true)] {
        run(async |store, dir| {
            let r = json!({"mode": "error", "configuration": {"delta.enableDeletionVectors": "true"}});
            create_table(&store, schema(), request(r)).await.unwrap();
            let (mut live, mut dead) = (BTreeSet::new(), BTreeSet::new());
            let (mut first, mut second) = (Vec::new(), Vec::new());
            // Each kind of file without and with a vector; days since it was removed, none for a
            // live one.
            for (n, days) in [None, Some(0), Some(6), Some(8), Some(30)].into_iter().enumerate() {
                for with_vector in [false, true] {
                    let (path, (json, name)) = (format!("f{n}-{with_vector}.parquet"), vector(n as u128 + 1));
                    let json = if with_vector {
                        format!(r#","deletionVector":{json}"#)
                    } else {
                        String::new()
                    };
                    first.push(add(&path, &json));
                    second.extend(days.map(|days| remove(&path, days, &json)));
                    let is_dead = days.is_some_and(|days| days > 7);
                    let names = if is_dead { &mut dead } else { &mut live };
                    names.insert(path);
                    if with_vector {
                        names.insert(name);
                    }
                }
            }
            // The same file under a newer vector: the older one's file stays until its tombstone
            // expires.
            let ((old, old_name), (new, new_name)) = (vector(100), vector(101));
            let vector_of = |json: &str| format!(r#","deletionVector":{json}"#);
            first.push(add("grown.parquet", &vector_of(&old)));
            second.push(remove("grown.parquet", 1, &vector_of(&old)));
            second.push(add("grown.parquet", &vector_of(&new)));
            live.extend(["grown.parquet".to_owned(), old_name, new_name]);
            for (version, lines) in [(1, first), (2, second)] {
                let path = dir.path().join(format!("_delta_log/{version:020}.json"));
                std::fs::write(path, lines.join("\n")).unwrap();
            }
            if checkpoint {
                Snapshot::open(&store, None).await.unwrap().checkpoint().await.unwrap();
            }
            let then = SystemTime::now() - Duration::from_secs(30 * 86_400);
            for name in live.iter().chain(&dead) {
                std::fs::write(dir.path().join(name), b"x").unwrap();
                std::fs::File::open(dir.path().join(name))
                    .unwrap()
                    .set_modified(then)
                    .unwrap();
            }
            let asked = VacuumRequest {
                lite,
                commits: VacuumCommits::Never,
                ..VacuumRequest::default()
            };
            let gone = vacuum(&store, &asked, None, None, &Tell::default())
                .await
                .unwrap()
                .files;
            let gone: BTreeSet<String> = gone.into_iter().collect();
            // What a checkpoint left out because it had expired is found by listing alone.
            let expected = if lite && checkpoint {
                gone.intersection(&dead).cloned().collect()
            } else {
                dead
            };
            assert_eq!(gone, expected, "lite {lite}, checkpoint {checkpoint}");
            for name in &live {
                assert!(
                    dir.path().join(name).exists(),
                    "{name}: lite {lite}, checkpoint {checkpoint}"
                );
            }
        });
    }
}

#[test]
fn change_files_go_with_the_age_of_their_commit() {
    // P044, P130: a lite vacuum finds them by the log alone, whatever time the files have.
    for lite in [false, true] {
        run(async |store, dir| {
            let r = json!({"mode": "error", "configuration": {"delta.enableChangeDataFeed": "true"}});
            create_table(&store, schema(), request(r)).await.unwrap();
            let then = SystemTime::now() - Duration::from_secs(30 * 86_400);
            for (version, name) in [(1, "old"), (2, "young")] {
                let path = format!("_change_data/{name}.parquet");
                let line =
                    format!(r#"{{"cdc":{{"path":"{path}","partitionValues":{{}},"size":1,"dataChange":false}}}}"#);
                let commit = format!("_delta_log/{version:020}.json");
                std::fs::create_dir_all(dir.path().join("_change_data")).unwrap();
                for (file, body) in [(&path, "x"), (&commit, line.as_str())] {
                    std::fs::write(dir.path().join(file), body).unwrap();
                    if name == "old" {
                        let file = std::fs::File::open(dir.path().join(file)).unwrap();
                        file.set_modified(then).unwrap();
                    }
                }
            }
            let asked = VacuumRequest {
                lite,
                commits: VacuumCommits::Never,
                ..VacuumRequest::default()
            };
            let gone = vacuum(&store, &asked, None, None, &Tell::default()).await.unwrap();
            assert_eq!(gone.files, ["_change_data/old.parquet"], "lite {lite}");
            assert!(dir.path().join("_change_data/young.parquet").exists(), "lite {lite}");
        });
    }
}

#[test]
fn every_page_of_the_listing_is_examined() {
    // The first page is requested beside the log, before the partition columns are known.
    for partitioned in [false, true] {
        for orphans in [1, 998, 1_000, 1_001, 2_100] {
            run(async |store, dir| {
                let r = match partitioned {
                    true => json!({"mode": "error", "partition_by": ["day"]}),
                    false => json!({"mode": "error"}),
                };
                create_table(&store, schema(), request(r)).await.unwrap();
                let places = ["", "day=2024-01-01/", "other/deep/"];
                let hidden = ["_hidden/", ".hidden/", "other/_hidden/"];
                let live: Vec<String> = places.iter().map(|p| format!("{p}live.parquet")).collect();
                let commit: Vec<String> = live.iter().map(|path| add(path, "")).collect();
                std::fs::write(dir.path().join(format!("_delta_log/{:020}.json", 1)), commit.join("\n")).unwrap();
                let unused: BTreeSet<String> = (0..orphans)
                    .map(|n| format!("{}f{n}.parquet", places[n % places.len()]))
                    .collect();
                let stay = live.iter().cloned().chain(hidden.map(|p| format!("{p}stays.parquet")));
                let then = SystemTime::now() - Duration::from_secs(30 * 86_400);
                for name in stay.chain(unused.iter().cloned()) {
                    let path = dir.path().join(name);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    let file = std::fs::File::create(path).unwrap();
                    file.set_modified(then).unwrap();
                }
                let asked = VacuumRequest {
                    dry_run: true,
                    ..VacuumRequest::default()
                };
                let files = vacuum(&store, &asked, None, None, &Tell::default())
                    .await
                    .unwrap()
                    .files;
                let files: BTreeSet<String> = files.into_iter().collect();
                assert_eq!(files, unused, "partitioned {partitioned}, {orphans} unused files");
            });
        }
    }
}
