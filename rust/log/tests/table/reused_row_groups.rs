//! Checkpoints of large tables after a few commits: row groups whose files all are live are those
//! of the checkpoint before, byte for byte, and the whole is what looking at every file gives.

use super::runs::{Draw, file, kept_paths, planned_paths, predicate, table, wide_schema};
use super::*;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::{BTreeMap, BTreeSet};

struct File {
    bytes: Bytes,
    footer: ParquetMetaData,
}

/// The checkpoint of this version.
fn checkpoint(dir: &tempfile::TempDir, version: u64) -> File {
    let name = format!("{version:020}.checkpoint.parquet");
    let bytes = Bytes::from(std::fs::read(dir.path().join("_delta_log").join(name)).unwrap());
    let footer = SerializedFileReader::new(bytes.clone()).unwrap().metadata().clone();
    File { bytes, footer }
}

impl File {
    /// First of those in order, first of those since, end of these.
    fn groups(&self) -> Option<[usize; 3]> {
        let notes = self.footer.file_metadata().key_value_metadata().unwrap();
        let note = notes.iter().find(|n| n.key == "deltaplane.groups")?.value.clone()?;
        let numbers: Vec<usize> = note.split(' ').map(|n| n.parse().unwrap()).collect();
        numbers.try_into().ok()
    }

    /// What a row group's columns hold.
    fn group(&self, number: usize) -> Vec<Bytes> {
        let columns = self.footer.row_group(number).columns().iter();
        let range = columns.map(|c| c.byte_range());
        range
            .map(|(start, length)| self.bytes.slice(start as usize..(start + length) as usize))
            .collect()
    }

    fn rows(&self, groups: std::ops::Range<usize>) -> i64 {
        groups.map(|g| self.footer.row_group(g).num_rows()).sum()
    }
}

async fn commit(store: &Store, adds: Vec<Add>) -> Snapshot {
    let asked = request(json!({"mode": "append"}));
    match plan_write(store, wide_schema(), asked).await.unwrap() {
        WritePlan::Go(p) => p.commit(adds).await.unwrap().snapshot,
        WritePlan::Skip(why) => panic!("skipped: {why}"),
    }
}

#[test]
fn what_no_commit_touched_stands() {
    // P050, P051, P061
    for (seed, count, partitioned, rounds) in [(11, 25_000, true, 4), (12, 101_000, false, 2)] {
        run(async |store, dir| {
            let mut draw = Draw(seed);
            let never = json!({"delta.checkpointInterval": "1000000"});
            let first = table(&store, count, &mut draw, partitioned, never).await;
            let mut live: BTreeMap<String, Add> = BTreeMap::new();
            let mut before = checkpoint(dir, first.version());
            let (mut stood, mut written, mut folded) = (0, 0, 0);
            for round in 0..rounds {
                // New files, and now and then another word on an old one.
                let numbers = (0..150).map(|n| match round == 1 && n == 0 {
                    true => draw.below(count),
                    false => count + round * 150 + n,
                });
                let numbers: Vec<u64> = numbers.collect();
                let adds: Vec<Add> = numbers.iter().map(|n| file(&mut draw, *n, partitioned)).collect();
                live.extend(adds.iter().map(|a| (a.path.clone(), a.clone())));
                let s = commit(&store, adds).await;
                s.checkpoint().await.unwrap();
                let after = checkpoint(dir, s.version());
                let ([start, sorted, end], [was, was_sorted, _]) = (after.groups().unwrap(), before.groups().unwrap());
                assert_eq!((start, was), (1, 1));
                if sorted == end {
                    folded += 1;
                } else {
                    assert_eq!(sorted, was_sorted);
                    let same = (start..sorted).filter(|g| before.group(*g) == after.group(*g)).count();
                    stood += same;
                    written += sorted - start - same;
                }
                let s = Snapshot::open(&store, None).await.unwrap();
                assert_eq!(s.tail_length(), 0);
                let all = files(&s).await;
                assert_eq!(all.len() as i64, after.rows(start..end));
                let new = live
                    .keys()
                    .filter(|path| path.as_str() >= format!("part-{count:06}").as_str());
                assert_eq!(all.len() as u64, count + new.count() as u64, "round {round}");
                assert!(all.is_sorted() && all.windows(2).all(|w| w[0] != w[1]));
                for _ in 0..2 {
                    let text = predicate(&mut draw, count, 2);
                    let planned: BTreeSet<String> = planned_paths(&s, &text).await;
                    assert_eq!(
                        planned,
                        kept_paths(&s, &text).await,
                        "seed {seed}, round {round}: {text}"
                    );
                }
                // The last word on a file is the one that counts.
                let batches: Vec<RecordBatch> = s.plan(None, PlanColumns::Logged).try_collect().await.unwrap();
                for batch in &batches {
                    let rows = FileRows::new(batch);
                    for row in 0..batch.num_rows() {
                        if let Some(add) = live.get(rows.path(row).unwrap()) {
                            assert_eq!(rows.stats(row).map(str::to_owned), add.stats);
                        }
                    }
                }
                before = after;
            }
            // With one group a changed file in it means that all are sorted; with two the other one
            // is reused.
            let expected = if partitioned { (3, 0, 1) } else { (3, 1, 0) };
            assert_eq!((stood, written, folded), expected);
        });
    }
}

#[test]
fn another_layout_is_written_anew() {
    run(async |store, dir| {
        let mut draw = Draw(13);
        let s = table(&store, 30_000, &mut draw, true, json!({})).await;
        let before = checkpoint(dir, s.version());
        for properties in [
            json!({"delta.checkpoint.writeStatsAsJson": "false"}),
            json!({"delta.dataSkippingNumIndexedCols": "2"}),
        ] {
            let asked = json!({"change": {"change": "set_properties", "properties": properties}, "commit": {}});
            let asked = serde_json::from_value(asked).unwrap();
            deltaplane_log::alter(&store, &asked).await.unwrap();
            let s = commit(&store, vec![file(&mut draw, 40_000, true)]).await;
            s.checkpoint().await.unwrap();
            let after = checkpoint(dir, s.version());
            assert_ne!(before.group(1), after.group(1));
            let [_, sorted, end] = after.groups().unwrap();
            assert_eq!(sorted, end, "all are in order again");
        }
        let texts = SerializedFileReader::new(checkpoint(dir, s.version() + 2).bytes).unwrap();
        let columns = texts.metadata().row_group(1).columns().iter();
        let stats = columns
            .clone()
            .find(|c| c.column_path().string() == "add.stats")
            .unwrap();
        assert_eq!(
            stats.statistics().unwrap().null_count_opt(),
            Some(stats.num_values() as u64)
        );
    });
}

#[test]
fn a_small_checkpoint_is_one_group() {
    run(async |store, dir| {
        let s = table(&store, 2_000, &mut Draw(14), true, json!({})).await;
        let written = checkpoint(dir, s.version());
        assert_eq!((written.groups(), written.footer.num_row_groups()), (None, 1));
    });
}
