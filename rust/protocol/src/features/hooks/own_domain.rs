//! The domain in which a feature stores its data: what a clone copies, and when it may be removed.

use crate::Result;
use crate::actions::DomainMetadata;

/// One domain.
#[derive(Clone, Copy)]
pub(in crate::features) struct OwnDomain {
    /// Its name.
    pub(in crate::features) name: &'static str,
    /// The domain of a clone, from that of the source and that of the table which it replaces.
    pub(in crate::features) cloned:
        fn(Option<DomainMetadata>, Option<DomainMetadata>) -> Result<Option<DomainMetadata>>,
    /// Refuses to drop the feature if the content of its domain still has an effect.
    pub(in crate::features) check_drop: fn(&DomainMetadata) -> Result<()>,
}
