//! Every parser of the protocol on text that nobody wrote: real samples with pieces cut out,
//! doubled, replaced. Each is read or refused with a typed error, in bounded time and memory, and
//! what was read is written and read back the same. PROPTEST_CASES sets the number of cases (256
//! unless told).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod changes;
mod memory;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deltaplane_protocol::actions::{Add, DeletionVector, parse_commit, write_commit};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::deletion_vectors::{Place, Positions, unframe};
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::files::adds_to_batch;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::partition_values::parse_partition_value;
use deltaplane_protocol::properties::{Properties, parse_interval_ms};
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::schema::{Primitive, StructType};
use deltaplane_protocol::{Kind, Result, hint, paths};
use proptest::prelude::*;

use crate::changes::{apply, change, changed, changed_text, retyped};
use crate::memory::peak_of;

/// Far longer than any of these inputs takes, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(5);
/// A byte of JSON such as `[` can be a list with room for some values; what takes more copies or
/// counts what isn't there.
const MOST_BYTES_A_BYTE: usize = 400;
const MOST_BYTES: usize = 1 << 20;

const COMMIT: &str = r#"{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":{"mode":"Append","partitionBy":"[\"p\"]"},"isolationLevel":"Serializable","isBlindAppend":true,"operationMetrics":{"numFiles":"1"},"txnId":"2cd9a5f2-7e4b-4b0a-9a35-6fbb2a7b3b0e","inCommitTimestamp":1700000000001}}
{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","rowTracking"]}}
{"metaData":{"id":"af23c9d7-fff1-4a5a-a2c8-55c59bd782aa","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["p"],"configuration":{"delta.appendOnly":"true"},"createdTime":1700000000000}}
{"add":{"path":"p=a%20b/part-0.parquet","partitionValues":{"p":"a b"},"size":123,"modificationTime":1700000000000,"dataChange":true,"stats":"{\"numRecords\":2,\"minValues\":{\"x\":1},\"maxValues\":{\"x\":2},\"nullCount\":{\"x\":0}}","tags":{"k":"v"},"deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6},"baseRowId":0,"defaultRowCommitVersion":1}}
{"remove":{"path":"p=a/part-1.parquet","deletionTimestamp":1700000000000,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{"p":null},"size":5}}
{"cdc":{"path":"_change_data/c.parquet","partitionValues":{},"size":7,"dataChange":false}}
{"txn":{"appId":"app","version":3,"lastUpdated":1}}
{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{\"rowIdHighWaterMark\":1}","removed":false}}
"#;
const SCHEMA: &str = r#"{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}},{"name":"d","type":"decimal(10,2)","nullable":false,"metadata":{}},{"name":"a","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"t","type":"timestamp_ntz","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}},{"name":"m","type":{"type":"map","keyType":"string","valueType":"binary","valueContainsNull":true},"nullable":true,"metadata":{"comment":"c"}},{"name":"p","type":"string","nullable":true,"metadata":{}}]}"#;
const STATS: &str = r#"{"numRecords":2,"minValues":{"x":-1,"d":1.50,"p":"a","s":{"y":"2024-01-01T00:00:00.000Z"}},"maxValues":{"x":9,"d":99.99,"p":"z"},"nullCount":{"x":0,"d":1,"s":{"y":2}},"tightBounds":false}"#;
const CHECKSUM: &str = r#"{"txnId":"t","tableSizeBytes":123,"numFiles":1,"numMetadata":1,"numProtocol":1,"inCommitTimestampOpt":1,"setTransactions":[{"appId":"a","version":1}],"domainMetadata":[],"metadata":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":[],"configuration":{}},"protocol":{"minReaderVersion":1,"minWriterVersion":2},"histogramOpt":{"sortedBinBoundaries":[0,8192],"fileCounts":[1,0],"totalBytes":[123,0]}}"#;
const EXPRESSION: &str = r#"{"op":"and","args":[{"op":"compare","cmp":"<","left":{"op":"column","name":["x"]},"right":{"op":"literal","type":"long","value":"5"}},{"op":"not","arg":{"op":"is_null","arg":{"op":"column","name":["p"]}}}]}"#;
const HINT: &str = r#"{"version":10,"size":20,"sizeInBytes":300,"numOfAddFiles":5,"parts":2,"checkpointSchema":{"type":"struct","fields":[]},"checksum":"84591dffc10a52f74acad9d562a6000c"}"#;

/// Values of a column, from the samples and from anything.
fn value_text() -> impl Strategy<Value = String> {
    let samples = [
        "2024-03-10",
        "2024-03-10T16:34:56.123456Z",
        "2024-03-10 12:34:56.123456",
        "1.50",
        "-12345",
        "1.0E20",
        "true",
        "\\u0001\\u00ff",
        "a b",
        "interval 2 weeks 3 days",
        "p=a%20b/part-0.parquet",
        "s3://bucket/a%2520b?x#y",
        "00000000000000000010.checkpoint.0000000001.0000000002.parquet",
    ];
    let of_samples = prop::sample::select(samples.to_vec())
        .prop_flat_map(|sample| changed(sample.as_bytes()).prop_map(|b| String::from_utf8_lossy(&b).into_owned()));
    prop_oneof![of_samples, any::<String>()]
}

/// Parses an input of `input_bytes` bytes in bounded time and memory; fails if the error is
/// `Internal`, a fault of this program.
fn judged<T: Debug>(input_bytes: usize, parse: impl FnOnce() -> Result<T>) -> Option<T> {
    let began = Instant::now();
    let (result, peak) = peak_of(parse);
    assert!(began.elapsed() < LONGEST, "took {:?}", began.elapsed());
    assert!(
        peak <= MOST_BYTES + MOST_BYTES_A_BYTE * input_bytes,
        "took {peak} bytes for an input of {input_bytes}"
    );
    match result {
        Ok(value) => Some(value),
        Err(e) => {
            assert_ne!(e.kind(), Kind::Internal, "{e}");
            None
        }
    }
}

proptest! {
    #[test]
    fn commits(text in prop_oneof![changed_text(COMMIT), retyped(COMMIT), any::<String>()]) {
        if let Some(actions) = judged(text.len(), || parse_commit(&text)) {
            let written = write_commit(&actions).unwrap();
            prop_assert_eq!(parse_commit(&written).unwrap(), actions);
        }
    }

    #[test]
    fn schemas(text in prop_oneof![changed_text(SCHEMA), retyped(SCHEMA)]) {
        if let Some(schema) = judged(text.len(), || StructType::from_json(&text)) {
            prop_assert_eq!(&StructType::from_json(&schema.to_json()).unwrap(), &schema);
            let _ = judged(text.len(), || schema.check_names());
            let _ = judged(text.len(), || Mapping::Name.check(&schema));
            let _ = deltaplane_protocol::arrow_types::to_arrow_schema(&schema);
        }
    }

    #[test]
    fn statistics_keep_or_skip(text in prop_oneof![changed_text(STATS), retyped(STATS)], value in value_text()) {
        let schema = StructType::from_json(SCHEMA).unwrap();
        let expr = r#"{"op":"compare","cmp":">","left":{"op":"column","name":["x"]},"right":{"op":"literal","type":"long","value":"100"}}"#;
        let predicate = judged(expr.len(), || Predicate::bind(&Expr::from_json(expr)?, &schema)).unwrap();
        let pruner = Pruner::new(&predicate, &schema, &["p".to_owned()], Mapping::None).unwrap();
        let add = Add {
            path: "f".to_owned(),
            partition_values: [("p".to_owned(), Some(value))].into(),
            stats: Some(text.clone()),
            ..Add::default()
        };
        let files = adds_to_batch([&add]).unwrap();
        let _ = judged(text.len(), || pruner.keep(&files));
    }

    #[test]
    fn checksums(bytes in prop_oneof![changed(CHECKSUM.as_bytes()), retyped(CHECKSUM).prop_map(String::into_bytes)]) {
        if let Some(sum) = judged(bytes.len(), || VersionChecksum::parse(&bytes)) {
            let written = sum.to_json().unwrap();
            prop_assert_eq!(VersionChecksum::parse(written.as_bytes()).unwrap().to_json().unwrap(), written);
        }
    }

    #[test]
    fn hints(text in prop_oneof![changed_text(HINT), retyped(HINT)]) {
        if let Ok(value) = serde_json::from_str(&text) {
            prop_assert_eq!(hint::checksum(&value).len(), 32);
        }
    }

    #[test]
    fn expressions(text in prop_oneof![changed_text(EXPRESSION), retyped(EXPRESSION)]) {
        let schema = StructType::from_json(SCHEMA).unwrap();
        if let Some(expr) = judged(text.len(), || Expr::from_json(&text)) {
            let _ = judged(text.len(), || Predicate::bind(&expr, &schema));
        }
    }

    #[test]
    fn partition_values(text in value_text()) {
        for ty in [
            Primitive::String, Primitive::Long, Primitive::Integer, Primitive::Short, Primitive::Byte, Primitive::Float,
            Primitive::Double, Primitive::Boolean, Primitive::Binary, Primitive::Date, Primitive::Timestamp,
            Primitive::TimestampNtz, Primitive::Decimal { precision: 10, scale: 2 },
        ] {
            let _ = judged(text.len(), || parse_partition_value(Some(&text), ty));
        }
    }

    #[test]
    fn paths_and_names(text in value_text()) {
        let _ = judged(text.len(), || paths::decode(&text));
        prop_assert_eq!(paths::decode(&paths::encode(&text)).unwrap(), text.clone());
        if let Some((version, _)) = paths::parse_log_name(&text) {
            // Every version has a next one.
            prop_assert!(i64::try_from(version).is_ok());
        }
        let _ = paths::partition_dir(&text, Some(&text));
    }

    #[test]
    fn properties(key in value_text(), value in value_text()) {
        let _ = parse_interval_ms(&value);
        for key in [key.as_str(), "delta.logRetentionDuration", "delta.checkpointInterval", "delta.dataSkippingNumIndexedCols"] {
            let configuration = [(key.to_owned(), value.clone())].into();
            let _ = Properties::new(&configuration);
            let _ = judged(value.len(), || Properties::validate(&configuration));
        }
    }

    #[test]
    fn vectors(
        rows in prop::collection::vec(0_u64..1 << 34, 1..200),
        changes in prop::collection::vec(change(), 1..4),
        cardinality in any::<i64>(),
    ) {
        let rows: Positions = rows.into_iter().collect();
        let bytes = apply(&rows.serialise().unwrap(), &changes);
        let _ = judged(bytes.len(), || Positions::parse(&bytes, cardinality));
        if let Some(read) = judged(bytes.len(), || Positions::parse(&bytes, rows.len() as i64)) {
            prop_assert_eq!(read.len(), rows.len());
        }
        let _ = judged(bytes.len(), || unframe(&bytes, bytes.len().saturating_sub(8)).map(<[u8]>::len));
    }

    #[test]
    fn places(
        storage in prop::sample::select(vec!["i", "u", "p", "x", ""]), text in value_text(), offset in any::<Option<i32>>(),
        size in any::<i32>(), cardinality in any::<i64>(),
    ) {
        let length = text.len();
        let dv = DeletionVector {
            storage_type: storage.to_owned(),
            path_or_inline_dv: text,
            offset,
            size_in_bytes: size,
            cardinality,
        };
        let _ = judged(length, || Place::of(&dv));
    }
}

#[test]
fn the_samples_are_sound() {
    // A sample that is refused would test nothing behind the first check.
    assert_eq!(parse_commit(COMMIT).unwrap().len(), 8);
    let schema = Arc::new(StructType::from_json(SCHEMA).unwrap());
    assert_eq!(schema.fields().len(), 5);
    VersionChecksum::parse(CHECKSUM.as_bytes()).unwrap();
    Predicate::bind(&Expr::from_json(EXPRESSION).unwrap(), &schema).unwrap();
}
