//! Setting and unsetting table properties (P096, P190).

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::bloom_filters;
use deltaplane_protocol::properties::{Properties, canonical_key, find, is_checked_together};
use deltaplane_protocol::stats_columns;
use serde_json::json;

use super::constraints::{PREFIX as CONSTRAINTS, stored_key};
use super::draft::Draft;
use super::not_empty;

const FEATURES: &str = "delta.feature.";
/// Spark's name for the description among properties.
const COMMENT: &str = "comment";

/// Sets properties under their canonical keys; validates the values together with the existing
/// ones.
pub(super) fn set(draft: &mut Draft<'_>, asked: &BTreeMap<String, String>) -> Result<()> {
    let keys: Vec<&String> = asked.keys().collect();
    not_empty(&keys, "property")?;
    let shown: BTreeMap<String, &String> = asked.iter().map(|(key, value)| (shown_key(key), value)).collect();
    draft.says("SET TBLPROPERTIES", [("properties", json!(json!(shown).to_string()))]);
    let mut rest = asked.clone();
    let (directives, unchecked) = draft.settings.directives(&mut rest)?;
    draft.asked = directives;
    let mut stored = BTreeMap::new();
    for (key, value) in rest {
        let key = canonical_key(&key)?;
        if key.starts_with(CONSTRAINTS) {
            return Err(Error::invalid_argument(format!(
                "`{key}` is a constraint, which existing rows must meet: use add_constraint"
            )));
        }
        if stored.insert(key.clone(), value).is_some() {
            return Err(Error::invalid_argument(format!(
                "`{key}` is given twice, in two spellings"
            )));
        }
    }
    if let Some(description) = stored.remove(COMMENT) {
        draft.metadata.description = Some(description);
    }
    draft.settings.validate(&stored)?;
    draft.metadata.configuration.extend(stored);
    draft.metadata.configuration.extend(unchecked);
    check_with_the_rest(draft, asked.keys())
}

/// A property's name in the history, as delta-spark writes it.
fn shown_key(key: &str) -> String {
    match key.to_lowercase().starts_with(FEATURES) {
        true => key.to_owned(),
        false => canonical_key(key).unwrap_or_else(|_| key.to_owned()),
    }
}

/// Removes properties; a key that isn't set is an error unless `if_exists`.
pub(super) fn unset(draft: &mut Draft<'_>, keys: &[String], if_exists: bool) -> Result<()> {
    not_empty(keys, "property")?;
    let shown: Vec<String> = keys.iter().map(|key| shown_key(key)).collect();
    let parameters = [
        ("properties", json!(json!(shown).to_string())),
        ("ifExists", json!(if_exists)),
    ];
    draft.says("UNSET TBLPROPERTIES", parameters);
    for key in keys {
        let lower = key.to_lowercase();
        if find(key)
            .is_some_and(|k| k.check("").is_err() && k.values == deltaplane_protocol::properties::Values::Internal)
        {
            return Err(Error::invalid_argument(format!(
                "`{key}` is kept by writers and can't be unset by hand"
            )));
        }
        let was_there = if lower == COMMENT {
            draft.metadata.description.take().is_some()
        } else {
            remove(&mut draft.metadata.configuration, key)
        };
        if !was_there && !if_exists {
            return Err(Error::invalid_argument(format!(
                "the property `{key}` isn't set: check the spelling, or pass over it with if_exists=True"
            )));
        }
    }
    check_with_the_rest(draft, keys)
}

/// Delta's keys ignore case, a user's own don't; unknown keys that another program stored can be
/// removed too. Without its property a constraint is gone.
fn remove(configuration: &mut BTreeMap<String, String>, key: &str) -> bool {
    let stored = match key.get(..CONSTRAINTS.len()) {
        Some(prefix) if prefix.eq_ignore_ascii_case(CONSTRAINTS) => {
            stored_key(configuration, &key[CONSTRAINTS.len()..])
        }
        _ => Some(canonical_key(key).unwrap_or_else(|_| key.to_owned())),
    };
    stored.is_some_and(|stored| configuration.remove(&stored).is_some())
}

/// Other programs, and defaults of a session, may have stored values that are invalid alone or
/// together: refuses only conflicts with the changed properties, and missing columns.
fn check_with_the_rest<'a>(draft: &Draft<'_>, changed: impl IntoIterator<Item = &'a String>) -> Result<()> {
    if changed.into_iter().any(|key| is_checked_together(key)) {
        let stored = draft.metadata.configuration.iter();
        let known = stored.filter(|(k, v)| find(k).is_some_and(|known| known.check(v).is_ok()));
        let known = known.map(|(k, v)| (k.clone(), v.clone())).collect();
        draft.settings.validate(&known)?;
    }
    let properties = Properties::new(&draft.metadata.configuration);
    bloom_filters::resolve(&properties, &[], &draft.schema, &draft.metadata.partition_columns)?;
    stats_columns::check_unmeasured(&properties, &draft.schema)?;
    for column in properties.stats_columns.into_iter().flatten() {
        stats_columns::check_column("delta.dataSkippingStatsColumns", &column, &draft.schema)?;
    }
    Ok(())
}
