//! Commits a planned write: the files that it adds and those that they replace, and what follows if
//! another writer created the table first.

use std::collections::HashSet;
use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_protocol::expr::{Comparison, Expr, Predicate};
use deltaplane_protocol::features::identity_columns;
use deltaplane_protocol::files::adds_to_batch;
use deltaplane_protocol::files::rows::{FileRows, num_records};
use deltaplane_protocol::prune::Pruner;
use futures::TryStreamExt;

use super::{PlannedWrite, Replace, WritePlan, plan_write};
use crate::transaction::dry_run::{DryRun, dry_run};
use crate::transaction::{Committed, Staged, commit};
use crate::write::operation;
use crate::write::operation::Gone;
use crate::{PlanColumns, Snapshot, now_ms};

impl PlannedWrite {
    /// Commits these files.
    ///
    /// If another writer creates the table first, the write is planned again on that table: it
    /// continues if the files still fit, otherwise it is refused. `TableAlreadyExists`: the mode
    /// was error or ignore.
    pub async fn commit(&self, adds: Vec<Add>) -> Result<Committed> {
        match self.commit_once(&adds).await {
            Err(lost) if self.base.is_none() && lost.kind().is_conflict() => self.follow_creator(&adds, lost).await,
            done => done,
        }
    }

    /// Reports the commit of these files without making it.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), without conflicts with other writers.
    pub async fn dry_run(&self, adds: Vec<Add>) -> Result<DryRun> {
        let staged = self.stage(adds).await;
        let staged = staged.map_err(|e| e.with_table(self.store.location().as_str()))?;
        dry_run(&self.store, self.base.as_ref(), &staged).await
    }

    async fn commit_once(&self, adds: &[Add]) -> Result<Committed> {
        let staged = self
            .stage(adds.to_vec())
            .await
            .map_err(|e| e.with_table(self.store.location().as_str()))?;
        let base = self.newest.get().or(self.base.as_ref());
        commit(&self.store, base.cloned(), &staged).await
    }

    async fn follow_creator(&self, adds: &[Add], lost: Error) -> Result<Committed> {
        let schema = self.schema.as_ref().clone();
        match plan_write(&self.store, schema, self.request.clone()).await? {
            WritePlan::Go(p) if p.schema == self.schema && p.partition_columns == self.partition_columns => {
                p.commit_once(adds).await
            }
            WritePlan::Go(_) => Err(lost),
            WritePlan::Skip(_) => Err(Error::new(
                Kind::TableAlreadyExists,
                "another writer created the table, or wrote for the same application, first: nothing was committed",
            )
            .with_table(self.store.location().as_str())),
        }
    }

    async fn stage(&self, mut adds: Vec<Add>) -> Result<Staged> {
        let now = now_ms();
        let marks = identity_columns::take_marks(&mut adds);
        let changes = self.request.data_change;
        for add in &mut adds {
            add.data_change = changes;
        }
        let (gone, read) = match (&self.base, &self.replace) {
            (Some(base), Replace::All) => (removes(base, None, now, changes).await?, ReadSet::Table),
            (Some(base), Replace::Partitions(p)) => {
                let pruner = Arc::new(Pruner::new(
                    p,
                    base.schema(),
                    base.state().partition_columns(),
                    base.state().mapping(),
                )?);
                check_inside(
                    &adds,
                    &pruner,
                    self.request.predicate_sql.as_deref().unwrap_or("the predicate"),
                )?;
                (
                    removes(base, Some(pruner.clone()), now, changes).await?,
                    ReadSet::Rows(Some(pruner)),
                )
            }
            (None, Replace::Partitions(p)) => {
                let pruner = Pruner::new(p, &self.schema, &self.partition_columns, self.mapping)?;
                let said = self.request.predicate_sql.as_deref().unwrap_or("the predicate");
                check_inside(&adds, &pruner, said)?;
                (Gone::default(), ReadSet::Nothing)
            }
            (Some(base), Replace::Written) if !adds.is_empty() => {
                let pruner = Arc::new(written_partitions(base, &adds)?);
                let gone = removes(base, Some(pruner.clone()), now, changes).await?;
                (gone, ReadSet::Rows(Some(pruner)))
            }
            _ => (Gone::default(), ReadSet::Nothing),
        };
        let read = match read {
            // A whole table with its files is the largest read set.
            ReadSet::Nothing | ReadSet::Rows(_) if self.request.read_version.is_some() => ReadSet::Set(None),
            read => read,
        };
        let before = self.base.as_ref().map(|b| b.state().metadata());
        let metadata = self.metadata.as_ref().or(before);
        let mut staged = self.request.commit.staged(now);
        if !marks.is_empty() && self.metadata.is_none() {
            let tags = identity_columns::commit_tags();
            staged.extra_info.insert("tags".to_owned(), tags);
        }
        Ok(Staged {
            operation: operation::operation(&self.request, metadata, &self.partition_columns, &adds, &gone),
            metadata: self.metadata_after(&marks),
            protocol: self.protocol.clone(),
            domains: self.domains.clone(),
            adds,
            removes: gone.files,
            read,
            ..staged
        })
    }
}

async fn removes(base: &Snapshot, pruner: Option<Arc<Pruner>>, now: i64, changes: bool) -> Result<Gone> {
    let mut gone = Gone {
        files: Vec::new(),
        rows: Some(0),
    };
    let mut batches = base.plan(pruner, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let add = rows.add(row)?;
            gone.rows = gone.rows.zip(live_rows(&add)).map(|(a, b)| a.saturating_add(b));
            gone.files.push(add.to_remove(now, changes));
        }
    }
    Ok(gone)
}

/// Number of a file's rows that aren't deleted.
fn live_rows(add: &Add) -> Option<i64> {
    let deleted = add.deletion_vector.as_ref().map_or(0, |v| v.cardinality);
    Some(num_records(add.stats.as_deref()?)?.saturating_sub(deleted))
}

/// A pruner that selects the partitions of these files.
fn written_partitions(base: &Snapshot, adds: &[Add]) -> Result<Pruner> {
    let state = base.state();
    let mut partitions: Vec<Expr> = Vec::new();
    let mut seen = HashSet::new();
    for add in adds {
        if !seen.insert(&add.partition_values) {
            continue;
        }
        let mut parts = Vec::new();
        for column in state.partition_columns() {
            let field = state.schema().field_ignore_case(column);
            let physical = field.map_or(column.as_str(), |f| state.mapping().physical_name(f));
            let value = add.partition_values.get(physical).cloned().flatten();
            parts.push(Expr::Compare {
                cmp: Comparison::NullSafeEq,
                left: Box::new(Expr::Column {
                    name: vec![column.clone()],
                }),
                right: Box::new(Expr::Literal {
                    type_name: if value.is_some() { "text" } else { "void" }.to_owned(),
                    value,
                }),
            });
        }
        partitions.push(Expr::And { args: parts });
    }
    let chosen = Predicate::bind(&Expr::Or { args: partitions }, base.schema())?;
    Pruner::new(&chosen, base.schema(), state.partition_columns(), state.mapping())
}

/// Refuses files with rows that the predicate of an overwrite doesn't select.
fn check_inside(adds: &[Add], pruner: &Pruner, sql: &str) -> Result<()> {
    let batch = adds_to_batch(adds)?;
    let keep = pruner.keep(&batch)?;
    let outside: Vec<_> = adds
        .iter()
        .zip(keep.values())
        .filter_map(|(add, inside)| (!inside).then_some(add))
        .collect();
    let Some(first) = outside.first() else { return Ok(()) };
    let rows = outside.iter().map(|add| num_records(add.stats.as_deref()?));
    let rows = rows.sum::<Option<i64>>().map(|n| format!(" (rows: {n})"));
    Err(Error::invalid_argument(format!(
        "the data has rows that `{sql}` doesn't select{}{}: nothing was committed; filter the data, or widen the \
         predicate",
        partition_said(first),
        rows.unwrap_or_default()
    )))
}

/// The partition of a file, for an error.
fn partition_said(add: &Add) -> String {
    let values = add.partition_values.iter().map(|(column, value)| match value {
        Some(value) => format!("{column} = '{value}'"),
        None => format!("{column} is null"),
    });
    match values.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        all => format!(", where {}", all.join(" and ")),
    }
}
