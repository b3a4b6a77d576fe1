//! Binding: resolves names to columns of a schema and trees to typed nodes; anything else is an
//! error that says what to write instead.

use super::coerce::{Side, common_type, compare, describe, is_in, is_number, widened};
use super::like::Pattern;
use super::literal::{Literal, parse_type};
use super::node::{Column, Node, Op, Term};
use super::scalar::{Scalar, exact_range, exact_scalar, is_integer};
use super::text::Fit;
use super::{Expr, Sign};
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result};

/// The node of a predicate.
pub(crate) fn predicate(expr: &Expr, schema: &StructType) -> Result<Node> {
    let all = |args: &[Expr]| args.iter().map(|a| predicate(a, schema)).collect::<Result<Vec<_>>>();
    match expr {
        Expr::And { args } => Ok(Node::And(all(args)?)),
        Expr::Or { args } => Ok(Node::Or(all(args)?)),
        Expr::Not { arg } => Ok(Node::Not(Box::new(predicate(arg, schema)?))),
        Expr::Compare { cmp, left, right } => compare(side(left, schema)?, *cmp, side(right, schema)?),
        Expr::IsNull { arg } => Ok(match side(arg, schema)? {
            Side::Literal(l) => Node::Const(Some(l == Literal::Null)),
            Side::Term(t) => Node::IsNull(t),
        }),
        Expr::IsNotNull { arg } => Ok(match side(arg, schema)? {
            Side::Literal(l) => Node::Const(Some(l != Literal::Null)),
            Side::Term(t) => Node::IsNotNull(t),
        }),
        Expr::In { arg, list } => membership(arg, list, schema),
        Expr::Like { arg, pattern, escape } => like(arg, Pattern::like(pattern, *escape)?, schema),
        Expr::StartsWith { arg, prefix } => like(arg, Pattern::prefix(prefix), schema),
        Expr::Column { .. } | Expr::Literal { .. } | Expr::Cast { .. } => truth(side(expr, schema)?),
        Expr::Arithmetic { .. } => Err(Error::invalid_argument(
            "the predicate is a number, not a condition: compare it with something",
        )),
    }
}

fn truth(side: Side) -> Result<Node> {
    match side {
        Side::Literal(Literal::Null) => Ok(Node::Const(None)),
        Side::Literal(Literal::Other(Scalar::Boolean(b), _)) => Ok(Node::Const(Some(b))),
        Side::Term(t) if t.ty() == Some(Primitive::Boolean) => Ok(Node::Compare(t, Op::Eq, Scalar::Boolean(true))),
        Side::Term(t) if t.ty() == Some(Primitive::Void) => Ok(Node::Const(None)),
        Side::Literal(l) => Err(Error::invalid_argument(format!(
            "the predicate has a {} literal where a condition must stand: compare it with a column",
            l.type_name()
        ))),
        Side::Term(t) => Err(Error::invalid_argument(format!(
            "the predicate has a {} where a condition must stand: compare it with a value",
            t.ty().map_or_else(|| "nested column".to_owned(), |ty| describe(&t, ty))
        ))),
    }
}

fn side(expr: &Expr, schema: &StructType) -> Result<Side> {
    match expr {
        Expr::Column { name } => Ok(Side::Term(Term::Column(column(name, schema)?))),
        Expr::Literal { value, type_name } => Ok(Side::Literal(Literal::parse(value.as_deref(), type_name)?)),
        Expr::Cast { arg, type_name } => cast(side(arg, schema)?, parse_type(type_name)?),
        Expr::Arithmetic { sign, left, right } => arithmetic(side(left, schema)?, *sign, side(right, schema)?),
        _ => Err(Error::unsupported_expression(
            "the predicate uses a condition as a value (as in `(a > 1) = b`): combine conditions with AND, OR, NOT or use the Spark engine",
        )),
    }
}

fn column(name: &[String], schema: &StructType) -> Result<Column> {
    let mut here = Some(schema);
    let mut path = Vec::with_capacity(name.len());
    let mut last: Option<&Field> = None;
    for part in name {
        let Some(field) = here.and_then(|s| s.field_ignore_case(part)) else {
            return Err(unknown(name, here.unwrap_or(schema), part, schema));
        };
        refuse_special_strings(field, name)?;
        path.push(field.name.clone());
        here = match &field.data_type {
            DataType::Struct(s) => Some(s),
            _ => Some(&EMPTY),
        };
        last = Some(field);
    }
    let data_type = last
        .map(|f| &f.data_type)
        .ok_or_else(|| Error::invalid_argument("the predicate has a column without a name"))?;
    let ty = match data_type {
        DataType::Primitive(p) => Some(*p),
        _ => None,
    };
    Ok(Column {
        path,
        ty,
        is_struct: matches!(data_type, DataType::Struct(_)),
    })
}

static EMPTY: std::sync::LazyLock<StructType> = std::sync::LazyLock::new(StructType::default);

/// Collations change equality, and `char(n)` pads the other side.
fn refuse_special_strings(field: &Field, name: &[String]) -> Result<()> {
    let special = if field.metadata.contains_key("__COLLATIONS") {
        "has a collation"
    } else {
        match field
            .metadata
            .get("__CHAR_VARCHAR_TYPE_STRING")
            .and_then(serde_json::Value::as_str)
        {
            Some(t) if t.starts_with("char(") => "is of a char type",
            _ => return Ok(()),
        }
    };
    Err(Error::unsupported_expression(format!(
        "the column `{}` {special}, which the embedded engine can't compare as Spark does: use the Spark engine",
        name.join(".")
    )))
}

fn unknown(name: &[String], here: &StructType, part: &str, schema: &StructType) -> Error {
    let full = name.join(".");
    if name.len() > 1 && schema.field_ignore_case(&full).is_some() {
        return Error::invalid_argument(format!(
            "the predicate names the field `{part}` of a struct, but `{full}` is one column: write its name in backticks"
        ));
    }
    let mut near: Vec<(usize, &str)> = here
        .fields()
        .iter()
        .map(|f| (distance(&f.name.to_lowercase(), &part.to_lowercase()), f.name.as_str()))
        .collect();
    near.sort();
    let names: Vec<String> = near.iter().take(3).map(|(_, n)| format!("`{n}`")).collect();
    let advice = if names.is_empty() {
        "there are no fields to name there".to_owned()
    } else {
        format!("did you mean {}?", names.join(", "))
    };
    Error::invalid_argument(format!(
        "the predicate names the column `{full}`, which the table doesn't have: {advice}"
    ))
}

/// Edits between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, pair) in b.iter().zip(row.windows(2)) {
            if let [diagonal, above] = pair {
                left = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
                next.push(left);
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

fn cast(side: Side, ty: Primitive) -> Result<Side> {
    match side {
        Side::Literal(l) => Ok(Side::Literal(l.cast(ty)?)),
        Side::Term(t) => match t.ty() {
            Some(from) if from == ty || loses_nothing(from, ty) => Ok(Side::Term(widened(t, ty))),
            from => Err(Error::unsupported_expression(format!(
                "the predicate casts {} to {ty}, which the embedded engine doesn't do: compare the column itself or use the Spark engine",
                from.map_or_else(|| "a nested column".to_owned(), |from| describe(&t, from))
            ))),
        },
    }
}

fn loses_nothing(from: Primitive, to: Primitive) -> bool {
    let numbers = is_integer(from) && is_integer(to) || is_number(from) && to == Primitive::Double;
    (numbers || from == Primitive::Date) && common_type(from, to) == Some(to)
}

fn membership(arg: &Expr, list: &[Expr], schema: &StructType) -> Result<Node> {
    let mut literals = Vec::with_capacity(list.len());
    for item in list {
        match side(item, schema)? {
            Side::Literal(l) => literals.push(l),
            Side::Term(_) => {
                return Err(Error::unsupported_expression(
                    "the predicate has IN with something other than literals: write comparisons joined by OR, or use the Spark engine",
                ));
            }
        }
    }
    match side(arg, schema)? {
        Side::Term(t) => is_in(&t, literals),
        Side::Literal(l) => {
            let equal = literals.iter().map(|r| l.compare(Op::Eq, r).map(Node::Const));
            Ok(Node::Or(equal.collect::<Result<Vec<_>>>()?))
        }
    }
}

fn like(arg: &Expr, pattern: Pattern, schema: &StructType) -> Result<Node> {
    match side(arg, schema)? {
        Side::Term(t) if t.ty() == Some(Primitive::String) => Ok(match pattern.literal() {
            Some(text) => Node::Compare(t, Op::Eq, Scalar::Text(text.to_owned())),
            None => Node::Like(t, pattern),
        }),
        Side::Literal(Literal::Null) => Ok(Node::Const(None)),
        Side::Literal(Literal::Text(t) | Literal::Untyped(t)) => Ok(Node::Const(Some(pattern.matches(&t)))),
        _ => Err(Error::unsupported_expression(
            "the predicate uses LIKE or startswith on something other than a string column: use the Spark engine",
        )),
    }
}

fn arithmetic(left: Side, sign: Sign, right: Side) -> Result<Side> {
    let (Some(left), Some(right)) = (operand(left)?, operand(right)?) else {
        return Ok(Side::Literal(Literal::Null));
    };
    let ty = match (left.ty(), right.ty()) {
        (Some(l), Some(r)) if is_number(l) && is_number(r) => common_type(l, r),
        _ => None,
    };
    match ty {
        Some(ty) if !matches!(ty, Primitive::Decimal { .. }) => {
            let (l, r) = (Box::new(widened(left, ty)), Box::new(widened(right, ty)));
            Ok(Side::Term(Term::Arithmetic(sign, l, r, ty)))
        }
        _ => Err(Error::unsupported_expression(
            "the predicate uses arithmetic on something other than integers and doubles: compute the value beforehand or use the Spark engine",
        )),
    }
}

fn operand(side: Side) -> Result<Option<Term>> {
    let literal = match side {
        Side::Term(t) => return Ok(Some(t)),
        Side::Literal(l) => l,
    };
    Ok(Some(match literal {
        Literal::Null => return Ok(None),
        Literal::Float(v) => Term::Literal(Scalar::Float(v), Primitive::Float),
        Literal::Double(v) => Term::Literal(Scalar::Double(v), Primitive::Double),
        Literal::Other(s, ty) => Term::Literal(s, ty),
        Literal::Between(_, ty) => {
            return Err(Error::unsupported_expression(format!(
                "the predicate computes with a {ty} of nanoseconds: compare a column with it, or round it to microseconds"
            )));
        }
        Literal::Exact(n, ty) => {
            match exact_range(ty).map(|(s, low, high)| n.fit(s, low, high)) {
                Some(Fit::Exact(v)) if exact_scalar(ty, v).is_some() => exact_scalar(ty, v)
                    .map(|s| Term::Literal(s, ty))
                    .ok_or_else(|| Error::internal("a literal lost its value"))?,
                _ => {
                    return Err(Error::invalid_argument(format!(
                        "the predicate has a number that isn't a {ty}"
                    )));
                }
            }
        }
        Literal::Text(_) | Literal::Untyped(_) => {
            return Err(Error::unsupported_expression(
                "the predicate uses arithmetic on text: write numbers without quotes or use the Spark engine",
            ));
        }
    }))
}
