//! A tenant at a bound: what has expired makes room, its own rows alone, and no more of them than that takes.

use bytes::Bytes;
use helve_machine::{audit, limits, limits::Bounds};
use helve_proto::{
    command::v1::{
        Command, RaiseFeatureLevel, Refusal, command::Operation, outcome::Outcome as Kind,
    },
    v1::{
        BatchStoreRequest, CreateTokenRequest, DeleteRequest, Lifetime, OpenSessionRequest, Quotas,
        SetTenantRequest, StoreItem, StoreRequest, TokenGrant, lifetime::Absolute,
    },
};

use crate::host::{GROUP, Host, START_MS, TENANT, command, request_identity, session_identity};

/// The tables of records, of tokens and of sessions.
const KEYS: u8 = 17;
const SESSIONS: u8 = 24;

struct Tried(Host);

impl Tried {
    fn at_level(level: u32, bounds: Bounds) -> Self {
        let mut tried = Self(Host {
            bounds,
            ..Host::default()
        });
        let raise = RaiseFeatureLevel { level };
        tried.at(0, Operation::RaiseFeatureLevel(raise)).unwrap();
        tried
    }

    fn new(bounds: Bounds) -> Self {
        Self::at_level(limits::FEATURE_LEVEL, bounds)
    }

    fn command(&self, after_ms: u64, operation: Operation) -> Command {
        let mut command = command(START_MS + after_ms, operation);
        command.identity = Some(request_identity(START_MS + after_ms, self.0.index));
        command
    }

    fn apply(&mut self, command: &Command) -> Result<Kind, Refusal> {
        let outcome = self.0.apply(command).outcome.unwrap();
        assert_eq!(
            audit(&self.0.rows, GROUP).map_err(|f| f.to_string()),
            Ok(())
        );
        match outcome {
            Kind::Refused(refused) => Err(refused.refusal()),
            other => Ok(other),
        }
    }

    fn at(&mut self, after_ms: u64, operation: Operation) -> Result<Kind, Refusal> {
        self.apply(&self.command(after_ms, operation))
    }

    fn of(&mut self, tenant: &str, after_ms: u64, operation: Operation) -> Result<Kind, Refusal> {
        let mut command = self.command(after_ms, operation);
        tenant.clone_into(&mut command.tenant);
        self.apply(&command)
    }

    /// Asks again until room is made; how many times it was said that there is none yet.
    fn patiently(&mut self, command: &Command) -> (u32, Result<Kind, Refusal>) {
        let mut refused = 0;
        loop {
            match self.apply(command) {
                Err(Refusal::Clearing) if refused < 10_000 => refused += 1,
                other => return (refused, other),
            }
        }
    }

    fn rows(&self, tenant: &str, table: u8) -> usize {
        let prefix = [
            &GROUP.to_be_bytes()[..],
            &[u8::try_from(tenant.len()).unwrap()],
            tenant.as_bytes(),
            &[table],
        ]
        .concat();
        let keys = self.0.rows.0.keys();
        keys.filter(|key| key.starts_with(&prefix)).count()
    }
}

fn quota(rows: u64, bytes: u64) -> Operation {
    Operation::SetTenant(SetTenantRequest {
        tenant: TENANT.to_owned(),
        quotas: Some(Quotas {
            rows,
            bytes,
            writes_per_second: 0,
        }),
        ..SetTenantRequest::default()
    })
}

fn ttl(ms: u64) -> Option<Lifetime> {
    Some(Lifetime {
        absolute: Some(Absolute::AfterMs(ms)),
        idle_ttl_ms: None,
    })
}

fn store(key: &str, ttl_ms: Option<u64>, bytes: usize) -> Operation {
    Operation::Store(StoreRequest {
        key: key.to_owned(),
        value: vec![7; bytes].into(),
        lifetime: ttl_ms.and_then(ttl),
        ..StoreRequest::default()
    })
}

#[test]
fn what_has_expired_is_no_reason_for_quota_and_goes_only_as_needed() {
    let mut tried = Tried::new(Bounds::REPLICATED);
    tried.at(0, quota(3, 0)).unwrap();
    for key in ["a", "b", "c"] {
        tried.at(0, store(key, Some(1000), 1)).unwrap();
    }
    assert_eq!(tried.at(999, store("d", None, 1)), Err(Refusal::Quota));
    tried.at(1000, store("d", None, 1)).unwrap();
    assert_eq!(
        tried.rows(TENANT, KEYS),
        3,
        "one goes for the one that came"
    );
    tried.at(1000, store("b", None, 1)).unwrap();
    tried.at(1000, store("e", None, 1)).unwrap();
    assert_eq!(tried.at(1000, store("f", None, 1)), Err(Refusal::Quota));
    assert_eq!(tried.rows(TENANT, KEYS), 3);
}

#[test]
fn a_quota_that_is_not_reached_removes_nothing_on_the_way() {
    for (level, left) in [(4, 1), (limits::FEATURE_LEVEL, 51)] {
        let mut tried = Tried::at_level(level, Bounds::REPLICATED);
        tried.at(0, quota(1_000_000, 1 << 40)).unwrap();
        for number in 0..50 {
            tried
                .at(0, store(&number.to_string(), Some(1000), 1))
                .unwrap();
        }
        tried.at(1000, store("new", None, 1)).unwrap();
        assert_eq!(tried.rows(TENANT, KEYS), left, "level {level}");
    }
}

#[test]
fn a_full_transaction_replaces_as_many_rows_as_have_expired() {
    let mut tried = Tried::new(Bounds::REPLICATED);
    let items = |from: usize, lifetime: Option<Lifetime>| {
        let item = |number: usize| StoreItem {
            key: number.to_string(),
            lifetime,
            ..StoreItem::default()
        };
        let items = (from..from + limits::TRANSACTION_OPERATIONS_MAX).map(item);
        Operation::BatchStore(BatchStoreRequest {
            items: items.collect(),
            ..BatchStoreRequest::default()
        })
    };
    tried
        .at(0, quota(limits::TRANSACTION_OPERATIONS_MAX as u64, 0))
        .unwrap();
    tried.at(0, items(0, ttl(1000))).unwrap();
    assert_eq!(tried.at(999, items(1000, None)), Err(Refusal::Quota));
    tried.at(1000, items(1000, None)).unwrap();
    assert_eq!(tried.at(1000, items(2000, None)), Err(Refusal::Quota));
}

/// The bounds of one command are lowered, so that a few rows are more than it may look at.
#[test]
fn a_storm_of_others_is_passed_by_and_never_called_a_quota() {
    let bounds = Bounds {
        room_rows_max: 2,
        room_looks_max: 3,
        ..Bounds::REPLICATED
    };
    let mut tried = Tried::new(bounds);
    tried.at(0, quota(2, 0)).unwrap();
    for number in 0..40 {
        let key = number.to_string();
        tried
            .of("other", 0, store(&key, Some(100 + number), 1))
            .unwrap();
    }
    for key in ["a", "b"] {
        tried.at(0, store(key, Some(1000), 1)).unwrap();
    }
    let new = tried.command(2000, store("c", None, 1));
    let (refused, stored) = tried.patiently(&new);
    assert!(refused > 0 && refused <= 40, "{refused}");
    let Ok(Kind::Store(first)) = stored else {
        panic!("{stored:?}");
    };
    let Ok(Kind::Store(again)) = tried.apply(&new) else {
        panic!("a repeat of what was stored");
    };
    assert_eq!(first, again, "what was not kept as refused is kept now");
    assert_eq!(
        tried.rows("other", KEYS),
        40,
        "others' rows are left to Ticks"
    );
    // The way is known by now, also to what is due before.
    tried.at(2000, store("d", None, 1)).unwrap();
    assert_eq!(tried.at(2000, store("e", None, 1)), Err(Refusal::Quota));
}

#[test]
fn bytes_of_many_small_rows_make_room_for_a_large_one() {
    let bounds = Bounds {
        room_rows_max: 3,
        ..Bounds::REPLICATED
    };
    let mut tried = Tried::new(bounds);
    for number in 0..30 {
        tried
            .at(0, store(&number.to_string(), Some(1000), 100))
            .unwrap();
    }
    tried.at(0, quota(0, 9_000)).unwrap();
    let large = |key: &str| store(key, None, 5_000);
    assert_eq!(tried.at(999, large("early")), Err(Refusal::Quota));
    let command = tried.command(2000, large("large"));
    let (refused, stored) = tried.patiently(&command);
    assert!(refused > 0 && stored.is_ok(), "{refused} {stored:?}");
    // Outcomes of request ids count as well, and are due after ten minutes.
    let late = tried.command(2 * limits::REQUEST_TTL_MS, large("large"));
    assert!(tried.patiently(&late).1.is_ok());
    let more = tried.command(2 * limits::REQUEST_TTL_MS, large("more"));
    assert_eq!(tried.patiently(&more).1, Err(Refusal::Quota));
}

fn open(number: u8) -> Operation {
    Operation::OpenSession(OpenSessionRequest {
        session_id: Bytes::copy_from_slice(&[number; limits::IDENTITY_BYTES]),
    })
}

#[test]
fn sessions_that_have_expired_make_room_for_others() {
    let bounds = Bounds {
        sessions_max: 2,
        principal_sessions_min: 0,
        room_rows_max: 2,
        ..Bounds::REPLICATED
    };
    let mut tried = Tried::new(bounds);
    tried.at(0, open(1)).unwrap();
    tried.at(0, open(2)).unwrap();
    for seq in 1..=5 {
        let session_id = Bytes::copy_from_slice(&[1; limits::IDENTITY_BYTES]);
        let mut call = tried.command(0, Operation::Delete(DeleteRequest::default()));
        call.identity = Some(session_identity(&session_id, seq, 1));
        tried.apply(&call).unwrap();
    }
    assert_eq!(tried.at(0, open(3)), Err(Refusal::Quota));
    let late_ms = limits::SESSION_IDLE_TTL_MS + limits::SESSION_SLACK_MS;
    let third = tried.command(late_ms, open(3));
    let (refused, opened) = tried.patiently(&third);
    assert!(opened.is_ok() && (1..=3).contains(&refused), "{refused}");
    assert_eq!(tried.rows(TENANT, SESSIONS), 2);
    tried.at(late_ms, open(4)).unwrap();
    assert_eq!(tried.at(late_ms, open(5)), Err(Refusal::Quota));
}

#[test]
fn tokens_that_have_expired_make_room_for_others() {
    let bounds = Bounds {
        tokens_max: 2,
        ..Bounds::REPLICATED
    };
    let token = |number: u8, expires_after_ms| {
        Operation::CreateToken(CreateTokenRequest {
            token_hash: Bytes::copy_from_slice(&[number; limits::TOKEN_HASH_BYTES]),
            grant: Some(TokenGrant {
                tenant: TENANT.to_owned(),
                ..TokenGrant::default()
            }),
            expires_after_ms,
            ..CreateTokenRequest::default()
        })
    };
    let mut tried = Tried::new(bounds);
    tried.at(0, token(1, None)).unwrap();
    tried.at(0, token(2, Some(1000))).unwrap();
    assert_eq!(tried.at(999, token(3, None)), Err(Refusal::Quota));
    tried.at(1000, token(3, None)).unwrap();
    assert_eq!(tried.at(1000, token(4, None)), Err(Refusal::Quota));
}
