//! What a failed try says of the call.

use std::{error::Error as _, time::Duration};

use helve_proto::{ERROR_DOMAIN, Reason, v1::ErrorReply};
use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt;

use crate::error::{Error, ErrorKind};

/// What a failed try says of the call.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The call itself was refused: trying again changes nothing.
    Refused(Error),
    /// This try had no effect; another one may.
    NotDone {
        error: Error,
        /// How long the node asks to be left alone.
        pause: Option<Duration>,
        node: Health,
    },
    /// This try may have had an effect.
    Unknown { error: Error, node: Health },
}

/// What a failed try says of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answered.
    Sound,
    /// It did not, or is about to stop.
    Suspect,
}

impl Verdict {
    /// The try ended without any answer.
    pub(crate) fn silence() -> Self {
        Self::Unknown {
            error: Error::new(ErrorKind::Unavailable, "the node did not answer in time"),
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

    /// Of a unary call, or of a stream that was not opened.
    pub(crate) fn of(status: Status) -> Self {
        let info = status
            .get_details_error_info()
            .filter(|info| info.domain == ERROR_DOMAIN);
        let reason = info.as_ref().and_then(|info| Reason::parse(&info.reason));
        let (Some(info), Some(reason)) = (info, reason) else {
            return Self::of_code(status);
        };
        let refusal = refusal(reason, status.message(), |name| info.metadata.get(name));
        let pause = status.get_details_retry_info();
        Self::of_reason(reason, refusal, pause.and_then(|info| info.retry_delay))
    }

    /// Of a call that Exchange carried.
    pub(crate) fn of_reply(reply: ErrorReply) -> Self {
        let Some(reason) = Reason::parse(&reply.reason) else {
            return Self::of_code(Status::new(Code::from_i32(reply.code), reply.message));
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
            Self::NotDone { error, .. } | Self::Unknown { error, .. } | Self::Refused(error) => {
                Self::Unknown {
                    error,
                    node: Health::Suspect,
                }
            }
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

    /// Without a reason the status is the transport's own, or of something between.
    fn of_code(status: Status) -> Self {
        let unconnected = is_unconnected(&status);
        let message = format!("{}: {}", status.code().description(), status.message());
        let error = |kind| Error::new(kind, message.clone());
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => {
                Self::Refused(error(ErrorKind::Denied).with_source(status))
            }
            // Requests are measured before they are sent, and replies are bounded far below a message: this is the refusal of
            // something between that allows less.
            Code::OutOfRange | Code::ResourceExhausted if is_of_size(&status) => {
                let error = Error::refused(Reason::TooLarge, message, 0, 0);
                Self::Refused(error.with_source(status))
            }
            Code::InvalidArgument | Code::OutOfRange => {
                Self::Refused(error(ErrorKind::Invalid).with_source(status))
            }
            Code::Unimplemented => Self::Refused(error(ErrorKind::Internal).with_source(status)),
            _ if unconnected => Self::NotDone {
                error: error(ErrorKind::Unavailable).with_source(status),
                pause: None,
                node: Health::Suspect,
            },
            _ => Self::Unknown {
                error: error(ErrorKind::Unavailable).with_source(status),
                node: Health::Suspect,
            },
        }
    }
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

/// Whether a transport refused a message for its size. It has a code for that, but shares it: only the words tell.
fn is_of_size(status: &Status) -> bool {
    let words = ["too large", "larger than max", "size limit"];
    words.iter().any(|words| status.message().contains(words))
}

/// Whether there was no connection to send anything over.
fn is_unconnected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    fn status(code: Code, reason: Reason) -> Status {
        let metadata = [("revision", "7"), ("operation", "2")];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let metadata = HashMap::from(metadata);
        let mut details = ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, metadata);
        details.set_retry_info(Some(Duration::from_millis(40)));
        Status::with_error_details(code, "what to do", details)
    }

    #[test]
    fn only_a_rejection_before_append_says_not_done() {
        let overloaded = Verdict::of(status(Code::ResourceExhausted, Reason::Overloaded));
        let pause = Some(Duration::from_millis(40));
        assert!(matches!(overloaded, Verdict::NotDone { pause: said, .. } if said == pause));
        let leaderless = Verdict::of(status(Code::Unavailable, Reason::NoLeader));
        assert!(matches!(leaderless, Verdict::NotDone { .. }));
        let stopping = Verdict::of(status(Code::Unavailable, Reason::Stopping));
        let node = Health::Suspect;
        assert!(matches!(stopping, Verdict::NotDone { node: said, .. } if said == node));
        let unknown = Verdict::of(status(Code::Unavailable, Reason::Ambiguous));
        assert!(matches!(unknown, Verdict::Unknown { .. }));
        for code in [
            Code::Unavailable,
            Code::Cancelled,
            Code::Internal,
            Code::Unknown,
        ] {
            let unknown = Verdict::of(Status::new(code, "broken pipe"));
            assert!(matches!(unknown, Verdict::Unknown { .. }), "{code:?}");
        }
    }

    #[test]
    fn a_message_over_a_transports_limit_is_too_large() {
        for (code, message) in [
            (Code::OutOfRange, "Error, decoded message length too large"),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max",
            ),
        ] {
            let Verdict::Refused(error) = Verdict::of(Status::new(code, message)) else {
                panic!("{code:?}");
            };
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(error.reason(), Some(Reason::TooLarge));
        }
        let other = Verdict::of(Status::new(Code::ResourceExhausted, "too many requests"));
        assert!(matches!(other, Verdict::Unknown { .. }));
    }

    #[test]
    fn a_conflict_names_revision_and_operation() {
        let verdict = Verdict::of(status(Code::FailedPrecondition, Reason::Conflict));
        let Verdict::Refused(error) = verdict else {
            panic!("{verdict:?}");
        };
        let (revision, operation) = (7, 2);
        let conflict = ErrorKind::Conflict {
            revision,
            operation,
        };
        assert_eq!(error.kind(), conflict);
    }

    #[test]
    fn an_error_within_a_stream_says_what_the_status_of_a_unary_call_says() {
        let reply = |code: Code, reason: &str| ErrorReply {
            code: code.into(),
            reason: reason.to_owned(),
            message: "what to do".to_owned(),
            metadata: [
                ("revision", "7"),
                ("operation", "2"),
                ("retry_after_ms", "40"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        };
        for &reason in Reason::ALL {
            let unary = Verdict::of(status(Code::Unavailable, reason));
            let carried = Verdict::of_reply(reply(Code::Unavailable, reason.as_str()));
            assert_eq!(format!("{unary:?}"), format!("{carried:?}"));
        }
        let unknown = Verdict::of_reply(reply(Code::Unavailable, "LATER_VERSION"));
        assert!(matches!(unknown, Verdict::Unknown { .. }), "{unknown:?}");
    }

    #[test]
    fn only_a_node_that_stops_or_shuts_out_leaves_a_sent_call_certainly_undone() {
        let stopping = Verdict::of(status(Code::Unavailable, Reason::Stopping)).of_stream();
        assert!(matches!(stopping, Verdict::NotDone { .. }), "{stopping:?}");
        let shut_out = Verdict::of(status(Code::Unauthenticated, Reason::Unauthenticated));
        assert!(matches!(shut_out, Verdict::Refused(_)), "{shut_out:?}");
        let shut_out = shut_out.of_stream();
        assert!(matches!(shut_out, Verdict::NotDone { .. }), "{shut_out:?}");
        for reason in [Reason::Overloaded, Reason::BadRequest, Reason::NoLeader] {
            let other = Verdict::of(status(Code::Unavailable, reason)).of_stream();
            assert!(matches!(other, Verdict::Unknown { .. }), "{other:?}");
        }
    }

    #[test]
    fn a_reason_of_another_domain_is_not_ours() {
        let details = ErrorDetails::with_error_info("CONFLICT", "elsewhere", HashMap::new());
        let verdict = Verdict::of(Status::with_error_details(Code::Unavailable, "", details));
        assert!(matches!(verdict, Verdict::Unknown { .. }));
    }
}
