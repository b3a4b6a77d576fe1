//! One connection to the database, SQLite's or PostgreSQL's. Statements are written once for both:
//! parameters are `$1`, `$2`, … in the order of their first use, and integers are 64 bits wide.

use crate::error::{CatalogError, ErrorType, Result};
use crate::store::postgres::Postgres;
use crate::store::sqlite::Sqlite;
use crate::store::value::{Row, Value, params};

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Sees one state of the database.
    Read,
    /// Locks out other writers (SQLite), or the rows that it locks (PostgreSQL).
    Write,
}

enum Backend {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// A connection that belongs to one thread.
pub(crate) struct Connection {
    backend: Backend,
    /// Whether a statement of the current unit of work has changed something.
    wrote: bool,
}

impl Connection {
    pub(crate) fn sqlite(sqlite: Sqlite) -> Self {
        Connection {
            backend: Backend::Sqlite(sqlite),
            wrote: false,
        }
    }

    pub(crate) fn postgres(postgres: Postgres) -> Self {
        Connection {
            backend: Backend::Postgres(postgres),
            wrote: false,
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.backend, Backend::Postgres(_))
    }

    /// Runs a statement that returns rows.
    pub(crate) fn query(&mut self, sql: &'static str, params: &[Value]) -> Result<Vec<Row>> {
        match &mut self.backend {
            Backend::Sqlite(sqlite) => sqlite.query(sql, params),
            Backend::Postgres(postgres) => postgres.query(sql, params),
        }
    }

    /// The first row, if there is one.
    pub(crate) fn first(&mut self, sql: &'static str, params: &[Value]) -> Result<Option<Row>> {
        Ok(self.query(sql, params)?.into_iter().next())
    }

    /// Runs a statement that changes rows, and returns their number.
    pub(crate) fn execute(&mut self, sql: &'static str, params: &[Value]) -> Result<u64> {
        self.wrote = true;
        match &mut self.backend {
            Backend::Sqlite(sqlite) => sqlite.execute(sql, params),
            Backend::Postgres(postgres) => postgres.execute(sql, params),
        }
    }

    /// Runs a statement that changes rows and can't fail for a reason of its own. Its error may
    /// come from [`Connection::flush`].
    pub(crate) fn send(&mut self, sql: &'static str, params: &[Value]) -> Result<()> {
        self.wrote = true;
        match &mut self.backend {
            Backend::Sqlite(sqlite) => sqlite.execute(sql, params).map(|_| ()),
            Backend::Postgres(postgres) => postgres.send(sql, params),
        }
    }

    /// Waits for all sent statements.
    pub(crate) fn flush(&mut self) -> Result<()> {
        match &mut self.backend {
            Backend::Sqlite(_) => Ok(()),
            Backend::Postgres(postgres) => postgres.flush(),
        }
    }

    /// Runs statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<()> {
        match &mut self.backend {
            Backend::Sqlite(sqlite) => sqlite.batch(sql),
            Backend::Postgres(postgres) => postgres.batch(sql),
        }
    }

    /// Locks a table's row until the end of the transaction. SQLite has one writer anyway.
    pub(crate) fn lock_table(&mut self, uuid: &str) -> Result<()> {
        if self.is_postgres() {
            self.query("SELECT uuid FROM heads WHERE uuid = $1 FOR UPDATE", params![uuid])?;
        }
        Ok(())
    }

    pub(crate) fn begin(&mut self, access: Access) -> Result<()> {
        let sql = match (&self.backend, access) {
            (Backend::Sqlite(_), Access::Read) => "BEGIN",
            (Backend::Sqlite(_), Access::Write) => "BEGIN IMMEDIATE",
            (Backend::Postgres(_), Access::Read) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            (Backend::Postgres(_), Access::Write) => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        self.wrote = false;
        self.batch(sql)
    }

    /// Ends the transaction. An error leaves open whether it took effect.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.batch("COMMIT").map_err(|e| {
            let _ = self.batch("ROLLBACK");
            CatalogError::new(
                ErrorType::CommitStateUnknown,
                format!("the database's answer to COMMIT is missing ({e}): load the table to see the outcome"),
            )
        })
    }

    pub(crate) fn rollback(&mut self) {
        if let Backend::Postgres(postgres) = &mut self.backend {
            postgres.forget();
        }
        // A connection that can't roll back is closed, which rolls back.
        let _ = self.batch("ROLLBACK");
    }

    /// Whether the unit of work that began with [`Connection::begin_work`] has written.
    pub(crate) fn has_written(&self) -> bool {
        self.wrote
    }

    pub(crate) fn begin_work(&mut self) {
        self.wrote = false;
    }

    /// Whether the connection can still be used.
    pub(crate) fn is_open(&self) -> bool {
        match &self.backend {
            Backend::Sqlite(_) => true,
            Backend::Postgres(postgres) => postgres.is_open(),
        }
    }
}
