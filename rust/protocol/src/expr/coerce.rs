//! Comparisons of two values of different types as in Spark 4 with ANSI mode: which side is
//! converted, and the result if a literal can't be a value of the column's type.

use super::Comparison;
use super::literal::{Literal, malformed};
use super::node::{Node, Op, Term};
use super::scalar::{Scalar, exact_range, exact_scalar, is_integer};
use super::text::{DAY_US, Fit, Number, has_nanoseconds, unescape_bytes};
use crate::schema::Primitive;
use crate::{Error, Result};

/// One side of a comparison.
#[derive(Debug, Clone)]
pub(crate) enum Side {
    Literal(Literal),
    Term(Term),
}

/// The position of a literal among the values of a term's type.
enum Place {
    At(Scalar),
    After(Scalar),
    Above,
    Below,
}

/// The node of a comparison.
pub(crate) fn compare(left: Side, cmp: Comparison, right: Side) -> Result<Node> {
    let op = match cmp {
        Comparison::Eq => Op::Eq,
        Comparison::Ne => Op::Ne,
        Comparison::Lt => Op::Lt,
        Comparison::Le => Op::Le,
        Comparison::Gt => Op::Gt,
        Comparison::Ge => Op::Ge,
        Comparison::NullSafeEq => return null_safe(left, right),
    };
    match (left, right) {
        (Side::Literal(l), Side::Literal(r)) => Ok(Node::Const(l.compare(op, &r)?)),
        (Side::Literal(l), Side::Term(r)) => with_literal(r, op.flip(), l),
        (Side::Term(l), Side::Literal(r)) => with_literal(l, op, r),
        (Side::Term(l), Side::Term(r)) => terms(l, op, r),
    }
}

fn null_safe(left: Side, right: Side) -> Result<Node> {
    match (left, right) {
        (Side::Literal(Literal::Null), Side::Literal(Literal::Null)) => Ok(Node::Const(Some(true))),
        (Side::Literal(Literal::Null), Side::Term(t)) | (Side::Term(t), Side::Literal(Literal::Null)) => {
            Ok(Node::IsNull(t))
        }
        (Side::Literal(l), Side::Literal(r)) => Ok(Node::Const(Some(l.compare(Op::Eq, &r)?.unwrap_or(false)))),
        (Side::Term(t), Side::Literal(l)) | (Side::Literal(l), Side::Term(t)) => {
            Ok(Node::And(vec![Node::IsNotNull(t.clone()), with_literal(t, Op::Eq, l)?]))
        }
        (Side::Term(l), Side::Term(r)) => {
            let both = Node::And(vec![Node::IsNull(l.clone()), Node::IsNull(r.clone())]);
            let neither = vec![
                Node::IsNotNull(l.clone()),
                Node::IsNotNull(r.clone()),
                terms(l, Op::Eq, r)?,
            ];
            Ok(Node::Or(vec![both, Node::And(neither)]))
        }
    }
}

/// The node of `term IN (literals)`.
pub(crate) fn is_in(term: &Term, list: Vec<Literal>) -> Result<Node> {
    // Spark converts all sides to one type: one double makes every number a double.
    let inexact = list.iter().any(|l| matches!(l, Literal::Float(_) | Literal::Double(_)));
    let (mut values, mut others) = (Vec::new(), Vec::new());
    for literal in list {
        let literal = match literal.to_f64() {
            Some(v) if inexact && !matches!(literal, Literal::Float(_)) => Literal::Double(v),
            _ => literal,
        };
        match with_literal(term.clone(), Op::Eq, literal)? {
            Node::Compare(t, Op::Eq, v) if t == *term => values.push(v),
            // An equality that is never true only depends on whether the term is null.
            Node::Known(_, false) => {}
            other => others.push(other),
        }
    }
    others.insert(
        0,
        if values.is_empty() {
            Node::Known(term.clone(), false)
        } else {
            Node::In(term.clone(), values)
        },
    );
    Ok(Node::Or(others))
}

fn with_literal(term: Term, op: Op, literal: Literal) -> Result<Node> {
    let Some(ty) = term.ty() else {
        return Err(not_comparable(&term));
    };
    if literal == Literal::Null || ty == Primitive::Void {
        return Ok(Node::Const(None));
    }
    let (term, place) = place(term, ty, literal)?;
    Ok(match (place, op) {
        (Place::At(v), _) => Node::Compare(term, op, v),
        (_, Op::Eq) => Node::Known(term, false),
        (_, Op::Ne) => Node::Known(term, true),
        (Place::After(v), Op::Lt | Op::Le) => Node::Compare(term, Op::Le, v),
        (Place::After(v), Op::Gt | Op::Ge) => Node::Compare(term, Op::Gt, v),
        (Place::Above, Op::Lt | Op::Le) | (Place::Below, Op::Gt | Op::Ge) => Node::Known(term, true),
        (Place::Above | Place::Below, _) => Node::Known(term, false),
    })
}

fn place(term: Term, ty: Primitive, literal: Literal) -> Result<(Term, Place)> {
    match (&literal, ty) {
        (_, Primitive::Variant) => Err(not_comparable(&term)),
        (Literal::Between(micros, _), Primitive::Timestamp | Primitive::TimestampNtz) => {
            Ok((term, Place::After(Scalar::Timestamp(*micros))))
        }
        (Literal::Between(micros, type_of_term), Primitive::Date) => {
            Ok((widened(term, *type_of_term), Place::After(Scalar::Timestamp(*micros))))
        }
        (Literal::Untyped(t), Primitive::Timestamp | Primitive::TimestampNtz) if has_nanoseconds(t) => {
            let (term, place) = untyped(term, ty, t)?;
            Ok(match place {
                Place::At(micros) => (term, Place::After(micros)),
                other => (term, other),
            })
        }
        (Literal::Untyped(t), _) => untyped(term, ty, t),
        (Literal::Text(t), _) => promoted(term, ty, t),
        (Literal::Exact(n, _), _) if exact_range(ty).is_some() => Ok((term, exact(*n, ty)?)),
        (Literal::Float(v), Primitive::Float) => Ok((term, Place::At(Scalar::Float(*v)))),
        (Literal::Exact(..) | Literal::Float(_) | Literal::Double(_), _) if is_number(ty) => {
            let v = literal.to_f64().ok_or_else(|| refused(&term, ty, &literal))?;
            Ok((widened(term, Primitive::Double), Place::At(Scalar::Double(v))))
        }
        (Literal::Other(s, type_of_term), _) if *type_of_term == ty => Ok((term, Place::At(s.clone()))),
        (Literal::Other(Scalar::Date(d), _), Primitive::Timestamp | Primitive::TimestampNtz) => {
            Ok((term, Place::At(Scalar::Timestamp(i64::from(*d).saturating_mul(DAY_US)))))
        }
        (Literal::Other(s @ Scalar::Timestamp(_), type_of_term), Primitive::Date) => {
            Ok((widened(term, *type_of_term), Place::At(s.clone())))
        }
        // The session's zone is UTC, so both have the same microseconds.
        (Literal::Other(s @ Scalar::Timestamp(_), _), Primitive::Timestamp | Primitive::TimestampNtz) => {
            Ok((term, Place::At(s.clone())))
        }
        _ => Err(refused(&term, ty, &literal)),
    }
}

fn refused(term: &Term, ty: Primitive, literal: &Literal) -> Error {
    Error::unsupported_expression(format!(
        "the predicate compares {} with a {} literal: write a literal of the column's type{} or use the Spark engine",
        describe(term, ty),
        literal.type_name(),
        if ty == Primitive::String {
            " (put it in quotes)"
        } else {
            ""
        }
    ))
}

/// A string that represents a value of the column's own type.
fn untyped(term: Term, ty: Primitive, text: &str) -> Result<(Term, Place)> {
    let bad = || malformed(text, describe(&term, ty));
    if exact_range(ty).is_some() {
        let place = exact(Number::parse(text).ok_or_else(bad)?, ty)?;
        return Ok((term, place));
    }
    let scalar = match ty {
        // In the log's format of binary partition values, which is also displayed (P170).
        Primitive::Binary => Scalar::Binary(unescape_bytes(text)),
        _ => Scalar::parse(text, ty).ok_or_else(bad)?,
    };
    Ok((term, Place::At(scalar)))
}

/// A string in SQL: Spark converts it to a long beside integers, to a double beside other numbers.
fn promoted(term: Term, ty: Primitive, text: &str) -> Result<(Term, Place)> {
    let refused = || refused(&term, ty, &Literal::Text(text.to_owned()));
    let bad = |ty: Primitive| malformed(text, ty);
    match ty {
        _ if is_integer(ty) => {
            let v: i64 = text.trim().parse().map_err(|_| bad(Primitive::Long))?;
            Ok((term, exact(Number::whole(v), ty)?))
        }
        Primitive::Decimal { precision, .. } => match Number::parse(text) {
            // With up to 15 digits a double distinguishes all decimals, so the exact comparison
            // equals Spark's.
            Some(n) if precision <= 15 && n.significant <= 15 => Ok((term, exact(n, ty)?)),
            Some(_) => Err(refused()),
            None if text.trim().parse::<f64>().is_ok() => Err(refused()),
            None => Err(Error::invalid_argument(format!(
                "the predicate compares the {} with '{text}', which isn't a number: write a number, or compare a column of text",
                describe(&term, ty)
            ))),
        },
        Primitive::Float | Primitive::Double => {
            let v = text.trim().parse().map_err(|_| bad(Primitive::Double))?;
            Ok((widened(term, Primitive::Double), Place::At(Scalar::Double(v))))
        }
        _ => untyped(term, ty, text),
    }
}

fn exact(n: Number, ty: Primitive) -> Result<Place> {
    let lost = || Error::internal(format!("a number doesn't fit {ty} as computed: report this predicate"));
    let (scale, low, high) = exact_range(ty).ok_or_else(lost)?;
    let scalar = |v| exact_scalar(ty, v).ok_or_else(lost);
    Ok(match n.fit(scale, low, high) {
        Fit::Exact(v) => Place::At(scalar(v)?),
        Fit::After(v) => Place::After(scalar(v)?),
        Fit::Above => Place::Above,
        Fit::Below => Place::Below,
    })
}

fn terms(left: Term, op: Op, right: Term) -> Result<Node> {
    let (Some(l), Some(r)) = (left.ty(), right.ty()) else {
        return Err(not_comparable(if left.ty().is_none() { &left } else { &right }));
    };
    if l == Primitive::Void || r == Primitive::Void {
        return Ok(Node::Const(None));
    }
    if l == Primitive::Variant || r == Primitive::Variant {
        return Err(not_comparable(if l == Primitive::Variant { &left } else { &right }));
    }
    let Some(ty) = common_type(l, r) else {
        return Err(Error::unsupported_expression(format!(
            "the predicate compares {} with {}: compare columns of one type or use the Spark engine",
            describe(&left, l),
            describe(&right, r)
        )));
    };
    Ok(Node::CompareTerms(widened(left, ty), op, widened(right, ty)))
}

pub(crate) fn is_number(ty: Primitive) -> bool {
    exact_range(ty).is_some() || matches!(ty, Primitive::Float | Primitive::Double)
}

/// The type to which Spark converts both, if the conversion loses nothing that Spark keeps.
pub(crate) fn common_type(l: Primitive, r: Primitive) -> Option<Primitive> {
    let rank = |t: Primitive| match t {
        Primitive::Byte => 0,
        Primitive::Short => 1,
        Primitive::Integer => 2,
        _ => 3,
    };
    let is_time = |t| matches!(t, Primitive::Date | Primitive::Timestamp | Primitive::TimestampNtz);
    let is_float = |t| matches!(t, Primitive::Float | Primitive::Double);
    if l == r {
        Some(l)
    } else if is_integer(l) && is_integer(r) {
        Some(if rank(l) >= rank(r) { l } else { r })
    } else if is_number(l) && is_number(r) && (is_float(l) || is_float(r)) {
        Some(Primitive::Double)
    } else if is_time(l) && is_time(r) {
        let both = [l, r];
        Some(if both.contains(&Primitive::Timestamp) {
            Primitive::Timestamp
        } else {
            Primitive::TimestampNtz
        })
    } else {
        None
    }
}

/// The term in a wider type.
pub(crate) fn widened(term: Term, ty: Primitive) -> Term {
    if term.ty() == Some(ty) {
        term
    } else {
        Term::Widen(Box::new(term), ty)
    }
}

/// A term for messages.
pub(crate) fn describe(term: &Term, ty: Primitive) -> String {
    match term {
        Term::Column(c) => format!("{ty} column `{}`", c.path.join(".")),
        Term::Widen(t, _) => describe(t, t.ty().unwrap_or(ty)),
        Term::Literal(..) | Term::Arithmetic(..) => format!("{ty} value"),
    }
}

fn not_comparable(term: &Term) -> Error {
    let mut columns = Vec::new();
    term.columns(&mut columns);
    let name = columns.first().map(|c| c.path.join(".")).unwrap_or_default();
    Error::invalid_argument(format!(
        "the predicate compares the column `{name}`, whose type has no order: compare one of its fields, or use IS NULL"
    ))
}
