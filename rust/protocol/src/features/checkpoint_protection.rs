//! Checkpoint protection (P157): versions before the protected one may use features that only their
//! checkpoints hide from readers, so log cleanup removes all of them or none.

use super::attempt::Attempt;
use super::hooks::removal::{Removable, Removal};
use super::{Kind, TableFeature};
use crate::Result;
use crate::actions::Metadata;

/// Table property: the version before which no checkpoint may be removed.
const BEFORE: &str = "delta.requireCheckpointProtectionBeforeVersion";

/// The version before which no checkpoint may be removed while one of its commits remains; 0 if
/// nothing is protected.
pub fn protected_before(metadata: &Metadata) -> u64 {
    let value = metadata.configuration.get(BEFORE);
    value.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}

/// The metadata that protects checkpoints before this version; a higher protected version is
/// retained.
pub(super) fn protect(metadata: &Metadata, before: u64) -> Metadata {
    let mut metadata = metadata.clone();
    let before = before.max(protected_before(&metadata));
    metadata.configuration.insert(BEFORE.to_owned(), before.to_string());
    metadata
}

/// New metadata of a protected table retains the property (P023): without it the checkpoints would
/// lose their protection.
fn finish(attempt: &mut Attempt<'_>) -> Result<()> {
    let old = attempt.base.and_then(|b| b.metadata.configuration.get(BEFORE).cloned());
    if attempt.supports(FEATURE.name)
        && let (Some(old), Some(new)) = (old, attempt.new_metadata())
    {
        new.configuration.entry(BEFORE.to_owned()).or_insert(old);
    }
    Ok(())
}

pub(super) static FEATURE: TableFeature = TableFeature {
    removable: Some(Removable::new(Removal::Properties(&[BEFORE]))),
    finish,
    log_properties: &[BEFORE],
    restore: |now, _, metadata| {
        let before = protected_before(now.metadata);
        if before > 0 {
            *metadata = protect(metadata, before);
        }
    },
    ..TableFeature::new("checkpointProtection", Kind::Writer)
};
