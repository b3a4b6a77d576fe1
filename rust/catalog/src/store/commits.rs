//! Ratified commits in the database.

use crate::api::{Commit, Extensions};
use crate::error::Result;
use crate::store::connection::Connection;
use crate::store::value::{Row, params};

/// Published versions whose file names are kept, so that a repeated request is recognised.
const REMEMBERED: i64 = 100;

/// The unpublished commits of a table, newest first.
pub(crate) fn unpublished(connection: &mut Connection, uuid: &str, published: i64) -> Result<Vec<Commit>> {
    let rows = connection.query(
        "SELECT version, timestamp, file_name, file_size, file_ms, content FROM commits
         WHERE uuid = $1 AND version > $2 ORDER BY version DESC",
        params![uuid, published],
    )?;
    rows.into_iter().map(commit_of).collect()
}

/// The commits that a client sees, and the latest version for it. A client that doesn't know inline
/// commits sees the table before the first one that is unpublished.
pub(crate) fn visible(mut commits: Vec<Commit>, latest: i64, extensions: Extensions) -> (i64, Vec<Commit>) {
    if extensions.inline_commits {
        return (latest, commits);
    }
    let first_inline = commits.iter().rposition(|commit| commit.content.is_some());
    let Some(index) = first_inline else {
        return (latest, commits);
    };
    let shown = commits.split_off(index + 1);
    let visible = commits.last().map_or(latest, |commit| commit.version - 1);
    (visible, shown)
}

/// The file name of a ratified version, while it is remembered.
pub(crate) fn file_name(connection: &mut Connection, uuid: &str, version: i64) -> Result<Option<String>> {
    let row = connection.first(
        "SELECT file_name FROM commits WHERE uuid = $1 AND version = $2",
        params![uuid, version],
    )?;
    row.map(|mut row| row.text()).transpose()
}

/// Stores a ratified commit.
pub(crate) fn insert(connection: &mut Connection, uuid: &str, commit: &Commit) -> Result<()> {
    connection.send(
        "INSERT INTO commits (uuid, version, timestamp, file_name, file_size, file_ms, content)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        params![
            uuid,
            commit.version,
            commit.timestamp,
            &commit.file_name,
            commit.file_size,
            commit.file_modification_timestamp,
            commit.content.clone()
        ],
    )
}

/// Bytes of the inline commits in a range of versions.
pub(crate) fn inline_bytes(connection: &mut Connection, uuid: &str, above: i64, upto: i64) -> Result<i64> {
    let row = connection.first(
        "SELECT CAST(COALESCE(SUM(file_size), 0) AS BIGINT) FROM commits
         WHERE uuid = $1 AND version > $2 AND version <= $3 AND content IS NOT NULL",
        params![uuid, above, upto],
    )?;
    row.map_or(Ok(0), |mut row| row.int())
}

/// Forgets the contents of published commits, and the names of old ones.
pub(crate) fn forget(connection: &mut Connection, uuid: &str, before: i64, published: i64) -> Result<()> {
    connection.send(
        "UPDATE commits SET content = NULL WHERE uuid = $1 AND version > $2 AND version <= $3 AND content IS NOT NULL",
        params![uuid, before, published],
    )?;
    connection.send(
        "DELETE FROM commits WHERE uuid = $1 AND version <= $2",
        params![uuid, published - REMEMBERED],
    )
}

fn commit_of(mut row: Row) -> Result<Commit> {
    Ok(Commit {
        version: row.int()?,
        timestamp: row.int()?,
        file_name: row.text()?,
        file_size: row.int()?,
        file_modification_timestamp: row.int()?,
        content: row.opt_text()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(version: i64, inline: bool) -> Commit {
        Commit {
            version,
            timestamp: version,
            file_name: String::new(),
            file_size: 1,
            file_modification_timestamp: 1,
            content: inline.then(|| "x".to_owned()),
        }
    }

    #[test]
    fn clients_without_the_extension_see_the_table_before_inline_commits() {
        let versions = |inline: &[i64], extensions: Extensions| {
            let commits = (3..=6).rev().map(|v| commit(v, inline.contains(&v))).collect();
            let (latest, shown) = visible(commits, 6, extensions);
            (latest, shown.iter().map(|c| c.version).collect::<Vec<_>>())
        };
        let none = Extensions::default();
        assert_eq!(versions(&[4, 6], Extensions::ALL), (6, vec![6, 5, 4, 3]));
        assert_eq!(versions(&[], none), (6, vec![6, 5, 4, 3]));
        assert_eq!(versions(&[6], none), (5, vec![5, 4, 3]));
        assert_eq!(versions(&[4, 6], none), (3, vec![3]));
        assert_eq!(versions(&[3, 4, 5, 6], none), (2, vec![]));
        assert_eq!(visible(Vec::new(), 9, none), (9, Vec::new()));
    }
}
