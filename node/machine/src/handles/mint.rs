//! Mint: a new handle under an id that cannot be guessed.

use bytes::Bytes;
use data_encoding::BASE32_NOPAD;
use helve_proto::v1::{HandleStatus, Lifetime, MintReply, MintRequest};

use crate::{
    access::quota,
    context::{Call, Stop},
    handles::HandleName,
    limits::IDENTITY_BYTES,
    record::{self, Plan},
    view::View,
};

/// The id that 16 random bytes make: 26 characters of base32 (RFC 4648, without padding). It goes into a command's `minted_ids`;
/// the machine puts the prefix before it.
#[must_use]
pub fn minted_id(random: &[u8; IDENTITY_BYTES]) -> String {
    BASE32_NOPAD.encode(random)
}

/// The whole id of a handle that is minted under this prefix, which may be empty.
#[must_use]
pub fn handle_id(prefix: &str, minted_id: &str) -> String {
    if prefix.is_empty() {
        minted_id.to_owned()
    } else {
        [prefix, "-", minted_id].concat()
    }
}

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &MintRequest,
    minted_id: &str,
) -> Result<MintReply, Stop> {
    let id = handle_id(&request.id_prefix, minted_id);
    let name = HandleName {
        store: &request.store,
        owner: &request.owner,
        id: &id,
    };
    let plan = plan(call, name, &request.value, request.lifetime.as_ref())?;
    let reply = quota::commit(call, plan)?;
    Ok(MintReply {
        header: Some(call.header()),
        info: reply.info,
    })
}

pub(crate) fn plan<V: View>(
    call: &Call<'_, V>,
    name: HandleName<'_>,
    value: &Bytes,
    lifetime: Option<&Lifetime>,
) -> Result<Plan, Stop> {
    let target = name.target()?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    // Random ids do not meet; a proposer that stamps one twice must not overwrite.
    if seen.status != HandleStatus::Unknown {
        return Err(Stop::conflict(seen.revision()));
    }
    let row = record::written(call, &seen, value, lifetime)?;
    Ok(Plan::write(target, seen, name.owner, name.id, row))
}
