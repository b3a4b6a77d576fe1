//! Writing: plan on the driver, files anywhere, commit on the driver.

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_data::{
    ClusteredWriter, Compression, IdentityValues, Order, StatsConfig, WriteSpec, cast_batch, footer_stats,
};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{
    DryRun, FileTarget, PlannedWrite, WriteMode, WritePlan, WriteRequest, now_ms, plan_write_after, protocol_json,
};
use deltaplane_protocol::actions::{Add, PartitionValues, Protocol};
use deltaplane_protocol::arrow_types::{from_arrow_schema, to_arrow_schema_with_metadata};
use deltaplane_protocol::features::identity_columns::{self, Fill};
use deltaplane_protocol::features::{RowRules, arrow_metadata};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::stats_columns::StatsColumns;
use deltaplane_protocol::zorder::Curve;
use deltaplane_store::{Store, block_on};
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arrow_bridge::ArrowSchema;
use crate::errors::run;
use crate::incoming::{reader_of, schema_of};
use crate::records::table_schema::TableSchema;
use crate::snapshot::{Snapshot, store};
use crate::snapshot_cache;

/// Protocols before and after a commit, as JSON.
pub(crate) fn protocols_text(before: &Protocol, after: &Protocol) -> String {
    json!({"before": protocol_json(before), "after": protocol_json(after)}).to_string()
}

/// A dry run as JSON.
pub(crate) fn dry_run_json(dry_run: &DryRun) -> Result<String> {
    serde_json::to_string(dry_run).map_err(|e| Error::internal(format!("can't write a dry run: {e}")))
}

/// What writers of files must know, as text that travels to any machine.
#[derive(Serialize, Deserialize)]
pub(crate) struct Spec {
    schema: String,
    partition_columns: Vec<String>,
    mapping: String,
    partition_columns_in_files: bool,
    shred_variants: bool,
    target_file_size_bytes: Option<u64>,
    row_group_rows: Option<usize>,
    compression: Option<String>,
    stats_columns: StatsColumns,
    string_prefix_length: usize,
    identity: Vec<Fill>,
    /// For whoever feeds the writer: it has evaluated them before the rows come here.
    row_rules: RowRules,
    /// Whether the commit declares them, so that they are to be judged themselves.
    declares: bool,
    /// Paths of the columns that new rows are ordered by, from so many bytes on.
    clustered_by: Vec<Vec<String>>,
    cluster_from_bytes: u64,
}

impl Spec {
    pub(crate) fn of(target: &FileTarget<'_>, identity: &[Fill], row_rules: &RowRules, declares: bool) -> Self {
        let (properties, request) = (target.properties, target.request);
        Spec {
            schema: target.schema.to_json(),
            partition_columns: target.partition_columns.to_vec(),
            mapping: target.mapping.as_str().to_owned(),
            partition_columns_in_files: target.form.partition_columns,
            shred_variants: target.form.typed_variants,
            target_file_size_bytes: request.target_file_size.or(properties.target_file_size_bytes),
            row_group_rows: request.row_group_rows,
            compression: request.compression.clone().or_else(|| properties.compression.clone()),
            stats_columns: StatsColumns::of(properties),
            string_prefix_length: properties.string_prefix_length,
            identity: identity.to_vec(),
            row_rules: row_rules.clone(),
            declares,
            clustered_by: Vec::new(),
            cluster_from_bytes: properties.cluster_from_bytes,
        }
    }

    /// For new rows of a table that is clustered by the columns at these paths.
    fn clustered(mut self, by: &[Vec<String>]) -> Self {
        self.clustered_by = by.to_vec();
        self
    }

    /// How new rows are ordered, and from how many bytes on.
    fn order(&self) -> Option<(Order, usize)> {
        let order = Order {
            columns: self.clustered_by.clone(),
            curve: Curve::Hilbert,
        };
        let from = usize::try_from(self.cluster_from_bytes).unwrap_or(usize::MAX);
        (!order.columns.is_empty()).then_some((order, from))
    }

    /// As text that travels to any machine.
    pub(crate) fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::internal(format!("can't write the spec: {e}")))
    }

    /// What identity columns of new rows are filled with.
    pub(crate) fn fills(&self) -> Vec<Fill> {
        self.identity.clone()
    }

    fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::invalid_argument(format!("not the spec of a write job: {e}")))
    }

    pub(crate) fn write_spec(&self) -> Result<WriteSpec> {
        let schema = Arc::new(StructType::from_json(&self.schema)?);
        let mut spec = WriteSpec::new(schema, self.partition_columns.clone(), now_ms());
        spec.mapping = Mapping::parse(&self.mapping)?;
        spec.partition_columns_in_files = self.partition_columns_in_files;
        spec.shred_variants = self.shred_variants;
        if let Some(n) = self.target_file_size_bytes {
            spec.target_file_size_bytes = n.max(1);
        }
        if let Some(n) = self.row_group_rows {
            spec.row_group_rows = n.max(1);
        }
        if let Some(c) = &self.compression {
            spec.compression = parse_codec(c)?;
        }
        spec.stats = StatsConfig {
            columns: self.stats_columns.clone(),
            string_prefix_length: self.string_prefix_length,
        };
        Ok(spec)
    }
}

/// `snappy`, `zstd`, `zstd(3)`, …
fn parse_codec(text: &str) -> Result<Compression> {
    let lower = text.to_lowercase();
    let (name, level) = match lower.split_once('(') {
        Some((n, l)) => (n, l.strip_suffix(')').and_then(|l| l.trim().parse::<i32>().ok())),
        None => (lower.as_str(), None),
    };
    match name.trim() {
        "none" | "uncompressed" => Ok(Compression::Uncompressed),
        "snappy" => Ok(Compression::Snappy),
        "zstd" => Ok(Compression::Zstd(level.unwrap_or(1))),
        "gzip" => Ok(Compression::Gzip),
        "lz4" | "lz4_raw" => Ok(Compression::Lz4Raw),
        _ => Err(Error::invalid_argument(format!(
            "`{text}` isn't a codec for data files: use zstd, snappy, gzip, lz4_raw or uncompressed"
        ))),
    }
}

/// A write that was checked against the table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct WriteJob {
    plan: WritePlan,
    location: String,
    options: Option<HashMap<String, String>>,
}

impl WriteJob {
    fn planned(&self) -> Result<&PlannedWrite> {
        match &self.plan {
            WritePlan::Go(p) => Ok(p),
            WritePlan::Skip(why) => Err(Error::invalid_argument(format!(
                "this write is skipped ({why}): there is nothing to commit"
            ))),
        }
    }
}

fn parse_request(text: &str) -> Result<WriteRequest> {
    serde_json::from_str(text).map_err(|e| Error::invalid_argument(format!("not a write request: {e}")))
}

fn parse_adds(adds: &[String]) -> Result<Vec<Add>> {
    adds.iter()
        .map(|a| serde_json::from_str(a).map_err(|e| Error::invalid_argument(format!("not an add action: {e}"))))
        .collect()
}

/// Deletes data files that won't be committed (texts of add actions); what is gone already is fine.
pub(crate) fn delete_files(store: &Store, adds: &[String]) -> Result<()> {
    delete_paths(store, parse_adds(adds)?.iter().map(|a| a.path.as_str()))
}

/// Deletes files by their paths in the log.
pub(crate) fn delete_paths<'a>(store: &Store, logged: impl Iterator<Item = &'a str>) -> Result<()> {
    for path in logged {
        block_on(store.delete(&paths::decode(path)?))?;
    }
    Ok(())
}

fn add_texts(adds: &[Add]) -> Result<Vec<String>> {
    adds.iter()
        .map(|a| serde_json::to_string(a).map_err(|e| Error::internal(format!("can't write an add action: {e}"))))
        .collect()
}

#[boundary]
#[pymethods]
impl WriteJob {
    #[staticmethod]
    fn begin(
        py: Python<'_>,
        location: &str,
        options: Option<HashMap<String, String>>,
        schema: &Bound<'_, PyAny>,
        request: &str,
    ) -> PyResult<Self> {
        let schema = schema_of(schema)?;
        let plan = run(py, || {
            let store = store(location, options.clone())?;
            let own = snapshot_cache::of(&store, options.as_ref());
            let (schema, request) = (from_arrow_schema(&schema)?, parse_request(request)?);
            block_on(plan_write_after(&store, own.as_ref(), schema, request))
        })?;
        Ok(WriteJob {
            plan,
            location: location.to_owned(),
            options,
        })
    }

    #[getter]
    fn skip(&self) -> Option<&'static str> {
        match &self.plan {
            WritePlan::Skip(why) => Some(why),
            WritePlan::Go(_) => None,
        }
    }

    #[getter]
    fn protocols(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let (before, after) = self.planned()?.protocols();
            Ok(protocols_text(&before, &after))
        })
    }

    #[getter]
    fn spec(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || {
            let planned = self.planned()?;
            let spec = Spec::of(
                &planned.target(),
                planned.fills(),
                planned.row_rules(),
                planned.declares(),
            );
            let spec = spec.clustered(planned.clustered_by());
            spec.write_spec()?;
            spec.to_json()
        })
    }

    /// The version that it was planned on, if there is a table.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        run(py, || Ok(self.planned()?.version()))
    }

    /// Whether the table wants rows shuffled to files of a good size before tasks write them.
    #[getter]
    fn optimizes(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, || Ok(self.planned()?.target().properties.optimize_write))
    }

    /// What the commit of these files would be, as JSON.
    fn dry_run(&self, py: Python<'_>, adds: Vec<String>) -> PyResult<String> {
        run(py, || {
            dry_run_json(&block_on(self.planned()?.dry_run(parse_adds(&adds)?))?)
        })
    }

    fn commit(&self, py: Python<'_>, adds: Vec<String>) -> PyResult<String> {
        run(py, || {
            let planned = self.planned()?;
            let done = match block_on(planned.commit(parse_adds(&adds)?)) {
                Err(e) if e.kind() == Kind::TableAlreadyExists && planned.request().mode == WriteMode::Ignore => {
                    return Ok(json!({"skipped": "exists"}).to_string());
                }
                done => done?,
            };
            snapshot_cache::keep(&done, self.options.as_ref());
            let metrics = done.metrics.clone();
            let auto_compact = done.snapshot.state().properties().auto_compact;
            Ok(json!({
                "version": done.version,
                "attempts": done.attempts,
                "metrics": metrics,
                "auto_compact": auto_compact,
            })
            .to_string())
        })
    }

    /// The table's newest version.
    fn newest(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let inner = run(py, || {
            let store = store(&self.location, self.options.clone())?;
            block_on(deltaplane_log::Snapshot::open(&store, None))
        })?;
        Ok(Snapshot { inner })
    }

    fn abort(&self, py: Python<'_>, adds: Vec<String>) -> PyResult<()> {
        run(py, || {
            delete_files(&store(&self.location, self.options.clone())?, &adds)
        })
    }
}

/// Writes data to new files of a table; they are invisible until committed. With `keep` false nothing is stored.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options, spec, data, task = 0, keep = true))]
pub(crate) fn write_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: &str,
    data: &Bound<'_, PyAny>,
    task: u32,
    keep: bool,
) -> PyResult<Vec<String>> {
    let reader = reader_of(data)?;
    run(py, || {
        let store = match store(location, options)? {
            store if keep => store,
            store => store.dry_run()?,
        };
        let spec = Spec::parse(spec)?;
        let mut identity = IdentityValues::new(spec.identity.clone(), task);
        let (order, declares) = (spec.order(), spec.declares);
        let spec = spec.write_spec()?;
        let schema = spec.schema.clone();
        if declares {
            // The data has all columns of a table that it makes: GENERATED ALWAYS refuses its values (P109).
            identity_columns::complete(&schema, schema.as_ref().clone())?;
        }
        let mut writer = ClusteredWriter::new(store, spec, order)?;
        block_on(async {
            for batch in reader {
                let cast = batch.and_then(|b| cast_batch(&identity.fill(b)?, &schema));
                let written = match cast {
                    Ok(b) => writer.write(b).await,
                    Err(e) => Err(e),
                };
                if let Err(e) = written {
                    writer.abort().await;
                    return Err(e);
                }
            }
            let mut adds = writer.finish().await?;
            identity_columns::stamp(&mut adds, &identity.last()?);
            add_texts(&adds)
        })
    })
}

/// Files that are read at once: each holds some row groups in memory.
const ADOPTED_AT_ONCE: usize = 8;

/// A Parquet file below the table's root that another engine wrote.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Adopted {
    path: String,
    #[serde(default)]
    partition_values: PartitionValues,
}

/// Reads another engine's files for exact statistics, unless none are wanted, and returns their add actions.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options, spec, files, statistics = true))]
pub(crate) fn adopt_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: &str,
    files: Vec<String>,
    statistics: bool,
) -> PyResult<Vec<String>> {
    run(py, || {
        let store = store(location, options)?;
        let spec = Spec::parse(spec)?.write_spec()?;
        let adopted = stream::iter(files).map(|text| adopt(&store, &spec, text, statistics));
        let adds: Vec<Add> = block_on(adopted.buffered(ADOPTED_AT_ONCE).try_collect())?;
        add_texts(&adds)
    })
}

async fn adopt(store: &Store, spec: &WriteSpec, text: String, statistics: bool) -> Result<Add> {
    let f: Adopted =
        serde_json::from_str(&text).map_err(|e| Error::invalid_argument(format!("not a file to adopt: {e}")))?;
    let info = store.head(&f.path).await?;
    let stats = match statistics {
        true => Some(footer_stats(store, &f.path, spec).await?.1),
        false => None,
    };
    Ok(Add {
        path: paths::encode(&f.path),
        partition_values: f.partition_values,
        size: i64::try_from(info.size_bytes).unwrap_or(i64::MAX),
        modification_time: info.modified_ms,
        data_change: true,
        stats,
        ..Add::default()
    })
}

/// Creates a table without rows; returns its version.
#[boundary]
#[pyfunction]
pub(crate) fn create_table(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    schema: &Bound<'_, PyAny>,
    request: &str,
) -> PyResult<u64> {
    let schema = schema_of(schema)?;
    let snapshot = run(py, || {
        let store = store(location, options)?;
        block_on(deltaplane_log::create_table(
            &store,
            from_arrow_schema(&schema)?,
            parse_request(request)?,
        ))
    })?;
    Ok(snapshot.version())
}

/// Whether a table is here.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options = None))]
pub(crate) fn is_table(py: Python<'_>, location: &str, options: Option<HashMap<String, String>>) -> PyResult<bool> {
    run(py, || block_on(deltaplane_log::is_table(&store(location, options)?)))
}

/// The Delta schema that holds every value of an Arrow schema.
#[boundary]
#[pyfunction]
pub(crate) fn schema_from_arrow(py: Python<'_>, schema: &Bound<'_, PyAny>) -> PyResult<TableSchema> {
    let schema = schema_of(schema)?;
    run(py, || arrow_metadata::from_arrow_text(&from_arrow_schema(&schema)?)).map(Into::into)
}

/// The Arrow schema of a Delta schema given as JSON.
#[boundary]
#[pyfunction]
pub(crate) fn schema_to_arrow(py: Python<'_>, schema_json: &str) -> PyResult<ArrowSchema> {
    run(py, || {
        let schema = arrow_metadata::shareable(&StructType::from_json(schema_json)?);
        Ok(ArrowSchema(to_arrow_schema_with_metadata(&schema)))
    })
}
