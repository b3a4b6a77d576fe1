//! Bound predicates: columns resolved to exact paths and types, literals converted to them. Owns
//! the tree and its negation normal form; `bind` creates it, `evaluate` and `prune` read it.

use super::Sign;
use super::like::Pattern;
use super::scalar::Scalar;
use crate::schema::Primitive;

/// A column or a leaf of a struct column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Logical names in the schema's case.
    pub(crate) path: Vec<String>,
    /// Its type; `None` for structs, arrays and maps, which only `IS NULL` accepts.
    pub(crate) ty: Option<Primitive>,
    /// Structs have no null count of their own.
    pub(crate) is_struct: bool,
}

/// A value per row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    Column(Column),
    Literal(Scalar, Primitive),
    /// A conversion that keeps order and never fails.
    Widen(Box<Term>, Primitive),
    /// Arithmetic of two terms of this same type, checked for overflow.
    Arithmetic(Sign, Box<Term>, Box<Term>, Primitive),
}

impl Term {
    pub(crate) fn ty(&self) -> Option<Primitive> {
        match self {
            Term::Column(c) => c.ty,
            Term::Literal(_, ty) | Term::Widen(_, ty) | Term::Arithmetic(.., ty) => Some(*ty),
        }
    }

    pub(crate) fn columns<'a>(&'a self, out: &mut Vec<&'a Column>) {
        match self {
            Term::Column(c) => out.push(c),
            Term::Literal(..) => {}
            Term::Widen(t, _) => t.columns(out),
            Term::Arithmetic(_, l, r, _) => {
                l.columns(out);
                r.columns(out);
            }
        }
    }
}

/// A comparison operator; `<=>` is bound to a combination of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    /// The operator with the sides exchanged.
    pub(crate) fn flip(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::Le => Op::Ge,
            Op::Gt => Op::Lt,
            Op::Ge => Op::Le,
            same => same,
        }
    }

    /// The operator that is TRUE where this one is FALSE; also correct for NaN, since Spark's order
    /// is total.
    pub(crate) fn negate(self) -> Op {
        match self {
            Op::Eq => Op::Ne,
            Op::Ne => Op::Eq,
            Op::Lt => Op::Ge,
            Op::Le => Op::Gt,
            Op::Gt => Op::Le,
            Op::Ge => Op::Lt,
        }
    }

    /// The result for an ordering of left and right.
    pub(crate) fn of(self, o: std::cmp::Ordering) -> bool {
        match self {
            Op::Eq => o.is_eq(),
            Op::Ne => o.is_ne(),
            Op::Lt => o.is_lt(),
            Op::Le => o.is_le(),
            Op::Gt => o.is_gt(),
            Op::Ge => o.is_ge(),
        }
    }
}

/// A three-valued truth per row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Const(Option<bool>),
    /// This truth value where the term isn't null: the result of a comparison with a value outside
    /// the type's range.
    Known(Term, bool),
    /// The scalar is of the term's type.
    Compare(Term, Op, Scalar),
    /// Both terms are of the same type.
    CompareTerms(Term, Op, Term),
    IsNull(Term),
    IsNotNull(Term),
    /// The scalars are of the term's type.
    In(Term, Vec<Scalar>),
    Like(Term, Pattern),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

impl Node {
    pub(crate) fn columns<'a>(&'a self, out: &mut Vec<&'a Column>) {
        match self {
            Node::Const(_) => {}
            Node::Known(t, _)
            | Node::Compare(t, ..)
            | Node::IsNull(t)
            | Node::IsNotNull(t)
            | Node::In(t, _)
            | Node::Like(t, _) => {
                t.columns(out);
            }
            Node::CompareTerms(l, _, r) => {
                l.columns(out);
                r.columns(out);
            }
            Node::Not(n) => n.columns(out),
            Node::And(list) | Node::Or(list) => list.iter().for_each(|n| n.columns(out)),
        }
    }

    /// The same three-valued truth with negations pushed down; only LIKE keeps one above it.
    pub(crate) fn normal_form(&self) -> Node {
        self.push_down(false)
    }

    fn push_down(&self, negated: bool) -> Node {
        if !negated {
            return match self {
                Node::Not(n) => n.push_down(true),
                Node::And(list) => Node::And(list.iter().map(|n| n.push_down(false)).collect()),
                Node::Or(list) => Node::Or(list.iter().map(|n| n.push_down(false)).collect()),
                leaf => leaf.clone(),
            };
        }
        match self {
            Node::Const(v) => Node::Const(v.map(|b| !b)),
            Node::Known(t, v) => Node::Known(t.clone(), !v),
            Node::Compare(t, op, v) => Node::Compare(t.clone(), op.negate(), v.clone()),
            Node::CompareTerms(l, op, r) => Node::CompareTerms(l.clone(), op.negate(), r.clone()),
            Node::IsNull(t) => Node::IsNotNull(t.clone()),
            Node::IsNotNull(t) => Node::IsNull(t.clone()),
            Node::In(t, values) => Node::And(
                values
                    .iter()
                    .map(|v| Node::Compare(t.clone(), Op::Ne, v.clone()))
                    .collect(),
            ),
            Node::Like(..) => Node::Not(Box::new(self.clone())),
            Node::Not(n) => n.push_down(false),
            Node::And(list) => Node::Or(list.iter().map(|n| n.push_down(true)).collect()),
            Node::Or(list) => Node::And(list.iter().map(|n| n.push_down(true)).collect()),
        }
    }
}
