//! How a feature is dropped (P098): what to remove from the metadata, and what files and versions
//! must no longer contain.

use crate::actions::{Action, DomainMetadata, Metadata};
use crate::features::View;

/// What a drop does to the metadata.
#[derive(Clone, Copy)]
pub(in crate::features) enum Removal {
    /// Takes these properties away.
    Properties(&'static [&'static str]),
    /// Nothing is removed, and the drop is refused while the metadata uses the feature; the text
    /// says how to change that.
    Unused(&'static str),
    /// What the feature itself does.
    By(fn(View<'_>) -> Removed),
}

/// The metadata without what belongs to a feature, and what its live files may have.
pub(in crate::features) struct Removed {
    /// The metadata.
    pub(in crate::features) metadata: Metadata,
    /// Why live files, if there are any, would have to be written again.
    pub(in crate::features) rewrite: Option<String>,
    /// What live files may have, where the metadata tells.
    pub(in crate::features) usage: Option<FeatureUsage>,
}

/// What live files may contain because of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureUsage {
    /// Nothing.
    None,
    /// Deletion vectors.
    Vectors,
    /// Row ids, which would collide with ids that are assigned after row tracking is enabled again.
    RowIds,
    /// Values in types that their columns no longer have.
    OldTypes,
}

/// How one feature is dropped.
#[derive(Clone, Copy)]
pub(in crate::features) struct Removable {
    /// What a drop does to the metadata.
    pub(in crate::features) removal: Removal,
    /// What live files may have of it.
    pub(in crate::features) usage: FeatureUsage,
    /// Whether an action of an old version needs the feature; absent if no version can.
    pub(in crate::features) uses: Option<fn(&Action) -> bool>,
    /// The metadata under which writers no longer use the feature in new files, while old files are
    /// cleaned.
    pub(in crate::features) suspended: fn(&Metadata) -> Metadata,
    /// What has to be done before the drop, determined from the table's domains.
    pub(in crate::features) domains_in_use: fn(&[DomainMetadata]) -> Option<String>,
}

impl Removable {
    /// A feature that leaves nothing in files or in old versions.
    pub(in crate::features) const fn new(removal: Removal) -> Self {
        Removable {
            removal,
            usage: FeatureUsage::None,
            uses: None,
            suspended: Metadata::clone,
            domains_in_use: |_| None,
        }
    }
}
