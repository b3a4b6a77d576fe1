//! The domain in which a feature has its records: what a clone takes over, and when it may go.

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
    /// Refuses to drop the feature while the domain says something.
    pub(in crate::features) check_drop: fn(&DomainMetadata) -> Result<()>,
}
