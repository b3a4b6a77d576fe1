//! Rows that are moved are the same ones, in the order that was asked for, whatever memory there was; what fails leaves nothing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use deltaplane_protocol::schema::Primitive;

use super::*;
use crate::testing::{Folder, schema};
use crate::write::FileWriter;

const ROWS: i64 = 40_000;

fn numbers() -> RecordBatch {
    let x: Int64Array = (0..ROWS).map(|n| n * 7_919 % ROWS).collect();
    let y: Int64Array = (0..ROWS).map(|n| n * 6_101 % 1_000).collect();
    RecordBatch::try_from_iter([("x", Arc::new(x) as _), ("y", Arc::new(y) as _)]).unwrap()
}

async fn written(folder: &Folder, spec: &WriteSpec) -> Vec<FileRead> {
    let spec = WriteSpec {
        target_file_size_bytes: 1,
        ..spec.clone()
    };
    let mut writer = FileWriter::new(folder.store.clone(), spec).unwrap();
    for from in (0..numbers().num_rows()).step_by(10_000) {
        writer.write(numbers().slice(from, 10_000)).await.unwrap();
    }
    let adds = writer.finish().await.unwrap();
    adds.iter().map(|a| FileRead::of(a).unwrap()).collect()
}

fn arrangement(folder: &Folder, order: Option<Order>, memory_bytes: usize) -> Arrangement {
    let schema = schema(&[("x", Primitive::Long), ("y", Primitive::Long)]);
    Arrangement {
        store: folder.store.clone(),
        read: Arc::new(ReadSpec::new(schema.clone(), Vec::new())),
        write: WriteSpec::new(schema, Vec::new(), 0),
        ids: None,
        order,
        memory_bytes,
        parallelism: 2,
        stop: Arc::default(),
    }
}

fn by(columns: &[&str], curve: Curve) -> Option<Order> {
    Some(Order {
        columns: columns.iter().map(|c| vec![(*c).to_owned()]).collect(),
        curve,
    })
}

/// The values of x, file by file.
async fn read_back(way: &Arrangement, adds: &[Add]) -> Vec<Vec<i64>> {
    let mut found = Vec::new();
    for add in adds {
        let batches: Vec<RecordBatch> = way
            .scan(vec![FileRead::of(add).unwrap()], way.read.clone())
            .try_collect()
            .await
            .unwrap();
        let x = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
        found.push(batches.iter().flat_map(x).collect());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_rows_are_the_same_in_memory_and_beyond() {
    let folder = Folder::new();
    let files = written(&folder, &arrangement(&folder, None, 0).write).await;
    assert!(files.len() > 1);
    let mut results = Vec::new();
    // All in memory, in one run; some runs in temporary files; nearly all of them.
    for memory in [1 << 30, 1 << 20, 1 << 10] {
        let way = arrangement(&folder, by(&["x"], Curve::ZOrder), memory);
        let adds = way.run(files.clone(), 3).await.unwrap();
        assert_eq!(adds.len(), 3);
        let rows = read_back(&way, &adds).await;
        assert!(rows.iter().all(|file| file.len().abs_diff(13_333) <= 2));
        results.push(rows.concat());
    }
    let expected: Vec<i64> = (0..ROWS).collect();
    assert!(results.iter().all(|rows| *rows == expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_each_leaf_and_no_row_lost() {
    let folder = Folder::new();
    let files = written(&folder, &arrangement(&folder, None, 0).write).await;
    let way = arrangement(&folder, by(&["x", "y"], Curve::KdTree), 1 << 20);
    let adds = way.run(files.clone(), 8).await.unwrap();
    let rows = read_back(&way, &adds).await;
    assert_eq!(rows.len(), 8);
    let mut all = rows.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROWS));
    // Without an order rows stay as they come, in one file.
    let copied = arrangement(&folder, None, 0).run(files, 1).await.unwrap();
    let as_written = numbers().column(0).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(read_back(&way, &copied).await, [as_written]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_leaves_no_file() {
    let folder = Folder::new();
    let mut files = written(&folder, &arrangement(&folder, None, 0).write).await;
    let before = folder.keys().len();
    files.push(FileRead {
        path: "gone.parquet".to_owned(),
        ..FileRead::default()
    });
    for order in [None, by(&["x"], Curve::Hilbert)] {
        let way = arrangement(&folder, order, 1 << 20);
        assert!(way.run(files.clone(), 2).await.is_err());
        let stopped = Arrangement {
            stop: Arc::new(AtomicBool::new(true)),
            ..way
        };
        assert!(stopped.run(files[..1].to_vec(), 2).await.is_err());
        assert!(stopped.stop.load(Ordering::Relaxed));
    }
    assert_eq!(folder.keys().len(), before);
}
