//! What the rooms of features build upon: one attempt of a commit, directives among table properties, rules for rows.

pub mod attempt;
pub(in crate::features) mod directives;
pub(in crate::features) mod row_rule;
