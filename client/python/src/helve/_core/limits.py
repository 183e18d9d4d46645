"""Every bound of the client. Times are in seconds; the values are those of the Rust client."""

#: How long a call may take, retries included, if the caller says nothing.
DEADLINE = 5.0
#: No call takes longer, whatever its caller says.
DEADLINE_MAX = 24 * 3600.0
#: How long the first try of a call waits for its node; each further try waits twice as long.
ATTEMPT_TIMEOUT = 1.0
#: Pauses between the tries of one call.
BACKOFF_FIRST = 0.005
BACKOFF_MAX = 0.2
#: Pauses after a proxy answered in a node's place.
BEHIND_FIRST = 0.05
BEHIND_MAX = 1.0
#: Pauses between rounds of one update that others got ahead of.
CONTENTION_FIRST = 0.001
CONTENTION_MAX = 0.05
#: Pauses between looks at a guard that another caller holds.
GUARD_FIRST = 0.01
GUARD_MAX = 0.2
#: How long a side effect may take under a claim, if the caller says nothing.
LEASE = 30.0
#: A write that was certainly not done so far is not sent again with less time left.
TRY_LEAST = 0.02
#: How long a connection may take to be made.
CONNECT_TIMEOUT = 0.5
#: A connection without traffic is probed this often.
KEEP_ALIVE = 5.0
#: A node that did not answer is not preferred for this long.
SUSPECT = 2.0
#: Endpoints that are learned from leader hints.
LEARNED_ENDPOINTS_MAX = 16
#: Bytes of a request, as encoded. More is within no limit of a node, so it is refused unsent.
REQUEST_BYTES_MAX = 6 << 20
#: Bytes of a gRPC message.
MESSAGE_BYTES_MAX = 8 << 20
#: How long a list may take from its first part to its last, and between two parts.
LIST = 60.0
LIST_STALL = 5.0
#: A watch without a part for this long goes on elsewhere: a node sends one every five seconds.
WATCH_SILENCE = 15.0
#: Bytes of a whole list, as encoded.
LIST_BYTES_MAX = 256 << 20
#: Levels of arrays and objects within each other in a value.
DEPTH_MAX = 100
#: Seconds for which a token's file is not looked at again, and bytes that it may have.
TOKEN_FRESH = 1.0
TOKEN_BYTES_MAX = 4096
