//! What a failed try says of the call.

use std::time::{Duration, SystemTime};

use helve_proto::{ERROR_DOMAIN, Reason, v1::ErrorReply};
use tonic::{Code, Status, codegen::http::StatusCode};
use tonic_types::StatusExt;

use crate::{
    cluster::{
        line_error::{Fault, LineError, chain, retry_after},
        proxy_words::Meaning,
    },
    error::{Error, ErrorKind},
};

/// What a failed try says of the call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The cluster refused the call itself: trying again changes nothing.
    Refused(Error),
    /// Something between refused the call: this try had no effect, and no other will. Of earlier tries it says nothing.
    Barred(Error),
    /// Something between refused a message for its size: the request, and then this try had no effect, or the reply.
    Oversized(Error),
    /// This try had no effect; another one may.
    NotDone {
        error: Error,
        /// The pause that the answer asks for.
        pause: Option<Duration>,
        node: Health,
    },
    /// This try may have had an effect.
    Unknown { error: Error, node: Health },
}

/// What a failed try says of its node, or of a proxy before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answered.
    Sound,
    /// It did not, or is about to stop.
    Suspect,
    /// A proxy before it answered in its place, for now.
    Behind,
    /// What is at its address will not answer this call, however often it is tried.
    Useless,
    /// A proxy before it passes no stream of many calls on: the call shall go by itself.
    Narrow,
}

impl Verdict {
    /// The try ended without any answer.
    pub(crate) fn silence(address: &str) -> Self {
        let message = format!("{address} did not answer in time. See `helve status`");
        Self::Unknown {
            error: Error::new(ErrorKind::Unavailable, message).at(address),
            node: Health::Suspect,
        }
    }

    /// The node answered with something that this version does not know.
    pub(crate) fn unreadable() -> Self {
        Self::Unknown {
            error: Error::internal("an answer that this version does not know"),
            node: Health::Sound,
        }
    }

    /// What is at this address says "done" without the reply that a node gives: it is no node.
    pub(crate) fn no_reply(address: &str) -> Self {
        let message = format!(
            "{address} says OK without a reply: what answers there is no node. Give the port on which a node serves clients"
        );
        Self::Unknown {
            error: Error::new(ErrorKind::Unavailable, message).at(address),
            node: Health::Useless,
        }
    }

    /// What is at this address does not know the call: it is no node's port for clients, or a node of a version without this call.
    fn no_such_call(address: &str, status: &Status) -> Self {
        let message = format!(
            "{}: what answers there does not know this call. Give the port on which a node serves clients, and if this is one, \
             upgrade its node: it is of an older version",
            said(address, status)
        );
        Self::NotDone {
            error: Error::new(ErrorKind::Internal, message).at(address),
            pause: None,
            node: Health::Useless,
        }
    }

    /// Of a unary call to this address, or of a stream that was not opened.
    pub(crate) fn of(address: &str, status: &Status) -> Self {
        let info = status
            .get_details_error_info()
            .filter(|info| info.domain == ERROR_DOMAIN);
        let Some(info) = info else {
            return Self::of_line(address, status);
        };
        // Another one is of a newer version, which may say by it that the call was executed.
        let Some(reason) = Reason::parse(&info.reason) else {
            return Self::of_code(address, status);
        };
        let refusal = refusal(reason, status.message(), |name| info.metadata.get(name));
        let pause = status.get_details_retry_info();
        Self::of_reason(reason, refusal, pause.and_then(|info| info.retry_delay))
    }

    /// Of a call that Exchange carried.
    pub(crate) fn of_reply(address: &str, reply: ErrorReply) -> Self {
        let Some(reason) = Reason::parse(&reply.reason) else {
            let status = Status::new(Code::from_i32(reply.code), reply.message);
            return Self::of_code(address, &status);
        };
        let said = |name: &str| reply.metadata.get(name);
        let pause_ms = said("retry_after_ms").and_then(|text| text.parse().ok());
        let refusal = refusal(reason, &reply.message, said);
        Self::of_reason(reason, refusal, pause_ms.map(Duration::from_millis))
    }

    /// The same of a call that never left this client: it was not done, whatever became of others.
    pub(crate) fn of_unsent(self) -> Self {
        match self {
            Self::Unknown { error, node } => Self::NotDone {
                error,
                pause: None,
                node,
            },
            verdict => verdict,
        }
    }

    /// The same of a call whose reply holds values: it may be the reply that was too large, so the call may be done.
    pub(crate) fn of_large_reply(self) -> Self {
        match self {
            Self::Oversized(error) => Self::Unknown {
                error,
                node: Health::Useless,
            },
            verdict => verdict,
        }
    }

    /// The same of a call whose reply holds no values: the request was too large.
    pub(crate) fn of_small_reply(self) -> Self {
        match self {
            Self::Oversized(error) => Self::Barred(error),
            verdict => verdict,
        }
    }

    /// The same of a call that was sent over a stream whose end says this, unanswered. A node that stops, or that shuts out a caller
    /// whose token has ended, first answers all that it has taken from the stream; any other end is not about this call. A token that
    /// was replaced meanwhile is on the next stream.
    pub(crate) fn of_stream(self) -> Self {
        match self {
            Self::NotDone { ref error, .. } if error.reason() == Some(Reason::Stopping) => self,
            Self::Refused(error) if error.reason() == Some(Reason::Unauthenticated) => {
                Self::NotDone {
                    error,
                    pause: None,
                    node: Health::Sound,
                }
            }
            Self::NotDone { error, .. }
            | Self::Unknown { error, .. }
            | Self::Refused(error)
            | Self::Barred(error)
            | Self::Oversized(error) => Self::Unknown {
                error,
                node: Health::Suspect,
            },
        }
    }

    /// The same of a call that was sent over a stream that a proxy refused as a whole, after this
    /// many batches. One that is too large for it may be so for the others that it carries. A first
    /// batch that is cut off reaches no node whole, so nothing of it is done; an earlier one may
    /// have, as may one whose answers are too large.
    pub(crate) fn of_refused_stream(self, batches: usize) -> Self {
        match self {
            Self::Oversized(error) => Self::Unknown {
                error,
                node: Health::Narrow,
            },
            Self::Barred(error) if error.reason() == Some(Reason::TooLarge) => {
                let node = Health::Narrow;
                match batches {
                    0 | 1 => Self::NotDone {
                        error,
                        pause: None,
                        node,
                    },
                    _ => Self::Unknown { error, node },
                }
            }
            verdict => verdict,
        }
    }

    fn of_reason(reason: Reason, error: Error, pause: Option<Duration>) -> Self {
        match reason {
            Reason::Overloaded => Self::NotDone {
                error,
                pause,
                node: Health::Sound,
            },
            Reason::NoLeader => Self::NotDone {
                error,
                pause: None,
                node: Health::Sound,
            },
            // Of a mutation it may have been done; its outcome is kept, and another node may open it.
            Reason::Ambiguous | Reason::KeyMissing => Self::Unknown {
                error,
                node: Health::Sound,
            },
            // A node says it only of what it never proposed: it is going, its consensus took nothing more, or it could draw no
            // id. What it proposed before it went is `Ambiguous`.
            // One that cannot write its audit log refuses before it does anything.
            Reason::Stopping | Reason::AuditFailing => Self::NotDone {
                error,
                pause: None,
                node: Health::Suspect,
            },
            _ => Self::Refused(error),
        }
    }

    /// Without a reason no node answered, or something between spoke gRPC.
    fn of_line(address: &str, status: &Status) -> Self {
        let Some(LineError { fault, .. }) = LineError::behind(status) else {
            return Self::of_word(address, status);
        };
        let error = |kind| Error::new(kind, status.message()).at(address);
        let unavailable = || error(ErrorKind::Unavailable);
        let not_done = |node| Self::NotDone {
            error: unavailable().unconnected(),
            pause: None,
            node,
        };
        match *fault {
            Fault::Unconnected => not_done(Health::Suspect),
            Fault::Mismatched => not_done(Health::Useless),
            Fault::Untaken => Self::NotDone {
                error: unavailable(),
                pause: None,
                node: Health::Suspect,
            },
            Fault::Broken => Self::Unknown {
                error: unavailable(),
                node: Health::Suspect,
            },
            Fault::Http {
                status,
                retry_after,
            } => Self::of_http(status, retry_after, error),
        }
    }

    /// What a proxy's own answer says: of its own accord it answers without asking a node, but for what says that it asked one in vain
    /// (RFC 9110, section 15.6).
    fn of_http(
        status: StatusCode,
        retry_after: Option<Duration>,
        error: impl Fn(ErrorKind) -> Error,
    ) -> Self {
        let unavailable = error(ErrorKind::Unavailable);
        let not_done = |error, node| Self::NotDone {
            error,
            pause: retry_after,
            node,
        };
        match status.as_u16() {
            401 | 403 | 407 | 511 => Self::Barred(error(ErrorKind::Denied)),
            413 => Self::Barred(error(ErrorKind::Invalid).with_reason(Reason::TooLarge)),
            429 => not_done(error(ErrorKind::Overloaded), Health::Behind),
            408 | 425 | 503 => not_done(unavailable, Health::Behind),
            300..=499 | 501 | 505 | 506 | 508 | 510 => not_done(unavailable, Health::Useless),
            500..=599 => Self::Unknown {
                error: unavailable,
                node: Health::Behind,
            },
            _ => Self::Unknown {
                error: unavailable,
                node: Health::Useless,
            },
        }
    }

    /// The status is the transport's own, or of something between that speaks gRPC: only its words tell what it did with the call.
    fn of_word(address: &str, status: &Status) -> Self {
        let error = |kind| Error::new(kind, said(address, status)).at(address);
        let too_large = || error(ErrorKind::Invalid).with_reason(Reason::TooLarge);
        match Meaning::of(status) {
            Meaning::LargeRequest => Self::Barred(too_large()),
            Meaning::LargeMessage => Self::Oversized(too_large()),
            Meaning::Rate => Self::NotDone {
                error: error(ErrorKind::Overloaded),
                pause: asked_pause(status),
                node: Health::Behind,
            },
            Meaning::NoNode => Self::NotDone {
                error: error(ErrorKind::Unavailable),
                pause: asked_pause(status),
                node: Health::Behind,
            },
            Meaning::Other => Self::of_code(address, status),
        }
    }

    /// The status is the transport's own, of something between that speaks gRPC, or of a node of a newer version.
    fn of_code(address: &str, status: &Status) -> Self {
        let error = |kind| Error::new(kind, said(address, status)).at(address);
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => {
                Self::Barred(error(ErrorKind::Denied))
            }
            Code::InvalidArgument | Code::OutOfRange => Self::Barred(error(ErrorKind::Invalid)),
            Code::Unimplemented => Self::no_such_call(address, status),
            // "Done", without the outcome that every node's reply has.
            Code::Internal if status.message() == NO_MESSAGE => Self::no_reply(address),
            _ => Self::Unknown {
                error: error(ErrorKind::Unavailable),
                node: Health::Suspect,
            },
        }
    }
}

/// What tonic makes of an answer that says OK and has no message.
pub(crate) const NO_MESSAGE: &str = "Missing response message.";

/// Characters of a status's message that an error repeats.
const SHOWN_CHARS_MAX: usize = 200;

fn asked_pause(status: &Status) -> Option<Duration> {
    let asked = status.get_details_retry_info();
    asked
        .and_then(|info| info.retry_delay)
        .or_else(|| retry_after(status.metadata().as_ref(), SystemTime::now()))
}

/// Address, code, message and innermost cause of a status, each once.
fn said(address: &str, status: &Status) -> String {
    let mut said = format!("{address}: {}", status.code().description());
    let cause = chain(status).skip(1).last().map(ToString::to_string);
    let message: String = status.message().chars().take(SHOWN_CHARS_MAX).collect();
    let parts = [Some(message), cause];
    for part in parts.into_iter().flatten() {
        if !part.is_empty() && !said.contains(&part) {
            said = format!("{said}: {part}");
        }
    }
    said
}

/// The error that goes with Helve's own reason.
fn refusal<'a>(reason: Reason, message: &str, said: impl Fn(&str) -> Option<&'a String>) -> Error {
    let number = |name| said(name).and_then(|text| text.parse().ok());
    let operation = number("operation").and_then(|number: u64| u32::try_from(number).ok());
    Error::refused(
        reason,
        message,
        number("revision").unwrap_or(0),
        operation.unwrap_or(0),
    )
}

#[cfg(test)]
pub(crate) mod tests;
