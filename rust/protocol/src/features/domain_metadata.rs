//! Domain metadata (P151): named configurations of a table. Unknown domains are retained; names
//! that begin with `delta.` are reserved by the protocol.

use std::collections::HashSet;

use super::attempt::Attempt;
use super::hooks::removal::{Removable, Removal};
use super::{Kind, TableFeature};
use crate::actions::Action;
use crate::{Error, Result};

/// Refuses names that users may not set.
pub fn check_user_domain(domain: &str) -> Result<()> {
    if domain.is_empty() || domain.to_lowercase().starts_with("delta.") {
        return Err(Error::invalid_argument(format!(
            "`{domain}` can't be the name of a domain: it must not be empty, and names that begin with `delta.` belong to the protocol (P151)"
        )));
    }
    Ok(())
}

/// The action that sets a domain, or none without the feature; a tombstone has the last
/// configuration.
fn check_actions(attempt: &mut Attempt<'_>) -> Result<()> {
    let supported = attempt.supports(FEATURE.name);
    let old = attempt.base.map(|b| b.domains);
    let mut seen = HashSet::new();
    for a in &mut attempt.actions {
        let Action::DomainMetadata(d) = a else { continue };
        if !supported {
            return Err(Error::unsupported_feature(format!(
                "the domain `{}` can't be set: the table doesn't have the table feature {}; add it with the property delta.feature.{} = supported",
                d.domain, FEATURE.name, FEATURE.name
            )));
        }
        if !seen.insert(d.domain.clone()) {
            return Err(Error::invalid_argument(format!(
                "the domain `{}` is set twice in one commit",
                d.domain
            )));
        }
        if d.removed {
            let last = old.and_then(|o| o.get(&d.domain)).ok_or_else(|| {
                Error::invalid_argument(format!("the table has no domain `{}` that could be removed", d.domain))
            })?;
            d.configuration.clone_from(&last.configuration);
        }
    }
    Ok(())
}

pub(super) static FEATURE: TableFeature = TableFeature {
    may_appear: true,
    removable: Some(Removable {
        domains_in_use: |domains| {
            domains
                .first()
                .map(|d| format!("remove the domain `{}` first", d.domain))
        },
        ..Removable::new(Removal::Unused(""))
    }),
    check_actions,
    ..TableFeature::new("domainMetadata", Kind::Writer)
};
