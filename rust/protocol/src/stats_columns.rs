//! Which leaf columns of a table have statistics (protocol section 8, P161): one rule for writing
//! and showing them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::properties::Properties;

/// Which columns of a table get statistics (P161).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatsColumns {
    /// The first this many leaf columns in schema order; a negative number means all.
    FirstLeaves(i32),
    /// These columns by dotted logical name, parts with a dot in backticks; a struct means all its
    /// leaves.
    Columns(Vec<String>),
}

/// Selects leaves, which must be passed in schema order.
#[derive(Debug)]
pub struct Chosen(Wanted);

#[derive(Debug)]
enum Wanted {
    Left(Option<u32>),
    /// Lower-case paths.
    Paths(HashSet<Vec<String>>),
}

impl StatsColumns {
    /// As a table's properties say (`delta.dataSkippingStatsColumns`,
    /// `delta.dataSkippingNumIndexedCols`).
    pub fn of(properties: &Properties) -> Self {
        match &properties.stats_columns {
            Some(names) => StatsColumns::Columns(names.clone()),
            None => StatsColumns::FirstLeaves(i32::try_from(properties.num_indexed_columns).unwrap_or(i32::MAX)),
        }
    }
}

impl Chosen {
    /// Before the first leaf.
    pub fn new(columns: &StatsColumns) -> Self {
        Chosen(match columns {
            StatsColumns::FirstLeaves(n) => Wanted::Left(u32::try_from(*n).ok()),
            StatsColumns::Columns(names) => Wanted::Paths(names.iter().map(|n| split_name(n)).collect()),
        })
    }

    /// Whether the next leaf, by its lower-case logical path, has statistics.
    pub fn takes(&mut self, path: &[String]) -> bool {
        match &mut self.0 {
            Wanted::Left(None) => true,
            Wanted::Left(Some(0)) => false,
            Wanted::Left(Some(n)) => {
                *n -= 1;
                true
            }
            Wanted::Paths(paths) => (1..=path.len()).any(|n| path.get(..n).is_some_and(|p| paths.contains(p))),
        }
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
