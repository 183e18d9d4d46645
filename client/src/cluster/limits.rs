//! Bounds of calls to a cluster.

use std::time::Duration;

/// How long the first try of a call waits for its node, and the first part of a list; each further try waits twice as long.
/// A node without a leader holds a call until it knows the next one, which takes about as long as this: with less time the tries of
/// every failover and every slow disk would multiply, and none be answered earlier.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pauses between the tries of one call, on different nodes.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(5);
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(200);
/// A write that was certainly not done so far is not sent again with less time left.
pub(crate) const TRY_LEAST: Duration = Duration::from_millis(20);
/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// A connection without traffic is probed this often, and given up when the probe gets no answer for as long again.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// A node that did not answer is not preferred for this long.
pub(crate) const SUSPECT: Duration = Duration::from_secs(2);
/// How long calls to a node go each by itself after a proxy refused a stream of many for its size.
pub(crate) const ALONE: Duration = Duration::from_secs(10);
/// Endpoints that are learned from leader hints.
pub(crate) const LEARNED_ENDPOINTS_MAX: usize = 16;
/// Bytes of a request, as encoded: the 4 MiB of names and values that a transaction may have, and ample room for what frames
/// them. More is within no limit of a node, and might not fit a message, so it is refused unsent; less is the node's to judge.
pub(crate) const REQUEST_BYTES_MAX: usize = 6 << 20;
/// Bytes of a gRPC message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// How long a list may take from its first part to its last.
pub(crate) const LIST: Duration = Duration::from_secs(60);
/// How long a list may stall between two parts.
pub(crate) const LIST_STALL: Duration = Duration::from_secs(5);
/// A watch without a part for this long goes on at another node: a node sends one every five seconds.
pub(crate) const WATCH_SILENCE: Duration = Duration::from_secs(15);
/// Streams to one node.
pub(crate) const EXCHANGE_STREAMS_MAX: usize = 4;
/// Calls under way on a stream from which on another one is opened.
pub(crate) const EXCHANGE_BUSY_CALLS: usize = 256;
/// Calls under way on one stream; more wait for room. A node reads no further at as many.
pub(crate) const EXCHANGE_CALLS_IN_FLIGHT_MAX: usize = 1024;
/// Calls in one batch; a node ends a stream that sends more.
pub(crate) const EXCHANGE_BATCH_CALLS_MAX: usize = 1024;
/// Bytes of calls after which a batch is sent; one call more may stand in it.
pub(crate) const EXCHANGE_BATCH_BYTES_MAX: usize = 1 << 20;
/// Bytes of a call that a stream carries; a larger one goes alone, as a unary call, for it would hold up the others.
pub(crate) const EXCHANGE_CALL_BYTES_MAX: usize = 256 << 10;
