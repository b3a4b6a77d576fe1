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

/// Keys of the same top-level columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    /// The columns' names in files, and their types in the table.
    pub columns: Vec<(String, Primitive)>,
    /// The values of each key in the order of its columns, one key after the other. None is null.
    pub values: Vec<Scalar>,
}

impl Keys {
    /// The values of each key.
    pub fn each(&self) -> impl Iterator<Item = &[Scalar]> {
        self.values.chunks(self.columns.len().max(1))
    }

    /// How many keys.
    pub fn count(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }

    /// Whether they are of the columns with these names in files, in this order.
    pub fn are_of<S: AsRef<str>>(&self, names: &[S]) -> bool {
        self.columns.len() == names.len()
            && self
                .columns
                .iter()
                .zip(names)
                .all(|((name, _), other)| name == other.as_ref())
    }
}

/// A necessary condition of matching rows, by equality alone.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyTest {
    /// Every row may match.
    Any,
    /// A matching row has one of these keys.
    OneOf(Keys),
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
            Node::Or(list) if list.len() == 1 => KeyTest::All(all(list)),
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
            Some([physical]) => KeyTest::OneOf(Keys {
                columns: vec![(physical.clone(), ty)],
                values: values.to_vec(),
            }),
            _ => KeyTest::Any,
        }
    }

    /// The same test, which also asks for keys of these sets of columns, wherever it asks for
    /// values of each of a set's columns: by a product of at most `most` keys where all must be
    /// met, and by at most `most` keys of all sides where one must be.
    pub fn with_keys_of(self, sets: &[Vec<String>], most: usize) -> KeyTest {
        match self {
            KeyTest::Any | KeyTest::OneOf(_) => self,
            KeyTest::All(list) => {
                let mut all = Vec::with_capacity(list.len());
                for test in list {
                    match test.with_keys_of(sets, most) {
                        KeyTest::All(parts) => all.extend(parts),
                        test => all.push(test),
                    }
                }
                let products: Vec<Keys> = sets.iter().filter_map(|set| product(&all, set, most)).collect();
                all.extend(products.into_iter().map(KeyTest::OneOf));
                KeyTest::All(all)
            }
            KeyTest::Either(list) => {
                let mut sides: Vec<KeyTest> = list.into_iter().map(|t| t.with_keys_of(sets, most)).collect();
                let mut all: Vec<KeyTest> = sets
                    .iter()
                    .filter_map(|set| union(&mut sides, set, most))
                    .map(KeyTest::OneOf)
                    .collect();
                all.push(KeyTest::Either(sides));
                KeyTest::All(all)
            }
        }
    }

    /// Calls a function with the keys of each condition, in a fixed order.
    pub fn for_each<'t>(&'t self, visit: &mut impl FnMut(&'t Keys)) {
        match self {
            KeyTest::Any => {}
            KeyTest::OneOf(keys) => visit(keys),
            KeyTest::All(list) | KeyTest::Either(list) => list.iter().for_each(|t| t.for_each(visit)),
        }
    }

    /// The files without a matching row, where `absent` gives those without any of a condition's
    /// keys, in the order of [`for_each`](Self::for_each); `None` if nothing is known.
    pub fn absent(&self, absent: &mut impl FnMut() -> Option<AbsentFiles>) -> Option<AbsentFiles> {
        match self {
            KeyTest::Any => None,
            KeyTest::OneOf(_) => absent(),
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

/// The keys of a set of columns that rows can have which meet all of these tests; `None` if a
/// column may have any value, or if there are more than `most`.
fn product(all: &[KeyTest], set: &[String], most: usize) -> Option<Keys> {
    let of_column = |name: &String| {
        let keys = all.iter().filter_map(|test| match test {
            KeyTest::OneOf(keys) if keys.are_of(std::slice::from_ref(name)) => Some(keys),
            _ => None,
        });
        keys.min_by_key(|keys| keys.values.len())
    };
    let parts = set.iter().map(of_column).collect::<Option<Vec<&Keys>>>()?;
    let count = parts
        .iter()
        .try_fold(1_usize, |product, part| product.checked_mul(part.values.len()))?;
    if count > most {
        return None;
    }
    let mut keys: Vec<Vec<Scalar>> = vec![Vec::new()];
    for part in &parts {
        let extended = keys.iter().flat_map(|key| {
            part.values.iter().map(|value| {
                let mut longer = key.clone();
                longer.push(value.clone());
                longer
            })
        });
        keys = extended.collect();
    }
    Some(Keys {
        columns: parts.iter().flat_map(|part| part.columns.clone()).collect(),
        values: keys.into_iter().flatten().collect(),
    })
}

/// The keys of a set of columns that rows can have which meet one of these tests, each of which
/// loses its part; `None`, and nothing is lost, if one of them asks for none, or if there are more
/// than `most`.
fn union(sides: &mut [KeyTest], set: &[String], most: usize) -> Option<Keys> {
    let is_of_set = |test: &KeyTest| matches!(test, KeyTest::OneOf(keys) if keys.are_of(set));
    let place_in = |side: &KeyTest| match side {
        KeyTest::All(list) => list.iter().position(is_of_set),
        _ => None,
    };
    let places = sides.iter().map(place_in).collect::<Option<Vec<usize>>>()?;
    let asked = |(side, place): (&KeyTest, &usize)| match side {
        KeyTest::All(list) => match list.get(*place) {
            Some(KeyTest::OneOf(keys)) => Some(keys.count()),
            _ => None,
        },
        _ => None,
    };
    let counts = sides.iter().zip(&places).map(asked).collect::<Option<Vec<usize>>>()?;
    if counts.is_empty() || counts.iter().sum::<usize>() > most {
        return None;
    }
    let mut all: Option<Keys> = None;
    for (side, place) in sides.iter_mut().zip(places) {
        let KeyTest::All(list) = side else { continue };
        if let KeyTest::OneOf(keys) = list.remove(place) {
            match &mut all {
                Some(all) => all.values.extend(keys.values),
                None => all = Some(keys),
            }
        }
    }
    all
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
        let one_of = |column: &str, ty, values| {
            KeyTest::OneOf(Keys {
                columns: vec![(column.to_owned(), ty)],
                values,
            })
        };
        assert_eq!(a, one_of("a", Primitive::Integer, vec![Scalar::Integer(7)]));
        let text = r#"{"op":"in","arg":{"op":"column","name":["b"]},"list":[{"op":"literal","value":"u","type":"string"},{"op":"literal","value":"v","type":"string"}]}"#;
        let values = ["u", "v"].map(|t| Scalar::Text(t.to_owned())).to_vec();
        let only = KeyTest::All(vec![one_of("b", Primitive::String, values)]);
        assert_eq!(test_of(text), only);
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

    /// The keys of several columns that a test asks for, in its order.
    fn pairs(test: &KeyTest) -> Vec<Vec<(Scalar, Scalar)>> {
        let mut pairs = Vec::new();
        test.for_each(&mut |keys| {
            if keys.columns.len() == 2 {
                let pair = |key: &[Scalar]| match key {
                    [a, b] => (a.clone(), b.clone()),
                    key => panic!("{key:?}"),
                };
                pairs.push(keys.each().map(pair).collect());
            }
        });
        pairs
    }

    #[test]
    fn keys_of_several_columns_are_asked_for_where_each_column_has_values() {
        let sets = [vec!["a".to_owned(), "b".to_owned()]];
        let both = |a: &str, b: &str| {
            format!(
                r#"{{"op":"and","args":[{},{}]}}"#,
                equal("a", a, "long"),
                equal("b", b, "string")
            )
        };
        let pair = |a: i64, b: &str| (Scalar::Integer(a), Scalar::Text(b.to_owned()));
        let asked = |json: &str, most: usize| pairs(&test_of(json).with_keys_of(&sets, most));
        assert_eq!(asked(&both("7", "x"), 1), [[pair(7, "x")]]);
        assert_eq!(asked(&equal("a", "7", "long"), 9), [[]; 0]);
        let list = r#"{"op":"in","arg":{"op":"column","name":["b"]},"list":[{"op":"literal","value":"u","type":"string"},{"op":"literal","value":"v","type":"string"}]}"#;
        let product = format!(r#"{{"op":"and","args":[{},{list}]}}"#, equal("a", "7", "long"));
        let either = format!(r#"{{"op":"or","args":[{},{}]}}"#, both("7", "x"), both("8", "y"));
        assert_eq!(asked(&either, 2), [[pair(7, "x"), pair(8, "y")]]);
        assert_eq!(
            asked(&either, 1),
            [[pair(7, "x")], [pair(8, "y")]],
            "too many for one condition"
        );
        let open = format!(
            r#"{{"op":"or","args":[{},{}]}}"#,
            both("7", "x"),
            equal("a", "8", "long")
        );
        assert_eq!(
            asked(&open, 9),
            [[pair(7, "x")]],
            "of one side alone, which excludes nothing"
        );
        let test = test_of(&open).with_keys_of(&sets, 9);
        let mut known = 0;
        let absent = test.absent(&mut || {
            known += 1;
            (known == 3).then(|| AbsentFiles::Unmatched(covered(), HashSet::new()))
        });
        assert!(absent.is_none());
        assert_eq!(asked(&product, 1), [[]; 0]);
        assert_eq!(asked(&product, 2), [[pair(7, "u"), pair(7, "v")]]);
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
