//! Adds, changes, moves or removes one field of a schema, at any depth, for ALTER. Pure. Paths are
//! parts of names that ignore case; `element`, `key` and `value` lead into lists and maps.

use serde::Deserialize;

use crate::schema::{ArrayType, DataType, Field, MapType, StructType};
use crate::{Error, Result};

/// The position of a field among its siblings; by default at the end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Before all siblings.
    First,
    /// Directly after the sibling of this name.
    After(String),
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Position::First => f.write_str("FIRST"),
            Position::After(name) => write!(f, "AFTER {name}"),
        }
    }
}

/// The parts of a dotted name; parts in backticks may have dots (and doubled backticks).
///
/// Errors: `InvalidArgument` for an empty part or an open backtick.
pub fn split_path(text: &str) -> Result<Vec<String>> {
    let bad = || {
        Error::invalid_argument(format!(
            "`{text}` isn't the name of a column: write a.b, or `a.b` for one name"
        ))
    };
    let mut parts = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        let mut part = String::new();
        if chars.next_if_eq(&'`').is_some() {
            loop {
                match chars.next() {
                    Some('`') if chars.next_if_eq(&'`').is_some() => part.push('`'),
                    Some('`') => break,
                    Some(c) => part.push(c),
                    None => return Err(bad()),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != '.') {
                part.push(c);
            }
        }
        if part.is_empty() {
            return Err(bad());
        }
        parts.push(part);
        match chars.next() {
            None => return Ok(parts),
            Some('.') => {}
            Some(_) => return Err(bad()),
        }
    }
}

/// The path in users' notation: parts with a dot or a backtick are quoted.
pub fn join_path(path: &[String]) -> String {
    let quote = |p: &String| {
        if p.contains(['.', '`']) {
            format!("`{}`", p.replace('`', "``"))
        } else {
            p.clone()
        }
    };
    path.iter().map(quote).collect::<Vec<_>>().join(".")
}

/// The field at a path, at any depth.
///
/// Errors: `InvalidArgument`, which lists the parent's fields.
pub fn find(schema: &StructType, path: &[String]) -> Result<Field> {
    let mut field = None;
    edit(schema, path, |f| {
        field = Some(f.clone());
        Ok(f.clone())
    })?;
    field.ok_or_else(|| Error::internal("an edit of a field that saw none"))
}

/// The schema with one field changed.
pub fn edit(schema: &StructType, path: &[String], change: impl FnOnce(&Field) -> Result<Field>) -> Result<StructType> {
    siblings(schema, path, |fields, index| {
        let mut fields = fields.to_vec();
        if let Some(f) = fields.get_mut(index) {
            *f = change(f)?;
        }
        Ok(fields)
    })
}

/// The schema with a new field in the struct at `parent` (empty for the table itself).
///
/// Errors: `InvalidArgument` for a name that is taken or a parent that isn't a struct.
pub fn add(schema: &StructType, parent: &[String], field: &Field, position: Option<&Position>) -> Result<StructType> {
    in_struct(schema, parent, parent, &mut |s: &StructType| {
        // As in Spark, an unknown place is named before a name that is taken.
        let placed = place(s.fields().to_vec(), field.clone(), position, parent)?;
        if let Some(own) = s.field_ignore_case(&field.name) {
            return Err(Error::invalid_argument(format!(
                "there is a column `{}` already: choose another name",
                join_path(&[parent, std::slice::from_ref(&own.name)].concat())
            )));
        }
        Ok(placed)
    })
}

/// The schema with a field moved among its siblings.
pub fn reposition(schema: &StructType, path: &[String], position: &Position) -> Result<StructType> {
    let parent = path.split_last().map(|(_, p)| p).unwrap_or_default();
    siblings(schema, path, |fields, index| {
        let mut rest = fields.to_vec();
        let moved = rest.remove(index);
        // As in delta-spark, a column that comes after itself stays where it is.
        if matches!(position, Position::After(name) if name.eq_ignore_ascii_case(&moved.name)) {
            return Ok(fields.to_vec());
        }
        place(rest, moved, Some(position), parent)
    })
}

/// The schema without a field.
///
/// Errors: `InvalidArgument` for a struct's only field.
pub fn remove(schema: &StructType, path: &[String]) -> Result<StructType> {
    siblings(schema, path, |fields, index| {
        if fields.len() == 1 {
            return Err(Error::invalid_argument(format!(
                "`{}` is the only column there and can't be dropped",
                join_path(path)
            )));
        }
        let mut rest = fields.to_vec();
        rest.remove(index);
        Ok(rest)
    })
}

fn place(mut fields: Vec<Field>, field: Field, position: Option<&Position>, parent: &[String]) -> Result<Vec<Field>> {
    let index = match position {
        None => fields.len(),
        Some(Position::First) => 0,
        Some(Position::After(name)) => match fields.iter().position(|f| same(&f.name, name)) {
            Some(i) => i + 1,
            None => return Err(missing(&fields, &[parent, std::slice::from_ref(name)].concat())),
        },
    };
    fields.insert(index, field);
    Ok(fields)
}

fn siblings(
    schema: &StructType,
    path: &[String],
    change: impl FnOnce(&[Field], usize) -> Result<Vec<Field>>,
) -> Result<StructType> {
    let Some((name, parents)) = path.split_last() else {
        return Err(Error::invalid_argument("no column is named: give its name"));
    };
    let mut change = Some(change);
    in_struct(schema, parents, path, &mut |s: &StructType| {
        let index = s.index_ignore_case(name).ok_or_else(|| missing(s.fields(), path))?;
        match change.take() {
            Some(change) => change(s.fields(), index),
            None => Err(Error::internal("two structs at one path")),
        }
    })
}

type Edit<'a> = &'a mut dyn FnMut(&StructType) -> Result<Vec<Field>>;

/// The struct at `parents` below `s`, edited; `path` is the whole path, for messages.
fn in_struct(s: &StructType, parents: &[String], path: &[String], edit: Edit<'_>) -> Result<StructType> {
    let Some((name, rest)) = parents.split_first() else {
        return Ok(StructType::new(edit(s)?));
    };
    let index = s.index_ignore_case(name).ok_or_else(|| missing(s.fields(), path))?;
    let mut fields = s.fields().to_vec();
    if let Some(f) = fields.get_mut(index) {
        f.data_type = in_type(&f.data_type, rest, path, edit)?;
    }
    Ok(StructType::new(fields))
}

fn in_type(t: &DataType, parents: &[String], path: &[String], edit: Edit<'_>) -> Result<DataType> {
    let first = parents.first().map(|p| p.to_lowercase());
    let rest = parents.get(1..).unwrap_or_default();
    match (t, first.as_deref()) {
        (DataType::Struct(s), _) => Ok(DataType::Struct(in_struct(s, parents, path, edit)?)),
        (DataType::Array(a), Some("element")) => Ok(DataType::Array(Box::new(ArrayType {
            element: in_type(&a.element, rest, path, edit)?,
            contains_null: a.contains_null,
        }))),
        (DataType::Map(m), Some("key")) => Ok(DataType::Map(Box::new(MapType {
            key: in_type(&m.key, rest, path, edit)?,
            ..m.as_ref().clone()
        }))),
        (DataType::Map(m), Some("value")) => Ok(DataType::Map(Box::new(MapType {
            value: in_type(&m.value, rest, path, edit)?,
            ..m.as_ref().clone()
        }))),
        (other, _) => Err(Error::invalid_argument(format!(
            "`{}` leads through a {other}, not a struct: lists are entered by `element`, maps by `key` or `value`",
            join_path(path)
        ))),
    }
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

fn missing(fields: &[Field], path: &[String]) -> Error {
    let names: Vec<&str> = fields.iter().take(20).map(|f| f.name.as_str()).collect();
    Error::invalid_argument(format!(
        "there is no column `{}`: its place has {}",
        join_path(path),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::Primitive;

    fn table() -> StructType {
        StructType::from_json(
            r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}},
            {"name":"s","type":{"type":"struct","fields":[{"name":"x","type":"integer","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},
            {"name":"l","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"y","type":"string","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}}]}"#,
        )
        .unwrap()
    }

    fn path(text: &str) -> Vec<String> {
        split_path(text).unwrap()
    }

    #[test]
    fn fields_are_added_anywhere() {
        let new = Field::new("n", Primitive::Date, true);
        let top = add(&table(), &[], &new, Some(&Position::After("ID".into()))).unwrap();
        assert!(top.to_string().starts_with("struct<id:long,n:date,s:"), "{top}");
        let nested = add(&table(), &path("S"), &new, Some(&Position::First)).unwrap();
        assert!(nested.to_string().contains("s:struct<n:date,x:integer>"), "{nested}");
        let listed = add(&table(), &path("l.element"), &new, None).unwrap();
        assert!(
            listed.to_string().contains("l:array<struct<y:string,n:date>>"),
            "{listed}"
        );
    }

    #[test]
    fn what_is_not_there_is_named() {
        let new = Field::new("X", Primitive::Date, true);
        for (e, word) in [
            (add(&table(), &path("s"), &new, None), "s.x"),
            (add(&table(), &path("id"), &new, None), "long"),
            (add(&table(), &path("l"), &new, None), "element"),
            (remove(&table(), &path("s.zz")), "s.zz"),
            (remove(&table(), &path("s.x")), "only column"),
            (reposition(&table(), &path("id"), &Position::After("q".into())), "`q`"),
        ] {
            let e = e.unwrap_err();
            assert!(e.message().contains(word), "{e}");
        }
    }

    #[test]
    fn fields_are_changed_moved_and_removed() {
        let relaxed = edit(&table(), &path("id"), |f| {
            Ok(Field {
                nullable: true,
                ..f.clone()
            })
        })
        .unwrap();
        assert!(relaxed.field("id").unwrap().nullable);
        let moved = reposition(&table(), &path("l"), &Position::First).unwrap();
        assert!(moved.to_string().starts_with("struct<l:"), "{moved}");
        let stays = reposition(&table(), &path("s"), &Position::After("S".into())).unwrap();
        assert_eq!(stays, table());
        let gone = remove(&table(), &path("s")).unwrap();
        assert_eq!(gone.fields().len(), 2);
        assert_eq!(find(&table(), &path("l.element.y")).unwrap().name, "y");
    }

    #[test]
    fn paths_quote_dots() {
        assert_eq!(path("a.`b.c`.`d``e`"), ["a", "b.c", "d`e"]);
        assert_eq!(join_path(&path("a.`b.c`.`d``e`")), "a.`b.c`.`d``e`");
        for bad in ["", "a.", ".a", "`a", "`a`b"] {
            assert!(split_path(bad).is_err(), "{bad}");
        }
    }
}
