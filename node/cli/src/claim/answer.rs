//! How `helve claim` prints what the cluster says of a claim.

use anyhow::anyhow;
use helve_command::{
    duration::display_ms,
    ending::{Ending, Outcome},
    output::{OutputArgs, harmless},
};
use helve_proto::v1::{ClaimReply, EarlierLease, LeaseEnd};
use serde::Serialize;

use crate::value::Shown;

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// The caller has the lease.
    Fresh,
    /// Another caller has it.
    InFlight,
    /// It is finished.
    Done,
    /// The key is in flight or done for another digest.
    Conflict,
    /// The caller had the lease, and gave it up: the side effect may have happened before.
    MayHaveHappened,
    /// The result is kept now.
    Finished,
    /// The key is free now.
    Abandoned,
    /// The caller has the lease no more, or never had it.
    LeaseLost,
    /// The command was run, and its result is kept.
    Ran,
}

/// A claim for programs. Times are milliseconds since the Unix epoch, on the replicated clock.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Answer {
    status: Status,
    key: String,
    /// The number of the lease, if the caller has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// When the lease ends, or the result is forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<Earlier>,
    /// In flight: the note. Done: the result.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    value: Option<Shown>,
    #[serde(skip)]
    clock_ms: u64,
}

/// A lease that ended before.
#[derive(Debug, Clone, Copy, Serialize)]
struct Earlier {
    /// `expired`, `abandoned` or `finished`.
    end: &'static str,
    fence: u64,
    ended_at_ms: u64,
}

/// Whether the side effect may have happened under the leases before.
pub(super) fn may_have_happened(earlier: Option<EarlierLease>) -> bool {
    earlier.is_some_and(|earlier| earlier.end() != LeaseEnd::Abandoned)
}

/// How a lease ended, in a word. One of a newer version rules nothing out, as one that expired.
pub(super) fn end(earlier: EarlierLease) -> &'static str {
    match earlier.end() {
        LeaseEnd::Abandoned => "abandoned",
        LeaseEnd::Finished => "finished",
        LeaseEnd::Expired | LeaseEnd::Unspecified => "expired",
    }
}

impl Answer {
    pub(super) fn new(status: Status, key: &str, reply: ClaimReply) -> Self {
        let has_value =
            matches!(status, Status::InFlight | Status::Done) && !reply.value.is_empty();
        let has_lease = matches!(status, Status::Fresh | Status::Ran);
        Self {
            status,
            key: key.to_owned(),
            fence: has_lease.then_some(reply.fence),
            // Of a lease that was given up, it says nothing any more.
            until_ms: reply
                .info
                .and_then(|info| info.expires_at_ms)
                .filter(|_| status != Status::MayHaveHappened),
            earlier: reply.earlier.map(|earlier| Earlier {
                end: end(earlier),
                fence: earlier.fence,
                ended_at_ms: earlier.ended_at_ms,
            }),
            value: has_value.then(|| Shown::new(&reply.value)),
            clock_ms: reply.header.map_or(0, |header| header.clock_ms),
        }
    }

    /// Of a command that was run, with what it printed.
    pub(super) fn ran(key: &str, begun: ClaimReply, result: &[u8]) -> Self {
        Self {
            value: Some(Shown::new(result)),
            until_ms: None,
            ..Self::new(Status::Ran, key, begun)
        }
    }

    /// For scripts: the fence alone.
    pub(super) fn fence_text(&self) -> String {
        self.fence.unwrap_or_default().to_string()
    }

    pub(super) fn kept_text(&self) -> String {
        let key = harmless(&self.key);
        match self.status {
            Status::Done => {
                format!("{key} was finished before under this fence; the first result stays")
            }
            _ => format!("finished {key}, the result {}", self.until("is kept")),
        }
    }

    pub(super) fn free_text(&self) -> String {
        format!("abandoned {}", harmless(&self.key))
    }

    fn until(&self, what: &str) -> String {
        match self.until_ms {
            Some(until_ms) => {
                let left_ms = until_ms.saturating_sub(self.clock_ms);
                format!("{what} for {}", display_ms(left_ms))
            }
            None => format!("{what} until it is deleted"),
        }
    }

    /// Ends the command with the answer no. For programs, it is printed too.
    pub(super) fn refuse(&self, output: &OutputArgs) -> Outcome {
        if output.is_json() {
            // People read the error alone.
            output.print(self, |_| String::new())?;
        }
        Err(Ending::Absent(anyhow!("{}", self.why())))
    }

    fn why(&self) -> String {
        let key = harmless(&self.key);
        match self.status {
            Status::InFlight => {
                let left = self.until("another caller has its lease");
                format!("claim {key} is in flight: {left}. Ask again then")
            }
            Status::Done => format!(
                "claim {key} is done: print its result with `helve handle get`, or free the key with `helve handle delete`"
            ),
            Status::Conflict => format!(
                "claim {key} is in flight or done for another digest: use another key for another side effect"
            ),
            Status::MayHaveHappened => self.doubt(&key),
            _ => format!(
                "claim {key}: the lease is lost: it ended, was abandoned or was deleted, and another caller may have one. Nothing was changed"
            ),
        }
    }

    fn doubt(&self, key: &str) -> String {
        let next = "find out, and pass --may-repeat if it is to be carried out again";
        match self.earlier {
            Some(Earlier {
                end: "finished",
                fence,
                ..
            }) => format!(
                "claim {key} was finished under lease {fence}, and its result is forgotten: {next}"
            ),
            Some(Earlier { fence, .. }) => format!(
                "claim {key} may have been carried out under lease {fence}, which ended without a word: {next}"
            ),
            None => format!("claim {key} may have been carried out: {next}"),
        }
    }
}
