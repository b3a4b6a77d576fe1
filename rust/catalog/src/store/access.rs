//! Tokens, the rights of their principals, and the record of who changed what.

use crate::error::{CatalogError, ErrorType, Result};
use crate::secret::Secret;
use crate::store::connection::Connection;
use crate::store::value::params;
use crate::store::{Store, now_ms};

/// What a principal may do in a scope. Each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Load tables, list, and get credentials for reading.
    Read,
    /// Create tables, commit, and get credentials for writing.
    Write,
    /// Create and drop schemas, and drop and rename tables that other owners created. Granted on
    /// everything, it also covers tokens.
    Manage,
}

impl Access {
    fn text(self) -> &'static str {
        match self {
            Access::Read => "READ",
            Access::Write => "WRITE",
            Access::Manage => "MANAGE",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "READ" => Ok(Access::Read),
            "WRITE" => Ok(Access::Write),
            "MANAGE" => Ok(Access::Manage),
            _ => Err(CatalogError::invalid(format!(
                "the access must be READ, WRITE or MANAGE, not {text:?}"
            ))),
        }
    }
}

/// An access in a scope: a schema, a catalog (`schema` is `None`) or everything (both are
/// `None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The catalog.
    pub catalog: Option<String>,
    /// The schema in it.
    pub schema: Option<String>,
    /// What is permitted.
    pub access: Access,
}

/// Who makes a request, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name, as tables and the audit record have it.
    pub name: String,
    /// The grants.
    pub grants: Vec<Grant>,
}

impl Principal {
    /// A principal that may do everything: the owner of an embedded catalog.
    pub fn owner(name: impl Into<String>) -> Self {
        Principal {
            name: name.into(),
            grants: vec![Grant {
                catalog: None,
                schema: None,
                access: Access::Manage,
            }],
        }
    }

    /// Refuses the request unless a grant covers the scope. The message doesn't say whether the
    /// scope exists.
    pub(crate) fn check(&self, access: Access, catalog: Option<&str>, schema: Option<&str>) -> Result<()> {
        let covers = |own: &Option<String>, asked: Option<&str>| own.is_none() || own.as_deref() == asked;
        let allowed = self
            .grants
            .iter()
            .any(|grant| grant.access >= access && covers(&grant.catalog, catalog) && covers(&grant.schema, schema));
        if allowed {
            return Ok(());
        }
        let scope = [catalog, schema].into_iter().flatten().collect::<Vec<_>>().join(".");
        let scope = if scope.is_empty() {
            "the whole catalog server".to_owned()
        } else {
            scope
        };
        Err(CatalogError::new(
            ErrorType::PermissionDenied,
            format!(
                "{:?} lacks {} on {scope}: ask its owner for a grant",
                self.name,
                access.text()
            ),
        ))
    }

    /// Whether a grant reaches into a catalog, so that it is listed.
    pub(crate) fn sees_catalog(&self, catalog: &str) -> bool {
        self.grants
            .iter()
            .any(|grant| grant.catalog.as_deref().is_none_or(|own| own == catalog))
    }

    /// Whether a schema is listed.
    pub(crate) fn sees_schema(&self, catalog: &str, schema: &str) -> bool {
        self.check(Access::Read, Some(catalog), Some(schema)).is_ok()
    }
}

impl Store {
    /// Creates a token for a principal, and returns it: the store keeps its digest only.
    pub async fn create_token(&self, principal: &str, expires_at_ms: Option<i64>, by: &Principal) -> Result<Secret> {
        by.check(Access::Manage, None, None)?;
        crate::names::check_name("principal", principal)?;
        let token = Secret::random();
        let (digest, name, by) = (token.digest(), principal.to_owned(), by.name.clone());
        self.write("", move |connection| {
            connection.execute(
                "INSERT INTO tokens (digest, principal, created_at, expires_at) VALUES ($1, $2, $3, $4)",
                params![&digest, &name, now_ms(), expires_at_ms],
            )?;
            audit(connection, &by, "CREATE TOKEN", &name)
        })
        .await?;
        Ok(token)
    }

    /// Revokes all tokens of a principal, and returns their number.
    pub async fn revoke_tokens(&self, principal: &str, by: &Principal) -> Result<u64> {
        by.check(Access::Manage, None, None)?;
        let (name, by) = (principal.to_owned(), by.name.clone());
        self.write("", move |connection| {
            let count = connection.execute("DELETE FROM tokens WHERE principal = $1", params![&name])?;
            audit(connection, &by, "REVOKE TOKENS", &name)?;
            Ok(count)
        })
        .await
    }

    /// Sets what a principal may do in a scope; `None` takes it away.
    pub async fn grant(
        &self,
        principal: &str,
        catalog: Option<&str>,
        schema: Option<&str>,
        access: Option<Access>,
        by: &Principal,
    ) -> Result<()> {
        by.check(Access::Manage, catalog, schema)?;
        if catalog.is_none() && schema.is_some() {
            return Err(CatalogError::invalid("a grant on a schema names its catalog"));
        }
        let scope = [catalog.unwrap_or("*"), schema.unwrap_or("*")].map(str::to_owned);
        let (name, by) = (principal.to_owned(), by.name.clone());
        self.write("", move |connection| {
            let [catalog, schema] = &scope;
            connection.execute(
                "DELETE FROM grants WHERE principal = $1 AND catalog = $2 AND schema = $3",
                params![&name, catalog, schema],
            )?;
            let text = access.map_or("NONE", Access::text);
            if access.is_some() {
                connection.execute(
                    "INSERT INTO grants (principal, catalog, schema, access) VALUES ($1, $2, $3, $4)",
                    params![&name, catalog, schema, text],
                )?;
            }
            audit(
                connection,
                &by,
                "GRANT",
                &format!("{text} ON {catalog}.{schema} TO {name}"),
            )
        })
        .await
    }

    /// The principal of a token, if it is known and has not expired.
    pub async fn authenticate(&self, token: &Secret) -> Result<Option<Principal>> {
        let digest = token.digest();
        self.read(move |connection| {
            let row = connection.first(
                "SELECT principal, expires_at FROM tokens WHERE digest = $1",
                params![&digest],
            )?;
            let Some(mut row) = row else { return Ok(None) };
            let name = row.text()?;
            if row.opt_int()?.is_some_and(|expires| expires <= now_ms()) {
                return Ok(None);
            }
            let rows = connection.query(
                "SELECT catalog, schema, access FROM grants WHERE principal = $1",
                params![&name],
            )?;
            let mut grants = Vec::with_capacity(rows.len());
            for mut row in rows {
                let part = |text: String| (text != "*").then_some(text);
                grants.push(Grant {
                    catalog: part(row.text()?),
                    schema: part(row.text()?),
                    access: Access::parse(&row.text()?)?,
                });
            }
            Ok(Some(Principal { name, grants }))
        })
        .await
    }

    /// The last entries of the audit record: time in ms since 1970 (UTC), principal, action,
    /// object.
    pub async fn audit_record(&self, most: u32, by: &Principal) -> Result<Vec<(i64, String, String, String)>> {
        by.check(Access::Manage, None, None)?;
        self.read(move |connection| {
            let rows = connection.query(
                "SELECT at, principal, action, object FROM audit ORDER BY at DESC LIMIT $1",
                params![i64::from(most)],
            )?;
            rows.into_iter()
                .map(|mut row| Ok((row.int()?, row.text()?, row.text()?, row.text()?)))
                .collect()
        })
        .await
    }
}

/// Records a change of names, rights or metadata. Commits of data are recorded by the table's log.
pub(crate) fn audit(connection: &mut Connection, principal: &str, action: &str, object: &str) -> Result<()> {
    connection.execute(
        "INSERT INTO audit (at, principal, action, object) VALUES ($1, $2, $3, $4)",
        params![now_ms(), principal, action, object],
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_cover_their_scope_and_no_other() {
        let principal = |catalog: Option<&str>, schema: Option<&str>, access| Principal {
            name: "p".to_owned(),
            grants: vec![Grant {
                catalog: catalog.map(str::to_owned),
                schema: schema.map(str::to_owned),
                access,
            }],
        };
        let narrow = principal(Some("main"), Some("sales"), Access::Write);
        assert!(narrow.check(Access::Read, Some("main"), Some("sales")).is_ok());
        assert!(narrow.check(Access::Write, Some("main"), Some("sales")).is_ok());
        assert!(narrow.check(Access::Manage, Some("main"), Some("sales")).is_err());
        assert!(narrow.check(Access::Read, Some("main"), Some("hr")).is_err());
        assert!(narrow.check(Access::Read, Some("main"), None).is_err());
        assert!(narrow.check(Access::Read, None, None).is_err());
        assert!(narrow.sees_catalog("main") && !narrow.sees_catalog("other"));
        let whole = principal(Some("main"), None, Access::Manage);
        assert!(whole.check(Access::Manage, Some("main"), Some("any")).is_ok());
        assert!(whole.check(Access::Manage, Some("main"), None).is_ok());
        assert!(whole.check(Access::Read, Some("other"), Some("any")).is_err());
        assert!(Principal::owner("o").check(Access::Manage, None, None).is_ok());
    }
}
