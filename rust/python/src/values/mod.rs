//! Frozen classes that hold a value of the core which Python does not look into.

pub(crate) mod carried;
pub(crate) mod predicate;
