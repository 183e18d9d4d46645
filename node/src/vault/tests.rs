//! Tests of sealing and opening, and of what a node refuses.

use helve_machine::limits;
use helve_proto::{
    command::v1::{Command, command::Operation},
    v1::{
        BatchRetrieveReply, BatchStoreRequest, Committed, GetReply, KeyRecord, MintOperation,
        MintRequest, Operation as Part, OperationReply, RecordInfo, RetrieveReply, RetrievedKey,
        StoreItem, StoreRequest, TransactReply, TransactRequest, operation, transact_reply,
    },
};
use helve_seal::{Keyring, SEAL_BYTES, Secret};
use proptest::prelude::*;

use super::*;

mod change;
mod plain;

fn ring(bytes: &[u8]) -> Keyring {
    let secrets: Vec<Secret> = bytes
        .iter()
        .map(|byte| Secret::new([*byte; 32]).unwrap())
        .collect();
    Keyring::new(&secrets, PURPOSE).unwrap()
}

/// Of a cluster that seals under the key of this number, and has nothing left to seal again.
fn row(ring: &Keyring, key: usize) -> SealingRow {
    let key = ring.find(ring.ids()[key]).unwrap();
    let key_id = Bytes::copy_from_slice(key.id().bytes());
    SealingRow {
        key_id: key_id.clone(),
        secret: key.seal(&[9; 28], &SECRET_PLACE, &[5; 32]).into(),
        secret_key_id: key_id,
        index: 3,
        done: true,
        ..SealingRow::default()
    }
}

/// A node with keys of these bytes, in a cluster that seals under the one of this number.
fn vault(bytes: &[u8], key: usize) -> Arc<Vault> {
    let vault = Vault::new(KeyFiles::none(), ring(bytes));
    vault.learn(Some(row(&ring(bytes), key))).unwrap();
    vault
}

fn command(operation: Operation) -> Command {
    Command {
        tenant: "default".into(),
        operation: Some(operation),
        minted_ids: vec!["ONE".into(), "TWO".into()],
        ..Command::default()
    }
}

/// A minted value as it is stored under its handle once it is sealed.
fn minted(vault: &Vault, value: &[u8]) -> GetReply {
    let command = command(Operation::Mint(MintRequest {
        store: "carts".into(),
        owner: "ada".into(),
        id_prefix: "cart".into(),
        value: Bytes::copy_from_slice(value),
        ..MintRequest::default()
    }));
    let command = vault.sealed(&command).unwrap().unwrap();
    let Some(Operation::Mint(request)) = command.operation else {
        panic!("not a mint")
    };
    GetReply {
        info: Some(RecordInfo {
            name: "cart-ONE".into(),
            owner: "ada".into(),
            sealed_under: command.sealed_under,
            ..RecordInfo::default()
        }),
        value: request.value,
        ..GetReply::default()
    }
}

fn open(vault: &Vault, mut reply: GetReply) -> Result<GetReply, OpenError> {
    vault.open(&mut reply, |_| Asked::Values, "default", |_| Some("carts"))?;
    Ok(reply)
}

proptest! {
    #[test]
    fn what_one_node_seals_another_opens_and_a_changed_bit_is_an_error(
        value in proptest::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let sealed = minted(&vault(&[1, 2], 1), &value);
        prop_assert_eq!(sealed.value.len(), value.len() + SEAL_BYTES);
        let opened = open(&vault(&[2], 0), sealed.clone()).unwrap();
        prop_assert_eq!(&opened.value[..], &value[..]);
        prop_assert!(opened.info.unwrap().sealed_under.is_empty());
        let mut changed = sealed.value.to_vec();
        changed[at.index(sealed.value.len())] ^= 1 << bit;
        let changed = GetReply { value: changed.into(), ..sealed };
        let is_damaged = matches!(open(&vault(&[2], 0), changed), Err(OpenError::Damaged { .. }));
        prop_assert!(is_damaged, "a changed bit opens");
    }
}

#[test]
fn the_machine_and_the_seal_agree_on_what_sealing_adds() {
    assert_eq!(SEAL_BYTES, limits::SEAL_BYTES);
    assert_eq!(helve_seal::KEY_ID_BYTES, limits::SEALING_KEY_ID_BYTES);
}

#[test]
fn a_value_that_was_moved_or_emptied_or_whose_key_is_gone_is_an_error() {
    let vault = vault(&[1], 0);
    let sealed = minted(&vault, b"tea");
    for (name, owner) in [("cart-TWO", "ada"), ("cart-ONE", "bob")] {
        let mut moved = sealed.clone();
        let info = moved.info.as_mut().unwrap();
        (info.name, info.owner) = (name.into(), owner.into());
        assert!(
            matches!(open(&vault, moved), Err(OpenError::Damaged { .. })),
            "{name} {owner}"
        );
    }
    let mut elsewhere = sealed.clone();
    let error = vault.open(
        &mut elsewhere,
        |_| Asked::Values,
        "default",
        |_| Some("orders"),
    );
    assert!(matches!(error, Err(OpenError::Damaged { .. })));
    let mut foreign = sealed.clone();
    let error = vault.open(&mut foreign, |_| Asked::Values, "other", |_| Some("carts"));
    assert!(matches!(error, Err(OpenError::Damaged { .. })));
    let emptied = GetReply {
        value: Bytes::new(),
        ..sealed.clone()
    };
    assert!(matches!(
        open(&vault, emptied),
        Err(OpenError::Damaged { .. })
    ));
    let error = open(&self::vault(&[2], 0), sealed).unwrap_err();
    assert!(matches!(error, OpenError::NoKey { .. }), "{error}");
}

#[test]
fn what_a_transaction_took_is_an_error_if_it_was_emptied_and_what_it_wrote_is_not() {
    let vault = vault(&[1], 0);
    let sealed = minted(&vault, b"tea");
    let replies = |value: &Bytes| {
        let part = |value: &Bytes| OperationReply {
            info: sealed.info.clone(),
            value: value.clone(),
            ..OperationReply::default()
        };
        let replies = vec![part(&Bytes::new()), part(value)];
        TransactReply {
            result: Some(transact_reply::Result::Committed(Committed { replies })),
            ..TransactReply::default()
        }
    };
    let asked = |at| if at == 1 { Asked::Values } else { Asked::Names };
    let open = |value| vault.open(&mut replies(value), asked, "default", |_| Some("carts"));
    assert_eq!(open(&sealed.value), Ok(()));
    let emptied = open(&Bytes::new());
    assert!(
        matches!(emptied, Err(OpenError::Damaged { .. })),
        "{emptied:?}"
    );
}

#[test]
fn a_keys_value_opens_for_its_tenant_and_its_owner_alone() {
    let vault = vault(&[1], 0);
    let store = command(Operation::Store(StoreRequest {
        owner: "ada".into(),
        key: "a".into(),
        value: "tea".into(),
        ..StoreRequest::default()
    }));
    let stored = vault.sealed(&store).unwrap().unwrap();
    let Some(Operation::Store(request)) = stored.operation else {
        panic!("not a store")
    };
    let opened = |tenant, owner: &str| {
        let info = RecordInfo {
            name: "a".into(),
            owner: owner.into(),
            sealed_under: stored.sealed_under.clone(),
            ..RecordInfo::default()
        };
        let mut reply = RetrieveReply {
            record: Some(KeyRecord {
                info: Some(info),
                value: request.value.clone(),
            }),
            ..RetrieveReply::default()
        };
        let opened = vault.open(&mut reply, |_| Asked::Values, tenant, |_| None);
        opened.map(|()| reply.record.unwrap().value)
    };
    assert_eq!(opened("default", "ada"), Ok("tea".into()));
    for (tenant, owner) in [("other", "ada"), ("default", "bob")] {
        let error = opened(tenant, owner);
        assert!(
            matches!(error, Err(OpenError::Damaged { .. })),
            "{tenant} {owner}"
        );
    }
}

#[test]
fn one_value_is_sealed_with_another_salt_and_nonce_each_time() {
    let vault = vault(&[1], 0);
    let [one, other] = [(); 2].map(|()| minted(&vault, b"tea").value);
    // Behind the version, as the head of the crate that seals says.
    for random in [1..17, 17..29] {
        assert_ne!(one[random.clone()], other[random]);
    }
}

#[test]
fn every_value_of_a_batch_is_sealed_for_its_own_key() {
    let vault = vault(&[1], 0);
    let item = |key: &str| StoreItem {
        key: key.into(),
        value: "tea".into(),
        ..StoreItem::default()
    };
    let batch = command(Operation::BatchStore(BatchStoreRequest {
        owner: "ada".into(),
        items: vec![item("a"), item("b")],
        ..BatchStoreRequest::default()
    }));
    let batch = vault.sealed(&batch).unwrap().unwrap();
    assert_eq!(batch.feature_level, helve_machine::level::SEALING);
    let Some(Operation::BatchStore(request)) = batch.operation else {
        panic!("not a batch")
    };
    let found = |key: &str, value: &Bytes| RetrievedKey {
        record: Some(KeyRecord {
            info: Some(RecordInfo {
                name: key.into(),
                owner: "ada".into(),
                sealed_under: batch.sealed_under.clone(),
                ..RecordInfo::default()
            }),
            value: value.clone(),
        }),
    };
    let [a, b] = &request.items[..] else {
        panic!("not two")
    };
    let mut reply = BatchRetrieveReply {
        keys: vec![
            found("a", &a.value),
            RetrievedKey::default(),
            found("b", &b.value),
        ],
        ..BatchRetrieveReply::default()
    };
    vault
        .open(&mut reply, |_| Asked::Values, "default", |_| None)
        .unwrap();
    assert_eq!(reply.keys[2].record.as_ref().unwrap().value, "tea");
    let mut swapped = BatchRetrieveReply {
        keys: vec![found("a", &b.value)],
        ..BatchRetrieveReply::default()
    };
    let error = vault.open(&mut swapped, |_| Asked::Values, "default", |_| None);
    assert!(matches!(error, Err(OpenError::Damaged { .. })));
}

#[test]
fn every_mint_of_a_transaction_is_sealed_for_its_own_id() {
    let vault = vault(&[1], 0);
    let mint = |value: &'static str| Part {
        operation: Some(operation::Operation::Mint(MintOperation {
            store: "carts".into(),
            value: value.into(),
            ..MintOperation::default()
        })),
    };
    let transact = command(Operation::Transact(TransactRequest {
        operations: vec![mint("tea"), mint("milk")],
        ..TransactRequest::default()
    }));
    let transact = vault.sealed(&transact).unwrap().unwrap();
    let Some(Operation::Transact(request)) = transact.operation else {
        panic!("not a transaction")
    };
    for (part, (name, value)) in request
        .operations
        .iter()
        .zip([("ONE", "tea"), ("TWO", "milk")])
    {
        let Some(operation::Operation::Mint(part)) = &part.operation else {
            panic!("not a mint")
        };
        let opened = vault.value(
            &transact.sealed_under,
            "handle",
            &["default", "carts", "", name],
            &part.value,
        );
        assert_eq!(opened.unwrap(), value);
    }
}

#[test]
fn a_fingerprint_is_the_same_on_every_node_and_across_a_rotation_and_tells_no_value() {
    let (one, other) = (vault(&[1, 2], 0), vault(&[2, 1], 1));
    let print = one.fingerprint(b"request");
    assert_eq!(print, other.fingerprint(b"request"));
    assert_ne!(print, one.fingerprint(b"another"));
    // Rotated: another key holds the same secret.
    one.learn(Some(row(&ring(&[1, 2]), 1))).unwrap();
    assert_eq!(print, one.fingerprint(b"request"));
    let plain = Vault::new(KeyFiles::none(), Keyring::default()).fingerprint(b"request");
    assert_ne!(print, plain, "a reader of the disks could try values out");
    assert_eq!(one.other_fingerprints(b"request"), [print, plain]);
}

#[test]
fn a_node_refuses_a_sealed_cluster_without_its_key_and_a_plain_one_that_it_would_seal_by_accident()
{
    let sealed = || Some(row(&ring(&[1]), 0));
    for keys in [&[][..], &[2]] {
        let vault = Vault::new(KeyFiles::none(), ring(keys));
        let refusal = vault.check_start(sealed(), Holding::Values).unwrap_err();
        assert_eq!(refusal.flag, "--data-key-file");
        assert!(refusal.remedy.contains("the other nodes"), "{refusal}");
    }
    let with = |migration| {
        let files = KeyFiles {
            migration,
            ..KeyFiles::none()
        };
        Vault::new(files, ring(&[1]))
    };
    let refusal = with(Migration::Refused)
        .check_start(None, Holding::Values)
        .unwrap_err();
    assert!(refusal.remedy.contains("--data-key-migrate"), "{refusal}");
    assert!(
        with(Migration::Allowed)
            .check_start(None, Holding::Values)
            .is_ok()
    );
    assert!(
        with(Migration::Refused)
            .check_start(None, Holding::Nothing)
            .is_ok()
    );
    assert!(
        with(Migration::Refused)
            .check_start(sealed(), Holding::Values)
            .is_ok()
    );
    // Unsealed to the end, the keys may go; before, they are needed.
    let plain = |done| SealingRow {
        key_id: Bytes::new(),
        done,
        ..row(&ring(&[1]), 0)
    };
    let keyless = Vault::new(KeyFiles::none(), ring(&[]));
    assert!(
        keyless
            .check_start(Some(plain(true)), Holding::Values)
            .is_ok()
    );
    assert!(
        keyless
            .check_start(Some(plain(false)), Holding::Values)
            .is_err()
    );
}

#[test]
fn a_node_with_keys_takes_no_value_in_plaintext_before_sealing_has_begun() {
    let new = Vault::new(KeyFiles::none(), ring(&[1]));
    let mint = command(Operation::Mint(MintRequest::default()));
    assert!(new.ready().is_err());
    assert!(matches!(new.sealed(&mint), Err(SealError::NotYet(_))));
    let tick = command(Operation::Tick(helve_proto::command::v1::Tick::default()));
    assert_eq!(new.sealed(&tick).unwrap(), None);
    let off = Vault::new(KeyFiles::none(), ring(&[]));
    let sealed = off.sealed(&mint).unwrap();
    assert_eq!(sealed, None, "without flags nothing changes");
}
