//! Reads of records whose idle time is nearly used.

use bytes::Bytes;
use helve_machine::query::{Read, Scope, batch_retrieve};
use helve_proto::{
    command::v1::command::Operation,
    v1::{BatchRetrieveRequest, Lifetime, StoreRequest},
};

use crate::host::{GROUP, Host, START_MS, TENANT, command, request_identity};

const IDLE_MS: u64 = 10_000;

fn store(host: &mut Host, number: u64, key: &str, idle_ttl_ms: Option<u64>) {
    let lifetime = idle_ttl_ms.map(|idle_ttl_ms| Lifetime {
        idle_ttl_ms: Some(idle_ttl_ms),
        ..Lifetime::default()
    });
    let request = StoreRequest {
        key: key.to_owned(),
        lifetime,
        ..StoreRequest::default()
    };
    let mut command = command(START_MS, Operation::Store(request));
    command.identity = Some(request_identity(START_MS, number));
    command.fingerprint = Bytes::from_static(&[7; 32]);
    host.apply(&command);
}

#[test]
fn all_idle_keys_of_one_batch_are_renewed_together() {
    let mut host = Host::default();
    store(&mut host, 1, "a", Some(IDLE_MS));
    store(&mut host, 2, "b", None);
    store(&mut host, 3, "c", Some(IDLE_MS));
    let request = BatchRetrieveRequest {
        keys: ["a", "b", "c"].map(str::to_owned).to_vec(),
        ..BatchRetrieveRequest::default()
    };
    let stamp_ms = START_MS + IDLE_MS;
    let scope = Scope {
        group_id: GROUP,
        tenant: TENANT,
        stamp_ms,
    };
    let first = batch_retrieve(&host.rows, &scope, &request).unwrap();
    let Read::Renew(touches) = first else {
        panic!("an idle read came to {first:?}");
    };
    assert_eq!(touches.len(), 2);
    for touch in touches {
        host.apply(&command(stamp_ms, Operation::Touch(touch)));
    }
    let second = batch_retrieve(&host.rows, &scope, &request).unwrap();
    assert!(matches!(second, Read::Answer(reply) if reply.keys.len() == 3));
}
