//! Refuses commits whose new metadata would change the meaning of files that stay in the table.
//! Runs before each attempt and dry run; lists files only if the metadata would be misread.

use std::collections::HashSet;

use deltaplane_error::Result;
use deltaplane_protocol::actions::{Add, Metadata, Remove};
use deltaplane_protocol::features::View;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::retained_files::{misread, partition_keys, refusal};
use deltaplane_protocol::schema::StructType;
use futures::TryStreamExt;

use crate::{PlanColumns, Snapshot};

/// Refuses metadata with which retained files of the base, or new files, would be read as other
/// rows.
pub(crate) async fn check_kept(
    base: &Snapshot,
    metadata: Option<&Metadata>,
    adds: &[Add],
    removes: &[Remove],
) -> Result<()> {
    let Some((metadata, text)) = metadata.and_then(|m| Some((m, m.schema_string.as_deref()?))) else {
        return Ok(());
    };
    let schema = StructType::from_json(text)?;
    let after = View {
        metadata,
        schema: &schema,
    };
    let Some(why) = misread(base.state().view(), after)? else {
        return Ok(());
    };
    let keys = partition_keys(after)?;
    if let Some(odd) = adds
        .iter()
        .find(|a| !a.partition_values.keys().map(String::as_str).eq(keys.iter().copied()))
    {
        return Err(refusal(&why, &odd.path));
    }
    // A file that is added again states its partition again.
    match first_kept(base, removes, adds).await? {
        Some(path) => Err(refusal(&why, &path)),
        None => Ok(()),
    }
}

/// The path of one file of the base that the commit neither removes nor adds again; `None` if there
/// is none.
pub(crate) async fn first_kept(base: &Snapshot, removes: &[Remove], adds: &[Add]) -> Result<Option<String>> {
    let named = removes.iter().map(|r| &r.path).chain(adds.iter().map(|a| &a.path));
    let named = named.map(|p| paths::decode(p)).collect::<Result<HashSet<_>>>()?;
    let mut batches = base.plan(None, PlanColumns::Files);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let path = rows.add(row)?.path;
            if !named.contains(&paths::decode(&path)?) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}
