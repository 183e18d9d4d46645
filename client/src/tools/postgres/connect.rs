//! Connections, and what their errors mean.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use helve_proto::Reason;
use tokio_postgres::{Config, NoTls, config::SslMode, error::SqlState};

use crate::{
    error::{Error, ErrorKind},
    tools::{ambiguous, unavailable},
};

const CONNECTIONS_MAX: usize = 8;

pub(super) fn pool(url: &str, deadline: Duration) -> Result<Pool, Error> {
    let refused = |message: &str| Error::refused(Reason::BadRequest, message, 0, 0);
    let mut config: Config = url.parse().map_err(|error| {
        let message = "no PostgreSQL URL: give postgresql://USER:PASSWORD@HOST/DATABASE";
        refused(message).with_source(error)
    })?;
    if config.get_ssl_mode() == SslMode::Require {
        let message = "sslmode=require, and this build has no TLS: use a network that you vouch for, or another backend";
        return Err(refused(message));
    }
    config.connect_timeout(deadline);
    // A connection that broke is found out before it is used again.
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Verified,
    };
    let manager = Manager::from_config(config, NoTls, recycling);
    let pool = Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(deadline))
        .build();
    pool.map_err(|error| Error::internal("a pool without its runtime").with_source(error))
}

pub(super) async fn take(pool: &Pool) -> Result<Object, Error> {
    pool.get()
        .await
        .map_err(|error| unavailable("PostgreSQL does not answer", error))
}

/// Makes the table, unless it is there. Two that make it at once wait for each other.
pub(super) async fn make(connection: &mut Object, statements: &str) -> Result<(), Error> {
    let transaction = connection.transaction().await.map_err(read_error)?;
    transaction
        .batch_execute(statements)
        .await
        .map_err(read_error)?;
    transaction.commit().await.map_err(read_error)
}

/// Nothing was to be changed, or what was can be done again.
pub(super) fn read_error(error: tokio_postgres::Error) -> Error {
    refusal(error, unavailable)
}

pub(super) fn write_error(error: tokio_postgres::Error) -> Error {
    refusal(error, ambiguous)
}

fn refusal(error: tokio_postgres::Error, lost: fn(&str, tokio_postgres::Error) -> Error) -> Error {
    let Some(state) = error.code() else {
        return lost("PostgreSQL answered nothing", error);
    };
    // The server said no, so the transaction was not committed.
    let kind = match state {
        state if *state == SqlState::INSUFFICIENT_PRIVILEGE => ErrorKind::Denied,
        state if state.code().starts_with("28") => ErrorKind::Denied,
        state if state.code().starts_with("53") => ErrorKind::Full,
        state if state.code().starts_with("22") => ErrorKind::Codec,
        state if state.code().starts_with("42") => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let said = error
        .as_db_error()
        .map_or_else(|| error.to_string(), ToString::to_string);
    Error::new(kind, format!("PostgreSQL: {said}")).with_source(error)
}
