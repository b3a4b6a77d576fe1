//! SYNC IDENTITY: moves the high-water mark of an identity column beyond the values of existing
//! rows (P108). The caller finds the extreme value over the same version: the commit fails if
//! another writer has added rows since.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::features::identity_columns;
use deltaplane_protocol::schema_changes::edit::{edit, find, join_path, split_path};

use super::draft::Draft;

/// Moves the mark of a column to the extreme value, if that is beyond the mark.
pub(super) fn sync(draft: &mut Draft<'_>, column: &str, furthest: Option<i64>) -> Result<()> {
    let path = split_path(column)?;
    find(&draft.schema, &path)?;
    if path.len() > 1 {
        return Err(Error::invalid_argument(format!(
            "only whole columns are identity columns, not `{}` inside of one (DELTA_UNSUPPORTED_NESTED_COLUMN_SYNC_IDENTITY)",
            join_path(&path)
        )));
    }
    // delta-spark's history has the column as it was.
    super::columns::says_changed(draft, &path, None)?;
    draft.schema = edit(&draft.schema, &path, |f| identity_columns::synced(f, furthest))?;
    draft.read = ReadSet::Table;
    Ok(())
}
