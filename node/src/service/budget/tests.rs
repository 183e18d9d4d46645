//! Shares of owners, and calls that wait for room.

use std::time::Duration;

use futures::FutureExt as _;
use helve_proto::v1::{TokenGrant, TokenRole};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{config::TokenHash, properties::check, service::credential::Credential};

const BYTES: What = What::AnswerBytes;

fn budgets(settings: &[&str]) -> Budgets {
    let mut bounds = Bounds::default();
    for setting in settings {
        bounds.set(setting.parse().unwrap());
    }
    Budgets::new(bounds)
}

/// A node of 64 bytes of answers; a tenant has at most 32, a principal at most 16.
fn small() -> Budgets {
    budgets(&[
        "node-answer-bytes=64",
        "tenant-answer-bytes=64",
        "principal-answer-bytes=64",
        "operators-answer-bytes=8",
    ])
}

fn principal(budgets: &Budgets, tenant: &str, principal: &str, role: TokenRole) -> Arc<Owner> {
    let grant = TokenGrant {
        tenant: tenant.to_owned(),
        role: role.into(),
        principal: principal.to_owned(),
        ..TokenGrant::default()
    };
    let caller = Caller::of_token(Credential::Token(TokenHash::of(principal)), grant);
    budgets.owner(&caller, None)
}

fn reader(budgets: &Budgets, tenant: &str, name: &str) -> Arc<Owner> {
    principal(budgets, tenant, name, TokenRole::Reader)
}

/// Takes one at a time, as much as there is.
fn take_all(budgets: &Budgets, owner: &Arc<Owner>) -> Vec<Charge> {
    std::iter::from_fn(|| budgets.take(owner, BYTES, 1).ok()).collect()
}

#[test]
fn owner_has_at_most_what_it_leaves_free() {
    let budgets = small();
    let greedy = ["a", "b", "c"].map(|tenant| reader(&budgets, tenant, "greedy"));
    let taken: Vec<_> = greedy
        .iter()
        .map(|owner| take_all(&budgets, owner))
        .collect();
    // A principal has half of its tenant's, which has half of what is left of the node's.
    assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16, 8]);
    assert_eq!(budgets.used(OwnerKind::Node, BYTES), 56);
    // Each time some is left for the next.
    let modest = reader(&budgets, "d", "modest");
    assert!(budgets.take(&modest, BYTES, 1).is_ok());
    let full = budgets.take(&greedy[0], BYTES, 1).unwrap_err();
    assert_eq!((full.owner, full.what), (OwnerKind::Principal, BYTES));
    assert_eq!(full.bound(), "principal-answer-bytes");
    drop(taken);
    assert_eq!(budgets.used(OwnerKind::Node, BYTES), 0);
    assert_eq!(budgets.used(OwnerKind::Tenant, BYTES), 0);
}

#[test]
fn principals_of_a_tenant_leave_each_other_room() {
    let budgets = budgets(&["tenant-answer-bytes=32"]);
    let greedy = take_all(&budgets, &reader(&budgets, "a", "greedy"));
    assert_eq!(greedy.len(), 16);
    assert_eq!(
        take_all(&budgets, &reader(&budgets, "a", "modest")).len(),
        8
    );
}

#[test]
fn tenants_take_nothing_of_the_operators_budget() {
    let budgets = small();
    let operator = principal(&budgets, "", "operator", TokenRole::Operator);
    let default = reader(&budgets, crate::limits::TENANT, "greedy");
    let _taken = take_all(&budgets, &default);
    assert_eq!(take_all(&budgets, &operator).len(), 8);
    let stranger = budgets.stranger("127.0.0.1".parse().ok());
    assert!(budgets.take(&stranger, BYTES, 1).is_ok());
}

#[test]
fn strangers_of_one_address_leave_room_for_those_of_another() {
    let budgets = budgets(&[]);
    let place = |from: &str| {
        let stranger = budgets.stranger(Some(from.parse().unwrap()));
        budgets.take(&stranger, What::Streams, 1)
    };
    let bound = budgets.bounds().of(OwnerKind::Stranger, What::Streams);
    let held: Vec<_> = (0..bound).map(|_| place("10.0.0.1").unwrap()).collect();
    let full = place("10.0.0.1").unwrap_err();
    assert_eq!(full.bound(), "stranger-streams");
    assert!(place("10.0.0.2").is_ok());
    // One host has a network of IPv6.
    let same = (0..bound).map(|at| place(&format!("2001:db8::{at:x}")).unwrap());
    let same: Vec<_> = same.collect();
    assert!(place("2001:db8::ffff").is_err() && place("2001:db8:0:1::1").is_ok());
    drop((held, same));
    assert!(place("10.0.0.1").is_ok());
}

#[test]
fn owners_that_hold_nothing_are_forgotten() {
    let budgets = budgets(&[]);
    let kept = reader(&budgets, "kept", "kept");
    let _charge = budgets.take(&kept, BYTES, 7).unwrap();
    for name in 0..5_000 {
        drop(reader(&budgets, &format!("tenant-{name}"), "one"));
    }
    let (tenants, principals) = {
        let state = budgets.lock();
        (state.tenants.len(), state.principals.len())
    };
    assert!(
        tenants <= 2_048 && principals <= 1_024,
        "{tenants}, {principals}"
    );
    assert!(Arc::ptr_eq(&kept, &reader(&budgets, "kept", "kept")));
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_room_until_its_deadline() {
    let budgets = small();
    let owner = reader(&budgets, "a", "one");
    let taken = take_all(&budgets, &owner);
    let until = Instant::now() + Duration::from_secs(5);
    let late = budgets.wait(&owner, BYTES, 4, until).await;
    assert!(late.is_err() && Instant::now() >= until);
    let until = Instant::now() + Duration::from_secs(5);
    let waiting = tokio::spawn({
        let (budgets, owner) = (budgets.clone(), Arc::clone(&owner));
        async move { budgets.wait(&owner, BYTES, 4, until).await }
    });
    tokio::task::yield_now().await;
    drop(taken);
    let mut charge = waiting.await.unwrap().unwrap();
    assert_eq!(budgets.used(OwnerKind::Node, BYTES), 4);
    charge.shrink_to(1);
    assert_eq!(budgets.used(OwnerKind::Node, BYTES), 1);
}

#[tokio::test(start_paused = true)]
async fn owner_that_waits_for_much_holds_up_no_other() {
    let budgets = small();
    let [greedy, modest] = ["a", "b"].map(|tenant| reader(&budgets, tenant, "one"));
    let mut taken = take_all(&budgets, &greedy);
    let _rest = take_all(&budgets, &modest);
    let until = Instant::now() + Duration::from_secs(5);
    let wait = |owner: &Arc<Owner>, amount| {
        let (budgets, owner) = (budgets.clone(), Arc::clone(owner));
        tokio::spawn(async move { budgets.wait(&owner, BYTES, amount, until).await })
    };
    let much = wait(&greedy, 32);
    tokio::task::yield_now().await;
    let little = wait(&modest, 1);
    tokio::task::yield_now().await;
    taken.truncate(8);
    assert!(little.await.unwrap().is_ok());
    assert!(much.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn little_is_left_of_calls_that_give_up_while_another_waits() {
    let budgets = small();
    let owner = reader(&budgets, "a", "one");
    let taken = take_all(&budgets, &owner);
    let far = Instant::now() + Duration::from_secs(60);
    let wait = |until| Box::pin(budgets.wait(&owner, BYTES, 1, until));
    let mut waits = wait(far);
    assert!((&mut waits).now_or_never().is_none());
    for _ in 0..2_000 {
        assert!(wait(Instant::now()).await.is_err());
    }
    assert_eq!(budgets.waiting(BYTES), 1, "late calls do not queue");
    for _ in 0..10_000 {
        assert!(wait(far).now_or_never().is_none(), "there is no room");
    }
    let left = budgets.waiting(BYTES);
    assert!(left < 1_000, "{left}");
    drop(taken);
    assert!(waits.await.is_ok());
    assert_eq!(budgets.waiting(BYTES), 0);
}

#[test]
fn budgets_are_what_is_held_after_any_charges() {
    let steps = vec((0..4_usize, 0..3_usize, 1..20_usize, any::<bool>()), 1..60);
    check(&steps, |steps| {
        let budgets = small();
        let mut held: Vec<Charge> = Vec::new();
        for (tenant, name, amount, gives_back) in steps {
            if gives_back && !held.is_empty() {
                held.swap_remove(amount % held.len());
                continue;
            }
            let owner = reader(&budgets, &format!("t{tenant}"), &format!("p{name}"));
            held.extend(budgets.take(&owner, BYTES, amount));
            let all: usize = held.iter().map(|charge| charge.amount).sum();
            prop_assert_eq!(budgets.used(OwnerKind::Node, BYTES), all);
            prop_assert!(all <= 64);
            prop_assert!(budgets.used(OwnerKind::Tenant, BYTES) <= 32);
        }
        drop(held);
        prop_assert_eq!(budgets.used(OwnerKind::Node, BYTES), 0);
        Ok(())
    });
}
