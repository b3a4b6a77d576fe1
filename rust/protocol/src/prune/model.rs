//! Tests only: random rows and predicates of every type, and a naive row-at-a-time model of Spark's
//! meaning that shares no code with the evaluator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::sample::select;

use crate::expr::{Comparison, Expr};
use crate::schema::{DataType, Field, Primitive, StructType};

/// A value of a row, in the form that the model compares.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Integers and decimals, in millionths.
    Exact(i128),
    Float(f32),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Bool(bool),
    Days(i64),
    Micros(i64),
}

pub(super) const SMALL: Primitive = Primitive::Decimal { precision: 5, scale: 2 };
pub(super) const BIG: Primitive = Primitive::Decimal {
    precision: 30,
    scale: 4,
};
pub(super) const MILLION: i128 = 1_000_000;

/// Path and type of every leaf; the last two are partition columns.
pub(super) fn leaves() -> Vec<(Vec<&'static str>, Primitive)> {
    vec![
        (vec!["tiny"], Primitive::Byte),
        (vec!["Int"], Primitive::Integer),
        (vec!["long"], Primitive::Long),
        (vec!["f"], Primitive::Float),
        (vec!["d"], Primitive::Double),
        (vec!["small"], SMALL),
        (vec!["big"], BIG),
        (vec!["s"], Primitive::String),
        (vec!["day"], Primitive::Date),
        (vec!["ts"], Primitive::Timestamp),
        (vec!["ntz"], Primitive::TimestampNtz),
        (vec!["b"], Primitive::Boolean),
        (vec!["bin"], Primitive::Binary),
        (vec!["n", "x"], Primitive::Long),
        (vec!["p"], Primitive::String),
        (vec!["q"], Primitive::Double),
    ]
}

pub(super) fn partition_columns() -> Vec<String> {
    vec!["p".to_owned(), "q".to_owned()]
}

pub(super) fn schema() -> StructType {
    let mut fields = Vec::new();
    for (path, ty) in leaves() {
        match path.as_slice() {
            [name] => fields.push(Field::new(*name, ty, true)),
            [parent, name] => {
                let inner = StructType::new(vec![Field::new(*name, ty, true)]);
                fields.push(Field::new(*parent, DataType::Struct(inner), true));
            }
            _ => unreachable!(),
        }
    }
    StructType::new(fields)
}

fn texts() -> Vec<&'static str> {
    vec![
        "",
        "a",
        "ab",
        "abc",
        "abcd",
        "abcdefgh",
        "abcdefzz",
        "abd",
        "z",
        "zzzzz",
        "é",
        "日本語日",
        "\u{7f}",
        "\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}",
        "50%",
        "1",
    ]
}

const MICROS: [i64; 12] = [
    -62_135_596_800_000_000,
    -1_577_854_800_000_999,
    -1,
    0,
    999,
    1_000,
    1_500,
    1_577_854_800_000_000,
    1_577_854_800_000_999,
    1_577_854_800_001_000,
    86_400_000_000,
    253_402_300_799_999_999,
];

/// Values of a column, extremes and edges.
fn value(ty: Primitive) -> BoxedStrategy<Value> {
    let exact = |v: &[i128], unit: i128| {
        let all: Vec<Value> = v.iter().map(|v| Value::Exact(v * unit)).collect();
        select(all).boxed()
    };
    match ty {
        Primitive::Byte => exact(&[-128, -1, 0, 1, 7, 100, 127], MILLION),
        Primitive::Integer => exact(
            &[i128::from(i32::MIN), -1, 0, 1, 7, 100, 128, i128::from(i32::MAX)],
            MILLION,
        ),
        Primitive::Long => {
            let edge = i128::from(i64::MAX);
            exact(&[-edge - 1, -1, 0, 1, 7, 100, (1 << 53) + 1, edge - 1, edge], MILLION)
        }
        SMALL => exact(&[-99_999, -1, 0, 1, 1250, 1251, 100, 99_999], 10_000),
        Primitive::Decimal { .. } => exact(
            &[
                -999_999_999_999_999_999_999_999_999_999,
                -1,
                0,
                1,
                123_456_789_012_345_678_901_234,
                12_345_678_901_231_234,
                12_345_678_905_000,
                999_999_999_999_999_999_999_999_999_999,
            ],
            100,
        ),
        Primitive::Float => select(vec![
            0.0f32,
            -0.0,
            1.5,
            -1.5,
            0.1,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
        ])
        .prop_map(Value::Float)
        .boxed(),
        Primitive::Double => select(vec![
            0.0f64,
            -0.0,
            1.5,
            -1.5,
            0.1,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e308,
            5.0,
        ])
        .prop_map(Value::Double)
        .boxed(),
        Primitive::String => select(texts()).prop_map(|t| Value::Text(t.to_owned())).boxed(),
        Primitive::Binary => select(texts())
            .prop_map(|t| Value::Bytes(t.as_bytes().to_vec()))
            .boxed(),
        Primitive::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        Primitive::Date => select(vec![-719_162i64, -1, 0, 1, 18_262, 2_932_896])
            .prop_map(Value::Days)
            .boxed(),
        _ => select(MICROS.to_vec()).prop_map(Value::Micros).boxed(),
    }
}

/// One row: a value or null per leaf; partition values are set per file.
pub(super) fn row() -> BoxedStrategy<Vec<Option<Value>>> {
    let cells: Vec<_> = leaves()
        .into_iter()
        .map(|(_, ty)| prop::option::weighted(0.8, value(ty)))
        .collect();
    cells.boxed()
}

fn exact_literal(v: i128) -> (String, String) {
    let digits = format!("{:07}", v.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - 6);
    let sign = if v < 0 { "-" } else { "" };
    if v % MILLION == 0 {
        return (
            format!("{sign}{whole}"),
            if i64::try_from(v / MILLION).is_ok() {
                "long".into()
            } else {
                "decimal(38,0)".into()
            },
        );
    }
    (format!("{sign}{whole}.{fraction}"), "decimal(38,6)".to_owned())
}

pub(super) fn clock(micros: i64) -> String {
    let (text, rest) = crate::expr::text::format_timestamp(micros, ' ');
    format!("{text}.{rest:06}")
}

fn literal_of(v: Value, ty: Primitive) -> (String, String) {
    let (text, name) = match v {
        Value::Exact(v) => return exact_literal(v),
        Value::Float(v) => (format!("{v:e}"), "float"),
        Value::Double(v) => (format!("{v:e}"), "double"),
        Value::Text(t) => (t, "string"),
        Value::Bytes(b) => (b.iter().map(|b| format!("{b:02x}")).collect(), "binary"),
        Value::Bool(b) => (b.to_string(), "boolean"),
        Value::Days(d) => (crate::expr::text::format_date(d), "date"),
        Value::Micros(m) => (
            clock(m),
            if ty == Primitive::TimestampNtz {
                "timestamp_ntz"
            } else {
                "timestamp"
            },
        ),
    };
    (text, name.to_owned())
}

/// Literals that a column is compared with: of its own type, and of those that Spark converts.
fn literal(ty: Primitive) -> BoxedStrategy<Expr> {
    let own = value(ty).prop_map(move |v| literal_of(v, ty));
    let literal_of_type = |t: Primitive| value(t).prop_map(move |v| literal_of(v, t)).boxed();
    let odd = |list: &[(&str, &str)]| {
        select(
            list.iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect::<Vec<_>>(),
        )
        .boxed()
    };
    let numbers = || {
        prop_oneof![
            literal_of_type(Primitive::Long),
            literal_of_type(SMALL),
            literal_of_type(BIG),
            literal_of_type(Primitive::Double),
            literal_of_type(Primitive::Float),
            odd(&[
                ("0.5", "decimal(2,1)"),
                ("-0.5", "decimal(2,1)"),
                ("1e19", "double"),
                ("9.223372036854775807e18", "double"),
                ("12.505", "decimal(5,3)")
            ]),
        ]
        .boxed()
    };
    let other = match ty {
        Primitive::Date | Primitive::Timestamp | Primitive::TimestampNtz => prop_oneof![
            literal_of_type(Primitive::Date),
            literal_of_type(Primitive::Timestamp),
            literal_of_type(Primitive::TimestampNtz)
        ]
        .boxed(),
        Primitive::String | Primitive::Binary | Primitive::Boolean => literal_of_type(ty),
        _ => numbers(),
    };
    let null = Just((String::new(), "void".to_owned()));
    prop_oneof![8 => own.boxed(), 4 => other, 1 => null.boxed()]
        .prop_map(|(value, type_name)| Expr::Literal {
            value: (type_name != "void").then_some(value),
            type_name,
        })
        .boxed()
}

fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::{Eq, Ge, Gt, Le, Lt, Ne, NullSafeEq};
    select(vec![Eq, Ne, Lt, Le, Gt, Ge, NullSafeEq])
}

fn condition() -> BoxedStrategy<Expr> {
    let any_leaf = select(leaves()).prop_flat_map(|(path, ty)| {
        // Names match ignoring case.
        let name: Vec<String> = path.iter().map(|p| p.to_uppercase()).collect();
        let column = Expr::Column { name };
        let (c1, c2, c3, c4, c5) = (
            column.clone(),
            column.clone(),
            column.clone(),
            column.clone(),
            column.clone(),
        );
        let compare = (comparison(), literal(ty), any::<bool>()).prop_map(move |(cmp, l, flip)| {
            let (left, right) = if flip { (l, c1.clone()) } else { (c1.clone(), l) };
            Expr::Compare {
                cmp,
                left: Box::new(left),
                right: Box::new(right),
            }
        });
        let list = prop::collection::vec(literal(ty), 1..7).prop_map(move |list| Expr::In {
            arg: Box::new(c2.clone()),
            list,
        });
        let null = any::<bool>().prop_map(move |n| {
            let arg = Box::new(c3.clone());
            if n {
                Expr::IsNull { arg }
            } else {
                Expr::IsNotNull { arg }
            }
        });
        let pattern = select(vec![
            "%", "a%", "abc%", "ab_d%", "%z", "", "z", "abc", "_", "%b%f%", "é%", "50\\%",
        ]);
        let like = pattern.prop_map(move |p| Expr::Like {
            arg: Box::new(c4.clone()),
            pattern: p.to_owned(),
            escape: '\\',
        });
        let starts = select(texts()).prop_map(move |p| Expr::StartsWith {
            arg: Box::new(c5.clone()),
            prefix: p.to_owned(),
        });
        match ty {
            Primitive::String => prop_oneof![4 => compare, 2 => list, 1 => null, 2 => like, 1 => starts].boxed(),
            Primitive::Boolean => prop_oneof![compare.boxed(), null.boxed(), Just(column).boxed()].boxed(),
            _ => prop_oneof![4 => compare, 2 => list, 1 => null].boxed(),
        }
    });
    let same_type = prop_oneof![
        Just((vec!["long"], vec!["n", "x"])),
        Just((vec!["tiny"], vec!["Int"])),
        Just((vec!["d"], vec!["q"])),
        Just((vec!["s"], vec!["p"])),
        Just((vec!["ts"], vec!["day"])),
    ];
    let columns = (same_type, comparison()).prop_map(|((l, r), cmp)| {
        let column = |p: Vec<&str>| {
            Box::new(Expr::Column {
                name: p.iter().map(|s| (*s).to_owned()).collect(),
            })
        };
        Expr::Compare {
            cmp,
            left: column(l),
            right: column(r),
        }
    });
    prop_oneof![9 => any_leaf, 1 => columns].boxed()
}

/// Random predicates.
pub(super) fn predicate() -> impl Strategy<Value = Expr> {
    condition().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|e| Expr::Not { arg: Box::new(e) }),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|args| Expr::And { args }),
            prop::collection::vec(inner, 2..4).prop_map(|args| Expr::Or { args }),
        ]
    })
}

fn column_value(name: &[String], row: &[Option<Value>]) -> Option<Value> {
    let index = leaves()
        .iter()
        .position(|(p, _)| p.len() == name.len() && p.iter().zip(name).all(|(a, b)| a.eq_ignore_ascii_case(b)));
    row[index.unwrap()].clone()
}

fn millionths(text: &str) -> i128 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let padded: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let magnitude: i128 = format!("{}{padded}", whole.trim_start_matches('-')).parse().unwrap();
    if text.starts_with('-') { -magnitude } else { magnitude }
}

fn operand(e: &Expr, row: &[Option<Value>]) -> Option<Value> {
    match e {
        Expr::Column { name } => column_value(name, row),
        Expr::Literal { value, type_name } => value.as_ref().map(|t| match type_name.as_str() {
            "float" => Value::Float(t.parse().unwrap()),
            "double" => Value::Double(t.parse().unwrap()),
            "string" => Value::Text(t.clone()),
            "binary" => Value::Bytes(
                (0..t.len() / 2)
                    .map(|i| u8::from_str_radix(&t[2 * i..2 * i + 2], 16).unwrap())
                    .collect(),
            ),
            "boolean" => Value::Bool(t == "true"),
            "date" => Value::Days(crate::expr::text::parse_date(t).unwrap().into()),
            "timestamp" | "timestamp_ntz" => Value::Micros(crate::expr::text::parse_instant(t).unwrap()),
            _ => Value::Exact(millionths(t)),
        }),
        // A cast of a column loses nothing.
        Expr::Cast { arg, .. } => operand(arg, row),
        _ => unreachable!(),
    }
}

fn double(v: &Value) -> f64 {
    match v {
        Value::Exact(v) => format!("{v}e-6").parse().unwrap(),
        Value::Float(v) => f64::from(*v),
        Value::Double(v) => *v,
        _ => unreachable!("{v:?}"),
    }
}

fn order_doubles(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => a.partial_cmp(&b).unwrap(),
    }
}

fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Exact(a), Value::Exact(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Days(a), Value::Days(b)) | (Value::Micros(a), Value::Micros(b)) => a.cmp(b),
        (Value::Days(a), Value::Micros(b)) => (a * 86_400_000_000).cmp(b),
        (Value::Micros(a), Value::Days(b)) => a.cmp(&(b * 86_400_000_000)),
        _ => order_doubles(double(a), double(b)),
    }
}

fn matches_like(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['\\', c, rest @ ..] => text.first() == Some(c) && matches_like(rest, &text[1..]),
        ['%', rest @ ..] => (0..=text.len()).any(|i| matches_like(rest, &text[i..])),
        ['_', rest @ ..] => !text.is_empty() && matches_like(rest, &text[1..]),
        [c, rest @ ..] => text.first() == Some(c) && matches_like(rest, &text[1..]),
    }
}

/// Kleene's conjunction.
fn all(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let truths: Vec<_> = truths.collect();
    if truths.contains(&Some(false)) {
        return Some(false);
    }
    (!truths.contains(&None)).then_some(true)
}

/// The truth of a predicate for a row.
pub(super) fn truth(e: &Expr, row: &[Option<Value>]) -> Option<bool> {
    let text = |arg: &Expr| match operand(arg, row) {
        Some(Value::Text(t)) => Some(t),
        _ => None,
    };
    match e {
        Expr::And { args } => all(args.iter().map(|a| truth(a, row))),
        Expr::Or { args } => all(args.iter().map(|a| truth(a, row).map(|b| !b))).map(|b| !b),
        Expr::Not { arg } => truth(arg, row).map(|b| !b),
        Expr::IsNull { arg } => Some(operand(arg, row).is_none()),
        Expr::IsNotNull { arg } => Some(operand(arg, row).is_some()),
        Expr::Column { .. } => match operand(e, row) {
            Some(Value::Bool(b)) => Some(b),
            _ => None,
        },
        Expr::Compare { cmp, left, right } => {
            let (l, r) = (operand(left, row), operand(right, row));
            if *cmp == Comparison::NullSafeEq {
                return Some(match (l, r) {
                    (Some(l), Some(r)) => order(&l, &r).is_eq(),
                    (l, r) => l.is_none() && r.is_none(),
                });
            }
            let o = order(&l?, &r?);
            Some(match cmp {
                Comparison::Eq => o.is_eq(),
                Comparison::Ne => o.is_ne(),
                Comparison::Lt => o.is_lt(),
                Comparison::Le => o.is_le(),
                Comparison::Gt => o.is_gt(),
                _ => o.is_ge(),
            })
        }
        Expr::In { arg, list } => {
            let v = operand(arg, row)?;
            // One double makes all of them doubles.
            let values: Vec<Option<Value>> = list.iter().map(|l| operand(l, row)).collect();
            let inexact = values
                .iter()
                .any(|v| matches!(v, Some(Value::Float(_) | Value::Double(_))));
            let equal = |x: &Value| match (&v, x) {
                (Value::Exact(_), Value::Exact(_)) if inexact => double(&v) == double(x),
                _ => order(&v, x).is_eq(),
            };
            match values.iter().any(|x| x.as_ref().is_some_and(&equal)) {
                true => Some(true),
                false if values.iter().any(Option::is_none) => None,
                false => Some(false),
            }
        }
        Expr::Like { arg, pattern, .. } => {
            let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text(arg)?.chars().collect());
            Some(matches_like(&p, &t))
        }
        Expr::StartsWith { arg, prefix } => Some(text(arg)?.starts_with(prefix)),
        _ => unreachable!(),
    }
}
