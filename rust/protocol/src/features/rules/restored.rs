//! The table that goes back to an older version (RESTORE, P200): metadata as it was then, but for
//! what must never go back, and a protocol that reads the files of both.

use crate::Result;
use crate::actions::{Metadata, Protocol};
use crate::features::{Directives, View, all, check_write, protocol_with, supported};
use crate::schema::StructType;

/// The metadata as it was, but for what each feature says never goes back.
pub fn metadata(now: View<'_>, then: View<'_>) -> Metadata {
    let mut metadata = then.metadata.clone();
    for f in all() {
        (f.restore)(now, then, &mut metadata);
    }
    metadata
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
