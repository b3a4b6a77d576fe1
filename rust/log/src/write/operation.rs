//! The operation that a write's commit records in the history: name, parameters and metrics, under
//! delta-spark's names. Computed from the request and the written files; opens none of them.

use std::collections::BTreeMap;

use deltaplane_protocol::actions::{Add, Metadata, Remove, claimed_sum};
use deltaplane_protocol::files::rows::num_records;
use serde_json::{Value, json};

use crate::transaction::Operation;
use crate::write::request::{CommitOperation, SchemaMode, WriteMode, WriteRequest};

/// Files that a write removes, and the number of their rows if all of them state it.
#[derive(Default)]
pub(crate) struct Gone {
    pub files: Vec<Remove>,
    pub rows: Option<i64>,
}

/// The history's entry for these files, written by `request` to a table with this metadata and
/// these partition columns.
pub(crate) fn operation(
    request: &WriteRequest,
    metadata: Option<&Metadata>,
    partition_columns: &[String],
    adds: &[Add],
    gone: &Gone,
) -> Operation {
    let (name, parameters) = match &request.operation {
        CommitOperation::Write { parameters } => ("WRITE".to_owned(), of_write(request, parameters)),
        CommitOperation::Definition {
            statement,
            fills,
            managed,
            saves_as_table,
            ..
        } => (
            format!("{statement}{}", if *fills { " AS SELECT" } else { "" }),
            of_definition(request, metadata, partition_columns, *managed, *saves_as_table),
        ),
        CommitOperation::StreamingUpdate {
            query_id,
            epoch_id,
            output_mode,
        } => {
            let says = [("outputMode", output_mode), ("queryId", query_id)];
            let mut parameters: BTreeMap<_, _> = says.map(|(k, v)| (k.to_owned(), json!(v))).into();
            parameters.insert("epochId".into(), json!(epoch_id.to_string()));
            ("STREAMING UPDATE".to_owned(), parameters)
        }
        CommitOperation::Conversion { parameters } => ("CONVERT".to_owned(), parameters.clone()),
    };
    Operation {
        name,
        parameters,
        metrics: metrics(request, adds, gone),
    }
}

fn metrics(request: &WriteRequest, adds: &[Add], gone: &Gone) -> BTreeMap<String, Value> {
    let rows = claimed_sum(adds.iter().filter_map(|a| num_records(a.stats.as_deref()?)));
    let bytes = claimed_sum(adds.iter().map(|a| a.size));
    let files_gone = ("numRemovedFiles", count(gone.files.len()));
    let metrics = match &request.operation {
        CommitOperation::Definition { fills: false, .. } => Vec::new(),
        CommitOperation::Conversion { .. } => vec![("numConvertedFiles", count(adds.len()))],
        CommitOperation::StreamingUpdate { .. } => vec![
            ("numAddedFiles", count(adds.len())),
            ("numOutputRows", rows),
            ("numOutputBytes", bytes),
            files_gone,
        ],
        CommitOperation::Write { .. } | CommitOperation::Definition { .. } => {
            let mut metrics = vec![
                ("numFiles", count(adds.len())),
                ("numOutputRows", rows),
                ("numOutputBytes", bytes),
            ];
            if request.mode == WriteMode::Overwrite {
                let bytes_gone = claimed_sum(gone.files.iter().filter_map(|r| r.size));
                metrics.extend([files_gone, ("numRemovedBytes", bytes_gone)]);
            }
            if request.predicate_sql.is_some() {
                metrics.extend([("numCopiedRows", 0), ("numAddedChangeFiles", 0)]);
                metrics.extend(gone.rows.map(|rows| ("numDeletedRows", rows)));
            }
            metrics
        }
    };
    metrics
        .into_iter()
        .map(|(k, v)| (k.to_owned(), json!(v.to_string())))
        .collect()
}

/// The parameters that were passed, and `more`; the partition columns are always included.
fn of_write(request: &WriteRequest, more: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mode = match request.mode {
        WriteMode::Error => "ErrorIfExists",
        WriteMode::Append => "Append",
        WriteMode::Overwrite => "Overwrite",
        WriteMode::Ignore => "Ignore",
    };
    let mut parameters = BTreeMap::from([
        ("mode".to_owned(), json!(mode)),
        ("partitionBy".to_owned(), list(request.partition_by.as_deref())),
    ]);
    if let Some(columns) = &request.cluster_by {
        parameters.insert("clusterBy".into(), list(Some(columns)));
    }
    if let Some(sql) = &request.predicate_sql {
        parameters.insert("predicate".into(), json!(sql));
    }
    let asked = [
        ("isDynamicPartitionOverwrite", request.dynamic_partitions),
        ("canOverwriteSchema", request.schema_mode == Some(SchemaMode::Overwrite)),
        ("canMergeSchema", request.schema_mode == Some(SchemaMode::Merge)),
    ];
    parameters.extend(
        asked
            .into_iter()
            .filter(|(_, so)| *so)
            .map(|(k, so)| (k.to_owned(), json!(so))),
    );
    for (name, value) in more {
        parameters.entry(name.clone()).or_insert_with(|| value.clone());
    }
    parameters
}

fn of_definition(
    request: &WriteRequest,
    metadata: Option<&Metadata>,
    partition_columns: &[String],
    managed: bool,
    saves_as_table: bool,
) -> BTreeMap<String, Value> {
    // The table's, with those that it kept and those that features add; `delta.feature.…` is none.
    let properties = metadata.map_or(&request.configuration, |m| &m.configuration);
    let mut parameters = BTreeMap::from([
        ("partitionBy".to_owned(), list(Some(partition_columns))),
        ("clusterBy".to_owned(), list(request.cluster_by.as_deref())),
        ("description".to_owned(), json!(request.description)),
        ("isManaged".to_owned(), json!(managed.to_string())),
        ("properties".to_owned(), json!(json!(properties).to_string())),
    ]);
    if saves_as_table {
        parameters.insert("isV1SaveAsTableOverwrite".into(), json!("true"));
        if request.schema_mode == Some(SchemaMode::Overwrite) {
            parameters.insert("canOverwriteSchema".into(), json!("true"));
        }
    }
    parameters
}

/// Names of columns as text.
fn list(columns: Option<&[String]>) -> Value {
    json!(json!(columns.unwrap_or_default()).to_string())
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
