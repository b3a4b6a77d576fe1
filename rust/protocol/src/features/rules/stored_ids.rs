//! The columns of data files in which rewritten rows keep their ids (P142): how row tracking names
//! them, and whether Iceberg readers look for them.

use serde::{Deserialize, Serialize};

use crate::actions::Metadata;
use crate::features::{iceberg_compat, row_tracking};

/// The physical columns in which rewritten rows keep their id and their version (P142).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredIds {
    /// The column of ids.
    pub id: String,
    /// The column of versions.
    pub version: String,
    /// Whether Iceberg readers look for them, which know them by
    /// [`ICEBERG_IDS`](row_tracking::ICEBERG_IDS) (P155).
    #[serde(default)]
    pub for_iceberg: bool,
}

/// Where rewritten rows keep their ids, as far as a table names such columns.
pub fn stored_ids(m: &Metadata) -> Option<StoredIds> {
    let (id, version) = row_tracking::materialised(m);
    Some(StoredIds {
        id: id?,
        version: version?,
        for_iceberg: iceberg_compat::knows_rows(&m.configuration),
    })
}
