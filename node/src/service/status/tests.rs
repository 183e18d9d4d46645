//! Tests of the map to gRPC.

use bytes::Bytes;
use helve_machine::Violation;

use super::*;
use crate::{bounds, membership::MembershipError};

fn refused(refusal: Refusal) -> Failure {
    Failure::Refused(Refused {
        refusal: refusal.into(),
        ..Default::default()
    })
}

#[test]
fn every_reason_has_a_code() {
    for &reason in Reason::ALL {
        assert_ne!(code(reason), Code::Unknown, "{reason} has no code");
        assert_ne!(code(reason), Code::Ok);
    }
}

#[test]
fn every_refusal_has_its_reason() {
    let table = [
        (Refusal::Conflict, Code::FailedPrecondition, "CONFLICT"),
        (
            Refusal::ReplayMismatch,
            Code::InvalidArgument,
            "REPLAY_MISMATCH",
        ),
        (Refusal::StaleCall, Code::FailedPrecondition, "STALE_CALL"),
        (Refusal::TooEarly, Code::FailedPrecondition, "TOO_EARLY"),
        (
            Refusal::SessionExpired,
            Code::FailedPrecondition,
            "SESSION_EXPIRED",
        ),
        (
            Refusal::RequestTooOld,
            Code::FailedPrecondition,
            "REQUEST_TOO_OLD",
        ),
        (Refusal::Quota, Code::ResourceExhausted, "QUOTA"),
        (Refusal::BadLifetime, Code::InvalidArgument, "BAD_LIFETIME"),
        (Refusal::Malformed, Code::InvalidArgument, "BAD_REQUEST"),
        (
            Refusal::FeatureLevel,
            Code::FailedPrecondition,
            "FORMAT_NEWER",
        ),
        (Refusal::TooLarge, Code::InvalidArgument, "TOO_LARGE"),
        (Refusal::Claimed, Code::FailedPrecondition, "CLAIMED"),
        (Refusal::NoTenant, Code::NotFound, "NO_TENANT"),
        (Refusal::TokenExists, Code::FailedPrecondition, "CONFLICT"),
    ];
    for (refusal, code, reason) in table {
        let reply = Problem::from(refused(refusal)).into_reply();
        assert_eq!((reply.code, reply.reason.as_str()), (code as i32, reason));
    }
    let known = (1..100).filter_map(|n| Refusal::try_from(n).ok());
    let told = known.filter(|refusal| !matches!(refusal, Refusal::Sealing | Refusal::Clearing));
    assert_eq!(told.count(), table.len(), "a refusal is not in the table");
}

#[test]
fn a_conflict_says_the_revision_and_the_operation() {
    let refused = Refused {
        refusal: Refusal::Conflict.into(),
        revision: 41,
        operation: 3,
        ..Default::default()
    };
    let reply = Problem::from(Failure::Refused(refused)).into_reply();
    assert_eq!(reply.metadata["revision"], "41");
    assert_eq!(reply.metadata["operation"], "3");
}

#[test]
fn what_is_not_known_says_so_by_code_and_reason() {
    let of = |late| {
        Problem::from(Failure::Ambiguous {
            detail: "the link broke".into(),
            late,
        })
    };
    let late = of(Lateness::DeadlinePassed);
    assert_eq!(
        (late.code, late.reason),
        (Code::DeadlineExceeded, Reason::Ambiguous)
    );
    let early = of(Lateness::InTime);
    assert_eq!(
        (early.code, early.reason),
        (Code::Unavailable, Reason::Ambiguous)
    );
}

#[test]
fn a_status_and_an_exchange_answer_say_the_same() {
    let failures = || {
        [
            Failure::NoLeader,
            Failure::Lagging,
            Failure::Overloaded(bounds::LONG_READS),
            Failure::DiskFull,
            Failure::Stopping("it is shutting down".into()),
            Failure::Lapsed {
                resume: Bytes::from_static(b"token"),
            },
            Failure::Membership(MembershipError::NoSuccessor),
            Failure::ChangeGoesOn("removing node 3".into()),
            Failure::NoNodeAsked("adding seat 4".into()),
            Failure::Invalid(Violation {
                reason: Reason::BadId,
                message: "operation 2: the id is empty".into(),
                operation: Some(2),
            }),
            Failure::Malformed("no call".into()),
            Failure::TooMuch,
        ]
    };
    for (unary, exchanged) in failures().into_iter().zip(failures()) {
        let status = Status::from(unary);
        let reply = Problem::from(exchanged).into_reply();
        let info = status.get_details_error_info().unwrap();
        assert_eq!(status.code() as i32, reply.code);
        assert_eq!(status.message(), reply.message);
        assert_eq!(
            (info.reason.as_str(), info.domain.as_str()),
            (reply.reason.as_str(), "helve.v1")
        );
        assert_eq!(BTreeMap::from_iter(info.metadata), reply.metadata);
    }
}

#[test]
fn an_overloaded_caller_is_told_how_long_to_wait() {
    let status = Status::from(Failure::Overloaded(bounds::QUEUED_COMMANDS));
    let retry = status.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(retry, Some(limits::OVERLOADED_RETRY_AFTER));
    assert_eq!(
        status.get_details_error_info().unwrap().metadata["retry_after_ms"],
        "100"
    );
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.metadata["bound"], "queued-commands");
    assert!(status.message().contains("queued-commands"), "{status}");
}

#[test]
fn second_backup_is_sent_elsewhere_or_behind_the_first() {
    let reply = Problem::from(Failure::Overloaded(bounds::BACKUPS)).into_reply();
    assert_eq!(reply.metadata["bound"], "backups");
    assert!(reply.message.contains("from another node"), "{reply:?}");
    assert!(!reply.message.contains("retry_after_ms"), "{reply:?}");
}

#[test]
fn late_message_is_told_the_time_that_it_had() {
    for (time, says) in [(300, "within 300 ms"), (5_000, "within 5000 ms")] {
        let late = Failure::TooSlow(Duration::from_millis(time));
        let reply = Problem::from(late).into_reply();
        assert_eq!(reply.code, Code::DeadlineExceeded as i32);
        assert!(reply.message.contains(says), "{reply:?}");
    }
}
