//! Writes of new data files: the request, what it means for the table's schema, protocol and files,
//! and the operation that the history records. Knows no rows; `transaction` commits the result.

pub(crate) mod clustering;
pub(crate) mod mapped_schema;
pub(crate) mod operation;
pub(crate) mod plan;
pub(crate) mod replace;
pub(crate) mod request;
pub(crate) mod schema_checks;
