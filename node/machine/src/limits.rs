//! Every limit of the machine. Those that decide an outcome are part of what is replicated: a changed one needs a new feature
//! level.

/// The newest feature level that this version supports; see [`crate::level`].
pub const FEATURE_LEVEL: u32 = 6;

/// Bytes of a tenant's, store's or id prefix's name, of `[a-z0-9_-]`.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of a handle's id.
pub const ID_BYTES_MAX: usize = 128;
/// Characters of a minted id without its prefix.
pub const MINTED_ID_CHARS: usize = 26;
/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 1024;
/// Bytes of an owner or a principal.
pub const OWNER_BYTES_MAX: usize = 256;
/// Bytes of a value.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Bytes that sealing adds to a value: what callers may store does not shrink by it.
pub const SEAL_BYTES: usize = 45;
/// Bytes of a sealing key's id.
pub const SEALING_KEY_ID_BYTES: usize = 8;
/// Bytes of the sealed fingerprint secret, at most.
pub const SEALING_SECRET_BYTES_MAX: usize = 256;
/// Keys that sealed before, whose ids are kept; beyond it the oldest goes first.
pub const FORMER_KEYS_MAX: usize = 64;
/// Records of one Reseal.
pub const RESEAL_RECORDS_MAX: usize = 128;
/// Operations of a transaction, items of a batch store, keys of a batch retrieve.
pub const TRANSACTION_OPERATIONS_MAX: usize = 128;
/// Bytes of all names and values of a transaction; also of all values that one takes, or that a batch retrieve answers.
pub const TRANSACTION_BYTES_MAX: usize = 4 << 20;
/// Bytes of a claim's digest.
pub const CLAIM_DIGEST_BYTES_MAX: usize = 64;
/// How long the lease of a claim may last, in milliseconds of replicated time: a holder that is gone keeps others out for so long.
pub const CLAIM_LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Bytes of a cluster's id.
pub const CLUSTER_ID_BYTES_MAX: usize = 64;
/// Bytes of a session or request id.
pub const IDENTITY_BYTES: usize = 16;
/// Bytes of a fingerprint.
pub const FINGERPRINT_BYTES: usize = 16;

/// How long the owner hears that a handle expired or was taken, and a lease of a claim how those before it ended, in milliseconds of
/// replicated time.
pub const TOMBSTONE_TTL_MS: u64 = 24 * 60 * 60 * 1000;
/// Tombstones of a tenant; beyond it the oldest goes first.
pub const TOMBSTONES_MAX: u64 = 1_000_000;
/// What a tombstone counts among its tenant's bytes beside its path: never more than the record counted that it is left of, so that a
/// take or a sweep takes no tenant over its quota.
pub const TOMBSTONE_BYTES: i64 = 24;
/// Tombstones that are left to a tenant over its quota of bytes.
pub const TOMBSTONES_MIN: u64 = 64;

/// How long a replay session may lie idle, in milliseconds of replicated time.
pub const SESSION_IDLE_TTL_MS: u64 = 60 * 60 * 1000;
/// A session's deadline is kept this much later, and rewritten only when it would move by more, so that few calls write it.
pub const SESSION_SLACK_MS: u64 = 6 * 60 * 1000;
/// How far a call's number may run ahead of its session's floor.
pub const SESSION_WINDOW_CALLS_MAX: u64 = 4096;
/// Replay sessions of a tenant; a further one is refused with QUOTA.
pub const SESSIONS_MAX: u64 = 100_000;
/// Replay sessions of a principal; beyond it the principal's idlest goes first, or else a further one is refused with QUOTA.
pub const PRINCIPAL_SESSIONS_MAX: u64 = 25_000;
/// Replay sessions that a principal may open where others of its tenant left no room.
pub const PRINCIPAL_SESSIONS_MIN: u64 = 16;
/// How long a session must have been idle to make room for another one of its principal, in milliseconds of replicated time.
pub const SESSION_EVICTED_IDLE_MS: u64 = 10 * 60 * 1000;
/// What a session counts among its tenant's bytes, beside its outcomes.
pub const SESSION_BYTES: u64 = 2048;
/// Outcomes that are left to each session of a tenant over its quota of bytes: retries of its last calls are still answered.
pub const SESSION_OUTCOMES_MIN: usize = 16;

/// How long the outcome of a request id is kept, in milliseconds of replicated time.
pub const REQUEST_TTL_MS: u64 = 10 * 60 * 1000;
/// How far a request id's time may run ahead of the replicated clock, in milliseconds.
pub const REQUEST_AHEAD_MS_MAX: u64 = 60 * 1000;
/// Outcomes of request ids of a tenant, below feature level 5; beyond it the floor rises.
pub const REQUESTS_MAX: u64 = 100_000;
/// Outcomes of request ids of a principal; beyond it its own floor rises, and never above the clock.
pub const PRINCIPAL_REQUESTS_MAX: u64 = 50_000;
/// Outcomes of request ids that are left to each principal of a tenant over its quota of bytes.
pub const PRINCIPAL_REQUESTS_MIN: u64 = 64;

/// The tenant that every cluster has.
pub const DEFAULT_TENANT: &str = "default";
/// Tenants that were made, of a cluster; a further one is refused with QUOTA.
pub const TENANTS_MAX: usize = 1000;
/// Tokens of a tenant, those included that were revoked within a day; a further one is refused with QUOTA.
pub const TOKENS_MAX: usize = 1000;
/// Bytes of a token's hash, SHA-256.
pub const TOKEN_HASH_BYTES: usize = 32;
/// Stores, and key prefixes, that a token may be confined to.
pub const TOKEN_SCOPES_MAX: usize = 8;
/// Bytes of a key prefix that a token is confined to.
pub const TOKEN_KEY_PREFIX_BYTES_MAX: usize = 256;
/// How long a revoked token stays listed, and its secret refused, in milliseconds of replicated time.
pub const REVOKED_TTL_MS: u64 = 24 * 60 * 60 * 1000;

/// Rows that a mutation removes on the way of those due for [`SWEEP_OVERDUE_MS`]: each costs about as much as the mutation, and its
/// caller waits for them.
pub const SWEEP_ROWS: u32 = 1;
/// How long what is due is left to Ticks alone, in milliseconds of replicated time: a million rows that become due at once take them
/// minutes beside callers. Left for longer, the rows of who writes many short-lived ones would fill the disk.
pub const SWEEP_OVERDUE_MS: u64 = 10 * 60 * 1000;
/// How often the machine looks for rows of the deadline index before the time that it is said to begin
/// at, in milliseconds of replicated time. Nothing else finds such a row.
pub const DEADLINES_LOOKED_OVER_MS: u64 = 24 * 60 * 60 * 1000;
/// Due rows that one Tick removes at most.
pub const TICK_ROWS_MAX: u32 = 1024;

/// Expired rows of its own tenant that a command removes at most where the tenant would be refused for want of room: one for each
/// operation of a transaction, so that rows which have expired make room for as many new ones.
pub const ROOM_ROWS_MAX: u32 = 128;
/// Looks into the deadline index to find them, past those of other tenants. The next command goes on from there.
pub const ROOM_LOOKS_MAX: u32 = 256;

/// Bytes of values that one command reads only to remove or to count their rows: outcomes of megabytes, and what a wrong count is worked
/// out from. What is left, the next Tick goes on with. One value may lie over it.
pub const SWEEP_BYTES_MAX: usize = 4 << 20;

/// Records of commands to come that are told at once.
pub const ROWS_AHEAD_MAX: usize = 512;

/// Rows of the deadline index that a count looks at: what has expired and is not removed yet must be told from what lives.
pub(crate) const COUNT_INDEX_ROWS_MAX: usize = 16_384;
/// Records that a count looks at one by one, if there are more due rows than that and no more records.
pub(crate) const COUNT_RECORDS_MAX: u64 = 1024;

/// Rows that a query reads from its view at once.
pub(crate) const SCAN_ROWS: usize = 32;
/// Index rows, which have no value, that a query reads from its view at once.
pub(crate) const SCAN_INDEX_ROWS: usize = 256;

/// The bounds of what is counted. A [`Batch`](crate::Batch) carries them, so that tests reach them with few rows. They decide
/// outcomes: replicas that differ in them diverge, so outside tests there is only [`Bounds::REPLICATED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// See [`TOMBSTONES_MAX`].
    pub tombstones_max: u64,
    /// See [`TOMBSTONES_MIN`].
    pub tombstones_min: u64,
    /// See [`SESSIONS_MAX`].
    pub sessions_max: u64,
    /// See [`PRINCIPAL_SESSIONS_MAX`].
    pub principal_sessions_max: u64,
    /// See [`PRINCIPAL_SESSIONS_MIN`].
    pub principal_sessions_min: u64,
    /// See [`SESSION_OUTCOMES_MIN`].
    pub session_outcomes_min: usize,
    /// See [`SESSION_WINDOW_CALLS_MAX`].
    pub session_window_calls_max: u64,
    /// See [`REQUESTS_MAX`].
    pub requests_max: u64,
    /// See [`PRINCIPAL_REQUESTS_MAX`].
    pub principal_requests_max: u64,
    /// See [`PRINCIPAL_REQUESTS_MIN`].
    pub principal_requests_min: u64,
    /// See [`TENANTS_MAX`].
    pub tenants_max: usize,
    /// See [`TOKENS_MAX`].
    pub tokens_max: usize,
    /// See [`TRANSACTION_BYTES_MAX`]; of the values that a transaction takes.
    pub taken_bytes_max: usize,
    /// See [`TICK_ROWS_MAX`].
    pub tick_rows_max: u32,
    /// See [`ROOM_ROWS_MAX`].
    pub room_rows_max: u32,
    /// See [`ROOM_LOOKS_MAX`].
    pub room_looks_max: u32,
    /// See [`SWEEP_BYTES_MAX`].
    pub sweep_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self::REPLICATED
    }
}

impl Bounds {
    /// What every replica uses.
    pub const REPLICATED: Self = Self {
        tombstones_max: TOMBSTONES_MAX,
        tombstones_min: TOMBSTONES_MIN,
        sessions_max: SESSIONS_MAX,
        principal_sessions_max: PRINCIPAL_SESSIONS_MAX,
        principal_sessions_min: PRINCIPAL_SESSIONS_MIN,
        session_outcomes_min: SESSION_OUTCOMES_MIN,
        session_window_calls_max: SESSION_WINDOW_CALLS_MAX,
        requests_max: REQUESTS_MAX,
        principal_requests_max: PRINCIPAL_REQUESTS_MAX,
        principal_requests_min: PRINCIPAL_REQUESTS_MIN,
        tenants_max: TENANTS_MAX,
        tokens_max: TOKENS_MAX,
        taken_bytes_max: TRANSACTION_BYTES_MAX,
        tick_rows_max: TICK_ROWS_MAX,
        room_rows_max: ROOM_ROWS_MAX,
        room_looks_max: ROOM_LOOKS_MAX,
        sweep_bytes_max: SWEEP_BYTES_MAX,
    };
}
