//! Compatibility with Iceberg, versions 1 to 3 (P155): what a table must be so that an Iceberg
//! reader can be shown its files. Checked before each write; nested ids and partition columns in
//! files follow from it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Kind, Refusal, TableFeature, View, column_defaults, row_tracking};
use crate::actions::Metadata;
use crate::mapping::{MODE, Mapping};
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result};

const V1: &str = "delta.enableIcebergCompatV1";
const V2: &str = "delta.enableIcebergCompatV2";
const V3: &str = "delta.enableIcebergCompatV3";

/// Whether any version is on.
pub(super) fn is_active(v: View<'_>) -> bool {
    [V1, V2, V3].iter().any(|property| v.is_on(property))
}

/// Whether elements, keys and values need ids (P115).
pub fn needs_nested_ids(configuration: &BTreeMap<String, String>) -> bool {
    is_set(configuration, V2) || is_set(configuration, V3)
}

/// Whether readers look for the ids of rows too, in columns that have ids of their own (P155).
pub(super) fn knows_rows(configuration: &BTreeMap<String, String>) -> bool {
    is_set(configuration, V3)
}

/// Gives a new table for Iceberg readers the column mapping that they need, as delta-spark does,
/// unless its properties name a mode.
pub fn map_columns(configuration: &mut BTreeMap<String, String>) {
    if [V1, V2, V3].into_iter().any(|version| is_set(configuration, version)) {
        let mode = configuration.entry(MODE.to_owned());
        mode.or_insert_with(|| Mapping::Name.as_str().to_owned());
    }
}

fn is_set(configuration: &BTreeMap<String, String>, property: &str) -> bool {
    configuration
        .get(property)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// What is wrong for every version; `None` where this one isn't on (P093).
fn common(v: View<'_>, own: &str) -> Option<Refusal> {
    if !v.is_on(own) {
        return None;
    }
    let other = [V1, V2, V3].into_iter().find(|p| *p != own && v.is_on(p));
    Some(match other {
        Some(other) => Some(format!(
            "but {own} and {other} are both on: only one can be, turn one off"
        )),
        None if !matches!(Mapping::of(&v.metadata.configuration), Ok(Mapping::Name | Mapping::Id)) => {
            Some("which needs column mapping: set the table property delta.columnMapping.mode to name too".to_owned())
        }
        None => widened(v),
    })
}

/// A version that a change of the metadata switches on, and what it asks of the files that are
/// there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchedOn {
    /// The feature's name.
    pub feature: &'static str,
    /// Whether files must hold the table's partition columns.
    pub partition_columns_in_files: bool,
    /// Whether rows may be deleted by vectors.
    pub deletion_vectors: bool,
    /// Columns of the files that hold rows' ids, if they are there; they must have these ids.
    pub stored_ids: Vec<(String, i32)>,
}

/// The version that is on after a change and wasn't before.
pub fn switched_on(before: &Metadata, after: &Metadata) -> Option<SwitchedOn> {
    let on = |m: &Metadata, p: &str| is_set(&m.configuration, p);
    let versions = [(V1, &FEATURE_V1), (V2, &FEATURE_V2), (V3, &FEATURE_V3)];
    let (property, feature) = versions.into_iter().find(|(p, _)| on(after, p) && !on(before, p))?;
    // Names that the table gets now are in no file.
    let (id, version) = match property {
        V3 => row_tracking::materialised(before),
        _ => (None, None),
    };
    let stored = [id, version].into_iter().zip(row_tracking::ICEBERG_IDS);
    Some(SwitchedOn {
        feature: feature.name,
        // The others ask it of new files alone.
        partition_columns_in_files: property == V1 && !after.partition_columns.is_empty(),
        deletion_vectors: property == V3,
        stored_ids: stored.filter_map(|(name, id)| Some((name?, id))).collect(),
    })
}

/// Refuses other partition columns for a partitioned table, whose history Iceberg couldn't follow.
///
/// # Errors
/// `UnsupportedFeature`.
pub fn check_partitioning(before: &Metadata, after: View<'_>) -> Result<()> {
    let (old, new) = (&before.partition_columns, &after.metadata.partition_columns);
    if !is_active(after) || old.is_empty() || old == new {
        return Ok(());
    }
    Err(Error::unsupported_feature(format!(
        "a table for Iceberg readers keeps its partition columns ([{}]): it can't be partitioned by [{}] instead; write to a new table",
        old.join(", "),
        new.join(", ")
    )))
}

/// What the protocol says that a version can't be with: for the first, that files may have deletion
/// vectors at all.
fn refuse_beside(v: View<'_>, supported: &BTreeSet<String>) -> Refusal {
    let listed = supported.contains(FEATURE_V1.name) && supported.contains(super::deletion_vectors::FEATURE.name);
    (listed && v.is_on(V1)).then(|| {
        "which has no deletion vectors, but the table's protocol supports them: drop that feature first, or write the rows to a new table".to_owned()
    })
}

fn refuse_v1(v: View<'_>) -> Refusal {
    common(v, V1)?.or_else(|| deletion_vectors(v)).or_else(|| {
        unfit(v, "which has no lists, maps and void columns", &|t| {
            matches!(
                t,
                DataType::Array(_) | DataType::Map(_) | DataType::Primitive(Primitive::Void)
            )
        })
    })
}

fn refuse_v2(v: View<'_>) -> Refusal {
    common(v, V2)?.or_else(|| deletion_vectors(v)).or_else(|| {
        unfit(v, "which has no void and variant columns", &|t| {
            matches!(t, DataType::Primitive(Primitive::Void | Primitive::Variant))
        })
    })
}

fn refuse_v3(v: View<'_>) -> Refusal {
    let rows = || {
        let off = !v.is_on("delta.enableRowTracking");
        off.then(|| "which needs row tracking: set the table property delta.enableRowTracking to true too".to_owned())
    };
    let void = || {
        unfit(v, "which has no void columns", &|t| {
            matches!(t, DataType::Primitive(Primitive::Void))
        })
    };
    common(v, V3)?
        .or_else(rows)
        .or_else(void)
        .or_else(|| computed_default(v))
}

/// A default that isn't a literal: Iceberg's defaults are values, not expressions.
fn computed_default(v: View<'_>) -> Refusal {
    let computed = |f: &Field| {
        let default = f.metadata.get(column_defaults::KEY).and_then(Value::as_str);
        default.filter(|sql| !is_literal(sql)).map(str::to_owned)
    };
    v.find_in_fields(&computed).map(|(column, sql)| {
        format!("which has literals as defaults only, but the default of the column `{column}` is `{sql}`")
    })
}

/// Whether Spark SQL text is one literal: null, a boolean, a number, text, or a typed text such as
/// a date.
fn is_literal(sql: &str) -> bool {
    let sql = sql.trim();
    let lower = sql.to_ascii_lowercase();
    if matches!(lower.as_str(), "null" | "true" | "false") {
        return true;
    }
    let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(&lower).trim_start();
    if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return is_number(unsigned);
    }
    let typed = ["date", "timestamp_ntz", "timestamp_ltz", "timestamp", "x", "r"];
    let quoted = typed.iter().find_map(|t| lower.strip_prefix(t)).unwrap_or(&lower);
    is_text(quoted.trim_start())
}

fn is_number(text: &str) -> bool {
    let digits = ["bd", "l", "s", "y", "f", "d"]
        .iter()
        .find_map(|s| text.strip_suffix(s));
    let (mantissa, exponent) = digits
        .unwrap_or(text)
        .split_once('e')
        .unwrap_or((digits.unwrap_or(text), "0"));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let all_digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    all_digits(&mantissa.replacen('.', "", 1)) && all_digits(exponent)
}

/// One quoted text: its quote occurs inside only behind a backslash or doubled.
fn is_text(text: &str) -> bool {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        return false;
    };
    let mut rest = text.chars().skip(1).peekable();
    while let Some(c) = rest.next() {
        if c == '\\' {
            rest.next();
        } else if c == quote && rest.next_if_eq(&quote).is_none() {
            return rest.next().is_none();
        }
    }
    false
}

fn deletion_vectors(v: View<'_>) -> Refusal {
    v.is_on("delta.enableDeletionVectors").then(|| {
        "which has no deletion vectors: set the table property delta.enableDeletionVectors to false".to_owned()
    })
}

/// The first column with a type that fails the test.
fn unfit(v: View<'_>, why: &str, test: &dyn Fn(&DataType) -> bool) -> Refusal {
    let column = find(v.schema, test)?;
    Some(format!("{why}, but the column `{column}` is or holds one"))
}

fn find(s: &StructType, test: &dyn Fn(&DataType) -> bool) -> Option<String> {
    let field = s.fields().iter().find(|f| holds(&f.data_type, test));
    field.map(|f| f.name.clone())
}

fn holds(t: &DataType, test: &dyn Fn(&DataType) -> bool) -> bool {
    test(t)
        || match t {
            DataType::Primitive(_) => false,
            DataType::Struct(s) => find(s, test).is_some(),
            DataType::Array(a) => holds(&a.element, test),
            DataType::Map(m) => holds(&m.key, test) || holds(&m.value, test),
        }
}

/// Type changes that Iceberg doesn't know (P153).
fn widened(v: View<'_>) -> Refusal {
    let column = v.find_field(&|f| {
        let changes = f.metadata.get("delta.typeChanges").and_then(Value::as_array);
        changes.into_iter().flatten().any(|c| !is_known_change(c))
    })?;
    Some(format!(
        "which can't follow how the type of the column `{column}` was widened: write the rows to a new table"
    ))
}

fn is_known_change(change: &Value) -> bool {
    let side = |key: &str| change.get(key).and_then(Value::as_str).and_then(Primitive::parse);
    use Primitive::{Byte, Decimal, Double, Float, Integer, Long, Short};
    match (side("fromType"), side("toType")) {
        (Some(Decimal { scale: from, .. }), Some(Decimal { scale: to, .. })) => from == to,
        (Some(Byte | Short), Some(Short | Integer | Long)) | (Some(Integer), Some(Long)) => true,
        (Some(Float), Some(Double)) => true,
        _ => false,
    }
}

const fn version(
    name: &'static str,
    requires: &'static [&'static str],
    wanted: fn(View<'_>) -> bool,
    refuse_write: fn(View<'_>) -> Refusal,
) -> TableFeature {
    TableFeature {
        requires,
        wanted,
        refuse_write,
        // Files have to fit too: `switched_on`.
        may_begin: true,
        may_appear: true,
        ..TableFeature::new(name, Kind::Writer)
    }
}

pub(super) static FEATURE_V1: TableFeature = TableFeature {
    refuse_beside,
    ..version("icebergCompatV1", &["columnMapping"], |v| v.is_on(V1), refuse_v1)
};
pub(super) static FEATURE_V2: TableFeature = version("icebergCompatV2", &["columnMapping"], |v| v.is_on(V2), refuse_v2);
pub(super) static FEATURE_V3: TableFeature = version(
    "icebergCompatV3",
    &["columnMapping", "rowTracking"],
    |v| v.is_on(V3),
    refuse_v3,
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schema::ArrayType;

    fn refusal(feature: &TableFeature, t: impl Into<DataType>, on: &[&str]) -> Refusal {
        let mut configuration: BTreeMap<String, String> =
            on.iter().map(|k| ((*k).to_owned(), "true".to_owned())).collect();
        if configuration.remove("mapped").is_some() {
            configuration.insert(crate::mapping::MODE.to_owned(), "name".to_owned());
        }
        let metadata = Metadata {
            configuration,
            ..Metadata::default()
        };
        let schema = StructType::new(vec![Field::new("c", t, true)]);
        (feature.refuse_write)(View {
            metadata: &metadata,
            schema: &schema,
        })
    }

    #[test]
    fn each_version_names_what_is_in_its_way() {
        // P155
        let list = || {
            DataType::Array(Box::new(ArrayType {
                element: Primitive::Long.into(),
                contains_null: true,
            }))
        };
        let says =
            |reason: Refusal, text: &str| assert!(reason.as_ref().is_some_and(|f| f.contains(text)), "{reason:?}");
        let dvs = "delta.enableDeletionVectors";
        says(refusal(&FEATURE_V2, Primitive::Long, &[V2]), "needs column mapping");
        says(
            refusal(&FEATURE_V2, Primitive::Long, &[V2, V1, "mapped"]),
            "are both on",
        );
        says(
            refusal(&FEATURE_V2, Primitive::Long, &[V2, dvs, "mapped"]),
            "no deletion vectors",
        );
        says(refusal(&FEATURE_V2, Primitive::Variant, &[V2, "mapped"]), "`c`");
        says(refusal(&FEATURE_V1, list(), &[V1, "mapped"]), "no lists");
        says(refusal(&FEATURE_V3, Primitive::Long, &[V3, "mapped"]), "row tracking");
        assert_eq!(refusal(&FEATURE_V1, Primitive::Long, &[V1, "mapped"]), None);
        assert_eq!(refusal(&FEATURE_V2, list(), &[V2, "mapped"]), None);
        assert_eq!(
            refusal(&FEATURE_V3, list(), &[V3, "mapped", "delta.enableRowTracking", dvs]),
            None
        );
        // P093: a property that is off asks for nothing.
        assert_eq!(refusal(&FEATURE_V1, list(), &[dvs]), None);
    }

    #[test]
    fn literals_are_told_from_expressions() {
        // P155
        for literal in [
            "NULL",
            " true",
            "42",
            "-1.5e-3",
            ".5BD",
            "7L",
            "'it''s'",
            r"'a\'b'",
            "DATE '2020-01-01'",
            "x'0f'",
        ] {
            assert!(is_literal(literal), "{literal}");
        }
        for other in [
            "1 + 1",
            "current_date()",
            "'a' || 'b'",
            "array(1)",
            "'open",
            "",
            "1.2.3",
            "date_add('x')",
            "-",
        ] {
            assert!(!is_literal(other), "{other}");
        }
    }

    #[test]
    fn what_a_change_switches_on() {
        // P155
        let with = |on: &[&str], columns: &[&str]| Metadata {
            configuration: on.iter().map(|k| ((*k).to_owned(), "true".to_owned())).collect(),
            partition_columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            ..Metadata::default()
        };
        let on = |before: &[&str], after: &[&str], columns: &[&str]| {
            switched_on(&with(before, columns), &with(after, columns))
                .map(|s| (s.feature, s.partition_columns_in_files))
        };
        assert_eq!(on(&[], &[V1], &["p"]), Some(("icebergCompatV1", true)));
        assert_eq!(on(&[V1], &[V2], &["p"]), Some(("icebergCompatV2", false)));
        assert_eq!((on(&[V1], &[V1], &[]), on(&[V2], &[], &[])), (None, None));
        let named = |on: &[&str]| {
            let mut m = with(on, &[]);
            let columns = [
                (row_tracking::ROW_ID_COLUMN, "i"),
                (row_tracking::ROW_VERSION_COLUMN, "v"),
            ];
            m.configuration
                .extend(columns.map(|(k, v)| (k.to_owned(), v.to_owned())));
            m
        };
        // Files may contain row ids only if the table had columns for them.
        let stored = |before: &Metadata| switched_on(before, &named(&[V3])).map(|s| s.stored_ids);
        assert_eq!(stored(&with(&[], &[])), Some(vec![]));
        let [id, version] = row_tracking::ICEBERG_IDS;
        assert_eq!(
            stored(&named(&[])),
            Some(vec![("i".to_owned(), id), ("v".to_owned(), version)])
        );
        assert_eq!(
            switched_on(&named(&[]), &named(&[V2])).map(|s| s.stored_ids),
            Some(vec![])
        );
        let partitioned = |on: &[&str], after: &[&str]| {
            let (metadata, schema) = (with(on, after), StructType::new(vec![]));
            let view = View {
                metadata: &metadata,
                schema: &schema,
            };
            check_partitioning(&with(&[], &["p"]), view).is_ok()
        };
        assert!(partitioned(&[V2], &["p"]) && partitioned(&[], &["q"]));
        assert!(!partitioned(&[V2], &["q"]) && !partitioned(&[V1], &[]));
    }

    #[test]
    fn only_type_changes_that_iceberg_knows() {
        let change = |from: &str, to: &str| is_known_change(&serde_json::json!({"fromType": from, "toType": to}));
        assert!(change("integer", "long") && change("decimal(5,2)", "decimal(9,2)"));
        assert!(
            !change("integer", "double") && !change("decimal(5,2)", "decimal(9,3)") && !change("date", "timestamp_ntz")
        );
    }
}
