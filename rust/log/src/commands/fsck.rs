//! FSCK: finds disagreements between a table's log and its files by one listing of the directory;
//! and the repair, which removes missing files from the log. Knows no rows.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Add, Remove, claimed_sum};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::{ObjectInfo, Store};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::commands::vacuum::candidates::listed;
use crate::commands::vacuum::partition_names;
use crate::commands::vacuum::retained::{RetainedFiles, hash, vector_path};
use crate::committer::orphans;
use crate::progress::Tell;
use crate::transaction::{Committed, Operation, Staged, commit};
use crate::write::request::CommitRequest;
use crate::{PlanColumns, Snapshot, now_ms};

/// One disagreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// `missing file`, `size`, `missing deletion vector`, `orphan`, `protocol` or `checksum`.
    pub kind: &'static str,
    /// The file, if it concerns one.
    pub path: Option<String>,
    /// The problem, and what to do.
    pub message: String,
}

/// Arguments of the repair.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepairRequest {
    /// Only reports what would be removed.
    pub dry_run: bool,
    /// Settings of the commit.
    pub commit: CommitRequest,
}

/// What a repair removed from the log, or would remove.
pub struct Repaired {
    /// Decoded paths of the files.
    pub files: Vec<String>,
    /// The new version; absent if nothing was to be removed, and in a dry run.
    pub version: Option<u64>,
}

impl Snapshot {
    /// Compares this version with the existing files. Progress counts objects listed, then files
    /// checked.
    ///
    /// Costs a listing of the table's directory, sixteen bytes of memory per object in it, and a
    /// request for each file elsewhere.
    pub async fn check(&self, tell: &Tell) -> Result<Vec<Finding>> {
        let findings = self.find(tell).await;
        findings.map_err(|e| e.with_table(self.store().location().as_str()))
    }

    async fn find(&self, tell: &Tell) -> Result<Vec<Finding>> {
        let store = self.store().without_cache()?;
        let columns = partition_names(self);
        let cutoff = now_ms().saturating_sub(self.state().properties().deleted_file_retention_ms);
        // An older version doesn't know the files of later ones.
        let mut retained = RetainedFiles::of(&self.update().await?, cutoff).await?;
        retained.version(self).await?;
        let (mut there, mut findings) = (There::default(), self.protocol_findings());
        let mut objects = listed(&store, &columns).await?;
        while let Some(o) = objects.try_next().await? {
            there.add(&o.key, o.size_bytes);
            tell.tell_at_times("listing", there.len(), None)?;
            if o.modified_ms < cutoff && !paths::is_hidden(&o.key, &columns) && !retained.has(&o.key) {
                findings.push(Finding {
                    kind: "orphan",
                    message: format!("{} bytes that no version needs: VACUUM deletes them", o.size_bytes),
                    path: Some(o.key),
                });
            }
        }
        there.sort();
        findings.extend(staging_findings(&store, cutoff).await?);
        let (mut count, mut size) = (0i64, 0i64);
        let mut batches = self.plan(None, PlanColumns::Files);
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                count += 1;
                tell.tell_at_times("looking for files", u64::try_from(count).unwrap_or(0), None)?;
                size = claimed_sum([size, rows.size(row)]);
                let path = paths::decode(rows.path(row)?)?;
                findings.extend(data_finding(&store, &there, &path, rows.size(row)).await?);
                if let Some(vector) = rows
                    .deletion_vector(row)
                    .map(|dv| vector_path(&dv))
                    .transpose()?
                    .flatten()
                    && there.size_of(&store, &vector).await?.is_none()
                {
                    findings.push(Finding {
                        kind: "missing deletion vector",
                        path: Some(vector),
                        message: format!("the deletion vector of `{path}` is gone: restore it from a backup, or the table to an older version"),
                    });
                }
            }
        }
        let files = u64::try_from(count).unwrap_or(0);
        tell.tell("looking for files", files, Some(files))?;
        findings.extend(self.checksum_finding(count, size).await?);
        Ok(findings)
    }

    fn protocol_findings(&self) -> Vec<Finding> {
        let state = self.state();
        let wrong = [state.check_write().err(), state.check_properties().err()];
        let finding = |e: Error| Finding {
            kind: "protocol",
            path: None,
            message: e.message().to_owned(),
        };
        wrong.into_iter().flatten().map(finding).collect()
    }

    async fn checksum_finding(&self, files: i64, size: i64) -> Result<Option<Finding>> {
        let Some(sum) = self.version_checksum().await? else {
            return Ok(None);
        };
        let agrees = (sum.num_files, sum.table_size_bytes) == (files, size);
        Ok((!agrees).then(|| Finding {
            kind: "checksum",
            path: Some(paths::checksum(self.version())),
            message: format!(
                "the version's checksum says {} files of {} bytes, the log has {files} of {size}: delete the checksum, nothing needs it",
                sum.num_files, sum.table_size_bytes
            ),
        }))
    }

    /// Removes missing files from the log, so that the rest of the table can be read (FSCK REPAIR
    /// TABLE).
    ///
    /// # Errors
    /// A conflict kind if another writer removed one of them meanwhile.
    pub async fn repair(&self, request: &RepairRequest) -> Result<Repaired> {
        let done = self.take_missing_out(request).await;
        done.map_err(|e| e.with_table(self.store().location().as_str()))
    }

    async fn take_missing_out(&self, request: &RepairRequest) -> Result<Repaired> {
        self.state().check_write()?;
        let missing = self.missing().await?;
        let files: Vec<String> = missing.iter().map(|a| paths::decode(&a.path)).collect::<Result<_>>()?;
        if request.dry_run || files.is_empty() {
            return Ok(Repaired { files, version: None });
        }
        let now = now_ms();
        let removes: Vec<Remove> = missing.iter().map(|a| a.to_remove(now, true)).collect();
        let metrics = BTreeMap::from([
            ("numMissingFiles".to_owned(), json!(files.len().to_string())),
            ("numRemovedFiles".to_owned(), json!(removes.len().to_string())),
        ]);
        let staged = Staged {
            removes,
            operation: Operation {
                name: "FSCK".to_owned(),
                parameters: BTreeMap::from([("dryRun".to_owned(), json!("false"))]),
                metrics,
            },
            ..request.commit.staged(now)
        };
        let Committed { version, .. } = commit(self.store(), Some(self.clone()), &staged).await?;
        Ok(Repaired {
            files,
            version: Some(version),
        })
    }

    async fn missing(&self) -> Result<Vec<Add>> {
        let store = self.store().without_cache()?;
        let mut there = There::default();
        let mut objects = listed(&store, &partition_names(self)).await?;
        while let Some(o) = objects.try_next().await? {
            there.add(&o.key, o.size_bytes);
        }
        there.sort();
        let mut missing = Vec::new();
        let mut batches = self.plan(None, PlanColumns::Logged);
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                let path = paths::decode(rows.path(row)?)?;
                if there.size_of(&store, &path).await?.is_none() {
                    missing.push(rows.add(row)?);
                }
            }
        }
        Ok(missing)
    }
}

/// Staged commits that no version needs any more (P014, P158).
async fn staging_findings(store: &Store, cutoff_ms: i64) -> Result<Vec<Finding>> {
    let orphans = orphans(store, cutoff_ms).await?;
    let finding = |o: ObjectInfo| Finding {
        kind: "orphan",
        message: format!(
            "{} bytes of a commit that was proposed to the table's catalog, and that no version needs: clean-up of the log deletes it with the versions before it",
            o.size_bytes
        ),
        path: Some(o.key),
    };
    Ok(orphans.into_iter().map(finding).collect())
}

async fn data_finding(store: &Store, there: &There, path: &str, size: i64) -> Result<Option<Finding>> {
    let finding = |kind, message| Finding {
        kind,
        path: Some(path.to_owned()),
        message,
    };
    Ok(match there.size_of(store, path).await? {
        None => Some(finding(
            "missing file",
            "the log names it and it isn't there: restore it from a backup, or take it out of the log (repair)"
                .to_owned(),
        )),
        Some(actual) if u64::try_from(size) != Ok(actual) => Some(finding(
            "size",
            format!("the log says {size} bytes and there are {actual} (P031): another file was put in its place"),
        )),
        Some(_) => None,
    })
}

/// The listed objects: hashes of keys, and sizes.
#[derive(Default)]
struct There(Vec<(u64, u64)>);

impl There {
    fn add(&mut self, key: &str, size_bytes: u64) {
        self.0.push((hash(key), size_bytes));
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn sort(&mut self) {
        self.0.sort_unstable();
    }

    /// The size of the data file at this decoded path, if it exists.
    async fn size_of(&self, store: &Store, path: &str) -> Result<Option<u64>> {
        if let Some(key) = store.own_key(path)? {
            let wanted = hash(&key);
            let place = self.0.binary_search_by_key(&wanted, |(hash, _)| *hash).ok();
            if let Some((_, size)) = place.and_then(|place| self.0.get(place)) {
                return Ok(Some(*size));
            }
            // Hidden from listings, or spelled differently.
        }
        let (store, key) = store.resolve(path)?;
        match store.head(&key).await {
            Ok(info) => Ok(Some(info.size_bytes)),
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}
