//! Moved rows are unchanged and in the requested order, whatever the memory limit; a failure leaves
//! no files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{
    ArrayRef, AsArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::schema::Primitive;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};

use futures::TryStreamExt;

use super::*;
use crate::read::SelectedRows;
use crate::testing::{Folder, schema};
use crate::write::{Compression, FileWriter};

const ROWS: i64 = 40_000;
const PER_FILE: usize = 10_000;

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
    for from in (0..numbers().num_rows()).step_by(PER_FILE) {
        writer.write(numbers().slice(from, PER_FILE)).await.unwrap();
    }
    let adds = writer.finish().await.unwrap();
    adds.iter().map(|a| FileRead::of(a).unwrap()).collect()
}

fn job(folder: &Folder, order: Option<Order>, memory_bytes: usize) -> OptimizeJob {
    let schema = schema(&[("x", Primitive::Long), ("y", Primitive::Long)]);
    OptimizeJob {
        store: folder.store.clone(),
        read: Arc::new(ReadSpec::new(schema.clone(), Vec::new())),
        write: WriteSpec::new(schema, Vec::new(), 0),
        ids: None,
        order,
        memory_bytes,
        parallelism: 2,
        lineage: LineageStorage::Here,
        stop: Arc::default(),
    }
}

fn by(columns: &[&str], curve: Curve) -> Option<Order> {
    Some(Order {
        columns: columns.iter().map(|c| vec![(*c).to_owned()]).collect(),
        curve,
    })
}

fn logged(files: Vec<OptimizedFile>) -> Vec<Add> {
    files.into_iter().map(|file| file.add).collect()
}

/// The values of x, file by file.
async fn read_back(way: &OptimizeJob, adds: &[Add]) -> Vec<Vec<i64>> {
    let mut values = Vec::new();
    for add in adds {
        let batches: Vec<RecordBatch> = way
            .scan(vec![FileRead::of(add).unwrap()], way.read.clone())
            .try_collect()
            .await
            .unwrap();
        let x = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
        values.push(batches.iter().flat_map(x).collect());
    }
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_rows_are_the_same_in_memory_and_beyond() {
    let folder = Folder::new();
    let files = written(&folder, &job(&folder, None, 0).write).await;
    assert!(files.len() > 1);
    let mut results = Vec::new();
    // All in memory, in one run; some runs in temporary files; nearly all of them.
    for (memory, batch_rows) in [(1 << 30, 10_000), (1 << 20, 10_000), (1 << 10, 10_000), (1 << 10, 100)] {
        let mut way = job(&folder, by(&["x"], Curve::ZOrder), memory);
        // Small batches make more runs than are merged at once.
        way.read = Arc::new(ReadSpec {
            batch_rows,
            ..way.read.as_ref().clone()
        });
        let adds = logged(way.run(files.clone(), 3).await.unwrap());
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
    let files = written(&folder, &job(&folder, None, 0).write).await;
    let way = job(&folder, by(&["x", "y"], Curve::KdTree), 1 << 20);
    let adds = logged(way.run(files.clone(), 8).await.unwrap());
    let rows = read_back(&way, &adds).await;
    assert_eq!(rows.len(), 8);
    let mut all = rows.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROWS));
    // Without an order rows stay as they come, in one file.
    let copied = logged(job(&folder, None, 0).run(files, 1).await.unwrap());
    let as_written = numbers().column(0).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(read_back(&way, &copied).await, [as_written]);
}

#[tokio::test(flavor = "multi_thread")]
async fn marked_rows_are_found_again_where_they_were_sorted_to() {
    let folder = Folder::new();
    let mut files = written(&folder, &job(&folder, None, 0).write).await;
    // P121: positions count the rows that are left out, too.
    files[1].selected = Some(SelectedRows::Without(Arc::new((0..5_000).collect())));
    let x = numbers().column(0).as_primitive::<Int64Type>().values().to_vec();
    for (curve, memory, lineage) in [
        (Curve::ZOrder, 1 << 30, LineageStorage::Here),
        (Curve::Hilbert, 1 << 18, LineageStorage::Stored),
        (Curve::KdTree, 1 << 20, LineageStorage::Here),
    ] {
        let way = OptimizeJob {
            lineage,
            ..job(&folder, by(&["x", "y"], curve), memory)
        };
        let done = way.run(files.clone(), 5).await.unwrap();
        let old: Vec<Positions> = (0..files.len() as u64)
            .map(|file| (0..PER_FILE as u64).filter(|row| (row * 31 + file) % 17 == 3).collect())
            .collect();
        let mut found_rows = Vec::new();
        for file in &done {
            let marked = file.lineage.as_ref().unwrap().marked(&old).await.unwrap();
            let key = file.lineage.as_ref().unwrap().key();
            assert_eq!(
                key.is_some_and(|key| folder.keys().contains(&key.to_owned())),
                lineage == LineageStorage::Stored
            );
            let rows = read_back(&way, std::slice::from_ref(&file.add)).await.concat();
            found_rows.extend(marked.iter().map(|row| rows[row as usize]));
        }
        found_rows.sort_unstable();
        let live = |file: usize, row: u64| file != 1 || row >= 5_000;
        let marked = old
            .iter()
            .enumerate()
            .flat_map(|(file, rows)| rows.iter().map(move |row| (file, row)));
        let mut expected: Vec<i64> = marked
            .filter(|(file, row)| live(*file, *row))
            .map(|(file, row)| x[file * PER_FILE + row as usize])
            .collect();
        expected.sort_unstable();
        assert!(expected.len() > 1_000);
        assert_eq!(found_rows, expected);
        let untouched = vec![Positions::new(); files.len()];
        assert!(
            done[0]
                .lineage
                .as_ref()
                .unwrap()
                .marked(&untouched)
                .await
                .unwrap()
                .is_empty()
        );
    }
    // Without lineage there is no cost.
    let way = OptimizeJob {
        lineage: LineageStorage::No,
        ..job(&folder, by(&["x"], Curve::ZOrder), 1 << 20)
    };
    assert!(
        way.run(files, 2)
            .await
            .unwrap()
            .iter()
            .all(|file| file.lineage.is_none())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_leaves_no_file() {
    let folder = Folder::new();
    let mut files = written(&folder, &job(&folder, None, 0).write).await;
    let before = folder.keys().len();
    files.push(FileRead {
        path: "gone.parquet".to_owned(),
        ..FileRead::default()
    });
    for order in [None, by(&["x"], Curve::Hilbert)] {
        let way = job(&folder, order, 1 << 20);
        assert!(way.run(files.clone(), 2).await.is_err());
        let stopped = OptimizeJob {
            stop: Arc::new(AtomicBool::new(true)),
            ..way
        };
        assert!(stopped.run(files[..1].to_vec(), 2).await.is_err());
        assert!(stopped.stop.load(Ordering::Relaxed));
    }
    assert_eq!(folder.keys().len(), before);
}

const COPIED_FILES: usize = 16;

/// Columns of all types whose pages may be copied, and one with repeated values.
fn many_types(first: i64) -> RecordBatch {
    let n = || first..first + PER_FILE as i64;
    let mixed = |n: i64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
    let price = Decimal128Array::from_iter_values(n().map(|n| i128::from(mixed(n) % 10_000_000_000)));
    let moments = TimestampMicrosecondArray::from_iter_values(n().map(|n| mixed(n) / 10_000));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "long",
            Arc::new(n().map(|n| (n % 5 != 0).then_some(mixed(n))).collect::<Int64Array>()),
        ),
        (
            "date",
            Arc::new(Date32Array::from_iter_values(n().map(|n| i32::try_from(n).unwrap()))),
        ),
        (
            "double",
            Arc::new(Float64Array::from_iter_values(n().map(|n| mixed(n) as f64 / 3.0))),
        ),
        (
            "text",
            Arc::new(StringArray::from_iter_values(n().map(|n| format!("{:x}", mixed(n))))),
        ),
        ("at", Arc::new(moments.with_timezone("UTC"))),
        ("price", Arc::new(price.with_precision_and_scale(12, 2).unwrap())),
        ("nothing", Arc::new(Int64Array::new_null(PER_FILE))),
        (
            "repeats",
            Arc::new(StringArray::from_iter_values(n().map(|n| format!("name {}", n % 7)))),
        ),
    ];
    crate::testing::batch(columns)
}

fn of_many_types(folder: &Folder, compression: Compression) -> OptimizeJob {
    let price = Primitive::Decimal {
        precision: 12,
        scale: 2,
    };
    let schema = schema(&[
        ("long", Primitive::Long),
        ("date", Primitive::Date),
        ("double", Primitive::Double),
        ("text", Primitive::String),
        ("at", Primitive::Timestamp),
        ("price", price),
        ("nothing", Primitive::Long),
        ("repeats", Primitive::String),
    ]);
    let write = WriteSpec {
        compression,
        ..WriteSpec::new(schema.clone(), Vec::new(), 0)
    };
    OptimizeJob {
        read: Arc::new(ReadSpec::new(schema, Vec::new())),
        write,
        ..job(folder, None, 0)
    }
}

/// For each column, whether it has a dictionary, and its number of pages.
async fn pages_of(folder: &Folder, add: &Add) -> Vec<(bool, usize)> {
    let bytes = folder.store.read(&add.path).await.unwrap();
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    let footer = reader.parse_and_finish(&bytes).unwrap();
    let index = footer.page_index().unwrap().clone();
    let columns = footer.row_group(0).columns().iter().enumerate();
    let pages = |place: usize| index.offset_index(0, place).unwrap().page_locations.len();
    columns
        .map(|(place, c)| (c.dictionary_page_offset().is_some(), pages(place)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_pages_mean_what_their_rows_do() {
    let folder = Folder::new();
    let way = of_many_types(&folder, Compression::Zstd(1));
    let spec = WriteSpec {
        target_file_size_bytes: 1,
        ..way.write.clone()
    };
    let mut writer = FileWriter::new(folder.store.clone(), spec).unwrap();
    for file in 0..COPIED_FILES {
        writer.write(many_types((file * PER_FILE) as i64)).await.unwrap();
    }
    let written = writer.finish().await.unwrap();
    assert_eq!(written.len(), COPIED_FILES);
    let mut files: Vec<FileRead> = written.iter().map(|a| FileRead::of(a).unwrap()).collect();
    let copied = logged(way.run(files.clone(), 1).await.unwrap());
    // Pages with another codec can't be copied.
    let encoded = of_many_types(&folder, Compression::Snappy)
        .run(files.clone(), 1)
        .await
        .unwrap();
    let encoded = logged(encoded);
    let rows = |adds: &[Add]| folder.read_all(way.read.as_ref().clone(), adds).unwrap();
    assert_eq!(rows(&copied), rows(&written));
    assert_eq!(rows(&encoded), rows(&written));
    // P160, P162, P163
    assert_eq!(copied[0].stats, encoded[0].stats);
    let pages = pages_of(&folder, &copied[0]).await;
    assert_eq!(pages[..6], [(false, COPIED_FILES); 6]);
    assert!(pages[7].0 && pages[7].1 < COPIED_FILES);
    // A file with deselected rows is decoded, and so are its neighbours: they have too few rows for
    // a row group of their own.
    files[3].selected = Some(SelectedRows::Without(Arc::new([0, 5].into_iter().collect())));
    let less = logged(way.run(files, 1).await.unwrap());
    assert_eq!(rows(&less).num_rows(), COPIED_FILES * PER_FILE - 2);
    assert!(pages_of(&folder, &less[0]).await[0].1 < COPIED_FILES);
}
