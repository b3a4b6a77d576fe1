//! An exhaustive check of the commit and checkpoint protocol in the small: three writers, a
//! checkpointer and a cleaner, with unclear and late puts and a crash of anybody at any moment.
//! `states` is the protocol, `explore` the search.

mod explore;
mod states;

pub use explore::{Explored, explore};
pub use states::Mistake;
