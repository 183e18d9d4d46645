//! What one token does to the sessions and request ids of others, and what a tenant leaves behind it.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use helve_proto::v1::{CallIdentity, DeleteRequest, OpenSessionRequest, call_identity::Identity};
use uuid::{Timestamp, Uuid};

use super::ends::Ends;
use crate::caller::Caller;

/// Calls that are under way at a time.
const AT_ONCE: usize = 256;

/// Opens sessions, and never uses one.
pub async fn open_sessions(caller: &Caller, count: u64) -> Ends {
    let calls = stream::iter(0..count).map(|_| {
        let open = OpenSessionRequest {
            session_id: Bytes::copy_from_slice(Uuid::new_v4().as_bytes()),
        };
        caller.open_session(open)
    });
    Ends::of(calls.buffer_unordered(AT_ONCE)).await
}

/// Deletes what is not there, under request ids of this time in milliseconds since the Unix epoch.
pub async fn deletes_of_nothing(caller: &Caller, sent_ms: u64, count: u64) -> Ends {
    let calls = stream::iter(0..count).map(|_| {
        let delete = DeleteRequest {
            identity: Some(identity_of(sent_ms)),
            store: "cart".to_owned(),
            id: "nothing".to_owned(),
            ..DeleteRequest::default()
        };
        caller.delete(delete)
    });
    Ends::of(calls.buffer_unordered(AT_ONCE)).await
}

/// A request id of this time.
#[must_use]
pub fn identity_of(sent_ms: u64) -> CallIdentity {
    let nanos = u32::try_from(sent_ms % 1_000).unwrap_or(0) * 1_000_000;
    let time = Timestamp::from_unix(uuid::NoContext, sent_ms / 1_000, nanos);
    let id = Uuid::new_v7(time);
    CallIdentity {
        identity: Some(Identity::RequestId(Bytes::copy_from_slice(id.as_bytes()))),
    }
}

/// The wall clock, in milliseconds since the Unix epoch.
#[must_use]
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
