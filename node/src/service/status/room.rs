//! What a caller hears at a bound of its own, of its tenant or of the node.

use std::time::Duration;

use helve_proto::Reason;
use tonic::Code;

use super::{Problem, overloaded};
use crate::{bounds, limits::OVERLOADED_RETRY_AFTER, service::budget::Full};

/// A bound that all callers of the node share is reached: which, and what to do.
pub(super) fn at_bound(bound: &'static str) -> Problem {
    let message = if bound == bounds::BACKUPS {
        // That backup may last a day.
        "this node makes another backup, and none was begun: back up from another node, or retry once that backup has ended".to_owned()
    } else {
        format!(
            "too much is under way for the bound `{bound}`, and the call was not executed: retry after the pause in `retry_after_ms`"
        )
    };
    overloaded(&message, OVERLOADED_RETRY_AFTER).with("bound", bound.to_owned())
}

/// A message did not arrive whole within the time that it had.
pub(super) fn too_slow(time: Duration) -> Problem {
    let message = format!(
        "the message did not arrive whole within {} ms, and was not executed: send less at once, or faster",
        time.as_millis()
    );
    Problem {
        code: Code::DeadlineExceeded,
        ..Problem::new(Reason::BadRequest, message)
    }
}

/// A budget is used up: whose, of what, and what to do.
pub(super) fn full(full: Full) -> Problem {
    let message = format!(
        "{full}, and the call was not executed: end or read what is open, or retry after the pause in `retry_after_ms`"
    );
    overloaded(&message, OVERLOADED_RETRY_AFTER).with("bound", full.bound())
}

/// The values asked for do not fit one reply.
pub(super) fn too_much() -> Problem {
    let message = "the values asked for do not fit one reply: ask for fewer keys at a time";
    Problem::new(Reason::TooLarge, message)
}

/// A stream was ended that nothing came over.
pub(super) fn idle(time: Duration) -> Problem {
    let message = format!(
        "no message came over the stream for {} ms and nothing was under way, so it was ended: open another when there is something to send",
        time.as_millis()
    );
    overloaded(&message, OVERLOADED_RETRY_AFTER).with("bound", "exchange-idle-ms".to_owned())
}
