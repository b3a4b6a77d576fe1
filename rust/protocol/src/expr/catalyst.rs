//! Translates Spark's own filters, in the output of `Expression.toJSON`, to [`Expr`] for pruning.
//! Parts that aren't understood are left out where that only keeps more files; Spark filters rows
//! itself.

use std::collections::HashMap;
use std::slice::Iter;

use serde_json::Value;

use super::text::{format_timestamp, parse_offset, parse_timestamp};
use super::{Comparison, Expr};
use crate::{Error, Result};

/// Deeper trees aren't translated: recursion must fit the stack.
const MAX_DEPTH: usize = 500;

/// An expression that is TRUE wherever the filter is; `None` if no part of it is understood.
///
/// `session_zone` is `spark.sql.session.timeZone`, in which Spark prints timestamp literals without
/// naming it. Timestamps of zones other than UTC and fixed offsets aren't understood. So aren't
/// `InSet`, of which Spark prints no values (the caller makes it an `In`), and binary literals.
pub fn translate(json: &str, session_zone: &str) -> Result<Option<Expr>> {
    let nodes: Vec<HashMap<String, Value>> = serde_json::from_str(json).map_err(|e| {
        Error::invalid_argument(format!(
            "a Spark filter isn't the JSON of Expression.toJSON ({e}): this version of Spark isn't supported"
        ))
    })?;
    let zone = match session_zone {
        "Etc/UTC" | "Etc/GMT" | "Zulu" | "Universal" | "Etc/Universal" => Some(0),
        other => parse_offset(other),
    };
    let mut rest = nodes.iter();
    let tree = tree(&mut rest, 0);
    Ok(tree.and_then(|t| condition(&t, zone, false)))
}

struct Tree<'a> {
    class: &'a str,
    fields: &'a HashMap<String, Value>,
    children: Vec<Tree<'a>>,
}

/// Nodes come in pre-order with their number of children.
fn tree<'a>(rest: &mut Iter<'a, HashMap<String, Value>>, depth: usize) -> Option<Tree<'a>> {
    let fields = rest.next().filter(|_| depth < MAX_DEPTH)?;
    let class = fields.get("class")?.as_str()?;
    let class = class.rsplit_once('.').map_or(class, |(_, name)| name);
    let count = fields.get("num-children")?.as_u64()?;
    let children = (0..count).map(|_| tree(rest, depth + 1)).collect::<Option<Vec<_>>>()?;
    Some(Tree {
        class,
        fields,
        children,
    })
}

/// `exact`: no part may be left out, as under a negation.
fn condition(t: &Tree<'_>, zone: Option<i64>, exact: bool) -> Option<Expr> {
    let compare = |cmp| match t.children.as_slice() {
        [l, r] => Some(Expr::Compare {
            cmp,
            left: Box::new(value(l, zone)?),
            right: Box::new(value(r, zone)?),
        }),
        _ => None,
    };
    match (t.class, t.children.as_slice()) {
        ("And", [l, r]) => match (condition(l, zone, exact), condition(r, zone, exact)) {
            (Some(l), Some(r)) => Some(joined(l, r, true)),
            (Some(side), None) | (None, Some(side)) if !exact => Some(side),
            _ => None,
        },
        ("Or", [l, r]) => Some(joined(condition(l, zone, exact)?, condition(r, zone, exact)?, false)),
        ("Not", [c]) => Some(Expr::Not {
            arg: Box::new(condition(c, zone, true)?),
        }),
        ("EqualTo", _) => compare(Comparison::Eq),
        ("EqualNullSafe", _) => compare(Comparison::NullSafeEq),
        ("LessThan", _) => compare(Comparison::Lt),
        ("LessThanOrEqual", _) => compare(Comparison::Le),
        ("GreaterThan", _) => compare(Comparison::Gt),
        ("GreaterThanOrEqual", _) => compare(Comparison::Ge),
        ("IsNull", [c]) => Some(Expr::IsNull {
            arg: Box::new(column(c)?),
        }),
        ("IsNotNull", [c]) => Some(Expr::IsNotNull {
            arg: Box::new(column(c)?),
        }),
        ("In", [v, list @ ..]) => {
            let list = list.iter().map(|l| literal(l, zone)).collect::<Option<Vec<_>>>()?;
            Some(Expr::In {
                arg: Box::new(value(v, zone)?),
                list,
            })
        }
        ("StartsWith", [c, p]) => match literal(p, zone)? {
            Expr::Literal {
                value: Some(prefix),
                type_name,
            } if type_name == "string" => Some(Expr::StartsWith {
                arg: Box::new(column(c)?),
                prefix,
            }),
            _ => None,
        },
        ("AttributeReference" | "GetStructField", _) if is_boolean(t) => column(t),
        ("Literal", _) if is_boolean(t) => literal(t, zone),
        _ => None,
    }
}

/// Joins chains of one operator into one list.
fn joined(left: Expr, right: Expr, and: bool) -> Expr {
    let mut args = Vec::new();
    for side in [left, right] {
        match side {
            Expr::And { args: inner } if and => args.extend(inner),
            Expr::Or { args: inner } if !and => args.extend(inner),
            other => args.push(other),
        }
    }
    if and { Expr::And { args } } else { Expr::Or { args } }
}

fn data_type<'a>(t: &Tree<'a>) -> Option<&'a str> {
    t.fields.get("dataType")?.as_str()
}

fn is_boolean(t: &Tree<'_>) -> bool {
    // A struct field has no type here: binding refuses it unless it is a boolean.
    t.class == "GetStructField" || data_type(t) == Some("boolean")
}

fn value(t: &Tree<'_>, zone: Option<i64>) -> Option<Expr> {
    match (t.class, t.children.as_slice()) {
        ("Literal", _) => literal(t, zone),
        ("Cast", [c]) if widens(data_type(c)?, data_type(t)?) => Some(Expr::Cast {
            arg: Box::new(column(c)?),
            type_name: data_type(t)?.to_owned(),
        }),
        _ => column(t),
    }
}

fn widens(from: &str, to: &str) -> bool {
    let order = ["byte", "short", "integer", "long", "double"];
    let rank = |t: &str| order.iter().position(|o| *o == t);
    match (rank(from), rank(to)) {
        (Some(a), Some(b)) => a < b,
        _ => (from, to) == ("float", "double"),
    }
}

fn column(t: &Tree<'_>) -> Option<Expr> {
    let (name, _) = path(t)?;
    Some(Expr::Column { name })
}

/// The path of a column, and its type.
fn path<'a>(t: &Tree<'a>) -> Option<(Vec<String>, Option<&'a Value>)> {
    let name = || t.fields.get("name").and_then(Value::as_str);
    match (t.class, t.children.as_slice()) {
        ("AttributeReference", []) => Some((vec![name()?.to_owned()], t.fields.get("dataType"))),
        ("GetStructField", [parent]) => {
            let (mut path, type_of_parent) = path(parent)?;
            // Catalyst refers to a position; the name is only the query's text.
            let index = t
                .fields
                .get("ordinal")
                .and_then(Value::as_u64)
                .and_then(|n| usize::try_from(n).ok());
            let field = type_of_parent.and_then(|s| s.get("fields")?.as_array()?.get(index?));
            let name_of_field = field.and_then(|f| f.get("name")?.as_str()).or_else(name)?;
            path.push(name_of_field.to_owned());
            Some((path, field.and_then(|f| f.get("type"))))
        }
        _ => None,
    }
}

fn literal(t: &Tree<'_>, zone: Option<i64>) -> Option<Expr> {
    if t.class != "Literal" {
        return None;
    }
    let type_name = data_type(t)?;
    let made = |value: Option<String>| {
        Some(Expr::Literal {
            value,
            type_name: type_name.to_owned(),
        })
    };
    let text = match t.fields.get("value")? {
        Value::Null => return made(None),
        Value::String(s) => s,
        _ => return None,
    };
    match type_name {
        "string" | "boolean" | "byte" | "short" | "integer" | "long" | "float" | "double" | "date" => {
            made(Some(text.clone()))
        }
        // Printed as microseconds of the local clock.
        "timestamp_ntz" => made(Some(wall_clock(text.parse().ok()?))),
        "timestamp" => match parse_timestamp(text)? {
            (local, None) => made(Some(wall_clock(local.checked_sub(zone?.checked_mul(1_000_000)?)?))),
            _ => None,
        },
        t if t.starts_with("decimal(") => made(Some(text.clone())),
        _ => None,
    }
}

fn wall_clock(micros: i64) -> String {
    let (seconds, fraction) = format_timestamp(micros, ' ');
    format!("{seconds}.{fraction:06}")
}
