//! Indexes of keys: building them from data files, their state, and their removal. `key_lookup`
//! uses them in plans.

mod build;
mod merging;
mod segments;
#[cfg(test)]
mod tests;

pub use build::{IndexBuild, KeyIndex, clean, describe};
pub use segments::{BuiltSegment, KeyTask, build_segment};

pub use crate::key_lookup::{PROPERTY, property_to_add, property_to_drop};
