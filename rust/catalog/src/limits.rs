//! Limits on what a request, an answer and a table may contain, so that hostile JSON can't exhaust
//! memory.

/// The most bytes of a request that the server reads.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The most bytes of an answer that the client reads, mostly unpublished inline commits.
pub const MAX_ANSWER_BYTES: usize = 256 << 20;
/// The most bytes of an inline commit. Larger commits are staged as files.
pub const MAX_INLINE_BYTES: usize = 1 << 20;
/// The most columns of a table, nested fields included.
pub(crate) const MAX_COLUMNS: usize = 20_000;
/// The deepest nesting of a column's type.
pub(crate) const MAX_TYPE_DEPTH: usize = 64;
/// The most properties, features, domains or partition columns.
pub(crate) const MAX_ENTRIES: usize = 5_000;
/// The most bytes of a property's key, a feature's or a domain's name.
pub(crate) const MAX_KEY_BYTES: usize = 1 << 10;
/// The most bytes of a property's value.
pub(crate) const MAX_VALUE_BYTES: usize = 1 << 18;
/// The most bytes of a location or a comment.
pub(crate) const MAX_TEXT_BYTES: usize = 1 << 14;
/// The most tables of one transaction.
pub const MAX_TRANSACTION_TABLES: usize = 1_000;
/// The most items of one page of a list.
pub(crate) const MAX_PAGE: usize = 1_000;
/// The most unpublished commits that a client accepts in one answer.
pub(crate) const MAX_COMMITS: usize = 100_000;
