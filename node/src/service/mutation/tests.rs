//! Tests of what a request becomes.

use helve_proto::v1::{MintRequest, SetTenantRequest};

use helve_seal::Keyring;

use super::*;
use crate::service::caller::Power;
use crate::vault::{KeyFiles, Vault};

const LEVEL: u32 = helve_machine::limits::FEATURE_LEVEL;

fn caller(tenant: &str, principal: &str) -> Caller {
    Caller {
        tenant: tenant.to_owned(),
        principal: principal.to_owned(),
        power: Power::All,
    }
}

fn mint(value: &'static str, request_id: Option<u8>) -> MintRequest {
    let identity = request_id
        .map(|byte| Identity::RequestId(Bytes::copy_from_slice(&[byte; 16])))
        .map(|identity| CallIdentity {
            identity: Some(identity),
        });
    MintRequest {
        identity,
        store: "carts".into(),
        value: value.into(),
        ..Default::default()
    }
}

/// The command of a request that has its identity within.
fn command<M: Mutation>(
    mut request: M,
    caller: &Caller,
    cluster_level: u32,
) -> Result<Box<Command>, Failure> {
    let identity = request.take_identity();
    super::command(request, identity.as_ref(), caller, cluster_level)
}

fn fingerprint_of(request: MintRequest, caller: &Caller) -> Bytes {
    Vault::new(KeyFiles::none(), Keyring::default())
        .fingerprint(&canonical(&mut command(request, caller, LEVEL).unwrap()))
}

#[test]
fn a_fingerprint_is_of_the_request_and_its_caller_not_of_the_attempt() {
    let one = caller("default", "one");
    let first = fingerprint_of(mint("a", None), &one);
    assert_eq!(first.len(), FINGERPRINT_BYTES);
    assert_eq!(first, fingerprint_of(mint("a", None), &one));
    assert_ne!(first, fingerprint_of(mint("b", None), &one));
    for other in [caller("default", "two"), caller("other", "one")] {
        assert_ne!(first, fingerprint_of(mint("a", None), &other));
    }
}

#[test]
fn the_identity_moves_from_the_request_into_the_command() {
    let identity = Identity::Session(SessionCall {
        session_id: Bytes::from_static(&[7; 16]),
        seq: 1,
        first_incomplete: 1,
    });
    let identity = CallIdentity {
        identity: Some(identity),
    };
    let request = MintRequest {
        identity: Some(identity.clone()),
        ..mint("a", None)
    };
    let command = command(request, &caller("default", "one"), LEVEL).unwrap();
    assert_eq!(command.identity, Some(identity));
    assert_eq!(command.minted_ids.len(), 1);
    let Some(Operation::Mint(request)) = command.operation else {
        panic!("not a mint")
    };
    assert_eq!(request.identity, None);
}

fn quotas(identity: Option<Identity>) -> SetTenantRequest {
    SetTenantRequest {
        tenant: "acme".into(),
        identity: identity.map(|identity| CallIdentity {
            identity: Some(identity),
        }),
        ..Default::default()
    }
}

#[test]
fn an_administrative_call_bears_an_identity_once_all_versions_honour_it() {
    let one = caller("default", "one");
    let request_id = Identity::RequestId(Bytes::from_static(&[
        1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, 16,
    ]));
    let own = command(quotas(None), &one, LEVEL).unwrap();
    assert_eq!(own.feature_level, level::MENDED);
    assert_eq!((&*own.tenant, &*own.principal), ("", ""));
    let given = command(quotas(Some(request_id.clone())), &one, LEVEL).unwrap();
    assert_eq!((&*given.tenant, &*given.principal), ("", "one"));
    assert_eq!(given.identity.unwrap().identity, Some(request_id.clone()));
    let older = command(quotas(Some(request_id)), &one, level::MENDED - 1).unwrap();
    assert!(older.feature_level < level::MENDED);
    assert_eq!((older.identity, &*older.tenant), (None, "default"));
    let session = stand_in().identity;
    let refused = command(quotas(session), &one, LEVEL);
    assert!(matches!(refused, Err(Failure::Malformed(_))), "{refused:?}");
}

#[test]
fn command_stamped_after_a_raise_is_as_one_made_after_it() {
    let one = caller("default", "one");
    let identity = CallIdentity {
        identity: Some(Identity::RequestId(Bytes::from_static(&[
            1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, 16,
        ]))),
    };
    let made =
        |cluster_level| super::command(quotas(None), Some(&identity), &one, cluster_level).unwrap();
    let mut early = made(level::FIRST);
    assert_eq!(early.identity, None);
    stamp_for(&mut early, Some(&identity), &one, LEVEL).unwrap();
    assert_eq!(early.identity, Some(identity.clone()));
    assert_eq!(early, made(LEVEL));
}

#[test]
fn an_outcome_that_could_not_be_read_leaves_a_call_in_doubt_whatever_the_reason() {
    let errors = [
        ReadError::NoLeader,
        ReadError::Lagging,
        ReadError::Overloaded("disk-reads"),
        ReadError::Stopping,
        ReadError::TooLarge,
    ];
    for error in errors {
        let failure = unread(&error, Instant::now());
        assert!(matches!(failure, Failure::Ambiguous { .. }), "{failure:?}");
    }
}
