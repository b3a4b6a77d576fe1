//! The version checksum (protocol section "Version Checksum File", P018, P019): sums over a
//! version's state, and how a commit changes them. Pure; `log` reads and writes the files.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actions::{Action, Add, DeletionVector, DomainMetadata, Metadata, Protocol, SetTransaction};
use crate::features::in_commit_timestamp;
use crate::{Error, Result};

/// Files by size: bin `i` counts files from `sorted_bin_boundaries[i]` up to the next boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSizeHistogram {
    /// Lower bounds in bytes, ascending from 0.
    pub sorted_bin_boundaries: Vec<i64>,
    /// Number of files in each bin.
    pub file_counts: Vec<i64>,
    /// Bytes of the files in each bin.
    pub total_bytes: Vec<i64>,
}

impl FileSizeHistogram {
    /// Adds a file to its bin (`sign` 1) or removes it (-1); false if the counts would be out of
    /// range.
    fn count(&mut self, size: i64, sign: i64) -> bool {
        let after = self.sorted_bin_boundaries.partition_point(|b| *b <= size);
        let bin = after.checked_sub(1);
        let slots = bin.and_then(|i| Some((self.file_counts.get_mut(i)?, self.total_bytes.get_mut(i)?)));
        let Some((files, bytes)) = slots else { return false };
        let sums = files.checked_add(sign).zip(plus(*bytes, sign, size));
        sums.map(|sums| (*files, *bytes) = sums).is_some()
    }
}

/// The content of a checksum file. Members that this build doesn't maintain are left out when
/// writing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionChecksum {
    /// The commit's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txn_id: Option<String>,
    /// Bytes of all live files.
    pub table_size_bytes: i64,
    /// Number of live files.
    pub num_files: i64,
    /// Rows that deletion vectors of live files mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_deleted_records_opt: Option<i64>,
    /// Live files with a deletion vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_deletion_vectors_opt: Option<i64>,
    /// 1.
    pub num_metadata: i64,
    /// 1.
    pub num_protocol: i64,
    /// The in-commit timestamp, iff commits have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_commit_timestamp_opt: Option<i64>,
    /// Every application's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_transactions: Option<Vec<SetTransaction>>,
    /// Every live domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_metadata: Option<Vec<DomainMetadata>>,
    /// The metadata.
    pub metadata: Metadata,
    /// The protocol.
    pub protocol: Protocol,
    /// Files by size.
    #[serde(default, alias = "histogramOpt", skip_serializing_if = "Option::is_none")]
    pub file_size_histogram: Option<FileSizeHistogram>,
}

impl VersionChecksum {
    /// The sums of a table without files.
    pub fn empty(protocol: Protocol, metadata: Metadata) -> Self {
        VersionChecksum {
            txn_id: None,
            table_size_bytes: 0,
            num_files: 0,
            num_deleted_records_opt: Some(0),
            num_deletion_vectors_opt: Some(0),
            num_metadata: 1,
            num_protocol: 1,
            in_commit_timestamp_opt: None,
            set_transactions: Some(Vec::new()),
            domain_metadata: Some(Vec::new()),
            metadata,
            protocol,
            file_size_histogram: None,
        }
    }

    /// Reads a checksum file; one that is inconsistent is an error.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let bad = |e: &dyn std::fmt::Display| Error::corrupt_file(format!("the version checksum can't be used: {e}"));
        let sum: VersionChecksum = serde_json::from_slice(text).map_err(|e| bad(&e))?;
        if sum.num_metadata != 1 || sum.num_protocol != 1 || sum.num_files < 0 || sum.table_size_bytes < 0 {
            return Err(bad(&"its counts are out of range"));
        }
        Ok(sum)
    }

    /// The text of the file.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::internal(format!("can't write a version checksum: {e}")))
    }

    /// The sums after a commit with these actions; `None` if they are unknown: a removed file
    /// without a size, a file that may have been live already, or sums out of range.
    #[must_use]
    pub fn after(mut self, actions: &[Action]) -> Option<Self> {
        (self.txn_id, self.in_commit_timestamp_opt) = (None, None);
        self = self.with_commit_info(actions);
        for a in actions {
            match a {
                Action::Add(a) => self.add(a, actions)?,
                Action::Remove(r) => self.count(r.size?, r.deletion_vector.as_ref(), -1)?,
                Action::Metadata(m) => self.metadata = m.clone(),
                Action::Protocol(p) => self.protocol = p.clone(),
                Action::Txn(t) => replace(&mut self.set_transactions, |o| o.app_id == t.app_id, Some(t.clone())),
                Action::DomainMetadata(d) => {
                    let new = (!d.removed).then(|| d.clone());
                    replace(&mut self.domain_metadata, |o| o.domain == d.domain, new);
                }
                Action::CommitInfo(_) | Action::Cdc(_) => {}
            }
        }
        (self.num_files >= 0 && self.table_size_bytes >= 0).then_some(self)
    }

    fn add(&mut self, a: &Add, actions: &[Action]) -> Option<()> {
        // A file that is added again without changing rows may be live already (P026).
        if !a.data_change && !actions.iter().any(|r| matches!(r, Action::Remove(_))) {
            return None;
        }
        self.count_in(a)
    }

    /// Counts a live file; `None` if a sum is out of range.
    pub fn count_in(&mut self, a: &Add) -> Option<()> {
        self.count(a.size, a.deletion_vector.as_ref(), 1)
    }

    /// Takes the transaction id and timestamp from these actions' commit info.
    #[must_use]
    pub fn with_commit_info(mut self, actions: &[Action]) -> Self {
        for a in actions {
            if let Action::CommitInfo(i) = a {
                self.txn_id = i.get("txnId").and_then(Value::as_str).map(str::to_owned);
                self.in_commit_timestamp_opt = in_commit_timestamp::stamp_of(i);
            }
        }
        self
    }

    /// `None` if a sum overflows its type: a log can claim any sizes.
    fn count(&mut self, size: i64, vector: Option<&DeletionVector>, sign: i64) -> Option<()> {
        self.num_files = self.num_files.checked_add(sign)?;
        self.table_size_bytes = plus(self.table_size_bytes, sign, size)?;
        if self.file_size_histogram.as_mut().is_some_and(|h| !h.count(size, sign)) {
            self.file_size_histogram = None;
        }
        if let Some(v) = vector {
            self.num_deletion_vectors_opt = self.num_deletion_vectors_opt.and_then(|n| n.checked_add(sign));
            self.num_deleted_records_opt = self.num_deleted_records_opt.and_then(|n| plus(n, sign, v.cardinality));
        }
        Some(())
    }
}

fn plus(sum: i64, sign: i64, value: i64) -> Option<i64> {
    sum.checked_add(sign.checked_mul(value)?)
}

fn replace<T>(list: &mut Option<Vec<T>>, same: impl Fn(&T) -> bool, new: Option<T>) {
    if let Some(list) = list {
        list.retain(|o| !same(o));
        list.extend(new);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn add(path: &str, size: i64, cardinality: Option<i64>) -> Add {
        Add {
            path: path.into(),
            size,
            data_change: true,
            deletion_vector: cardinality.map(|cardinality| DeletionVector {
                cardinality,
                ..DeletionVector::default()
            }),
            ..Add::default()
        }
    }

    #[test]
    fn a_commit_changes_the_sums() {
        // P018
        let mut start = VersionChecksum::empty(Protocol::default(), Metadata::default());
        start.file_size_histogram = Some(FileSizeHistogram {
            sorted_bin_boundaries: vec![0, 10],
            file_counts: vec![0, 0],
            total_bytes: vec![0, 0],
        });
        let domain = |removed| {
            Action::DomainMetadata(DomainMetadata {
                domain: "d".into(),
                configuration: "{}".into(),
                removed,
            })
        };
        let (a, b) = (add("a", 9, None), add("b", 10, Some(3)));
        let sums = start
            .after(&[Action::Add(a.clone()), Action::Add(b), domain(false)])
            .unwrap();
        assert_eq!((sums.num_files, sums.table_size_bytes), (2, 19));
        assert_eq!(
            (sums.num_deletion_vectors_opt, sums.num_deleted_records_opt),
            (Some(1), Some(3))
        );
        assert_eq!(sums.domain_metadata.as_ref().unwrap().len(), 1);
        let two = sums
            .after(&[Action::Remove(a.to_remove(1, true)), domain(true)])
            .unwrap();
        assert_eq!((two.num_files, two.domain_metadata.as_ref().unwrap().len()), (1, 0));
        let bins = two.file_size_histogram.clone().unwrap();
        assert_eq!((bins.file_counts, bins.total_bytes), (vec![0, 1], vec![0, 10]));
        assert_eq!(VersionChecksum::parse(two.to_json().unwrap().as_bytes()).unwrap(), two);
        // A file that is added again may have been live: the sums are unknown.
        let again = Add {
            data_change: false,
            ..add("b", 10, None)
        };
        assert_eq!(two.clone().after(&[Action::Add(again)]), None);
        // Sums of files that claim more bytes than a number can hold are unknown, too.
        assert_eq!(two.after(&[Action::Add(add("c", i64::MAX, None))]), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "{}",
            "[1]",
            r#"{"tableSizeBytes":1,"numFiles":-1,"numMetadata":1,"numProtocol":1}"#,
        ] {
            assert!(VersionChecksum::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
