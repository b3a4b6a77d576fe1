//! Plans that leave out the files whose keys an index knows not to match. `key_index` builds it,
//! and `deltaplane-index` has the format.

mod columns;
mod lookup;
mod opened;

pub use columns::{PROPERTY, property_to_add, property_to_drop};
pub(crate) use columns::{TableIndex, table_indexes};
pub use lookup::{KeyRows, narrowed, narrowed_for_spark};
pub(crate) use opened::OpenIndex;
