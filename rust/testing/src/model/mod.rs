//! An exhaustive check of the commit and checkpoint protocol in the small: three writers, a
//! checkpointer and a cleaner, with unclear and late puts and a crash of anybody at any moment.
//! `states` is the protocol of one table, `tables` that of transactions over two tables, `explore`
//! the search.

mod explore;
mod states;
mod tables;

pub use explore::{Explored, explore, explore_tables};
pub use states::Mistake;
pub use tables::{Cast, GroupMistake};
