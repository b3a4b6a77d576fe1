//! One table feature as data: its name, who must know it, and its answer to each question that the
//! rules ask of every feature. A fact that a feature doesn't give has the default of
//! `TableFeature::new`.

use std::collections::BTreeSet;

use crate::Result;
use crate::actions::{Metadata, Protocol};
use crate::features::hooks::attempt::Attempt;
use crate::features::hooks::example::Example;
use crate::features::hooks::field_key::FieldKey;
use crate::features::hooks::own_domain::OwnDomain;
use crate::features::hooks::removal::Removable;
use crate::features::hooks::row_rule::RowRules;
use crate::features::hooks::safe_property::SafeProperty;
use crate::features::{FileForm, View};

/// Who must know a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Writers only.
    Writer,
    /// Readers and writers.
    ReaderWriter,
}

/// Whether this build can do something with a table; if not, what in the table is in the way.
pub type Refusal = Option<String>;

/// A step of an attempt of a commit.
pub(in crate::features) type Finish = fn(&mut Attempt<'_>) -> Result<()>;

/// One table feature.
pub struct TableFeature {
    /// Its name in `readerFeatures` and `writerFeatures`.
    pub name: &'static str,
    /// Who must know it.
    pub kind: Kind,
    /// Lowest legacy (reader, writer) versions that imply it.
    pub legacy: Option<(i32, i32)>,
    /// Features it depends on.
    pub requires: &'static [&'static str],
    /// Whether the table's metadata asks for it (P093).
    pub wanted: fn(View<'_>) -> bool,
    /// Why this build can't read such a table, if it can't.
    pub refuse_read: fn(View<'_>) -> Refusal,
    /// Why this build can't append to or overwrite such a table, if it can't.
    pub refuse_write: fn(View<'_>) -> Refusal,
    /// Why a table can't be written whose protocol supports these features, of which each one alone
    /// would do.
    pub(in crate::features) refuse_beside: fn(View<'_>, &BTreeSet<String>) -> Refusal,
    /// Whether only tables that were opened through a catalog may have it.
    pub(in crate::features) needs_catalog: bool,
    /// Other names that users have for it, in any case.
    pub(in crate::features) aliases: &'static [&'static str],
    /// Whether new tables that list features list it too, as those of delta-spark do (P095).
    pub(in crate::features) in_new_tables: bool,
    /// Whether a commit of metadata alone may enable it on a table that has files: they satisfy it
    /// as they are, or by what the log adds to them beforehand.
    pub(in crate::features) may_begin: bool,
    /// Whether it may appear in the protocol while a transaction runs: supporting it asks nothing
    /// of files.
    pub(in crate::features) may_appear: bool,
    /// Properties that may be set while a transaction runs.
    pub(in crate::features) safe_properties: &'static [SafeProperty],
    /// Refuses a change of a table's metadata; without a view of the table before, a new table's
    /// metadata.
    pub(in crate::features) check_change: fn(Option<View<'_>>, View<'_>) -> Result<()>,
    /// How it is dropped; a feature without this can't be.
    pub(in crate::features) removable: Option<Removable>,
    /// The domain in which it has its records.
    pub(in crate::features) domain: Option<OwnDomain>,
    /// What each attempt of a commit computes for it, in the order of the list of features.
    pub(in crate::features) finish: Finish,
    /// What is checked of an attempt's actions once every feature has finished them.
    pub(in crate::features) check_actions: Finish,
    /// What it changes in the form of new data files.
    pub(in crate::features) file_form: fn(&Protocol, View<'_>, &mut FileForm),
    /// The rules for rows that it adds.
    pub(in crate::features) row_rules: fn(View<'_>, &mut RowRules) -> Result<()>,
    /// Properties about one log, such as its versions, that a clone's log doesn't have.
    pub(in crate::features) log_properties: &'static [&'static str],
    /// Properties that stay with a table that is replaced as a whole.
    pub(in crate::features) lasting_properties: &'static [&'static str],
    /// What never goes back where a table is restored: from the table now and then, into the new
    /// metadata.
    pub(in crate::features) restore: fn(View<'_>, View<'_>, &mut Metadata),
    /// Keys of a field's metadata that Arrow data may set.
    pub(in crate::features) field_keys: &'static [FieldKey],
    /// How keys of a field's metadata begin that a table records of its own files: other tables
    /// don't get them.
    pub(in crate::features) own_field_keys: &'static [&'static str],
    /// What makes a table use it.
    pub(in crate::features) example: fn(&mut Example),
}

pub(in crate::features) fn never(_: View<'_>) -> bool {
    false
}

fn fine(_: View<'_>) -> Refusal {
    None
}

impl TableFeature {
    /// A feature that this build reads and writes without doing anything for it.
    pub(in crate::features) const fn new(name: &'static str, kind: Kind) -> Self {
        TableFeature {
            name,
            kind,
            legacy: None,
            requires: &[],
            wanted: never,
            refuse_read: fine,
            refuse_write: fine,
            refuse_beside: |_, _| None,
            needs_catalog: false,
            aliases: &[],
            in_new_tables: false,
            may_begin: false,
            may_appear: false,
            safe_properties: &[],
            check_change: |_, _| Ok(()),
            removable: None,
            domain: None,
            finish: |_| Ok(()),
            check_actions: |_| Ok(()),
            file_form: |_, _, _| {},
            row_rules: |_, _| Ok(()),
            log_properties: &[],
            lasting_properties: &[],
            restore: |_, _, _| {},
            field_keys: &[],
            own_field_keys: &[],
            example: |_| {},
        }
    }
}
