//! What features and the rules about all of them build upon: the record of one feature with its
//! facts, one attempt of a commit, directives among table properties, rules for rows.

pub mod attempt;
pub(in crate::features) mod directives;
pub(in crate::features) mod example;
pub(in crate::features) mod field_key;
pub(in crate::features) mod own_domain;
pub(in crate::features) mod removal;
pub(in crate::features) mod row_rule;
pub(in crate::features) mod safe_property;
pub(in crate::features) mod table_feature;
