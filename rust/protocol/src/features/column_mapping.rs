//! Column mapping (P110–P116): files and log name columns by physical name or id.
//! Mode `none` is the identity map; the others are refused for now.

use super::{Kind, Refusal, TableFeature, View};

fn mode(v: View<'_>) -> Option<&str> {
    v.metadata
        .configuration
        .get("delta.columnMapping.mode")
        .map(String::as_str)
        .filter(|m| *m != "none")
}

fn refuse(v: View<'_>) -> Refusal {
    mode(v).map(|m| format!("in the mode `{m}`, which this version can't apply"))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "columnMapping",
    kind: Kind::ReaderWriter,
    legacy: Some((2, 5)),
    requires: &[],
    wanted: |v| mode(v).is_some(),
    refuse_read: refuse,
    refuse_write: refuse,
};
