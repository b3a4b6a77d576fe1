//! Commands that change rows of live files: DELETE, UPDATE, MERGE and what moves rows. Knows no Python.

pub mod row_conflicts;
