//! Indexes of keys: building them from data files, their state, and their removal. `key_lookup`
//! uses them in plans.

mod build;
mod merging;
#[cfg(test)]
mod tests;

pub use build::{KeyIndex, build, clean, describe};

pub use crate::key_lookup::{PROPERTY, property_to_add, property_to_drop};
