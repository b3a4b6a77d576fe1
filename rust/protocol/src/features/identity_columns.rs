//! Identity columns (P108, P109): values that writers hand out, one for each row, none twice. Pure:
//! which columns to fill and from where on, and the schema that remembers how far it went. `data`
//! makes the values where the rows are, `log` plans them and commits the new mark together with the
//! files.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hooks::field_key::{FieldKey, Form};
use super::hooks::removal::{Removable, Removal};
use super::{Kind, TableFeature, View};
use crate::actions::Add;
use crate::mapping::id_of;
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result};

const START: &str = "delta.identity.start";
const STEP: &str = "delta.identity.step";
const MARK: &str = "delta.identity.highWaterMark";
const EXPLICIT: &str = "delta.identity.allowExplicitInsert";
/// Tag of a commit whose new metadata says only how far identity columns went.
const COMMIT_TAG: &str = "delta.identity.schemaUpdate";
/// Tag under which files report the last values they hold, on their way to the commit only.
const TAG: &str = "deltaplane.identity";

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((1, 6)),
    wanted: |v: View<'_>| v.find_field(&|f| f.metadata.contains_key(START)).is_some(),
    refuse_write: |v: View<'_>| {
        let broken = |f: &Field| Identity::of(f).err().map(|e| e.message().to_owned());
        v.find_in_fields(&broken).map(|(_, why)| format!("and {why}"))
    },
    removable: Some(Removable::new(Removal::Unused(
        "identity columns can't become plain ones: write the table anew without them",
    ))),
    restore: |now, then, metadata| {
        let schema = advance_as(then.schema, now.schema);
        if schema != *then.schema {
            metadata.schema_string = Some(schema.to_json());
        }
    },
    field_keys: &[
        FieldKey {
            name: START,
            form: Form::Number,
        },
        FieldKey {
            name: STEP,
            form: Form::Number,
        },
        FieldKey {
            name: EXPLICIT,
            form: Form::Flag,
        },
    ],
    own_field_keys: &[MARK],
    example: |e| {
        let values = [(START, json!(1)), (STEP, json!(1)), (EXPLICIT, json!(false))];
        e.column("counted", Primitive::Long, &values);
    },
    ..TableFeature::new("identityColumns", Kind::Writer)
};

/// A column whose values a write hands out: `next`, then one `step` further for each row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// Name of the column.
    pub column: String,
    /// First value.
    pub next: i64,
    /// From one value to the following.
    pub step: i64,
}

struct Identity {
    start: i64,
    step: i64,
    mark: Option<i64>,
    explicit: bool,
}

impl Identity {
    fn of(f: &Field) -> Result<Option<Identity>> {
        let keys = [START, STEP, EXPLICIT];
        let count = keys.iter().filter(|k| f.metadata.contains_key(**k)).count();
        if count == 0 {
            return Ok(None);
        }
        let refuse = |why: &str| {
            Err(Error::invalid_argument(format!(
                "the identity column `{}` {why}",
                f.name
            )))
        };
        let number = |key: &str| f.metadata.get(key).and_then(Value::as_i64);
        let (Some(start), Some(step), Some(explicit)) = (
            number(START),
            number(STEP),
            f.metadata.get(EXPLICIT).and_then(Value::as_bool),
        ) else {
            return refuse(
                "lacks one of delta.identity.start, .step (whole numbers) and .allowExplicitInsert (true or false) (DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA)",
            );
        };
        if f.data_type != DataType::Primitive(Primitive::Long) {
            return refuse("isn't a long (DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE)");
        }
        if step == 0 {
            return refuse("has the step 0 (DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP)");
        }
        if f.metadata.contains_key("delta.generationExpression") {
            return refuse("has a generation expression too (DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION)");
        }
        Ok(Some(Identity {
            start,
            step,
            mark: number(MARK),
            explicit,
        }))
    }

    /// The first value of the column's series that lies beyond the mark.
    fn next(&self, column: &str) -> Result<i64> {
        let (start, step) = (i128::from(self.start), i128::from(self.step));
        let steps = match self.mark.map(i128::from) {
            None => 0,
            Some(mark) => ((mark - start) * step.signum()).div_euclid(step.abs()) + 1,
        };
        i64::try_from(start + steps.max(0) * step).map_err(|_| overflow(column))
    }
}

/// What an identity column without values left says.
pub fn overflow(column: &str) -> Error {
    Error::new(
        crate::Kind::ConstraintViolation,
        format!("the identity column `{column}` has no value left in the range of a long"),
    )
}

/// Refuses identity columns that no writer could fill: a wrong definition, a partition column, a
/// nested one.
pub fn check(schema: &StructType, partition_columns: &[String]) -> Result<()> {
    for f in schema.fields() {
        if Identity::of(f)?.is_some() && partition_columns.contains(&f.name) {
            return Err(Error::invalid_argument(format!(
                "the identity column `{}` can't be a partition column (DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED)",
                f.name
            )));
        }
    }
    Ok(())
}

/// The data's schema with the identity columns that it lacks, and what to fill these with.
///
/// # Errors
/// `SchemaMismatch` when the data brings values that the table doesn't let users give (P109).
pub fn complete(table: &StructType, data: StructType) -> Result<(StructType, Vec<Fill>)> {
    let (mut fields, mut fills) = (Vec::new(), Vec::new());
    for f in table.fields() {
        let Some(identity) = Identity::of(f)? else { continue };
        if data.field_ignore_case(&f.name).is_none() {
            fills.push(Fill {
                next: identity.next(&f.name)?,
                step: identity.step,
                column: f.name.clone(),
            });
            fields.push(f.clone());
        } else if !identity.explicit {
            return Err(Error::schema_mismatch(format!(
                "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED: the data has values for `{}`, which is GENERATED ALWAYS AS IDENTITY: drop the column from the data",
                f.name
            )));
        }
    }
    if fields.is_empty() {
        return Ok((data, fills));
    }
    let all = data.fields().iter().cloned().chain(fields).collect();
    Ok((StructType::new(all), fills))
}

/// Notes on the files of one writer the last value of each column that it filled.
pub fn stamp(adds: &mut [Add], last: &[(String, i64)]) {
    let Some(add) = adds.first_mut().filter(|_| !last.is_empty()) else {
        return;
    };
    add.tags
        .get_or_insert_default()
        .insert(TAG.to_owned(), Some(json!(last).to_string()));
}

/// Takes the notes off the files again.
pub fn take_marks(adds: &mut [Add]) -> Vec<(String, i64)> {
    let mut marks: Vec<(String, i64)> = Vec::new();
    for add in adds {
        let Some(tags) = &mut add.tags else { continue };
        let note = tags.remove(TAG).flatten();
        if tags.is_empty() {
            add.tags = None;
        }
        let noted: Option<Vec<(String, i64)>> = note.and_then(|t| serde_json::from_str(&t).ok());
        marks.extend(noted.unwrap_or_default());
    }
    marks
}

/// The identity column whose high-water mark covers the values that its rows have, of which
/// `furthest` lies furthest in the direction of its steps (P108). The mark becomes a value of the
/// column's own series, and never moves back: values that lie before the series begins say nothing
/// of it.
///
/// # Errors
/// `InvalidArgument` for a column that is none of these, `ConstraintViolation` where no later value
/// of the series is a long.
pub fn synced(f: &Field, furthest: Option<i64>) -> Result<Field> {
    let Some(identity) = Identity::of(f)? else {
        return Err(Error::invalid_argument(format!(
            "the column `{}` isn't an identity column, so it has no high-water mark: only columns GENERATED … AS IDENTITY can be synchronised (DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN)",
            f.name
        )));
    };
    let mut moved = f.clone();
    let Some(furthest) = furthest else {
        return Ok(moved);
    };
    let (start, step) = (i128::from(identity.start), i128::from(identity.step));
    let beyond = (i128::from(furthest) - start) * step.signum();
    if beyond < 0 {
        return Ok(moved);
    }
    let steps = beyond / step.abs() + i128::from(beyond % step.abs() > 0);
    let mark = i64::try_from(start + steps * step).map_err(|_| overflow(&f.name))?;
    let is_further = |own: i64| (i128::from(mark) - i128::from(own)) * step.signum() > 0;
    if identity.mark.is_none_or(is_further) {
        moved.metadata.insert(MARK.to_owned(), json!(mark));
    }
    Ok(moved)
}

/// The tags of a commit whose new metadata says nothing but how far identity columns went.
pub fn commit_tags() -> Value {
    json!({ COMMIT_TAG: "true" })
}

/// The schema whose high-water marks lie at these values, or further where they did before.
pub fn advance(schema: &StructType, marks: &[(String, i64)]) -> StructType {
    let fields = schema.fields().iter().map(|f| {
        let Ok(Some(identity)) = Identity::of(f) else {
            return f.clone();
        };
        let own = marks.iter().filter(|(c, _)| *c == f.name).map(|(_, v)| *v);
        let all = own.chain(identity.mark);
        let Some(mark) = (if identity.step > 0 { all.max() } else { all.min() }) else {
            return f.clone();
        };
        let mut moved = f.clone();
        moved.metadata.insert(MARK.to_owned(), json!(mark));
        moved
    });
    StructType::new(fields.collect())
}

/// The schema whose high-water marks lie as far as those of the same columns in another one, or
/// further: values that were handed out never come again, whatever version the table goes back to.
fn advance_as(schema: &StructType, other: &StructType) -> StructType {
    let same = |f: &&Field, g: &Field| match (id_of(f), id_of(g)) {
        (Some(a), Some(b)) => a == b,
        _ => f.name == g.name,
    };
    let marks = schema.fields().iter().filter_map(|f| {
        let there = other.fields().iter().find(|g| same(&f, g))?;
        let mark = Identity::of(there).ok()??.mark?;
        Some((f.name.clone(), mark))
    });
    advance(schema, &marks.collect::<Vec<_>>())
}

/// The schema without high-water marks: two that are equal so differ in values handed out alone.
pub(super) fn without_marks(schema: &StructType) -> StructType {
    schema.map_fields(&mut |mut f| {
        f.metadata.remove(MARK);
        f
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn column(start: i64, step: i64, mark: Option<i64>, explicit: bool) -> StructType {
        let mut f = Field::new("id", Primitive::Long, false);
        f.metadata.insert(START.to_owned(), json!(start));
        f.metadata.insert(STEP.to_owned(), json!(step));
        f.metadata.insert(EXPLICIT.to_owned(), json!(explicit));
        if let Some(m) = mark {
            f.metadata.insert(MARK.to_owned(), json!(m));
        }
        StructType::new(vec![f, Field::new("v", Primitive::String, true)])
    }

    fn data(names: &[&str]) -> StructType {
        StructType::new(names.iter().map(|n| Field::new(*n, Primitive::Long, true)).collect())
    }

    fn next(start: i64, step: i64, mark: Option<i64>) -> Result<i64> {
        complete(&column(start, step, mark, false), data(&["v"])).map(|(_, fills)| fills[0].next)
    }

    #[test]
    fn values_go_on_strictly_beyond_the_mark() {
        // P108
        assert_eq!(next(10, 5, None).unwrap(), 10);
        assert_eq!(next(10, 5, Some(45)).unwrap(), 50);
        assert_eq!(next(10, 5, Some(46)).unwrap(), 50);
        assert_eq!(next(10, 5, Some(3)).unwrap(), 10);
        assert_eq!(next(-1, -3, Some(-19)).unwrap(), -22);
        assert_eq!(next(-1, -3, Some(-20)).unwrap(), -22);
        assert_eq!(next(-1, -3, Some(7)).unwrap(), -1);
        assert_eq!(next(i64::MIN, 1, Some(i64::MAX - 1)).unwrap(), i64::MAX);
        assert!(next(0, 1, Some(i64::MAX)).is_err() && next(0, -1, Some(i64::MIN)).is_err());
    }

    #[test]
    fn given_values_need_the_tables_leave() {
        // P109
        let e = complete(&column(1, 1, None, false), data(&["ID", "v"])).unwrap_err();
        assert!(e.message().contains("EXPLICIT_INSERT_NOT_SUPPORTED"), "{e}");
        let (schema, fills) = complete(&column(1, 1, None, true), data(&["ID", "v"])).unwrap();
        assert!(fills.is_empty() && schema.fields().len() == 2);
        let (schema, _) = complete(&column(1, 1, None, true), data(&["v"])).unwrap();
        assert!(schema.field("id").is_some());
    }

    #[test]
    fn marks_travel_with_the_files_and_only_move_on() {
        // P108
        let mut adds = vec![Add::default(), Add::default()];
        stamp(&mut adds, &[("id".to_owned(), 7)]);
        stamp(&mut adds[1..], &[("id".to_owned(), 9)]);
        let marks = take_marks(&mut adds);
        assert_eq!(adds, [Add::default(), Add::default()]);
        let mark_of = |schema: StructType| schema.field("id").unwrap().metadata.get(MARK).cloned();
        assert_eq!(mark_of(advance(&column(1, 1, None, false), &marks)), Some(json!(9)));
        assert_eq!(
            mark_of(advance(&column(1, 1, Some(20), false), &marks)),
            Some(json!(20))
        );
        assert_eq!(
            mark_of(advance(&column(1, -1, Some(20), false), &marks)),
            Some(json!(7))
        );
        assert_eq!(mark_of(advance(&column(1, 1, None, false), &[])), None);
    }

    #[test]
    fn a_synchronised_mark_is_the_next_value_of_the_series() {
        // P108
        let mark = |start, step, own, furthest| {
            let field = column(start, step, own, true).fields()[0].clone();
            synced(&field, furthest).map(|f| f.metadata.get(MARK).and_then(Value::as_i64))
        };
        assert_eq!(mark(1, 1, Some(2), Some(100)).unwrap(), Some(100));
        assert_eq!(mark(1, 1, Some(100), Some(2)).unwrap(), Some(100));
        assert_eq!(mark(1, 1, Some(3), None).unwrap(), Some(3));
        assert_eq!(mark(10, 7, None, Some(12)).unwrap(), Some(17));
        assert_eq!(mark(10, 7, None, Some(17)).unwrap(), Some(17));
        assert_eq!(mark(10, 7, None, Some(9)).unwrap(), None);
        assert_eq!(mark(-1, -3, None, Some(-12)).unwrap(), Some(-13));
        assert_eq!(mark(-1, -3, None, Some(0)).unwrap(), None);
        assert_eq!(mark(i64::MIN, 1, None, Some(i64::MAX)).unwrap(), Some(i64::MAX));
        let e = mark(10, 5, None, Some(i64::MAX - 1)).unwrap_err();
        assert_eq!(e.kind(), crate::Kind::ConstraintViolation, "{e}");
        // As in delta-spark a column that is GENERATED ALWAYS is synchronised too.
        let always = column(1, 1, None, false);
        let moved = synced(&always.fields()[0], Some(7)).unwrap();
        assert_eq!(moved.metadata.get(MARK), Some(&json!(7)));
        let refused = synced(&always.fields()[1], Some(1)).unwrap_err();
        assert!(refused.message().contains("isn't an identity column"));
    }

    #[test]
    fn wrong_definitions_are_refused() {
        let message = |s: &StructType, by: &[String]| check(s, by).unwrap_err().message().to_owned();
        assert!(message(&column(1, 0, None, false), &[]).contains("ILLEGAL_STEP"));
        assert!(message(&column(1, 1, None, false), &["id".to_owned()]).contains("PARTITION_NOT_SUPPORTED"));
        let mut f = column(1, 1, None, false).fields()[0].clone();
        f.data_type = Primitive::Integer.into();
        assert!(message(&StructType::new(vec![f.clone()]), &[]).contains("UNSUPPORTED_DATA_TYPE"));
        f.metadata.remove(STEP);
        assert!(message(&StructType::new(vec![f]), &[]).contains("INCONSISTENT_METADATA"));
    }
}
