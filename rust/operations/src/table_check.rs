//! Checks every data file and deletion vector of a version against what the log says of them, by
//! reading them.

use deltaplane_data::{Vectors, WriteSpec, footer_stats};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{FileRequest, FileTarget, Finding, PlanColumns, Snapshot, Tell};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::features::{FileForm, RowRules};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::properties::Properties;
use deltaplane_protocol::prune::stats_contradiction;
use deltaplane_store::Store;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use crate::write_job::Spec;

/// Files that are checked at once: each holds some row groups in memory.
const CHECKED_AT_ONCE: usize = 4;

/// Reads every data file and deletion vector; reports each file to `tell`.
///
/// # Errors
/// Errors of the store that say nothing of a file; those of `tell`.
pub async fn check_rows(table: &Snapshot, tell: &Tell) -> Result<Vec<Finding>> {
    let state = table.state();
    let files = FileRequest::default();
    // Files are only read, so that a property about new files can't be wrong.
    let properties = Properties {
        bloom_filter_columns: None,
        ..state.properties().clone()
    };
    let target = FileTarget {
        schema: state.schema(),
        partition_columns: state.partition_columns(),
        mapping: state.mapping(),
        form: FileForm::default(),
        properties: &properties,
        request: &files,
        as_delta_rs: false,
    };
    let spec = Spec::of(&target, &[], &RowRules::default(), false)?.write_spec()?;
    let (store, vectors) = (table.store(), Vectors::new(table.store().clone()));
    let adds = table.plan(None, PlanColumns::Logged).map(|batch| {
        let batch = batch?;
        let rows = FileRows::new(&batch);
        let adds = (0..batch.num_rows()).map(|row| rows.add(row));
        Ok(stream::iter(adds.collect::<Result<Vec<_>>>()?).map(Ok))
    });
    let checked = adds
        .try_flatten()
        .map_ok(|add| check_file(store, &vectors, &spec, add))
        .try_buffered(CHECKED_AT_ONCE);
    all_findings(checked, tell).await
}

async fn all_findings(checked: impl Stream<Item = Result<Option<Finding>>>, tell: &Tell) -> Result<Vec<Finding>> {
    let mut checked = std::pin::pin!(checked);
    let (mut done, mut findings) = (0, Vec::new());
    while let Some(finding) = checked.try_next().await? {
        findings.extend(finding);
        done += 1;
        tell.tell("reading", done, None)?;
    }
    tell.tell("reading", done, Some(done))?;
    Ok(findings)
}

/// What is wrong inside of a file or of its vector.
async fn check_file(store: &Store, vectors: &Vectors, spec: &WriteSpec, add: Add) -> Result<Option<Finding>> {
    let path = paths::decode(&add.path)?;
    let (kind, message) = match footer_stats(store, &path, spec).await {
        Err(e) if is_damage(&e) => ("unreadable", e.message().to_owned()),
        Err(e) => return Err(e),
        Ok((_, exact)) => match stats_contradiction(add.stats.as_deref().unwrap_or("{}"), &exact) {
            Some(why) => ("statistics", why),
            None => match &add.deletion_vector {
                None => return Ok(None),
                Some(vector) => match vectors.load(vector).await {
                    Ok(_) => return Ok(None),
                    Err(e) if is_damage(&e) => ("deletion vector", e.message().to_owned()),
                    Err(e) => return Err(e),
                },
            },
        },
    };
    Ok(Some(Finding {
        kind,
        path: Some(path),
        message,
    }))
}

fn is_damage(e: &Error) -> bool {
    let kinds = [
        Kind::FileMissing,
        Kind::CorruptFile,
        Kind::SchemaMismatch,
        Kind::ObjectNotFound,
    ];
    kinds.contains(&e.kind())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use deltaplane_store::block_on;

    use super::*;
    use crate::file_list::for_each_path;
    use crate::testing::Table;

    fn paths_of(table: &Table) -> Vec<String> {
        let (snapshot, mut paths_found) = (table.snapshot(), Vec::new());
        block_on(for_each_path(&snapshot, None, |path| paths_found.push(path.to_owned()))).unwrap();
        paths_found
    }

    #[test]
    fn a_sound_table_has_no_findings_and_every_file_is_reported() {
        let table = Table::new();
        table.append(&[1, 2]);
        table.append(&[3]);
        let progress = Arc::new(Mutex::new(Vec::new()));
        let to = progress.clone();
        let tell = Tell::to(move |p| {
            to.lock().unwrap().push((p.phase, p.done, p.total));
            Ok(())
        });
        assert!(block_on(check_rows(&table.snapshot(), &tell)).unwrap().is_empty());
        let progress = progress.lock().unwrap().clone();
        assert_eq!(
            progress,
            [("reading", 1, None), ("reading", 2, None), ("reading", 2, Some(2))]
        );
    }

    #[test]
    fn a_file_that_is_no_parquet_and_one_that_is_gone_are_found() {
        let table = Table::new();
        table.append(&[1, 2]);
        table.append(&[3]);
        let paths = paths_of(&table);
        block_on(table.store.put(&paths[0], Bytes::from_static(b"no Parquet"))).unwrap();
        block_on(table.store.delete(&paths[1])).unwrap();
        let findings = block_on(check_rows(&table.snapshot(), &Tell::default())).unwrap();
        let mut findings: Vec<_> = findings.into_iter().map(|f| (f.path.unwrap(), f.kind)).collect();
        findings.sort();
        let mut expected: Vec<_> = paths.into_iter().map(|path| (path, "unreadable")).collect();
        expected.sort();
        assert_eq!(findings, expected);
    }

    #[test]
    fn statistics_that_contradict_a_file_are_found() {
        let table = Table::new();
        table.append(&[1, 2]);
        let path = paths_of(&table).remove(0);
        let other = Table::new();
        other.append(&[7, 8, 9]);
        let rows = block_on(other.store.read(&paths_of(&other)[0])).unwrap();
        block_on(table.store.put(&path, rows)).unwrap();
        let findings = block_on(check_rows(&table.snapshot(), &Tell::default())).unwrap();
        let findings: Vec<_> = findings.into_iter().map(|f| (f.path.unwrap(), f.kind)).collect();
        assert_eq!(findings, [(path, "statistics")]);
    }
}
