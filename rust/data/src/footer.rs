//! Statistics of a Parquet file that another program wrote, such as Spark's executors: its measured
//! columns are processed like those of deltaplane's files, so statistics are exact and of the same
//! form. Columns whose statistics the footer states exactly aren't read. Also the file's schema.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, Fields, Schema, TimeUnit};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::arrow_types::from_arrow_schema;
use deltaplane_protocol::schema::{Field, StructType};
use deltaplane_store::Store;
use futures::TryStreamExt;
use parquet::arrow::parquet_to_arrow_schema;

use crate::read::{FileRead, ReadSpec, SourceFile, column_stats, read_opened};
use crate::stats;
use crate::types::without_void;
use crate::write::WriteSpec;

/// The footer's key with Spark's schema of the file, in Delta's format.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The columns of the Parquet file at this key, all nullable: Spark's schema if Spark wrote the
/// file.
///
/// # Errors
/// `FileMissing`, `CorruptFile` for a file that isn't Parquet, `SchemaMismatch` for types that no
/// table has.
pub async fn footer_schema(store: &Store, key: &str) -> Result<StructType> {
    let file = FileRead {
        path: key.to_owned(),
        ..FileRead::default()
    };
    let opened = SourceFile::open(store, &file, false).await?;
    let footer = opened.footer.file_metadata();
    let entries = footer.key_value_metadata().into_iter().flatten();
    let spark = entries
        .filter(|kv| kv.key == SPARK_SCHEMA)
        .find_map(|kv| kv.value.as_deref());
    let schema = match spark.and_then(|text| StructType::from_json(text).ok()) {
        Some(schema) => schema,
        None => {
            let arrow = parquet_to_arrow_schema(footer.schema_descr(), None).map_err(|e| {
                Error::corrupt_file(format!("the file's columns can't be read: {e}")).with_path(key.to_owned())
            })?;
            let schema = from_arrow_schema(&Schema::new(at_utc(arrow.fields())));
            // Field ids of the file don't belong to the table's schema.
            let plain = |f: Field| Field::new(f.name, f.data_type, f.nullable);
            schema
                .map_err(|e| e.with_path(key.to_owned()))?
                .map_fields(&mut |f| plain(f))
        }
    };
    Ok(schema.map_fields(&mut |mut f| {
        f.nullable = true;
        f
    }))
}

/// INT96 is an instant in UTC, though nothing in the file says so.
fn at_utc(fields: &Fields) -> Fields {
    let moment = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let to_utc = |f: &ArrowField| match f.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, None) => f.clone().with_data_type(moment()),
        DataType::Struct(inner) => f.clone().with_data_type(DataType::Struct(at_utc(inner))),
        _ => f.clone(),
    };
    fields.iter().map(|f| Arc::new(to_utc(f))).collect()
}

/// Number of rows and the text of `add.stats` of the Parquet file at this key, which is opened
/// once.
///
/// # Errors
/// `FileMissing`, `CorruptFile` for a file that isn't readable with the table's schema; the store's
/// errors.
pub async fn footer_stats(store: &Store, key: &str, spec: &WriteSpec) -> Result<(u64, String)> {
    let stats = measured(store, key, spec).await;
    stats.map_err(|e| e.with_path(key.to_owned()).with_table(store.location().as_str()))
}

async fn measured(store: &Store, key: &str, spec: &WriteSpec) -> Result<(u64, String)> {
    let stored = spec
        .schema
        .fields()
        .iter()
        .filter(|f| {
            !spec
                .partition_columns
                .iter()
                .any(|p| p.to_lowercase() == f.name.to_lowercase())
        })
        .cloned()
        .collect();
    let stored = Arc::new(without_void(&StructType::new(stored)));
    let mut columns = stats::new_columns(&stored, &[], spec.mapping, &spec.stats);
    let measured = stored.fields().iter().zip(&columns).filter(|(_, c)| c.is_some());
    let names: Vec<String> = measured.map(|(f, _)| f.name.clone()).collect();
    let spec_of = |columns| ReadSpec {
        columns: Some(columns),
        mapping: spec.mapping,
        ..ReadSpec::new(stored.clone(), Vec::new())
    };
    let file = FileRead {
        path: key.to_owned(),
        ..FileRead::default()
    };
    let opened = SourceFile::open(store, &file, false).await?;
    let (rows, from_footer) = column_stats(&opened.footer, &file, &spec_of(names.clone()))?;
    let (mut others, mut without_stats) = (Vec::new(), Vec::new());
    for ((column, name), from_footer) in columns.iter_mut().flatten().zip(names).zip(from_footer) {
        match from_footer {
            Some(stats) => column.absorb(Some(&stats.bounds), stats.nulls)?,
            None => {
                others.push(column);
                without_stats.push(name);
            }
        }
    }
    if !others.is_empty() {
        let mut batches = read_opened(opened, &file, &spec_of(without_stats))?;
        while let Some(batch) = batches.try_next().await? {
            for (column, array) in others.iter_mut().zip(batch.columns()) {
                column.update(array)?;
            }
        }
    }
    Ok((rows, stats::to_json(rows, &columns)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;

    use arrow::array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
        StructArray, TimestampMicrosecondArray,
    };
    use deltaplane_store::{Location, Options, block_on};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::counted;

    fn rows() -> RecordBatch {
        let numbers = || 0..200_i64;
        let some = |n: i64| (n % 3 > 0).then_some(n - 50);
        let text = |n: i64| (n > 40).then(|| format!("{}{n}", "ä".repeat(usize::try_from(n % 60).unwrap())));
        let ids: ArrayRef = Arc::new(numbers().map(some).collect::<Int64Array>());
        let inner = Arc::new(ArrowField::new("id", DataType::Int64, true));
        RecordBatch::try_from_iter_with_nullable([
            ("id", ids.clone(), true),
            (
                "text",
                Arc::new(numbers().map(text).collect::<StringArray>()) as ArrayRef,
                true,
            ),
            (
                "ratio",
                Arc::new(Float64Array::from_iter_values(numbers().map(|n| match n {
                    7 => f64::NAN,
                    n => -(n as f64) / 8.0,
                }))),
                true,
            ),
            (
                "price",
                Arc::new(
                    numbers()
                        .map(|n| some(n).map(i128::from))
                        .collect::<Decimal128Array>()
                        .with_precision_and_scale(20, 2)
                        .unwrap(),
                ),
                true,
            ),
            (
                "day",
                Arc::new(Date32Array::from_iter_values((0..200).map(|n| n * n - 9_000))),
                true,
            ),
            (
                "at",
                Arc::new(
                    numbers()
                        .map(|n| some(n).map(|n| n * 1_001))
                        .collect::<TimestampMicrosecondArray>()
                        .with_timezone("UTC"),
                ),
                true,
            ),
            (
                "flag",
                Arc::new(numbers().map(|n| Some(n % 2 == 0)).collect::<BooleanArray>()),
                true,
            ),
            ("nested", Arc::new(StructArray::from(vec![(inner, ids)])), true),
            ("nothing", Arc::new(StringArray::new_null(200)), true),
        ])
        .unwrap()
    }

    /// For writers that truncate long bounds and for those that don't, with several row groups, one
    /// of which has only nulls.
    #[test]
    fn a_footer_and_the_rows_tell_the_same() {
        // P160, P162, P163, P168
        let dir = tempfile::tempdir().unwrap();
        let store = deltaplane_store::Store::open(
            &Location::parse(dir.path().to_str().unwrap()).unwrap(),
            &Options::default(),
        )
        .unwrap();
        let rows = rows();
        let schema = Arc::new(from_arrow_schema(&rows.schema()).unwrap());
        let spec = WriteSpec::new(schema.clone(), Vec::new(), 0);
        let mut expected = stats::new_columns(&schema, &[], spec.mapping, &spec.stats);
        for (column, array) in expected.iter_mut().flatten().zip(rows.columns()) {
            column.update(array).unwrap();
        }
        for (writer, longest) in [("parquet-mr version 1.16.0", None), ("another", Some(16))] {
            let properties = WriterProperties::builder()
                .set_created_by(writer.to_owned())
                .set_statistics_truncate_length(longest)
                .set_max_row_group_row_count(Some(40));
            let file = File::create(dir.path().join("a.parquet")).unwrap();
            let mut out = ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).unwrap();
            out.write(&rows).unwrap();
            out.close().unwrap();
            let (count, stats_text) = block_on(footer_stats(&store, "a.parquet", &spec)).unwrap();
            assert_eq!((count, stats_text), (200, stats::to_json(200, &expected)), "{writer}");
            let read = ReadSpec::new(schema.clone(), Vec::new());
            let file = FileRead {
                path: "a.parquet".to_owned(),
                ..FileRead::default()
            };
            let opened = block_on(SourceFile::open(&store, &file, false)).unwrap();
            let (_, stats_of_footer) = column_stats(&opened.footer, &file, &read).unwrap();
            let known: Vec<bool> = stats_of_footer.iter().map(Option::is_some).collect();
            let text = longest.is_none();
            assert_eq!(
                known,
                [true, text, false, true, true, true, false, false, true],
                "{writer}"
            );
        }
    }

    #[test]
    fn a_file_is_opened_once() {
        let asked = counted::register("measured", |tag| tag);
        let location = Location::parse("measured://h/t").unwrap();
        let store = deltaplane_store::Store::open(&location, &Options::default()).unwrap();
        let rows = rows();
        let mut bytes = Vec::new();
        let mut out = ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
        out.write(&rows).unwrap();
        out.close().unwrap();
        let size = bytes.len();
        block_on(store.put("a.parquet", bytes.into())).unwrap();
        asked.take();
        let opens_for = |column: &str| {
            let fields = rows.schema().fields().clone();
            let field = fields.iter().find(|f| f.name() == column).cloned();
            let schema = from_arrow_schema(&Schema::new(Fields::from_iter(field))).unwrap();
            let spec = WriteSpec::new(Arc::new(schema), Vec::new(), 0);
            block_on(footer_stats(&store, "a.parquet", &spec)).unwrap();
            asked.take()
        };
        let opened = ["head a.parquet".to_owned(), format!("read a.parquet 0..{size}")];
        assert_eq!(opens_for("id"), opened);
        // One more read, for the values whose statistics the footer lacks.
        let read = opens_for("ratio");
        assert_eq!(
            (read.len(), read.contains(&opened[0]), read.contains(&opened[1])),
            (3, true, true),
            "{read:?}"
        );
    }
}
