//! In-commit timestamps (P082–P085): a commit's time is in its first line instead of being the
//! file's modification time. Each attempt gets a new stamp, since it must be later than the base's.

use serde::Deserialize;
use serde_json::{Value, json};

use super::attempt::Attempt;
use super::hooks::removal::{Removable, Removal};
use super::hooks::safe_property::{always, safe, switched_on};
use super::{Kind, TableFeature};
use crate::actions::{CommitInfo, Metadata};
use crate::{Error, Result};

pub(super) const ENABLED: &str = "delta.enableInCommitTimestamps";
const SINCE_VERSION: &str = "delta.inCommitTimestampEnablementVersion";
const SINCE_TIME: &str = "delta.inCommitTimestampEnablementTimestamp";

/// The version from which on commits have their own time; `None` while the property is off (P082).
pub fn enabled_from(m: &Metadata) -> Option<u64> {
    let get = |k: &str| m.configuration.get(k);
    get(ENABLED).filter(|v| v.eq_ignore_ascii_case("true"))?;
    Some(get(SINCE_VERSION).and_then(|v| v.parse().ok()).unwrap_or(0))
}

/// What a commit's info says of its time, for readers of that alone.
#[derive(Debug, Default, Deserialize)]
pub struct Stamp {
    #[serde(rename = "inCommitTimestamp")]
    value: Option<Value>,
}

impl Stamp {
    /// The time in ms, if the commit carries one.
    pub fn time_ms(&self) -> Option<i64> {
        self.value.as_ref()?.as_i64()
    }
}

/// The time that a commit carries, ms.
pub fn stamp_of(info: &CommitInfo) -> Option<i64> {
    info.get("inCommitTimestamp")?.as_i64()
}

/// A commit's own time in ms. A commit without it is corrupt if the table requires it (P085).
pub fn time_of(info: &CommitInfo, version: u64) -> Result<i64> {
    required(stamp_of(info), version)
}

/// The time in ms that a commit of such a table carries, or the error that it has none (P085).
pub fn required(time_ms: Option<i64>, version: u64) -> Result<i64> {
    time_ms.ok_or_else(|| {
        Error::corrupt_log(format!(
            "the table's commits carry their own times, the one of version {version} doesn't: a program without the table feature {} wrote it; set {ENABLED} to false to go by the files' times",
            FEATURE.name
        ))
        .with_version(version)
    })
}

/// Sets the commit's time, later than its base's (P083), and records since when commits have a time
/// (P084).
fn finish(attempt: &mut Attempt<'_>) -> Result<()> {
    let on = attempt.metadata().is_some_and(|m| enabled_from(m).is_some());
    let was_on = attempt.base.is_some_and(|b| enabled_from(b.metadata).is_some());
    if !on || !attempt.supports(FEATURE.name) {
        if let Some(new) = attempt.new_metadata() {
            new.configuration.remove(SINCE_VERSION);
            new.configuration.remove(SINCE_TIME);
        }
        return Ok(());
    }
    let before = attempt.base.and_then(|b| b.time_ms);
    let time = before.map_or(attempt.now_ms, |t| attempt.now_ms.max(t.saturating_add(1)));
    if let Some(info) = attempt.info() {
        info.insert("inCommitTimestamp".into(), json!(time));
    }
    let (base, version) = (attempt.base, attempt.version);
    let Some(new) = attempt.new_metadata() else {
        return Ok(());
    };
    match base {
        Some(_) if !was_on => {
            new.configuration.insert(SINCE_VERSION.into(), version.to_string());
            new.configuration.insert(SINCE_TIME.into(), time.to_string());
        }
        Some(b) => {
            for key in [SINCE_VERSION, SINCE_TIME] {
                if let Some(old) = b.metadata.configuration.get(key) {
                    new.configuration.insert(key.into(), old.clone());
                }
            }
        }
        None => {}
    }
    Ok(())
}

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| enabled_from(v.metadata).is_some(),
    may_begin: true,
    may_appear: true,
    safe_properties: &[
        safe(ENABLED, switched_on),
        safe(SINCE_VERSION, always),
        safe(SINCE_TIME, always),
    ],
    removable: Some(Removable::new(Removal::Properties(&[
        ENABLED,
        SINCE_VERSION,
        SINCE_TIME,
    ]))),
    finish,
    log_properties: &[SINCE_VERSION, SINCE_TIME],
    lasting_properties: &[SINCE_VERSION, SINCE_TIME],
    ..TableFeature::new("inCommitTimestamp", Kind::Writer)
};
