//! The equalities of a predicate with values: what a set of a column's values, such as a Bloom
//! filter, decides. Values keep the form in which other types can be converted to them exactly.

use super::node::{Node, Op, Term};
use super::predicate::Predicate;
use super::scalar::Scalar;
use crate::schema::Primitive;

/// A value that a column is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum LookupValue {
    /// An integer or a decimal: `unscaled` / 10^`scale`.
    Exact {
        /// Its digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u32,
    },
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// The bytes of a `string` or `binary`.
    Bytes(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since the epoch, or of the local clock.
    Timestamp(i64),
}

impl LookupValue {
    /// A value of a column of this type; `None` for a boolean and a value of another type.
    pub fn of(scalar: &Scalar, ty: Primitive) -> Option<LookupValue> {
        Some(match scalar {
            Scalar::Integer(v) => LookupValue::Exact {
                unscaled: i128::from(*v),
                scale: 0,
            },
            Scalar::Decimal(unscaled) => match ty {
                Primitive::Decimal { scale, .. } => LookupValue::Exact {
                    unscaled: *unscaled,
                    scale: u32::try_from(scale).ok()?,
                },
                _ => return None,
            },
            Scalar::Float(v) => LookupValue::Float(*v),
            Scalar::Double(v) => LookupValue::Double(*v),
            Scalar::Text(v) => LookupValue::Bytes(v.as_bytes().to_vec()),
            Scalar::Binary(v) => LookupValue::Bytes(v.clone()),
            Scalar::Date(v) => LookupValue::Date(*v),
            Scalar::Timestamp(v) => LookupValue::Timestamp(*v),
            Scalar::Boolean(_) => return None,
        })
    }
}

/// A column of which a row must have one of these values.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// Logical path, in the schema's case.
    pub column: Vec<String>,
    /// The values, at least one.
    pub values: Vec<LookupValue>,
}

/// The part of a predicate that consists of equalities.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookups {
    /// Not decided by equalities.
    Unknown,
    /// The column has one of the values.
    Has(Lookup),
    /// All of them are true.
    All(Vec<Lookups>),
    /// One of them is true.
    Any(Vec<Lookups>),
}

impl Lookups {
    /// The look-ups of a predicate; of each column at most `most` values at a time.
    pub fn of(predicate: &Predicate, most: usize) -> Lookups {
        of(&predicate.node().normal_form(), most)
    }

    /// Both at once.
    pub fn and(self, other: Lookups) -> Lookups {
        all(vec![self, other])
    }

    /// All look-ups, in the tree's order.
    pub fn each(&self) -> Vec<&Lookup> {
        match self {
            Lookups::Unknown => Vec::new(),
            Lookups::Has(lookup) => vec![lookup],
            Lookups::All(list) | Lookups::Any(list) => list.iter().flat_map(Lookups::each).collect(),
        }
    }

    /// How many look-ups there are.
    fn count(&self) -> usize {
        match self {
            Lookups::Unknown => 0,
            Lookups::Has(_) => 1,
            Lookups::All(list) | Lookups::Any(list) => list.iter().map(Lookups::count).sum(),
        }
    }

    /// Whether rows may match, by whether they may have one of a look-up's values. The function is
    /// called with the look-ups' numbers in the order of [`each`](Self::each), only as far as
    /// necessary.
    pub fn may_match(&self, may_have: &mut impl FnMut(usize) -> bool) -> bool {
        self.judge(0, may_have)
    }

    fn judge(&self, first: usize, may_have: &mut impl FnMut(usize) -> bool) -> bool {
        let numbered = |list: &[Lookups]| {
            let mut next = first;
            let numbers = list.iter().map(|l| {
                let number = next;
                next += l.count();
                number
            });
            numbers.collect::<Vec<_>>()
        };
        match self {
            Lookups::Unknown => true,
            Lookups::Has(_) => may_have(first),
            Lookups::All(list) => list
                .iter()
                .zip(numbered(list))
                .all(|(l, first)| l.judge(first, may_have)),
            Lookups::Any(list) => list
                .iter()
                .zip(numbered(list))
                .any(|(l, first)| l.judge(first, may_have)),
        }
    }
}

fn of(node: &Node, most: usize) -> Lookups {
    match node {
        Node::Compare(term, Op::Eq, value) => has(term, std::slice::from_ref(value)),
        Node::In(term, values) if (1..=most).contains(&values.len()) => has(term, values),
        Node::And(list) => all(list.iter().map(|n| of(n, most)).collect()),
        Node::Or(list) => any(list.iter().map(|n| of(n, most)).collect()),
        _ => Lookups::Unknown,
    }
}

fn all(list: Vec<Lookups>) -> Lookups {
    let mut known: Vec<_> = list.into_iter().filter(|l| *l != Lookups::Unknown).collect();
    match (known.len(), known.pop()) {
        (1, Some(single)) => single,
        (_, Some(last)) => {
            known.push(last);
            Lookups::All(known)
        }
        (_, None) => Lookups::Unknown,
    }
}

/// Nothing is excluded where one of the alternatives isn't an equality.
fn any(list: Vec<Lookups>) -> Lookups {
    match list.is_empty() || list.contains(&Lookups::Unknown) {
        true => Lookups::Unknown,
        false => Lookups::Any(list),
    }
}

fn has(term: &Term, values: &[Scalar]) -> Lookups {
    let (Some(column), Some(ty)) = (column(term), term.ty()) else {
        return Lookups::Unknown;
    };
    match values.iter().map(|v| LookupValue::of(v, ty)).collect() {
        Some(values) => Lookups::Has(Lookup {
            column: column.to_vec(),
            values,
        }),
        None => Lookups::Unknown,
    }
}

/// The column itself, perhaps widened.
fn column(term: &Term) -> Option<&[String]> {
    match term {
        Term::Column(column) => Some(&column.path),
        Term::Widen(inner, _) => column(inner),
        Term::Literal(..) | Term::Arithmetic(..) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::schema::{Field, StructType};

    fn lookups(tree: Value) -> Lookups {
        let columns = [
            ("i", Primitive::Integer),
            ("t", Primitive::String),
            ("b", Primitive::Boolean),
        ];
        let fields = columns.iter().map(|(name, ty)| Field::new(*name, *ty, true)).collect();
        let tree = serde_json::from_value(tree).unwrap();
        Lookups::of(&Predicate::bind(&tree, &StructType::new(fields)).unwrap(), 3)
    }

    fn column(name: &str) -> Value {
        json!({"op": "column", "name": [name]})
    }

    fn literal(value: &str, ty: &str) -> Value {
        json!({"op": "literal", "value": value, "type": ty})
    }

    fn is(name: &str, value: &str, ty: &str) -> Value {
        json!({"op": "compare", "cmp": "=", "left": column(name), "right": literal(value, ty)})
    }

    fn names(lookups: &Lookups) -> Vec<(String, usize)> {
        let name = |l: &&Lookup| (l.column.join("."), l.values.len());
        lookups.each().iter().map(name).collect()
    }

    #[test]
    fn equalities_are_found_and_all_else_is_unknown() {
        assert_eq!(names(&lookups(is("i", "7", "long"))), [("i".to_owned(), 1)]);
        let list = |n: usize| {
            let values: Vec<_> = (0..n).map(|v| literal(&v.to_string(), "integer")).collect();
            json!({"op": "in", "arg": column("i"), "list": values})
        };
        assert_eq!(names(&lookups(list(3))), [("i".to_owned(), 3)]);
        assert_eq!(lookups(list(4)), Lookups::Unknown);
        let other = json!({"op": "is_null", "arg": column("t")});
        let both = |op: &str, a: Value, b: Value| json!({"op": op, "args": [a, b]});
        assert_eq!(
            lookups(both("or", is("i", "1", "long"), other.clone())),
            Lookups::Unknown
        );
        assert_eq!(
            names(&lookups(both("and", other, is("t", "x", "string")))),
            [("t".to_owned(), 1)]
        );
        assert_eq!(
            lookups(json!({"op": "not", "arg": is("i", "1", "long")})),
            Lookups::Unknown
        );
        assert_eq!(lookups(is("b", "true", "boolean")), Lookups::Unknown);
    }

    #[test]
    fn a_tree_is_judged_by_the_numbers_of_its_look_ups() {
        let or = json!({"op": "or", "args": [is("i", "1", "long"), is("t", "x", "string")]});
        let tree = json!({"op": "and", "args": [or, is("i", "2", "long")]});
        let tree = lookups(tree);
        assert_eq!(names(&tree).len(), 3);
        for has in 0..8_usize {
            let [a, b, c] = [0, 1, 2].map(|n| has >> n & 1 == 1);
            assert_eq!(tree.may_match(&mut |n| has >> n & 1 == 1), (a || b) && c, "{has}");
        }
    }
}
