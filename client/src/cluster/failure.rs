//! What a failed call over a [`NodeConnection`](crate::NodeConnection) says, for programs that call a cluster without a
//! [`Client`](crate::Client).

use helve_proto::ERROR_DOMAIN;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    cluster::{
        line_error::LineError,
        verdict::{Health, Verdict},
    },
    error::{Error, ErrorKind},
};

/// Why a call over a [`NodeConnection`](crate::NodeConnection) failed without a reason of a node.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong, with the address: as a [`Client`](crate::Client) says it.
    pub error: Error,
    /// The same without a next step: one line.
    pub problem: String,
    /// Whether the call certainly had no effect.
    pub is_undone: bool,
    /// What the call met in a node's place.
    pub between: Between,
}

/// What a call met in a node's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Nothing answered: there was no connection, or it broke.
    Nothing,
    /// A proxy that refuses this caller, or a message for its size.
    Refusal,
    /// A proxy that limits the rate of calls.
    Limit,
    /// A proxy that has no node, or got no answer from one, for now.
    Outage,
    /// Something that is neither a node nor a proxy before one.
    Stranger,
}

impl Failure {
    /// What the status of a call to this address says; `None` if a node answered.
    #[must_use]
    pub fn of(address: &str, status: &Status) -> Option<Self> {
        let info = status.get_details_error_info();
        if info.is_some_and(|info| info.domain == ERROR_DOMAIN) {
            return None;
        }
        let is_undone = |verdict: &Verdict| {
            matches!(
                verdict,
                Verdict::Refused(_) | Verdict::Barred(_) | Verdict::NotDone { .. }
            )
        };
        let verdict = Verdict::of(address, status);
        let is_undone = is_undone(&verdict);
        let (error, between) = match verdict {
            Verdict::Refused(error) | Verdict::Barred(error) | Verdict::Oversized(error) => {
                let is_of_form = matches!(status.code(), Code::InvalidArgument | Code::OutOfRange)
                    && error.reason().is_none();
                let between = match error.kind() {
                    ErrorKind::Denied => Between::Refusal,
                    ErrorKind::Invalid if !is_of_form => Between::Refusal,
                    _ => Between::Stranger,
                };
                (error, between)
            }
            Verdict::NotDone { error, node, .. } | Verdict::Unknown { error, node } => {
                let between = between(status, &error, node);
                (error, between)
            }
        };
        // The text of a connection ends with what to do, as does that of a call that is not known there.
        let has_next = LineError::behind(status).is_some() || status.code() == Code::Unimplemented;
        let problem = match error.message().rsplit_once(". ") {
            Some((problem, _next)) if has_next => problem.to_owned(),
            _ => error.message().to_owned(),
        };
        Some(Self {
            problem: problem.replace(['\n', '\r'], " "),
            is_undone,
            between,
            error,
        })
    }
}

fn between(status: &Status, error: &Error, node: Health) -> Between {
    let is_of_transport = std::error::Error::source(status).is_some();
    match node {
        Health::Useless => Between::Stranger,
        Health::Behind if error.kind() == ErrorKind::Overloaded => Between::Limit,
        Health::Behind => Between::Outage,
        _ if is_of_transport => Between::Nothing,
        // The codes with which a proxy speaks of its node.
        _ if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => Between::Outage,
        _ => Between::Stranger,
    }
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::Response;

    use super::*;

    fn of_http(status: u16) -> Status {
        let response = Response::builder().status(status).body(()).unwrap();
        LineError::of_response("a:1", &response).unwrap().into()
    }

    #[test]
    fn what_answers_in_a_nodes_place_is_told_apart() {
        let grpc = Status::new;
        for (status, between, is_undone) in [
            (of_http(401), Between::Refusal, true),
            (of_http(413), Between::Refusal, true),
            (of_http(429), Between::Limit, true),
            (of_http(503), Between::Outage, true),
            (of_http(502), Between::Outage, false),
            (of_http(504), Between::Outage, false),
            (of_http(404), Between::Stranger, true),
            (of_http(200 + 4), Between::Stranger, false),
            (
                grpc(Code::PermissionDenied, "RBAC: access denied"),
                Between::Refusal,
                true,
            ),
            (grpc(Code::ResourceExhausted, ""), Between::Limit, true),
            (
                grpc(Code::Unavailable, "no healthy upstream"),
                Between::Outage,
                true,
            ),
            (grpc(Code::Unavailable, ""), Between::Outage, false),
            (grpc(Code::DeadlineExceeded, ""), Between::Outage, false),
            (grpc(Code::Unimplemented, ""), Between::Stranger, true),
            (
                grpc(Code::Internal, "Missing response message."),
                Between::Stranger,
                false,
            ),
        ] {
            let failure = Failure::of("a:1", &status).unwrap();
            let found = (failure.between, failure.is_undone);
            assert_eq!(found, (between, is_undone), "{status:?}");
            assert!(failure.problem.contains("a:1"), "{}", failure.problem);
        }
    }

    #[test]
    fn problem_of_a_call_that_is_not_known_names_no_next_step() {
        let failure = Failure::of("a:1", &Status::new(Code::Unimplemented, "")).unwrap();
        let message = failure.error.message();
        assert!(message.contains("upgrade its node"), "{message}");
        let problem = &failure.problem;
        assert!(problem.ends_with("does not know this call"), "{problem}");
    }

    #[test]
    fn problem_of_a_proxy_leaves_its_next_step_to_the_caller() {
        let failure = Failure::of("a:1", &of_http(503)).unwrap();
        assert!(failure.error.message().ends_with("Try again later"));
        assert!(
            failure.problem.ends_with("to pass calls on to"),
            "{}",
            failure.problem
        );
    }
}
