//! Rules that take several features together: which changes of a table are legal, and which
//! protocol it needs.

pub mod arrow_metadata;
pub mod cloned;
pub(in crate::features) mod concurrent;
pub(in crate::features) mod drop;
pub(in crate::features) mod minimum_protocol;
pub mod restored;
pub(in crate::features) mod row_rules;
pub(in crate::features) mod stored_ids;
pub(in crate::features) mod support;
pub(in crate::features) mod transitions;
