//! Frozen classes that hold a value of the core which Python does not look into.

pub(crate) mod added_files;
pub(crate) mod pickling;
pub(crate) mod predicate;
