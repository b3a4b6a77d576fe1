//! Locations of tables and volumes: no file may have two owners.

use crate::api::tables::is_below;
use crate::error::{CatalogError, Result};
use crate::names::TableName;
use crate::store::access::{Access, Principal};
use crate::store::connection::Connection;
use crate::store::value::params;

/// Refuses a location that equals another table's, or is above or below it: two owners of one file
/// would destroy it.
pub(crate) fn check_free(connection: &mut Connection, location: &str) -> Result<()> {
    let mut above = location;
    while let Some((parent, _)) = above.rsplit_once('/') {
        above = parent;
        if above.ends_with("//") || above.ends_with(':') || above.ends_with('/') {
            break;
        }
        refuse_used(connection, location, above, above)?;
    }
    // '0' follows '/' in the order of bytes.
    refuse_used(connection, location, location, location)?;
    refuse_used(connection, location, &format!("{location}/"), &format!("{location}0"))
}

/// Refuses if a table's location is in a range; the range's end is excluded unless it is its start.
fn refuse_used(connection: &mut Connection, location: &str, from: &str, to: &str) -> Result<()> {
    let tables = "SELECT location FROM tables WHERE location >= $1 AND (location < $2 OR location = $1) LIMIT 1";
    let staging =
        "SELECT location FROM staging_tables WHERE location >= $1 AND (location < $2 OR location = $1) LIMIT 1";
    for sql in [tables, staging] {
        if let Some(mut row) = connection.first(sql, params![from, to])? {
            return Err(CatalogError::invalid(format!(
                "the location {location} overlaps with that of another table, {}",
                row.text()?
            )));
        }
    }
    Ok(())
}

/// Refuses a new table that has a volume below its location, and one within a volume that this
/// principal may not write to.
pub(crate) fn check_volumes(connection: &mut Connection, location: &str, by: &Principal) -> Result<()> {
    for (volume, place) in overlapping_volumes(connection, location)? {
        if !is_below(location, &place) {
            return Err(CatalogError::invalid(format!(
                "the location {location} has the volume {volume} in it"
            )));
        }
        by.check(Access::Write, Some(&volume.catalog), Some(&volume.schema))?;
    }
    Ok(())
}

/// The volumes at, above and below a location, each with its own location.
pub(crate) fn overlapping_volumes(connection: &mut Connection, location: &str) -> Result<Vec<(TableName, String)>> {
    // '0' follows '/' in the order of bytes.
    let rows = connection.query(
        "SELECT catalog, schema, name, location FROM volumes
         WHERE location = $1 OR (location >= $2 AND location < $3)
             OR substr($1, 1, length(location) + 1) = location || '/'",
        params![location, format!("{location}/"), format!("{location}0")],
    )?;
    let volume = |mut row: crate::store::value::Row| {
        let name = TableName {
            catalog: row.text()?,
            schema: row.text()?,
            table: row.text()?,
        };
        Ok((name, row.text()?))
    };
    rows.into_iter().map(volume).collect()
}
