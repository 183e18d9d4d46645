/** Every bound of the client, as in the other clients. Times are in milliseconds. */

/** How long a call may take, retries included, if the caller says nothing. */
export const DEADLINE = 5_000;
/** No call takes longer, whatever its caller says. */
export const DEADLINE_MAX = 24 * 3_600_000;
/** How long the first try of a call waits for its node; each further try waits twice as long. */
export const ATTEMPT_TIMEOUT = 1_000;
/** Pauses between the tries of one call. */
export const BACKOFF_FIRST = 5;
export const BACKOFF_MAX = 200;
/** A write that was certainly not done so far is not sent again with less time left. */
export const TRY_LEAST = 20;
/** Pauses after a proxy answered in a node's place. */
export const BEHIND_FIRST = 50;
export const BEHIND_MAX = 1_000;
/** Pauses between rounds of one update that others got ahead of. */
export const CONTENTION_FIRST = 1;
export const CONTENTION_MAX = 50;
/** Pauses between looks at a claim that another caller has the lease of. */
export const CLAIM_FIRST = 10;
export const CLAIM_MAX = 200;
/** How long a side effect may take under a claim, if the caller says nothing. */
export const LEASE = 30_000;
/** Calls of a client that are under way at once: over HTTP/1.1 each holds a connection. */
export const CALLS_MAX = 128;
/** A node that did not answer is not preferred for this long. */
export const SUSPECT = 2_000;
/** Bytes of a request: 6 MiB of messages, whose values are written in base64, and their names. */
export const REQUEST_BYTES_MAX = 9 << 20;
/** Bytes of a reply: 8 MiB of messages, likewise. */
export const REPLY_BYTES_MAX = 16 << 20;
/** Records of a page that a node sends at most, and of a page whose caller says nothing. */
export const PAGE_MAX = 1_000;
export const PAGE = 100;
/** Operations of a transaction, and keys of a batch. */
export const BATCH_MAX = 128;
/** Bytes of values that are sent in one batch; a cluster takes 4 MiB. */
export const BATCH_BYTES = 3 << 20;
/** Levels of arrays and objects within each other in a value. */
export const DEPTH_MAX = 100;
