//! Several commands on one table as one commit: what the table is after the last of them, as seen
//! from the version before the first.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, DeletionVector, Metadata, Remove};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::features::row_tracking;
use deltaplane_protocol::paths;
use serde_json::{Value, json};

use crate::Snapshot;
use crate::committer::Buffer;
use crate::committer::buffer::Noted;
use crate::transaction::{Operation, Staged};

/// The operation of a commit that is made of several commands.
const OPERATION: &str = "TRANSACTION";

/// A file of the table with one of its deletion vectors (P042).
type Key = (String, Option<String>);

fn key(path: &str, vector: Option<&DeletionVector>) -> Result<Key> {
    Ok((paths::decode(path)?, vector.map(DeletionVector::unique_id)))
}

/// The commands that a transaction over several tables buffered.
///
/// # Errors
/// `Internal` for one that another room noted.
pub(crate) fn commands_of(buffer: &Buffer) -> Result<Vec<Arc<Staged>>> {
    let as_staged = |noted: Noted| noted.downcast::<Staged>();
    let commands: Result<Vec<_>, _> = buffer.commands().into_iter().map(as_staged).collect();
    commands.map_err(|_| Error::internal("a transaction noted something else than commands; please report this"))
}

/// Offers a command to a transaction, if it can be part of one commit with earlier ones.
///
/// # Errors
/// As [`check_follows`]; `InvalidArgument` after the transaction ended.
pub(crate) fn offer(buffer: &Buffer, txn_id: &str, base: &Snapshot, staged: Staged) -> Result<()> {
    let earlier = commands_of(buffer)?;
    check_follows(buffer.shown_name(), base.state().metadata(), &earlier, &staged)?;
    buffer.offer(txn_id, Arc::new(staged))
}

fn changes_rows(staged: &Staged) -> bool {
    let adds = staged.adds.iter().map(|add| add.data_change);
    let removes = staged.removes.iter().map(|remove| remove.data_change);
    !staged.cdc.is_empty() || adds.chain(removes).any(|changes| changes)
}

/// Refuses a command that can't be part of one commit with these earlier ones: one commit has
/// change files for all of its changes or for none (P130), row ids begin at the commit (P142), and
/// a file's rows are new or moved (P028).
fn check_follows(table: &str, metadata: &Metadata, earlier: &[Arc<Staged>], next: &Staged) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::unsupported_feature(format!(
            "{table}: {what}; all commands of a transaction on a table are one commit: run this command in a transaction of its own"
        )))
    };
    let numbers_files = |staged: &Staged| row_tracking::only_numbers_files(&staged.operation.name);
    if !earlier.is_empty() && (numbers_files(next) || earlier.iter().any(|staged| numbers_files(staged))) {
        return refuse("the command assigns ids to the rows of existing files, or takes them away");
    }
    let changing: Vec<&Arc<Staged>> = earlier.iter().filter(|staged| changes_rows(staged)).collect();
    let has_cdc = |staged: &Staged| !staged.cdc.is_empty();
    let records_changes = has_cdc(next) || changing.iter().any(|staged| has_cdc(staged));
    if changes_rows(next) && !changing.is_empty() && records_changes {
        return refuse(
            "the table records changes of rows, and UPDATE, DELETE and MERGE can't be the second command that changes rows, nor be followed by one",
        );
    }
    let mut added: BTreeMap<String, bool> = BTreeMap::new();
    for add in earlier.iter().flat_map(|staged| &staged.adds) {
        added.insert(paths::decode(&add.path)?, add.data_change);
    }
    for remove in &next.removes {
        let Some(is_new) = added.get(&paths::decode(&remove.path)?) else {
            continue;
        };
        if *is_new != remove.data_change {
            return refuse("the command moves rows that the transaction changed, or changes rows that it moved");
        }
        if row_tracking::is_on(metadata) {
            return refuse(
                "the command changes rows that the transaction wrote, whose row ids are known after the commit",
            );
        }
    }
    Ok(())
}

/// One commit of these commands, in their order.
///
/// # Errors
/// `CorruptLog` for a path that can't be decoded.
pub(crate) fn squash(commands: &[Arc<Staged>]) -> Result<Staged> {
    if let [only] = commands {
        return Ok(only.as_ref().clone());
    }
    let mut adds: Vec<(Key, Add)> = Vec::new();
    let mut removes: Vec<(Key, Remove)> = Vec::new();
    let mut all = Staged::default();
    for staged in commands {
        for remove in &staged.removes {
            let gone = key(&remove.path, remove.deletion_vector.as_ref())?;
            let before = adds.len();
            adds.retain(|(key, _)| *key != gone);
            // A file that an earlier command added was never in a version of the table.
            if adds.len() == before {
                removes.retain(|(key, _)| *key != gone);
                removes.push((gone, remove.clone()));
            }
        }
        for add in &staged.adds {
            let new = key(&add.path, add.deletion_vector.as_ref())?;
            let before = removes.len();
            removes.retain(|(key, _)| *key != new);
            // A file that an earlier command removed stays in the table.
            if removes.len() == before || !add.data_change {
                adds.retain(|(key, _)| *key != new);
                adds.push((new, add.clone()));
            }
        }
        all.cdc.extend(staged.cdc.iter().cloned());
        all.metadata = staged.metadata.clone().or(all.metadata);
        all.protocol = staged.protocol.clone().or(all.protocol);
        all.user_metadata = staged.user_metadata.clone().or(all.user_metadata);
        all.engine_info.clone_from(&staged.engine_info);
        all.is_serializable |= staged.is_serializable;
        all.skip_checkpoint |= staged.skip_checkpoint;
        all.cleanup = staged.cleanup.or(all.cleanup);
        all.as_delta_rs |= staged.as_delta_rs;
        all.max_attempts = staged.max_attempts.into_iter().chain(all.max_attempts).min();
        merge_info(&mut all.extra_info, &staged.extra_info);
        for transaction in &staged.transactions {
            all.transactions.retain(|other| other.app_id != transaction.app_id);
            all.transactions.push(transaction.clone());
        }
        for domain in &staged.domains {
            all.domains.retain(|other| other.domain != domain.domain);
            all.domains.push(domain.clone());
        }
        // Only whether there is one counts: each command's own is checked.
        if matches!(all.read, ReadSet::Nothing) {
            all.read = staged.read.clone();
        }
    }
    all.adds = adds.into_iter().map(|(_, add)| add).collect();
    all.removes = removes.into_iter().map(|(_, remove)| remove).collect();
    all.operation = operation(commands);
    // Deletions can be repeated on newer vectors if no other command touches the same files.
    let mut removing = commands.iter().filter(|staged| !staged.removes.is_empty());
    if let (Some(only), None) = (removing.next(), removing.next()) {
        all.row_conflicts.clone_from(&only.row_conflicts);
    }
    Ok(all)
}

/// The user's fields; `tags` are merged by key.
fn merge_info(all: &mut BTreeMap<String, Value>, more: &BTreeMap<String, Value>) {
    for (name, value) in more {
        match (all.get_mut(name), value) {
            (Some(Value::Object(tags)), Value::Object(more)) => tags.extend(more.clone()),
            _ => {
                all.insert(name.clone(), value.clone());
            }
        }
    }
}

/// What the history shows of several commands: their names, and sums of their metrics.
fn operation(commands: &[Arc<Staged>]) -> Operation {
    let names: HashSet<&str> = commands.iter().map(|staged| staged.operation.name.as_str()).collect();
    let names_in_order: Vec<&str> = commands.iter().map(|staged| staged.operation.name.as_str()).collect();
    let mut metrics: BTreeMap<String, i64> = BTreeMap::new();
    for (name, value) in commands.iter().flat_map(|staged| &staged.operation.metrics) {
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        let sum = metrics.entry(name.clone()).or_default();
        *sum = sum.saturating_add(number.unwrap_or(0));
    }
    let is_one_kind = names.len() == 1 && commands.iter().all(|staged| staged.removes.is_empty());
    Operation {
        // Appends stay what other writers take them for.
        name: match (is_one_kind, names_in_order.first()) {
            (true, Some(name)) => (*name).to_owned(),
            _ => OPERATION.to_owned(),
        },
        parameters: BTreeMap::from([("operations".to_owned(), json!(json!(names_in_order).to_string()))]),
        metrics: metrics
            .into_iter()
            .map(|(name, sum)| (name, json!(sum.to_string())))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use deltaplane_error::Kind;
    use deltaplane_protocol::actions::AddCdcFile;
    use proptest::prelude::*;

    use super::*;

    fn vector(id: u8) -> DeletionVector {
        DeletionVector {
            storage_type: "u".to_owned(),
            path_or_inline_dv: format!("{id:020}"),
            offset: Some(1),
            size_in_bytes: 1,
            cardinality: i64::from(id),
        }
    }

    fn add(path: &str, dv: u8) -> Add {
        Add {
            path: path.to_owned(),
            data_change: true,
            deletion_vector: (dv > 0).then(|| vector(dv)),
            ..Add::default()
        }
    }

    fn change(removes: &[(&str, u8)], adds: &[(&str, u8)]) -> Staged {
        Staged {
            adds: adds.iter().map(|(path, dv)| add(path, *dv)).collect(),
            removes: removes
                .iter()
                .map(|(path, dv)| add(path, *dv).to_remove(1, true))
                .collect(),
            ..Staged::default()
        }
    }

    /// The live files after commands on a table with these.
    fn replay(live: &[(String, u8)], commands: &[Arc<Staged>]) -> Vec<Key> {
        let mut live: Vec<Key> = live
            .iter()
            .map(|(path, dv)| key(path, (*dv > 0).then(|| vector(*dv)).as_ref()).unwrap())
            .collect();
        for staged in commands {
            for remove in &staged.removes {
                let gone = key(&remove.path, remove.deletion_vector.as_ref()).unwrap();
                live.retain(|key| *key != gone);
            }
            for add in &staged.adds {
                live.push(key(&add.path, add.deletion_vector.as_ref()).unwrap());
            }
        }
        live.sort();
        live
    }

    #[test]
    fn files_that_no_version_has_are_left_out() {
        // P025
        let commands = [
            change(&[], &[("new", 0)]),
            change(&[("new", 0), ("old", 0)], &[("new", 1), ("old", 1)]),
            change(&[("old", 1)], &[("old", 2)]),
            change(&[("new", 1)], &[]),
        ];
        let all = squash(&commands.map(Arc::new)).unwrap();
        assert_eq!(all.adds, [add("old", 2)]);
        let gone: Vec<_> = all
            .removes
            .iter()
            .map(|r| (r.path.as_str(), r.deletion_vector.clone()))
            .collect();
        assert_eq!(gone, [("old", None)]);
        assert_eq!(all.operation.name, "TRANSACTION");
    }

    #[test]
    fn commands_that_one_commit_cannot_hold_are_refused() {
        let table = |property: Option<&str>| Metadata {
            configuration: property
                .map(|p| (p.to_owned(), "true".to_owned()))
                .into_iter()
                .collect(),
            ..Metadata::default()
        };
        let refused = |property, earlier: Staged, next: Staged| {
            let checked = check_follows("t", &table(property), &[Arc::new(earlier)], &next);
            checked.map_err(|e| e.kind()) == Err(Kind::UnsupportedFeature)
        };
        let (append, delete) = (change(&[], &[("a", 0)]), change(&[("a", 0)], &[("a", 1)]));
        // P142
        assert!(refused(Some("delta.enableRowTracking"), append.clone(), delete.clone()));
        assert!(!refused(None, append.clone(), delete.clone()));
        assert!(!refused(
            Some("delta.enableRowTracking"),
            append.clone(),
            append.clone()
        ));
        let mut backfill = append.clone();
        row_tracking::BACKFILL.clone_into(&mut backfill.operation.name);
        assert!(refused(None, append.clone(), backfill.clone()));
        assert!(refused(None, backfill, append.clone()));
        // P130
        let mut with_cdc = change(&[("b", 0)], &[("b", 1)]);
        with_cdc.cdc.push(AddCdcFile {
            path: "changes".to_owned(),
            partition_values: Default::default(),
            size: 1,
            data_change: false,
            tags: None,
        });
        assert!(refused(None, append.clone(), with_cdc.clone()));
        assert!(refused(None, with_cdc.clone(), append.clone()));
        assert!(!refused(None, Staged::default(), with_cdc));
        // P028
        let mut moved = change(&[("a", 0)], &[("joined", 0)]);
        moved.adds.iter_mut().for_each(|a| a.data_change = false);
        moved.removes.iter_mut().for_each(|r| r.data_change = false);
        assert!(refused(None, append, moved.clone()));
        assert!(refused(None, moved, change(&[("joined", 0)], &[])));
    }

    proptest! {
        #[test]
        fn one_commit_leaves_what_the_commands_left(choices in proptest::collection::vec((0u8..4, 0usize..8), 1..12)) {
            let base: Vec<(String, u8)> = (0..3).map(|n| (format!("base{n}"), 0)).collect();
            let mut live = base.clone();
            let mut commands = Vec::new();
            for (step, (what, index)) in choices.into_iter().enumerate() {
                let picked = (!live.is_empty()).then(|| index % live.len());
                let staged = match (what, picked) {
                    (1, Some(index)) => {
                        let (path, dv) = live.remove(index);
                        change(&[(&path, dv)], &[])
                    }
                    (2, Some(index)) => {
                        let (path, dv) = live[index].clone();
                        live[index].1 = dv + 1;
                        change(&[(&path, dv)], &[(&path, dv + 1)])
                    }
                    (3, Some(index)) => {
                        let (path, dv) = live.remove(index);
                        let new = format!("copy{step}");
                        live.push((new.clone(), 0));
                        change(&[(&path, dv)], &[(&new, 0)])
                    }
                    _ => {
                        let new = format!("new{step}");
                        live.push((new.clone(), 0));
                        change(&[], &[(&new, 0)])
                    }
                };
                commands.push(Arc::new(staged));
            }
            let all = squash(&commands).unwrap();
            prop_assert_eq!(replay(&base, &[Arc::new(all.clone())]), replay(&base, &commands));
            let mut paths: Vec<_> = all.adds.iter().map(|a| &a.path).collect();
            paths.sort();
            paths.dedup();
            prop_assert_eq!(paths.len(), all.adds.len());
            // Only files of the base are removed.
            prop_assert!(all.removes.iter().all(|r| r.path.starts_with("base") && r.deletion_vector.is_none()));
        }
    }
}
