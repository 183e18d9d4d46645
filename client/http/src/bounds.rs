//! What one listener bears, and how it stops.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Connections, if the process may open that many files.
const CONNECTIONS_MAX: usize = 4_096;
/// Open files that connections leave to everything else, as far as half of all allow.
const FILES_RESERVED: u64 = 256;
/// Bytes of a request's head: a token of 16 KiB and as much again.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long a caller may take for a head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a connection is kept without a request: longer than most proxies keep it, so that they close first.
const IDLE_TIME_MAX: Duration = Duration::from_secs(75);
/// Bytes of one body.
const BODY_BYTES_MAX: usize = 32 << 20;
/// How long a caller may take for a body.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);
/// The least that must come of a body: 1 KiB a second.
const BODY_PROGRESS: Progress = Progress {
    bytes: 10 << 10,
    within: Duration::from_secs(10),
};
/// Bytes of bodies that are held at once.
const REQUEST_BYTES_MAX: usize = 256 << 20;
/// Bytes of answers that wait for their callers at once.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The least that a caller must take of an answer.
const ANSWER_PROGRESS: Progress = Progress {
    bytes: 16 << 10,
    within: Duration::from_secs(30),
};

/// The least that must move within a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that must move.
    pub bytes: usize,
    /// The time for them.
    pub within: Duration,
}

/// The bounds of one listener. The default suits an MCP server; tests lower them.
///
/// One address may have half of each bound that is counted over all callers: connections, and bytes of
/// bodies and of answers. An IPv6 address counts as its /64 network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections. Over it, a connection that serves no request is closed for the new one, or one whose
    /// caller does not read its answer; if all serve a request, the new one is answered with 503. 4,096 by default, or what the limit of open files leaves.
    pub connections: usize,
    /// Open connections of one address. Over it, the same holds among the address's own, with 429.
    pub address_connections: usize,
    /// Bytes of a request's head, at least 8,192. More is answered with 431. 32 KiB by default.
    pub head_bytes: usize,
    /// How long a head may take, from the connection's start or the head's first byte; also a TLS handshake.
    /// Then the answer is 408. 10 seconds by default.
    pub head_time: Duration,
    /// How long a connection is kept open between requests. 75 seconds by default.
    pub idle_time: Duration,
    /// Bytes of one body. More is answered with 413, unread if its length is declared. 32 MiB by default.
    pub body_bytes: usize,
    /// How long a body may take. Then the answer is 408. A minute by default.
    pub body_time: Duration,
    /// The least that must come of a body. Then the answer is 408. 10 KiB in 10 seconds by default.
    pub body_progress: Progress,
    /// Bytes of bodies that are held at once: those still arriving, those of requests under way,
    /// also if the caller has hung up, and what services claim for the parsed form
    /// ([`Room`](crate::Room)). Over it, the body that has been arriving longest is given up with
    /// 503; if none is arriving, the new one is. 256 MiB by default.
    pub request_bytes: usize,
    /// The same for one address, with 429.
    pub address_request_bytes: usize,
    /// Bytes of answers that wait for callers who do not read them. Over it, the connection whose answer has
    /// waited longest is closed. 256 MiB by default.
    pub answer_bytes: usize,
    /// The same for one address.
    pub address_answer_bytes: usize,
    /// The least that a caller must take of an answer that waits; then its connection is closed. 16 KiB in 30
    /// seconds by default.
    pub answer_progress: Progress,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            address_connections: CONNECTIONS_MAX / 2,
            head_bytes: HEAD_BYTES_MAX,
            head_time: HEAD_TIME_MAX,
            idle_time: IDLE_TIME_MAX,
            body_bytes: BODY_BYTES_MAX,
            body_time: BODY_TIME_MAX,
            body_progress: BODY_PROGRESS,
            request_bytes: REQUEST_BYTES_MAX,
            address_request_bytes: REQUEST_BYTES_MAX / 2,
            answer_bytes: ANSWER_BYTES_MAX,
            address_answer_bytes: ANSWER_BYTES_MAX / 2,
            answer_progress: ANSWER_PROGRESS,
        }
    }
}

impl Bounds {
    /// The same for this many connections, half of them for one address.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self {
            connections,
            address_connections: connections.div_ceil(2),
            ..self
        }
    }

    /// The same with no more connections than the process may open files. What the files leave is at least one.
    #[must_use]
    pub fn within_open_files(self) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        self.within_files(files)
    }

    fn within_files(self, files: u64) -> Self {
        let spare = files.saturating_sub(FILES_RESERVED).max(files / 2).max(1);
        let connections = usize::try_from(spare)
            .unwrap_or(usize::MAX)
            .min(self.connections);
        Self {
            address_connections: self.address_connections.min(connections.div_ceil(2)),
            connections,
            ..self
        }
    }
}

/// How a listener stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long callers are still accepted once the server is asked to stop: long enough for a balancer to see
    /// that `/readyz` answers 503. Each answer closes its connection meanwhile. None by default.
    pub delay: Duration,
    /// How long connections without a request stay open after that, so that a request that a proxy has just
    /// sent on one is answered. A second by default.
    pub linger: Duration,
    /// How long requests under way may take from then on. 10 seconds by default.
    pub timeout: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            linger: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_rest_of_the_process() {
        let connections = |files| Bounds::default().within_files(files).connections;
        assert_eq!(connections(1 << 20), CONNECTIONS_MAX);
        assert_eq!(connections(1_024), 768);
        assert_eq!(connections(256), 128);
        assert_eq!(connections(0), 1);
        assert_eq!(
            Bounds::default().within_files(1_024).address_connections,
            384
        );
    }
}
