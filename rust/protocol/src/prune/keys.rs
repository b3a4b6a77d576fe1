//! Equality in predicates: which columns a matching row must have one of which values in, so that
//! an index of keys can tell the files; and the files that such an index excludes from a plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};

use crate::Result;
use crate::expr::node::{Node, Op, Term};
use crate::expr::scalar::is_integer;
use crate::expr::{Predicate, Scalar};
use crate::files::rows::FileRows;
use crate::mapping::Mapping;
use crate::paths;
use crate::schema::{Primitive, StructType};

/// A necessary condition of matching rows, by equality alone.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyTest {
    /// Every row may match.
    Any,
    /// A matching row has one of these values in this top-level column.
    OneOf {
        /// The column's name in files.
        column: String,
        /// Its type in the table.
        ty: Primitive,
        /// The values, none of which is null.
        values: Vec<Scalar>,
    },
    /// A matching row meets all of these.
    All(Vec<KeyTest>),
    /// A matching row meets one of these.
    Either(Vec<KeyTest>),
}

impl KeyTest {
    /// The test of a predicate that was bound to this schema, whose columns files name by
    /// `mapping`.
    pub fn of(predicate: &Predicate, schema: &StructType, mapping: Mapping) -> KeyTest {
        Self::of_node(&predicate.node().normal_form(), schema, mapping)
    }

    fn of_node(node: &Node, schema: &StructType, mapping: Mapping) -> KeyTest {
        let all = |list: &[Node]| list.iter().map(|n| Self::of_node(n, schema, mapping)).collect();
        match node {
            Node::And(list) => KeyTest::All(all(list)),
            Node::Or(list) => KeyTest::Either(all(list)),
            Node::Compare(term, Op::Eq, value) => Self::one_of(term, std::slice::from_ref(value), schema, mapping),
            Node::In(term, values) => Self::one_of(term, values, schema, mapping),
            _ => KeyTest::Any,
        }
    }

    fn one_of(term: &Term, values: &[Scalar], schema: &StructType, mapping: Mapping) -> KeyTest {
        let column = match term {
            Term::Column(column) => column,
            // An integer equals its wider form, by value.
            Term::Widen(inner, wide) if is_integer(*wide) => match inner.as_ref() {
                Term::Column(column) if column.ty.is_some_and(is_integer) => column,
                _ => return KeyTest::Any,
            },
            _ => return KeyTest::Any,
        };
        let ([_], Some(ty)) = (column.path.as_slice(), column.ty) else {
            return KeyTest::Any;
        };
        match mapping.physical_path(schema, &column.path).as_deref() {
            Some([physical]) => KeyTest::OneOf {
                column: physical.clone(),
                ty,
                values: values.to_vec(),
            },
            _ => KeyTest::Any,
        }
    }

    /// Calls a function with each column and its values, in a fixed order.
    pub fn for_each<'t>(&'t self, visit: &mut impl FnMut(&'t str, Primitive, &'t [Scalar])) {
        match self {
            KeyTest::Any => {}
            KeyTest::OneOf { column, ty, values } => visit(column, *ty, values),
            KeyTest::All(list) | KeyTest::Either(list) => list.iter().for_each(|t| t.for_each(visit)),
        }
    }

    /// The files without a matching row, where `absent` gives those without any of a column's
    /// values, in the order of [`for_each`](Self::for_each); `None` if nothing is known.
    pub fn absent(&self, absent: &mut impl FnMut() -> Option<AbsentFiles>) -> Option<AbsentFiles> {
        match self {
            KeyTest::Any => None,
            KeyTest::OneOf { .. } => absent(),
            KeyTest::All(list) => {
                let known: Vec<_> = list.iter().map(|t| t.absent(absent)).collect();
                let known: Vec<_> = known.into_iter().flatten().collect();
                (!known.is_empty()).then_some(AbsentFiles::InAny(known))
            }
            KeyTest::Either(list) => {
                // All are asked, since each takes its turn.
                let known: Vec<_> = list.iter().map(|t| t.absent(absent)).collect();
                let known: Option<Vec<_>> = known.into_iter().collect();
                known.filter(|k| !k.is_empty()).map(AbsentFiles::InAll)
            }
        }
    }
}

/// The files that a part of an index covers: number and size in bytes by decoded path.
#[derive(Debug, Default)]
pub struct CoveredFiles {
    by_path: HashMap<Box<str>, (u32, i64)>,
}

impl FromIterator<(String, i64)> for CoveredFiles {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(files: I) -> Self {
        let numbered = files.into_iter().zip(0_u32..);
        CoveredFiles {
            by_path: numbered.map(|((path, size), n)| (path.into(), (n, size))).collect(),
        }
    }
}

impl CoveredFiles {
    /// The number of the file with this path, if it is covered with this size.
    pub fn number(&self, path: &str, size: i64) -> Option<u32> {
        self.by_path
            .get(path)
            .filter(|(_, s)| *s == size)
            .map(|(number, _)| *number)
    }

    /// Path, number and size of each file, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32, i64)> {
        self.by_path
            .iter()
            .map(|(path, (number, size))| (&**path, *number, *size))
    }

    /// How many files.
    pub fn len(&self) -> usize {
        self.by_path.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }
}

/// Files that certainly have no matching row.
#[derive(Debug, Clone)]
pub enum AbsentFiles {
    /// The covered files except these.
    Unmatched(Arc<CoveredFiles>, HashSet<u32>),
    /// The files in any of these sets.
    InAny(Vec<AbsentFiles>),
    /// The files in all of these sets.
    InAll(Vec<AbsentFiles>),
}

impl AbsentFiles {
    /// Whether the file with this decoded path and size is among them.
    pub fn has(&self, path: &str, size: i64) -> bool {
        match self {
            AbsentFiles::Unmatched(covered, matched) => covered
                .number(path, size)
                .is_some_and(|number| !matched.contains(&number)),
            AbsentFiles::InAny(sets) => sets.iter().any(|set| set.has(path, size)),
            AbsentFiles::InAll(sets) => sets.iter().all(|set| set.has(path, size)),
        }
    }

    /// A mask of files without these. A batch without the columns `path` and `size` keeps its
    /// files.
    pub(super) fn without(&self, files: &RecordBatch, mask: BooleanArray) -> Result<BooleanArray> {
        if ["path", "size"].iter().any(|name| files.column_by_name(name).is_none()) {
            return Ok(mask);
        }
        let rows = FileRows::new(files);
        let keep = |(row, may): (usize, bool)| -> Result<bool> {
            Ok(may && !self.has(&paths::decoded(rows.path(row)?)?, rows.size(row)))
        };
        let mask: Result<Vec<bool>> = mask.values().iter().enumerate().map(keep).collect();
        Ok(BooleanArray::from(mask?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;
    use crate::expr::Expr;
    use crate::schema::Field;

    fn schema() -> StructType {
        StructType::new(vec![
            Field::new("a", Primitive::Integer, true),
            Field::new("b", Primitive::String, true),
        ])
    }

    fn test_of(json: &str) -> KeyTest {
        let predicate = Predicate::bind(&Expr::from_json(json).unwrap(), &schema()).unwrap();
        KeyTest::of(&predicate, &schema(), Mapping::None)
    }

    fn equal(column: &str, value: &str, ty: &str) -> String {
        format!(
            r#"{{"op":"compare","cmp":"=","left":{{"op":"column","name":["{column}"]}},"right":{{"op":"literal","value":"{value}","type":"{ty}"}}}}"#
        )
    }

    fn covered() -> Arc<CoveredFiles> {
        Arc::new(
            [("x y", 1), ("f1", 2), ("f2", 3)]
                .map(|(p, s)| (p.to_owned(), s))
                .into_iter()
                .collect(),
        )
    }

    #[test]
    fn equality_and_lists_are_required_values() {
        let a = test_of(&equal("A", "7", "long"));
        let one_of = |column: &str, ty, values| KeyTest::OneOf {
            column: column.to_owned(),
            ty,
            values,
        };
        assert_eq!(a, one_of("a", Primitive::Integer, vec![Scalar::Integer(7)]));
        let text = r#"{"op":"in","arg":{"op":"column","name":["b"]},"list":[{"op":"literal","value":"u","type":"string"},{"op":"literal","value":"v","type":"string"}]}"#;
        let values = ["u", "v"].map(|t| Scalar::Text(t.to_owned())).to_vec();
        let either = KeyTest::Either(vec![one_of("b", Primitive::String, values)]);
        assert_eq!(test_of(text), either);
        let negated = format!(r#"{{"op":"not","arg":{}}}"#, equal("a", "7", "long"));
        assert_eq!(test_of(&negated), KeyTest::Any);
        assert_eq!(
            test_of(
                &equal("a", "7", "long")
                    .replace(r#""=""#, r#""<=>""#)
                    .replace("\"7\"", "null")
            ),
            KeyTest::Any
        );
    }

    #[test]
    fn either_side_must_be_known_and_one_of_all() {
        let (a, b) = (equal("a", "7", "long"), equal("b", "x", "string"));
        let some = |covered: Arc<CoveredFiles>, n: u32| Some(AbsentFiles::Unmatched(covered, HashSet::from([n])));
        let both = |op: &str, knows_b: bool| {
            let test = test_of(&format!(r#"{{"op":"{op}","args":[{a},{b}]}}"#));
            let mut answers = vec![some(covered(), 1), knows_b.then(|| some(covered(), 2)).flatten()].into_iter();
            test.absent(&mut || answers.next().unwrap())
        };
        let absent = |set: &Option<AbsentFiles>| {
            [("x y", 1), ("f1", 2), ("f2", 3), ("f2", 4), ("new", 1)]
                .map(|(p, s)| set.as_ref().is_some_and(|set| set.has(p, s)))
        };
        assert_eq!(absent(&both("and", true)), [true, true, true, false, false]);
        assert_eq!(absent(&both("and", false)), [true, false, true, false, false]);
        assert_eq!(absent(&both("or", true)), [true, false, false, false, false]);
        assert_eq!(absent(&both("or", false)), [false; 5]);
    }

    #[test]
    fn a_mask_loses_covered_files_by_their_decoded_path_and_size() {
        let set = AbsentFiles::Unmatched(covered(), HashSet::from([2]));
        let paths: arrow::array::ArrayRef = Arc::new(StringArray::from(vec!["x%20y", "f1", "f2", "new"]));
        let sizes: arrow::array::ArrayRef = Arc::new(Int64Array::from(vec![1, 9, 3, 1]));
        let files = RecordBatch::try_from_iter([("path", paths.clone()), ("size", sizes)]).unwrap();
        let mask = set
            .without(&files, BooleanArray::from(vec![true, true, true, false]))
            .unwrap();
        assert_eq!(mask, BooleanArray::from(vec![false, true, true, false]));
        let unsized_files = RecordBatch::try_from_iter([("path", paths)]).unwrap();
        let all = BooleanArray::from(vec![true; 4]);
        assert_eq!(set.without(&unsized_files, all.clone()).unwrap(), all);
    }
}
