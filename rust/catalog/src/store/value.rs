//! Values of parameters and columns, for both databases.

use crate::error::{CatalogError, Result};

/// A value of a parameter or a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Value::Text(value.clone())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// The parameters of a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::store::value::Value::from($value)),*] };
}
pub(crate) use params;

/// A row, read from the first column on.
pub(crate) struct Row {
    values: std::vec::IntoIter<Value>,
}

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Row {
            values: values.into_iter(),
        }
    }

    /// The next column as a number.
    pub(crate) fn int(&mut self) -> Result<i64> {
        self.opt_int()?.ok_or_else(|| unexpected("a number", "null"))
    }

    /// The next column as a number or null.
    pub(crate) fn opt_int(&mut self) -> Result<Option<i64>> {
        match self.values.next() {
            Some(Value::Int(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(_)) => Err(unexpected("a number", "a text")),
            None => Err(unexpected("a number", "no column")),
        }
    }

    /// The next column as a text.
    pub(crate) fn text(&mut self) -> Result<String> {
        self.opt_text()?.ok_or_else(|| unexpected("a text", "null"))
    }

    /// The next column as a text or null.
    pub(crate) fn opt_text(&mut self) -> Result<Option<String>> {
        match self.values.next() {
            Some(Value::Text(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            Some(Value::Int(_)) => Err(unexpected("a text", "a number")),
            None => Err(unexpected("a text", "no column")),
        }
    }
}

fn unexpected(expected: &str, actual: &str) -> CatalogError {
    CatalogError::internal(format!(
        "the catalog's database has {actual} where {expected} must be: it was changed by another program"
    ))
}
