//! Folders and files of volumes by their paths: `dbfs:/Volumes/catalog/schema/volume/path`.

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_error::{Error, Result};

use crate::catalog::Catalog;
use crate::named::Resolving;
use crate::named::connections::Connected;
use crate::named::settings::CatalogSettings;
use crate::named::vended::Owner;
use crate::names::TableName;

/// What a path begins with.
const PREFIX: &str = "dbfs:/Volumes/";

/// What all paths of Databricks' file system begin with.
const FILE_SYSTEM: &str = "dbfs:/";

/// The volume of a path, and the rest of the path; `None` for another location.
///
/// # Errors
/// `InvalidArgument` for a path without a volume, and for one that leads out of it;
/// `UnsupportedFeature` for other paths of Databricks' file system.
pub(super) fn parse(location: &str) -> Result<Option<(TableName, String)>> {
    let Some(path) = location.strip_prefix(PREFIX) else {
        return match location.starts_with(FILE_SYSTEM) {
            true => Err(Error::unsupported_feature(format!(
                "{location} isn't in a volume of a catalog, and Databricks' own file system can't be reached from here: name {PREFIX}catalog/schema/volume/path"
            ))),
            false => Ok(None),
        };
    };
    let mut parts = path.splitn(4, '/');
    let (Some(catalog), Some(schema), Some(volume)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Error::invalid_argument(format!(
            "{location} names no volume: {PREFIX}catalog/schema/volume/path does"
        )));
    };
    let rest = parts.next().unwrap_or_default().trim_end_matches('/');
    if rest.split('/').any(|step| matches!(step, "." | "..")) {
        return Err(Error::invalid_argument(format!(
            "{location} has the steps . or ..: name the path within the volume"
        )));
    }
    Ok(Some((TableName::new(catalog, schema, volume)?, rest.to_owned())))
}

/// What the catalog says of a volume's path.
pub(super) async fn resolving(name: TableName, path: &str, mut options: HashMap<String, String>) -> Result<Resolving> {
    let catalog: Arc<dyn Catalog> = Arc::new(Connected::new(CatalogSettings::take(&mut options)?));
    let volume = catalog.volume(&name).await?;
    let root = volume.storage_location.clone().unwrap_or_default();
    let location = match path {
        "" => root.clone(),
        path => format!("{}/{path}", root.trim_end_matches('/')),
    };
    Ok(Resolving::of_files(
        location,
        options,
        catalog,
        Owner::Volume(Box::new(volume)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_volume_and_a_rest() {
        let parsed = |text: &str| parse(text).map(|path| path.map(|(name, rest)| (name.to_string(), rest)));
        let path = |name: &str, rest: &str| Some((name.to_owned(), rest.to_owned()));
        assert_eq!(parsed("dbfs:/Volumes/a/b/c").unwrap(), path("a.b.c", ""));
        assert_eq!(
            parsed("dbfs:/Volumes/a/b/c/d/e.csv/").unwrap(),
            path("a.b.c", "d/e.csv")
        );
        assert_eq!(parsed("/Volumes/a/b/c").unwrap(), None);
        for bad in [
            "dbfs:/FileStore/a",
            "dbfs:/Volumes/a/b",
            "dbfs:/Volumes/a//c/d",
            "dbfs:/Volumes/a/b/c/../d",
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
