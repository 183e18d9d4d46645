//! Claims: side effects that must happen once.

use std::time::Duration;

use helve_client::{
    AbandonOutcome, BeginOutcome, Claims, EarlierLease, Error, ErrorKind, FinishOutcome,
    HandleStore, Lease, LeaseEnd, Reason, Ttl,
};

use crate::setup::{HOUR, SHORT, Setup, together, wait_until};

const KEY: &str = "order-7";
const DIGEST: &[u8] = b"ten francs to ann";
const OTHER: &[u8] = b"ten francs to bob";

/// The case's claims, once the cluster knows claims: a new one raises its level by itself, a moment after it serves.
async fn claims(setup: &Setup, node: usize) -> Result<Claims<String>, Error> {
    let claims = setup.client(node).claims(setup.options());
    wait_until("the cluster to know claims", async || {
        match claims.begin("nothing", DIGEST, SHORT).await {
            Err(error) if error.reason() == Some(Reason::FormatNewer) => Ok(false),
            begun => begun.map(|_| true),
        }
    })
    .await?;
    Ok(claims)
}

async fn fresh(claims: &Claims<String>, lease: Duration) -> Result<Lease<String>, Error> {
    match claims.begin(KEY, DIGEST, lease).await? {
        BeginOutcome::Fresh(lease) => Ok(lease),
        other => panic!("not fresh: {other:?}"),
    }
}

async fn result(claims: &Claims<String>) -> Result<String, Error> {
    match claims.begin(KEY, DIGEST, HOUR).await? {
        BeginOutcome::Done(record) => Ok(record.value),
        other => panic!("not done: {other:?}"),
    }
}

/// How the lease before ended, if it was this one.
fn end_of(earlier: Option<EarlierLease>, lease: &Lease<String>) -> Option<LeaseEnd> {
    let earlier = earlier.filter(|earlier| earlier.fence == lease.fence());
    earlier.map(|earlier| earlier.end)
}

fn is_conflict(outcome: &BeginOutcome<String>) -> bool {
    matches!(outcome, BeginOutcome::Conflict)
}

pub(super) async fn one_of_sixteen_has_the_lease_and_all_get_its_result(
    setup: Setup,
) -> Result<(), Error> {
    let first = claims(&setup, 0).await?;
    let callers = (0..16).map(|node| {
        let claims: Claims<String> = setup.client(node).claims(setup.options());
        async move { claims.begin_with_note(KEY, DIGEST, HOUR, "me").await }
    });
    let (mut held, mut waiting) = (Vec::new(), 0);
    for begun in together(callers).await? {
        match begun {
            BeginOutcome::Fresh(lease) => held.push(lease),
            BeginOutcome::InFlight(claim) => {
                assert_eq!(&claim.note[..], b"me");
                assert!(!claim.left().is_zero() && claim.left() <= HOUR);
                waiting += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((held.len(), waiting), (1, 15));
    let lease = held.remove(0);
    let paid = "paid".to_owned();
    let finished = lease.finish(&paid, Ttl::Default).await?;
    assert!(matches!(finished, FinishOutcome::Finished(_)));
    let again = lease.finish(&"twice".to_owned(), Ttl::Never).await?;
    assert!(matches!(again, FinishOutcome::Done(kept) if kept.value == paid));
    let abandoned = lease.abandon().await?;
    assert!(matches!(abandoned, AbandonOutcome::Done(kept) if kept.value == paid));
    for node in 0..3 {
        let claims = setup.client(node).claims(setup.options());
        assert_eq!(result(&claims).await?, paid);
    }
    assert_eq!(result(&first).await?, paid);
    Ok(())
}

pub(super) async fn a_lease_that_ends_is_lost_and_the_next_has_a_higher_fence(
    setup: Setup,
) -> Result<(), Error> {
    let claims = claims(&setup, 0).await?;
    let lost = fresh(&claims, SHORT).await?;
    let mut next = None;
    wait_until("the lease to end", async || {
        match claims.begin(KEY, OTHER, HOUR).await? {
            BeginOutcome::Fresh(lease) => next = Some(lease),
            // It is in flight under another digest.
            other => assert!(is_conflict(&other), "{other:?}"),
        }
        Ok(next.is_some())
    })
    .await?;
    let next = next.expect("it was waited for");
    assert!(next.fence() > lost.fence());
    let late = lost.finish(&"late".to_owned(), Ttl::Default).await?;
    assert_eq!(late, FinishOutcome::LeaseLost);
    assert_eq!(lost.abandon().await?, AbandonOutcome::LeaseLost);
    let finished = next.finish(&"in time".to_owned(), Ttl::Default).await?;
    assert!(matches!(finished, FinishOutcome::Finished(_)));
    let found = claims.begin(KEY, OTHER, HOUR).await?;
    assert!(matches!(found, BeginOutcome::Done(kept) if kept.value == "in time"));
    Ok(())
}

pub(super) async fn an_abandoned_claim_is_free_and_its_fence_worth_nothing(
    setup: Setup,
) -> Result<(), Error> {
    let claims = claims(&setup, 0).await?;
    let first = fresh(&claims, HOUR).await?;
    assert_eq!(first.abandon().await?, AbandonOutcome::Abandoned);
    assert_eq!(first.abandon().await?, AbandonOutcome::LeaseLost);
    let next = fresh(&claims, HOUR).await?;
    assert!(next.fence() > first.fence());
    let late = first.finish(&"late".to_owned(), Ttl::Default).await?;
    assert_eq!(late, FinishOutcome::LeaseLost);
    Ok(())
}

pub(super) async fn a_lease_is_told_how_those_before_it_ended(setup: Setup) -> Result<(), Error> {
    let claims = claims(&setup, 0).await?;
    let first = fresh(&claims, HOUR).await?;
    assert_eq!(first.earlier(), None);
    first.abandon().await?;
    let crashed = fresh(&claims, SHORT).await?;
    assert_eq!(end_of(crashed.earlier(), &first), Some(LeaseEnd::Abandoned));
    let second = ended(&claims).await?;
    assert_eq!(end_of(second.earlier(), &crashed), Some(LeaseEnd::Expired));
    assert!(second.earlier().is_some_and(|lease| {
        lease.may_have_happened() && lease.ended_at_ms == crashed.until_ms()
    }));
    second.abandon().await?;
    let third = fresh(&claims, HOUR).await?;
    assert_eq!(third.earlier(), second.earlier());
    third.abandon_never_happened().await?;
    let told = third;
    let third = fresh(&claims, HOUR).await?;
    assert_eq!(end_of(third.earlier(), &told), Some(LeaseEnd::Abandoned));
    third.finish(&"paid".to_owned(), Ttl::After(SHORT)).await?;
    let fourth = ended(&claims).await?;
    assert_eq!(end_of(fourth.earlier(), &third), Some(LeaseEnd::Finished));
    let handles = setup.handles::<String>(0);
    assert!(handles.delete(KEY).await?);
    assert_eq!(fresh(&claims, HOUR).await?.earlier(), None);
    Ok(())
}

/// The next lease, once what the key holds is over.
async fn ended(claims: &Claims<String>) -> Result<Lease<String>, Error> {
    let mut next = None;
    wait_until("what the key holds to be over", async || {
        if let BeginOutcome::Fresh(lease) = claims.begin(KEY, DIGEST, HOUR).await? {
            next = Some(lease);
        }
        Ok(next.is_some())
    })
    .await?;
    Ok(next.expect("it was waited for"))
}

pub(super) async fn another_digest_is_a_conflict_until_the_result_is_gone(
    setup: Setup,
) -> Result<(), Error> {
    let claims = claims(&setup, 0).await?;
    let lease = fresh(&claims, HOUR).await?;
    assert!(is_conflict(&claims.begin(KEY, OTHER, HOUR).await?));
    lease.finish(&"paid".to_owned(), Ttl::After(SHORT)).await?;
    wait_until("the result to be gone", async || {
        let begun = claims.begin(KEY, OTHER, HOUR).await?;
        assert!(
            is_conflict(&begun) || matches!(begun, BeginOutcome::Fresh(_)),
            "{begun:?}"
        );
        Ok(!is_conflict(&begun))
    })
    .await
}

pub(super) async fn only_claims_and_deletes_change_a_claim(setup: Setup) -> Result<(), Error> {
    let claims = claims(&setup, 0).await?;
    let handles = setup.handles::<String>(0);
    let lease = fresh(&claims, HOUR).await?;
    let (value, refused) = ("v".to_owned(), |error: Error| {
        assert_eq!(error.reason(), Some(Reason::Claimed), "{error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
    refused(
        handles
            .put(KEY, &value, Ttl::Default)
            .await
            .expect_err("it is refused"),
    );
    refused(handles.take(KEY).await.expect_err("it is refused"));
    refused(
        handles
            .renew(KEY, Ttl::Never)
            .await
            .expect_err("it is refused"),
    );
    lease.finish(&"paid".to_owned(), Ttl::Default).await?;
    assert_eq!(handles.get(KEY).await?.as_deref(), Some("paid"));
    assert!(handles.delete(KEY).await?);
    handles.put(KEY, &value, Ttl::Default).await?;
    refused(
        claims
            .begin(KEY, DIGEST, HOUR)
            .await
            .expect_err("it is refused"),
    );
    assert_eq!(handles.get(KEY).await?.as_deref(), Some("v"));
    Ok(())
}

pub(super) async fn bad_claims_are_refused(setup: Setup) -> Result<(), Error> {
    let claims = claims(&setup, 0).await?;
    let day = Duration::from_secs(24 * 60 * 60);
    for (digest, lease, reason) in [
        (vec![], HOUR, Reason::BadRequest),
        (vec![7; 65], HOUR, Reason::BadRequest),
        (vec![7; 64], Duration::ZERO, Reason::BadLifetime),
        (
            vec![7; 64],
            day + Duration::from_millis(1),
            Reason::BadLifetime,
        ),
    ] {
        let refused = claims
            .begin(KEY, digest, lease)
            .await
            .expect_err("it is refused");
        assert_eq!(refused.reason(), Some(reason), "{refused}");
    }
    let begun = claims.begin(KEY, vec![7; 64], day).await?;
    let BeginOutcome::Fresh(lease) = begun else {
        panic!("not fresh: {begun:?}")
    };
    let kept = lease
        .finish(&"v".to_owned(), Ttl::Keep)
        .await
        .expect_err("it is refused");
    assert_eq!(kept.reason(), Some(Reason::BadLifetime), "{kept}");
    Ok(())
}
