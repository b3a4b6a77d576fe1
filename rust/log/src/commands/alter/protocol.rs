//! Supporting features and raising protocol versions without using them yet (P075, P094).

use deltaplane_error::Result;
use deltaplane_protocol::features::{Directives, known, protocol_with};
use serde_json::json;

use super::draft::Draft;
use super::not_empty;

/// Supports features, with what they require.
pub(super) fn add_features(draft: &mut Draft<'_>, names: &[String], allow_increase: bool) -> Result<()> {
    not_empty(names, "feature")?;
    for name in names {
        draft.asked.features.insert(known(name)?.name.to_owned());
    }
    draft.may_list_features = allow_increase;
    if draft.settings.delta_rs.is_some() {
        draft.says_protocol = true;
        draft.says("ADD FEATURE", [("name", json!(json!(names).to_string()))]);
        return Ok(());
    }
    says_upgrade(draft)
}

/// Supports what the versions imply; versions that the table has already change nothing.
pub(super) fn upgrade(draft: &mut Draft<'_>, reader: i32, writer: i32) -> Result<()> {
    draft.asked = Directives {
        min_reader_version: Some(reader),
        min_writer_version: Some(writer),
        ..draft.settings.no_directives()
    };
    says_upgrade(draft)
}

fn says_upgrade(draft: &mut Draft<'_>) -> Result<()> {
    let new = protocol_with(Some(draft.base.protocol()), draft.base.view(), &draft.asked)?;
    draft.says("UPGRADE PROTOCOL", [("newProtocol", json!(json!(new).to_string()))]);
    Ok(())
}
