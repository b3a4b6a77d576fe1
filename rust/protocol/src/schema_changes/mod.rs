//! Changes of a table's schema: single fields edited, new columns merged in, or the whole schema
//! replaced. Pure.

pub mod edit;
pub mod merge;
pub mod replace;
