//! Calls that are turned away, again and again.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use futures::{StreamExt as _, future::join_all, stream};
use helve_proto::v1::MintRequest;

use super::ends::Ends;
use crate::{caller::Caller, token::Token};

/// Bytes of the names in the mints of strangers.
const STRANGERS_NAME_BYTES: usize = 4 << 10;

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

/// Mints of callers that no node knows: from each of these addresses, this many without a token and
/// as many with a token that was made up.
///
/// # Errors
///
/// If the operating system gives no entropy.
pub async fn strangers(from: &[IpAddr], to: SocketAddr, count: u64) -> Result<Ends> {
    let mut callers = Vec::new();
    for own in from {
        let made_up = Token::new()?;
        callers.push(Caller::calling_from(*own, to));
        callers.push(Caller::calling_from(*own, to).bearing(&made_up.bearer));
    }
    let calls = callers
        .iter()
        .map(|caller| mints(caller, STRANGERS_NAME_BYTES, count));
    let mut ends = Ends::default();
    for some in join_all(calls).await {
        ends.add(&some);
    }
    Ok(ends)
}
