//! What callers, peers and the node's own queues may take up, in one place. What the machine bounds (ids, keys, values, transactions)
//! is in `helve_machine::limits`; how long one file waits for something, and how it shapes its own writes, at that file's head.

mod audit;
mod backups;
mod console;
mod refusals;
mod traces;
mod turns;
mod watches;

use std::time::Duration;

pub use self::{audit::*, backups::*, console::*, refusals::*, traces::*, turns::*, watches::*};

/// The one consensus group, until there are many.
pub const GROUP_ID: u32 = 1;

/// The tenant and principal of callers without a credential.
pub const TENANT: &str = "default";
/// See [`TENANT`].
pub const PRINCIPAL: &str = "anonymous";

/// A message between nodes, in bytes: above what one append or one snapshot chunk can hold.
pub const PEER_MESSAGE_BYTES_MAX: usize = 64 << 20;

/// How long a member may take to say which sealing keys it holds.
pub const DATA_KEYS_LIMIT: Duration = Duration::from_secs(2);

/// Rows that the leader looks at before it reseals what it found among them, and then pauses.
pub const RESEAL_ROWS_MAX: u64 = 128;

/// Bytes of values that it reseals at once, or one larger value.
pub const RESEAL_BYTES_MAX: usize = 256 << 10;

/// How long it pauses then: with the two above, at most 3,200 rows and 6 MiB a second.
pub const RESEAL_PAUSE: Duration = Duration::from_millis(40);

/// A chunk of a snapshot on the wire, in bytes.
pub const SNAPSHOT_CHUNK_BYTES: usize = 512 << 10;

/// Between two chunks of a snapshot that is sent, so that callers hardly notice: 32 MiB a second.
pub const SNAPSHOT_CHUNK_PAUSE: Duration = Duration::from_micros(15_625);

/// Chunks of a snapshot that may wait to be sent or written.
pub const SNAPSHOT_CHUNKS_QUEUED_MAX: usize = 8;

/// Commands that may wait to be proposed on one node; over it, callers hear OVERLOADED.
pub const PROPOSE_QUEUE_MAX: usize = 16_384;

/// Commands that are proposed or forwarded together.
pub const PROPOSE_BATCH_COMMANDS_MAX: usize = 512;

/// Batches that may be under way at once: measured, four hide a round trip and more do not help.
pub const PROPOSE_BATCHES_MAX: usize = 4;

/// Batches that a leader has under way at once, of its own commands and those of other nodes.
pub const EXECUTE_BATCHES_MAX: usize = 2;

/// Commands of several batches that a leader puts together into one; a single larger one goes alone.
pub const EXECUTE_COMMANDS_MAX: usize = 1_024;

/// Batches that may wait for the connection to the leader; over it, callers hear OVERLOADED.
pub const FORWARD_QUEUE_MAX: usize = 16;

/// Messages with commands, or with what became of them, that may wait in that connection.
pub const FORWARD_BATCHES_MAX: usize = 8;

/// Bytes of commands or outcomes in one message between nodes; a single larger one goes alone.
pub const FORWARD_BYTES_MAX: usize = 2 << 20;

/// Reads that may wait for a round on one node; over it, callers hear OVERLOADED.
pub const READ_QUEUE_MAX: usize = 16_384;

/// Rounds of ReadIndex under way at once on one node.
pub const READ_ROUNDS_MAX: usize = 4;

/// How long the reads of one round wait together for this node's rows; then each waits by itself, until its own deadline.
pub const READ_ROUND_LAG_MAX: Duration = Duration::from_millis(50);

/// Queries that are asked of one view without a pause: bounds how long they hold up every other call.
pub const READ_VIEW_QUERIES_MAX: usize = 64;

/// Threads of one node whose reads may wait for the disk at once, and as many again that read ahead of what is applied; more reads wait
/// their turn.
pub const DISK_READS_MAX: usize = 16;

/// Reads of few rows that one such thread takes at once.
pub const DISK_READS_TOGETHER_MAX: usize = 16;

/// Reads that may wait for such a thread; over it, callers hear OVERLOADED.
pub const DISK_READS_WAITING_MAX: usize = 16_384;

/// Digests of all rows under way at once on one node; more wait their turn.
pub const DIGESTS_MAX: usize = 1;

/// Rows that one Tick removes at least: while no caller writes, and for a reader who waits for it.
pub const TICK_ROWS_MIN: u32 = 32;

/// Rows that one Tick removes at most: bounds how long its apply takes.
pub const TICK_ROWS_MAX: u32 = 256;

/// Callers' entries for which a Tick removes a row. A row costs about as much as an entry: in storms of deadlines this has left callers 66
/// to 86 percent of their speed. A share fits slow machines and quick ones.
pub const TICK_ENTRIES_PER_ROW: u64 = 3;

/// Entries that are applied while a Tick is under way, itself among them, up to which the next follows at once: if there are more,
/// callers are writing.
pub const TICK_ALONE_ENTRIES_MAX: u64 = 8;

/// How long a row may be due until Ticks no longer give way to callers: callers whose commands each give many rows a lifetime would
/// otherwise fill the disk with rows that are gone. Commands help from [`helve_machine::limits::SWEEP_OVERDUE_MS`] on, which mostly is
/// enough.
pub const TICK_OVERDUE_MAX: Duration = Duration::from_secs(900);

/// The least time between two Ticks if the first left nothing to do, or callers are writing: many deadlines close together are met by
/// one, and a storm of them leaves callers the greater part of the speed.
pub const TICK_SPACING: Duration = Duration::from_millis(25);

/// How often a node that does not lead asks for the leader's stamp, to vouch for time when it must lead itself.
pub const STAMP_POLL: Duration = Duration::from_secs(1);

/// How often a leader compares its time with the nodes' wall clocks, and at least looks for what is due.
pub const TIME_LOOK: Duration = Duration::from_millis(250);

/// How long rows wait to be written together with others, while there are no reads.
pub const APPLY_LINGER: Duration = Duration::from_millis(50);

/// How long rows are written at once after somebody has read some: a next reader would have to wait for the write.
pub const APPLY_READ_LATELY: Duration = Duration::from_millis(20);

/// Entries after which no further ones are applied, or written, together with them.
pub const APPLY_ENTRIES_MAX: usize = 4_096;

/// The same, in bytes of their commands, and of values that these write without bearing them.
pub const APPLY_BYTES_MAX: usize = 2 << 20;

/// The time that a call has if its caller names none.
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(5);

/// The longest time that a caller may ask for; more is cut to this.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// How much earlier than the caller's deadline, at most, the node answers, so that its own error arrives and not a bare timeout.
/// A twentieth of short deadlines.
pub const DEADLINE_MARGIN_MAX: Duration = Duration::from_millis(20);

/// The size of one gRPC message in bytes, in and out; above all limits of the contract, so that an error about size is ours.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes that one record takes in an answer at most: a value, and names, times and seals.
pub const ANSWER_RECORD_BYTES_MAX: usize =
    helve_machine::limits::VALUE_BYTES_MAX + ANSWER_NAMES_BYTES_MAX;

/// Of these, all but the value.
pub const ANSWER_NAMES_BYTES_MAX: usize = 2 << 10;

/// Elements of one repeated field of a message; a message with more is refused before it is decoded. As many as calls in a batch of
/// Exchange, which has most. The fewer that a call may have are checked once it is decoded.
pub const MESSAGE_ELEMENTS_MAX: usize = EXCHANGE_BATCH_CALLS_MAX;

/// How long a message may take from its first byte to its last, and that of a call that is no stream from the call's headers on; then
/// the call is refused.
pub const MESSAGE_TIME_MAX: Duration = Duration::from_secs(20);

/// How long a caller may take nothing of an answer that is ready for it; then the answer's stream is reset.
pub const ANSWER_STALL_MAX: Duration = Duration::from_secs(30);

/// Bytes of answers on one node that wait for callers who do not take them; over it, the one that has waited longest is reset.
pub const ANSWERS_WAITING_BYTES_MAX: usize = 64 << 20;

/// Pieces of answers that the transport of one node holds before streams wait for their own to leave. Callers that take nothing keep as
/// many without a limit of time, each with the place of its stream.
pub const PIECES_UNTIMED_MAX: usize = 256;

/// Bytes of an answer that go to the transport at a time: as much as a frame of HTTP/2 holds.
pub const ANSWER_PIECE_BYTES: usize = 16 << 10;

/// Bytes that one stream may have on their way to the caller in the transport's buffer, and a piece more.
pub const STREAM_SEND_BYTES_MAX: usize = 64 << 10;

/// How long nothing may be written to a connection that there is something for; then it is closed.
pub const CONNECTION_STALL_MAX: Duration = Duration::from_secs(30);

/// Bytes of the headers of one request, as HTTP/2 counts them (RFC 9113, section 6.5.2); a request with more is refused as `TOO_LARGE`.
/// A token of ours takes 54.
pub const HEADER_LIST_BYTES_MAX: u32 = 8 << 10;

/// The same where the transport of HTTP/2 refuses a request by itself, at the client port.
pub const HEADER_LIST_READ_BYTES_MAX: u32 = 12 << 10;

/// Bytes of the name of a message's encoding; gRPC has none that is longer.
pub const ENCODING_NAME_BYTES_MAX: usize = 64;

/// Tokens whose holders a node remembers until it applies the next entry; others are looked up for each call.
pub const TOKENS_SEEN_MAX: usize = 1_024;

/// Tenants that have lines of their own in the metrics; the others share one.
pub const TENANT_METRICS_MAX: usize = 100;

/// How long a caller is asked to wait whose tenant writes more in a second than its quota allows.
pub const WRITE_RATE_RETRY_AFTER: Duration = Duration::from_millis(500);

/// How long a caller that was refused as OVERLOADED is asked to wait.
pub const OVERLOADED_RETRY_AFTER: Duration = Duration::from_millis(100);

/// Calls under way on one Exchange stream; at the bound no more begin, and the node stops reading from the stream.
pub const EXCHANGE_CALLS_IN_FLIGHT_MAX: usize = 1_024;

/// Calls in one batch of Exchange; a larger batch ends the stream.
pub const EXCHANGE_BATCH_CALLS_MAX: usize = 1_024;

/// Answers in one batch of Exchange.
pub const EXCHANGE_BATCH_ANSWERS_MAX: usize = 256;

/// Bytes of answers after which a batch of Exchange is sent; it may hold one answer more.
pub const EXCHANGE_BATCH_BYTES_MAX: usize = 1 << 20;

/// The same, of answers without values. They take room only once they are a batch, so this is what a stream has beyond its room.
pub const EXCHANGE_BATCH_REPLIES_BYTES_MAX: usize = 16 << 10;

/// How long a caller of Exchange may leave answers unread; then its stream ends, and what it had under way is AMBIGUOUS.
pub const EXCHANGE_STALL_MAX: Duration = Duration::from_secs(10);

/// Bytes of a body of JSON: a message of [`MESSAGE_BYTES_MAX`] whose values are written in base64, and its names.
pub const JSON_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 3 * 4 + (1 << 20);

/// Values in a body of JSON; more than any message has that is decoded.
pub const JSON_VALUES_MAX: usize = 32_768;

/// Bytes of the name of a member in a body of JSON; more than any field's.
pub const JSON_NAME_BYTES_MAX: usize = 256;

/// Bytes of a reply up to which writing it as JSON is not charged.
pub const JSON_REPLY_FREE_BYTES: usize = 64 << 10;

/// How long a connection of HTTP/1.1 may take for the head of its next request, and be idle.
pub const HTTP1_HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes that a connection of HTTP/1.1 reads ahead, and of a head that the transport refuses by itself. A stranger can have a connection
/// hold as many for [`HTTP1_HEAD_TIME_MAX`].
pub const HTTP1_BUFFER_BYTES_MAX: usize = 16 << 10;

/// Rows in one part of a list.
pub const LIST_PAGE_ROWS_MAX: usize = 1_000;

/// Bytes of rows in one part of a list; a larger row is a part of its own.
pub const LIST_PAGE_BYTES_MAX: usize = 1 << 20;

/// Parts of a list that wait for the caller to read them.
pub const LIST_PAGES_BUFFERED_MAX: usize = 2;

/// How long one list may hold its view; then it ends with `LIST_LAPSED` and a resume token.
pub const LIST_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the caller of a list may read nothing; then it ends with `LIST_LAPSED` and a resume token.
pub const LIST_STALL_MAX: Duration = Duration::from_secs(5);

/// How often a health watch looks whether the answer changed.
pub const HEALTH_WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// Health watches under way on one node. One more ends the oldest of the address with most, or is
/// refused as OVERLOADED.
pub const HEALTH_WATCHES_MAX: usize = 256;

/// Of these, watches of one address. One more ends the oldest of its connection with most, or is
/// refused as OVERLOADED.
pub const ADDRESS_HEALTH_WATCHES_MAX: usize = 64;

/// How long one health watch lasts; then it ends with UNAVAILABLE, and its caller may watch again.
pub const HEALTH_WATCH_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of a request for health or reflection, which name a service or a symbol. They are open to callers who show no credential, or to
/// every holder of one, and their answers repeat the name.
pub const NAME_REQUEST_BYTES_MAX: usize = 1 << 10;

/// Streams that one client connection may have open at once.
pub const CONNECTION_STREAMS_MAX: u32 = 1_024;

/// Streams of one connection that its caller reset before the node looked at them. At one more the node closes the connection, so that
/// rapid resets stay bounded (CVE-2023-44487). Four times the streams that may be open: callers whose deadlines end while the node stalls
/// reset their streams, and open new ones in their place.
pub const CONNECTION_RESETS_PENDING_MAX: usize = 4 * CONNECTION_STREAMS_MAX as usize;

/// Streams that the node resets on one connection, in all its life, for what its caller did wrong. At one more it closes the connection
/// (CVE-2025-8671). Calls beyond [`CONNECTION_STREAMS_MAX`] count, and so does what arrives for a call that was refused before its last
/// byte: a caller that lives long and means no harm has some.
pub const CONNECTION_RESETS_FORCED_MAX: usize = 16 * CONNECTION_STREAMS_MAX as usize;

/// Connections to the client port, if the process may open that many files; over it, the newest is closed at once. An idle one takes up
/// 20 KiB, one whose headers do not end about 45 KiB over HTTP/2 ([`HEADER_LIST_READ_BYTES_MAX`], and frames of 16 KiB, which is the least
/// that the protocol allows) and 36 KiB over HTTP/1.1: of the three quarters that one address may have, 135 MiB. It lasts 40 seconds at
/// most: a caller may not answer a probe before its headers end.
pub const CLIENT_CONNECTIONS_MAX: usize = 4_096;

/// Open files that client connections leave to peers, probes and the disks, as far as half of all allow.
pub const FILES_RESERVED: u64 = 2_048;

/// Connections to the peer port: some for each seat, and room for new ones that replace them. Over it, the newest is closed at once.
pub const PEER_CONNECTIONS_MAX: usize = 512;

/// TLS handshakes under way on one port; over it, the oldest of the address that has most is broken off.
pub const HANDSHAKES_MAX: usize = 1_024;

/// How long a TLS handshake may take, and then the greeting of HTTP/2.
pub const GREETING_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of a file with certificates or a key.
pub const PEM_BYTES_MAX: u64 = 1 << 20;

/// A client connection without traffic for this long is probed, and closed if the probe is not answered in as long again.
pub const CONNECTION_KEEPALIVE: Duration = Duration::from_secs(20);

/// Bytes that one stream may send ahead of the node's reading.
pub const STREAM_WINDOW_BYTES: u32 = 64 << 10;

/// Bytes that one connection may send ahead of the node's reading.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Connections to the HTTP port, half of them for one address; over it, the one that has waited longest without a request, or without
/// reading its answer, is closed for the next.
pub const HTTP_CONNECTIONS_MAX: usize = 256;

/// Bytes of the head of a request to the HTTP port: probes and scrapers send a few hundred.
pub const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;

/// Bytes of bodies that the HTTP port holds at once, half of them for one address.
pub const HTTP_REQUEST_BYTES_MAX: usize = 4 << 20;

/// Bytes of pages that wait for their callers on the HTTP port, half of them for one address.
pub const HTTP_ANSWER_BYTES_MAX: usize = 32 << 20;

/// What a caller of the HTTP port must take of its page within [`HTTP_HEADER_TIME_MAX`].
pub const HTTP_ANSWER_PROGRESS_BYTES: usize = 16 << 10;

/// How long a connection to the HTTP port may take to ask for something, and may be kept without asking.
pub const HTTP_HEADER_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of the body of a request to the HTTP port, whose pages read none.
pub const HTTP_BODY_BYTES_MAX: usize = 64 << 10;

/// How many times as long as a page of metrics took to write the node pauses before it writes the next: it spends at most a tenth of its
/// service thread on them.
pub const METRICS_PAUSE_FACTOR: u32 = 9;

/// Scrapes of metrics under way on the HTTP port; more are answered 503.
pub const SCRAPES_MAX: usize = 16;

/// Of these, scrapes of one address.
pub const ADDRESS_SCRAPES_MAX: usize = 8;

/// Seats of one cluster.
pub const SEATS_MAX: usize = 15;

/// Nodes of which a node remembers what they acknowledged, and the bytes of a uuid that names one of them.
pub const ACKNOWLEDGED_NODES_MAX: usize = 64;
/// See [`ACKNOWLEDGED_NODES_MAX`].
pub const ACKNOWLEDGED_UUID_BYTES_MAX: usize = 64;

/// Bytes that must stay free on the file system of the data directory, if `--disk-reserve` does not say otherwise.
pub const DISK_RESERVE_DEFAULT_BYTES: u64 = 256 << 20;

/// How long one question for a read index may take before it is asked again.
pub const READ_INDEX_LIMIT: Duration = Duration::from_secs(1);

/// Bytes of entries that may wait for the disk on a leader; over it, callers hear OVERLOADED.
pub const LOG_QUEUED_BYTES_MAX: u64 = 128 << 20;

/// Operations of the log that are written and synced together.
pub const LOG_GROUP_OPS_MAX: usize = 4_096;

/// Bytes after which such a group takes no further operation.
pub const LOG_GROUP_BYTES_MAX: usize = 4 << 20;

/// Bytes of entries that are read from the log at once, but at least one entry.
pub const LOG_PAGE_BYTES_MAX: usize = 2 << 20;

/// Files in one snapshot; a manifest with more is refused.
pub const SNAPSHOT_FILES_MAX: usize = 100_000;

/// Bytes of the name of a file in a snapshot.
pub const SNAPSHOT_NAME_BYTES_MAX: usize = 128;

/// Committed entries that a node may lack and be ready.
pub const LAG_READY_MAX: u64 = 10_000;

/// The newest entries that stay in memory, in bytes, so that neither apply nor replication reads the disk.
pub const LOG_TAIL_BYTES: usize = 16 << 20;

/// Bytes of entries after which a snapshot is taken, if `--snapshot-bytes` does not say otherwise.
pub const SNAPSHOT_BYTES_DEFAULT: u64 = 256 << 20;

/// Bytes of entries that are kept, beyond what the settings say, for a node that is receiving a snapshot or lags; over it, it needs
/// another snapshot.
pub const LOG_HELD_BYTES_MAX: u64 = 1 << 30;
