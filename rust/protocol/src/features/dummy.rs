//! A table feature of the tests, which is this file and its lines in the list of features: every
//! rule must take it.

use serde_json::json;

use super::hooks::field_key::{FieldKey, Form};
use super::hooks::own_domain::OwnDomain;
use super::hooks::removal::{FeatureUsage, Removable, Removal};
use super::hooks::safe_property::{safe, switched_on};
use super::row_rule::RowCheck;
use super::{Kind, TableFeature, domain_metadata};
use crate::Error;
use crate::actions::{Action, DomainMetadata};
use crate::schema::Primitive;

const NAME: &str = "dummy";
const ENABLED: &str = "delta.enableDummy";
const SINCE: &str = "delta.dummySince";
const KEY: &str = "delta.dummy.key";
const OWN_KEY: &str = "delta.dummy.own";
const DOMAIN: &str = "delta.dummy";

pub(super) static FEATURE: TableFeature = TableFeature {
    requires: &[domain_metadata::FEATURE.name],
    aliases: &["pretended"],
    wanted: |v| v.is_on(ENABLED),
    refuse_read: |v| {
        v.is_on("delta.dummyUnreadable")
            .then(|| "which is unreadable".to_owned())
    },
    refuse_write: |v| {
        v.is_on("delta.dummyUnwritable")
            .then(|| "which is unwritable".to_owned())
    },
    refuse_beside: |_, names| {
        (names.contains(NAME) && names.contains("appendOnly")).then(|| "which isn't append-only".to_owned())
    },
    may_begin: true,
    may_appear: true,
    safe_properties: &[safe(ENABLED, switched_on)],
    check_change: |_, after| match after.is_on(ENABLED) && after.is_on("delta.dummyClash") {
        true => Err(Error::invalid_argument("the dummy clashes")),
        false => Ok(()),
    },
    removable: Some(Removable {
        usage: FeatureUsage::RowIds,
        uses: Some(|a| matches!(a, Action::Add(_))),
        ..Removable::new(Removal::Properties(&[ENABLED, SINCE]))
    }),
    domain: Some(OwnDomain {
        name: DOMAIN,
        cloned: |source, _| Ok(source),
        check_drop: |d| match d.configuration.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid_argument("the dummy's domain is in use")),
        },
    }),
    finish: |attempt| {
        if attempt.supports(FEATURE.name) {
            attempt.set_domain(DomainMetadata {
                domain: DOMAIN.to_owned(),
                configuration: String::new(),
                removed: false,
            });
        }
        Ok(())
    },
    check_actions: |attempt| {
        if attempt.supports(FEATURE.name)
            && let Some(info) = attempt.info()
        {
            info.insert("dummy".to_owned(), json!(true));
        }
        Ok(())
    },
    file_form: |_, v, form| form.typed_variants |= v.is_on(ENABLED),
    row_rules: |v, rules| {
        if v.is_on(ENABLED) {
            rules.checks.push(RowCheck {
                name: NAME.to_owned(),
                sql: "a > 0".to_owned(),
            });
        }
        Ok(())
    },
    log_properties: &[SINCE],
    lasting_properties: &[SINCE],
    restore: |now, _, metadata| {
        if let Some(since) = now.metadata.configuration.get(SINCE) {
            metadata.configuration.insert(SINCE.to_owned(), since.clone());
        }
    },
    field_keys: &[FieldKey {
        name: KEY,
        form: Form::Number,
    }],
    own_field_keys: &[OWN_KEY],
    example: |e| {
        e.column("pretended", Primitive::Long, &[(KEY, json!(1))]);
        e.property(ENABLED, "true");
    },
    ..TableFeature::new(NAME, Kind::ReaderWriter)
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;
    use crate::actions::{CommitInfo, Metadata, Protocol};
    use crate::features::attempt::Base;
    use crate::features::tests::{protocol, with};
    use crate::features::{
        Directives, FileForm, View, arrow_metadata, check_change, check_read, check_write, cloned, file_form, finish,
        known, metadata_clash, outlives_replacement, protocol_clash, protocol_for, reads, restored, row_rules,
        without_feature, writes,
    };
    use crate::schema::{Field, StructType};

    fn fields() -> Vec<Field> {
        vec![Field::new("a", Primitive::Long, true)]
    }

    fn supporting() -> Protocol {
        protocol(3, 7, Some(&[NAME]), Some(&["domainMetadata", NAME]))
    }

    fn on<T>(more: &[&str], f: impl FnOnce(View<'_>) -> T) -> T {
        let conf: Vec<(&str, &str)> = [ENABLED].iter().chain(more).map(|k| (*k, "true")).collect();
        with(fields(), &conf, f)
    }

    fn domain(configuration: &str) -> DomainMetadata {
        DomainMetadata {
            domain: DOMAIN.to_owned(),
            configuration: configuration.to_owned(),
            removed: false,
        }
    }

    fn message<T: std::fmt::Debug>(result: crate::Result<T>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn tables_ask_for_it_and_readers_and_writers_are_refused() {
        let p = on(&[], |v| protocol_for(None, v)).unwrap();
        assert!(p.reader_features.unwrap().contains(&NAME.to_owned()));
        assert!(p.writer_features.unwrap().contains(&"domainMetadata".to_owned()));
        on(&[], |v| check_write(&supporting(), v)).unwrap();
        let unreadable = on(&["delta.dummyUnreadable"], |v| check_read(&supporting(), v));
        assert!(message(unreadable).contains("dummy, which is unreadable"));
        let unwritable = on(&["delta.dummyUnwritable"], |v| check_write(&supporting(), v));
        assert!(message(unwritable).contains("dummy, which is unwritable"));
        let both = protocol(3, 7, Some(&[NAME]), Some(&["appendOnly", "domainMetadata", NAME]));
        assert!(message(on(&[], |v| check_write(&both, v))).contains("isn't append-only"));
        assert!(reads(&FEATURE) && writes(&FEATURE));
    }

    #[test]
    fn users_name_it_in_properties() {
        assert_eq!(known("Pretended").unwrap().name, NAME);
        let mut properties = BTreeMap::from([("delta.feature.DUMMY".to_owned(), "supported".to_owned())]);
        assert!(Directives::take(&mut properties).unwrap().features.contains(NAME));
    }

    #[test]
    fn it_begins_on_a_table_unless_something_clashes() {
        with(fields(), &[], |before| {
            on(&[], |after| check_change(before, after)).unwrap();
            let clash = on(&["delta.dummyClash"], |after| check_change(before, after));
            assert!(message(clash).contains("the dummy clashes"));
        });
        assert!(outlives_replacement(SINCE, "1"));
    }

    #[test]
    fn it_may_appear_while_a_transaction_runs() {
        let before = protocol(3, 7, Some(&[]), Some(&["domainMetadata"]));
        assert_eq!(protocol_clash(&before, &supporting()), None);
        let table = |conf: &[(&str, &str)]| {
            with(fields(), conf, |v| Metadata {
                schema_string: Some(v.schema.to_json()),
                ..v.metadata.clone()
            })
        };
        let (off, on) = (table(&[]), table(&[(ENABLED, "true")]));
        assert_eq!(metadata_clash(&off, &on, &supporting()).unwrap(), None);
        assert!(metadata_clash(&off, &on, &before).unwrap().is_some());
        assert!(
            metadata_clash(&off, &table(&[(ENABLED, "no")]), &supporting())
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn it_is_dropped_with_its_properties_and_its_domain() {
        let conf = [(ENABLED, "true"), (SINCE, "3"), ("k", "v")];
        let drop = |configuration: &str| {
            with(fields(), &conf, |v| {
                without_feature(&supporting(), v, &[domain(configuration)], NAME)
            })
        };
        let dropped = drop("").unwrap();
        assert_eq!(dropped.metadata.configuration.keys().collect::<Vec<_>>(), ["k"]);
        assert!(dropped.domains.len() == 1 && dropped.domains.iter().all(|d| d.removed));
        assert_eq!(dropped.usage, FeatureUsage::RowIds);
        assert!(dropped.uses.is_some());
        assert!(message(drop("something")).contains("the dummy's domain is in use"));
    }

    #[test]
    fn each_commit_finishes_and_checks_it() {
        let (metadata, domains) = (Metadata::default(), BTreeMap::new());
        let finished = |protocol: &Protocol| {
            let base = Base {
                version: 1,
                time_ms: None,
                protocol,
                metadata: &metadata,
                domains: &domains,
                keeps_files: true,
            };
            finish(Some(base), 0, vec![Action::CommitInfo(CommitInfo::default())]).unwrap()
        };
        let actions = finished(&supporting());
        assert!(
            actions
                .iter()
                .any(|a| matches!(a, Action::DomainMetadata(d) if d.domain == DOMAIN))
        );
        assert!(
            actions
                .iter()
                .any(|a| matches!(a, Action::CommitInfo(i) if i.contains_key(NAME)))
        );
        assert_eq!(finished(&protocol(1, 2, None, None)).len(), 1);
    }

    #[test]
    fn files_and_rows_follow_it() {
        let form = on(&[], |v| file_form(&supporting(), v.metadata, v.schema));
        let expected = FileForm {
            partition_columns: false,
            typed_variants: true,
        };
        assert_eq!(form, expected);
        let rules = on(&[], row_rules).unwrap();
        assert_eq!(rules.checks.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), [NAME]);
    }

    #[test]
    fn clones_and_restored_tables_follow_it() {
        let source = with(fields(), &[(ENABLED, "true"), (SINCE, "3")], |v| v.metadata.clone());
        let clone = cloned::metadata(&source, None, &BTreeMap::new(), "id".to_owned(), 0).unwrap();
        assert_eq!(clone.configuration.keys().collect::<Vec<_>>(), [ENABLED]);
        assert_eq!(cloned::domains(&[domain("x")], &[]).unwrap(), [domain("x")]);
        let clash = on(&["delta.dummyClash"], |v| {
            cloned::protocol(&supporting(), None, v.metadata, v.schema, Directives::default())
        });
        assert!(message(clash).contains("the dummy clashes"));
        let back = with(fields(), &[(SINCE, "3")], |now| {
            with(fields(), &[], |then| restored::metadata(now, then))
        });
        assert_eq!(back.configuration.get(SINCE).map(String::as_str), Some("3"));
    }

    #[test]
    fn arrow_data_sets_its_keys_but_not_its_records() {
        let mut field = Field::new("a", Primitive::Long, true);
        field.metadata.insert(KEY.to_owned(), json!("7"));
        field.metadata.insert(OWN_KEY.to_owned(), json!("1"));
        let taken = arrow_metadata::from_arrow_text(&StructType::new(vec![field])).unwrap();
        let metadata: Vec<_> = taken.fields().iter().flat_map(|f| &f.metadata).collect();
        assert_eq!(metadata, [(&KEY.to_owned(), &json!(7))]);
    }
}
