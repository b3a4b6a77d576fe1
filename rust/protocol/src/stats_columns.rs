//! Which leaf columns of a table have statistics (protocol section 8, P161): one rule for writing
//! and showing them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::bloom_filters::listed;
use crate::properties::{COLUMNS_WITHOUT_STATISTICS, Properties};
use crate::schema::StructType;
use crate::schema_changes::edit::split_path;
use crate::{Error, Result};

/// Which columns of a table get statistics (P161).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatsColumns {
    /// The first this many leaf columns in schema order; a negative number means all.
    FirstLeaves(i32),
    /// These columns by dotted logical name, parts with a dot in backticks; a struct means all its
    /// leaves.
    Columns(Vec<String>),
    /// The leaves of `base` without these columns, named in the same way: columns whose values must
    /// not be in the log.
    Without {
        /// The leaves if no column were left out.
        base: Box<StatsColumns>,
        /// The columns that are left out.
        columns: Vec<String>,
    },
}

/// Selects leaves, which must be passed in schema order.
#[derive(Debug)]
pub struct Chosen {
    wanted: Wanted,
    /// Lower-case paths of columns that are left out.
    without: HashSet<Vec<String>>,
}

#[derive(Debug)]
enum Wanted {
    Left(Option<u32>),
    /// Lower-case paths.
    Paths(HashSet<Vec<String>>),
}

impl StatsColumns {
    /// As a table's properties say (`delta.dataSkippingStatsColumns`,
    /// `delta.dataSkippingNumIndexedCols`, `deltaplane.columnsWithoutStatistics`).
    pub fn of(properties: &Properties) -> Self {
        let chosen = match &properties.stats_columns {
            Some(names) => StatsColumns::Columns(names.clone()),
            None => StatsColumns::FirstLeaves(i32::try_from(properties.num_indexed_columns).unwrap_or(i32::MAX)),
        };
        match properties.unmeasured_columns.as_deref().map(listed) {
            Some(columns) if !columns.is_empty() => StatsColumns::Without {
                base: Box::new(chosen),
                columns,
            },
            _ => chosen,
        }
    }
}

impl Chosen {
    /// Before the first leaf.
    pub fn new(columns: &StatsColumns) -> Self {
        let paths = |names: &[String]| names.iter().map(|n| split_name(n)).collect();
        let wanted = match columns {
            StatsColumns::FirstLeaves(n) => Wanted::Left(u32::try_from(*n).ok()),
            StatsColumns::Columns(names) => Wanted::Paths(paths(names)),
            StatsColumns::Without { base, columns } => {
                let mut chosen = Chosen::new(base);
                chosen.without.extend::<HashSet<_>>(paths(columns));
                return chosen;
            }
        };
        Chosen {
            wanted,
            without: HashSet::new(),
        }
    }

    /// Whether the next leaf, by its lower-case logical path, has statistics. A leaf that is left
    /// out counts among the first ones: the others have the statistics that they would have anyway.
    pub fn takes(&mut self, path: &[String]) -> bool {
        let takes = match &mut self.wanted {
            Wanted::Left(None) => true,
            Wanted::Left(Some(0)) => false,
            Wanted::Left(Some(n)) => {
                *n -= 1;
                true
            }
            Wanted::Paths(paths) => is_below(path, paths),
        };
        takes && !is_below(path, &self.without)
    }
}

/// Whether a leaf is one of these columns, or in one of them.
fn is_below(leaf: &[String], columns: &HashSet<Vec<String>>) -> bool {
    (1..=leaf.len()).any(|n| leaf.get(..n).is_some_and(|p| columns.contains(p)))
}

/// Refuses columns to be left out that the table doesn't have: a misspelt one would be measured.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_unmeasured(properties: &Properties, schema: &StructType) -> Result<()> {
    let columns = properties.unmeasured_columns.as_deref().map(listed);
    let mut columns = columns.into_iter().flatten();
    columns.try_for_each(|column| check_column(COLUMNS_WITHOUT_STATISTICS, &column, schema))
}

/// Refuses a column of a property's list that the table doesn't have.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_column(key: &str, column: &str, schema: &StructType) -> Result<()> {
    match schema.field_at(&split_path(column)?) {
        Some(_) => Ok(()),
        None => Err(Error::invalid_argument(format!(
            "`{key}` names `{column}`, which isn't a column of the table"
        ))),
    }
}

/// The lower-case parts of a dotted name; backticks keep dots together.
pub fn split_name(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in name.trim().chars() {
        match c {
            '`' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c => {
                if let Some(last) = parts.last_mut() {
                    last.extend(c.to_lowercase());
                }
            }
        }
    }
    parts
}
