//! What checkpoints hold after random histories, read with the Parquet library alone: each live
//! file once, each tombstone that hasn't expired once, and no file both ways (P044, P050, P056,
//! P062).

use super::runs::Draw;
use super::*;
use arrow::array::{Array, AsArray};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use std::collections::BTreeSet;
use std::path::Path;

const DAY_MS: i64 = 86_400_000;

#[derive(Default)]
struct Content {
    adds: Vec<String>,
    removes: Vec<String>,
    sidecars: Vec<String>,
}

impl Content {
    fn read(&mut self, path: &Path) {
        let bytes = Bytes::from(std::fs::read(path).unwrap());
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options);
        for batch in reader.unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let paths = |action: &str| -> Vec<String> {
                let Some(column) = batch.column_by_name(action).map(|c| c.as_struct().clone()) else {
                    return Vec::new();
                };
                let path = column.column_by_name("path").unwrap().as_string::<i32>().clone();
                (0..column.len())
                    .filter(|r| column.is_valid(*r))
                    .map(|r| path.value(r).to_owned())
                    .collect()
            };
            self.adds.extend(paths("add"));
            self.removes.extend(paths("remove"));
            self.sidecars.extend(paths("sidecar"));
        }
    }

    /// The checkpoint of this version with its sidecars.
    fn of(dir: &Path, version: u64) -> Content {
        let log = dir.join("_delta_log");
        let (start, mut content) = (format!("{version:020}.checkpoint."), Content::default());
        for entry in std::fs::read_dir(&log).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.starts_with(&start) {
                content.read(&log.join(name));
            }
        }
        for name in std::mem::take(&mut content.sidecars) {
            content.read(&log.join("_sidecars").join(name));
        }
        content
    }
}

/// The table as it should be.
#[derive(Default)]
struct Model {
    live: BTreeSet<String>,
    tombstones: BTreeSet<String>,
    expired: BTreeSet<String>,
}

impl Model {
    fn add(&mut self, path: &str) -> String {
        self.live.insert(path.to_owned());
        self.tombstones.remove(path);
        self.expired.remove(path);
        let stats = r#"{\"numRecords\":2}"#;
        format!(
            r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":10,"modificationTime":1,"dataChange":true,"stats":"{stats}"}}}}"#
        )
    }

    fn remove(&mut self, path: &str, is_expired: bool) -> String {
        self.live.remove(path);
        let kind = if is_expired {
            &mut self.expired
        } else {
            &mut self.tombstones
        };
        kind.insert(path.to_owned());
        let deleted_at = deltaplane_log::now_ms() - if is_expired { 30 * DAY_MS } else { 0 };
        format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":{deleted_at},"dataChange":true}}}}"#)
    }
}

fn some(draw: &mut Draw, paths: &BTreeSet<String>, count: u64) -> BTreeSet<String> {
    let all: Vec<&String> = paths.iter().collect();
    (0..count.min(all.len() as u64))
        .map(|_| all[draw.below(all.len() as u64) as usize].clone())
        .collect()
}

#[test]
fn random_histories_leave_each_file_once() {
    let mut kept_sidecars = 0;
    for (seed, policy) in [(1, "v2"), (2, "v2"), (3, "v2"), (4, "classic"), (5, "classic")] {
        run(async |store, dir| {
            let (mut draw, mut model) = (Draw(seed), Model::default());
            let r = json!({"mode": "error", "configuration": {"delta.checkpointPolicy": policy}});
            create_table(&store, schema(), request(r)).await.unwrap();
            for round in 0..8u64 {
                let mut lines = Vec::new();
                // One round takes many files out; the following ones take few of them back.
                let leaving = if round == 2 { 300 } else { draw.below(8) };
                let back = some(&mut draw, &model.tombstones.clone(), draw_count(round));
                let again = some(&mut draw, &model.expired.clone(), draw_count(round));
                for path in some(&mut draw, &model.live.clone(), leaving) {
                    let is_expired = draw.below(6) == 0;
                    lines.push(model.remove(&path, is_expired));
                }
                lines.extend(back.iter().chain(&again).map(|path| model.add(path)));
                let new = if round == 0 { 500 } else { draw.below(30) };
                lines.extend((0..new).map(|n| model.add(&format!("r{round}-{n:04}"))));
                lines.push(r#"{"commitInfo":{"operation":"WRITE"}}"#.to_owned());
                let version = round + 1;
                let commit = dir.path().join(format!("_delta_log/{version:020}.json"));
                std::fs::write(commit, lines.join("\n")).unwrap();
                let s = Snapshot::open(&store, None).await.unwrap();
                let report = s.checkpoint().await.unwrap();
                kept_sidecars += report.kept_sidecars;
                let mut content = Content::of(dir.path(), version);
                content.adds.sort();
                content.removes.sort();
                let place = format!("seed {seed}, round {round}");
                assert!(content.adds.iter().eq(&model.live), "{place}");
                content.removes.retain(|path| !model.expired.contains(path));
                assert!(content.removes.iter().eq(&model.tombstones), "{place}");
                let s = Snapshot::open(&store, None).await.unwrap();
                assert_eq!(s.tail_length(), 0);
                assert!(files(&s).await.iter().eq(&model.live), "{place}");
            }
        });
    }
    assert!(kept_sidecars > 8, "{kept_sidecars}");
}

/// Tombstones that a round takes back.
fn draw_count(round: u64) -> u64 {
    if round % 2 == 1 { 3 } else { 0 }
}
