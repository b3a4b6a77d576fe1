//! Adds, moves and describes columns, and drops NOT NULL. Files stay as they are: a new column is
//! null in old rows.

use std::collections::{BTreeMap, HashSet};

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::{View, type_widening};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{DataType, Field, Primitive, StructType, type_value};
use deltaplane_protocol::schema_changes::edit;
use deltaplane_protocol::schema_changes::edit::{Position, find, join_path, split_path};
use deltaplane_protocol::schema_changes::{merge, replace};
use serde_json::{Map, Value, json};

use super::dependants::check_unused;
use super::draft::Draft;
use super::lengths::LENGTHS;
use super::{NewColumns, not_empty, stats_columns};
use crate::write::schema_checks::check_field_names;

/// The key of a column's metadata that holds its default (P107).
const DEFAULT: &str = "CURRENT_DEFAULT";
/// The history's name for a change of one column.
pub(super) const CHANGED: &str = "CHANGE COLUMN";
/// Keys of a field's metadata that writers act on: each has a change of its own, or can't be set.
const RESERVED: &[&str] = &[DEFAULT, "EXISTS_DEFAULT", "comment"];
const RESERVED_PREFIXES: &[&str] = &["delta.", "__"];

/// Adds fields to the table or to a struct of it. A struct that is there already gets the new
/// field's fields.
pub(super) fn add(draft: &mut Draft<'_>, columns: &[NewColumns]) -> Result<()> {
    let (mut said, mut names) = (Vec::new(), HashSet::new());
    let added = columns
        .iter()
        .flat_map(|some| some.fields.0.fields().iter().map(|f| (&some.into, &f.name)));
    for (into, name) in added {
        if !names.insert((into.to_lowercase(), name.to_lowercase())) {
            return Err(Error::invalid_argument(format!(
                "the new column `{name}` comes twice: rename one"
            )));
        }
    }
    for some in columns {
        said.extend(add_together(draft, some)?);
    }
    draft.says("ADD COLUMNS", [("columns", json!(Value::Array(said).to_string()))]);
    Ok(())
}

/// Returns each as the history shows it.
fn add_together(draft: &mut Draft<'_>, columns: &NewColumns) -> Result<Vec<Value>> {
    let NewColumns { into, fields, position } = columns;
    let fields = fields.0.as_ref();
    not_empty(fields.fields(), "column")?;
    fields.check_names()?;
    check_field_names(fields, Mapping::of(&draft.metadata.configuration)?)?;
    let parent = if into.is_empty() { Vec::new() } else { split_path(into)? };
    let mut place = position.clone();
    let mut said = Vec::new();
    for field in fields.fields() {
        let schema = match grown(draft, &parent, field)? {
            Some(schema) => schema,
            None => edit::add(&draft.schema, &parent, field, place.as_ref())?,
        };
        check_new(field)?;
        draft.schema = schema;
        said.push(column_json(
            &[&parent[..], std::slice::from_ref(&field.name)].concat(),
            field,
            place.as_ref(),
        ));
        place = place.map(|_| Position::After(field.name.clone()));
    }
    Ok(said)
}

/// Replaces all columns.
pub(super) fn replace(draft: &mut Draft<'_>, new_fields: &StructType) -> Result<()> {
    not_empty(new_fields.fields(), "column")?;
    new_fields.check_names()?;
    check_field_names(new_fields, Mapping::of(&draft.metadata.configuration)?)?;
    let replaced = replace::replaced(&draft.schema, new_fields)?;
    replaced.new.iter().try_for_each(check_new)?;
    for path in &replaced.left_out {
        if Mapping::of(&draft.metadata.configuration)? == Mapping::None {
            return Err(Error::invalid_argument(format!(
                "column `{}` can't be left out: DROP COLUMN takes columns away, of a table with column mapping",
                join_path(path)
            )));
        }
        check_no_use(draft, path)?;
        stats_columns::follow(&mut draft.metadata, path, None);
    }
    draft.schema = replaced.schema;
    let said = new_fields
        .fields()
        .iter()
        .map(|f| column_json(std::slice::from_ref(&f.name), f, None));
    let said: Vec<Value> = said.filter_map(|c| c.get("column").cloned()).collect();
    draft.says("REPLACE COLUMNS", [("columns", json!(Value::Array(said).to_string()))]);
    Ok(())
}

/// The schema with a struct's new fields, if a column of this name already is a struct or contains
/// structs.
fn grown(draft: &Draft<'_>, parent: &[String], field: &Field) -> Result<Option<StructType>> {
    let is_there = parent.is_empty()
        && matches!(
            &field.data_type,
            DataType::Struct(_) | DataType::Array(_) | DataType::Map(_)
        )
        && draft
            .schema
            .field_ignore_case(&field.name)
            .is_some_and(|own| own.data_type != DataType::Primitive(Primitive::Void));
    if !is_there {
        return Ok(None);
    }
    let own = StructType::new(vec![field.clone()]);
    let merged = merge::merge(&with_others_optional(&draft.schema, &field.name), &own, &|_, _| false)?;
    let merged = merged.field_ignore_case(&field.name).map(|f| f.data_type.clone());
    let schema = edit::edit(&draft.schema, std::slice::from_ref(&field.name), |f| {
        Ok(Field {
            data_type: merged.clone().unwrap_or_else(|| f.data_type.clone()),
            ..f.clone()
        })
    })?;
    // Without new fields the name is taken; adding the column reports that.
    Ok((schema != draft.schema).then_some(schema))
}

fn with_others_optional(schema: &StructType, name: &str) -> StructType {
    let field = schema.field_ignore_case(name).cloned();
    StructType::new(field.into_iter().collect())
}

/// A new column can't be NOT NULL, because old rows have no value for it.
fn check_new(field: &Field) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::invalid_argument(format!(
            "column `{}` can't be added {what}: rows that are there already have no value for it; add it plain first",
            field.name
        )))
    };
    if !field.nullable {
        return refuse("as NOT NULL");
    }
    let is_free = |k: &&String| !is_reserved(k) || matches!(k.as_str(), "comment" | LENGTHS);
    if let Some(key) = field.metadata.keys().find(|k| !is_free(k)) {
        return refuse(&format!("with `{key}` in its metadata"));
    }
    check_new_type(&field.data_type)
}

fn check_new_type(t: &DataType) -> Result<()> {
    match t {
        DataType::Primitive(_) => Ok(()),
        DataType::Array(a) => check_new_type(&a.element),
        DataType::Map(m) => check_new_type(&m.key).and_then(|()| check_new_type(&m.value)),
        DataType::Struct(s) => s.fields().iter().try_for_each(|f| {
            if let Some(key) = f.metadata.keys().find(|k| is_reserved(k) && *k != "comment") {
                return Err(Error::invalid_argument(format!(
                    "field `{}` can't be added with `{key}` in its metadata: leave it out",
                    f.name
                )));
            }
            check_new_type(&f.data_type)
        }),
    }
}

/// Moves a column among its siblings.
pub(super) fn reposition(draft: &mut Draft<'_>, column: &str, position: &Position) -> Result<()> {
    let path = split_path(column)?;
    draft.schema = edit::reposition(&draft.schema, &path, position)?;
    says_changed(draft, &path, Some(position))
}

/// Renames a column; its physical name stays, and so does every file (P111, P114).
pub(super) fn rename(draft: &mut Draft<'_>, column: &str, to: &str) -> Result<()> {
    let path = split_path(column)?;
    let old = find(&draft.schema, &path)?.name;
    let (_, parent) = path.split_last().unwrap_or((&old, &[]));
    let new_path = [parent, &[to.to_owned()]].concat();
    let taken = find(&draft.schema, &new_path).is_ok_and(|f| f.name != old);
    if to.is_empty() || taken {
        return Err(Error::invalid_argument(format!(
            "column `{column}` can't be renamed to `{to}`: {}",
            if to.is_empty() {
                "a name has characters"
            } else {
                "there is such a column already"
            }
        )));
    }
    // As in Spark, whose analysis knows names, but no column mapping.
    needs_mapping(draft, "renamed", "DELTA_UNSUPPORTED_RENAME_COLUMN")?;
    check_unused(&draft.metadata, &draft.schema, &path, "renamed")?;
    draft.schema = edit::edit(&draft.schema, &path, |f| {
        Ok(Field {
            name: to.to_owned(),
            ..f.clone()
        })
    })?;
    if parent.is_empty() {
        // Partition columns are listed by their logical names (P112).
        let listed = draft.metadata.partition_columns.iter_mut();
        listed.filter(|c| **c == old).for_each(|c| to.clone_into(c));
    }
    stats_columns::follow(&mut draft.metadata, &path, Some(&new_path));
    let parameters = [
        ("oldColumnPath", json!(join_path(&path))),
        ("newColumnPath", json!(join_path(&new_path))),
    ];
    draft.says("RENAME COLUMN", parameters);
    Ok(())
}

/// Drops columns from the table; files still contain them (P114).
pub(super) fn drop(draft: &mut Draft<'_>, columns: &[String]) -> Result<()> {
    not_empty(columns, "column")?;
    needs_mapping(draft, "dropped", "DELTA_UNSUPPORTED_DROP_COLUMN")?;
    let mut said = Vec::new();
    for column in columns {
        let path = split_path(column)?;
        check_no_use(draft, &path)?;
        draft.schema = edit::remove(&draft.schema, &path)?;
        stats_columns::follow(&mut draft.metadata, &path, None);
        said.push(join_path(&path));
    }
    draft.says("DROP COLUMNS", [("columns", json!(json!(said).to_string()))]);
    Ok(())
}

/// Refuses to drop a column that the table's partitions or expressions need.
fn check_no_use(draft: &Draft<'_>, path: &[String]) -> Result<()> {
    let field = find(&draft.schema, path)?;
    if path.len() == 1 && draft.metadata.partition_columns.contains(&field.name) {
        return Err(Error::invalid_argument(format!(
            "the table is partitioned by `{}`, which can't be dropped: rewrite the table without it",
            join_path(path)
        )));
    }
    check_unused(&draft.metadata, &draft.schema, path, "dropped")
}

fn needs_mapping(draft: &Draft<'_>, verb: &str, code: &str) -> Result<()> {
    if Mapping::of(&draft.metadata.configuration)? == Mapping::None {
        return Err(Error::invalid_argument(format!(
            "columns can only be {verb} in a table with column mapping, whose files don't name them: set delta.columnMapping.mode to name first ({code})"
        )));
    }
    Ok(())
}

/// Sets or removes a column's comment.
pub(super) fn set_comment(draft: &mut Draft<'_>, column: &str, comment: Option<&str>) -> Result<()> {
    let path = split_path(column)?;
    draft.schema = edit::edit(&draft.schema, &path, |f| {
        let mut f = f.clone();
        match comment {
            Some(text) => f.metadata.insert("comment".to_owned(), json!(text)),
            None => f.metadata.remove("comment"),
        };
        Ok(f)
    })?;
    says_changed(draft, &path, None)
}

/// Sets or removes a column's default (P107). Old rows keep their values.
pub(super) fn set_default(draft: &mut Draft<'_>, column: &str, expression: Option<&str>) -> Result<()> {
    let path = split_path(column)?;
    if path.len() > 1 {
        return Err(Error::invalid_argument(format!(
            "only whole columns have defaults, not `{column}` inside of one"
        )));
    }
    draft.schema = edit::edit(&draft.schema, &path, |f| {
        if expression.is_some() {
            let refused = |what: &str| {
                Err(Error::invalid_argument(format!(
                    "column `{column}` can't have a default: writers compute its values already{what}"
                )))
            };
            if f.metadata.contains_key("delta.identity.start") {
                return refused(" (DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED)");
            }
            if f.metadata.contains_key("delta.generationExpression") {
                return refused("");
            }
        }
        let mut f = f.clone();
        match expression {
            Some(sql) => f.metadata.insert(DEFAULT.to_owned(), json!(sql)),
            None => f.metadata.remove(DEFAULT),
        };
        Ok(f)
    })?;
    says_changed(draft, &path, None)
}

/// Makes a column nullable. Making it NOT NULL would have to check every row, which a change of
/// metadata alone can't.
pub(super) fn drop_not_null(draft: &mut Draft<'_>, column: &str) -> Result<()> {
    let path = split_path(column)?;
    draft.schema = edit::edit(&draft.schema, &path, |f| {
        Ok(Field {
            nullable: true,
            ..f.clone()
        })
    })?;
    says_changed(draft, &path, None)
}

/// Gives a column a wider type; files stay as they are (P153).
pub(super) fn change_type(draft: &mut Draft<'_>, column: &str, to: &str, lengths: Option<&str>) -> Result<()> {
    let path = split_path(column)?;
    let Some(wider) = Primitive::parse(to) else {
        return Err(Error::invalid_argument(format!(
            "`{to}` isn't a type that a column can change to: use a Delta name such as long or decimal(20,2)"
        )));
    };
    check_unused(&draft.metadata, &draft.schema, &path, "given another type")?;
    let named = named_part(&path);
    if super::lengths::change(draft, &path, wider, lengths)? {
        return says_changed(draft, &named, None);
    }
    let before = find(&draft.schema, &named)?;
    let view = View {
        schema: &draft.schema,
        ..draft.base.view()
    };
    draft.schema = type_widening::widen(view, &path, wider)?;
    // delta-spark's history has the new type without the list of changes that the column keeps.
    let after = Field {
        metadata: before.metadata,
        ..find(&draft.schema, &named)?
    };
    draft.says(CHANGED, [("column", json!(column_of(&named, &after).to_string()))]);
    Ok(())
}

/// The path of the field that contains this part of its type.
fn named_part(path: &[String]) -> Vec<String> {
    let is_part = |p: &&String| matches!(p.as_str(), "element" | "key" | "value");
    let unnamed = path.iter().rev().take_while(is_part).count();
    path.iter().take(path.len().saturating_sub(unnamed)).cloned().collect()
}

/// Sets free keys of a column's metadata; null removes a key.
pub(super) fn set_metadata(draft: &mut Draft<'_>, column: &str, metadata: &Map<String, Value>) -> Result<()> {
    let keys: Vec<&String> = metadata.keys().collect();
    not_empty(&keys, "key")?;
    if let Some(key) = keys.iter().find(|k| is_reserved(k) && k.as_str() != "comment") {
        return Err(Error::invalid_argument(format!(
            "`{key}` in a column's metadata means something to writers and can't be set freely: use the call that is made for it"
        )));
    }
    let path = split_path(column)?;
    draft.schema = edit::edit(&draft.schema, &path, |f| {
        let mut f = f.clone();
        for (key, value) in metadata {
            match value {
                Value::Null => f.metadata.remove(key),
                v => f.metadata.insert(key.clone(), v.clone()),
            };
        }
        Ok(f)
    })?;
    says_changed(draft, &path, None)
}

fn is_reserved(key: &str) -> bool {
    RESERVED.contains(&key) || RESERVED_PREFIXES.iter().any(|p| key.starts_with(p))
}

/// The history's entry for a changed column.
pub(super) fn says_changed(draft: &mut Draft<'_>, path: &[String], position: Option<&Position>) -> Result<()> {
    let field = find(&draft.schema, path)?;
    let mut parameters = vec![("column", json!(column_of(path, &field).to_string()))];
    parameters.extend(position.map(|p| ("position", json!(p.to_string()))));
    draft.says(CHANGED, parameters);
    Ok(())
}

/// The history's entry for one of several changes: the column, with its new position if it moved.
pub(super) fn column_facts(parameters: &BTreeMap<String, Value>) -> Value {
    let column = parameters.get("column").and_then(Value::as_str);
    let mut facts: Map<String, Value> = column.and_then(|c| serde_json::from_str(c).ok()).unwrap_or_default();
    let position = parameters.get("position").cloned();
    facts.extend(position.map(|p| ("position".to_owned(), p)));
    Value::Object(facts)
}

/// A column as delta-spark's history shows it, with its position if it moved.
fn column_json(path: &[String], field: &Field, position: Option<&Position>) -> Value {
    let column = column_of(path, field);
    match position {
        Some(p) => json!({"column": column, "position": p.to_string()}),
        None => json!({ "column": column }),
    }
}

/// A column as delta-spark's history shows it.
fn column_of(path: &[String], field: &Field) -> Value {
    let kind = match &field.data_type {
        DataType::Primitive(_) => type_value(&field.data_type),
        DataType::Struct(_) => json!("struct"),
        DataType::Array(_) => json!("array"),
        DataType::Map(_) => json!("map"),
    };
    json!({"name": join_path(path), "type": kind, "nullable": field.nullable, "metadata": field.metadata})
}
