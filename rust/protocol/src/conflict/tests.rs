//! The conflict rules of section 5.1, a table for each rule and the cells of the matrix.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::actions::{Add, DeletionVector, Remove};
use crate::expr::{Expr, Predicate};
use crate::files::{adds_to_batch, removes_to_batch};
use crate::mapping::Mapping;
use crate::schema::{Field, Primitive, StructType};

fn schema() -> StructType {
    StructType::new(vec![
        Field::new("id", Primitive::Long, true),
        Field::new("day", Primitive::String, true),
    ])
}

fn protocol(features: &[&str]) -> Protocol {
    Protocol {
        min_reader_version: 1,
        min_writer_version: 7,
        reader_features: None,
        writer_features: Some(features.iter().map(|f| (*f).to_owned()).collect()),
    }
}

fn metadata(conf: &[(&str, &str)]) -> Metadata {
    Metadata {
        schema_string: Some(schema().to_json()),
        partition_columns: vec!["day".to_owned()],
        configuration: conf.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..Metadata::default()
    }
}

fn day(d: &str) -> ReadSet {
    ReadSet::Rows(Some(pruner(d)))
}

fn pruner(d: &str) -> Arc<Pruner> {
    let expr = serde_json::json!({"op": "compare", "cmp": "=", "left": {"op": "column", "name": ["day"]}, "right": {"op": "literal", "type": "string", "value": d}}).to_string();
    let predicate = Predicate::bind(&Expr::from_json(&expr).unwrap(), &schema()).unwrap();
    Arc::new(Pruner::new(&predicate, &schema(), &["day".to_owned()], Mapping::None).unwrap())
}

fn values(d: &str) -> crate::actions::PartitionValues {
    [("day".to_owned(), Some(d.to_owned()))].into()
}

/// A winner's facts, owned.
#[derive(Default)]
struct Won {
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    app_ids: Vec<&'static str>,
    domains: Vec<&'static str>,
    adds: Vec<Add>,
    removes: Vec<Remove>,
    blind: bool,
    operation: &'static str,
}

impl Won {
    fn adds(mut self, path: &str, d: &str) -> Self {
        self.adds.push(Add {
            path: path.to_owned(),
            partition_values: values(d),
            data_change: true,
            ..Add::default()
        });
        self
    }

    /// Marks rows of a file in a newer vector.
    fn marks(self, path: &str, d: &str, operation: &'static str) -> Self {
        let mut won = self.adds(path, d).removes(path, d);
        won.operation = operation;
        if let Some(add) = won.adds.last_mut() {
            add.deletion_vector = Some(DeletionVector {
                storage_type: "u".to_owned(),
                cardinality: 2,
                ..DeletionVector::default()
            });
        }
        won
    }

    /// The same as rows that only move.
    fn moved(mut self) -> Self {
        self.adds.iter_mut().for_each(|a| a.data_change = false);
        self.removes.iter_mut().for_each(|r| r.data_change = false);
        self
    }

    fn removes(mut self, path: &str, d: &str) -> Self {
        self.removes.push(Remove {
            path: path.to_owned(),
            partition_values: Some(values(d)),
            data_change: true,
            ..Remove::default()
        });
        self
    }

    fn against(&self, intent: &Intent) -> Result<()> {
        let (protocol, metadata) = (protocol(&["invariants"]), metadata(&[]));
        let before = Before {
            protocol: &protocol,
            metadata: &metadata,
        };
        self.on(Some(before), intent)
    }

    fn on(&self, before: Option<Before<'_>>, intent: &Intent) -> Result<()> {
        let (adds, removes) = (
            adds_to_batch(&self.adds).unwrap(),
            removes_to_batch(&self.removes).unwrap(),
        );
        let winner = Winner {
            commit: OtherCommit {
                version: 7,
                operation: (!self.operation.is_empty()).then(|| self.operation.to_owned()),
                user_name: Some("ann".to_owned()),
                timestamp_ms: Some(1_700_000_000_000),
                ..OtherCommit::default()
            },
            protocol: self.protocol.as_ref(),
            metadata: self.metadata.as_ref(),
            app_ids: &self.app_ids,
            domains: &self.domains,
            adds: &adds,
            removes: &removes,
            blind_append: self.blind,
        };
        check(intent, before, &winner)
    }
}

fn outcome(won: &Won, intent: &Intent) -> Option<Kind> {
    won.against(intent).err().map(|e| e.kind())
}

fn one(s: &str) -> HashSet<String> {
    [s.to_owned()].into()
}

fn blind_insert() -> Intent {
    Intent::default()
}

/// Rewrites the file `a` of the first day after reading that day.
fn update(isolation: Isolation) -> Intent {
    Intent {
        read: day("1"),
        removed: one("a"),
        isolation,
        ..Intent::default()
    }
}

fn compaction() -> Intent {
    Intent {
        removed: one("a"),
        isolation: Isolation::of(None, false),
        read: day("1"),
        ..Intent::default()
    }
}

#[test]
fn rule_1_protocol() {
    let changed = |features: &[&str]| Won {
        protocol: Some(protocol(features)),
        ..Won::default()
    };
    let own = Intent {
        protocol: true,
        ..Intent::default()
    };
    let cases = [
        (changed(&["invariants", "appendOnly"]), blind_insert(), None),
        (changed(&["invariants", "appendOnly"]), own, Some(Kind::ProtocolChanged)),
        (changed(&[]), blind_insert(), Some(Kind::ProtocolChanged)),
        (
            changed(&["invariants", "checkConstraints"]),
            blind_insert(),
            Some(Kind::ProtocolChanged),
        ),
    ];
    for (i, (won, intent, expected)) in cases.iter().enumerate() {
        assert_eq!(outcome(won, intent), *expected, "case {i}");
    }
    let e = changed(&["invariants", "flying"]).against(&blind_insert()).unwrap_err();
    assert!(
        e.message().contains("flying") && e.message().contains("version 7, by ann, at 2023-11-14T22:13:20.000Z"),
        "{e}"
    );
    assert_eq!(e.version(), Some(7));
}

#[test]
fn rule_2_metadata() {
    let set = |conf: &[(&str, &str)]| Won {
        protocol: Some(protocol(&["invariants", "v2Checkpoint"])),
        metadata: Some(metadata(conf)),
        ..Won::default()
    };
    let own = Intent {
        metadata: true,
        ..Intent::default()
    };
    let harmless = [("delta.checkpointPolicy", "v2")];
    let cases = [
        (set(&[]), blind_insert(), None),
        (set(&harmless), blind_insert(), None),
        (set(&harmless), update(Isolation::Serializable), None),
        (set(&harmless), own, Some(Kind::MetadataChanged)),
        (
            set(&[("delta.appendOnly", "true")]),
            blind_insert(),
            Some(Kind::MetadataChanged),
        ),
    ];
    for (i, (won, intent, expected)) in cases.iter().enumerate() {
        assert_eq!(outcome(won, intent), *expected, "case {i}");
    }
}

#[test]
fn a_table_that_came_into_being_is_another_one() {
    let won = Won {
        protocol: Some(protocol(&[])),
        metadata: Some(metadata(&[])),
        ..Won::default()
    };
    let e = won.on(None, &blind_insert()).unwrap_err();
    assert_eq!(e.kind(), Kind::ProtocolChanged);
    assert!(e.message().contains("created the table"), "{e}");
}

#[test]
fn rules_3_and_4_domains_and_applications() {
    let domain = |d: &'static str| Won {
        domains: vec![d],
        ..Won::default()
    };
    let app = |a: &'static str| Won {
        app_ids: vec![a],
        ..Won::default()
    };
    let sets = |d: &str| Intent {
        domains: one(d),
        ..Intent::default()
    };
    let metadata = || Intent {
        metadata: true,
        ..Intent::default()
    };
    let feeds = |a: &str| Intent {
        app_ids: one(a),
        ..Intent::default()
    };
    let cases = [
        (domain("mine"), sets("mine"), Some(Kind::ConcurrentTransaction)),
        (domain("mine"), sets("other"), None),
        (domain("mine"), metadata(), None),
        (domain("delta.rowTracking"), sets("delta.rowTracking"), None),
        (domain("delta.rowTracking"), metadata(), None),
        (domain("delta.clustering"), metadata(), Some(Kind::MetadataChanged)),
        (domain("delta.clustering"), blind_insert(), None),
        (app("feed"), feeds("feed"), Some(Kind::ConcurrentTransaction)),
        (app("feed"), feeds("Feed"), None),
        (app("feed"), blind_insert(), None),
    ];
    for (i, (won, intent, expected)) in cases.iter().enumerate() {
        assert_eq!(outcome(won, intent), *expected, "case {i}");
    }
}

#[test]
fn rules_6_and_7_a_set_of_rows_neither_grows_nor_shrinks() {
    let read = |read| Intent {
        read: ReadSet::Set(read),
        ..Intent::default()
    };
    let all = || read(None);
    let some = |d: &str| {
        read(Some(Selection {
            files: Arc::new(one("a")),
            pruner: pruner(d),
        }))
    };
    let won = Won::default;
    let cases = [
        (won().adds("n", "1"), all(), Some(Kind::ConcurrentAppend)),
        (won().adds("n", "1"), some("1"), Some(Kind::ConcurrentAppend)),
        (won().adds("n", "2"), some("1"), None),
        (won().removes("a", "1"), all(), Some(Kind::ConcurrentDeleteRead)),
        (won().removes("a", "1"), some("1"), Some(Kind::ConcurrentDeleteRead)),
        (won().removes("b", "1"), some("1"), None),
        (
            won().marks("a", "1", "DELETE"),
            some("1"),
            Some(Kind::ConcurrentDeleteRead),
        ),
        (won().marks("b", "2", "DELETE"), some("1"), None),
        (won().removes("a", "1").adds("n", "1").moved(), some("1"), None),
        (won().removes("a", "1").adds("n", "1").moved(), all(), None),
        (
            won().marks("a", "1", "RESTORE"),
            some("1"),
            Some(Kind::ConcurrentAppend),
        ),
    ];
    for (i, (won, intent, expected)) in cases.iter().enumerate() {
        assert_eq!(outcome(won, intent), *expected, "case {i}");
    }
}

#[test]
fn rule_5_backfills_and_others_pass_each_other() {
    let backfill = Won {
        operation: row_tracking::BACKFILL,
        ..Won::default().adds("a", "1")
    };
    let whole_table = Intent {
        read: ReadSet::Table,
        ..Intent::default()
    };
    assert_eq!(outcome(&backfill, &whole_table), None);
    assert_eq!(outcome(&backfill, &update(Isolation::Serializable)), None);
    let own = Intent {
        backfill: true,
        read: ReadSet::Table,
        ..Intent::default()
    };
    assert_eq!(outcome(&Won::default().adds("b", "1"), &own), None);
    // One that removes files is no backfill, whatever it calls itself.
    assert_eq!(
        outcome(&backfill.removes("a", "1"), &whole_table),
        Some(Kind::ConcurrentAppend)
    );
}

#[test]
fn the_matrix_of_winners_and_levels() {
    // Rules 6, 7 and 8: current × winner, as in the protocol's table.
    use Isolation::{Serializable, WriteSerializable};
    let insert = |d: &str| Won {
        blind: true,
        ..Won::default().adds("new", d)
    };
    let sighted = |d: &str| Won::default().adds("new", d);
    let rewrite = |path: &str, d: &str| Won::default().removes(path, d).adds("new", d);
    let with_metadata = Intent {
        metadata: true,
        ..update(WriteSerializable)
    };
    let other_file = |isolation| Intent {
        removed: one("b"),
        ..update(isolation)
    };
    let (append, read, delete) = (
        Some(Kind::ConcurrentAppend),
        Some(Kind::ConcurrentDeleteRead),
        Some(Kind::ConcurrentDeleteDelete),
    );
    let cases = [
        (blind_insert(), insert("1"), None),
        (blind_insert(), rewrite("a", "1"), None),
        (update(Serializable), insert("1"), append),
        (update(Serializable), insert("2"), None),
        (update(Serializable), rewrite("a", "1"), append),
        (update(Serializable), rewrite("z", "2"), None),
        (update(Serializable), Won::default().removes("a", "1"), delete),
        // Rows that were read each for itself, and not changed, may go.
        (update(Serializable), Won::default().removes("z", "1"), None),
        (update(Serializable), rewrite("z", "1").moved(), None),
        (update(Serializable), rewrite("a", "1").moved(), delete),
        // P041 keys aside, a path is one file here: decoded before it is compared.
        (update(Serializable), Won::default().removes("%61", "2"), delete),
        (update(WriteSerializable), insert("1"), None),
        (update(WriteSerializable), sighted("1"), append),
        (update(WriteSerializable), rewrite("a", "1"), append),
        (other_file(WriteSerializable), Won::default().removes("a", "1"), None),
        (with_metadata, insert("1"), append),
        (compaction(), insert("1"), None),
        (compaction(), sighted("1"), None),
        (compaction(), rewrite("a", "1"), delete),
        (compaction(), rewrite("z", "2"), None),
        (
            Intent {
                read: ReadSet::Table,
                ..Intent::default()
            },
            insert("2"),
            append,
        ),
        (
            Intent {
                read: ReadSet::Table,
                ..Intent::default()
            },
            Won::default().removes("z", "2"),
            read,
        ),
    ];
    for (i, (intent, won, expected)) in cases.iter().enumerate() {
        assert_eq!(outcome(won, intent), *expected, "case {i}");
    }
}

#[test]
fn rows_are_marked_beside_others_rows() {
    // P122: row-level concurrency
    let marking = Intent {
        marked: one("a"),
        ..update(Isolation::Serializable)
    };
    let (append, delete) = (Some(Kind::ConcurrentAppend), Some(Kind::ConcurrentDeleteDelete));
    let won = || Won::default();
    let cases = [
        (&marking, won().marks("a", "1", "DELETE"), None),
        (&marking, won().marks("%61", "1", "DELETE"), None),
        (&marking, won().marks("z", "1", "MERGE"), None),
        // New values may meet the condition, and rows that RESTORE brought back too.
        (&marking, won().marks("a", "1", "UPDATE").adds("new", "1"), append),
        (&marking, won().marks("a", "1", "UPDATE").adds("new", "2"), None),
        (&marking, won().marks("z", "1", "RESTORE"), append),
        (&marking, won().removes("a", "1"), delete),
        // A rewrite of the file conflicts with concurrent changes of it.
        (
            &update(Isolation::Serializable),
            won().marks("a", "1", "DELETE"),
            delete,
        ),
    ];
    for (i, (intent, won, expected)) in cases.iter().enumerate() {
        assert_eq!(outcome(won, intent), *expected, "case {i}");
    }
}

#[test]
fn levels_come_from_the_table_and_from_what_is_done() {
    for (property, changes, expected) in [
        (None, true, "Serializable"),
        (Some("Serializable"), true, "Serializable"),
        (Some("WriteSerializable"), true, "WriteSerializable"),
        (Some("odd"), true, "Serializable"),
        (Some("WriteSerializable"), false, "SnapshotIsolation"),
        (None, false, "SnapshotIsolation"),
    ] {
        assert_eq!(Isolation::of(property, changes).as_str(), expected);
    }
}
