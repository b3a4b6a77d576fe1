//! Which columns of new data files get Parquet Bloom filters, and how large those are: by a table's
//! properties and by a writer's own choices. Pure; `data` writes and reads the filters.

use serde::{Deserialize, Serialize};

use crate::properties::{
    BLOOM_FILTER_COLUMNS as COLUMNS, BLOOM_FILTER_FPP as FPP, BLOOM_FILTER_NDV as NDV, Properties,
};
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::schema_changes::edit::{join_path, split_path};
use crate::{Error, Result};

/// The probability of a false answer if none is chosen: a lower one makes filters larger than what
/// the skipped row groups repay.
const DEFAULT_FPP: f64 = 0.01;

/// The filter of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BloomFilter {
    /// Its path through structs, by logical names in the schema's case.
    pub column: Vec<String>,
    /// The probability with which the filter takes an absent value for one of its own.
    pub fpp: f64,
    /// The most distinct values of a row group; `None` for its rows.
    pub ndv: Option<u64>,
}

/// A writer's choice for one column, or for all that have none of their own; it takes precedence
/// over the table's properties.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BloomFilterChoice {
    /// The column's dotted name; `None` for every column that can have a filter.
    pub column: Option<String>,
    /// Whether the column gets a filter.
    pub enabled: bool,
    /// As in [`BloomFilter`].
    pub fpp: Option<f64>,
    /// As in [`BloomFilter`].
    pub ndv: Option<u64>,
}

/// The filters of new files of a table, in schema order.
///
/// # Errors
/// `InvalidArgument` for a column that the table doesn't have, that can't have a filter or that
/// partitions the table, and for sizes out of range.
pub fn resolve(
    properties: &Properties,
    choices: &[BloomFilterChoice],
    schema: &StructType,
    partition_columns: &[String],
) -> Result<Vec<BloomFilter>> {
    let target = Target {
        schema,
        partition_columns,
    };
    let mut filters = target.by_properties(properties)?;
    let is_general = |choice: &&BloomFilterChoice| choice.column.is_none();
    for choice in choices.iter().filter(is_general) {
        filters.clear();
        if choice.enabled {
            let mut paths = Vec::new();
            target.suitable(schema, &mut Vec::new(), &mut paths);
            for column in paths {
                filters.push(filter(column, choice.fpp, choice.ndv)?);
            }
        }
    }
    for choice in choices {
        let Some(name) = &choice.column else { continue };
        let path = target.path(name, "the writer's properties")?;
        filters.retain(|f| f.column != path);
        if choice.enabled {
            filters.push(filter(path, choice.fpp, choice.ndv)?);
        }
    }
    Ok(filters)
}

/// The listed columns of the property, with their backticks.
pub fn listed(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        quoted ^= c == '`';
        match names.last_mut() {
            Some(last) if c != ',' || quoted => last.push(c),
            _ => names.push(String::new()),
        }
    }
    let trimmed = names.iter().map(|name| name.trim());
    trimmed.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn filter(column: Vec<String>, fpp: Option<f64>, ndv: Option<u64>) -> Result<BloomFilter> {
    let fpp = fpp.unwrap_or(DEFAULT_FPP);
    let refused = |what: String| {
        let name = join_path(&column);
        Err(Error::invalid_argument(format!("the Bloom filter of `{name}` {what}")))
    };
    if !(fpp > 0.0 && fpp < 1.0) {
        return refused(format!(
            "has a probability of false answers (fpp) between 0 and 1, not {fpp}"
        ));
    }
    if ndv == Some(0) {
        return refused("is for at least 1 distinct value (ndv), not 0".to_owned());
    }
    Ok(BloomFilter { column, fpp, ndv })
}

/// The columns among which filters are chosen.
struct Target<'a> {
    schema: &'a StructType,
    partition_columns: &'a [String],
}

impl Target<'_> {
    fn by_properties(&self, properties: &Properties) -> Result<Vec<BloomFilter>> {
        let Some(text) = &properties.bloom_filter_columns else {
            return Ok(Vec::new());
        };
        let number = |key: &str, text: &Option<String>, what: &str| {
            let bad = |t: &String| {
                Error::invalid_argument(format!(
                    "`{t}` isn't a legal value of the table property `{key}`, which takes {what}"
                ))
            };
            text.as_ref()
                .map(|t| t.trim().parse::<f64>().map_err(|_| bad(t)))
                .transpose()
        };
        let fpp = number(FPP, &properties.bloom_filter_fpp, "a number between 0 and 1")?;
        let ndv = properties.bloom_filter_ndv.as_ref().map(|t| {
            t.trim().parse::<u64>().map_err(|_| {
                Error::invalid_argument(format!(
                    "`{t}` isn't a legal value of the table property `{NDV}`, which takes a whole number of at least 1"
                ))
            })
        });
        let ndv = ndv.transpose()?;
        let mut filters: Vec<BloomFilter> = Vec::new();
        for name in listed(text) {
            let path = self.path(&name, &format!("the table property `{COLUMNS}`"))?;
            if filters.iter().all(|f| f.column != path) {
                filters.push(filter(path, fpp, ndv)?);
            }
        }
        Ok(filters)
    }

    /// The path of a named column, in the schema's case.
    fn path(&self, name: &str, by: &str) -> Result<Vec<String>> {
        let parts = split_path(name)?;
        let (mut path, mut here, mut last) = (Vec::new(), Some(self.schema), None);
        for part in &parts {
            let field = here.and_then(|s| s.field_ignore_case(part));
            let Some(field) = field else {
                return Err(Error::invalid_argument(format!(
                    "{by} has a Bloom filter for `{name}`, which isn't a column of the table: name a column, or take it out"
                )));
            };
            path.push(field.name.clone());
            here = match &field.data_type {
                DataType::Struct(s) => Some(s),
                _ => None,
            };
            last = Some(field);
        }
        if let [top] = path.as_slice()
            && self.partitions(top)
        {
            return Err(Error::invalid_argument(format!(
                "{by} has a Bloom filter for `{name}`, by which the table is partitioned: its values are in the log, take it out"
            )));
        }
        match last {
            Some(field) if is_suitable(field) => Ok(path),
            _ => Err(Error::invalid_argument(format!(
                "{by} has a Bloom filter for `{name}` of the type {}, which can't have one: choose a number, text, date or time",
                last.map_or_else(String::new, |f| f.data_type.to_string())
            ))),
        }
    }

    fn partitions(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        self.partition_columns.iter().any(|p| p.to_lowercase() == lower)
    }

    /// The paths of all columns below a struct that can have a filter.
    fn suitable(&self, fields: &StructType, above: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
        for field in fields.fields() {
            if above.is_empty() && self.partitions(&field.name) {
                continue;
            }
            above.push(field.name.clone());
            match &field.data_type {
                DataType::Struct(inner) => self.suitable(inner, above, paths),
                _ if is_suitable(field) => paths.push(above.clone()),
                _ => {}
            }
            above.pop();
        }
    }
}

/// Booleans have two values, of which bounds tell as much; lists and maps aren't compared.
fn is_suitable(field: &Field) -> bool {
    use Primitive as P;
    matches!(
        field.data_type,
        DataType::Primitive(
            P::Byte
                | P::Short
                | P::Integer
                | P::Long
                | P::Float
                | P::Double
                | P::Decimal { .. }
                | P::String
                | P::Binary
                | P::Date
                | P::Timestamp
                | P::TimestampNtz
        )
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    fn schema() -> StructType {
        let inner = StructType::new(vec![
            Field::new("Name", Primitive::String, true),
            Field::new("flag", Primitive::Boolean, true),
        ]);
        StructType::new(vec![
            Field::new("id", Primitive::Long, true),
            Field::new("day", Primitive::Date, true),
            Field::new("on", Primitive::Boolean, true),
            Field::new("a.b", Primitive::String, true),
            Field::new("s", DataType::Struct(inner), true),
        ])
    }

    fn of(properties: &[(&str, &str)], choices: &[BloomFilterChoice]) -> Result<Vec<BloomFilter>> {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        let properties: BTreeMap<String, String> = properties.iter().map(owned).collect();
        resolve(&Properties::new(&properties), choices, &schema(), &["day".to_owned()])
    }

    fn names(filters: &[BloomFilter]) -> Vec<String> {
        filters.iter().map(|f| join_path(&f.column)).collect()
    }

    fn choice(column: Option<&str>, enabled: bool) -> BloomFilterChoice {
        BloomFilterChoice {
            column: column.map(str::to_owned),
            enabled,
            fpp: None,
            ndv: None,
        }
    }

    #[test]
    fn properties_name_columns_and_sizes() {
        assert_eq!(of(&[], &[]).unwrap(), []);
        let set = [(COLUMNS, " ID, `a.b`,S.name, id"), (FPP, "0.1"), (NDV, "50")];
        let filters = of(&set, &[]).unwrap();
        assert_eq!(names(&filters), ["id", "`a.b`", "s.Name"]);
        assert!(filters.iter().all(|f| f.fpp == 0.1 && f.ndv == Some(50)));
        assert_eq!(of(&[(COLUMNS, "id")], &[]).unwrap()[0].fpp, DEFAULT_FPP);
    }

    #[test]
    fn columns_without_filters_are_refused_by_name() {
        for (name, why) in [
            ("nope", "isn't a column"),
            ("s.nope", "isn't a column"),
            ("id.x", "isn't a column"),
            ("a.b", "isn't a column"),
            ("on", "boolean"),
            ("s.flag", "boolean"),
            ("s", "struct"),
            ("day", "partitioned"),
        ] {
            let by_property = of(&[(COLUMNS, name)], &[]).unwrap_err();
            let by_writer = of(&[], &[choice(Some(name), true)]).unwrap_err();
            for e in [by_property, by_writer] {
                assert!(e.message().contains(why) && e.message().contains(name), "{e}");
            }
        }
        for (key, value) in [
            (FPP, "0"),
            (FPP, "1"),
            (FPP, "nan"),
            (FPP, "few"),
            (NDV, "0"),
            (NDV, "-1"),
        ] {
            of(&[(COLUMNS, "id"), (key, value)], &[]).unwrap_err();
        }
    }

    #[test]
    fn choices_of_a_writer_come_first() {
        let set = [(COLUMNS, "id")];
        let by = |choices: &[BloomFilterChoice]| names(&of(&set, choices).unwrap());
        assert_eq!(by(&[choice(None, true)]), ["id", "`a.b`", "s.Name"]);
        assert!(by(&[choice(None, false)]).is_empty());
        assert!(by(&[choice(Some("ID"), false)]).is_empty());
        assert_eq!(by(&[choice(Some("s.name"), true)]), ["id", "s.Name"]);
        assert_eq!(
            by(&[choice(Some("id"), false), choice(None, true)]),
            ["`a.b`", "s.Name"]
        );
        let sized = BloomFilterChoice {
            ndv: Some(7),
            fpp: Some(0.5),
            ..choice(Some("id"), true)
        };
        let filters = of(&set, &[sized]).unwrap();
        assert_eq!((filters[0].fpp, filters[0].ndv), (0.5, Some(7)));
    }
}
