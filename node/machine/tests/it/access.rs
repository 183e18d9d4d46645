//! Tokens and tenants.

use bytes::Bytes;
use helve_machine::{
    audit, check, granted, is_guarded, level, limits,
    query::{list_tenants, list_tokens},
    quotas,
};
use helve_proto::{
    command::v1::{
        Command, RaiseFeatureLevel, Refusal, command::Operation, outcome::Outcome as Kind,
    },
    v1::{
        CreateTokenRequest, ListTenantsRequest, ListTokensRequest, PutRequest, Quotas,
        RevokeTokenRequest, SetTenantRequest, TokenGrant, TokenInfo, TokenRole,
    },
};

use crate::host::{GROUP, Host, START_MS, command, request_identity};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn hash(number: u8) -> [u8; 32] {
    [number; 32]
}

fn grant(tenant: &str, role: TokenRole) -> TokenGrant {
    TokenGrant {
        tenant: tenant.to_owned(),
        role: role.into(),
        principal: "shop".to_owned(),
        ..TokenGrant::default()
    }
}

fn create(number: u8, tenant: &str, expires_after_ms: Option<u64>) -> Operation {
    Operation::CreateToken(CreateTokenRequest {
        token_hash: Bytes::copy_from_slice(&hash(number)),
        grant: Some(grant(tenant, TokenRole::Writer)),
        expires_after_ms,
        ..Default::default()
    })
}

fn revoke(number: u8, tenant: &str) -> Operation {
    Operation::RevokeToken(RevokeTokenRequest {
        tenant: tenant.to_owned(),
        token_hash: Bytes::copy_from_slice(&hash(number)),
        ..Default::default()
    })
}

fn set_tenant(tenant: &str, quotas: Option<Quotas>) -> Operation {
    Operation::SetTenant(SetTenantRequest {
        tenant: tenant.to_owned(),
        quotas,
        ..Default::default()
    })
}

/// A host whose level knows tokens.
struct Tried(Host);

impl Tried {
    fn new() -> Self {
        Self::of_level(2)
    }

    fn of_level(level: u32) -> Self {
        let mut host = Host::default();
        let raise = RaiseFeatureLevel { level };
        host.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
        Self(host)
    }

    /// The outcome of an operation this long after the start, and that the rows agree after it.
    fn at(&mut self, after_ms: u64, operation: Operation) -> Kind {
        let command = command(START_MS + after_ms, operation);
        check(&command).unwrap();
        let outcome = self.0.apply(&command);
        audit(&self.0.rows, GROUP).unwrap();
        outcome.outcome.unwrap()
    }

    /// The outcome of an operation under an identity, as it is proposed where all versions honour
    /// that.
    fn identified(&mut self, (after_ms, number): (u64, u64), operation: Operation) -> Kind {
        let mut command = command(START_MS + after_ms, operation);
        command.feature_level = level::MENDED;
        command.identity = Some(request_identity(START_MS, number));
        command.fingerprint = Bytes::from(vec![number as u8; limits::FINGERPRINT_BYTES]);
        check(&command).unwrap();
        // Where the operators' outcomes are kept.
        command.tenant.clear();
        let outcome = self.0.apply(&command);
        audit(&self.0.rows, GROUP).unwrap();
        outcome.outcome.unwrap()
    }

    fn refusal(&mut self, after_ms: u64, operation: Operation) -> Option<Refusal> {
        match self.at(after_ms, operation) {
            Kind::Refused(refused) => Some(refused.refusal()),
            _ => None,
        }
    }

    fn existed(&mut self, after_ms: u64, operation: Operation) -> bool {
        match self.at(after_ms, operation) {
            Kind::RevokeToken(reply) => reply.existed,
            other => panic!("a revocation came to {other:?}"),
        }
    }

    fn is_in(&self, number: u8) -> bool {
        granted(&self.0.rows, GROUP, &hash(number))
            .unwrap()
            .is_some()
    }

    fn listed(&mut self, after_ms: u64, tenant: &str) -> Vec<TokenInfo> {
        let request = ListTokensRequest {
            tenant: tenant.to_owned(),
        };
        let reply = self.0.read(START_MS + after_ms, |rows, scope| {
            list_tokens(rows, scope, &request)
        });
        reply.tokens
    }
}

#[test]
fn a_token_is_in_from_its_creation_to_its_revocation_and_never_again() {
    let mut tried = Tried::new();
    assert!(!tried.is_in(1));
    assert_eq!(tried.refusal(0, create(1, "default", None)), None);
    assert!(tried.is_in(1) && !tried.is_in(2));
    let again = tried.at(5, create(1, "default", None));
    let Kind::CreateToken(reply) = again else {
        panic!("a repeat came to {again:?}");
    };
    assert_eq!(reply.token.unwrap().created_at_ms, START_MS);
    assert!(!tried.existed(5, revoke(1, "acme")), "another tenant's");
    assert!(tried.is_in(1));
    assert!(tried.existed(6, revoke(1, "default")));
    assert!(!tried.is_in(1));
    assert!(!tried.existed(7, revoke(1, "default")));
    let late = tried.refusal(DAY_MS, create(1, "default", None));
    assert_eq!(
        late,
        Some(Refusal::TokenExists),
        "a late retry of its creation"
    );
    assert_eq!(
        tried.listed(DAY_MS, "default")[0].revoked_at_ms,
        Some(START_MS + 6)
    );
    tried.0.tick(START_MS + DAY_MS + 6, 100);
    assert_eq!(tried.listed(DAY_MS + 6, "default"), []);
    audit(&tried.0.rows, GROUP).unwrap();
}

#[test]
fn a_token_expires_by_the_replicated_clock_whether_its_row_was_removed_or_not() {
    for rows_max in [0, 100] {
        let mut tried = Tried::new();
        tried.at(0, create(1, "default", Some(1000)));
        tried.0.tick(START_MS + 999, rows_max);
        assert!(tried.is_in(1));
        tried.0.tick(START_MS + 1000, rows_max);
        assert!(!tried.is_in(1));
        assert_eq!(tried.listed(1000, "default"), []);
        assert!(!tried.existed(1000, revoke(1, "default")));
        let again = tried.refusal(1000, create(1, "default", None));
        assert_eq!((again, tried.is_in(1)), (None, true));
    }
}

#[test]
fn a_token_needs_a_tenant_and_is_listed_for_it_alone() {
    let mut tried = Tried::new();
    assert_eq!(
        tried.refusal(0, create(1, "acme", None)),
        Some(Refusal::NoTenant)
    );
    tried.at(0, set_tenant("acme", None));
    assert_eq!(tried.refusal(0, create(1, "acme", None)), None);
    let operator = Operation::CreateToken(CreateTokenRequest {
        token_hash: Bytes::copy_from_slice(&hash(2)),
        grant: Some(grant("", TokenRole::Operator)),
        expires_after_ms: None,
        ..Default::default()
    });
    tried.at(0, operator);
    let found = granted(&tried.0.rows, GROUP, &hash(1)).unwrap();
    assert_eq!(found, Some(grant("acme", TokenRole::Writer)));
    let mut count = |tenant| tried.listed(0, tenant).len();
    assert_eq!([count("acme"), count(""), count("default")], [1, 1, 0]);
    let other = Operation::CreateToken(CreateTokenRequest {
        token_hash: Bytes::copy_from_slice(&hash(1)),
        grant: Some(grant("acme", TokenRole::Admin)),
        expires_after_ms: None,
        ..Default::default()
    });
    assert_eq!(tried.refusal(0, other), Some(Refusal::TokenExists));
}

#[test]
fn tokens_of_a_tenant_are_bounded_and_revoked_ones_count_for_a_day() {
    let mut tried = Tried::new();
    let numbered = |number: usize| {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&(number as u64).to_be_bytes());
        Operation::CreateToken(CreateTokenRequest {
            token_hash: Bytes::copy_from_slice(&hash),
            grant: Some(grant("default", TokenRole::Reader)),
            expires_after_ms: None,
            ..Default::default()
        })
    };
    let all: Vec<Command> = (0..limits::TOKENS_MAX)
        .map(|number| command(START_MS, numbered(number)))
        .collect();
    tried.0.apply_all(&all);
    let more = numbered(limits::TOKENS_MAX);
    assert_eq!(tried.refusal(0, more.clone()), Some(Refusal::Quota));
    let first = Operation::RevokeToken(RevokeTokenRequest {
        tenant: "default".into(),
        token_hash: Bytes::from_static(&[0; 32]),
        ..Default::default()
    });
    assert!(tried.existed(0, first));
    assert_eq!(tried.refusal(1, more.clone()), Some(Refusal::Quota));
    tried.0.tick(START_MS + DAY_MS, 10);
    assert_eq!(tried.refusal(DAY_MS, more), None);
}

#[test]
fn tenants_are_listed_with_their_quotas_and_what_they_use() {
    let mut tried = Tried::new();
    let quotas = Quotas {
        rows: 5,
        bytes: 0,
        writes_per_second: 9,
    };
    tried.at(3, set_tenant("acme", Some(quotas)));
    tried.at(4, set_tenant("acme", None));
    let mut put = command(
        START_MS + 4,
        Operation::Put(PutRequest {
            store: "cart".into(),
            id: "a".into(),
            ..PutRequest::default()
        }),
    );
    put.tenant = "acme".into();
    put.identity = Some(request_identity(START_MS, 1));
    tried.0.apply(&put);
    let mut list = |tenant: &str| {
        let request = ListTenantsRequest {
            tenant: tenant.to_owned(),
        };
        let answered = tried.0.read(START_MS + 4, |rows, scope| {
            list_tenants(rows, scope, &request)
        });
        answered.tenants
    };
    assert_eq!(list("none"), []);
    let names: Vec<_> = list("").into_iter().map(|info| info.tenant).collect();
    assert_eq!(names, ["default", "acme"]);
    let [acme] = list("acme").try_into().unwrap();
    assert_eq!(
        (acme.quotas, acme.created_at_ms),
        (Some(quotas), START_MS + 3)
    );
    assert_eq!(acme.usage.unwrap().rows, 1);
}

#[test]
fn a_late_duplicate_of_old_quotas_does_not_revert_newer_ones() {
    let rows = |rows| {
        let quotas = Quotas {
            rows,
            ..Quotas::default()
        };
        set_tenant("acme", Some(quotas))
    };
    let now = |tried: &Tried| quotas(&tried.0.rows, GROUP, "acme").unwrap().rows;
    let mut tried = Tried::of_level(level::MENDED);
    let first = tried.identified((0, 1), rows(1));
    tried.identified((1, 2), rows(2));
    assert_eq!(tried.identified((2, 1), rows(1)), first);
    assert_eq!(now(&tried), 2);
    // Below that level, commands in a log mean what they always did.
    let mut tried = Tried::of_level(level::MENDED - 1);
    for after in [1, 2, 1] {
        tried.at(after, rows(after));
    }
    assert_eq!(now(&tried), 1);
}

#[test]
fn a_late_duplicate_of_a_tokens_creation_does_not_let_it_in_again() {
    let mut tried = Tried::of_level(level::MENDED);
    let first = tried.identified((0, 1), create(1, "default", Some(1_000)));
    assert!(tried.is_in(1));
    tried.identified((2_000, 2), set_tenant("acme", None));
    assert!(!tried.is_in(1), "it has expired");
    let again = tried.identified((3_000, 1), create(1, "default", Some(1_000)));
    assert_eq!(again, first);
    assert!(!tried.is_in(1));
}

#[test]
fn a_late_duplicate_of_a_revocation_is_answered_as_first_or_refused() {
    let mut tried = Tried::of_level(level::MENDED);
    tried.identified((0, 1), create(1, "default", Some(1_000)));
    let first = tried.identified((1, 2), revoke(1, "default"));
    let after_a_day = DAY_MS + 1_000;
    // Request ids are kept for ten minutes: beyond that, a duplicate is refused.
    let late = tried.identified((after_a_day, 2), revoke(1, "default"));
    assert!(matches!(late, Kind::Refused(_)), "{late:?}");
    let mut tried = Tried::of_level(level::MENDED);
    tried.identified((0, 1), create(1, "default", Some(1_000)));
    assert_eq!(tried.identified((1, 2), revoke(1, "default")), first);
    assert_eq!(tried.identified((2, 2), revoke(1, "default")), first);
    assert!(matches!(first, Kind::RevokeToken(reply) if reply.existed));
}

#[test]
fn an_administrative_command_of_the_newest_level_needs_an_identity() {
    let mut tried = Tried::of_level(level::MENDED);
    for operation in [
        create(1, "default", None),
        revoke(1, "default"),
        set_tenant("acme", None),
    ] {
        let mut bare = command(START_MS, operation);
        bare.feature_level = level::MENDED;
        assert!(check(&bare).is_err());
        let outcome = tried.0.apply(&bare).outcome;
        assert!(matches!(outcome, Some(Kind::Refused(_))), "{outcome:?}");
    }
}

#[test]
fn a_token_that_is_malformed_is_not_proposed() {
    let good = CreateTokenRequest {
        token_hash: Bytes::copy_from_slice(&hash(1)),
        grant: Some(grant("default", TokenRole::Writer)),
        expires_after_ms: Some(1),
        ..Default::default()
    };
    let with = |change: fn(&mut CreateTokenRequest, &mut TokenGrant)| {
        let mut request = good.clone();
        let mut grant = request.grant.take().unwrap();
        change(&mut request, &mut grant);
        request.grant = Some(grant);
        check(&command(START_MS, Operation::CreateToken(request)))
    };
    assert_eq!(with(|_, _| {}), Ok(()));
    let table: [fn(&mut CreateTokenRequest, &mut TokenGrant); 13] = [
        |request, _| request.token_hash = Bytes::from_static(&[1; 31]),
        |request, _| request.expires_after_ms = Some(0),
        |_, grant| grant.tenant = String::new(),
        |_, grant| grant.tenant = "ACME".into(),
        |_, grant| grant.principal = String::new(),
        |_, grant| grant.principal = "p".repeat(limits::OWNER_BYTES_MAX + 1),
        |_, grant| grant.role = 0,
        |_, grant| grant.role = 99,
        |_, grant| grant.role = TokenRole::Operator.into(),
        |_, grant| grant.stores = vec!["a b".into()],
        |_, grant| grant.stores = vec!["a".into(); limits::TOKEN_SCOPES_MAX + 1],
        |_, grant| grant.key_prefixes = vec![String::new()],
        |_, grant| {
            grant.role = TokenRole::Admin.into();
            grant.stores = vec!["a".into()];
        },
    ];
    for (row, change) in table.into_iter().enumerate() {
        assert!(with(change).is_err(), "row {row}");
    }
}

#[test]
fn rows_are_guarded_from_the_first_token_or_tenant_on_but_not_by_quotas_of_the_default_one() {
    let is_guarded = |tried: &Tried| is_guarded(&tried.0.rows, GROUP).unwrap();
    let mut tried = Tried::new();
    tried.at(
        0,
        set_tenant(limits::DEFAULT_TENANT, Some(Quotas::default())),
    );
    assert!(!is_guarded(&tried));
    tried.at(0, set_tenant("zeta", None));
    assert!(is_guarded(&tried));
    let mut tried = Tried::new();
    tried.at(0, create(1, limits::DEFAULT_TENANT, Some(9)));
    assert!(is_guarded(&tried));
    tried.at(10, set_tenant(limits::DEFAULT_TENANT, None));
    assert!(!is_guarded(&tried), "the only token has expired");
}
