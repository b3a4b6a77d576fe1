//! Predicates over rows: a small typed tree with Spark SQL's meaning, bound to a table's schema and
//! evaluated on Arrow batches. Three-valued and exact; anything else is refused by name. Knows no
//! file and no log. Python writes the tree as JSON (see [`Expr`]), `prune` skips files with it,
//! `data` filters rows.

mod bind;
pub mod catalyst;
mod coerce;
mod evaluate;
mod like;
mod literal;
mod lookup;
pub(crate) mod node;
mod predicate;
pub(crate) mod scalar;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use evaluate::{child, evaluate, normalise_floats, widen};
pub use lookup::{Lookup, LookupValue, Lookups};
pub use predicate::Predicate;
pub use scalar::Scalar;

use crate::{Error, Result};

/// A predicate or a part of one, not yet bound to a schema.
///
/// In JSON each node is an object whose member `op` names it. A literal is text plus a Delta type
/// name (`{"op":"literal","value":"12.50","type":"decimal(4,2)"}`), so that no digit is lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Expr {
    /// A column or a field of a struct column; names match ignoring case.
    Column {
        /// Names from the table's column inwards.
        name: Vec<String>,
    },
    /// A constant. Types: the primitives of a Delta schema, `void` (the value is null), and `text`,
    /// a string that takes exactly the type of the other operand. `binary` is hexadecimal.
    Literal {
        /// The value as text, `None` for null.
        value: Option<String>,
        /// Its type.
        #[serde(rename = "type")]
        type_name: String,
    },
    /// A comparison of two values.
    Compare {
        /// The operator.
        cmp: Comparison,
        /// Left side.
        left: Box<Expr>,
        /// Right side.
        right: Box<Expr>,
    },
    /// TRUE if all arguments are.
    And {
        /// Two or more predicates.
        args: Vec<Expr>,
    },
    /// TRUE if any argument is.
    Or {
        /// Two or more predicates.
        args: Vec<Expr>,
    },
    /// Negation; NULL stays NULL.
    Not {
        /// The negated predicate.
        arg: Box<Expr>,
    },
    /// `IS NULL`.
    IsNull {
        /// A column or value.
        arg: Box<Expr>,
    },
    /// `IS NOT NULL`.
    IsNotNull {
        /// A column or value.
        arg: Box<Expr>,
    },
    /// Membership in a list of literals.
    In {
        /// A column or value.
        arg: Box<Expr>,
        /// Literals.
        list: Vec<Expr>,
    },
    /// `LIKE` with `%` and `_`.
    Like {
        /// A string column.
        arg: Box<Expr>,
        /// The pattern.
        pattern: String,
        /// The character that makes the following wildcard literal (SQL's default is `\`).
        escape: char,
    },
    /// Whether a string begins with a prefix.
    StartsWith {
        /// A string column.
        arg: Box<Expr>,
        /// The prefix.
        prefix: String,
    },
    /// `+`, `-` or `*` with Spark's ANSI overflow error.
    Arithmetic {
        /// The operator.
        sign: Sign,
        /// Left side.
        left: Box<Expr>,
        /// Right side.
        right: Box<Expr>,
    },
    /// A cast of a literal, or a lossless cast of a column.
    Cast {
        /// The operand.
        arg: Box<Expr>,
        /// The target type.
        #[serde(rename = "type")]
        type_name: String,
    },
}

/// Levels of JSON in a tree, as many as `serde_json` reads of a text: recursion must fit the stack.
const MOST_LEVELS: u8 = 127;

fn is_deeper(value: &Value, levels: u8) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(members) => members.values().any(|member| is_deeper(member, below)),
        _ => false,
    }
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// Equal.
    #[serde(rename = "=")]
    Eq,
    /// Not equal.
    #[serde(rename = "!=")]
    Ne,
    /// Less.
    #[serde(rename = "<")]
    Lt,
    /// Less or equal.
    #[serde(rename = "<=")]
    Le,
    /// Greater.
    #[serde(rename = ">")]
    Gt,
    /// Greater or equal.
    #[serde(rename = ">=")]
    Ge,
    /// Equal, or both null; never NULL.
    #[serde(rename = "<=>")]
    NullSafeEq,
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sign {
    /// Addition.
    #[serde(rename = "+")]
    Plus,
    /// Subtraction.
    #[serde(rename = "-")]
    Minus,
    /// Multiplication.
    #[serde(rename = "*")]
    Times,
}

impl Expr {
    /// Reads the JSON tree described at the top of this module.
    pub fn from_json(json: &str) -> Result<Expr> {
        serde_json::from_str(json).map_err(|e| {
            Error::invalid_argument(format!(
                "the predicate isn't a valid expression tree ({e}): give Spark SQL text or tuples to the Python API"
            ))
        })
    }

    /// The same tree as a parsed value.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that is no tree.
    pub fn from_value(value: Value) -> Result<Expr> {
        let invalid = |why: &dyn Display| {
            Error::invalid_argument(format!(
                "the predicate isn't a valid expression tree ({why}): give Spark SQL text or tuples to the Python API"
            ))
        };
        if is_deeper(&value, MOST_LEVELS) {
            return Err(invalid(&"it is nested too deeply"));
        }
        serde_json::from_value(value).map_err(|e| invalid(&e))
    }

    /// The tree as plain values, which `from_value` reads again.
    pub fn to_value(&self) -> Value {
        serde_json::json!(self)
    }

    /// The condition that all of some are met; `None` without any.
    pub fn all_of(mut args: Vec<Expr>) -> Option<Expr> {
        match args.len() {
            0 | 1 => args.pop(),
            _ => Some(Expr::And { args }),
        }
    }

    /// The condition that one of some is met; `None` without any.
    pub fn any_of(mut args: Vec<Expr>) -> Option<Expr> {
        match args.len() {
            0 | 1 => args.pop(),
            _ => Some(Expr::Or { args }),
        }
    }

    /// The columns in the expression, in their original spelling, without duplicates, in order of
    /// appearance.
    pub fn columns(&self) -> Vec<Vec<String>> {
        let mut names = Vec::new();
        self.collect_columns(&mut names);
        names
    }

    fn collect_columns(&self, names: &mut Vec<Vec<String>>) {
        match self {
            Expr::Column { name } => {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            Expr::Literal { .. } => {}
            Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
                left.collect_columns(names);
                right.collect_columns(names);
            }
            Expr::And { args } | Expr::Or { args } => args.iter().for_each(|a| a.collect_columns(names)),
            Expr::In { arg, list } => {
                arg.collect_columns(names);
                list.iter().for_each(|a| a.collect_columns(names));
            }
            Expr::Not { arg }
            | Expr::IsNull { arg }
            | Expr::IsNotNull { arg }
            | Expr::Like { arg, .. }
            | Expr::StartsWith { arg, .. }
            | Expr::Cast { arg, .. } => arg.collect_columns(names),
        }
    }
}
