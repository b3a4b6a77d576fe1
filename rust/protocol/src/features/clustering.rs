//! Clustering (P152): the columns by which a table's rows are kept together are stored in a domain.
//! Plain writes need not cluster rows; the columns must have statistics.

use serde_json::{Value, json};

use super::hooks::own_domain::OwnDomain;
use super::hooks::removal::{Removable, Removal};
use super::{Directives, Kind, TableFeature, domain_metadata};
use crate::actions::{DomainMetadata, Metadata, Protocol};
use crate::mapping::Mapping;
use crate::properties::Properties;
use crate::schema::{DataType, Primitive, StructType};
use crate::stats_columns::{Chosen, StatsColumns, split_name};
use crate::{Error, Result};

/// The domain that holds the columns.
pub const DOMAIN: &str = "delta.clustering";
/// The maximum number of columns, as in delta-spark.
const MOST_COLUMNS: usize = 4;

/// Whether a table may be clustered.
pub fn may_be(protocol: &Protocol) -> bool {
    super::supported(protocol).contains(FEATURE.name)
}

/// Adds the feature, which no table property enables.
pub fn ask(asked: &mut Directives) {
    asked.features.insert(FEATURE.name.to_owned());
}

/// The columns of a clustered table as paths of physical names.
pub fn columns(domain: &DomainMetadata) -> Result<Vec<Vec<String>>> {
    let bad = || {
        Error::corrupt_log(format!(
            "the domain {DOMAIN} holds `{}`, which doesn't list clusteringColumns",
            domain.configuration
        ))
    };
    let value: Value = serde_json::from_str(&domain.configuration).map_err(|_| bad())?;
    let listed = value
        .get("clusteringColumns")
        .and_then(Value::as_array)
        .ok_or_else(bad)?;
    listed.iter().map(|c| path_of(c).ok_or_else(bad)).collect()
}

/// A column as a path, or as the plain name of the specification's example.
fn path_of(column: &Value) -> Option<Vec<String>> {
    match column {
        Value::String(name) => Some(vec![name.clone()]),
        Value::Array(path) => path.iter().map(|p| p.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// The domain of a table clustered by these columns, given as logical names with dots between the
/// levels. Checks the columns.
pub fn domain_for(metadata: &Metadata, schema: &StructType, columns: &[String]) -> Result<DomainMetadata> {
    // As in Spark, an unknown column is named first.
    let resolved = columns.iter().map(|c| resolve(metadata, schema, c));
    let resolved = resolved.collect::<Result<Vec<_>>>()?;
    if !metadata.partition_columns.is_empty() {
        return Err(Error::invalid_argument(
            "a table is either partitioned or clustered: leave partition_by or cluster_by out (P152)",
        ));
    }
    if columns.len() > MOST_COLUMNS {
        return Err(Error::invalid_argument(format!(
            "a table is clustered by at most {MOST_COLUMNS} columns, not by {}: leave the least selective ones out",
            columns.len()
        )));
    }
    let measured = measured_leaves(metadata, schema);
    let mut physical: Vec<Vec<String>> = Vec::with_capacity(columns.len());
    for (c, (path, names)) in columns.iter().zip(resolved) {
        if !measured.contains(&path) {
            return Err(Error::invalid_argument(format!(
                "a table can't be clustered by `{c}`, which has no statistics: put it among the first columns, or list it in delta.dataSkippingStatsColumns, and not in deltaplane.columnsWithoutStatistics"
            )));
        }
        if physical.contains(&names) {
            return Err(Error::invalid_argument(format!(
                "the clustering column `{c}` is given twice"
            )));
        }
        physical.push(names);
    }
    Ok(DomainMetadata {
        domain: DOMAIN.to_owned(),
        configuration: json!({"clusteringColumns": physical, "domainName": DOMAIN}).to_string(),
        removed: false,
    })
}

/// The dotted logical name of a column by its physical path; parts that contain a dot are quoted by
/// backticks.
pub fn logical_name(metadata: &Metadata, schema: &StructType, physical: &[String]) -> Result<String> {
    let gone = || {
        Error::invalid_argument(format!(
            "the table is clustered by `{}`, which the new columns don't have: keep the column (P152)",
            physical.join(".")
        ))
    };
    let mapping = Mapping::of(&metadata.configuration)?;
    let (mut here, mut parts) = (Some(schema), Vec::new());
    for part in physical {
        let mut fields = here.into_iter().flat_map(StructType::fields);
        let field = fields.find(|f| mapping.physical_name(f) == part).ok_or_else(gone)?;
        parts.push(match field.name.contains('.') {
            true => format!("`{}`", field.name),
            false => field.name.clone(),
        });
        here = match &field.data_type {
            DataType::Struct(s) => Some(s),
            _ => None,
        };
    }
    Ok(parts.join("."))
}

/// A column's lower-case logical path and its physical one.
fn resolve(metadata: &Metadata, schema: &StructType, column: &str) -> Result<(Vec<String>, Vec<String>)> {
    let missing = || Error::invalid_argument(format!("the clustering column `{column}` isn't a column of the table"));
    let path = split_name(column);
    let mapping = Mapping::of(&metadata.configuration)?;
    let (mut here, mut names, mut leaf) = (Some(schema), Vec::new(), None);
    for part in &path {
        let field = here.and_then(|s| s.field_ignore_case(part)).ok_or_else(missing)?;
        names.push(mapping.physical_name(field).to_owned());
        here = match &field.data_type {
            DataType::Struct(s) => Some(s),
            _ => None,
        };
        leaf = Some(field);
    }
    match leaf.map(|f| &f.data_type) {
        Some(DataType::Primitive(p)) if has_bounds(p) => Ok((path, names)),
        Some(other) => Err(Error::invalid_argument(format!(
            "a table can't be clustered by `{column}`: the type {other} has no smallest and largest value in statistics (P152)"
        ))),
        None => Err(missing()),
    }
}

/// Types whose statistics have bounds (P160).
fn has_bounds(p: &Primitive) -> bool {
    !matches!(
        p,
        Primitive::Boolean | Primitive::Binary | Primitive::Void | Primitive::Variant
    )
}

/// Lower-case paths of the leaves that get statistics, in schema order.
fn measured_leaves(metadata: &Metadata, schema: &StructType) -> Vec<Vec<String>> {
    let mut chosen = Chosen::new(&StatsColumns::of(&Properties::new(&metadata.configuration)));
    let mut out = Vec::new();
    walk(schema, &mut Vec::new(), &mut |path| {
        if chosen.takes(path) {
            out.push(path.to_vec());
        }
    });
    out
}

fn walk(schema: &StructType, path: &mut Vec<String>, leaf: &mut dyn FnMut(&[String])) {
    for f in schema.fields() {
        path.push(f.name.to_lowercase());
        match &f.data_type {
            DataType::Struct(s) => walk(s, path, leaf),
            _ => leaf(path),
        }
        path.pop();
    }
}

pub(super) static FEATURE: TableFeature = TableFeature {
    requires: &[domain_metadata::FEATURE.name],
    removable: Some(Removable::new(Removal::Unused(""))),
    domain: Some(OwnDomain {
        name: DOMAIN,
        cloned: |source, replaced| Ok(source.or_else(|| replaced.map(|d| DomainMetadata { removed: true, ..d }))),
        check_drop: |d| match columns(d)?.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!(
                "the feature {} is in use: take the clustering columns away with cluster_by([]) first",
                FEATURE.name
            ))),
        },
    }),
    ..TableFeature::new("clustering", Kind::Writer)
};
