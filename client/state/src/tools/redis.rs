//! The Redis tool: one hash a key, changed by scripts that the server runs whole.

mod scripts;

use std::fmt;

use async_trait::async_trait;
use helve_client::{
    Error, ErrorKind, Listing, Promises, Record, StoreOutcome, extend::decode_value,
    limits::LIST_BYTES_MAX,
};
use helve_proto::{NotPem, Reason, v1::RecordInfo};
use redis::{
    Client, ConnectionAddr, FromRedisValue, RedisError, Script, ScriptInvocation, TlsCertificates,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{
    bounds::over_long,
    failures::{ambiguous, unavailable},
    gate::Gate,
    keeper::{Access, Keeper, state_tool},
    options::{Lifespan, ToolOptions},
    trust,
};
use crate::limits::LIST_KEYS_MAX;

/// Keys on one Redis server, 6 or newer, or one that speaks its protocol and runs its scripts. Tools of one database see the same
/// keys: for several agents put a [key prefix](crate::Prefixed) before each.
///
/// A key is a hash of that name with the fields `value` (JSON), `revision`, `created_ms`, `updated_ms` and, with a deadline,
/// `expires_ms`; three more names that begin with NUL, which no key does, hold the last revision and the indexes of keys and
/// deadlines. Every call is one script, which the server runs whole, with its own clock, so writes, batches and lists are atomic
/// among each other.
///
/// # What it does not promise
/// - Durability: the server acknowledges before it has synced or copied a write (its defaults: a second's worth may be lost), and
///   may evict keys if it is told to (`maxmemory-policy` must be `noeviction`).
/// - Linearizability: after a failover an older copy answers.
/// - Exactly once: a write whose answer is lost is [`Ambiguous`](ErrorKind::Ambiguous), and is not sent again.
/// - Idle times.
/// - A cluster of Redis, whose keys lie apart.
///
/// # TLS
/// A `rediss` URL is reached over TLS alone. The server's certificate must name the host, and come from a certificate authority of
/// this machine, or of [`with_ca`](Self::with_ca). Over a `redis` URL everything can be read on the way: use a network that you
/// vouch for.
pub struct RedisTool {
    client: Client,
    connection: OnceCell<ConnectionManager>,
    gate: Gate,
}

/// What the scripts answer of a record: value (absent where it is not wanted), revision, times in milliseconds, bytes.
type Row = (Option<String>, u64, u64, u64, Option<u64>, u64);

impl RedisTool {
    /// What it promises.
    pub const PROMISES: Promises = {
        let mut promises = Promises::NONE;
        promises.atomic_batch = true;
        promises.one_view = true;
        promises.revisions = true;
        promises.ordered_revisions = true;
        promises.ttl = true;
        promises
    };

    /// Keys of the server and database that the URL names, as in `redis://localhost:6379/0`, or `rediss://` for TLS. Connects with
    /// the first call.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if the URL is none or asks not to verify certificates, or for a lifetime of zero.
    pub fn new(url: &str, options: ToolOptions) -> Result<Self, Error> {
        Self::open(url, None, options)
    }

    /// As [`new`](Self::new), over TLS to a server whose certificate comes from one of these authorities, in PEM, and no other.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Invalid`](ErrorKind::Invalid) if the URL is none of TLS, or there is no certificate.
    pub fn with_ca(url: &str, ca_pem: &[u8], options: ToolOptions) -> Result<Self, Error> {
        Self::open(url, Some(ca_pem), options)
    }

    fn open(url: &str, ca_pem: Option<&[u8]>, options: ToolOptions) -> Result<Self, Error> {
        let gate = Gate::new(options)?;
        let client = Client::open(url).map_err(|error| refused(WRONG_URL, error))?;
        let client = match (client.get_connection_info().addr(), ca_pem) {
            (ConnectionAddr::TcpTls { insecure: true, .. }, _) => {
                let message = "a Redis URL with #insecure: certificates are always verified";
                return Err(Error::refused(Reason::BadRequest, message, 0, 0));
            }
            (ConnectionAddr::TcpTls { .. }, ca_pem) => {
                trust::provider();
                with_roots(client, ca_pem)?
            }
            (_, Some(_)) => return Err(trust::unused_ca("give rediss://HOST:PORT/DATABASE")),
            (_, None) => client,
        };
        Ok(Self {
            client,
            connection: OnceCell::new(),
            gate,
        })
    }

    async fn rows(
        &self,
        connection: ConnectionManager,
        prefix: &str,
        bytes_max: Option<usize>,
    ) -> Result<Listing<(String, Row)>, Error> {
        type Answer = (u64, u64, String, Vec<(String, Row)>);
        loop {
            let mut call = scripts::LIST.script.prepare_invoke();
            call.key(scripts::COUNTER).key(scripts::INDEX);
            call.key(scripts::DEADLINES);
            call.arg(prefix).arg(LIST_KEYS_MAX);
            call.arg(bytes_max.map_or_else(String::new, |bytes| bytes.to_string()));
            let (revision, clock_ms, status, items): Answer =
                read(connection.clone(), call).await?;
            match status.as_str() {
                "whole" => {
                    return Ok(Listing {
                        revision,
                        clock_ms,
                        items,
                    });
                }
                "again" => {}
                _ => return Err(over_long()),
            }
        }
    }
}

const WRONG_URL: &str =
    "no Redis URL that this build can use: give redis://HOST:PORT/DATABASE, or rediss:// for TLS";

fn refused(message: &str, error: RedisError) -> Error {
    Error::refused(Reason::BadRequest, message, 0, 0).with_source(error)
}

fn with_roots(client: Client, ca_pem: Option<&[u8]>) -> Result<Client, Error> {
    let Some(ca_pem) = ca_pem else {
        return Ok(client);
    };
    let first = CertificateDer::pem_slice_iter(ca_pem).next();
    if !matches!(first, Some(Ok(_))) {
        let message = match NotPem::of(ca_pem) {
            Some(flaw) => format!("the file of certificate authorities: {flaw}"),
            None => "the file of certificate authorities holds no certificate in PEM".to_owned(),
        };
        return Err(Error::refused(Reason::BadRequest, message, 0, 0));
    }
    let certificates = TlsCertificates {
        client_tls: None,
        root_cert: Some(ca_pem.to_vec()),
    };
    Client::build_with_tls(client.get_connection_info().clone(), certificates).map_err(|error| {
        refused(
            "the file of certificate authorities holds what is no certificate in PEM",
            error,
        )
    })
}

async fn read<O: FromRedisValue>(
    mut connection: ConnectionManager,
    call: ScriptInvocation<'_>,
) -> Result<O, Error> {
    let answer = call.invoke_async(&mut connection).await;
    answer.map_err(|error| refusal(error, unavailable))
}

async fn write<O: FromRedisValue>(
    mut connection: ConnectionManager,
    call: ScriptInvocation<'_>,
) -> Result<O, Error> {
    let answer = call.invoke_async(&mut connection).await;
    answer.map_err(|error| refusal(error, ambiguous))
}

state_tool!(RedisTool);

#[async_trait]
impl Keeper for RedisTool {
    type Way = ConnectionManager;

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn promised(&self) -> Promises {
        Self::PROMISES
    }

    /// Reconnects by itself, but never sends a command again.
    async fn reach(&self, _access: Access) -> Result<ConnectionManager, Error> {
        let deadline = self.gate.options().deadline;
        let connect = || async {
            let config = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(deadline))
                .set_response_timeout(Some(deadline))
                .set_number_of_retries(1);
            ConnectionManager::new_with_config(self.client.clone(), config).await
        };
        let connected = self.connection.get_or_try_init(connect).await;
        let connection = connected.map_err(|error| unavailable("Redis does not answer", error))?;
        Ok(connection.clone())
    }

    async fn put(
        &self,
        connection: ConnectionManager,
        (key, value): (&str, &Value),
        lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        let items = [(key, value)];
        let call = scripts::STORE.call(items.into_iter(), lifespan, if_revision);
        let (status, row): (String, Row) = write(connection, call).await?;
        let info = info(key, &row);
        match status.as_str() {
            "created" => Ok(StoreOutcome::Created(info)),
            "replaced" => Ok(StoreOutcome::Replaced(info)),
            "conflict" => Ok(StoreOutcome::Conflict { revision: row.1 }),
            _ => Err(Error::internal("a script answered what it does not say")),
        }
    }

    async fn put_all(
        &self,
        connection: ConnectionManager,
        items: &[(String, Value)],
        lifespan: Lifespan,
    ) -> Result<(), Error> {
        let items = items.iter().map(|(key, value)| (key.as_str(), value));
        let call = scripts::STORE.call(items, lifespan, None);
        write::<(String, Row)>(connection, call).await.map(drop)
    }

    async fn get(
        &self,
        connection: ConnectionManager,
        keys: &[String],
    ) -> Result<Vec<Option<Record<Value>>>, Error> {
        let mut call = scripts::RETRIEVE.script.prepare_invoke();
        for key in keys {
            call.key(key);
        }
        let rows: Vec<Option<Row>> = read(connection, call).await?;
        let found = keys.iter().zip(rows);
        found
            .map(|(key, row)| row.map(|row| record(key, &row)).transpose())
            .collect()
    }

    async fn has(&self, connection: ConnectionManager, key: &str) -> Result<bool, Error> {
        let mut call = scripts::EXISTS.script.prepare_invoke();
        call.key(key);
        read(connection, call).await
    }

    async fn remove(&self, connection: ConnectionManager, key: &str) -> Result<(), Error> {
        let mut call = scripts::DELETE.script.prepare_invoke();
        call.key(key).key(scripts::INDEX).key(scripts::DEADLINES);
        write(connection, call).await
    }

    async fn infos(
        &self,
        connection: ConnectionManager,
        prefix: &str,
    ) -> Result<Listing<RecordInfo>, Error> {
        let rows = self.rows(connection, prefix, None).await?;
        rows.try_map(|(key, row)| Ok(info(&key, &row)))
    }

    async fn records(
        &self,
        connection: ConnectionManager,
        prefix: &str,
    ) -> Result<Listing<Record<Value>>, Error> {
        let rows = self.rows(connection, prefix, Some(LIST_BYTES_MAX)).await?;
        rows.try_map(|(key, row)| record(&key, &row))
    }
}

impl scripts::Named {
    /// Stores all items, on the condition if there is one.
    fn call<'a>(
        &self,
        items: impl Iterator<Item = (&'a str, &'a Value)>,
        lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> ScriptInvocation<'_> {
        let script: &Script = &self.script;
        let mut call = script.prepare_invoke();
        call.key(scripts::COUNTER).key(scripts::INDEX);
        call.key(scripts::DEADLINES);
        call.arg(match lifespan {
            Lifespan::Never => "never".to_owned(),
            Lifespan::Keep => "keep".to_owned(),
            Lifespan::AfterMs(ms) => ms.to_string(),
        });
        call.arg(if_revision.map_or_else(String::new, |revision| revision.to_string()));
        for (key, value) in items {
            call.key(key).arg(value.to_string());
        }
        call
    }
}

fn info(key: &str, row: &Row) -> RecordInfo {
    let &(_, revision, created_at_ms, updated_at_ms, expires_at_ms, value_bytes) = row;
    RecordInfo {
        name: key.to_owned(),
        revision,
        created_at_ms,
        updated_at_ms,
        expires_at_ms,
        value_bytes,
        ..RecordInfo::default()
    }
}

fn record(key: &str, row: &Row) -> Result<Record<Value>, Error> {
    let json = row.0.as_deref().unwrap_or_default();
    Ok(Record {
        info: info(key, row),
        value: decode_value(json.as_bytes()).map_err(|error| error.of_record(key))?,
    })
}

/// `lost` says what an answer that never came means.
fn refusal(error: RedisError, lost: fn(&str, RedisError) -> Error) -> Error {
    let code = error.code().unwrap_or_default().to_owned();
    let refused = |kind, message: &str| {
        Error::new(kind, format!("Redis: {message}: {error}")).with_source(error.to_string())
    };
    match code.as_str() {
        "OOM" => refused(
            ErrorKind::Full,
            "no memory is left, and nothing was written",
        ),
        "WRONGTYPE" => refused(
            ErrorKind::Codec,
            "the key was written by something else than this tool",
        ),
        "NOAUTH" | "WRONGPASS" | "NOPERM" => refused(ErrorKind::Denied, "not allowed"),
        "READONLY" | "LOADING" | "MASTERDOWN" | "BUSY" | "MISCONF" => {
            refused(ErrorKind::Unavailable, "nothing was written")
        }
        _ if error.is_connection_refusal() => unavailable("Redis does not answer", error),
        _ => lost("Redis answered nothing that helps", error),
    }
}

impl fmt::Debug for RedisTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTool")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_without_line_ends_are_refused_with_what_to_do() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let url = "rediss://127.0.0.1:1/0";
        let open = |pem: &str| RedisTool::with_ca(url, pem.as_bytes(), ToolOptions::default());
        let escaped = pem.replace('\n', "\\n");
        for pem in [format!("\"{escaped}\""), escaped] {
            let why = open(&pem).err().map(|error| error.to_string());
            let why = why.unwrap_or_default();
            assert!(why.contains(r"its line ends are written as `\n`"), "{why}");
        }
        let none = open("no PEM").err().map(|error| error.to_string());
        assert!(none.is_some_and(|why| why.contains("no certificate in PEM")));
    }
}
