//! Lengths of `char(n)` and `varchar(n)` columns (P102): Delta stores them as strings and notes the
//! type in the field's metadata. Values that are too long are refused; nothing is padded or cut.

use arrow::array::{ArrayRef, AsArray};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::schema::Field;
use serde_json::Value;

const TYPE: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// The limits of a type's strings.
#[derive(Debug, PartialEq)]
enum Limit {
    /// Neither `char` nor `varchar`.
    Free,
    /// At most this many characters, and the type's own text.
    Text(usize, String),
    /// Of a struct's fields, by name.
    Struct(Vec<(String, Limit)>),
    /// Of an array's elements.
    Array(Box<Limit>),
    /// Of a map's keys and values.
    Map(Box<Limit>, Box<Limit>),
}

/// Refuses a column with a string that exceeds the length of the field's type.
///
/// # Errors
/// `ConstraintViolation` with the value; `UnsupportedFeature` for an unreadable type text.
pub(crate) fn check(field: &Field, array: &ArrayRef) -> Result<()> {
    let Some(text) = field.metadata.get(TYPE).and_then(Value::as_str) else {
        return Ok(());
    };
    match parse(text) {
        Some((limit, "")) => check_array(&field.name, &limit, array),
        _ => Err(Error::unsupported_feature(format!(
            "the column `{}` has the type `{text}`, whose lengths this version can't check",
            field.name
        ))),
    }
}

fn check_array(path: &str, limit: &Limit, array: &ArrayRef) -> Result<()> {
    match limit {
        Limit::Free => Ok(()),
        Limit::Text(most, name) => {
            let Some(strings) = array.as_string_opt::<i32>() else {
                return Ok(());
            };
            // No more characters than bytes.
            let long = |s: &&str| s.len() > *most && s.chars().count() > *most;
            match strings.iter().flatten().find(long) {
                None => Ok(()),
                Some(value) => Err(Error::new(
                    Kind::ConstraintViolation,
                    format!(
                        "DELTA_EXCEED_CHAR_VARCHAR_LIMIT: the value \"{value}\" of the column `{path}` exceeds its type {name}: shorten it, or make the column wider"
                    ),
                )),
            }
        }
        Limit::Struct(fields) => {
            let Some(structs) = array.as_struct_opt() else {
                return Ok(());
            };
            fields.iter().try_for_each(|(name, limit)| {
                let child = structs.column_by_name(name);
                child.map_or(Ok(()), |c| check_array(&format!("{path}.{name}"), limit, c))
            })
        }
        Limit::Array(element) => array
            .as_list_opt::<i32>()
            .map_or(Ok(()), |l| check_array(&format!("{path}.element"), element, l.values())),
        Limit::Map(key, value) => array.as_map_opt().map_or(Ok(()), |m| {
            check_array(&format!("{path}.key"), key, m.keys())?;
            check_array(&format!("{path}.value"), value, m.values())
        }),
    }
}

/// The limits in Spark's text of a type, and the rest of the text.
fn parse(text: &str) -> Option<(Limit, &str)> {
    if let Some(rest) = text.strip_prefix("array<") {
        let (element, rest) = parse(rest)?;
        return Some((Limit::Array(Box::new(element)), rest.strip_prefix('>')?));
    }
    if let Some(rest) = text.strip_prefix("map<") {
        let (key, rest) = parse(rest)?;
        let (value, rest) = parse(rest.strip_prefix(',')?)?;
        return Some((Limit::Map(Box::new(key), Box::new(value)), rest.strip_prefix('>')?));
    }
    if let Some(rest) = text.strip_prefix("struct<") {
        return parse_fields(rest);
    }
    let mut inside = 0;
    let end = text.find(|c| {
        inside += i32::from(c == '(') - i32::from(c == ')');
        inside == 0 && matches!(c, ',' | '>')
    });
    let (name, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    let length = |prefix: &str| name.strip_prefix(prefix)?.strip_suffix(')')?.trim().parse().ok();
    let limit = match length("char(").or_else(|| length("varchar(")) {
        Some(most) => Limit::Text(most, name.to_owned()),
        None => Limit::Free,
    };
    Some((limit, rest))
}

fn parse_fields(mut text: &str) -> Option<(Limit, &str)> {
    let mut fields = Vec::new();
    if let Some(rest) = text.strip_prefix('>') {
        return Some((Limit::Struct(fields), rest));
    }
    loop {
        let (name, rest) = match text.strip_prefix('`') {
            Some(quoted) => quoted.split_once("`:")?,
            None => text.split_once(':')?,
        };
        let (limit, rest) = parse(rest)?;
        fields.push((name.to_owned(), limit));
        match rest.strip_prefix(',') {
            Some(more) => text = more,
            None => return Some((Limit::Struct(fields), rest.strip_prefix('>')?)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ListArray, StringArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field as ArrowField};
    use deltaplane_protocol::schema::Primitive;

    use super::*;

    fn field(text: &str) -> Field {
        let mut f = Field::new("c", Primitive::String, true);
        f.metadata.insert(TYPE.to_owned(), text.into());
        f
    }

    fn strings(v: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(v.to_vec()))
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        // P102
        for kind in ["char(3)", "varchar(3)"] {
            check(&field(kind), &strings(&["abc", "äöü", "", "a"])).unwrap();
            let e = check(&field(kind), &strings(&["a", "äöüß"])).unwrap_err();
            assert_eq!(e.kind(), Kind::ConstraintViolation);
            assert!(e.message().contains("äöüß") && e.message().contains(kind), "{e}");
        }
        check(&Field::new("c", Primitive::String, true), &strings(&["abcdef"])).unwrap();
    }

    #[test]
    fn nested_types_are_checked() {
        let element = Arc::new(ArrowField::new("element", DataType::Utf8, true));
        let list: ArrayRef = Arc::new(ListArray::new(
            element,
            OffsetBuffer::from_lengths([2]),
            strings(&["ab", "abc"]),
            None,
        ));
        check(&field("array<varchar(3)>"), &list).unwrap();
        assert!(check(&field("array<varchar(2)>"), &list).is_err());
        let (limit, rest) = parse("struct<a:map<char(2),decimal(10,2)>,`b,c`:struct<d:varchar(4)>,e:int>").unwrap();
        let text = |n, t: &str| Limit::Text(n, t.to_owned());
        let inner = Limit::Struct(vec![("d".to_owned(), text(4, "varchar(4)"))]);
        let map = Limit::Map(Box::new(text(2, "char(2)")), Box::new(Limit::Free));
        assert_eq!(rest, "");
        assert_eq!(
            limit,
            Limit::Struct(vec![
                ("a".to_owned(), map),
                ("b,c".to_owned(), inner),
                ("e".to_owned(), Limit::Free)
            ])
        );
    }

    #[test]
    fn what_cant_be_read_is_refused() {
        for bad in ["array<varchar(2)", "struct<a", "map<char(1)>"] {
            assert_eq!(
                check(&field(bad), &strings(&["a"])).unwrap_err().kind(),
                Kind::UnsupportedFeature,
                "{bad}"
            );
        }
    }
}
