//! The PostgreSQL tool: one row a key.

mod connect;
mod sql;

use std::{collections::HashMap, fmt, time::Duration};

use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use helve_proto::{Reason, v1::RecordInfo};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_postgres::{Row, types::ToSql};

use self::{
    connect::{read_error, write_error},
    sql::Statements,
};
use super::{
    Lifespan, ToolOptions,
    bounds::{check_batch, check_key, check_keys, check_prefix, encode},
    gate::Gate,
};
use crate::{
    error::Error,
    limits::LIST_KEYS_MAX,
    promises::Promises,
    record::{Listing, Record, decode},
    state_tool::{StateTool, StoreOutcome},
    ttl::Ttl,
};

/// Keys in one table of a PostgreSQL database, 14 or newer. The table is made, with a sequence for the revisions, by the first call
/// that finds none; one that has Caxton's columns (`key`, `value`, `updated_at`) gets those that it lacks.
///
/// Each call is one statement or one transaction on the primary; time is the server's. Expired rows are removed by writes, a few at
/// a time. At most eight connections are open.
///
/// # What it does not promise
/// - Durability beyond the server's disk, and linearizability after a failover, unless its standbys are synchronous.
/// - Exactly once: a write whose answer is lost is [`Ambiguous`](crate::ErrorKind::Ambiguous), and is not sent again.
/// - Ordered revisions: they come from a sequence, and two writes at once may become visible in the other order. Each is used once.
/// - Idle times; and TLS, which this crate's build leaves out: a URL with `sslmode=require` is refused. Use a network that you
///   vouch for.
pub struct PostgresTool {
    pool: Pool,
    statements: Statements,
    is_made: OnceCell<()>,
    gate: Gate,
    options: ToolOptions,
}

impl PostgresTool {
    /// What it promises.
    pub const PROMISES: Promises = Promises {
        durable: false,
        linearizable: false,
        exactly_once: false,
        atomic_batch: true,
        one_view: true,
        revisions: true,
        ordered_revisions: false,
        ttl: true,
        idle_ttl: false,
    };

    /// Keys of the table in the database that the URL names, as in `postgresql://user:password@localhost/caxton`. Connects with the
    /// first call.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the URL is none, if it asks for TLS, if the table is not named `NAME` or
    /// `SCHEMA.NAME` of `[a-z0-9_]`, or for a lifetime of zero.
    pub fn new(url: &str, table: &str, options: ToolOptions) -> Result<Self, Error> {
        options.lifespan(Ttl::Default)?;
        Ok(Self {
            statements: Statements::of_table(table)?,
            pool: connect::pool(url, options.deadline)?,
            is_made: OnceCell::new(),
            gate: Gate::new(options.deadline),
            options,
        })
    }

    async fn connection(&self) -> Result<Object, Error> {
        let make = || async {
            let mut connection = connect::take(&self.pool).await?;
            connect::make(&mut connection, &self.statements.make).await
        };
        self.is_made.get_or_try_init(make).await?;
        connect::take(&self.pool).await
    }

    async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let queried = async {
            let connection = self.connection().await?;
            let statement = connection.prepare_cached(sql).await.map_err(read_error)?;
            let rows = connection.query(&statement, parameters).await;
            rows.map_err(read_error)
        };
        self.gate.read(queried).await
    }

    async fn store_one(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        check_key(key)?;
        let json = encode(value)?;
        let (keeps, after_ms) = lifetime(self.options.lifespan(ttl)?);
        let must_be_absent = if_revision == Some(0);
        // What is beyond the sequence is no row's revision.
        let wanted = i64::try_from(if_revision.unwrap_or(0)).unwrap_or(i64::MAX);
        let (sql, condition): (&str, &(dyn ToSql + Sync)) = match wanted {
            0 => (&self.statements.store, &must_be_absent),
            _ => (&self.statements.store_at, &wanted),
        };
        let stored = async {
            let connection = self.connection().await?;
            let parameters: &[&(dyn ToSql + Sync)] = &[&key, &json, &keeps, &after_ms, condition];
            let statement = connection.prepare_cached(sql).await.map_err(read_error)?;
            let row = connection.query_opt(&statement, parameters).await;
            row.map_err(write_error)
        };
        if let Some(row) = self.gate.write(stored).await? {
            let info = info(&row)?;
            return Ok(match row.try_get("is_new").map_err(read_error)? {
                true => StoreOutcome::Created(info),
                false => StoreOutcome::Replaced(info),
            });
        }
        let found = self
            .query(&self.statements.retrieve, &[&[key].as_slice()])
            .await?;
        let revision = found.first().map(info).transpose()?;
        let revision = revision.map_or(0, |info| info.revision);
        Ok(StoreOutcome::Conflict { revision })
    }

    async fn rows(&self, sql: &str, prefix: &str) -> Result<(u64, u64, Vec<Row>), Error> {
        check_prefix(prefix)?;
        let rows_max = i64::try_from(LIST_KEYS_MAX + 1).unwrap_or(i64::MAX);
        let rows = self.query(sql, &[&prefix, &rows_max]).await?;
        if rows.len() > LIST_KEYS_MAX {
            let message = format!("more than {LIST_KEYS_MAX} keys: list by a longer prefix");
            return Err(Error::refused(Reason::TooLarge, message, 0, 0));
        }
        let highest = rows.iter().map(|row| number(row, "revision"));
        let highest = highest.collect::<Result<Vec<_>, _>>()?.into_iter().max();
        let clock_ms = rows
            .first()
            .map(|row| number(row, "clock_ms"))
            .transpose()?;
        Ok((highest.unwrap_or(0), clock_ms.unwrap_or(0), rows))
    }
}

#[async_trait]
impl StateTool for PostgresTool {
    async fn store_record(&self, key: &str, value: &Value, ttl: Ttl) -> Result<RecordInfo, Error> {
        match self.store_one(key, value, ttl, None).await? {
            StoreOutcome::Created(info) | StoreOutcome::Replaced(info) => Ok(info),
            StoreOutcome::Conflict { .. } => Err(Error::internal("a conflict without condition")),
        }
    }

    async fn store_if(
        &self,
        key: &str,
        value: &Value,
        ttl: Ttl,
        revision: u64,
    ) -> Result<StoreOutcome, Error> {
        self.store_one(key, value, ttl, Some(revision)).await
    }

    async fn retrieve_record(&self, key: &str) -> Result<Option<Record<Value>>, Error> {
        check_key(key)?;
        let rows = self
            .query(&self.statements.retrieve, &[&[key].as_slice()])
            .await?;
        rows.first().map(record).transpose()
    }

    async fn delete(&self, key: &str) -> Result<(), Error> {
        check_key(key)?;
        let deleted = async {
            let connection = self.connection().await?;
            let deleted = connection
                .execute(self.statements.delete.as_str(), &[&key])
                .await;
            deleted.map_err(write_error)
        };
        self.gate.write(deleted).await.map(drop)
    }

    async fn list_infos(&self, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let (revision, clock_ms, items) = self.rows(&self.statements.list, prefix).await?;
        let listing = Listing {
            revision,
            clock_ms,
            items,
        };
        listing.try_map(|row| info(&row))
    }

    async fn list_values(&self, prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let (revision, clock_ms, items) = self.rows(&self.statements.list_values, prefix).await?;
        let listing = Listing {
            revision,
            clock_ms,
            items,
        };
        listing.try_map(|row| record(&row))
    }

    async fn exists(&self, key: &str) -> Result<bool, Error> {
        check_key(key)?;
        let rows = self.query(&self.statements.exists, &[&key]).await?;
        Ok(!rows.is_empty())
    }

    async fn batch_store(&self, items: &[(String, Value)]) -> Result<(), Error> {
        let items = check_batch(items)?;
        let (keys, values): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        let (keeps, after_ms) = lifetime(self.options.lifespan(Ttl::Default)?);
        let stored = async {
            let mut connection = self.connection().await?;
            let transaction = connection.transaction().await.map_err(read_error)?;
            // In the order of the keys, so that two batches never wait for each other.
            let locked = transaction
                .query(self.statements.lock.as_str(), &[&keys])
                .await;
            locked.map_err(read_error)?;
            let parameters: &[&(dyn ToSql + Sync)] = &[&keys, &values, &keeps, &after_ms];
            let stored = transaction
                .execute(self.statements.store_all.as_str(), parameters)
                .await;
            stored.map_err(write_error)?;
            transaction.commit().await.map_err(write_error)
        };
        self.gate.write(stored).await
    }

    async fn batch_retrieve(&self, keys: &[String]) -> Result<Vec<Option<Value>>, Error> {
        check_keys(keys.iter())?;
        let rows = self.query(&self.statements.retrieve, &[&keys]).await?;
        let records = rows.iter().map(record).collect::<Result<Vec<_>, Error>>()?;
        let values = records
            .into_iter()
            .map(|record| (record.info.name, record.value));
        let values: HashMap<_, _> = values.collect();
        Ok(keys.iter().map(|key| values.get(key).cloned()).collect())
    }

    fn promises(&self) -> Promises {
        Self::PROMISES
    }

    fn deadline(&self) -> Duration {
        self.gate.deadline()
    }

    fn close(&self) {
        self.gate.close();
    }
}

/// Whether the deadline stays, and how many milliseconds there are to the new one.
fn lifetime(lifespan: Lifespan) -> (bool, Option<i64>) {
    match lifespan {
        Lifespan::Never => (false, None),
        Lifespan::AfterMs(ms) => (false, Some(i64::try_from(ms).unwrap_or(i64::MAX))),
        Lifespan::Keep => (true, None),
    }
}

fn number(row: &Row, column: &str) -> Result<u64, Error> {
    let number: i64 = row.try_get(column).map_err(read_error)?;
    Ok(u64::try_from(number).unwrap_or(0))
}

fn info(row: &Row) -> Result<RecordInfo, Error> {
    let expires: Option<i64> = row.try_get("expires_ms").map_err(read_error)?;
    Ok(RecordInfo {
        name: row.try_get("key").map_err(read_error)?,
        revision: number(row, "revision")?,
        created_at_ms: number(row, "created_ms")?,
        updated_at_ms: number(row, "updated_ms")?,
        expires_at_ms: expires.and_then(|ms| u64::try_from(ms).ok()),
        value_bytes: number(row, "value_bytes")?,
        ..RecordInfo::default()
    })
}

fn record(row: &Row) -> Result<Record<Value>, Error> {
    let json: &str = row.try_get("value").map_err(read_error)?;
    Ok(Record {
        info: info(row)?,
        value: decode(json.as_bytes())?,
    })
}

impl fmt::Debug for PostgresTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTool")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
