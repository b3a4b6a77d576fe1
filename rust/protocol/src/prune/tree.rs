//! The predicate in the form for skipping: exact tests on partition values, tests on bounds, and
//! "may match" for everything else. Built once per predicate, evaluated once or twice per batch of
//! files.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar as ArrowScalar, make_comparator};
use arrow::compute::kernels::cmp;
use arrow::compute::{and, not, or, sort};
use arrow::datatypes::{DataType as ArrowType, Float32Type, Float64Type};

use super::bounds::{Bounds, Leaf, LeafBounds};
use super::partitions::{PartitionColumn, Partitions};
use super::{certain, failed};
use crate::expr::node::{Column, Node, Op, Term};
use crate::expr::scalar::{Scalar, exact_range, exact_scalar, is_integer, to_array};
use crate::expr::text::{Fit, Number};
use crate::expr::{Sign, evaluate, normalise_floats, widen};
use crate::features::type_widening::was_float;
use crate::mapping::Mapping;
use crate::schema::{Primitive, StructType};
use crate::{Error, Result};

/// A predicate without negations.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    root: Test,
    /// Parts that only use partition values, so that they are exact.
    exact: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Test {
    Always,
    Never,
    And(Vec<Test>),
    Or(Vec<Test>),
    /// The exact part with this index.
    Exact(usize),
    /// Some row has a value in this leaf.
    HasValue(usize),
    /// Some row is null in this leaf.
    HasNull(usize),
    /// Some value of the leaf, converted, satisfies the comparison with the single value of the
    /// array.
    Compare {
        leaf: usize,
        wide: Option<Primitive>,
        op: Op,
        value: ArrayRef,
    },
    /// Some value of the leaf is in this sorted list.
    In {
        leaf: usize,
        values: ArrayRef,
    },
    /// Some string of the leaf has the prefix.
    Prefix {
        leaf: usize,
        prefix: String,
    },
    /// Some string of the leaf lacks the prefix.
    OtherPrefix {
        leaf: usize,
        prefix: String,
    },
}

/// Statistics of a batch of files.
pub(super) struct Known<'a> {
    pub(super) rows: usize,
    pub(super) exact: &'a [BooleanArray],
    pub(super) bounds: &'a Bounds,
}

/// Collects the columns that the tests need.
pub(super) struct TreeBuilder<'a> {
    schema: &'a StructType,
    mapping: Mapping,
    partition_columns: Vec<String>,
    leaves: Vec<Leaf>,
    partitions: Vec<PartitionColumn>,
    exact: Vec<Node>,
}

impl<'a> TreeBuilder<'a> {
    pub(super) fn new(schema: &'a StructType, partition_columns: &[String], mapping: Mapping) -> Self {
        let partition_columns = partition_columns.iter().map(|p| p.to_lowercase()).collect();
        TreeBuilder {
            schema,
            mapping,
            partition_columns,
            leaves: Vec::new(),
            partitions: Vec::new(),
            exact: Vec::new(),
        }
    }

    /// The tree of a predicate in normal form.
    pub(super) fn build(&mut self, node: &Node) -> Result<Tree> {
        let root = self.test(node)?;
        Ok(Tree {
            root,
            exact: std::mem::take(&mut self.exact),
        })
    }

    pub(super) fn finish(self) -> (Vec<Leaf>, Vec<PartitionColumn>) {
        (self.leaves, self.partitions)
    }

    fn test(&mut self, node: &Node) -> Result<Test> {
        let mut columns = Vec::new();
        node.columns(&mut columns);
        if !columns.is_empty() && columns.iter().all(|c| self.is_partition(c)) {
            return self.exact_part(node, &columns);
        }
        if !matches!(node, Node::And(_) | Node::Or(_)) && columns.iter().any(|c| self.is_partition(c)) {
            return Ok(Test::Always);
        }
        Ok(match node {
            Node::Const(Some(true)) => Test::Always,
            Node::Const(_) => Test::Never,
            Node::And(list) => Test::And(list.iter().map(|n| self.test(n)).collect::<Result<_>>()?),
            Node::Or(list) => Test::Or(list.iter().map(|n| self.test(n)).collect::<Result<_>>()?),
            Node::Known(_, false) => Test::Never,
            Node::Known(t, true) | Node::IsNotNull(t) => self.has_values(t)?,
            Node::IsNull(t) => match t {
                Term::Column(c) if !c.is_struct => Test::HasNull(self.leaf(c)?),
                Term::Widen(inner, _) => return self.test(&Node::IsNull(inner.as_ref().clone())),
                _ => Test::Always,
            },
            Node::Compare(t, op, v) => self.compare(t, *op, v)?,
            Node::CompareTerms(l, _, r) => Test::And(vec![self.has_values(l)?, self.has_values(r)?]),
            Node::In(t, values) => self.is_in(t, values)?,
            Node::Like(Term::Column(c), pattern) => {
                let (prefix, _) = pattern.leading();
                Test::Prefix {
                    leaf: self.leaf(c)?,
                    prefix: prefix.to_owned(),
                }
            }
            Node::Not(inner) => match inner.as_ref() {
                Node::Like(Term::Column(c), pattern) => match pattern.leading() {
                    (prefix, true) => Test::OtherPrefix {
                        leaf: self.leaf(c)?,
                        prefix: prefix.to_owned(),
                    },
                    _ => Test::HasValue(self.leaf(c)?),
                },
                _ => Test::Always,
            },
            Node::Like(..) => Test::Always,
        })
    }

    fn exact_part(&mut self, node: &Node, columns: &[&Column]) -> Result<Test> {
        for c in columns {
            let path = self.physical(c)?;
            let (Some(logical), Some(physical), Some(ty)) = (c.path.first(), path.first(), c.ty) else {
                return Ok(Test::Always);
            };
            let column = PartitionColumn {
                logical: logical.clone(),
                physical: physical.clone(),
                ty,
            };
            if !self.partitions.contains(&column) {
                self.partitions.push(column);
            }
        }
        self.exact.push(node.clone());
        Ok(Test::Exact(self.exact.len() - 1))
    }

    fn is_partition(&self, c: &Column) -> bool {
        matches!(c.path.as_slice(), [name] if self.partition_columns.contains(&name.to_lowercase()))
    }

    fn physical(&self, c: &Column) -> Result<Vec<String>> {
        self.mapping.physical_path(self.schema, &c.path).ok_or_else(|| {
            Error::internal(format!(
                "a predicate with the column `{}` was bound to another schema",
                c.path.join(".")
            ))
        })
    }

    fn leaf(&mut self, c: &Column) -> Result<usize> {
        let leaf = Leaf {
            path: self.physical(c)?,
            ty: c.ty,
            was_float: self.schema.field_at(&c.path).is_some_and(was_float),
        };
        let index = self.leaves.iter().position(|l| *l == leaf);
        Ok(index.unwrap_or_else(|| {
            self.leaves.push(leaf);
            self.leaves.len() - 1
        }))
    }

    /// A test that a row may exist in which the term isn't null: none of its columns is null.
    fn has_values(&mut self, t: &Term) -> Result<Test> {
        let mut columns = Vec::new();
        t.columns(&mut columns);
        let tests = columns
            .into_iter()
            .filter(|c| !c.is_struct)
            .map(|c| Ok(Test::HasValue(self.leaf(c)?)));
        Ok(Test::And(tests.collect::<Result<_>>()?))
    }

    fn compare(&mut self, t: &Term, op: Op, v: &Scalar) -> Result<Test> {
        match t {
            Term::Column(c) => self.compare_column(c, None, op, v),
            Term::Widen(inner, ty) => match inner.as_ref() {
                Term::Column(c) => self.compare_column(c, Some(*ty), op, v),
                _ => self.has_values(t),
            },
            Term::Arithmetic(..) => match solve(t, op, v) {
                Some(node) => self.test(&node),
                None => self.has_values(t),
            },
            Term::Literal(..) => Ok(Test::Always),
        }
    }

    fn compare_column(&mut self, c: &Column, wide: Option<Primitive>, op: Op, v: &Scalar) -> Result<Test> {
        let Some(ty) = wide.or(c.ty) else {
            return Ok(Test::Always);
        };
        let value = normalise_floats(v.to_array(ty)?);
        Ok(Test::Compare {
            leaf: self.leaf(c)?,
            wide,
            op,
            value,
        })
    }

    fn is_in(&mut self, t: &Term, values: &[Scalar]) -> Result<Test> {
        let Term::Column(c) = t else {
            let parts = values.iter().map(|v| self.compare(t, Op::Eq, v));
            return Ok(Test::Or(parts.collect::<Result<_>>()?));
        };
        let Some(ty) = c.ty else { return Ok(Test::Always) };
        let values = normalise_floats(to_array(values.iter().map(Some), ty)?);
        Ok(Test::In {
            leaf: self.leaf(c)?,
            values: sort(&values, None).map_err(failed)?,
        })
    }
}

/// `column + k op v` as a test on the column. Rows that overflow are errors, so exact arithmetic
/// suffices.
fn solve(t: &Term, op: Op, v: &Scalar) -> Option<Node> {
    let Term::Arithmetic(sign, l, r, _) = t else {
        return None;
    };
    let Scalar::Integer(v) = v else { return None };
    let (column, k, flipped) = match (constant(l), constant(r)) {
        (None, Some(k)) => (narrow(l)?, k, false),
        (Some(k), None) => (narrow(r)?, k, true),
        _ => return None,
    };
    let (v, k) = (i128::from(*v), i128::from(k));
    let (op, bound) = match (sign, flipped) {
        (Sign::Plus, _) => (op, v - k),
        (Sign::Minus, false) => (op, v + k),
        (Sign::Minus, true) => (op.flip(), k - v),
        (Sign::Times, _) => return None,
    };
    let ty = column.ty?;
    let (_, low, high) = exact_range(ty)?;
    let term = Term::Column(column.clone());
    let number = Number {
        unscaled: bound,
        scale: 0,
        significant: 0,
        exponent: false,
    };
    Some(match number.fit(0, low, high) {
        Fit::Exact(b) => Node::Compare(term, op, exact_scalar(ty, b)?),
        Fit::Above => Node::Known(term, matches!(op, Op::Ne | Op::Lt | Op::Le)),
        Fit::Below | Fit::After(_) => Node::Known(term, matches!(op, Op::Ne | Op::Gt | Op::Ge)),
    })
}

/// The integer literal under integer widenings.
fn constant(t: &Term) -> Option<i64> {
    match t {
        Term::Literal(Scalar::Integer(k), _) => Some(*k),
        Term::Widen(inner, ty) if is_integer(*ty) => constant(inner),
        _ => None,
    }
}

/// The integer column under integer widenings.
fn narrow(t: &Term) -> Option<&Column> {
    match t {
        Term::Column(c) if c.ty.is_some_and(is_integer) => Some(c),
        Term::Widen(inner, ty) if is_integer(*ty) => narrow(inner),
        _ => None,
    }
}

impl Tree {
    /// For each exact part the files that may match it.
    pub(super) fn evaluate_exact(&self, partitions: &Partitions, rows: usize) -> Result<Vec<BooleanArray>> {
        let unknown = not(&partitions.known).map_err(failed)?;
        let part = |node: &Node| {
            if partitions.known.true_count() == 0 {
                return Ok(all(rows, true));
            }
            let truth = certain(&evaluate(node, &partitions.batch)?);
            or(&truth, &unknown).map_err(failed)
        };
        self.exact.iter().map(part).collect()
    }

    /// The files that may hold a row for which the predicate is TRUE.
    pub(super) fn may_match(&self, known: &Known<'_>) -> Result<BooleanArray> {
        self.root.may_match(known)
    }
}

fn all(rows: usize, v: bool) -> BooleanArray {
    BooleanArray::from(vec![v; rows])
}

impl Test {
    fn may_match(&self, known: &Known<'_>) -> Result<BooleanArray> {
        let leaf = |i: usize| {
            known
                .bounds
                .leaves
                .get(i)
                .ok_or_else(|| Error::internal("a test without its leaf"))
        };
        let unless = |dropped: BooleanArray| not(&certain(&dropped)).map_err(failed);
        match self {
            Test::Always => Ok(all(known.rows, true)),
            Test::Never => Ok(all(known.rows, false)),
            Test::And(list) => list.iter().try_fold(all(known.rows, true), |mask, t| {
                and(&mask, &t.may_match(known)?).map_err(failed)
            }),
            Test::Or(list) => list.iter().try_fold(all(known.rows, false), |mask, t| {
                or(&mask, &t.may_match(known)?).map_err(failed)
            }),
            Test::Exact(i) => known
                .exact
                .get(*i)
                .cloned()
                .ok_or_else(|| Error::internal("a test without its values")),
            Test::HasValue(i) => unless(leaf(*i)?.all_null.clone()),
            Test::HasNull(i) => unless(leaf(*i)?.no_null.clone()),
            Test::Compare {
                leaf: i,
                wide,
                op,
                value,
            } => unless(excluded(leaf(*i)?, *wide, *op, value)?),
            Test::In { leaf: i, values } => unless(none_between(leaf(*i)?, values)?),
            Test::Prefix { leaf: i, prefix } => unless(no_prefix(leaf(*i)?, prefix)?),
            Test::OtherPrefix { leaf: i, prefix } => unless(only_prefix(leaf(*i)?, prefix)?),
        }
    }
}

/// Files in which no value can satisfy the comparison.
fn excluded(leaf: &LeafBounds, wide: Option<Primitive>, op: Op, value: &ArrayRef) -> Result<BooleanArray> {
    let all_null = &leaf.all_null;
    if *leaf.min.data_type() == ArrowType::Null {
        return Ok(all_null.clone());
    }
    let floats = leaf.min.data_type().is_floating();
    let (min, max) = match wide {
        Some(ty) => (widen(&leaf.min, ty)?, widen(&leaf.max, ty)?),
        None => (leaf.min.clone(), leaf.max.clone()),
    };
    let value = ArrowScalar::new(value.clone());
    let above = |a: &ArrayRef| cmp::gt(a, &value).map(|m| certain(&m)).map_err(failed);
    let at_or_above = |a: &ArrayRef| cmp::gt_eq(a, &value).map(|m| certain(&m)).map_err(failed);
    let below = |a: &ArrayRef| cmp::lt(a, &value).map(|m| certain(&m)).map_err(failed);
    let at_or_below = |a: &ArrayRef| cmp::lt_eq(a, &value).map(|m| certain(&m)).map_err(failed);
    // P168, Q4: a float maximum doesn't bound NaN, the greatest value.
    let nan = is_nan(&value)?;
    let dropped = match op {
        Op::Lt => at_or_above(&min)?,
        Op::Le => above(&min)?,
        Op::Gt | Op::Ge | Op::Ne if floats => return Ok(all_null.clone()),
        Op::Eq if floats && nan => return Ok(all_null.clone()),
        Op::Gt => at_or_below(&max)?,
        Op::Ge => below(&max)?,
        Op::Eq => or(&above(&min)?, &below(&max)?).map_err(failed)?,
        Op::Ne => and(&at_or_above(&min)?, &at_or_below(&max)?).map_err(failed)?,
    };
    or(all_null, &dropped).map_err(failed)
}

fn is_nan(value: &ArrowScalar<ArrayRef>) -> Result<bool> {
    let (array, _) = value.get();
    let double = array
        .as_primitive_opt::<Float64Type>()
        .is_some_and(|a| a.iter().flatten().any(f64::is_nan));
    let float = array
        .as_primitive_opt::<Float32Type>()
        .is_some_and(|a| a.iter().flatten().any(f32::is_nan));
    Ok(double || float)
}

/// Files whose range contains no value of a sorted list.
fn none_between(leaf: &LeafBounds, values: &ArrayRef) -> Result<BooleanArray> {
    let nan = is_nan(&ArrowScalar::new(values.slice(values.len().saturating_sub(1), 1)))?;
    if nan || *leaf.min.data_type() == ArrowType::Null {
        return Ok(leaf.all_null.clone());
    }
    let options = arrow::compute::SortOptions::default();
    let with_min = make_comparator(values, &leaf.min, options).map_err(failed)?;
    let with_max = make_comparator(values, &leaf.max, options).map_err(failed)?;
    let outside = |row: usize| {
        let (mut from, mut until) = (0, if leaf.min.is_valid(row) { values.len() } else { 0 });
        while from < until {
            let middle = (from + until) / 2;
            if with_min(middle, row).is_lt() {
                from = middle + 1
            } else {
                until = middle
            }
        }
        from == values.len() || (leaf.max.is_valid(row) && with_max(from, row).is_gt())
    };
    let dropped: BooleanArray = (0..leaf.min.len()).map(|row| Some(outside(row))).collect();
    or(&leaf.all_null, &dropped).map_err(failed)
}

fn per_file(leaf: &LeafBounds, outside: impl Fn(Option<&str>, Option<&str>) -> bool) -> Result<BooleanArray> {
    let (Some(min), Some(max)) = (leaf.min.as_string_opt::<i32>(), leaf.max.as_string_opt::<i32>()) else {
        return Ok(leaf.all_null.clone());
    };
    let dropped: BooleanArray = min
        .iter()
        .zip(max.iter())
        .map(|(min, max)| Some(outside(min, max)))
        .collect();
    or(&leaf.all_null, &dropped).map_err(failed)
}

/// Files in which no string has the prefix; a truncated minimum is still below its value.
fn no_prefix(leaf: &LeafBounds, prefix: &str) -> Result<BooleanArray> {
    per_file(leaf, |min, max| {
        max.is_some_and(|max| max < prefix) || min.is_some_and(|min| min > prefix && !min.starts_with(prefix))
    })
}

/// Files in which all strings have the prefix: strings between two with the prefix have it too.
fn only_prefix(leaf: &LeafBounds, prefix: &str) -> Result<BooleanArray> {
    let has = |bound: Option<&str>| bound.is_some_and(|b| b.starts_with(prefix));
    per_file(leaf, |min, max| has(min) && has(max))
}
