//! Exactly once: the identities that retries repeat.

use bytes::Bytes;
use helve_client::{Error, ErrorKind, HandleStore, Ttl};
use helve_proto::{
    Reason,
    v1::{
        CallIdentity, HandleStatus, MintRequest, OpenSessionRequest, PutRequest, SessionCall,
        TakeRequest, call_identity::Identity,
    },
};

use crate::setup::Setup;

fn random() -> [u8; 16] {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("the operating system has randomness");
    random
}

/// A session of the case's own, with its window.
async fn open(setup: &Setup) -> Result<(Bytes, u64), Error> {
    let session_id = Bytes::copy_from_slice(&random());
    let request = OpenSessionRequest {
        session_id: session_id.clone(),
    };
    let reply = setup.client(0).call(request).await?;
    Ok((session_id, reply.window_calls_max))
}

fn numbered(session_id: &Bytes, seq: u64, first_incomplete: u64) -> Option<CallIdentity> {
    Some(CallIdentity {
        identity: Some(Identity::Session(SessionCall {
            session_id: session_id.clone(),
            seq,
            first_incomplete,
        })),
    })
}

/// A UUIDv7 of this time.
fn request_id(sent_ms: u64) -> Option<CallIdentity> {
    let mut id = random();
    id[..6].copy_from_slice(&sent_ms.to_be_bytes()[2..]);
    id[6] = 0x70 | (id[6] & 0x0f);
    id[8] = 0x80 | (id[8] & 0x3f);
    Some(CallIdentity {
        identity: Some(Identity::RequestId(Bytes::copy_from_slice(&id))),
    })
}

async fn clock_ms(setup: &Setup) -> Result<u64, Error> {
    setup.handles::<u32>(0).put("clock", &0, Ttl::Never).await?;
    Ok(setup.handles::<u32>(0).list().await?.clock_ms)
}

fn mint(setup: &Setup, identity: Option<CallIdentity>) -> MintRequest {
    MintRequest {
        identity,
        store: setup.name.clone(),
        value: Bytes::from_static(b"1"),
        ..MintRequest::default()
    }
}

async fn refusal(setup: &Setup, request: MintRequest) -> (Option<ErrorKind>, Option<Reason>) {
    let error = setup.client(0).call(request).await.err();
    let reason = error.as_ref().and_then(Error::reason);
    (error.map(|error| error.kind()), reason)
}

fn forgotten(reason: Reason) -> (Option<ErrorKind>, Option<Reason>) {
    (Some(ErrorKind::Forgotten), Some(reason))
}

pub(super) async fn a_retried_mutation_returns_its_first_outcome_on_any_node(
    setup: Setup,
) -> Result<(), Error> {
    let (session, _) = open(&setup).await?;
    let first = setup
        .client(0)
        .call(mint(&setup, numbered(&session, 1, 1)))
        .await?;
    for node in 0..3 {
        let again = setup
            .client(node)
            .call(mint(&setup, numbered(&session, 1, 1)))
            .await?;
        assert_eq!(again.info, first.info, "through {node}");
    }
    assert_eq!(setup.handles::<u32>(0).len().await?, 1);

    // An outcome stays the first one though the world went on.
    let put = |value: &'static [u8]| PutRequest {
        identity: numbered(&session, 2, 1),
        store: setup.name.clone(),
        id: "h".to_owned(),
        value: Bytes::from_static(value),
        ..PutRequest::default()
    };
    let created = setup.client(0).call(put(b"1")).await?;
    setup.handles::<u32>(0).put("h", &2, Ttl::Default).await?;
    let again = setup.client(1).call(put(b"1")).await?;
    assert_eq!((again.status, again.info), (created.status, created.info));
    assert_eq!(setup.handles::<u32>(2).get("h").await?, Some(2));
    Ok(())
}

pub(super) async fn a_retried_take_returns_the_value_again(setup: Setup) -> Result<(), Error> {
    let (session, _) = open(&setup).await?;
    let id = setup.handles::<u32>(0).mint(&7, Ttl::Default).await?;
    for node in 0..3 {
        let request = TakeRequest {
            identity: numbered(&session, 1, 1),
            store: setup.name.clone(),
            id: id.clone(),
            ..TakeRequest::default()
        };
        let reply = setup.client(node).call(request).await?;
        assert_eq!(reply.status(), HandleStatus::Live);
        assert_eq!(reply.value, Bytes::from_static(b"7"));
    }
    Ok(())
}

pub(super) async fn a_request_id_is_executed_once(setup: Setup) -> Result<(), Error> {
    let identity = request_id(clock_ms(&setup).await?);
    let first = setup.client(0).call(mint(&setup, identity.clone())).await?;
    for node in 0..3 {
        let again = setup
            .client(node)
            .call(mint(&setup, identity.clone()))
            .await?;
        assert_eq!(again.info, first.info, "through {node}");
    }
    Ok(())
}

pub(super) async fn a_reused_identity_is_refused(setup: Setup) -> Result<(), Error> {
    let (session, _) = open(&setup).await?;
    let by_id = request_id(clock_ms(&setup).await?);
    for identity in [numbered(&session, 1, 1), by_id] {
        let request = mint(&setup, identity);
        setup.client(0).call(request.clone()).await?;
        let reused = MintRequest {
            value: Bytes::from_static(b"2"),
            ..request
        };
        let mismatch = (Some(ErrorKind::Invalid), Some(Reason::ReplayMismatch));
        assert_eq!(refusal(&setup, reused).await, mismatch);
    }
    Ok(())
}

pub(super) async fn what_is_below_the_floor_is_stale(setup: Setup) -> Result<(), Error> {
    let (session, _) = open(&setup).await?;
    for seq in [1, 2] {
        setup
            .client(0)
            .call(mint(&setup, numbered(&session, seq, 1)))
            .await?;
    }
    setup
        .client(0)
        .call(mint(&setup, numbered(&session, 3, 3)))
        .await?;
    for seq in [1, 2] {
        let stale = refusal(&setup, mint(&setup, numbered(&session, seq, 1))).await;
        assert_eq!(stale, forgotten(Reason::StaleCall));
    }
    assert_eq!(setup.handles::<u32>(0).len().await?, 3);
    Ok(())
}

pub(super) async fn what_is_beyond_the_window_is_too_early(setup: Setup) -> Result<(), Error> {
    let (session, window) = open(&setup).await?;
    let early = refusal(&setup, mint(&setup, numbered(&session, window + 1, 1))).await;
    assert_eq!(early, forgotten(Reason::TooEarly));
    setup
        .client(0)
        .call(mint(&setup, numbered(&session, window, 1)))
        .await?;
    Ok(())
}

pub(super) async fn request_ids_of_other_times_are_refused(setup: Setup) -> Result<(), Error> {
    const HOUR_MS: u64 = 3_600_000;
    let now_ms = clock_ms(&setup).await?;
    let old = refusal(&setup, mint(&setup, request_id(now_ms - HOUR_MS))).await;
    assert_eq!(old, forgotten(Reason::RequestTooOld));
    let early = refusal(&setup, mint(&setup, request_id(now_ms + HOUR_MS))).await;
    assert_eq!(early, forgotten(Reason::TooEarly));
    Ok(())
}

pub(super) async fn an_unknown_session_is_refused(setup: Setup) -> Result<(), Error> {
    let unknown = Bytes::copy_from_slice(&random());
    let refused = refusal(&setup, mint(&setup, numbered(&unknown, 1, 1))).await;
    assert_eq!(refused, forgotten(Reason::SessionExpired));
    Ok(())
}
