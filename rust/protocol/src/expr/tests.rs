//! Binding: what is converted, what is refused and in which words; Spark's own filters as they
//! come.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};

use super::catalyst::translate;
use super::{Expr, Predicate};
use crate::Kind;
use crate::schema::{ArrayType, DataType, Field, Primitive, StructType};

fn schema() -> StructType {
    let list = ArrayType {
        element: Primitive::Long.into(),
        contains_null: true,
    };
    let mut collated = Field::new("collated", Primitive::String, true);
    collated
        .metadata
        .insert("__COLLATIONS".into(), serde_json::json!({"collated": "icu.UNICODE_CI"}));
    StructType::new(vec![
        Field::new("Id", Primitive::Integer, true),
        Field::new("name", Primitive::String, true),
        Field::new(
            "price",
            Primitive::Decimal {
                precision: 10,
                scale: 2,
            },
            true,
        ),
        Field::new(
            "wide",
            Primitive::Decimal {
                precision: 30,
                scale: 2,
            },
            true,
        ),
        Field::new("day", Primitive::Date, true),
        Field::new("list", DataType::Array(Box::new(list)), true),
        Field::new("a.b", Primitive::Long, true),
        collated,
    ])
}

fn compare(column: &str, cmp: &str, value: &str, ty: &str) -> String {
    format!(
        r#"{{"op":"compare","cmp":"{cmp}","left":{{"op":"column","name":["{column}"]}},"right":{{"op":"literal","value":"{value}","type":"{ty}"}}}}"#
    )
}

fn bind(json: &str) -> crate::Result<Predicate> {
    Predicate::bind(&Expr::from_json(json)?, &schema())
}

fn refusal(json: &str) -> (Kind, String) {
    let e = bind(json).unwrap_err();
    (e.kind(), e.message().to_owned())
}

#[test]
fn unknown_columns_get_the_nearest_names() {
    let (kind, message) = refusal(&compare("pirce", "=", "1", "integer"));
    assert!(
        kind == Kind::InvalidArgument && message.contains("`pirce`") && message.contains("`price`"),
        "{message}"
    );
    let (_, message) = refusal(r#"{"op":"is_null","arg":{"op":"column","name":["a","b"]}}"#);
    assert!(message.contains("backticks"), "{message}");
}

#[test]
fn refusals_say_what_to_write() {
    for (json, kind, word) in [
        (
            compare("name", "=", "5", "integer"),
            Kind::UnsupportedExpression,
            "quotes",
        ),
        (compare("Id", "=", "x", "string"), Kind::InvalidArgument, "'x'"),
        (compare("Id", "=", "1.0", "string"), Kind::InvalidArgument, "long"),
        (
            compare("wide", "=", "1.00", "string"),
            Kind::UnsupportedExpression,
            "wide",
        ),
        (compare("day", "=", "soon", "string"), Kind::InvalidArgument, "date"),
        (compare("list", "=", "1", "integer"), Kind::InvalidArgument, "list"),
        (
            compare("collated", "=", "x", "string"),
            Kind::UnsupportedExpression,
            "collation",
        ),
        (
            r#"{"op":"column","name":["Id"]}"#.to_owned(),
            Kind::InvalidArgument,
            "condition",
        ),
    ] {
        let (refused, message) = refusal(&json);
        assert!(refused == kind && message.contains(word), "{json}: {message}");
    }
    assert_eq!(Expr::from_json("{}").unwrap_err().kind(), Kind::InvalidArgument);
}

#[test]
fn columns_are_reported_in_the_schemas_case() {
    let json = format!(
        r#"{{"op":"and","args":[{},{}]}}"#,
        compare("ID", "=", "1", "integer"),
        compare("id", "<", "9", "integer")
    );
    let p = bind(&json).unwrap();
    assert_eq!(p.columns(), [["Id"]]);
    assert!(p.partition_only(&["id".to_owned()]) && !p.partition_only(&["name".to_owned()]));
    assert_eq!(Expr::from_json(&json).unwrap().columns(), [["ID"], ["id"]]);
}

fn truths(json: &str, ids: Vec<Option<i32>>) -> Vec<Option<bool>> {
    let batch = RecordBatch::try_from_iter([("Id", Arc::new(Int32Array::from(ids)) as ArrayRef)]).unwrap();
    bind(json).unwrap().evaluate(&batch).unwrap().iter().collect()
}

#[test]
fn literals_out_of_a_columns_range_fold() {
    let ids = || vec![Some(i32::MAX), None];
    assert_eq!(
        truths(&compare("Id", "<", "3000000000", "long"), ids()),
        [Some(true), None]
    );
    assert_eq!(
        truths(&compare("Id", "=", "5.5", "decimal(2,1)"), ids()),
        [Some(false), None]
    );
    assert_eq!(
        truths(&compare("Id", ">=", "2147483646.5", "decimal(11,1)"), ids()),
        [Some(true), None]
    );
    assert_eq!(
        truths(&compare("Id", "<=>", "1e30", "double"), ids()),
        [Some(false), Some(false)]
    );
    assert_eq!(
        truths(&compare("Id", "=", " 2147483647 ", "string"), ids()),
        [Some(true), None]
    );
}

#[test]
fn doubles_compare_as_in_spark() {
    let values = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.5,
        -1.5,
    ];
    let rows: Vec<Option<f64>> = values.iter().map(|v| Some(*v)).chain([None]).collect();
    let array: ArrayRef = Arc::new(Float64Array::from(rows.clone()));
    let batch = RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
    let schema = StructType::new(vec![Field::new("x", Primitive::Double, true)]);
    let order = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
    let bounds = ["0.0", "-0.0", "1.5", "-1.5", "Infinity", "-Infinity", "NaN"];
    for (cmp, holds) in [
        ("=", &Ordering::is_eq as &dyn Fn(Ordering) -> bool),
        ("!=", &Ordering::is_ne),
        ("<", &Ordering::is_lt),
        ("<=", &Ordering::is_le),
        (">", &Ordering::is_gt),
        (">=", &Ordering::is_ge),
    ] {
        for bound in bounds {
            let json = compare("x", cmp, bound, "double");
            let predicate = Predicate::bind(&Expr::from_json(&json).unwrap(), &schema).unwrap();
            let predicate: Vec<Option<bool>> = predicate.evaluate(&batch).unwrap().iter().collect();
            let number: f64 = bound.parse().unwrap();
            let expected: Vec<Option<bool>> = rows.iter().map(|v| v.map(|v| holds(order(v, number)))).collect();
            assert_eq!(predicate, expected, "x {cmp} {bound}");
        }
    }
}

#[test]
fn overflow_is_an_error_as_in_ansi_mode() {
    let sum = compare("Id", "=", "0", "integer").replace(
        r#"{"op":"column","name":["Id"]}"#,
        r#"{"op":"arithmetic","sign":"+","left":{"op":"column","name":["Id"]},"right":{"op":"literal","value":"1","type":"integer"}}"#,
    );
    let p = bind(&sum).unwrap();
    let batch = |v| RecordBatch::try_from_iter([("Id", Arc::new(Int32Array::from(vec![v])) as ArrayRef)]).unwrap();
    assert!(p.evaluate(&batch(Some(-1))).unwrap().value(0));
    assert_eq!(
        p.evaluate(&batch(Some(i32::MAX))).unwrap_err().kind(),
        Kind::InvalidArgument
    );
    assert!(p.evaluate(&batch(None)).is_ok());
}

fn node(class: &str, children: usize, more: &str) -> String {
    format!(r#"{{"class":"org.apache.spark.sql.catalyst.expressions.{class}","num-children":{children}{more}}}"#)
}

fn attribute(name: &str, ty: &str) -> String {
    node(
        "AttributeReference",
        0,
        &format!(r#","name":"{name}","dataType":"{ty}","nullable":true"#),
    )
}

fn constant(value: &str, ty: &str) -> String {
    node("Literal", 0, &format!(r#","value":"{value}","dataType":"{ty}""#))
}

fn translated(nodes: &[String], zone: &str) -> Option<String> {
    let e = translate(&format!("[{}]", nodes.join(",")), zone).unwrap();
    e.map(|e| serde_json::to_string(&e).unwrap())
}

#[test]
fn spark_filters_translate() {
    let translation = translated(
        &[
            node("And", 2, r#","left":0,"right":1"#),
            node("IsNotNull", 1, r#","child":0"#),
            attribute("Id", "integer"),
            node("EqualTo", 2, ""),
            attribute("Id", "integer"),
            constant("57", "integer"),
        ],
        "UTC",
    );
    let e = Expr::from_json(&translation.unwrap()).unwrap();
    assert!(Predicate::bind(&e, &schema()).is_ok());
    let field = [
        node("IsNull", 1, ""),
        node("GetStructField", 1, r#","ordinal":0,"name":"x""#),
        attribute("s", "struct"),
    ];
    assert!(translated(&field, "UTC").unwrap().contains(r#"["s","x"]"#));
}

#[test]
fn what_spark_means_otherwise_is_left_out() {
    let known = || {
        [
            node("EqualTo", 2, ""),
            attribute("Id", "integer"),
            constant("1", "integer"),
        ]
    };
    let unknown = || {
        [
            node("EqualTo", 2, ""),
            node("Year", 1, ""),
            attribute("day", "date"),
            constant("2020", "integer"),
        ]
    };
    let joined = |class: &str, not: bool| {
        let head = not.then(|| node("Not", 1, ""));
        let nodes: Vec<String> = head
            .into_iter()
            .chain([node(class, 2, "")])
            .chain(known())
            .chain(unknown())
            .collect();
        translated(&nodes, "UTC")
    };
    assert!(joined("And", false).is_some_and(|e| e.contains("Id") && !e.contains("day")));
    // Under a negation half of a conjunction would drop files.
    assert!(joined("And", true).is_none() && joined("Or", false).is_none());
    let in_set = [node("InSet", 1, r#","hset":null"#), attribute("Id", "integer")];
    assert!(translated(&in_set, "UTC").is_none());
    // Arithmetic wraps in legacy mode, so it isn't ours.
    let sum = [
        node("EqualTo", 2, ""),
        node("Add", 2, ""),
        attribute("Id", "integer"),
        constant("1", "integer"),
        constant("5", "integer"),
    ];
    assert!(translated(&sum, "UTC").is_none());
    assert!(translate("[]", "UTC").unwrap().is_none() && translate("{", "UTC").is_err());
}

#[test]
fn timestamps_are_printed_in_the_sessions_zone() {
    let printed = |ty: &str, value: &str, zone: &str| {
        translated(
            &[node("LessThan", 2, ""), attribute("t", ty), constant(value, ty)],
            zone,
        )
    };
    assert!(
        printed("timestamp", "2020-01-01 05:00:00.000999", "UTC")
            .unwrap()
            .contains("2020-01-01 05:00:00.000999")
    );
    assert!(
        printed("timestamp", "2020-01-01 05:00:00", "+02:00")
            .unwrap()
            .contains("2020-01-01 03:00:00.000000")
    );
    assert!(printed("timestamp", "2020-01-01 05:00:00", "Europe/Zurich").is_none());
    assert!(
        printed("timestamp_ntz", "1577854800000000", "Europe/Zurich")
            .unwrap()
            .contains("2020-01-01 05:00:00.000000")
    );
}

#[test]
fn a_tree_is_read_from_values_as_from_text_and_not_too_deep() {
    let nested = |depth: usize| {
        let leaf = serde_json::json!({"op": "literal", "value": "true", "type": "boolean"});
        (0..depth).fold(leaf, |arg, _| serde_json::json!({"op": "not", "arg": arg}))
    };
    let tree = Expr::from_value(nested(100)).unwrap();
    assert_eq!(Expr::from_json(&nested(100).to_string()).unwrap(), tree);
    assert_eq!(tree.to_value(), nested(100));
    for refused in [
        Expr::from_value(nested(200)),
        Expr::from_json(&nested(200).to_string()),
        Expr::from_value(serde_json::json!({"op": "xor"})),
    ] {
        assert!(refused.unwrap_err().message().contains("valid expression tree"));
    }
}

#[test]
fn one_condition_is_its_own_conjunction() {
    let literal = |value: &str| Expr::Literal {
        value: Some(value.to_owned()),
        type_name: "boolean".to_owned(),
    };
    let (truth, other) = (literal("true"), literal("false"));
    assert_eq!((Expr::all_of(vec![]), Expr::any_of(vec![])), (None, None));
    assert_eq!(Expr::all_of(vec![truth.clone()]), Some(truth.clone()));
    let args = vec![truth, other];
    assert_eq!(Expr::all_of(args.clone()), Some(Expr::And { args: args.clone() }));
    assert_eq!(Expr::any_of(args.clone()), Some(Expr::Or { args }));
}
