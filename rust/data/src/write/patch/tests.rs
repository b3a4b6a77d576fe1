//! Patched files: rows, statistics and page bounds match the new rows.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::DataType as A;
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::bloom_filters::BloomFilter;
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::schema::{Primitive as P, StructType};
use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::ParquetMetaData;
use proptest::prelude::*;

use super::super::bounds::page_bounds;
use super::super::compress::Codecs;
use super::super::pages::OldChunk;
use super::super::plain::{Kind, Values};
use crate::read::{FileRead, SourceFile};
use crate::testing::{Folder, file_read, schema, stats};
use crate::{Compression, Patcher, ReadSpec, WriteSpec, cast_batch};

const ROWS: usize = 45_000;
const GROUP_ROWS: usize = 25_000;
const COLUMNS: [(&str, P); 13] = [
    ("i", P::Integer),
    ("h", P::Short),
    ("l", P::Long),
    ("f", P::Float),
    ("d", P::Double),
    ("dt", P::Date),
    ("ts", P::Timestamp),
    ("d9", P::Decimal { precision: 9, scale: 2 }),
    (
        "d18",
        P::Decimal {
            precision: 18,
            scale: 0,
        },
    ),
    ("few", P::String),
    ("many", P::String),
    ("raw", P::Binary),
    ("gaps", P::Long),
];

fn table() -> Arc<StructType> {
    schema(&COLUMNS)
}

/// Rows that are told by numbers. The first four columns repeat, as does `few`.
fn rows(numbers: impl Iterator<Item = i64> + Clone, s: &StructType) -> RecordBatch {
    let scattered = || numbers.clone().map(|n| n * 7_919 % 100_003 - 50_000);
    let few = || numbers.clone().map(|n| n * 31 % 97 - 40);
    let decimals = |p, scale, values: Vec<i64>| {
        let made = Decimal128Array::from_iter_values(values.into_iter().map(i128::from));
        Arc::new(made.with_precision_and_scale(p, scale).unwrap()) as ArrayRef
    };
    let texts = |values: Vec<i64>| values.into_iter().map(|n| format!("text {n:+}")).collect::<Vec<_>>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(few().map(|n| n as i32))),
        Arc::new(Int16Array::from_iter_values(few().map(|n| n as i16))),
        Arc::new(Int64Array::from_iter_values(few())),
        Arc::new(Float32Array::from_iter_values(few().map(|n| n as f32 / 4.0))),
        Arc::new(Float64Array::from_iter_values(scattered().map(|n| n as f64 / 8.0))),
        Arc::new(Date32Array::from_iter_values(scattered().map(|n| n as i32))),
        Arc::new(TimestampMicrosecondArray::from_iter_values(scattered()).with_timezone("UTC")),
        decimals(9, 2, scattered().collect()),
        decimals(18, 0, scattered().collect()),
        Arc::new(StringArray::from(texts(few().collect()))),
        Arc::new(StringArray::from(texts(scattered().collect()))),
        Arc::new(BinaryArray::from_iter_values(texts(scattered().collect()))),
        Arc::new(Int64Array::from_iter(scattered().map(|n| (n % 5 != 0).then_some(n)))),
    ];
    let named = COLUMNS.iter().map(|(name, _)| *name).zip(columns);
    cast_batch(&RecordBatch::try_from_iter(named).unwrap(), s).unwrap()
}

struct Patched {
    folder: Folder,
    spec: WriteSpec,
    old: Add,
    new: Add,
    expected: RecordBatch,
}

/// A file with new values, told by numbers, in these rows.
fn patched(compression: Compression, positions: &[u64], numbers: &[i64]) -> Patched {
    let (folder, s) = (Folder::new(), table());
    let mut spec = WriteSpec::new(s.clone(), Vec::new(), 0);
    (spec.compression, spec.row_group_rows) = (compression, GROUP_ROWS);
    let before = rows(0..ROWS as i64, &s);
    let old = folder
        .write_spec(spec.clone(), std::slice::from_ref(&before))
        .unwrap()
        .remove(0);
    let values = rows(numbers.iter().copied(), &s);
    let mut places: Vec<_> = (0..ROWS).map(|row| (0, row)).collect();
    positions
        .iter()
        .enumerate()
        .for_each(|(n, row)| places[*row as usize] = (1, n));
    let expected = interleave_record_batch(&[&before, &values], &places).unwrap();
    let new = deltaplane_store::block_on(async {
        let names: Vec<_> = COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let patcher = Patcher::new(&folder.store, &spec, &names).unwrap().unwrap();
        assert!(patcher.takes(&old).await.unwrap());
        let mut selected = Positions::new();
        positions.iter().for_each(|row| selected.insert(*row));
        let path = patcher.new_path(&old, 0).unwrap();
        patcher.patch(&old, Some(&selected), &path, &values).await.unwrap()
    });
    Patched {
        folder,
        spec,
        old,
        new,
        expected,
    }
}

fn open(folder: &Folder, add: &Add) -> SourceFile {
    deltaplane_store::block_on(SourceFile::open(&folder.store, &FileRead::of(add).unwrap(), true)).unwrap()
}

fn check(patch: &Patched) {
    let read = ReadSpec::new(table(), Vec::new());
    let batch = patch.folder.read(read, vec![file_read(&patch.new)]).unwrap();
    let batch = arrow::compute::concat_batches(&batch[0].schema(), &batch).unwrap();
    assert_eq!(batch.columns(), patch.expected.columns());
    // Files that are written with these rows have the same statistics.
    let whole = patch
        .folder
        .write_spec(patch.spec.clone(), std::slice::from_ref(&patch.expected))
        .unwrap();
    assert_eq!(stats(&patch.new), stats(&whole[0]));
    let (made, whole) = (
        open(&patch.folder, &patch.new).footer,
        open(&patch.folder, &whole[0]).footer,
    );
    for group in 0..made.num_row_groups() {
        for (leaf, (name, _)) in COLUMNS.iter().enumerate() {
            let (a, b) = (made.row_group(group).column(leaf), whole.row_group(group).column(leaf));
            assert_eq!(a.statistics(), b.statistics(), "{name}");
            check_pages(&made, group, leaf, &patch.expected);
        }
    }
}

/// Bounds of pages hold all of their values.
fn check_pages(footer: &ParquetMetaData, group: usize, leaf: usize, rows: &RecordBatch) {
    let chunk = footer.row_group(group).column(leaf);
    let kind = Kind::of(chunk.column_descr().physical_type()).unwrap();
    let index = footer.page_index_for_row_group(group);
    let (pages, bounds) = (
        &index.offset_index(leaf).unwrap().page_locations,
        index.column_index(leaf).unwrap(),
    );
    let total = chunk.num_values();
    for (page, location) in pages.iter().enumerate() {
        let end = pages.get(page + 1).map_or(total, |next| next.first_row_index);
        let first = group * GROUP_ROWS + location.first_row_index as usize;
        let column = rows
            .column(leaf)
            .slice(first, (end - location.first_row_index) as usize);
        let Some(values) = Values::of(kind, &column) else {
            continue;
        };
        let (min, max) = page_bounds(bounds, page);
        for value in values.iter() {
            assert!(kind.order(&min, value).is_le() && kind.order(value, &max).is_le());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn new_values_stand_between_the_old_ones(
        rows in proptest::collection::btree_set(0..ROWS as u64, 1..60),
        seed in 0_i64..1_000_000,
        zstd in any::<bool>(),
    ) {
        let rows: Vec<_> = rows.into_iter().collect();
        let numbers: Vec<_> = (0..rows.len() as i64).map(|n| seed + n * 17).collect();
        check(&patched(if zstd { Compression::Zstd(1) } else { Compression::Uncompressed }, &rows, &numbers));
    }
}

#[test]
fn bounds_that_are_replaced_are_no_bounds_any_more() {
    let all = rows(0..ROWS as i64, &table());
    let few: &Int64Array = all.column(2).as_primitive();
    let many: &TimestampMicrosecondArray = all.column(6).as_primitive();
    let (least, most) = (
        *many.values().iter().min().unwrap(),
        *many.values().iter().max().unwrap(),
    );
    let places: Vec<u64> = (0..ROWS)
        .filter(|row| [-40, 56].contains(&few.value(*row)) || [least, most].contains(&many.value(*row)))
        .map(|row| row as u64)
        .collect();
    // Rows in the middle of all.
    let numbers = vec![50_000 * 100_003; places.len()];
    check(&patched(Compression::Zstd(1), &places, &numbers));
}

#[test]
fn files_with_dates_of_the_old_calendar_are_not_taken_over() {
    // New dates in such a file would be read as those of another day.
    let rows = RecordBatch::try_from_iter([("d", Arc::new(Date32Array::from(vec![-200_000])) as ArrayRef)]).unwrap();
    for (key, whole) in [
        ("org.apache.spark.version", true),
        ("org.apache.spark.legacyDateTime", false),
        ("org.apache.spark.legacyINT96", false),
    ] {
        let said = parquet::file::metadata::KeyValue::new(key.to_owned(), String::new());
        let properties = parquet::file::properties::WriterProperties::builder()
            .set_key_value_metadata(Some(vec![said]))
            .build();
        let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        let footer = writer.close().unwrap();
        assert_eq!(super::is_whole(&footer), whole, "{key}");
    }
}

#[test]
fn an_assigned_column_leaves_none_of_its_old_statistics() {
    // P160: text that has no upper bound, floats with NaN, a column that became null.
    let old = r#"{"numRecords":3,"minValues":{"a":1,"s":{"x":1},"b":2},"maxValues":{"a":5,"s":{"x":5},"b":7},"nullCount":{"a":0,"s":{"x":0},"b":1}}"#;
    let made = r#"{"numRecords":3,"minValues":{"a":-9},"maxValues":{},"nullCount":{"a":0,"s":{"x":3}}}"#;
    let add = Add {
        stats: Some(old.to_owned()),
        ..Add::default()
    };
    let merged: serde_json::Value = serde_json::from_str(&super::merged(&add, &["a", "s"], made).unwrap()).unwrap();
    assert_eq!(
        merged,
        serde_json::json!({
            "numRecords": 3, "minValues": {"a": -9, "b": 2}, "maxValues": {"b": 7},
            "nullCount": {"a": 0, "s": {"x": 3}, "b": 1},
        })
    );
}

#[test]
fn pages_without_new_values_are_the_old_ones() {
    let made = patched(Compression::Zstd(1), &[20_001, 20_005], &[3, 4]);
    check(&made);
    let (old, new) = (open(&made.folder, &made.old), open(&made.folder, &made.new));
    let page = |file: &SourceFile, add: &Add, leaf: usize, page: usize| {
        let index = file.footer.page_index_for_row_group(0);
        let location = index.offset_index(leaf).unwrap().page_locations[page].clone();
        let bytes = std::fs::read(made.folder.path(&add.path)).unwrap();
        let start = location.offset as usize;
        bytes[start..start + location.compressed_page_size as usize].to_vec()
    };
    for (leaf, (name, _)) in COLUMNS.iter().enumerate().take(COLUMNS.len() - 1) {
        assert_eq!(page(&old, &made.old, leaf, 0), page(&new, &made.new, leaf, 0), "{name}");
        assert_ne!(page(&old, &made.old, leaf, 1), page(&new, &made.new, leaf, 1), "{name}");
    }
    // The dictionary has the new values already.
    let begin = |file: &SourceFile, leaf| file.footer.row_group(0).column(leaf).dictionary_page_offset();
    assert!(begin(&old, 9).is_some() && begin(&new, 9).is_some());
}

/// Whether a chunk of a file that is compressed so takes a new value when files are compressed in
/// another way.
fn takes(compression: Compression, now: Compression, leaf: usize, new: &ArrayRef) -> bool {
    let made = patched(compression, &[1], &[7]);
    check(&made);
    let file = open(&made.folder, &made.old);
    let input = deltaplane_store::block_on(file.fetch(std::iter::once(0..made.old.size as u64).collect())).unwrap();
    let chunk = OldChunk {
        footer: file.footer,
        group: 0,
        leaf,
    };
    let codecs = Codecs::new(now);
    let patched = chunk.patched(&input, &codecs, &[1], new).unwrap().is_some();
    assert!(chunk.is_patchable(&codecs) || !patched);
    patched
}

#[test]
fn what_is_compressed_in_another_way_is_encoded() {
    let long: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    assert!(takes(Compression::Zstd(1), Compression::Zstd(3), 2, &long));
    assert!(!takes(Compression::Snappy, Compression::Snappy, 2, &long));
    assert!(!takes(Compression::Snappy, Compression::Zstd(1), 2, &long));
}

#[test]
fn nulls_and_bounds_that_are_not_exact_are_encoded() {
    let takes = |leaf, new: ArrayRef| takes(Compression::Zstd(1), Compression::Zstd(1), leaf, &new);
    assert!(!takes(2, new_null_array(&A::Int64, 1)));
    assert!(!takes(4, Arc::new(Float64Array::from(vec![f64::NAN]))));
    assert!(!takes(12, Arc::new(Int64Array::from(vec![5]))));
    let text = |text: String| Arc::new(StringArray::from(vec![text]));
    assert!(!takes(10, text("z".repeat(100))));
    assert!(takes(10, text(format!("text +{}", "1".repeat(100)))));
}

#[test]
fn bounds_that_leave_nan_out_are_not_copied() {
    // P168: as files of older versions have them.
    let folder = Folder::new();
    let s = schema(&[("k", P::Long), ("d", P::Double), ("f", P::Float), ("n", P::Double)]);
    let numbers = Float64Array::from(vec![0.0, f64::NAN, 0.0]);
    let rows = crate::testing::batch(vec![
        ("k", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
        ("d", Arc::new(numbers)),
        ("f", Arc::new(Float32Array::from(vec![f32::NAN, 1.0, 2.0]))),
        ("n", Arc::new(Float64Array::from(vec![0.0, 1.0, 2.0]))),
    ]);
    let rows = cast_batch(&rows, &s).unwrap();
    let spec = WriteSpec::new(s, Vec::new(), 0);
    let adds = folder.write_spec(spec.clone(), std::slice::from_ref(&rows)).unwrap();
    let mut bytes = Vec::new();
    let properties = parquet::file::properties::WriterProperties::builder().build();
    let file = open(&folder, &adds[0]).footer;
    let schema = parquet::arrow::parquet_to_arrow_schema(file.file_metadata().schema_descr(), None).unwrap();
    let options = parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true)
        .with_schema_root("spark_schema".to_owned());
    let plain = RecordBatch::try_new(Arc::new(schema.clone()), rows.columns().to_vec()).unwrap();
    let mut out = parquet::arrow::ArrowWriter::try_new_with_options(&mut bytes, Arc::new(schema), options).unwrap();
    out.write(&plain).unwrap();
    out.close().unwrap();
    folder.put("old.parquet", &bytes);
    let old = Add {
        path: "old.parquet".to_owned(),
        size: bytes.len() as i64,
        ..adds[0].clone()
    };
    let bounds = |add: &Add, leaf: usize| {
        let footer = open(&folder, add).footer;
        let stats = footer.row_group(0).column(leaf).statistics().unwrap();
        let index = footer.page_index_for_row_group(0);
        (stats.min_bytes_opt().is_some(), index.column_index(leaf).is_some())
    };
    assert_eq!([1, 2, 3].map(|leaf| bounds(&old, leaf)), [(true, true); 3]);
    let new = deltaplane_store::block_on(async {
        let patcher = Patcher::new(&folder.store, &spec, &["k".to_owned()]).unwrap().unwrap();
        assert!(patcher.takes(&old).await.unwrap());
        let path = patcher.new_path(&old, 0).unwrap();
        patcher.patch(&old, None, &path, &rows).await.unwrap()
    });
    let flags = [1, 2, 3].map(|leaf| bounds(&new, leaf));
    assert_eq!(flags, [(false, false), (false, false), (true, true)]);
}

/// The leaves with a Bloom filter in every row group.
fn filtered(folder: &Folder, add: &Add) -> Vec<String> {
    let source = deltaplane_store::block_on(SourceFile::open(&folder.store, &file_read(add), false)).unwrap();
    let groups = source.footer.row_groups();
    let has = |leaf: &usize| groups.iter().all(|g| g.column(*leaf).bloom_filter_length().is_some());
    let leaves = (0..groups[0].num_columns()).filter(has);
    leaves
        .map(|leaf| groups[0].column(leaf).column_path().string())
        .collect()
}

#[test]
fn a_patched_file_has_the_filters_of_new_files() {
    let (folder, s) = (Folder::new(), table());
    let filter = |name: &str| BloomFilter {
        column: vec![name.to_owned()],
        fpp: 0.01,
        ndv: None,
    };
    let mut spec = WriteSpec::new(s.clone(), Vec::new(), 0);
    spec.row_group_rows = GROUP_ROWS;
    let plain = folder.write_spec(spec.clone(), &[rows(0..ROWS as i64, &s)]).unwrap();
    spec.bloom_filters = ["l", "many", "d"].map(filter).to_vec();
    let old = folder.write_spec(spec.clone(), &[rows(0..ROWS as i64, &s)]).unwrap();
    let assigned = ["d".to_owned(), "few".to_owned()];
    let patcher = Patcher::new(&folder.store, &spec, &assigned).unwrap().unwrap();
    let new = deltaplane_store::block_on(async {
        assert!(!patcher.takes(&plain[0]).await.unwrap());
        assert!(patcher.takes(&old[0]).await.unwrap());
        let mut selected = Positions::new();
        (3..9).for_each(|row| selected.insert(row));
        let path = patcher.new_path(&old[0], 0).unwrap();
        let values = rows(0..6, &s);
        patcher.patch(&old[0], Some(&selected), &path, &values).await.unwrap()
    });
    assert_eq!(filtered(&folder, &new), ["l", "d", "many"]);
    // The copied filters are those of the old file.
    let copied = |add: &Add| {
        let file = file_read(add);
        let source = deltaplane_store::block_on(SourceFile::open(&folder.store, &file, false)).unwrap();
        let bytes = bytes::Bytes::from(std::fs::read(folder.path(&file.path)).unwrap());
        let leaf = COLUMNS.iter().position(|(name, _)| *name == "many").unwrap();
        let chunk = source.footer.row_group(1).column(leaf);
        let filter = Sbbf::read_from_column_chunk(chunk, &bytes).unwrap().unwrap();
        let mut written = Vec::new();
        filter.write(&mut written).unwrap();
        written
    };
    assert_eq!(copied(&old[0]), copied(&new));
}
