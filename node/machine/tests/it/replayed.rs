//! What entries of older feature levels come to: the very rows and outcomes that older versions made of them.

use bytes::Bytes;
use helve_machine::limits;
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, Tick, command::Operation},
    v1::{
        CreateTokenRequest, DeleteRequest, Lifetime, MintOperation, OpenSessionRequest,
        Operation as Part, PutOperation, PutRequest, Quotas, RenewRequest, RevokeTokenRequest,
        SetTenantRequest, StoreRequest, TakeOperation, TakeRequest, TokenGrant, TransactRequest,
        Unit, lifetime::Absolute, operation,
    },
};
use prost::Message;

use crate::host::{Host, START_MS, command, request_identity, session_identity, stamp_minted_ids};

const STEPS: u64 = 6_000;

/// What the last version before feature level 5 made of the commands below, at each of its levels.
const SUMS: [(u32, u64); 4] = [
    (1, 0x009c_6194_14e0_ac2e),
    (2, 0x57ca_4682_a6eb_5c7d),
    (3, 0x35c7_1f23_bcdf_106a),
    (4, 0xb5ea_a9ed_7179_8271),
];

/// The generator `SplitMix64`: the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn lifetime(&mut self) -> Option<Lifetime> {
        let absolute = match self.below(4) {
            0 => Absolute::Never(Unit {}),
            1 => Absolute::Keep(Unit {}),
            _ => Absolute::AfterMs(1 + self.below(200_000)),
        };
        let idle_ttl_ms = (self.below(3) == 0).then(|| 1 + self.below(90_000));
        Some(Lifetime {
            absolute: Some(absolute),
            idle_ttl_ms,
        })
    }

    fn value(&mut self) -> Bytes {
        let bytes = self.below(40);
        Bytes::from(vec![7; usize::try_from(bytes).unwrap()])
    }

    fn id(&mut self) -> String {
        self.below(9).to_string()
    }

    fn part(&mut self) -> Part {
        use operation::Operation as Op;
        let (store, id, value, lifetime) =
            ("cart".into(), self.id(), self.value(), self.lifetime());
        let operation = match self.below(3) {
            0 => Op::Put(PutOperation {
                store,
                id,
                value,
                lifetime,
                ..PutOperation::default()
            }),
            1 => Op::Take(TakeOperation {
                store,
                id,
                ..TakeOperation::default()
            }),
            _ => Op::Mint(MintOperation {
                store,
                value,
                lifetime,
                ..MintOperation::default()
            }),
        };
        Part {
            operation: Some(operation),
        }
    }

    fn operation(&mut self) -> Operation {
        let (store, id, value, lifetime) =
            ("cart".into(), self.id(), self.value(), self.lifetime());
        let hash = vec![u8::try_from(self.below(4)).unwrap(); limits::TOKEN_HASH_BYTES];
        let hash = Bytes::from(hash);
        match self.below(20) {
            0..5 => Operation::Put(PutRequest {
                store,
                id,
                value,
                lifetime,
                ..PutRequest::default()
            }),
            5..8 => Operation::Store(StoreRequest {
                key: id,
                value,
                lifetime,
                ..StoreRequest::default()
            }),
            8..10 => Operation::Take(TakeRequest {
                store,
                id,
                ..TakeRequest::default()
            }),
            10 => Operation::Delete(DeleteRequest {
                store,
                id,
                ..DeleteRequest::default()
            }),
            11 => Operation::Renew(RenewRequest {
                store,
                id,
                lifetime,
                ..RenewRequest::default()
            }),
            12..15 => Operation::Transact(TransactRequest {
                identity: None,
                operations: (0..=self.below(3)).map(|_| self.part()).collect(),
            }),
            15 => Operation::OpenSession(OpenSessionRequest {
                session_id: session_id(self.below(3)),
            }),
            16 => Operation::SetTenant(SetTenantRequest {
                tenant: "default".into(),
                quotas: Some(Quotas {
                    rows: self.below(12),
                    bytes: self.below(3) * 4_000,
                    writes_per_second: 0,
                }),
                ..SetTenantRequest::default()
            }),
            17 => Operation::CreateToken(CreateTokenRequest {
                token_hash: hash,
                grant: Some(TokenGrant {
                    tenant: "default".into(),
                    ..TokenGrant::default()
                }),
                expires_after_ms: (self.below(2) == 0).then(|| 1 + self.below(900_000)),
                ..CreateTokenRequest::default()
            }),
            18 => Operation::RevokeToken(RevokeTokenRequest {
                tenant: "default".into(),
                token_hash: hash,
                ..RevokeTokenRequest::default()
            }),
            _ => Operation::Tick(Tick {
                rows_max: u32::try_from(self.below(6)).unwrap(),
            }),
        }
    }
}

fn session_id(number: u64) -> Bytes {
    let number = u8::try_from(number).unwrap();
    Bytes::from(vec![number; limits::IDENTITY_BYTES])
}

/// The commands of a level: operations of all kinds, by calls of both identities, some of them repeated or stale.
fn commands(level: u32) -> Vec<Command> {
    let mut numbers = Numbers(level.into());
    let raise = RaiseFeatureLevel { level };
    let mut commands = vec![command(START_MS, Operation::RaiseFeatureLevel(raise))];
    let mut stamp_ms = START_MS;
    for step in 0..STEPS {
        stamp_ms += match numbers.below(40) {
            0 => numbers.below(90_000_000),
            1..6 => numbers.below(700_000),
            _ => numbers.below(3_000),
        };
        let mut command = command(stamp_ms, numbers.operation());
        command.fingerprint = Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]);
        command.identity = Some(match numbers.below(3) {
            0 => {
                let first = 1 + step / 50 + numbers.below(8);
                session_identity(
                    &session_id(numbers.below(3)),
                    first + numbers.below(8),
                    first,
                )
            }
            _ => {
                let back = numbers.below(30);
                request_identity(stamp_ms - back * 1000, numbers.below(2))
            }
        });
        stamp_minted_ids(&mut command, step);
        commands.push(command);
    }
    commands
}

/// FNV-1a over all outcomes and then all rows.
fn sum(level: u32) -> u64 {
    let mut host = Host::default();
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        let length = (bytes.len() as u64).to_be_bytes();
        for byte in length.iter().chain(bytes) {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for command in commands(level) {
        add(&host.apply(&command).encode_to_vec());
    }
    for (key, value) in &host.rows.0 {
        add(key);
        add(value);
    }
    assert_eq!(host.repairs, 0);
    sum
}

#[test]
fn entries_of_older_levels_come_to_what_they_always_did() {
    assert_eq!(SUMS, SUMS.map(|(level, _)| (level, sum(level))));
}
