//! The table that goes back to an older version (RESTORE, P200): metadata as it was then, but for
//! what must never go back, and a protocol that reads the files of both.

use crate::Result;
use crate::actions::{Metadata, Protocol};
use crate::features::{
    Directives, View, check_write, checkpoint_protection, column_mapping, identity_columns, protocol_with, supported,
};
use crate::schema::StructType;

/// The metadata: identity values, column ids and protected checkpoints stand as far on as they do now.
pub fn metadata(now: View<'_>, then: View<'_>) -> Metadata {
    let mut metadata = then.metadata.clone();
    let schema = identity_columns::advance_as(then.schema, now.schema);
    if schema != *then.schema {
        metadata.schema_string = Some(schema.to_json());
    }
    let highest = |m: &Metadata| {
        m.configuration
            .get(column_mapping::MAX_ID)
            .and_then(|v| v.parse::<i64>().ok())
    };
    if let (Some(now), Some(then)) = (highest(now.metadata), highest(&metadata)) {
        let key = column_mapping::MAX_ID.to_owned();
        metadata.configuration.insert(key, now.max(then).to_string());
    }
    match checkpoint_protection::protected_before(now.metadata) {
        0 => metadata,
        before => checkpoint_protection::protect(&metadata, before),
    }
}

/// The protocol: what either version needs, or with `downgrade` what the older one needed.
///
/// # Errors
/// `UnsupportedFeature` for a table that this build can't write.
pub fn protocol(
    now: &Protocol,
    then: &Protocol,
    metadata: &Metadata,
    schema: &StructType,
    downgrade: bool,
) -> Result<Protocol> {
    let view = View { metadata, schema };
    let asked = Directives {
        features: supported(then),
        ..Directives::default()
    };
    let protocol = match downgrade {
        true => then.clone(),
        false => protocol_with(Some(now), view, &asked)?,
    };
    check_write(&protocol, view)?;
    Ok(protocol)
}
