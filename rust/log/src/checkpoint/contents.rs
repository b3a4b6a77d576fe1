//! What the top files of a checkpoint hold: its files, the actions of a JSON manifest, and the rows
//! of the rare actions.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Action, DomainMetadata, Format, Metadata, Protocol, SetTransaction, parse_line};
use deltaplane_protocol::files::rows::map_at;
use deltaplane_protocol::files::{adds_to_batch, removes_to_batch};
use deltaplane_protocol::paths::{LOG_DIR, LogFile};
use deltaplane_protocol::segment::CheckpointFiles;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};

use crate::checkpoint::part::{FileActions, Part, Rows, STATE, Texts, no_checkpoint, part_column};
use crate::checkpoint::sidecar_stats::SidecarFile;
use crate::listing::listed;

/// The files of a checkpoint.
pub(crate) struct Contents {
    /// The top files, then the sidecars.
    pub parts: Vec<Part>,
    /// Actions of a JSON manifest.
    manifest: Vec<Action>,
}

impl Contents {
    /// One file without sidecars, which need not be open.
    pub(crate) fn of_part(part: Part) -> Self {
        Contents {
            parts: vec![part],
            manifest: Vec::new(),
        }
    }

    /// Reads the top files' footers and the names of the sidecars, without opening these.
    pub(crate) async fn open(store: &Store, files: &CheckpointFiles) -> Result<Self> {
        let (mut top, sidecars) = Self::open_top(store, files).await?;
        for s in sidecars {
            top.parts.push(Part::new(store, s.key()?, Some(s)));
        }
        Ok(top)
    }

    /// As `open`, with the sidecars as the top files name them.
    pub(crate) async fn open_top(store: &Store, files: &CheckpointFiles) -> Result<(Self, Vec<SidecarFile>)> {
        let (mut parts, mut manifest, mut sidecars) = (Vec::new(), Vec::new(), Vec::new());
        for f in &files.files {
            let shown = listed(f);
            if matches!(f.kind, LogFile::UuidCheckpoint { json: true }) {
                let text = store.read_text(&shown).await?;
                let (actions, named) = parse_manifest(&text).map_err(|e| e.with_path(&shown.key))?;
                manifest.extend(actions);
                sidecars.extend(named);
            } else {
                let part = Part::listed(store, shown);
                part.open().await?;
                parts.push(part);
            }
        }
        let top = Contents { parts, manifest };
        top.check_state(files)?;
        sidecars.extend(top.sidecar_rows().await?);
        Ok((top, sidecars))
    }

    /// Refuses a file without a table's state (P050), judged by footers alone. Where the state is
    /// known already, a foreign file would otherwise pass as a checkpoint without data files.
    fn check_state(&self, files: &CheckpointFiles) -> Result<()> {
        let by_manifest = |a: &Action| match a {
            Action::Protocol(_) => Some("protocol"),
            Action::Metadata(_) => Some("metaData"),
            _ => None,
        };
        for name in STATE {
            let in_parts = self.parts.iter().any(|p| p.may_hold(name));
            if !in_parts && !self.manifest.iter().filter_map(by_manifest).any(|n| n == name) {
                let first = files.files.first().map_or("", |f| &*f.name);
                return Err(no_checkpoint(name).with_path(format!("{LOG_DIR}/{first}")));
            }
        }
        Ok(())
    }

    async fn sidecar_rows(&self) -> Result<Vec<SidecarFile>> {
        let rows: Vec<StructArray> = self.column("sidecar", &[]).try_collect().await?;
        let mut out = Vec::new();
        for s in &rows {
            for index in 0..s.len() {
                let row = Row { columns: s, index };
                out.push(SidecarFile {
                    path: row
                        .text("path")
                        .ok_or_else(|| Error::corrupt_file("the checkpoint names a sidecar without a path"))?,
                    size_in_bytes: row.long("sizeInBytes").unwrap_or(0),
                    modification_time: row.long("modificationTime").unwrap_or(0),
                    tags: row.cell("tags").is_some().then(|| row.map("tags")),
                });
            }
        }
        Ok(out)
    }

    /// The non-null rows of one action column, with all fields except `without`. Not for file
    /// actions, which sidecars may have too.
    fn column(&self, name: &'static str, without: &'static [&'static str]) -> BoxStream<'_, Result<StructArray>> {
        stream::iter(self.parts.iter().filter(|p| p.sidecar.is_none()))
            .then(move |p| part_column(p, name, without, Rows::Few, Texts::Copied))
            .try_flatten()
            .boxed()
    }

    /// Protocol, metadata, transactions and domains.
    pub(crate) async fn state_actions(&self) -> Result<Vec<Action>> {
        let mut out: Vec<Action> = self
            .manifest
            .iter()
            .filter(|a| !matches!(a, Action::Add(_) | Action::Remove(_)))
            .cloned()
            .collect();
        for name in ["protocol", "metaData", "txn", "domainMetadata"] {
            let mut rows = self.column(name, &[]);
            while let Some(batch) = rows.try_next().await? {
                for row in 0..batch.len() {
                    out.push(state_action(name, &batch, row)?);
                }
            }
        }
        Ok(out)
    }

    /// Whether there is a JSON manifest.
    pub(crate) fn has_manifest(&self) -> bool {
        !self.manifest.is_empty()
    }

    /// Whether a JSON manifest has adds.
    pub(crate) fn has_manifest_adds(&self) -> bool {
        self.manifest.iter().any(|a| matches!(a, Action::Add(_)))
    }

    /// File actions of the JSON manifest, if it has some.
    pub(crate) fn manifest_files(&self, what: FileActions) -> Result<Option<RecordBatch>> {
        let batch = match what {
            FileActions::Adds => adds_of(&self.manifest)?,
            FileActions::Removes => removes_to_batch(self.manifest.iter().filter_map(|a| match a {
                Action::Remove(r) => Some(r),
                _ => None,
            }))?,
        };
        Ok((batch.num_rows() > 0).then_some(batch))
    }
}

/// Bytes of the sidecars among these files, by the top files.
pub(crate) fn sidecar_bytes<'a>(parts: impl Iterator<Item = &'a Part>) -> u64 {
    let claimed = parts.filter_map(|p| u64::try_from(p.sidecar.as_ref()?.size_in_bytes).ok());
    claimed.fold(0, u64::saturating_add)
}

/// The adds of the JSON manifest at this key.
pub(crate) async fn manifest_adds(store: &Store, key: &str) -> Result<RecordBatch> {
    let text = store.read_text(&store.head(key).await?).await?;
    let (actions, _) = parse_manifest(&text).map_err(|e| e.with_path(key))?;
    adds_of(&actions)
}

fn adds_of(actions: &[Action]) -> Result<RecordBatch> {
    adds_to_batch(actions.iter().filter_map(|a| match a {
        Action::Add(a) => Some(a),
        _ => None,
    }))
}

fn parse_manifest(text: &[u8]) -> Result<(Vec<Action>, Vec<SidecarFile>)> {
    #[derive(serde::Deserialize)]
    struct Line {
        sidecar: Option<SidecarFile>,
    }
    let bad = |e: &dyn std::fmt::Display| Error::corrupt_file(format!("the checkpoint manifest can't be read ({e})"));
    let text = std::str::from_utf8(text).map_err(|e| bad(&e))?;
    let (mut actions, mut sidecars) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let l: Line = serde_json::from_str(line).map_err(|e| bad(&e))?;
        match l.sidecar {
            Some(s) => sidecars.push(s),
            None => actions.extend(parse_line(line)?),
        }
    }
    Ok((actions, sidecars))
}

/// Reads one row of a struct of simple fields.
struct Row<'a> {
    columns: &'a StructArray,
    index: usize,
}

impl Row<'_> {
    fn cell(&self, name: &str) -> Option<&ArrayRef> {
        self.columns.column_by_name(name).filter(|c| c.is_valid(self.index))
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(self.cell(name)?.as_string_opt::<i32>()?.value(self.index).to_owned())
    }

    fn int(&self, name: &str) -> Option<i32> {
        Some(self.cell(name)?.as_primitive_opt::<Int32Type>()?.value(self.index))
    }

    fn long(&self, name: &str) -> Option<i64> {
        Some(self.cell(name)?.as_primitive_opt::<Int64Type>()?.value(self.index))
    }

    fn texts(&self, name: &str) -> Option<Vec<String>> {
        let items = self.cell(name)?.as_list_opt::<i32>()?.value(self.index);
        let items = items.as_string_opt::<i32>()?;
        Some(items.iter().flatten().map(str::to_owned).collect())
    }

    fn map(&self, name: &str) -> std::collections::BTreeMap<String, Option<String>> {
        self.cell(name)
            .and_then(|c| map_at(c.as_map_opt()?, self.index))
            .unwrap_or_default()
    }
}

fn state_action(name: &str, rows: &StructArray, index: usize) -> Result<Action> {
    let row = Row { columns: rows, index };
    let missing = |field: &str| Error::corrupt_file(format!("the checkpoint has a {name} action without `{field}`"));
    Ok(match name {
        "protocol" => Action::Protocol(Protocol {
            min_reader_version: row.int("minReaderVersion").ok_or_else(|| missing("minReaderVersion"))?,
            min_writer_version: row.int("minWriterVersion").ok_or_else(|| missing("minWriterVersion"))?,
            reader_features: row.texts("readerFeatures"),
            writer_features: row.texts("writerFeatures"),
        }),
        "metaData" => Action::Metadata(Metadata {
            id: row.text("id").unwrap_or_default(),
            name: row.text("name"),
            description: row.text("description"),
            format: row
                .cell("format")
                .and_then(|c| c.as_struct_opt())
                .map_or_else(Format::default, |f| {
                    let f = Row { columns: f, index };
                    Format {
                        provider: f.text("provider").unwrap_or_else(|| "parquet".to_owned()),
                        options: f.map("options"),
                    }
                }),
            schema_string: row.text("schemaString"),
            partition_columns: row.texts("partitionColumns").unwrap_or_default(),
            created_time: row.long("createdTime"),
            configuration: row
                .map("configuration")
                .into_iter()
                .filter_map(|(k, v)| Some((k, v?)))
                .collect(),
        }),
        "txn" => Action::Txn(SetTransaction {
            app_id: row.text("appId").ok_or_else(|| missing("appId"))?,
            version: row.long("version").ok_or_else(|| missing("version"))?,
            last_updated: row.long("lastUpdated"),
        }),
        _ => Action::DomainMetadata(DomainMetadata {
            domain: row.text("domain").ok_or_else(|| missing("domain"))?,
            configuration: row.text("configuration").unwrap_or_default(),
            removed: row
                .cell("removed")
                .and_then(|c| c.as_boolean_opt())
                .is_some_and(|b| b.value(index)),
        }),
    })
}
