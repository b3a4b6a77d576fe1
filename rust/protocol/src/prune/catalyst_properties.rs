//! Properties: a translation of Spark's filter is TRUE for each row for which the filter is, and
//! means the same where all of the filter is understood. Rows and filters are the model's.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::model::{clock, leaves, predicate, row, truth};
use crate::expr::catalyst::translate;
use crate::expr::text::{format_timestamp, parse_instant};
use crate::expr::{Comparison, Expr};
use crate::schema::Primitive;

/// Session zones, with the seconds by which Spark shifts a timestamp when it prints it.
const ZONES: [(&str, i64); 4] = [("UTC", 0), ("Etc/UTC", 0), ("+02:00", 7200), ("Europe/Zurich", 3600)];

/// A filter as Spark prints it.
struct Printer {
    shift_s: i64,
    is_zone_known: bool,
    nodes: Vec<Json>,
    /// Whether each node is one that the translation understands.
    is_understood: bool,
}

impl Printer {
    fn print(e: &Expr, (zone, shift_s): (&str, i64)) -> (String, bool) {
        let mut printer = Printer {
            shift_s,
            is_zone_known: zone != "Europe/Zurich",
            nodes: Vec::new(),
            is_understood: true,
        };
        printer.condition(e);
        (Json::from(printer.nodes).to_string(), printer.is_understood)
    }

    fn node(&mut self, class: &str, children: usize, fields: Json) {
        let mut node = fields;
        node["class"] = json!(format!("org.apache.spark.sql.catalyst.expressions.{class}"));
        node["num-children"] = json!(children);
        self.nodes.push(node);
    }

    fn condition(&mut self, e: &Expr) {
        match e {
            Expr::And { args } | Expr::Or { args } => {
                let class = if matches!(e, Expr::And { .. }) { "And" } else { "Or" };
                let (first, rest) = args.split_first().unwrap();
                (0..rest.len()).for_each(|_| self.node(class, 2, json!({})));
                self.condition(first);
                rest.iter().for_each(|arg| self.condition(arg));
            }
            Expr::Not { arg } => {
                self.node("Not", 1, json!({}));
                self.condition(arg);
            }
            Expr::Compare { cmp, left, right } => {
                let class = match cmp {
                    Comparison::Eq | Comparison::Ne => "EqualTo",
                    Comparison::NullSafeEq => "EqualNullSafe",
                    Comparison::Lt => "LessThan",
                    Comparison::Le => "LessThanOrEqual",
                    Comparison::Gt => "GreaterThan",
                    Comparison::Ge => "GreaterThanOrEqual",
                };
                if *cmp == Comparison::Ne {
                    self.node("Not", 1, json!({}));
                }
                self.node(class, 2, json!({}));
                self.side(left, right);
                self.side(right, left);
            }
            Expr::IsNull { arg } | Expr::IsNotNull { arg } => {
                let class = if matches!(e, Expr::IsNull { .. }) {
                    "IsNull"
                } else {
                    "IsNotNull"
                };
                self.node(class, 1, json!({}));
                self.value(arg);
            }
            Expr::In { arg, list } => {
                self.node("In", 1 + list.len(), json!({}));
                self.value(arg);
                list.iter().for_each(|item| self.value(item));
            }
            Expr::StartsWith { arg, prefix } => {
                self.node("StartsWith", 2, json!({}));
                self.value(arg);
                self.node("Literal", 0, json!({"value": prefix, "dataType": "string"}));
            }
            Expr::Like { arg, pattern, .. } => {
                self.is_understood = false;
                self.node("Like", 2, json!({}));
                self.value(arg);
                self.node("Literal", 0, json!({"value": pattern, "dataType": "string"}));
            }
            boolean => self.value(boolean),
        }
    }

    /// One side of a comparison, under the cast that Spark adds to a column of a narrower type.
    fn side(&mut self, e: &Expr, other: &Expr) {
        if let (Expr::Column { name }, Expr::Literal { type_name, .. }) = (e, other) {
            let wider = match (column_type(name), type_name.as_str()) {
                (Primitive::Byte | Primitive::Integer, "long") => Some("long"),
                (Primitive::Float, "double") => Some("double"),
                _ => None,
            };
            if let Some(wider) = wider {
                self.node("Cast", 1, json!({"dataType": wider}));
            }
        }
        self.value(e);
    }

    fn value(&mut self, e: &Expr) {
        match e {
            Expr::Column { name } => match name.as_slice() {
                [name] => self.attribute(name, json!(column_type(std::slice::from_ref(name)).to_string())),
                [parent, name] => {
                    self.node("GetStructField", 1, json!({"ordinal": 0, "name": "an alias"}));
                    let field = json!({"name": name, "type": "long", "nullable": true, "metadata": {}});
                    self.attribute(parent, json!({"type": "struct", "fields": [field]}));
                }
                _ => panic!("{name:?}"),
            },
            Expr::Literal { value, type_name } => {
                let value = value.as_ref().map(|text| self.literal(text, type_name));
                self.node("Literal", 0, json!({"value": value, "dataType": type_name}));
            }
            other => panic!("{other:?}"),
        }
    }

    fn attribute(&mut self, name: &str, data_type: Json) {
        self.node("AttributeReference", 0, json!({"name": name, "dataType": data_type}));
    }

    fn literal(&mut self, text: &str, type_name: &str) -> String {
        match type_name {
            "float" | "double" => text.replace("inf", "Infinity"),
            "timestamp_ntz" => parse_instant(text).unwrap().to_string(),
            "timestamp" => {
                self.is_understood &= self.is_zone_known;
                let micros = parse_instant(text).unwrap() + self.shift_s * 1_000_000;
                // Spark's own print of a year beyond 9999 has a sign.
                self.is_understood &= !format_timestamp(micros, ' ').0.starts_with("10000");
                clock(micros)
            }
            "binary" => {
                self.is_understood = false;
                text.to_owned()
            }
            _ => text.to_owned(),
        }
    }
}

fn column_type(name: &[String]) -> Primitive {
    let is_named =
        |path: &[&str]| path.len() == name.len() && path.iter().zip(name).all(|(a, b)| a.eq_ignore_ascii_case(b));
    leaves().into_iter().find(|(path, _)| is_named(path)).unwrap().1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// P164: a filter that Spark hands over may only keep more files than it matches.
    #[test]
    fn translated_filter_is_true_wherever_sparks_is(
        e in predicate(),
        rows in prop::collection::vec(row(), 1..8),
        zone in prop::sample::select(ZONES.to_vec()),
    ) {
        let (text, is_understood) = Printer::print(&e, zone);
        let translated = translate(&text, zone.0).unwrap();
        prop_assert!(translated.is_some() || !is_understood, "{}", text);
        let Some(translated) = translated else { return Ok(()) };
        for row in &rows {
            let (wanted, actual) = (truth(&e, row), truth(&translated, row));
            prop_assert!(wanted != Some(true) || actual == Some(true), "{:?} of {:?}", translated, row);
            prop_assert!(!is_understood || wanted == actual, "{:?} of {:?}", translated, row);
        }
    }
}

#[test]
fn list_with_a_value_that_is_not_understood_is_left_out() {
    let (zone, moment) = (ZONES[3], |text: &str| Expr::Literal {
        value: Some(text.to_owned()),
        type_name: "timestamp".to_owned(),
    });
    let list = vec![
        moment("2020-01-01 00:00:00.000000"),
        moment("2020-01-02 00:00:00.000000"),
    ];
    let arg = Box::new(Expr::Column {
        name: vec!["ts".to_owned()],
    });
    let (text, is_understood) = Printer::print(&Expr::In { arg, list }, zone);
    assert!(!is_understood);
    assert_eq!(translate(&text, zone.0).unwrap(), None);
    assert!(translate(&text, "+01:00").unwrap().is_some());
}
