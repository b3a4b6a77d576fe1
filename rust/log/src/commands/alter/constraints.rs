//! Adds and drops CHECK constraints (P103). The caller checks existing rows, over the same version:
//! the commit fails if another writer has added rows since.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::conflict::ReadSet;
use serde_json::json;

use super::draft::Draft;

pub(super) const PREFIX: &str = "delta.constraints.";
/// Spark's name for the check of the lengths of CHAR and VARCHAR columns.
const RESERVED: &str = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__";

/// Adds a constraint under its name in lower case.
pub(super) fn add(draft: &mut Draft<'_>, name: &str, expression: &str) -> Result<()> {
    let (name, expression) = (name.trim(), expression.trim());
    if name.is_empty() || expression.is_empty() {
        return Err(Error::invalid_argument(
            "a constraint has a name and an expression, such as `amount > 0`",
        ));
    }
    if name.eq_ignore_ascii_case(RESERVED) {
        return Err(Error::invalid_argument(format!(
            "`{name}` is a name that Spark reserves for its own check: choose another name for the constraint (DELTA_INVALID_CONSTRAINT_NAME)"
        )));
    }
    let configuration = &draft.metadata.configuration;
    if let Some(own) = stored_key(configuration, name).and_then(|key| configuration.get(&key)) {
        return Err(Error::invalid_argument(format!(
            "there is a constraint `{name}` already (`{own}`): drop it first, or choose another name"
        )));
    }
    let key = format!("{PREFIX}{}", name.to_lowercase());
    draft.metadata.configuration.insert(key, expression.to_owned());
    draft.read = ReadSet::Table;
    draft.says("ADD CONSTRAINT", [("name", json!(name)), ("expr", json!(expression))]);
    Ok(())
}

/// Drops a constraint; one that isn't there is an error unless `if_exists`.
pub(super) fn drop(draft: &mut Draft<'_>, name: &str, if_exists: bool) -> Result<()> {
    let configuration = &mut draft.metadata.configuration;
    let gone = stored_key(configuration, name).and_then(|key| configuration.remove(&key));
    if gone.is_none() && !if_exists {
        return Err(Error::invalid_argument(format!(
            "there is no constraint `{name}`: check the spelling"
        )));
    }
    let mut parameters = vec![("name", json!(name)), ("existed", json!(gone.is_some().to_string()))];
    parameters.extend(gone.map(|expression| ("expr", json!(expression))));
    draft.says("DROP CONSTRAINT", parameters);
    Ok(())
}

/// The key of the constraint of this name, whose case is ignored: deltalake stores it as it is
/// given. Of several, the one that is spelled as given.
pub(super) fn stored_key(configuration: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let name = name.trim();
    let as_given = format!("{PREFIX}{name}");
    if configuration.contains_key(&as_given) {
        return Some(as_given);
    }
    let is_it = |key: &&String| {
        let stored = key.strip_prefix(PREFIX);
        stored.is_some_and(|stored| stored.to_lowercase() == name.to_lowercase())
    };
    configuration.keys().find(is_it).cloned()
}
