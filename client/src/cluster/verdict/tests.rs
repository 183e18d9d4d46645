//! Tests of what failed tries say.

pub(crate) mod answers;
mod vectors;

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*, sample::Index};
use tonic_types::ErrorDetails;

use super::*;
use crate::properties::check;

fn status(code: Code, reason: Reason) -> Status {
    let metadata = [("revision", "7"), ("operation", "2")];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let metadata = HashMap::from(metadata);
    let mut details = ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, metadata);
    details.set_retry_info(Some(Duration::from_millis(40)));
    Status::with_error_details(code, "what to do", details)
}

fn verdict(status: &Status) -> Verdict {
    Verdict::of("a:1", status)
}

#[test]
fn only_a_rejection_before_append_says_not_done() {
    let overloaded = verdict(&status(Code::ResourceExhausted, Reason::Overloaded));
    let pause = Some(Duration::from_millis(40));
    assert!(matches!(overloaded, Verdict::NotDone { pause: said, .. } if said == pause));
    let leaderless = verdict(&status(Code::Unavailable, Reason::NoLeader));
    assert!(matches!(leaderless, Verdict::NotDone { .. }));
    let stopping = verdict(&status(Code::Unavailable, Reason::Stopping));
    let node = Health::Suspect;
    assert!(matches!(stopping, Verdict::NotDone { node: said, .. } if said == node));
    let unknown = verdict(&status(Code::Unavailable, Reason::Ambiguous));
    assert!(matches!(unknown, Verdict::Unknown { .. }));
    for code in [
        Code::Unavailable,
        Code::Cancelled,
        Code::Internal,
        Code::Unknown,
    ] {
        let unknown = verdict(&Status::new(code, "broken pipe"));
        assert!(matches!(unknown, Verdict::Unknown { .. }), "{code:?}");
    }
}

/// What something between says that speaks gRPC, and what follows for a call whose reply holds values, for one whose reply does not, and
/// for one that a stream carries.
#[test]
fn exhausted_proxy_leaves_a_call_undone_or_in_doubt() {
    let too_large = [
        "grpc: received message larger than max (5 vs. 4)",
        "trying to send message larger than max (5 vs. 4)",
        "Received message larger than max (5 vs. 4)",
        "message size limit",
    ];
    let rate = [
        "",
        "too many requests",
        "local_rate_limited",
        "API rate limit exceeded",
        "/helve.v1.HandleService/Put is rejected by grpc_ratelimit middleware, please retry later",
    ];
    let transport = [
        "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM",
        "Received RST_STREAM with error code 11",
        "GOAWAY received; debug data: too_many_pings",
    ];
    let cases = too_large
        .map(|words| (words, ["Unknown", "Barred", "Unknown"]))
        .into_iter()
        .chain(rate.map(|words| (words, ["NotDone", "NotDone", "NotDone"])))
        .chain(transport.map(|words| (words, ["Unknown", "Unknown", "Unknown"])));
    for (words, expected) in cases {
        let said = || verdict(&Status::new(Code::ResourceExhausted, words));
        let found = [
            said().of_large_reply(),
            said().of_small_reply(),
            said().of_refused_stream(1),
        ];
        for (found, expected) in found.iter().zip(expected) {
            let found = format!("{found:?}");
            assert!(found.starts_with(expected), "{words}: {found}");
        }
        let of_stream = said().of_stream();
        assert!(matches!(of_stream, Verdict::Unknown { .. }), "{words}");
    }
}

#[test]
fn message_over_a_transports_limit_is_too_large() {
    for (code, message) in [
        (Code::OutOfRange, "Error, decoded message length too large"),
        (
            Code::ResourceExhausted,
            "grpc: received message larger than max",
        ),
    ] {
        let refused = verdict(&Status::new(code, message)).of_small_reply();
        let Verdict::Barred(error) = refused else {
            panic!("{code:?}: {refused:?}");
        };
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.reason(), Some(Reason::TooLarge));
    }
}

#[test]
fn rate_limit_of_a_proxy_is_waited_out_as_long_as_it_asks() {
    let pause = |status: &Status| match verdict(status) {
        Verdict::NotDone {
            error,
            pause,
            node: Health::Behind,
        } => {
            assert_eq!(error.kind(), ErrorKind::Overloaded);
            pause
        }
        other => panic!("{other:?}"),
    };
    let mut plain = Status::new(Code::ResourceExhausted, "too many requests");
    assert_eq!(pause(&plain), None);
    plain
        .metadata_mut()
        .insert("retry-after", "3".parse().unwrap());
    assert_eq!(pause(&plain), Some(Duration::from_secs(3)));
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(40)));
    let detailed = Status::with_error_details(Code::ResourceExhausted, "slow down", details);
    assert_eq!(pause(&detailed), Some(Duration::from_millis(40)));
}

#[test]
fn exhausted_of_a_newer_version_may_have_been_executed() {
    let of_newer =
        ErrorDetails::with_error_info("OF_A_NEWER_VERSION", ERROR_DOMAIN, HashMap::new());
    let of_newer = Status::with_error_details(Code::ResourceExhausted, "", of_newer);
    let mut of_transport = Status::new(Code::ResourceExhausted, "h2 protocol error");
    of_transport.set_source(std::sync::Arc::new(std::io::Error::other("reset")));
    for status in [of_newer, of_transport] {
        let unknown = verdict(&status);
        assert!(matches!(unknown, Verdict::Unknown { .. }), "{unknown:?}");
    }
}

#[test]
fn a_conflict_names_revision_and_operation() {
    let verdict = verdict(&status(Code::FailedPrecondition, Reason::Conflict));
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
        let unary = verdict(&status(Code::Unavailable, reason));
        let carried = Verdict::of_reply("a:1", reply(Code::Unavailable, reason.as_str()));
        assert_eq!(format!("{unary:?}"), format!("{carried:?}"));
    }
    let unknown = Verdict::of_reply("a:1", reply(Code::Unavailable, "LATER_VERSION"));
    assert!(matches!(unknown, Verdict::Unknown { .. }), "{unknown:?}");
}

#[test]
fn only_a_node_that_stops_or_shuts_out_leaves_a_sent_call_certainly_undone() {
    let stopping = verdict(&status(Code::Unavailable, Reason::Stopping)).of_stream();
    assert!(matches!(stopping, Verdict::NotDone { .. }), "{stopping:?}");
    let shut_out = verdict(&status(Code::Unauthenticated, Reason::Unauthenticated));
    assert!(matches!(shut_out, Verdict::Refused(_)), "{shut_out:?}");
    let shut_out = shut_out.of_stream();
    assert!(matches!(shut_out, Verdict::NotDone { .. }), "{shut_out:?}");
    for reason in [Reason::Overloaded, Reason::BadRequest, Reason::NoLeader] {
        let other = verdict(&status(Code::Unavailable, reason)).of_stream();
        assert!(matches!(other, Verdict::Unknown { .. }), "{other:?}");
    }
}

#[test]
fn a_reason_of_another_domain_is_not_ours() {
    let details = ErrorDetails::with_error_info("CONFLICT", "elsewhere", HashMap::new());
    let verdict = verdict(&Status::with_error_details(Code::Unavailable, "", details));
    assert!(matches!(verdict, Verdict::Unknown { .. }));
}

#[test]
fn details_that_a_node_makes_up_say_not_done_only_by_a_reason_of_ours() {
    let real = status(Code::Unavailable, Reason::Overloaded);
    let edits = vec((any::<Index>(), any::<u8>()), 0..6);
    let edited = edits.prop_map(move |edits| {
        let mut details = real.details().to_vec();
        for (at, byte) in edits {
            let at = at.index(details.len());
            details[at] ^= byte;
        }
        details
    });
    let details = prop_oneof![vec(any::<u8>(), 0..100), edited];
    check(&(details, 0..20_u8), |(details, code)| {
        crate::fuzzing::error_details(&[&[code][..], &details].concat());
        Ok(())
    });
}

/// What a status asks for by this header, which a proxy may write beside gRPC's own.
fn asked(value: &[u8]) -> Option<Duration> {
    let mut status = Status::new(Code::ResourceExhausted, "rate limited");
    if let Ok(value) = tonic::metadata::MetadataValue::try_from(value) {
        status.metadata_mut().insert("retry-after", value);
    }
    asked_pause(&status)
}

#[test]
fn a_time_to_wait_that_a_node_makes_up_is_a_number_or_left_out() {
    check(&vec(any::<u8>(), 0..24), |bytes| {
        let is_number = bytes.trim_ascii().iter().all(u8::is_ascii_digit);
        // A sign, and a number that is too large, are left to the parser.
        let is_signed = bytes.trim_ascii().first() == Some(&b'+');
        prop_assert!(asked(&bytes).is_none() || is_number || is_signed);
        Ok(())
    });
    for (text, seconds) in [("7", Some(7)), ("+7", Some(7)), ("7.5", None), ("", None)] {
        let expected = seconds.map(Duration::from_secs);
        assert_eq!(asked(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn a_time_to_wait_beside_a_status_may_be_a_date() {
    assert_eq!(
        asked(b"Sun, 06 Nov 1994 08:49:37 GMT"),
        Some(Duration::ZERO)
    );
    let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    let far = asked(b"Fri, 31 Dec 9999 23:59:59 GMT");
    assert!(far.is_some_and(|pause| pause > century), "{far:?}");
}

#[test]
fn status_that_asks_for_another_try_names_no_wrong_address() {
    for (status, remedy) in [
        (408, "Try again later"),
        (425, "Try again later"),
        (404, "no node is at that address"),
    ] {
        let response = tonic::codegen::http::Response::builder().status(status);
        let response = response.body(()).unwrap();
        let told = LineError::of_response("a:1", &response)
            .unwrap()
            .to_string();
        assert!(told.contains(remedy), "{told}");
        assert_eq!(told.contains("no node"), status == 404, "{told}");
    }
}
