//! Field metadata of an Arrow schema as metadata of Delta fields, and back: which keys are kept,
//! dropped because they describe another table's files or another library's arrays, converted from
//! text, or refused. Pure.

use serde_json::{Value, json};

use crate::features::all;
use crate::features::hooks::field_key::{FieldKey, Form};
use crate::schema::{DataType, Field, StructType};
use crate::{Error, Result};

/// Keys that describe Arrow arrays, Parquet files or another library's frames, not columns of a
/// table.
const FOREIGN_PREFIXES: &[&str] = &["ARROW:", "PARQUET:", "parquet.", "_PL_", "POLARS", "pandas"];

const GENERATED: &str = crate::features::generated_columns::KEY;
const DEFAULT: &str = crate::features::column_defaults::KEY;
/// Spark reads it as the value of rows in files that lack the column.
const EXISTS_DEFAULT: &str = "EXISTS_DEFAULT";
const IDENTITY: &str = "delta.identity.";

/// The features' keys that Arrow metadata may set.
fn known_keys() -> impl Iterator<Item = &'static FieldKey> {
    all().flat_map(|f| f.field_keys)
}

/// Whether a key says nothing of the column itself: it belongs to files, to arrays or to a table's
/// own records.
fn is_foreign(key: &str) -> bool {
    FOREIGN_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || all().flat_map(|f| f.own_field_keys).any(|own| key.starts_with(own))
}

/// The schema of Arrow data with each field's metadata as a Delta schema has it: foreign keys are
/// dropped, numbers and flags of known keys converted from their text.
///
/// # Errors
/// `InvalidArgument` where the text of a known key isn't a value of its type.
pub fn from_arrow_text(schema: &StructType) -> Result<StructType> {
    let mut wrong = None;
    let converted = schema.map_fields(&mut |mut f| {
        f.metadata.retain(|key, _| !is_foreign(key));
        for (key, value) in &mut f.metadata {
            match typed(key, value) {
                Some(right) => *value = right,
                None => {
                    wrong.get_or_insert_with(|| {
                        Error::invalid_argument(format!(
                            "the Arrow field `{}` has the metadata `{key}` = {value}, which isn't a value of that key: use a whole number for start and step, true or false for allowExplicitInsert",
                            f.name
                        ))
                    });
                }
            }
        }
        f
    });
    wrong.map_or(Ok(converted), Err)
}

fn typed(key: &str, value: &Value) -> Option<Value> {
    let form = known_keys().find(|known| known.name == key).map(|known| known.form);
    match (form, value) {
        (Some(Form::Number), Value::String(text)) => text.trim().parse::<i64>().ok().map(|n| json!(n)),
        (Some(Form::Flag), Value::String(text)) => {
            text.trim().to_ascii_lowercase().parse::<bool>().ok().map(|b| json!(b))
        }
        _ => Some(value.clone()),
    }
}

/// The schema without what only the table itself needs to know of its files.
pub fn shareable(schema: &StructType) -> StructType {
    schema.map_fields(&mut |mut f| {
        f.metadata.retain(|key, _| !is_foreign(key));
        f
    })
}

/// Refuses what a field's Arrow metadata asks for and the table would not do: unknown `delta.*`
/// keys, and for a column that is added to a table (`added`) values that the rows which are there
/// would lack.
///
/// # Errors
/// `UnsupportedFeature`, which names the column and the key.
pub fn check_kept(schema: &StructType, before: Option<&StructType>) -> Result<()> {
    check_fields(schema, before, "", false)
}

fn check_fields(schema: &StructType, before: Option<&StructType>, path: &str, added: bool) -> Result<()> {
    schema.fields().iter().try_for_each(|f| {
        let known = before.and_then(|b| b.field_ignore_case(&f.name));
        let added = added || (before.is_some() && known.is_none());
        let name = format!("{path}{}", f.name);
        if known.is_none() {
            check_field(f, &name, !path.is_empty(), added)?;
        }
        check_type(&f.data_type, known.map(|k| &k.data_type), &name, added)
    })
}

fn check_type(t: &DataType, before: Option<&DataType>, path: &str, added: bool) -> Result<()> {
    match (t, before) {
        (DataType::Primitive(_), _) => Ok(()),
        (DataType::Struct(s), Some(DataType::Struct(b))) => check_fields(s, Some(b), &format!("{path}."), added),
        (DataType::Struct(s), _) => check_fields(s, None, &format!("{path}."), added),
        (DataType::Array(a), b) => {
            let before = b.and_then(|b| {
                if let DataType::Array(b) = b {
                    Some(&b.element)
                } else {
                    None
                }
            });
            check_type(&a.element, before, &format!("{path}.element"), added)
        }
        (DataType::Map(m), b) => {
            let before = b.and_then(|b| if let DataType::Map(b) = b { Some(b) } else { None });
            check_type(&m.key, before.map(|b| &b.key), &format!("{path}.key"), added)?;
            check_type(&m.value, before.map(|b| &b.value), &format!("{path}.value"), added)
        }
    }
}

fn check_field(f: &Field, name: &str, nested: bool, added: bool) -> Result<()> {
    let refused = |key: &str, why: &str| {
        Err(Error::unsupported_feature(format!(
            "the Arrow field `{name}` has the metadata `{key}`, {why}; take the key out of the field's metadata"
        )))
    };
    for key in f.metadata.keys() {
        let rule = key == DEFAULT || key == EXISTS_DEFAULT || key.starts_with(IDENTITY) || key == GENERATED;
        if key.starts_with("delta.") && !known_keys().any(|known| known.name == key) {
            return refused(
                key,
                "which is not known for columns, so that the table would not do what it asks",
            );
        }
        if rule && nested {
            return refused(key, "which only whole columns may have, not fields inside of one");
        }
        if rule && added {
            return refused(
                key,
                "but the column is added to a table whose rows have no value for it: generated, identity and default values are declared when the table is created",
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::Primitive;

    fn field(name: &str, metadata: &[(&str, &str)]) -> Field {
        let mut f = Field::new(name, Primitive::Long, true);
        f.metadata = metadata.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        f
    }

    fn table(fields: &[Field]) -> StructType {
        StructType::new(fields.to_vec())
    }

    #[test]
    fn texts_become_the_values_of_known_keys() {
        // P103, P105, P108
        let s = table(&[field(
            "id",
            &[
                ("delta.identity.start", "1"),
                ("delta.identity.step", " -2 "),
                ("delta.identity.allowExplicitInsert", "TRUE"),
                ("delta.identity.highWaterMark", "99"),
                ("comment", "5"),
            ],
        )]);
        let f = from_arrow_text(&s).unwrap().fields().first().unwrap().metadata.clone();
        let expected = json!({"delta.identity.start": 1, "delta.identity.step": -2,
            "delta.identity.allowExplicitInsert": true, "comment": "5"});
        assert_eq!(Value::Object(f), expected);
        for (key, text) in [
            ("delta.identity.start", "1.5"),
            ("delta.identity.allowExplicitInsert", "perhaps"),
        ] {
            let e = from_arrow_text(&table(&[field("id", &[(key, text)])])).unwrap_err();
            assert!(e.message().contains("`id`") && e.message().contains(key), "{e}");
        }
    }

    #[test]
    fn what_describes_files_and_arrays_is_dropped() {
        // P111
        let foreign = [
            ("PARQUET:field_id", "7"),
            ("ARROW:extension:name", "arrow.uuid"),
            ("_PL_ENUM_VALUES2", "1;a"),
            ("delta.columnMapping.id", "3"),
            ("delta.columnMapping.physicalName", "col-1"),
            ("delta.typeChanges", "[]"),
        ];
        let inner = DataType::Struct(table(&[field("x", &foreign)]));
        let mut outer = field("s", &foreign);
        outer.data_type = inner;
        let plain = from_arrow_text(&table(&[outer])).unwrap();
        assert!(
            !plain.to_json().contains("col-1") && !plain.to_json().contains("ARROW"),
            "{}",
            plain.to_json()
        );
        assert_eq!(shareable(&plain), plain);
    }

    #[test]
    fn what_the_table_would_not_do_is_refused_by_name() {
        // P103, P105, P107
        let own = table(&[field("id", &[])]);
        let generated = field("y", &[(GENERATED, "id + 1")]);
        check_kept(&table(&[field("id", &[]), generated.clone()]), None).unwrap();
        let with = |f: &Field| table(&[field("id", &[]), f.clone()]);
        for key in [GENERATED, DEFAULT, EXISTS_DEFAULT, "delta.identity.start"] {
            let e = check_kept(&with(&field("y", &[(key, "1")])), Some(&own)).unwrap_err();
            assert!(e.message().contains("`y`") && e.message().contains(key), "{e}");
            check_kept(&with(&field("y", &[(key, "1")])), Some(&with(&field("Y", &[])))).unwrap();
        }
        check_kept(&with(&field("y", &[("comment", "new"), ("mine", "kept")])), Some(&own)).unwrap();
        let e = check_kept(&table(&[field("z", &[("delta.mystery", "1")])]), None).unwrap_err();
        assert!(
            e.message().contains("`z`") && e.message().contains("delta.mystery"),
            "{e}"
        );
        let mut nested = field("s", &[]);
        nested.data_type = DataType::Struct(table(&[generated]));
        let e = check_kept(&table(&[nested]), None).unwrap_err();
        assert!(e.message().contains("`s.y`"), "{e}");
    }
}
