//! PostgreSQL: a connection that its thread waits for.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Statement};

use crate::error::{CatalogError, ErrorType, Result};
use crate::store::value::{Row, Value};

/// An answer that hasn't been waited for.
type Pending = Pin<Box<dyn Future<Output = Result<u64>> + Send>>;

pub(crate) struct Postgres {
    client: Arc<Client>,
    /// Statements that were sent, in their order.
    pending: Vec<Pending>,
    runtime: Handle,
    prepared: HashMap<&'static str, Statement>,
}

impl Postgres {
    /// Connects; `runtime` drives the connection, and must not be the caller's own thread.
    pub(crate) fn connect(url: &str, runtime: &Handle) -> Result<Self> {
        let connecting = async {
            let mut config: tokio_postgres::Config = url.parse()?;
            config.application_name("deltaplane catalog");
            config.connect_timeout(std::time::Duration::from_secs(10));
            config.connect(NoTls).await
        };
        // The error of a bad URL may repeat it, and the URL has a password.
        let (client, connection) = runtime.block_on(connecting).map_err(|e| {
            let reason = match e.as_db_error() {
                Some(reported) => reported.message().to_owned(),
                None if e.is_closed() => "the connection was closed".to_owned(),
                None => "the server can't be reached, or the URL is not valid".to_owned(),
            };
            CatalogError::new(ErrorType::Unavailable, format!("PostgreSQL can't be opened: {reason}"))
        })?;
        runtime.spawn(async move {
            if let Err(e) = connection.await {
                tracing::debug!("a connection to PostgreSQL ended: {e}");
            }
        });
        let mut postgres = Postgres {
            client: Arc::new(client),
            pending: Vec::new(),
            runtime: runtime.clone(),
            prepared: HashMap::new(),
        };
        postgres.batch("SET client_min_messages = warning; SET statement_timeout = '60s'; SET lock_timeout = '20s'")?;
        Ok(postgres)
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    pub(crate) fn query(&mut self, sql: &'static str, params: &[Value]) -> Result<Vec<Row>> {
        let statement = self.prepare(sql)?;
        let params: Vec<_> = params.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self
            .runtime
            .block_on(self.client.query(&statement, &params))
            .map_err(error)?;
        rows.iter()
            .map(|row| {
                let values: Result<Vec<_>> = (0..row.len()).map(|index| value(row, index)).collect();
                Ok(Row::new(values?))
            })
            .collect()
    }

    pub(crate) fn execute(&mut self, sql: &'static str, params: &[Value]) -> Result<u64> {
        let statement = self.prepare(sql)?;
        let params: Vec<_> = params.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        self.runtime
            .block_on(self.client.execute(&statement, &params))
            .map_err(error)
    }

    /// Sends a statement whose answer [`Postgres::flush`] waits for. The server runs statements in
    /// their order, so later queries see its effect.
    pub(crate) fn send(&mut self, sql: &'static str, params: &[Value]) -> Result<()> {
        let statement = self.prepare(sql)?;
        let (client, params) = (Arc::clone(&self.client), params.to_vec());
        let mut answer: Pending = Box::pin(async move {
            let params: Vec<_> = params.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
            client.execute(&statement, &params).await.map_err(error)
        });
        // The first poll hands the request to the connection's task.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answered) => answered.map(|_| ()),
            Poll::Pending => {
                self.pending.push(answer);
                Ok(())
            }
        }
    }

    /// Waits for the answers of all sent statements.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.runtime.block_on(async {
            for answer in pending {
                answer.await?;
            }
            Ok(())
        })
    }

    /// Gives up the answers of sent statements.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<()> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(error)
    }

    fn prepare(&mut self, sql: &'static str) -> Result<Statement> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.runtime.block_on(self.client.prepare(sql)).map_err(error)?;
        self.prepared.insert(sql, statement.clone());
        Ok(statement)
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(value) => value.to_sql(kind, out),
            Value::Text(text) => text.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::TEXT | Type::VARCHAR)
    }

    to_sql_checked!();
}

fn value(row: &tokio_postgres::Row, index: usize) -> Result<Value> {
    let kind = row.columns().get(index).map(|column| column.type_().clone());
    let value = match kind {
        Some(Type::INT8) => row.try_get::<_, Option<i64>>(index).map(Value::from),
        _ => row.try_get::<_, Option<String>>(index).map(Value::from),
    };
    value.map_err(error)
}

fn error(error: tokio_postgres::Error) -> CatalogError {
    let (kind, message) = match error.as_db_error() {
        Some(reported) => {
            let state = reported.code();
            let kind = if *state == SqlState::UNIQUE_VIOLATION {
                ErrorType::AlreadyExists
            } else if [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::LOCK_NOT_AVAILABLE,
                SqlState::QUERY_CANCELED,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::DISK_FULL,
            ]
            .contains(state)
            {
                ErrorType::Unavailable
            } else {
                ErrorType::InternalServerError
            };
            (
                kind,
                format!("PostgreSQL reports {}: {}", state.code(), reported.message()),
            )
        }
        None => (
            ErrorType::Unavailable,
            format!("the connection to PostgreSQL failed: {error}"),
        ),
    };
    let message = match kind {
        ErrorType::AlreadyExists => "another writer took the name, location or version first".to_owned(),
        _ => message,
    };
    CatalogError::new(kind, message)
}
