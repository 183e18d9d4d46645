//! The statements, with the table's name in them.

use helve_client::Error;
use helve_proto::Reason;

/// Bytes of a name that PostgreSQL keeps, less what is added to it.
const NAME_BYTES_MAX: usize = 50;

/// Times as whole milliseconds since the epoch.
const COLUMNS: &str = "key, revision,
    floor(extract(epoch FROM created_at) * 1000)::bigint AS created_ms,
    floor(extract(epoch FROM updated_at) * 1000)::bigint AS updated_ms,
    floor(extract(epoch FROM expires_at) * 1000)::bigint AS expires_ms,
    octet_length(value::text)::bigint AS value_bytes,
    floor(extract(epoch FROM now()) * 1000)::bigint AS clock_ms";
const IS_LIVE: &str = "(expires_at IS NULL OR expires_at > now())";

pub(super) struct Statements {
    /// In a transaction.
    pub(super) make: String,
    /// The type of the values.
    pub(super) column: String,
    /// Key, value, whether the deadline stays, milliseconds to the new one; and whether the key must be absent.
    pub(super) store: String,
    /// The same four, and the revision that the key must have.
    pub(super) store_at: String,
    /// Keys.
    pub(super) lock: String,
    /// Keys, values, whether the deadlines stay, milliseconds to the new one.
    pub(super) store_all: String,
    /// Keys.
    pub(super) retrieve: String,
    /// Key.
    pub(super) exists: String,
    /// Key.
    pub(super) delete: String,
    /// Prefix, how many at most.
    pub(super) list: String,
    pub(super) list_values: String,
}

impl Statements {
    pub(super) fn of_table(table: &str) -> Result<Self, Error> {
        let names: Vec<&str> = table.split('.').collect();
        let is_name = |name: &&str| {
            let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
            !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain)
        };
        if names.len() > 2 || !names.iter().all(is_name) {
            let message = format!(
                "{table:?} is no table's name: give NAME or SCHEMA.NAME, each of at most {NAME_BYTES_MAX} of [a-z0-9_]"
            );
            return Err(Error::refused(Reason::BadName, message, 0, 0));
        }
        let last = names[names.len() - 1];
        let quote = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("\"{name}\""))
                .collect::<Vec<_>>()
                .join(".")
        };
        let table = quote(&names);
        let sequence = table.trim_end_matches('"').to_owned() + "_revision\"";
        let list = |columns: &str| {
            format!(
                "SELECT {COLUMNS}{columns} FROM {table} WHERE starts_with(key, $1) AND {IS_LIVE}
                 ORDER BY key COLLATE \"C\" LIMIT $2"
            )
        };
        Ok(Self {
            make: make(&table, &sequence, last),
            column: format!(
                "SELECT format_type(atttypid, NULL) AS kind FROM pg_attribute
                 WHERE attrelid = '{table}'::regclass AND attname = 'value'"
            ),
            store: store(&table, &sequence),
            store_at: store_at(&table, &sequence),
            lock: format!(
                "SELECT key FROM {table} WHERE key = ANY($1) ORDER BY key COLLATE \"C\" FOR UPDATE"
            ),
            store_all: store_all(&table, &sequence),
            retrieve: format!(
                "SELECT {COLUMNS}, value::text AS value FROM {table} WHERE key = ANY($1) AND {IS_LIVE}"
            ),
            exists: format!("SELECT key FROM {table} WHERE key = $1 AND {IS_LIVE}"),
            delete: format!("DELETE FROM {table} WHERE key = $1"),
            list: list(""),
            list_values: list(", value::text AS value"),
        })
    }
}

/// A table of somebody else's may lack columns. `json`, unlike `jsonb`, keeps every string that JSON has.
fn make(table: &str, sequence: &str, name: &str) -> String {
    format!(
        "SELECT pg_advisory_xact_lock(hashtext('helve make table'));
         CREATE SEQUENCE IF NOT EXISTS {sequence};
         CREATE TABLE IF NOT EXISTS {table} (key text COLLATE \"C\" PRIMARY KEY, value json NOT NULL);
         ALTER TABLE {table} ADD COLUMN IF NOT EXISTS revision bigint NOT NULL DEFAULT nextval('{sequence}');
         ALTER TABLE {table} ADD COLUMN IF NOT EXISTS created_at timestamptz NOT NULL DEFAULT now();
         ALTER TABLE {table} ADD COLUMN IF NOT EXISTS updated_at timestamptz NOT NULL DEFAULT now();
         ALTER TABLE {table} ADD COLUMN IF NOT EXISTS expires_at timestamptz;
         CREATE INDEX IF NOT EXISTS \"{name}_expires\" ON {table} (expires_at) WHERE expires_at IS NOT NULL;"
    )
}

/// Takes a few rows that have expired, of other keys, and waits for no lock.
fn sweep(table: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE key <> $1 AND key IN (
           SELECT key FROM {table} WHERE expires_at <= now() LIMIT 4 FOR UPDATE SKIP LOCKED)"
    )
}

/// One row. Answers nothing if the key must be absent, and is not. A row that has expired counts as absent.
fn store(table: &str, sequence: &str) -> String {
    let is_gone = "s.expires_at <= now()";
    let sweep = sweep(table);
    format!(
        "WITH swept AS ({sweep}),
         written AS (
           INSERT INTO {table} AS s (key, value, revision, created_at, updated_at, expires_at)
           VALUES ($1::text, $2::text::json, nextval('{sequence}'), now(), now(),
                   now() + $4::bigint * interval '1 millisecond')
           ON CONFLICT (key) DO UPDATE SET
             value = EXCLUDED.value,
             revision = nextval('{sequence}'),
             created_at = CASE WHEN {is_gone} THEN now() ELSE s.created_at END,
             updated_at = now(),
             expires_at = CASE WHEN NOT $3::bool THEN EXCLUDED.expires_at
                               WHEN {is_gone} THEN NULL ELSE s.expires_at END
           WHERE {is_gone} OR NOT $5::bool
           RETURNING s.*, (xmax = 0 OR s.created_at = s.updated_at) AS is_new)
         SELECT {COLUMNS}, is_new FROM written"
    )
}

/// One row that is there. Answers nothing if its revision is another one.
fn store_at(table: &str, sequence: &str) -> String {
    let sweep = sweep(table);
    format!(
        "WITH swept AS ({sweep}),
         written AS (
           UPDATE {table} AS s SET
             value = $2::text::json,
             revision = nextval('{sequence}'),
             updated_at = now(),
             expires_at = CASE WHEN $3::bool THEN s.expires_at
                               ELSE now() + $4::bigint * interval '1 millisecond' END
           WHERE key = $1::text AND revision = $5::bigint AND {IS_LIVE}
           RETURNING s.*, false AS is_new)
         SELECT {COLUMNS}, is_new FROM written"
    )
}

/// All rows with one revision.
fn store_all(table: &str, sequence: &str) -> String {
    let is_gone = "s.expires_at <= now()";
    format!(
        "INSERT INTO {table} AS s (key, value, revision, created_at, updated_at, expires_at)
         SELECT item.key, item.value::json, batch.revision, now(), now(),
                now() + $4::bigint * interval '1 millisecond'
         FROM unnest($1::text[], $2::text[]) AS item (key, value),
              (SELECT nextval('{sequence}') AS revision) AS batch
         ORDER BY item.key COLLATE \"C\"
         ON CONFLICT (key) DO UPDATE SET
           value = EXCLUDED.value,
           revision = EXCLUDED.revision,
           created_at = CASE WHEN {is_gone} THEN now() ELSE s.created_at END,
           updated_at = now(),
           expires_at = CASE WHEN NOT $3::bool THEN EXCLUDED.expires_at
                             WHEN {is_gone} THEN NULL ELSE s.expires_at END"
    )
}
