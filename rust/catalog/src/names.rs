//! Names of catalogs, schemas and tables, and their limits.

use std::fmt;

use crate::error::{CatalogError, Result};

/// The most bytes of one part of a name.
const MAX_NAME_BYTES: usize = 255;

/// A table's three-part name. Names are compared as they are written, case included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The catalog.
    pub catalog: String,
    /// The schema in the catalog.
    pub schema: String,
    /// The table in the schema.
    pub table: String,
}

impl TableName {
    /// A name of checked parts.
    pub fn new(catalog: impl Into<String>, schema: impl Into<String>, table: impl Into<String>) -> Result<Self> {
        let name = TableName {
            catalog: catalog.into(),
            schema: schema.into(),
            table: table.into(),
        };
        check_name("catalog", &name.catalog)?;
        check_name("schema", &name.schema)?;
        check_name("table", &name.table)?;
        Ok(name)
    }

    /// Reads `catalog.schema.table`.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split('.').collect::<Vec<_>>().as_slice() {
            [catalog, schema, table] => Self::new(*catalog, *schema, *table),
            _ => Err(CatalogError::invalid(format!(
                "the name {text:?} must have three parts: catalog.schema.table"
            ))),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.catalog, self.schema, self.table)
    }
}

/// Reads `catalog.schema`.
pub(crate) fn parse_schema(text: &str) -> Result<(String, String)> {
    match text.split('.').collect::<Vec<_>>().as_slice() {
        [catalog, schema] => {
            check_name("catalog", catalog)?;
            check_name("schema", schema)?;
            Ok(((*catalog).to_owned(), (*schema).to_owned()))
        }
        _ => Err(CatalogError::invalid(format!(
            "the name {text:?} must have two parts: catalog.schema"
        ))),
    }
}

/// Refuses a part of a name that Unity Catalog refuses: empty, too long, or with a period, a space,
/// a slash or a control character.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '.' | '/' | '\\');
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(CatalogError::invalid(format!(
            "the name of a {what} must have 1 to {MAX_NAME_BYTES} bytes, this one has {}",
            name.len()
        )));
    }
    if let Some(c) = name.chars().find(|c| forbidden(*c)) {
        return Err(CatalogError::invalid(format!(
            "the name of a {what} may not contain {c:?}: {name:?}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_have_three_checked_parts() {
        let name = TableName::parse("main.default.t").unwrap();
        assert_eq!(name.to_string(), "main.default.t");
        for text in [
            "t",
            "a.b",
            "a..c",
            "a.b.c.d",
            "a.b.c d",
            "a.b.c/d",
            "a.b.\u{0}",
            "a.b.'; DROP TABLE x",
        ] {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
        assert!(TableName::new("a", "b", "c".repeat(256)).is_err());
        // Quotes are text as any other: SQL gets names as parameters only.
        assert!(TableName::parse("main.default.a';DROP").is_ok());
    }
}
