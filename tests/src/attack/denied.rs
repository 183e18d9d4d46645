//! Calls that are turned away, again and again.

use futures::{StreamExt as _, stream};
use helve_proto::v1::MintRequest;

use super::ends::Ends;
use crate::caller::Caller;

/// Calls that are under way at a time.
const AT_ONCE: usize = 64;

/// Mints under names of this many bytes, each of which JSON writes as six, for which the caller
/// lacks the right.
pub async fn mints(caller: &Caller, name_bytes: usize, count: u64) -> Ends {
    let calls = stream::iter(0..count).map(|_| {
        let mint = MintRequest {
            store: "carts".to_owned(),
            owner: "\u{1}".repeat(name_bytes),
            ..MintRequest::default()
        };
        caller.mint(mint)
    });
    Ends::of(calls.buffer_unordered(AT_ONCE)).await
}
