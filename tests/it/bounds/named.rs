//! Every maximum of the code has a row, or a reason why callers need none. So the next one cannot
//! be forgotten.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};

use super::TABLE;

/// Where the maxima of nodes are, from the top of the checkout.
const NODE: &str = "node/src/limits.rs";
const NODE_PARTS: &str = "node/src/limits";
const MACHINE: &str = "node/machine/src/limits.rs";

/// What rows begin with, and the constants that they say.
const ROWS: [(&str, &[&str]); 98] = [
    ("elements of one repeated field", &["MESSAGE_ELEMENTS_MAX"]),
    ("bytes of a message", &["MESSAGE_BYTES_MAX"]),
    ("`message-ms`", &["MESSAGE_TIME_MAX"]),
    ("the time of a call", &["DEADLINE_MAX"]),
    (
        "calls under way on an Exchange",
        &["EXCHANGE_CALLS_IN_FLIGHT_MAX"],
    ),
    (
        "answers in one batch",
        &["EXCHANGE_BATCH_ANSWERS_MAX", "EXCHANGE_BATCH_BYTES_MAX"],
    ),
    (
        "a part of a list",
        &[
            "LIST_PAGE_ROWS_MAX",
            "LIST_PAGE_BYTES_MAX",
            "LIST_PAGES_BUFFERED_MAX",
        ],
    ),
    ("a list |", &["LIST_TIME_MAX", "LIST_STALL_MAX"]),
    ("unread replies", &["ANSWERS_WAITING_BYTES_MAX"]),
    ("pieces of replies", &["PIECES_UNTIMED_MAX"]),
    (
        "an unread reply",
        &["ANSWER_STALL_MAX", "EXCHANGE_STALL_MAX"],
    ),
    ("a body of JSON", &["JSON_BYTES_MAX", "JSON_VALUES_MAX"]),
    ("the name of a member", &["JSON_NAME_BYTES_MAX"]),
    ("headers of a request", &["HEADER_LIST_BYTES_MAX"]),
    (
        "the same, as far as",
        &["HEADER_LIST_READ_BYTES_MAX", "HTTP1_BUFFER_BYTES_MAX"],
    ),
    ("headers that do not end", &["HTTP1_HEAD_TIME_MAX"]),
    (
        "the name of a message's encoding",
        &["ENCODING_NAME_BYTES_MAX"],
    ),
    (
        "the digest of a claim",
        &["CLAIM_DIGEST_BYTES_MAX", "CLAIM_LEASE_MS_MAX"],
    ),
    ("tenants that were made", &["TENANTS_MAX"]),
    ("tokens, and those", &["TOKENS_MAX", "TOKEN_SCOPES_MAX"]),
    (
        "targets of an audit event",
        &["AUDIT_TARGETS_MAX", "AUDIT_TARGET_BYTES_MAX"],
    ),
    ("targets in the audit line", &["AUDIT_DENIED_TARGETS_MAX"]),
    (
        "values that are read only",
        &["SWEEP_BYTES_MAX", "TICK_ROWS_MAX"],
    ),
    (
        "rows that a count looks at",
        &["COUNT_INDEX_ROWS_MAX", "COUNT_RECORDS_MAX"],
    ),
    ("a value |", &["VALUE_BYTES_MAX"]),
    ("a key, and", &["KEY_BYTES_MAX"]),
    ("an owner, and", &["OWNER_BYTES_MAX"]),
    ("the id of a handle", &["ID_BYTES_MAX"]),
    ("the name of a tenant", &["NAME_BYTES_MAX"]),
    (
        "operations of a transaction",
        &["TRANSACTION_OPERATIONS_MAX"],
    ),
    ("names and values of these", &["TRANSACTION_BYTES_MAX"]),
    ("a key prefix that", &["TOKEN_KEY_PREFIX_BYTES_MAX"]),
    ("how far the time", &["REQUEST_AHEAD_MS_MAX"]),
    (
        "expired rows of its tenant",
        &["ROOM_ROWS_MAX", "ROOM_LOOKS_MAX"],
    ),
    (
        "connections to the client port",
        &["CLIENT_CONNECTIONS_MAX"],
    ),
    ("connections to the peer port", &["PEER_CONNECTIONS_MAX"]),
    ("streams of one connection", &["CONNECTION_STREAMS_MAX"]),
    (
        "streams that a caller resets",
        &[
            "CONNECTION_RESETS_PENDING_MAX",
            "CONNECTION_RESETS_FORCED_MAX",
        ],
    ),
    ("a connection without traffic", &["CONNECTION_STALL_MAX"]),
    (
        "calls in a row",
        &["REFUSALS_PAUSE_MAX", "LITTLE_READS_MAX"],
    ),
    ("TLS handshakes", &["HANDSHAKES_MAX"]),
    ("a TLS handshake", &["GREETING_TIME_MAX"]),
    (
        "a part of a watch",
        &["WATCH_PART_CHANGES_MAX", "WATCH_PART_BYTES_MAX"],
    ),
    ("an unread part of a watch", &["WATCH_STALL_MAX"]),
    (
        "spans that wait",
        &["TRACE_SPANS_QUEUED_MAX", "TRACE_BATCH_SPANS_MAX"],
    ),
    ("the tenant's name in a span", &["TRACE_TEXT_BYTES_MAX"]),
    ("backups", &["BACKUPS_MAX"]),
    ("the snapshot that a backup", &["BACKUP_SNAPSHOT_TIME_MAX"]),
    ("a backup |", &["BACKUP_TIME_MAX", "BACKUP_STALL_MAX"]),
    ("a segment that is read", &["SEGMENT_FILE_BYTES_MAX"]),
    (
        "a request of `helve backup`",
        &[
            "BUCKET_ATTEMPT_MAX",
            "BUCKET_CALL_MAX",
            "BUCKET_RETRIES_MAX",
        ],
    ),
    ("what `helve backup` holds", &["BUCKET_PARTS_MAX"]),
    ("objects that a command", &["BUCKET_OBJECTS_MAX"]),
    ("manifests of a bucket", &["BUCKET_MANIFESTS_BYTES_MAX"]),
    (
        "an answer of a bucket's store",
        &["BUCKET_ANSWER_BYTES_MAX"],
    ),
    ("a backup to a bucket", &["BUCKET_BACKUP_MAX"]),
    ("a deletion in a bucket", &["BUCKET_DELETE_MAX"]),
    (
        "a mark in a bucket",
        &["BUCKET_BACKUP_MARK_MAX", "BUCKET_DELETE_MARK_MAX"],
    ),
    ("files that the caller of a backup", &["BACKUP_HELD_MAX"]),
    ("health watches |", &["HEALTH_WATCHES_MAX"]),
    (
        "health watches of one address",
        &["ADDRESS_HEALTH_WATCHES_MAX"],
    ),
    ("a health watch |", &["HEALTH_WATCH_TIME_MAX"]),
    ("seats", &["SEATS_MAX"]),
    ("commands that wait", &["PROPOSE_QUEUE_MAX"]),
    ("batches of a turn", &["PROPOSE_BATCHES_BESIDE_MAX"]),
    (
        "batches on their way",
        &[
            "FORWARD_QUEUE_MAX",
            "FORWARD_BATCHES_MAX",
            "FORWARD_BYTES_MAX",
        ],
    ),
    ("messages with commands", &["FORWARDED_MESSAGES_MAX"]),
    (
        "commands that a leader carries",
        &["EXECUTE_COMMANDS_MAX", "EXECUTE_BYTES_MAX"],
    ),
    (
        "reads that wait for a round",
        &["READ_QUEUE_MAX", "READ_ROUNDS_MAX"],
    ),
    ("reads that wait for a thread", &["DISK_READS_WAITING_MAX"]),
    (
        "the turn of a tenant among them, and",
        &["DISK_READS_TOGETHER_MAX"],
    ),
    (
        "threads whose reads",
        &["DISK_READS_MAX", "DISK_READS_LONG_MAX"],
    ),
    ("bytes of entries that wait", &["LOG_QUEUED_BYTES_MAX"]),
    ("requests for health", &["NAME_REQUEST_BYTES_MAX"]),
    ("connections to the HTTP port", &["HTTP_CONNECTIONS_MAX"]),
    ("a head |", &["HTTP_HEAD_BYTES_MAX"]),
    ("a head, a pause", &["HTTP_HEADER_TIME_MAX"]),
    ("a body |", &["HTTP_BODY_BYTES_MAX"]),
    ("bodies |", &["HTTP_REQUEST_BYTES_MAX"]),
    ("pages that wait", &["HTTP_ANSWER_BYTES_MAX"]),
    ("scrapes of `/metrics`", &["SCRAPES_MAX"]),
    ("scrapes of one address", &["ADDRESS_SCRAPES_MAX"]),
    ("calls of the console under way", &["CONSOLE_CALLS_MAX"]),
    (
        "calls of the console of one principal",
        &["PRINCIPAL_CONSOLE_CALLS_MAX"],
    ),
    (
        "the same of one address, with",
        &["ADDRESS_CONSOLE_CALLS_MAX"],
    ),
    ("calls of operators", &["OPERATORS_CONSOLE_CALLS_MAX"]),
    (
        "calls of the console whose",
        &["CONSOLE_LOOKUPS_MAX", "ADDRESS_CONSOLE_LOOKUPS_MAX"],
    ),
    ("stores in a page", &["CONSOLE_STORES_MAX"]),
    ("what the console asks", &["CONSOLE_PEER_TIME_MAX"]),
    ("tenants that have lines", &["TENANT_METRICS_MAX"]),
    ("digests of all rows", &["DIGESTS_MAX"]),
    ("lines that wait for the disk |", &["AUDIT_QUEUE_BYTES_MAX"]),
    (
        "lines of refused calls |",
        &[
            "AUDIT_DENIED_LINES_MAX",
            "AUDIT_DENIED_LINES_NODE_MAX",
            "AUDIT_KINDS_MAX",
        ],
    ),
    ("a name in a line", &["AUDIT_NAME_BYTES_MAX"]),
    (
        "replay sessions",
        &["SESSIONS_MAX", "PRINCIPAL_SESSIONS_MAX"],
    ),
    ("outcomes of a session", &["SESSION_WINDOW_CALLS_MAX"]),
    ("outcomes of request ids", &["PRINCIPAL_REQUESTS_MAX"]),
    ("tombstones", &["TOMBSTONES_MAX"]),
];

/// Why others have no row.
const WITHOUT: [(&str, &[&str]); 10] = [
    (
        "what nodes send each other, which no caller makes larger",
        &[
            "PEER_MESSAGE_BYTES_MAX",
            "SNAPSHOT_CHUNKS_QUEUED_MAX",
            "SNAPSHOT_FILES_MAX",
            "SNAPSHOT_NAME_BYTES_MAX",
            "ACKNOWLEDGED_NODES_MAX",
            "ACKNOWLEDGED_UUID_BYTES_MAX",
            "LOG_HELD_BYTES_MAX",
            "LAG_READY_MAX",
            "CLUSTER_ID_BYTES_MAX",
        ],
    ),
    (
        "how much a node does in one step; the rest follows at once",
        &[
            "APPLY_ENTRIES_MAX",
            "APPLY_BYTES_MAX",
            "LOG_GROUP_OPS_MAX",
            "LOG_GROUP_BYTES_MAX",
            "LOG_PAGE_BYTES_MAX",
            "AUDIT_BATCH_LINES_MAX",
            "READ_VIEW_QUERIES_MAX",
            "READ_ROUND_LAG_MAX",
            "ROWS_AHEAD_MAX",
            "TICK_ALONE_ENTRIES_MAX",
            "TICK_OVERDUE_MAX",
        ],
    ),
    (
        "batches under way, which the page tells in its list above the tables",
        &[
            "PROPOSE_BATCH_COMMANDS_MAX",
            "PROPOSE_BATCHES_MAX",
            "EXECUTE_BATCHES_MAX",
        ],
    ),
    (
        "sealing, which operators alone change",
        &[
            "RESEAL_ROWS_MAX",
            "RESEAL_BYTES_MAX",
            "RESEAL_RECORDS_MAX",
            "SEALING_SECRET_BYTES_MAX",
            "FORMER_KEYS_MAX",
        ],
    ),
    (
        "part of another bound: how it is worked out, or what is reserved of it",
        &[
            "DEADLINE_MARGIN_MAX",
            "ANSWER_RECORD_BYTES_MAX",
            "ANSWER_NAMES_BYTES_MAX",
            "WATCH_PART_HEAD_BYTES_MAX",
            "STREAM_SEND_BYTES_MAX",
            "EXCHANGE_BATCH_REPLIES_BYTES_MAX",
        ],
    ),
    (
        "the number of another row: as many as the elements of a repeated field",
        &["EXCHANGE_BATCH_CALLS_MAX"],
    ),
    (
        "a cache: beyond it, calls cost more and are answered the same",
        &["TOKENS_SEEN_MAX"],
    ),
    (
        "a file of the operator's, which a node reads at its start",
        &["PEM_BYTES_MAX"],
    ),
    (
        "a second net, behind the targets of an audit event",
        &["AUDIT_LINE_TARGETS_MAX", "AUDIT_LINE_TARGETS_BYTES_MAX"],
    ),
    ("below feature level 5 alone", &["REQUESTS_MAX"]),
];

/// The name of the maximum that a line declares, if it declares one.
fn maximum(line: &str) -> Option<&str> {
    let declared = line
        .strip_prefix("pub const ")
        .or_else(|| line.strip_prefix("pub(crate) const "))?;
    let (name, _) = declared.split_once(':')?;
    name.ends_with("_MAX").then_some(name)
}

/// The names of all maxima.
fn maxima() -> Result<BTreeSet<String>> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let top = tests.parent().context("the workspace")?;
    let mut files = vec![top.join(NODE), top.join(MACHINE)];
    for part in fs::read_dir(top.join(NODE_PARTS))? {
        files.push(part?.path());
    }
    let mut found = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        found.extend(text.lines().filter_map(maximum).map(str::to_owned));
    }
    Ok(found)
}

#[test]
fn every_maximum_has_a_row_or_a_reason_to_have_none() -> Result<()> {
    let mut listed = BTreeSet::new();
    for (_, constants) in ROWS.iter().chain(&WITHOUT) {
        for constant in *constants {
            ensure!(listed.insert(*constant), "{constant} is listed twice");
        }
    }
    let maxima = maxima()?;
    let forgotten: Vec<&String> = maxima
        .iter()
        .filter(|name| !listed.contains(name.as_str()))
        .collect();
    ensure!(
        forgotten.is_empty(),
        "give {forgotten:?} a row of docs/limits.md, or a reason to have none"
    );
    let gone: Vec<&&str> = listed
        .iter()
        .filter(|name| !maxima.contains(**name))
        .collect();
    ensure!(gone.is_empty(), "{gone:?} are listed and no constants");
    for (beginning, _) in ROWS {
        let beginning = format!("| {beginning}");
        let has_row = TABLE.lines().any(|line| line.starts_with(&beginning));
        ensure!(has_row, "no row begins with `{beginning}`");
    }
    Ok(())
}

#[test]
fn only_declarations_of_maxima_are_found() {
    for (line, name) in [
        ("pub const ROWS_MAX: u32 = 1;", Some("ROWS_MAX")),
        ("pub(crate) const ROWS_MAX: u32 = 1;", Some("ROWS_MAX")),
        ("pub const ROWS_MIN: u32 = 1;", None),
        ("    rows_max: ROWS_MAX,", None),
        ("/// See [`ROWS_MAX`].", None),
    ] {
        assert_eq!(maximum(line), name, "{line}");
    }
}
