//! How a V2 checkpoint names its sidecars. A tag of the sidecar action states row counts and
//! bounds, so that plans skip sidecars without opening them, and new checkpoints choose by it which
//! ones to rewrite.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::{Field, Schema};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::arrow_types::{from_arrow_schema, primitive_to_arrow};
use deltaplane_protocol::files::order::FileOrder;
use deltaplane_protocol::partition_values::{partition_array, partition_text};
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::{RunBounds, RunPruner, RunRange};
use deltaplane_protocol::schema::{DataType, Primitive};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::checkpoint::path_range::PathRange;
use crate::checkpoint::skipping::ranges_of_group;

/// The tag's name.
const TAG: &str = "deltaplane.range";
/// Longer texts would take too much room in a file that every opening of the table reads.
const LONGEST_TEXT: usize = 64;

/// A sidecar action of a V2 checkpoint's top file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SidecarFile {
    /// As the checkpoint spells it: usually a bare file name.
    pub path: String,
    #[serde(default)]
    pub size_in_bytes: i64,
    #[serde(default)]
    pub modification_time: i64,
    #[serde(default)]
    pub tags: Option<BTreeMap<String, Option<String>>>,
}

impl SidecarFile {
    /// Its key in the table.
    pub(crate) fn key(&self) -> Result<String> {
        let path = paths::decode(&self.path)?;
        Ok(if path.contains('/') {
            path
        } else {
            paths::sidecar(&path)
        })
    }
}

/// The content of one sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SidecarRange {
    /// The file's name and size: the range is ignored for any other file.
    file: String,
    size: i64,
    pub adds: u64,
    pub removes: u64,
    /// The name of its adds' order.
    order: String,
    /// The keys of its first and last add in that order, in hexadecimal.
    first: String,
    last: String,
    bounds: Vec<LeafRange>,
    /// The paths of its adds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathRange>,
}

/// Least minimum and greatest maximum of a leaf over all adds, in the format of partition values;
/// `None` if unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LeafRange {
    /// The path of the leaf with the minimum, below the column `add`.
    #[serde(rename = "at")]
    path: Vec<String>,
    #[serde(rename = "type")]
    ty: String,
    min: Option<String>,
    max: Option<String>,
}

/// The keys of a sidecar's first and last add in their order.
pub(crate) struct Span {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
}

impl SidecarRange {
    /// The range of a file that was just written.
    pub(crate) fn of(
        file: &SidecarFile,
        footer: &ArrowReaderMetadata,
        (adds, removes): (u64, u64),
        sorted: Option<(&FileOrder, &Span)>,
        paths: Option<PathRange>,
    ) -> Result<SidecarRange> {
        let (mut order_name, mut bounds) = (String::new(), Vec::new());
        let hex = |key: &[u8]| key.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let (mut first, mut last) = (String::new(), String::new());
        if let Some((order, span)) = sorted {
            order_name = name_of(order)?;
            (first, last) = (hex(&span.first), hex(&span.last));
            let leaves = leaves(order);
            for (leaf, range) in leaves.iter().zip(ranges_of_group(footer, &leaves)?) {
                bounds.extend(range.map(|r| leaf_range(leaf, &r)).transpose()?.flatten());
            }
        }
        Ok(SidecarRange {
            file: file.path.clone(),
            size: file.size_in_bytes,
            adds,
            removes,
            order: order_name,
            first,
            last,
            bounds,
            paths,
        })
    }

    /// The range in a sidecar's tags.
    pub(crate) fn from_tags(sidecar: &SidecarFile) -> Option<SidecarRange> {
        let text = sidecar.tags.as_ref()?.get(TAG)?.as_deref()?;
        let range: SidecarRange = serde_json::from_str(text).ok()?;
        (range.file == sidecar.path && range.size == sidecar.size_in_bytes).then_some(range)
    }

    /// The range as tags.
    pub(crate) fn tags(&self) -> Result<BTreeMap<String, Option<String>>> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::internal(format!("a sidecar's range can't be noted: {e}")).with_source(e))?;
        Ok([(TAG.to_owned(), Some(text))].into())
    }

    /// The span of its adds in this order; `None` if they are in another order.
    pub(crate) fn span(&self, order: &FileOrder) -> Result<Option<Span>> {
        if self.order != name_of(order)? {
            return Ok(None);
        }
        Ok(bytes(&self.first)
            .zip(bytes(&self.last))
            .map(|(first, last)| Span { first, last }))
    }
}

/// For each of these sidecars, whether one of its adds may match.
pub(crate) fn may_match(ranges: &[&SidecarRange], pruner: &RunPruner) -> Result<BooleanArray> {
    let of_leaf = |leaf: &RunBounds| -> Result<Option<RunRange>> {
        let bounds: Vec<Option<&LeafRange>> = ranges
            .iter()
            .map(|r| r.bounds.iter().find(|b| b.path == leaf.min))
            .collect();
        let Some(ty) = bounds.iter().flatten().map(|b| &b.ty).next() else {
            return Ok(None);
        };
        let Some(primitive) = Primitive::parse(ty) else {
            return Ok(None);
        };
        // If a column's type has changed, only bounds of one type are comparable.
        let same = || bounds.iter().map(|b| b.filter(|b| b.ty == *ty));
        let array = |bound_of: fn(&LeafRange) -> Option<&str>| {
            partition_array(same().map(|b| b.and_then(bound_of)), ty, primitive)
        };
        let both = array(|b| b.min.as_deref()).and_then(|min| Ok((min, array(|b| b.max.as_deref())?)));
        // Text that is no valid value is damaged: the files themselves are read.
        Ok(both.ok())
    };
    let ranges_of_leaves = pruner.bounds().iter().map(of_leaf).collect::<Result<Vec<_>>>()?;
    pruner.keep(ranges.len(), &ranges_of_leaves)
}

/// The leaves by which files are sorted.
fn leaves(order: &FileOrder) -> Vec<RunBounds> {
    let partitions = order.partition_paths().map(|path| RunBounds {
        min: path.to_vec(),
        max: path.to_vec(),
        null_is_unknown: false,
    });
    let curve = order.curve_paths().map(|path| RunBounds {
        min: path.to_vec(),
        max: path
            .iter()
            .enumerate()
            .map(|(level, name)| if level == 1 { "maxValues" } else { name }.to_owned())
            .collect(),
        null_is_unknown: true,
    });
    partitions.chain(curve).collect()
}

fn leaf_range(leaf: &RunBounds, (min, max): &RunRange) -> Result<Option<LeafRange>> {
    let Some(ty) = primitive_of(min).filter(|_| min.data_type() == max.data_type()) else {
        return Ok(None);
    };
    let short = |text: Option<String>| text.filter(|t| t.len() <= LONGEST_TEXT);
    Ok(Some(LeafRange {
        path: leaf.min.clone(),
        ty: ty.to_string(),
        min: short(partition_text(min, 0)?),
        max: short(partition_text(max, 0)?),
    }))
}

fn primitive_of(array: &dyn Array) -> Option<Primitive> {
    let field = Field::new("bound", array.data_type().clone(), true);
    let schema = from_arrow_schema(&Schema::new(vec![Arc::new(field)])).ok()?;
    match schema.fields().first()?.data_type {
        DataType::Primitive(p) if primitive_to_arrow(p) == *array.data_type() => Some(p),
        _ => None,
    }
}

/// A short name for an order.
fn name_of(order: &FileOrder) -> Result<String> {
    Ok(format!("{:016x}", xxh3_64(order.to_text()?.as_bytes())))
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|c| Some(c.to_digit(16)? as u8))
        .collect::<Option<_>>()?;
    Some(
        digits
            .chunks(2)
            .map(|d| d.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_protocol::expr::{Expr, Predicate};
    use deltaplane_protocol::mapping::Mapping;
    use deltaplane_protocol::prune::Pruner;
    use deltaplane_protocol::schema::StructType;

    fn sidecar() -> SidecarFile {
        SidecarFile {
            path: "a.parquet".to_owned(),
            size_in_bytes: 7,
            modification_time: 1,
            tags: None,
        }
    }

    fn range(ty: &str, min: Option<&str>, max: Option<&str>) -> SidecarRange {
        SidecarRange {
            file: "a.parquet".to_owned(),
            size: 7,
            adds: 3,
            removes: 0,
            order: String::new(),
            first: "00ff".to_owned(),
            last: "0100".to_owned(),
            bounds: vec![LeafRange {
                path: vec!["partitionValues_parsed".to_owned(), "p".to_owned()],
                ty: ty.to_owned(),
                min: min.map(str::to_owned),
                max: max.map(str::to_owned),
            }],
            paths: None,
        }
    }

    #[test]
    fn a_tag_speaks_of_one_file_only() {
        let range = range("long", Some("1"), Some("5"));
        let named = SidecarFile {
            tags: Some(range.tags().unwrap()),
            ..sidecar()
        };
        assert_eq!(SidecarRange::from_tags(&named), Some(range));
        let other_path = SidecarFile {
            path: "b.parquet".to_owned(),
            ..named.clone()
        };
        let other_size = SidecarFile {
            size_in_bytes: 8,
            ..named.clone()
        };
        let damaged = SidecarFile {
            tags: Some([(TAG.to_owned(), Some("{".to_owned()))].into()),
            ..named
        };
        for s in [other_path, other_size, damaged, sidecar()] {
            assert_eq!(SidecarRange::from_tags(&s), None);
        }
        assert_eq!((bytes("00ff"), bytes("0g")), (Some(vec![0, 255]), None));
    }

    #[test]
    fn what_is_unknown_may_match() {
        let schema = StructType::new(vec![deltaplane_protocol::schema::Field::new(
            "p",
            Primitive::Long,
            true,
        )]);
        let text = r#"{"op":"compare","cmp":"=","left":{"op":"column","name":["p"]},"right":{"op":"literal","value":"7","type":"long"}}"#;
        let predicate = Predicate::bind(&Expr::from_json(text).unwrap(), &schema).unwrap();
        let pruner = Pruner::new(&predicate, &schema, &["p".to_owned()], Mapping::default()).unwrap();
        let keep = |ranges: &[SidecarRange]| {
            let ranges: Vec<&SidecarRange> = ranges.iter().collect();
            let keep = may_match(&ranges, pruner.runs()).unwrap();
            keep.values().iter().collect::<Vec<bool>>()
        };
        let long = |min, max| range("long", min, max);
        assert_eq!(
            keep(&[long(Some("1"), Some("5")), long(Some("6"), Some("8"))]),
            [false, true]
        );
        assert_eq!(
            keep(&[long(Some("8"), None), long(None, Some("6")), long(None, None)]),
            [false, false, true]
        );
        let other_type = range("integer", Some("1"), Some("5"));
        assert_eq!(keep(&[long(Some("1"), Some("5")), other_type]), [false, true]);
        assert_eq!(keep(&[range("nothing", Some("1"), Some("5"))]), [true]);
        assert_eq!(keep(&[long(Some("x"), Some("5"))]), [true]);
        assert!(keep(&[]).is_empty());
    }
}
