//! SQLite: one file, in write-ahead mode, so that readers never wait.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql};

use crate::error::{CatalogError, ErrorType, Result};
use crate::store::value::{Row, Value};

/// How long a writer waits for writers of other processes.
const BUSY: Duration = Duration::from_secs(10);
/// Statements that stay prepared.
const PREPARED: usize = 128;

/// When a transaction is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before its answer: a loss of power loses nothing. The default.
    #[default]
    Full,
    /// Some time after its answer: a loss of power may lose the last commits, for tests and data
    /// that can be made again.
    Relaxed,
}

pub(crate) struct Sqlite {
    connection: rusqlite::Connection,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(|e| {
            CatalogError::new(
                ErrorType::Unavailable,
                format!("the catalog's file {} can't be opened: {e}", path.display()),
            )
        })?;
        connection.set_prepared_statement_cache_capacity(PREPARED);
        connection.busy_timeout(BUSY).map_err(error)?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Relaxed => "NORMAL",
        };
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON;
                 PRAGMA trusted_schema = OFF; PRAGMA cache_size = -8192; PRAGMA wal_autocheckpoint = 4000;"
            ))
            .map_err(error)?;
        Ok(Sqlite { connection })
    }

    pub(crate) fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error)?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(error)?;
        let mut collected = Vec::new();
        while let Some(row) = rows.next().map_err(error)? {
            let values: Result<Vec<_>> = (0..columns)
                .map(|index| value(row.get_ref(index).map_err(error)?))
                .collect();
            collected.push(Row::new(values?));
        }
        Ok(collected)
    }

    pub(crate) fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error)?;
        let changed = statement.execute(rusqlite::params_from_iter(params)).map_err(error)?;
        Ok(changed as u64)
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(error)
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn value(value: ValueRef<'_>) -> Result<Value> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Int(number)),
        ValueRef::Text(bytes) => Ok(Value::Text(String::from_utf8_lossy(bytes).into_owned())),
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(CatalogError::internal(
            "the catalog's database has a value of a type that deltaplane doesn't write",
        )),
    }
}

fn error(error: rusqlite::Error) -> CatalogError {
    let code = error.sqlite_error_code();
    let kind = match code {
        Some(ErrorCode::ConstraintViolation) => ErrorType::AlreadyExists,
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly,
        ) => ErrorType::Unavailable,
        _ => ErrorType::InternalServerError,
    };
    let message = match kind {
        ErrorType::AlreadyExists => "another writer took the name, location or version first".to_owned(),
        _ => format!("the catalog's database failed: {error}"),
    };
    CatalogError::new(kind, message)
}
