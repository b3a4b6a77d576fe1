//! Data files as simulated commits name them. Nobody writes them: the book knows their rows.

use deltaplane_protocol::actions::Add;
use serde_json::json;

use super::Context;
use crate::book::{IntentId, read};
use crate::world::lock;

/// Rows of every new file.
const ROWS: usize = 4;
/// A new file of new rows.
pub fn new_add(me: &Context, intent: IntentId, partition: u8) -> Add {
    let path = read(&me.book).new_file(intent, partition, ROWS);
    add_of(me, path, partition, ROWS)
}

/// A file of these many rows as the log names it.
pub fn add_of(me: &Context, path: String, partition: u8, rows: usize) -> Add {
    Add {
        path,
        partition_values: [("p".to_owned(), Some(partition.to_string()))].into(),
        size: 10,
        modification_time: lock(&me.world).now_ms,
        data_change: true,
        stats: Some(json!({"numRecords": rows}).to_string()),
        ..Add::default()
    }
}
