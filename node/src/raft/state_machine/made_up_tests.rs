//! Entries that tests of the state machine apply, and what they find of them.

use bytes::Bytes;
use helve_machine::query::{self, Read, Scope};
use helve_proto::{
    command::v1::{Command, command::Operation},
    peer::v1 as proto,
    v1::{RetrieveRequest, StoreRequest},
};
use prost::Message as _;

use crate::{
    limits::GROUP_ID,
    raft::{
        codec,
        types::{Entry, Payload, Proposal},
    },
    storage::state_db::StateDb,
};

const AT_MS: u64 = 1_800_000_000_000;

pub(crate) fn command(index: u64, operation: Operation) -> Command {
    let mut request_id = AT_MS.to_be_bytes()[2..].to_vec();
    request_id.extend([0x70, 0]);
    request_id.extend((1 << 63 | index).to_be_bytes());
    let identity = helve_proto::v1::call_identity::Identity::RequestId(request_id.into());
    Command {
        feature_level: helve_machine::level::needed(&operation),
        proposed_at_ms: AT_MS,
        tenant: "default".to_owned(),
        identity: Some(helve_proto::v1::CallIdentity {
            identity: Some(identity),
        }),
        fingerprint: vec![1; helve_machine::limits::FINGERPRINT_BYTES].into(),
        operation: Some(operation),
        ..Command::default()
    }
}

pub(crate) fn store(index: u64, key: &str) -> Command {
    let request = StoreRequest {
        key: key.to_owned(),
        ..StoreRequest::default()
    };
    command(index, Operation::Store(request))
}

pub(crate) fn carrying(command: &Command) -> Payload {
    let command = Bytes::from(command.encode_to_vec());
    Payload::Normal(Proposal::from(command))
}

pub(crate) fn entry(index: u64, payload: Payload) -> Entry {
    let log_id = codec::log_id_from_proto(&proto::LogId { term: 1, index });
    Entry { log_id, payload }
}

/// The revision of this key, in rows that fit together.
pub(crate) fn revision(state: &StateDb, key: &str) -> Option<u64> {
    state.read(|view| helve_machine::audit(view, GROUP_ID).unwrap());
    let request = RetrieveRequest {
        key: key.to_owned(),
        ..RetrieveRequest::default()
    };
    let scope = Scope {
        group_id: GROUP_ID,
        tenant: "default",
        stamp_ms: AT_MS,
    };
    match state.read(|view| query::retrieve(view, &scope, &request).unwrap()) {
        Read::Answer(reply) => Some(reply.record?.info?.revision),
        _ => panic!("nothing is due"),
    }
}
