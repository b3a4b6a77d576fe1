//! The table's name and description.

use deltaplane_error::{Error, Result};
use serde_json::json;

use super::draft::Draft;

const LONGEST: usize = 4000;

/// Sets the name. delta-spark has no such statement: the history's entry is delta-rs's.
pub(super) fn set_name(draft: &mut Draft<'_>, name: Option<String>) -> Result<()> {
    check(name.as_deref(), "name")?;
    let says = json!({"name": name, "description": null}).to_string();
    draft.metadata.name = name;
    draft.says("UPDATE TABLE METADATA", [("metadataUpdate", json!(says))]);
    Ok(())
}

/// Sets the description, as `COMMENT ON TABLE` does.
pub(super) fn set_description(draft: &mut Draft<'_>, description: Option<String>) -> Result<()> {
    check(description.as_deref(), "description")?;
    let says = json!({"name": null, "description": description}).to_string();
    draft.metadata.description = description;
    draft.says("UPDATE TABLE METADATA", [("metadataUpdate", json!(says))]);
    Ok(())
}

fn check(text: Option<&str>, what: &str) -> Result<()> {
    let length = text.map_or(0, |t| t.chars().count());
    if length > LONGEST || text.is_some_and(|t| t.trim().is_empty()) {
        return Err(Error::invalid_argument(format!(
            "a table's {what} has 1 to {LONGEST} characters, not {length}; None takes it away"
        )));
    }
    Ok(())
}
