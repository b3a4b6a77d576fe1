//! Publishing the commits of a catalog's table on request (P158).

use deltaplane_error::{Error, Kind, Result};

use crate::Snapshot;
use crate::committer;

impl Snapshot {
    /// Publishes this version and those before it, and tells the table's catalog; without effect
    /// for a table that no catalog manages. Returns the highest version up to which all are
    /// published.
    ///
    /// # Errors
    /// `CorruptLog` if another program wrote a file in the place of one of them; those of the store
    /// and the catalog.
    pub async fn publish(&self) -> Result<u64> {
        let Some(managed) = committer::of(self.store()) else {
            return Ok(self.version());
        };
        let published = async {
            let published = managed.publish(self.version()).await?;
            managed.tell_published(published).await?;
            Ok(published)
        };
        published.await.map_err(|e: Error| match e.kind() {
            Kind::ObjectNotFound => e.with_kind(Kind::CorruptLog),
            _ => e,
        })
    }
}
