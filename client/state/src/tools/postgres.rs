//! The PostgreSQL tool: one row a key.

mod connect;
mod decimal;
mod sql;

use std::{collections::HashMap, fmt, pin::pin};

use async_trait::async_trait;
use deadpool_postgres::{Object, Pool};
use futures::TryStreamExt as _;
use helve_client::{
    Error, ErrorKind, Listing, Promises, Record, StoreOutcome, exact, extend::decode_value,
};
use helve_proto::v1::RecordInfo;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_postgres::{Row, types::ToSql};

use self::{
    connect::{read_error, write_error},
    sql::Statements,
};
use super::{
    bounds::Room,
    gate::Gate,
    keeper::{Access, Keeper, state_tool},
    options::{Lifespan, ToolOptions},
};
use crate::limits::LIST_KEYS_MAX;

/// Keys in one table of a PostgreSQL database, 14 or newer. The table is made, with a sequence for the revisions, by the first call
/// that finds none; one that has Caxton's columns (`key`, `value`, `updated_at`) gets those that it lacks.
///
/// Each call is one statement or one transaction on the primary; time is the server's. Expired rows are removed by writes, a few at
/// a time. At most eight connections are open.
///
/// # What it does not promise
/// - Durability beyond the server's disk, and linearizability after a failover, unless its standbys are synchronous.
/// - Exactly once: a write whose answer is lost is [`Ambiguous`](helve_client::ErrorKind::Ambiguous), and is not sent again.
/// - Ordered revisions: they come from a sequence, and two writes at once may become visible in the other order. Each is used once.
/// - Idle times.
///
/// # TLS
/// With `sslmode=require`, `verify-ca` or `verify-full` in the URL everything goes over TLS, and in each of them the server's
/// certificate must name the host, and come from a certificate authority of this machine, or of [`with_ca`](Self::with_ca). In
/// any other mode nothing does: use a network that you vouch for.
pub struct PostgresTool {
    pool: Pool,
    statements: Statements,
    /// Set once the table is there: whether its values are `jsonb`.
    is_jsonb: OnceCell<bool>,
    gate: Gate,
}

impl PostgresTool {
    /// What it promises.
    pub const PROMISES: Promises = {
        let mut promises = Promises::NONE;
        promises.atomic_batch = true;
        promises.one_view = true;
        promises.revisions = true;
        promises.ttl = true;
        promises
    };

    /// Keys of the table in the database that the URL names, as in `postgresql://user:password@localhost/caxton`. Connects with the
    /// first call.
    ///
    /// # Errors
    /// [`Invalid`](helve_client::ErrorKind::Invalid) if the URL is none, if the table is not named `NAME` or `SCHEMA.NAME` of `[a-z0-9_]`,
    /// or for a lifetime of zero; [`Unavailable`](helve_client::ErrorKind::Unavailable) if this machine has no certificate authorities for
    /// TLS.
    pub fn new(url: &str, table: &str, options: ToolOptions) -> Result<Self, Error> {
        Self::open(url, table, None, options)
    }

    /// As [`new`](Self::new), over TLS to a server whose certificate comes from one of these authorities, in PEM, and no other.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Invalid`](helve_client::ErrorKind::Invalid) if the URL has no `sslmode` that asks for TLS, or there is no
    /// certificate.
    pub fn with_ca(
        url: &str,
        table: &str,
        ca_pem: &[u8],
        options: ToolOptions,
    ) -> Result<Self, Error> {
        Self::open(url, table, Some(ca_pem), options)
    }

    fn open(
        url: &str,
        table: &str,
        ca_pem: Option<&[u8]>,
        options: ToolOptions,
    ) -> Result<Self, Error> {
        let gate = Gate::new(options)?;
        Ok(Self {
            statements: Statements::of_table(table)?,
            pool: connect::pool(url, ca_pem, gate.options().deadline)?,
            is_jsonb: OnceCell::new(),
            gate,
        })
    }
}

impl PostgresTool {
    /// The value's text. A column of `jsonb`, as Caxton makes it, keeps numbers as decimals, which have one zero alone.
    fn json(&self, value: &Value) -> Result<String, Error> {
        if self.is_jsonb.get() != Some(&true) {
            return Ok(value.to_string());
        }
        let json = decimal::text(value)?;
        if exact::has_negative_zero(json.as_bytes()) {
            let message = "the value holds -0.0, and the table keeps values as jsonb, which has no such number: write it as a \
                           string, or make the column json";
            return Err(Error::new(ErrorKind::Codec, message));
        }
        Ok(json)
    }
}

async fn query(
    connection: &Object,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    let statement = connection.prepare_cached(sql).await.map_err(read_error)?;
    let rows = connection.query(&statement, parameters).await;
    rows.map_err(read_error)
}

/// Takes the rows as they come, because all of them may be more than a list may hold.
async fn list<I>(
    connection: &Object,
    sql: &str,
    prefix: &str,
    mut item: impl FnMut(&Row) -> Result<I, Error> + Send,
) -> Result<Listing<I>, Error> {
    let rows_max = i64::try_from(LIST_KEYS_MAX + 1).unwrap_or(i64::MAX);
    let parameters: [&(dyn ToSql + Sync); 2] = [&prefix, &rows_max];
    let statement = connection.prepare_cached(sql).await.map_err(read_error)?;
    let rows = connection.query_raw(&statement, parameters).await;
    let mut rows = pin!(rows.map_err(read_error)?);
    let mut listing = Listing {
        revision: 0,
        clock_ms: 0,
        items: Vec::new(),
    };
    while let Some(row) = rows.try_next().await.map_err(read_error)? {
        listing.revision = number(&row, "revision")?.max(listing.revision);
        listing.clock_ms = number(&row, "clock_ms")?;
        listing.items.push(item(&row)?);
    }
    Ok(listing)
}

state_tool!(PostgresTool);

#[async_trait]
impl Keeper for PostgresTool {
    type Way = Object;

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn promised(&self) -> Promises {
        Self::PROMISES
    }

    async fn reach(&self, _access: Access) -> Result<Object, Error> {
        let make = || async {
            let mut connection = connect::take(&self.pool).await?;
            let Statements { make, column, .. } = &self.statements;
            connect::make(&mut connection, make, column).await
        };
        self.is_jsonb.get_or_try_init(make).await?;
        connect::take(&self.pool).await
    }

    async fn put(
        &self,
        connection: Object,
        (key, value): (&str, &Value),
        lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        let json = self.json(value)?;
        let (keeps, after_ms) = lifetime(lifespan);
        let must_be_absent = if_revision == Some(0);
        // What is beyond the sequence is no row's revision.
        let wanted = i64::try_from(if_revision.unwrap_or(0)).unwrap_or(i64::MAX);
        let (sql, condition): (&str, &(dyn ToSql + Sync)) = match wanted {
            0 => (&self.statements.store, &must_be_absent),
            _ => (&self.statements.store_at, &wanted),
        };
        let parameters: &[&(dyn ToSql + Sync)] = &[&key, &json, &keeps, &after_ms, condition];
        let statement = connection.prepare_cached(sql).await.map_err(read_error)?;
        let row = connection.query_opt(&statement, parameters).await;
        if let Some(row) = row.map_err(write_error)? {
            let info = info(&row)?;
            return Ok(match row.try_get("is_new").map_err(read_error)? {
                true => StoreOutcome::Created(info),
                false => StoreOutcome::Replaced(info),
            });
        }
        let keys = [key];
        let found = query(&connection, &self.statements.retrieve, &[&keys.as_slice()]).await?;
        let revision = found
            .first()
            .map(|row| number(row, "revision"))
            .transpose()?;
        Ok(StoreOutcome::Conflict {
            revision: revision.unwrap_or(0),
        })
    }

    async fn put_all(
        &self,
        mut connection: Object,
        items: &[(String, Value)],
        lifespan: Lifespan,
    ) -> Result<(), Error> {
        let values = items.iter().map(|(_, value)| self.json(value));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        let keys: Vec<_> = items.iter().map(|(key, _)| key).collect();
        let (keeps, after_ms) = lifetime(lifespan);
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
    }

    async fn get(
        &self,
        connection: Object,
        keys: &[String],
    ) -> Result<Vec<Option<Record<Value>>>, Error> {
        let rows = query(&connection, &self.statements.retrieve, &[&keys]).await?;
        let records = rows.iter().map(record).collect::<Result<Vec<_>, Error>>()?;
        let named = records
            .into_iter()
            .map(|found| (found.name().to_owned(), found));
        let named: HashMap<_, _> = named.collect();
        Ok(keys.iter().map(|key| named.get(key).cloned()).collect())
    }

    async fn has(&self, connection: Object, key: &str) -> Result<bool, Error> {
        let rows = query(&connection, &self.statements.exists, &[&key]).await?;
        Ok(!rows.is_empty())
    }

    async fn remove(&self, connection: Object, key: &str) -> Result<(), Error> {
        let sql = self.statements.delete.as_str();
        let deleted = connection.execute(sql, &[&key]).await;
        deleted.map(drop).map_err(write_error)
    }

    async fn infos(&self, connection: Object, prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        let mut room = Room::LIST;
        let info = |row: &Row| {
            room.take(0)?;
            info(row)
        };
        list(&connection, &self.statements.list, prefix, info).await
    }

    async fn records(
        &self,
        connection: Object,
        prefix: &str,
    ) -> Result<Listing<Record<Value>>, Error> {
        let mut room = Room::LIST;
        let record = |row: &Row| {
            room.take(number(row, "value_bytes")?)?;
            record(row)
        };
        list(&connection, &self.statements.list_values, prefix, record).await
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
    let info = info(row)?;
    let value = decode_value(json.as_bytes()).map_err(|error| error.of_record(&info.name))?;
    Ok(Record { info, value })
}

impl fmt::Debug for PostgresTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTool")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}
