//! Plans what a write does to a table: create, append, overwrite, replace partitions; and the
//! resulting schema and protocol. Planned on the driver before any file is written, committed after
//! all are.

mod commit;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{DomainMetadata, Metadata, Protocol};
use deltaplane_protocol::bloom_filters;
use deltaplane_protocol::expr::Predicate;
use deltaplane_protocol::features::catalog_managed::{self, Authority};
use deltaplane_protocol::features::identity_columns::{self, Fill};
use deltaplane_protocol::features::{
    self, FileForm, RowRules, View, arrow_metadata, change_data_feed, clustering, column_mapping, iceberg_compat,
    row_tracking, type_widening,
};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::properties::{Properties, canonical_key};
use deltaplane_protocol::schema::{Field, StructType};
use deltaplane_protocol::schema_changes::merge;
use deltaplane_protocol::{stats_columns, zorder};
use deltaplane_store::Store;

use crate::committer::authority;
use crate::environment::new_id;
use crate::listing::is_missing_place;
use crate::write::clustering::{clustered_anew, clustered_by};
use crate::write::mapped_schema::{incoming_schema, mapped};
use crate::write::replace::replaced;
use crate::write::request::{CommitOperation, FileRequest, IncomingRequest, SchemaMode, WriteMode, WriteRequest};
use crate::write::schema_checks::{
    canonical_columns, check_added_names, check_known, check_nested_not_null, check_new_schema, check_void,
    nullable_inside,
};
use crate::{Snapshot, now_ms};

const NEEDS_OVERWRITE: &str = "a predicate says which rows to replace: it needs the mode overwrite";
const DYNAMIC_ALONE: &str =
    "the partitions that rows are written to are replaced in mode overwrite, without a predicate";

/// The result of planning a write.
pub enum WritePlan {
    /// Nothing to do, and the reason: `exists` or `txn`.
    Skip(&'static str),
    /// Write files for this, then [`PlannedWrite::commit`] them.
    Go(Box<PlannedWrite>),
}

/// The requirements of a write's files.
#[derive(Clone, Copy)]
pub struct FileTarget<'a> {
    /// The schema of their rows.
    pub schema: &'a Arc<StructType>,
    /// Partition columns, in order.
    pub partition_columns: &'a [String],
    /// The mapping of column names in files and their adds.
    pub mapping: Mapping,
    /// The form of files, apart from the columns.
    pub form: FileForm,
    /// The table's properties.
    pub properties: &'a Properties,
    /// The caller's settings.
    pub request: &'a FileRequest,
    /// Whether statistics are those of delta-rs.
    pub as_delta_rs: bool,
}

enum Replace {
    Nothing,
    All,
    Partitions(Predicate),
    /// The partitions that rows are written to.
    Written,
}

/// A write that was checked against the table.
pub struct PlannedWrite {
    store: Store,
    base: Option<Snapshot>,
    /// The newest version with the same state, of a plan that was made before asking for it.
    newest: OnceLock<Snapshot>,
    schema: Arc<StructType>,
    partition_columns: Vec<String>,
    mapping: Mapping,
    form: FileForm,
    properties: Properties,
    metadata: Option<Metadata>,
    protocol: Option<Protocol>,
    domains: Vec<DomainMetadata>,
    clustered_by: Vec<Vec<String>>,
    replace: Replace,
    fills: Vec<Fill>,
    rules: RowRules,
    request: WriteRequest,
}

/// Checks a write of data with this schema against the current table.
pub async fn plan_write(store: &Store, incoming: StructType, request: WriteRequest) -> Result<WritePlan> {
    plan_write_after(store, None, incoming, request).await
}

/// As `plan_write`, for a writer that knows its last commit to this table; on a local store this
/// avoids opening the table again.
pub async fn plan_write_after(
    store: &Store,
    own: Option<&Snapshot>,
    incoming: StructType,
    request: WriteRequest,
) -> Result<WritePlan> {
    let planned = plan(store, own, incoming, request).await;
    planned.map_err(|e| e.with_table(store.location().as_str()))
}

/// As `plan_write`, on a snapshot that was the newest version a short time ago: the commit finds
/// what others committed since, as it finds what they commit while rows are written. `None` if it
/// is so old that their commits may have been cleaned up.
///
/// # Errors
/// As [`plan_write`], by the snapshot.
pub async fn plan_write_on(
    newest: &Snapshot,
    incoming: StructType,
    request: WriteRequest,
) -> Result<Option<WritePlan>> {
    if !newest.is_fresh() {
        return Ok(None);
    }
    let store = newest.store();
    let planned = plan_on(store, Some(newest.clone()), incoming, request).await;
    planned.map(Some).map_err(|e| e.with_table(store.location().as_str()))
}

/// Plans an append on a snapshot that this process has of the table, before the store says whether
/// it is the newest version: the caller asks by [`Snapshot::newest_after_own`] while the files are
/// written, and tells the plan by [`PlannedWrite::move_to`].
///
/// `None` if the plan depends on more than the snapshot's state, on a local store without a
/// catalog, where asking takes no time, and if only opening the table can tell the newest version.
///
/// # Errors
/// As [`plan_write`], by the snapshot.
pub async fn plan_append_ahead(
    own: &Snapshot,
    incoming: StructType,
    request: WriteRequest,
) -> Result<Option<WritePlan>> {
    let needs_newest = request.mode != WriteMode::Append
        || !request.commit.txn.is_empty()
        || request.read_version.is_some()
        || request.first_rows_meet.is_some();
    if needs_newest || !(own.can_list_ahead() || own.asks_by_commit()) {
        return Ok(None);
    }
    plan_on(own.store(), Some(own.clone()), incoming, request)
        .await
        .map(Some)
}

async fn plan(store: &Store, own: Option<&Snapshot>, incoming: StructType, request: WriteRequest) -> Result<WritePlan> {
    let known = match own {
        Some(own) => own.newest_after_own().await?,
        None => None,
    };
    let base = match known {
        Some(known) => Some(known),
        None => match Snapshot::open(store, None).await {
            Ok(s) => Some(s),
            // Said before any row is read or written.
            Err(e) if is_missing_place(&e) => return Err(e),
            // A write whose rows were read from the table doesn't create it again.
            Err(e) if e.kind() == Kind::TableNotFound && request.read_version.is_none() => None,
            Err(e) => return Err(e),
        },
    };
    plan_on(store, base, incoming, request).await
}

async fn plan_on(
    store: &Store,
    base: Option<Snapshot>,
    incoming: StructType,
    request: WriteRequest,
) -> Result<WritePlan> {
    let incoming = match &request.schema {
        Some(schema) => schema.0.as_ref().clone(),
        None => {
            let incoming = arrow_metadata::from_arrow_text(&incoming)?;
            check_arrow_metadata(&incoming, base.as_ref(), &request)?;
            incoming
        }
    };
    incoming.check_names()?;
    // Ids and physical names of another table's files are meaningless here.
    let incoming = nullable_inside(incoming_schema(&incoming));
    match base {
        None => new_table(store, incoming, request).map(|p| WritePlan::Go(Box::new(p))),
        Some(base) => existing_table(store, base, incoming, request).await,
    }
}

/// Refuses Arrow metadata that the table's schema would take over from the data without enforcing
/// it.
fn check_arrow_metadata(incoming: &StructType, base: Option<&Snapshot>, request: &WriteRequest) -> Result<()> {
    match (base, request.schema_mode) {
        (None, _) | (_, Some(SchemaMode::Overwrite)) => arrow_metadata::check_kept(incoming, None),
        (Some(base), Some(SchemaMode::Merge)) => arrow_metadata::check_kept(incoming, Some(base.schema())),
        (Some(_), None) => Ok(()),
    }
}

/// Checks the new values that a command on this version writes to these columns, as for an append
/// of such rows.
pub(crate) async fn plan_incoming(
    base: &Snapshot,
    incoming: &IncomingRequest,
    files: &FileRequest,
) -> Result<PlannedWrite> {
    let request = WriteRequest {
        schema_mode: incoming.merge_schema.then_some(SchemaMode::Merge),
        schema: Some(incoming.schema.clone()),
        files: files.clone(),
        applies_row_rules: true,
        ..WriteRequest::new(WriteMode::Append)
    };
    incoming.schema.0.check_names()?;
    let columns = nullable_inside(incoming_schema(&incoming.schema.0));
    if incoming.merge_schema {
        arrow_metadata::check_kept(&columns, Some(base.schema()))?;
    }
    match existing_table(base.store(), base.clone(), columns, request).await? {
        WritePlan::Go(planned) => Ok(*planned),
        // The request has no reason to skip.
        WritePlan::Skip(why) => Err(Error::internal(format!("a command's rows were skipped: {why}"))),
    }
}

fn new_table(store: &Store, schema: StructType, request: WriteRequest) -> Result<PlannedWrite> {
    check_data_change(&request, "make a table")?;
    let partition_columns = canonical_columns(&schema, request.partition_by.as_deref().unwrap_or_default())?;
    let mut configuration = BTreeMap::new();
    let mut wanted = request.configuration.clone();
    let (mut asked, stored) = request.commit.directives(&mut wanted)?;
    for (k, v) in &wanted {
        configuration.insert(canonical_key(k)?, v.clone());
    }
    request.validate(&configuration)?;
    configuration.extend(stored);
    let authority = authority(store);
    if authority == Authority::Catalog {
        catalog_managed::ask(&mut asked, &mut configuration);
    }
    iceberg_compat::map_columns(&mut configuration);
    let mapping = Mapping::of(&configuration)?;
    check_new_schema(
        &schema,
        &partition_columns,
        names_of(mapping, &request),
        request.has_rows(),
    )?;
    let schema = mapped(mapping, schema, &mut configuration, request.names_seed.as_deref())?;
    let mut metadata = Metadata {
        id: new_id().to_string(),
        name: request.name.clone(),
        description: request.description.clone(),
        schema_string: Some(schema.to_json()),
        partition_columns,
        created_time: Some(now_ms()),
        configuration,
        ..Metadata::default()
    };
    row_tracking::complete(&mut metadata, &asked, &new_id().to_string())?;
    let view = View {
        metadata: &metadata,
        schema: &schema,
    };
    let clustered = request.cluster_by.as_deref().filter(|c| !c.is_empty());
    let clustered_by = clustered.map_or(Ok(Vec::new()), |c| {
        zorder::paths(&schema, &metadata.partition_columns, c)
    })?;
    let domains: Vec<DomainMetadata> = clustered
        .map(|columns| clustering::domain_for(&metadata, &schema, columns))
        .into_iter()
        .collect::<Result<_>>()?;
    if !domains.is_empty() {
        clustering::ask(&mut asked);
    }
    let protocol = features::protocol_with(None, view, &asked)?;
    features::check_write(&protocol, view)?;
    authority.check_commit(&protocol)?;
    change_data_feed::check_columns(None, view)?;
    let mut rules = row_rules(view, &request)?;
    rules.only.clone_from(&request.first_rows_meet);
    let replace = replace_of_new(view, &request)?;
    let form = features::file_form(&protocol, &metadata, &schema);
    let planned = PlannedWrite {
        store: store.clone(),
        base: None,
        newest: OnceLock::new(),
        partition_columns: metadata.partition_columns.clone(),
        mapping,
        form,
        properties: Properties::new(&metadata.configuration),
        schema: Arc::new(schema),
        metadata: Some(metadata),
        protocol: Some(protocol),
        domains,
        clustered_by,
        replace,
        fills: Vec::new(),
        rules,
        request,
    };
    planned.check_bloom_filters()?;
    stats_columns::check_unmeasured(&planned.properties, &planned.schema)?;
    Ok(planned)
}

/// The condition for rows of a new table, if they were meant to replace others: an overwrite whose
/// table doesn't exist yet replaces none.
fn replace_of_new(view: View<'_>, request: &WriteRequest) -> Result<Replace> {
    if request.first_rows_meet.is_some() && !request.applies_row_rules {
        return Err(Error::unsupported_feature(
            "this way of writing doesn't judge a new table's rows by a condition: leave the predicate out of the first write",
        ));
    }
    let asks = request.predicate.is_some() || request.first_rows_meet.is_some();
    if asks && request.mode != WriteMode::Overwrite {
        return Err(Error::invalid_argument(NEEDS_OVERWRITE));
    }
    if asks && request.dynamic_partitions {
        return Err(Error::invalid_argument(DYNAMIC_ALONE));
    }
    let Some(condition) = &request.predicate else {
        return Ok(Replace::Nothing);
    };
    let predicate = Predicate::bind(condition, view.schema)?;
    match predicate.partition_only(&view.metadata.partition_columns) {
        true => Ok(Replace::Partitions(predicate)),
        false => Err(Error::unsupported_expression(
            "there is no table yet, so that nobody has looked whether the predicate selects each new row: give it as a text, or \
             leave it out of the first write",
        )),
    }
}

/// The row rules, which the caller must have promised to apply. P104: rows are never written past
/// rules that nobody evaluates.
fn row_rules(view: View<'_>, request: &WriteRequest) -> Result<RowRules> {
    let rules = features::row_rules(view)?;
    if rules.is_empty() || request.applies_row_rules {
        return Ok(rules);
    }
    Err(Error::unsupported_feature(format!(
        "this way of writing doesn't evaluate the table's constraints, generated columns and default values (`{}`): write with write_deltalake",
        rules.expressions().next().unwrap_or_default()
    )))
}

/// A write that only moves rows must not change the table otherwise.
fn check_data_change(request: &WriteRequest, does: &str) -> Result<()> {
    match request.data_change {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "the write would {does}, and says that it changes nothing (dataChange = false): leave dataChange out"
        ))),
    }
}

/// Identity values are assigned when files are written, after the rules are evaluated, which would
/// therefore see null (P103, P108).
fn check_fills_unused(fills: &[Fill], rules: &RowRules) -> Result<()> {
    match fills.iter().find_map(|f| Some((f, rules.user_of(&f.column)?))) {
        None => Ok(()),
        Some((f, sql)) => Err(Error::unsupported_feature(format!(
            "the table's rule `{sql}` uses the identity column `{}`, whose values are handed out after rules are evaluated: give values for the column where the table lets you, or write with delta-spark",
            f.column
        ))),
    }
}

/// The data's columns, and those that rules compute if the data lacks them.
fn with_computed(table: &StructType, incoming: StructType, rules: &RowRules) -> StructType {
    let absent = |c: &&str| incoming.field_ignore_case(c).is_none();
    let mut names: Vec<&str> = rules.computed().filter(absent).collect();
    names.dedup();
    let computed: Vec<Field> = names.iter().filter_map(|c| table.field(c)).cloned().collect();
    StructType::new(incoming.fields().iter().cloned().chain(computed).collect())
}

async fn existing_table(
    store: &Store,
    newest: Snapshot,
    incoming: StructType,
    request: WriteRequest,
) -> Result<WritePlan> {
    match request.mode {
        WriteMode::Error => {
            return Err(Error::new(
                Kind::TableAlreadyExists,
                "a table is here already: use mode append, overwrite or ignore, or another path",
            )
            .with_version(newest.version()));
        }
        WriteMode::Ignore => return Ok(WritePlan::Skip("exists")),
        WriteMode::Append | WriteMode::Overwrite => {}
    }
    if !request.commit.txn.is_empty() && request.commit.was_done(&newest.transactions(now_ms()).await?) {
        return Ok(WritePlan::Skip("txn"));
    }
    if request.first_rows_meet.is_some() {
        return Err(Error::new(
            Kind::ConcurrentWrite,
            "another writer made the table meanwhile: nothing was committed; write again, which replaces the rows that the \
             predicate selects",
        )
        .with_version(newest.version()));
    }
    let base = match request.read_version {
        Some(read) if read != newest.version() => Snapshot::open(store, Some(read)).await?,
        _ => newest,
    };
    base.state().check_write()?;
    base.state().check_properties()?;
    let replace = replace_of(&base, &request)?;
    let (incoming, fills, known) = match request.schema_mode {
        Some(SchemaMode::Overwrite) => (incoming, Vec::new(), None),
        _ => {
            // The writer assigns identity values, so they come after computed columns.
            let rules = row_rules(base.state().view(), &request)?;
            let data = with_computed(base.schema(), incoming, &rules);
            let (incoming, fills) = identity_columns::complete(base.schema(), data)?;
            check_fills_unused(&fills, &rules)?;
            (incoming, fills, Some(rules))
        }
    };
    let (mut after, mut asked) = match request.schema_mode {
        Some(SchemaMode::Overwrite) => replaced(base.state().metadata(), &request)?,
        _ => (base.state().metadata().clone(), request.commit.no_directives()),
    };
    if authority(store) == Authority::Catalog {
        catalog_managed::retain(&base.state().metadata().configuration, &mut after.configuration);
    }
    let mapping = Mapping::of(&after.configuration)?;
    let (schema, partition_columns) = new_schema(&base, incoming, &request, mapping)?;
    let names_seed = request.names_seed.as_deref();
    let schema = match base.state().mapping() {
        Mapping::None => schema,
        // Old files keep their columns in versions that are read together, as by a change feed.
        _ if mapping == base.state().mapping() => column_mapping::reuse(base.schema(), &schema),
        _ => schema,
    };
    let schema = mapped(mapping, schema, &mut after.configuration, names_seed)?;
    let metadata = changed_metadata(&base, &schema, &partition_columns, after);
    if let Some(m) = &metadata {
        check_data_change(&request, "change the table's columns, partitions or properties")?;
        let view = View {
            metadata: m,
            schema: &schema,
        };
        iceberg_compat::check_partitioning(base.state().metadata(), view)?;
        if matches!(replace, Replace::All) {
            features::check_replacement(base.state().view(), view)?;
        } else if m.configuration != base.state().metadata().configuration {
            features::check_change(base.state().view(), view)?;
        }
    }
    let (by, domain) = match request.defines_anew() {
        true => {
            let columns = request.cluster_by.as_deref().unwrap_or_default();
            let metadata = metadata.as_ref().unwrap_or_else(|| base.state().metadata());
            clustered_anew(&base, metadata, &schema, columns).await?
        }
        false => (clustered_by(&base, metadata.as_ref(), &schema, &request).await?, None),
    };
    if domain.is_some() {
        clustering::ask(&mut asked);
    }
    let view = View {
        metadata: metadata.as_ref().unwrap_or_else(|| base.state().metadata()),
        schema: &schema,
    };
    change_data_feed::check_columns(Some(base.state().view()), view)?;
    let protocol = match metadata.is_some() || asked != request.commit.no_directives() {
        true => {
            let p = features::protocol_with(Some(base.state().protocol()), view, &asked)?;
            features::check_write(&p, view)?;
            authority(store).check_commit(&p)?;
            (p != *base.state().protocol()).then_some(p)
        }
        false => None,
    };
    let form = features::file_form(
        protocol.as_ref().unwrap_or_else(|| base.state().protocol()),
        view.metadata,
        view.schema,
    );
    let rules = match known {
        Some(rules) if metadata.is_none() => rules,
        _ => row_rules(view, &request)?,
    };
    let planned = PlannedWrite {
        store: store.clone(),
        properties: match &metadata {
            Some(m) => Properties::new(&m.configuration),
            None => base.state().properties().clone(),
        },
        mapping,
        form,
        base: Some(base),
        newest: OnceLock::new(),
        schema: Arc::new(schema),
        partition_columns,
        metadata,
        protocol,
        domains: domain.into_iter().collect(),
        clustered_by: by,
        replace,
        fills,
        rules,
        request,
    };
    planned.check_bloom_filters()?;
    Ok(WritePlan::Go(Box::new(planned)))
}

/// Whether a write makes the table unpartitioned, so that it replaces the whole table as one
/// partition.
fn leaves_no_partitions(base: &Snapshot, request: &WriteRequest) -> bool {
    let taken_over = request.schema_mode == Some(SchemaMode::Overwrite);
    match &request.partition_by {
        Some(columns) if taken_over => columns.is_empty(),
        None if taken_over && request.defines_anew() => true,
        _ => base.state().partition_columns().is_empty(),
    }
}

fn replace_of(base: &Snapshot, request: &WriteRequest) -> Result<Replace> {
    let overwrite = request.mode == WriteMode::Overwrite;
    if overwrite && features::is_append_only(base.state().view()) {
        return Err(Error::invalid_argument(
            "the table is append-only (delta.appendOnly = true): it can't be overwritten; append, or unset the property first",
        ));
    }
    if request.dynamic_partitions && (!overwrite || request.predicate.is_some()) {
        return Err(Error::invalid_argument(DYNAMIC_ALONE));
    }
    let Some(condition) = &request.predicate else {
        let dynamic = request.dynamic_partitions && !leaves_no_partitions(base, request);
        if dynamic && request.schema_mode == Some(SchemaMode::Overwrite) {
            return Err(Error::invalid_argument(
                "the table's columns can't be replaced (schema_mode=\"overwrite\", overwriteSchema) where only the partitions are \
                 replaced that rows are written to (dynamic): say static to replace all rows, or leave the other out",
            ));
        }
        return Ok(match overwrite {
            true if dynamic => Replace::Written,
            true => Replace::All,
            false => Replace::Nothing,
        });
    };
    if !overwrite {
        return Err(Error::invalid_argument(NEEDS_OVERWRITE));
    }
    let predicate = Predicate::bind(condition, base.schema())?;
    if !predicate.partition_only(base.state().partition_columns()) {
        return Err(Error::unsupported_expression(format!(
            "the predicate to replace rows by must use partition columns only ({}), so that whole files are replaced: partition the table by the column, or overwrite with Spark",
            base.state().partition_columns().join(", ")
        )));
    }
    Ok(Replace::Partitions(predicate))
}

/// The columns that the write leaves, and those of them that it partitions by; `mapping` is the
/// table's after the write.
fn new_schema(
    base: &Snapshot,
    incoming: StructType,
    request: &WriteRequest,
    mapping: Mapping,
) -> Result<(StructType, Vec<String>)> {
    let old_columns = base.state().partition_columns().to_vec();
    let taken_over = request.schema_mode == Some(SchemaMode::Overwrite);
    if taken_over {
        if request.mode != WriteMode::Overwrite || request.predicate.is_some() {
            return Err(Error::invalid_argument(
                "schema_mode=\"overwrite\" replaces the whole table: it needs mode=\"overwrite\" and no predicate",
            ));
        }
        let previous: &[String] = if request.defines_anew() { &[] } else { &old_columns };
        let columns = canonical_columns(&incoming, request.partition_by.as_deref().unwrap_or(previous))?;
        check_new_schema(&incoming, &columns, names_of(mapping, request), request.has_rows())?;
        return Ok((incoming, columns));
    }
    let lower = |columns: &[String]| columns.iter().map(|c| c.to_lowercase()).collect::<Vec<_>>();
    let others = request.partition_by.as_ref();
    let others = others.filter(|asked| lower(asked) != lower(&old_columns));
    // As in delta-spark, columns that aren't there and types that don't fit are named first.
    others.map_or(Ok(()), |asked| check_known(&incoming, asked))?;
    let schema = match request.schema_mode {
        Some(_) => {
            let widens = |from, to| type_widening::widens_by_itself(base.state().view(), from, to);
            let merged = merge::merge(base.schema(), &incoming, &widens)?;
            check_void(&merged, &incoming)?;
            type_widening::record(base.schema(), &merged)
        }
        None => {
            merge::check_fits(base.schema(), &incoming)?;
            check_void(base.schema(), &incoming)?;
            base.schema().as_ref().clone()
        }
    };
    if let Some(asked) = others {
        return Err(Error::invalid_argument(format!(
            "the table is partitioned by [{}], not by [{}]: leave partition_by out, or overwrite the table with schema_mode=\"overwrite\"",
            old_columns.join(", "),
            asked.join(", ")
        )));
    }
    check_added_names(&schema, base.schema(), names_of(base.state().mapping(), request))?;
    Ok((schema, old_columns))
}

/// The mapping by whose rules names of columns are checked: delta-rs writes all names to files.
fn names_of(mapping: Mapping, request: &WriteRequest) -> Mapping {
    match request.commit.delta_rs {
        Some(_) => Mapping::Name,
        None => mapping,
    }
}

/// New metadata if the request changes schema, partitioning or other parts; the rest is carried
/// forward (P023, P024).
fn changed_metadata(base: &Snapshot, schema: &StructType, columns: &[String], after: Metadata) -> Option<Metadata> {
    let same = *schema == **base.schema() && columns == base.state().partition_columns();
    (!same || after != *base.state().metadata()).then(|| Metadata {
        schema_string: Some(schema.to_json()),
        partition_columns: columns.to_vec(),
        ..after
    })
}

impl PlannedWrite {
    /// The location of the table's files.
    pub fn location(&self) -> &str {
        self.store.location().as_str()
    }

    /// Refuses Bloom filters that the files can't have, before any row is read.
    fn check_bloom_filters(&self) -> Result<()> {
        let choices = &self.request.files.bloom_filters;
        bloom_filters::resolve(&self.properties, choices, &self.schema, &self.partition_columns).map(drop)
    }

    /// The requirements of the files.
    pub fn target(&self) -> FileTarget<'_> {
        FileTarget {
            schema: &self.schema,
            partition_columns: &self.partition_columns,
            mapping: self.mapping,
            form: self.form,
            properties: &self.properties,
            request: &self.request.files,
            as_delta_rs: self.request.commit.delta_rs.is_some(),
        }
    }

    /// The protocol of the table before the write (the minimum one without a table) and after it.
    pub fn protocols(&self) -> (Protocol, Protocol) {
        let plainest = Protocol {
            min_reader_version: 1,
            min_writer_version: 1,
            ..Protocol::default()
        };
        let before = self.base.as_ref().map_or(plainest, |b| b.state().protocol().clone());
        let after = self.protocol.clone().unwrap_or_else(|| before.clone());
        (before, after)
    }

    /// How to fill identity columns that the data lacks.
    pub fn fills(&self) -> &[Fill] {
        &self.fills
    }

    /// Paths of the columns that the table is clustered by.
    pub fn clustered_by(&self) -> &[Vec<String>] {
        &self.clustered_by
    }

    /// Whether the commit may declare rules: it creates the table, or replaces its columns by the
    /// request's.
    pub fn declares(&self) -> bool {
        self.base.is_none() || self.request.schema_mode == Some(SchemaMode::Overwrite)
    }

    /// The row rules for the rows.
    pub fn row_rules(&self) -> &RowRules {
        &self.rules
    }

    /// The request.
    pub fn request(&self) -> &WriteRequest {
        &self.request
    }

    /// Moves a plan of [`plan_append_ahead`] to the newest version. Returns false if the table's
    /// metadata or protocol may have changed since: the files then have to be written again for
    /// another plan.
    pub fn move_to(&self, newest: Snapshot) -> bool {
        let is_same = |base: &Snapshot| std::ptr::eq(base.state(), newest.state());
        self.base.as_ref().is_some_and(is_same) && self.newest.set(newest).is_ok()
    }

    /// The version that it was planned on; `None` without a table.
    pub fn version(&self) -> Option<u64> {
        self.base.as_ref().map(Snapshot::version)
    }

    /// Metadata and protocol after the write, if they change.
    pub(crate) fn table_after(&self, marks: &[(String, i64)]) -> (Option<Metadata>, Option<Protocol>) {
        (self.metadata_after(marks), self.protocol.clone())
    }

    /// The new metadata with the high-water marks of identity columns (P108). It makes a concurrent
    /// commit that assigned values of the same range a conflict.
    fn metadata_after(&self, marks: &[(String, i64)]) -> Option<Metadata> {
        if marks.is_empty() {
            return self.metadata.clone();
        }
        let now = self.base.as_ref().map(|b| b.state().metadata());
        self.metadata.as_ref().or(now).map(|m| Metadata {
            schema_string: Some(identity_columns::advance(&self.schema, marks).to_json()),
            ..m.clone()
        })
    }
}

/// Creates an empty table with this schema; `Ignore` returns an existing one, `Overwrite` replaces
/// its schema and rows.
pub async fn create_table(store: &Store, schema: StructType, request: WriteRequest) -> Result<Snapshot> {
    let request = WriteRequest {
        schema_mode: (request.mode == WriteMode::Overwrite).then_some(SchemaMode::Overwrite),
        // There are no rows.
        applies_row_rules: true,
        operation: match request.operation {
            CommitOperation::Write { .. } => CommitOperation::Definition {
                statement: match request.mode {
                    WriteMode::Overwrite => "CREATE OR REPLACE TABLE",
                    _ => "CREATE TABLE",
                }
                .to_owned(),
                fills: false,
                replaces: false,
                managed: false,
                saves_as_table: false,
            },
            other => other,
        },
        ..request
    };
    if request.mode == WriteMode::Append {
        return Err(Error::invalid_argument(
            "a table can't be created by appending: use mode error, overwrite or ignore",
        ));
    }
    check_nested_not_null(request.schema.as_ref().map_or(&schema, |declared| &declared.0))?;
    let ignore = request.mode == WriteMode::Ignore;
    match plan_write(store, schema, request).await? {
        WritePlan::Skip(_) => Snapshot::open(store, None).await,
        WritePlan::Go(p) => match p.commit(Vec::new()).await {
            Err(e) if ignore && e.kind() == Kind::TableAlreadyExists => Snapshot::open(store, None).await,
            done => Ok(done?.snapshot),
        },
    }
}
