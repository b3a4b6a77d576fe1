//! deltaplane's extensions of the Delta API. A server advertises them in its configuration to
//! clients that ask, and a client names those that it understands in a header of each request.

use serde::{Deserialize, Serialize};

use crate::api::requests::UpdateTable;
use crate::api::tables::LoadedTable;

/// The header that lists extensions, separated by commas.
pub const HEADER: &str = "deltaplane-extensions";

/// The extensions that one side understands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions {
    /// A commit's text is in the request that ratifies it, and in loaded tables until it is
    /// published.
    pub inline_commits: bool,
    /// An update answers with version and etag only; `commits-after` on loading leaves out commits
    /// that the client has.
    pub short_answers: bool,
    /// Several tables are loaded at one instant, and updated all or nothing.
    pub transactions: bool,
    /// Clients do all maintenance of the tables that they may write: OPTIMIZE, VACUUM, clean-up of
    /// the log. A catalog without it may do these itself, so that its clients leave them.
    pub maintenance: bool,
}

impl Extensions {
    /// All extensions of this build.
    pub const ALL: Extensions = Extensions {
        inline_commits: true,
        short_answers: true,
        transactions: true,
        maintenance: true,
    };

    /// Their names.
    pub fn names(self) -> Vec<String> {
        let all = [
            (self.inline_commits, "inline-commits"),
            (self.short_answers, "short-answers"),
            (self.transactions, "transactions"),
            (self.maintenance, "maintenance"),
        ];
        all.iter()
            .filter(|(has, _)| *has)
            .map(|(_, name)| (*name).to_owned())
            .collect()
    }

    /// Those that names list; unknown names are ignored.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut extensions = Extensions::default();
        for name in names {
            match name.trim() {
                "inline-commits" => extensions.inline_commits = true,
                "short-answers" => extensions.short_answers = true,
                "transactions" => extensions.transactions = true,
                "maintenance" => extensions.maintenance = true,
                _ => {}
            }
        }
        extensions
    }
}

/// What an update led to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct UpdateOutcome {
    /// The latest version after the update; `None` for external tables.
    pub latest_table_version: Option<i64>,
    /// The etag after the update.
    pub etag: String,
}

impl From<&LoadedTable> for UpdateOutcome {
    fn from(loaded: &LoadedTable) -> Self {
        UpdateOutcome {
            latest_table_version: loaded.latest_table_version,
            etag: loaded.metadata.etag.clone(),
        }
    }
}

/// Updates of one table within a transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableUpdates {
    /// `catalog.schema.table`.
    pub table: String,
    /// What [`crate::api::UpdateTable`] has for a single table.
    pub request: UpdateTable,
}

/// Updates of several tables, all or nothing; and what they led to, in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transaction {
    /// The tables' updates; each table once.
    #[serde(default)]
    pub tables: Vec<TableUpdates>,
    /// In answers: an outcome for each table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<UpdateOutcome>,
}

/// Names of tables to load at one instant; in answers: the tables, in the same order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Snapshots {
    /// `catalog.schema.table` of each.
    #[serde(default)]
    pub names: Vec<String>,
    /// In answers: the tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<LoadedTable>,
}
