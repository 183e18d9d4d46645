//! Bytes that a client or a peer makes up: refused, or carried out; never a fault of a replica's own, which would stop it.

use helve_proto::v1::{
    ExchangeCall, ExchangeRequest, ListKeysRequest, ListRequest, WatchHandle, WatchKeys,
    WatchOwner, WatchRequest, WatchStore, exchange_call::Call, watch_request::Target as Watched,
};
use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message;

use crate::{
    made_up::{calls, commands, lists, peer_command, resumed_lists, watched_changes, wire_calls},
    seeds,
};

/// Ten thousand, or as many as the environment asks for.
#[expect(
    clippy::disallowed_methods,
    reason = "it says how many questions are asked, not how they are answered"
)]
fn cases() -> ProptestConfig {
    let cases = std::env::var("HELVE_CASES").ok();
    ProptestConfig {
        cases: cases.map_or(10_000, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn encoded(call: Call) -> Vec<u8> {
    let call = ExchangeCall {
        correlation_id: 1,
        timeout_ms: 0,
        call: Some(call),
    };
    ExchangeRequest { calls: vec![call] }.encode_to_vec()
}

/// Watches as clients ask for them, to change bits of.
fn watches() -> Vec<Vec<u8>> {
    let targets = [
        Watched::Store(WatchStore {
            store: "cart".into(),
            owner: Some("ann".into()),
        }),
        Watched::Handle(WatchHandle {
            store: "cart".into(),
            owner: "ann".into(),
            id: "cart-1".into(),
        }),
        Watched::Keys(WatchKeys {
            owner: "ann".into(),
            prefix: "users/".into(),
        }),
        Watched::Owner(WatchOwner {
            owner: "ann".into(),
        }),
    ];
    let requests = targets.map(|target| WatchRequest {
        target: Some(target),
        after: Some(1),
        ..WatchRequest::default()
    });
    requests.map(|request| request.encode_to_vec()).to_vec()
}

/// Noise, and these messages with some of their bytes changed, cut out or put in.
fn bytes_like(real: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<Index>(), any::<u8>(), 0..3_u8), 0..6);
    let edited = (prop::sample::select(real), edits).prop_map(|(mut bytes, edits)| {
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                _ => {}
            }
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..200), 4 => edited]
}

#[test]
fn seeds_of_each_fuzz_target_hold() {
    seeds::each("wire_calls", wire_calls);
    seeds::each("peer_command", peer_command);
    seeds::each("resumed_lists", resumed_lists);
    seeds::each("watched_changes", watched_changes);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn bytes_on_the_wire_are_refused_or_carried_out_and_are_never_a_fault(
        bytes in bytes_like(calls().into_iter().map(encoded).collect()),
    ) {
        wire_calls(&bytes);
    }

    #[test]
    fn a_command_that_a_peer_makes_up_is_refused_or_carried_out_or_needs_a_newer_version(
        bytes in bytes_like(commands()),
    ) {
        peer_command(&bytes);
    }

    #[test]
    fn a_watch_that_a_client_makes_up_is_refused_or_followed(bytes in bytes_like(watches())) {
        watched_changes(&bytes);
    }

    #[test]
    fn a_list_resumes_at_any_token_that_a_client_makes_up(
        token in prop_oneof![
            vec(any::<u8>(), 0..60),
            "\\PC{1,20}".prop_map(String::into_bytes),
        ],
        prefix in "\\PC{0,8}",
        owner in "\\PC{0,4}",
        with_values: bool,
        limit in 0_u64..4,
        after in "\\PC{0,6}",
    ) {
        let keys = ListKeysRequest {
            owner: owner.clone(),
            prefix,
            with_values,
            resume_token: token.clone().into(),
            after: after.clone(),
            keys_max: limit,
        };
        let handles = ListRequest {
            store: "cart".into(),
            owner: Some(owner),
            with_values,
            resume_token: token.into(),
            handles_max: limit,
            after,
        };
        lists(&keys, &handles);
    }
}
