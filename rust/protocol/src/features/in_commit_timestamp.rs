//! In-commit timestamps (P082–P085): a commit's time stands in its first line instead of being the
//! file's modification time. Read here; writing such tables is refused until commits can stamp it.

use super::{Kind, TableFeature, fine};
use crate::actions::{CommitInfo, Metadata};

/// From which version on commits carry their own time; `None` while the property is off (P082).
pub fn enabled_from(m: &Metadata) -> Option<u64> {
    let get = |k: &str| m.configuration.get(k);
    get("delta.enableInCommitTimestamps").filter(|v| v.eq_ignore_ascii_case("true"))?;
    Some(
        get("delta.inCommitTimestampEnablementVersion")
            .and_then(|v| v.parse().ok())
            .unwrap_or(0),
    )
}

/// The time that a commit carries, ms.
pub fn time_of(info: &CommitInfo) -> Option<i64> {
    info.get("inCommitTimestamp")?.as_i64()
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "inCommitTimestamp",
    kind: Kind::Writer,
    legacy: None,
    requires: &[],
    wanted: |v| enabled_from(v.metadata).is_some(),
    refuse_read: fine,
    refuse_write: |v| enabled_from(v.metadata).map(|_| "whose times this version can't stamp".to_owned()),
};
