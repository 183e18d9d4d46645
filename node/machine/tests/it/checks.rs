//! Limits and shape.

use bytes::Bytes;
use helve_machine::{Violation, check, limits, minted_id};
use helve_proto::{
    Reason,
    command::v1::{Command, command::Operation},
    v1::{
        BatchStoreRequest, MintRequest, Operation as TransactOperation, PutRequest, StoreItem,
        StoreOperation, StoreRequest, TransactRequest, operation,
    },
};

use crate::host::{START_MS, command, request_identity};

fn checked(operation: Operation) -> Result<(), Violation> {
    let mut command = command(START_MS, operation);
    complete(&mut command);
    check(&command)
}

fn complete(command: &mut Command) {
    command.identity = Some(request_identity(START_MS, 1));
    command.fingerprint = Bytes::from_static(&[0; 16]);
    if let Some(Operation::Mint(_)) = command.operation {
        command.minted_ids = vec![minted_id(&[7; 16])];
    }
}

fn reason(operation: Operation) -> Option<Reason> {
    checked(operation).err().map(|violation| violation.reason)
}

fn store(key: String, value: usize) -> Operation {
    Operation::Store(StoreRequest {
        key,
        value: vec![0; value].into(),
        ..StoreRequest::default()
    })
}

fn put(owner: String, id: String) -> Operation {
    Operation::Put(PutRequest {
        store: "cart".into(),
        owner,
        id,
        ..PutRequest::default()
    })
}

#[test]
fn names_and_values_are_allowed_up_to_their_limits() {
    assert_eq!(
        reason(store(
            "k".repeat(limits::KEY_BYTES_MAX),
            limits::VALUE_BYTES_MAX
        )),
        None
    );
    assert_eq!(
        reason(store("k".repeat(limits::KEY_BYTES_MAX + 1), 0)),
        Some(Reason::TooLarge)
    );
    assert_eq!(
        reason(store("k".into(), limits::VALUE_BYTES_MAX + 1)),
        Some(Reason::TooLarge)
    );
    assert_eq!(reason(store("k\0".into(), 0)), Some(Reason::BadKey));
    assert_eq!(reason(put("o".repeat(256), "i".repeat(128))), None);
    assert_eq!(
        reason(put("o".repeat(257), "i".into())),
        Some(Reason::TooLarge)
    );
    assert_eq!(
        reason(put(String::new(), "i".repeat(129))),
        Some(Reason::TooLarge)
    );
    assert_eq!(
        reason(put(String::new(), "i\0".into())),
        Some(Reason::BadId)
    );
}

#[test]
fn a_transaction_has_at_most_128_operations_and_4_mib() {
    let item = |number: usize, bytes: usize| StoreItem {
        key: number.to_string(),
        value: vec![0; bytes].into(),
        ..StoreItem::default()
    };
    let batch = |count: usize, bytes: usize| {
        let items = (0..count).map(|number| item(number, bytes)).collect();
        Operation::BatchStore(BatchStoreRequest {
            items,
            ..BatchStoreRequest::default()
        })
    };
    assert_eq!(reason(batch(128, 1)), None);
    assert_eq!(reason(batch(129, 1)), Some(Reason::TooLarge));
    assert_eq!(reason(batch(4, 1 << 20)), Some(Reason::TooLarge));
    let operations = (0..4)
        .map(|number| {
            let store = StoreOperation {
                key: number.to_string(),
                value: vec![0; 1 << 20].into(),
                ..StoreOperation::default()
            };
            TransactOperation {
                operation: Some(operation::Operation::Store(store)),
            }
        })
        .collect();
    let violation = checked(Operation::Transact(TransactRequest {
        identity: None,
        operations,
    }))
    .unwrap_err();
    assert_eq!(
        (violation.reason, violation.operation),
        (Reason::TooLarge, Some(3))
    );
}

#[test]
fn a_command_needs_identity_fingerprint_and_minted_ids() {
    let mint = || {
        Operation::Mint(MintRequest {
            store: "cart".into(),
            ..MintRequest::default()
        })
    };
    assert_eq!(checked(mint()), Ok(()));
    let spoil = |spoil: fn(&mut Command)| {
        let mut command = command(START_MS, mint());
        complete(&mut command);
        spoil(&mut command);
        check(&command).unwrap_err().reason
    };
    assert_eq!(spoil(|command| command.identity = None), Reason::BadRequest);
    assert_eq!(
        spoil(|command| command.fingerprint = Bytes::new()),
        Reason::BadRequest
    );
    assert_eq!(
        spoil(|command| command.minted_ids.clear()),
        Reason::BadRequest
    );
    assert_eq!(
        spoil(|command| command.minted_ids[0].push('A')),
        Reason::BadRequest
    );
    assert_eq!(spoil(|command| command.tenant.clear()), Reason::BadName);
    assert_eq!(
        spoil(|command| command.principal.clear()),
        Reason::BadRequest
    );
    assert_eq!(
        spoil(|command| command.operation = None),
        Reason::BadRequest
    );
    assert_eq!(
        spoil(|command| command.feature_level = limits::FEATURE_LEVEL + 1),
        Reason::FormatNewer
    );
}

#[test]
fn minted_ids_have_26_characters_of_base32() {
    assert_eq!(minted_id(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(minted_id(&[255; 16]), "77777777777777777777777774");
}
