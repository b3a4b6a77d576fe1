//! Compatibility with Iceberg, versions 1 to 3 (P155): what a table must be so that an Iceberg reader can be shown
//! its files. Checked before each write; nested ids and partition columns in files follow from it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Kind, Refusal, TableFeature, View, fine};
use crate::mapping::Mapping;
use crate::schema::{DataType, Primitive, StructType};

const V1: &str = "delta.enableIcebergCompatV1";
const V2: &str = "delta.enableIcebergCompatV2";
const V3: &str = "delta.enableIcebergCompatV3";

/// Whether any version is on.
pub(super) fn is_active(v: View<'_>) -> bool {
    [V1, V2, V3].iter().any(|property| v.is_on(property))
}

/// Whether elements, keys and values need ids (P115).
pub fn needs_nested_ids(configuration: &BTreeMap<String, String>) -> bool {
    let on = |property| {
        configuration
            .get(property)
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    };
    on(V2) || on(V3)
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
    common(v, V3)?.or_else(rows).or_else(|| {
        unfit(v, "which has no void columns", &|t| {
            matches!(t, DataType::Primitive(Primitive::Void))
        })
    })
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
    let found = s.fields().iter().find(|f| holds(&f.data_type, test));
    found.map(|f| f.name.clone())
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
        name,
        kind: Kind::Writer,
        legacy: None,
        requires,
        wanted,
        refuse_read: fine,
        refuse_write,
    }
}

pub(super) static FEATURE_V1: TableFeature = version("icebergCompatV1", &["columnMapping"], |v| v.is_on(V1), refuse_v1);
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
    use crate::actions::Metadata;
    use crate::schema::{ArrayType, Field};

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
        let says = |found: Refusal, text: &str| assert!(found.as_ref().is_some_and(|f| f.contains(text)), "{found:?}");
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
    fn only_type_changes_that_iceberg_knows() {
        let change = |from: &str, to: &str| is_known_change(&serde_json::json!({"fromType": from, "toType": to}));
        assert!(change("integer", "long") && change("decimal(5,2)", "decimal(9,2)"));
        assert!(
            !change("integer", "double") && !change("decimal(5,2)", "decimal(9,3)") && !change("date", "timestamp_ntz")
        );
    }
}
