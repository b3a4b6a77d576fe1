//! Statistics of a data file, collected while its rows are written (protocol section 8, P160 to
//! P168). Owns the JSON text; `leaf` owns one leaf's values, `text` their format, `variant` the
//! bounds inside variants. Knows neither files nor Parquet.

mod leaf;
mod text;
mod variant;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use deltaplane_error::Result;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{DataType, Field, Primitive, StructType};
use deltaplane_protocol::stats_columns::{Chosen, StatsColumns};

use leaf::Leaf;
use variant::Paths;

/// What statistics are collected for a table's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsConfig {
    /// The columns.
    pub columns: StatsColumns,
    /// How many characters of a string bound are kept (P162).
    pub string_prefix_length: usize,
    /// Whether statistics are in delta-rs's form: no null counts of columns whose type has no
    /// bounds, bounds of booleans, times to the microsecond without zeros at the end.
    pub as_delta_rs: bool,
}

impl Default for StatsConfig {
    /// The protocol's defaults: 32 leaves, 32 characters.
    fn default() -> Self {
        StatsConfig {
            columns: StatsColumns::FirstLeaves(32),
            string_prefix_length: 32,
            as_delta_rs: false,
        }
    }
}

/// The measured leaves of one top-level column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnStats {
    name: String,
    node: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Leaf(Leaf),
    /// Null counts of the column, and bounds of the values inside its variants.
    Variant(Leaf, Paths),
    /// Measured children with their position in the struct.
    Struct(Vec<(usize, ColumnStats)>),
}

/// The parts of a file's statistics that have a value for each leaf.
#[derive(Debug, Clone, Copy)]
enum Section {
    Min,
    Max,
    Nulls,
}

/// Empty statistics for each column of `schema` in order, by physical names; `None` for one that
/// isn't measured.
pub(crate) fn new_columns(
    schema: &StructType,
    partition_columns: &[String],
    mapping: Mapping,
    config: &StatsConfig,
) -> Vec<Option<ColumnStats>> {
    let mut chosen = Chosen::new(&config.columns);
    schema
        .fields()
        .iter()
        .map(|f| {
            let is_partition = partition_columns
                .iter()
                .any(|p| p.eq_ignore_ascii_case(&f.name) || *p == f.name);
            if is_partition {
                None
            } else {
                choose(f, &mut Vec::new(), mapping, &mut chosen, config)
            }
        })
        .collect()
}

fn choose(
    f: &Field,
    path: &mut Vec<String>,
    mapping: Mapping,
    chosen: &mut Chosen,
    config: &StatsConfig,
) -> Option<ColumnStats> {
    path.push(f.name.to_lowercase());
    let node = match &f.data_type {
        DataType::Struct(s) => {
            let children: Vec<_> = s
                .fields()
                .iter()
                .enumerate()
                .filter_map(|(i, child)| choose(child, path, mapping, chosen, config).map(|c| (i, c)))
                .collect();
            (!children.is_empty()).then_some(Node::Struct(children))
        }
        other => (chosen.takes(path) && !(config.as_delta_rs && has_no_bounds(other))).then(|| {
            let leaf = Leaf::new(other, config.string_prefix_length, config.as_delta_rs);
            match other {
                DataType::Primitive(Primitive::Variant) => Node::Variant(leaf, Paths::new(config.string_prefix_length)),
                _ => Node::Leaf(leaf),
            }
        }),
    };
    path.pop();
    node.map(|node| ColumnStats {
        name: mapping.physical_name(f).to_owned(),
        node,
    })
}

/// Whether statistics of a type, which isn't a struct, are a null count alone.
fn has_no_bounds(kind: &DataType) -> bool {
    match kind {
        DataType::Primitive(kind) => matches!(kind, Primitive::Binary),
        _ => true,
    }
}

impl ColumnStats {
    /// Takes in the next rows of this column.
    pub(crate) fn update(&mut self, array: &ArrayRef) -> Result<()> {
        self.update_below(array, None)
    }

    /// Adds rows of which only the bounds, as values of this column, and the null count are known.
    pub(crate) fn absorb(&mut self, bounds: Option<&ArrayRef>, nulls: u64) -> Result<()> {
        if let Some(bounds) = bounds {
            self.update(bounds)?;
        }
        if let Node::Leaf(leaf) = &mut self.node {
            leaf.count_nulls(nulls);
        }
        Ok(())
    }

    fn update_below(&mut self, array: &ArrayRef, parent: Option<&NullBuffer>) -> Result<()> {
        match &mut self.node {
            Node::Leaf(leaf) | Node::Variant(leaf, _) => leaf.update(array, parent),
            Node::Struct(children) => {
                let Some(structs) = array.as_struct_opt() else {
                    return Ok(());
                };
                let nulls = NullBuffer::union(parent, structs.nulls());
                for (i, child) in children {
                    if let Some(column) = structs.columns().get(*i) {
                        child.update_below(column, nulls.as_ref())?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Adds the same rows in the file's layout, where variants may have typed columns (P169).
    pub(crate) fn update_typed(&mut self, stored: &ArrayRef) -> Result<()> {
        self.update_typed_below(stored, None)
    }

    fn update_typed_below(&mut self, stored: &ArrayRef, parent: Option<&NullBuffer>) -> Result<()> {
        let Some(structs) = stored.as_struct_opt() else {
            return Ok(());
        };
        match &mut self.node {
            Node::Leaf(_) => Ok(()),
            Node::Variant(_, paths) => paths.update(structs, parent),
            Node::Struct(children) => {
                let nulls = NullBuffer::union(parent, structs.nulls());
                for (i, child) in children {
                    if let Some(column) = structs.columns().get(*i) {
                        child.update_typed_below(column, nulls.as_ref())?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Appends `"name":value` to an object, if this column has such a value.
    fn write(&self, out: &mut String, section: Section) {
        let text = match (&self.node, section) {
            (Node::Leaf(leaf) | Node::Variant(leaf, _), Section::Nulls) => Some(leaf.null_count().to_string()),
            (Node::Leaf(leaf), Section::Min) => leaf.min().and_then(|b| leaf.json(&b)),
            (Node::Leaf(leaf), Section::Max) => leaf.max().and_then(|b| leaf.json(&b)),
            (Node::Variant(_, paths), Section::Min) => paths.text(Leaf::min),
            (Node::Variant(_, paths), Section::Max) => paths.text(Leaf::max),
            (Node::Struct(children), _) => {
                let text = object(children.iter().map(|(_, c)| c), section);
                (text != "{}").then_some(text)
            }
        };
        if let Some(text) = text {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&text::string(&self.name));
            out.push(':');
            out.push_str(&text);
        }
    }
}

fn object<'a>(columns: impl Iterator<Item = &'a ColumnStats>, section: Section) -> String {
    let mut out = String::from("{");
    for c in columns {
        c.write(&mut out, section);
    }
    out.push('}');
    out
}

/// The text of `add.stats` for a file of this many rows.
pub(crate) fn to_json(rows: u64, columns: &[Option<ColumnStats>]) -> String {
    let part = |section| object(columns.iter().flatten(), section);
    format!(
        r#"{{"numRecords":{rows},"minValues":{},"maxValues":{},"nullCount":{},"tightBounds":true}}"#,
        part(Section::Min),
        part(Section::Max),
        part(Section::Nulls),
    )
}

#[cfg(test)]
mod tests;
