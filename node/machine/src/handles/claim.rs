//! Claim: a lease on a side effect that must happen once, and its result for all who come later.
//!
//! A claim is a record with a [`ClaimRow`]. In flight, its deadline is the end of the lease, so a lease whose time has come is gone as
//! any expired record is. The fence is the log index of the begin: it grows with each lease of a key, whatever became of the one before.
//!
//! A lease that ends leaves an [`EarlierLease`] for the next begin: in the record while it is there, in the tombstone afterwards. One that
//! is abandoned hands on what its own begin was told, so that an abandon hides no holder that may have carried out the side effect.

use bytes::Bytes;
use helve_proto::{
    command::v1::{ClaimRow, RecordRow, Refusal},
    v1::{
        ClaimAbandon, ClaimBegin, ClaimFinish, ClaimReply, ClaimRequest, ClaimStatus, EarlierLease,
        Lifetime, OperationReply, RecordInfo, claim_request::Action, lifetime::Absolute,
    },
};

use crate::{
    access::quota,
    context::{Call, Stop},
    handles::{HandleName, handle_name},
    layout::Target,
    lease, lifetime,
    planted::{self, Plant},
    record::{self, Change, Plan, Seen},
    view::View,
};

/// What is under the claim's key.
struct Found<'a> {
    name: HandleName<'a>,
    target: Target,
    seen: Seen,
}

pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    request: &ClaimRequest,
) -> Result<ClaimReply, Stop> {
    let name = handle_name!(request);
    let target = name.target()?;
    let seen = record::see(call.batch, call.space, &target, call.clock_ms)?;
    let found = Found { name, target, seen };
    let action = request.action.as_ref();
    match action.ok_or_else(|| Stop::refused(Refusal::Malformed))? {
        Action::Begin(begin) => self::begin(call, found, begin),
        Action::Finish(finish) => self::finish(call, found, finish),
        Action::Abandon(abandon) => self::abandon(call, found, *abandon),
    }
}

fn begin<V: View>(
    call: &mut Call<'_, V>,
    found: Found<'_>,
    begin: &ClaimBegin,
) -> Result<ClaimReply, Stop> {
    if let Some((row, claim)) = found.claim()? {
        let status = if claim.digest != begin.digest {
            ClaimStatus::Conflict
        } else if claim.done {
            ClaimStatus::Done
        } else {
            ClaimStatus::InFlight
        };
        if status != ClaimStatus::InFlight || !planted::is(Plant::LeaseTwice) {
            return found.reply(call, status, row);
        }
    }
    let earlier = found.earlier(call.clock_ms);
    let claim = ClaimRow {
        digest: begin.digest.clone(),
        fence: call.index,
        done: false,
        earlier,
    };
    let info = found.write(call, &begin.note, Some(begin.lease_ms), claim)?;
    Ok(ClaimReply {
        info,
        fence: call.index,
        earlier,
        ..only(call, ClaimStatus::Fresh)
    })
}

fn finish<V: View>(
    call: &mut Call<'_, V>,
    found: Found<'_>,
    finish: &ClaimFinish,
) -> Result<ClaimReply, Stop> {
    let claim = match found.claim()? {
        Some((row, claim)) if claim.fence == finish.fence => {
            if claim.done {
                return found.reply(call, ClaimStatus::Done, row);
            }
            ClaimRow {
                done: true,
                earlier: None,
                ..claim.clone()
            }
        }
        _ => return Ok(only(call, ClaimStatus::LeaseLost)),
    };
    let info = found.write(call, &finish.result, finish.result_ttl_ms, claim)?;
    Ok(ClaimReply {
        info,
        ..only(call, ClaimStatus::Finished)
    })
}

fn abandon<V: View>(
    call: &mut Call<'_, V>,
    found: Found<'_>,
    abandon: ClaimAbandon,
) -> Result<ClaimReply, Stop> {
    let lease = match found.claim()? {
        Some((row, claim)) if claim.fence == abandon.fence => {
            if claim.done {
                return found.reply(call, ClaimStatus::Done, row);
            }
            lease::abandoned(claim, abandon, call.clock_ms)
        }
        _ => return Ok(only(call, ClaimStatus::LeaseLost)),
    };
    let plan = Plan {
        target: found.target,
        seen: found.seen,
        change: Change::Abandon(lease),
        reply: OperationReply::default(),
    };
    quota::commit(call, plan)?;
    Ok(only(call, ClaimStatus::Abandoned))
}

impl Found<'_> {
    /// The live claim; `None` if the key is free.
    fn claim(&self) -> Result<Option<(&RecordRow, &ClaimRow)>, Stop> {
        let Some(row) = self.seen.live() else {
            return Ok(None);
        };
        match row.claim.as_ref() {
            Some(claim) => Ok(Some((row, claim))),
            None => Err(Stop::refused(Refusal::Claimed)),
        }
    }

    /// What is known of the leases of a key that is free. Whether a due record has been removed yet makes no difference.
    fn earlier(&self, clock_ms: u64) -> Option<EarlierLease> {
        let (ended_at_ms, lease) = match (&self.seen.stored, &self.seen.tombstone) {
            (Some(stored), _) => {
                let at_ms = lifetime::expired_at(&stored.row, clock_ms)?;
                (at_ms, lease::expired(&stored.row, at_ms))
            }
            (None, Some(tombstone)) => (tombstone.at_ms, tombstone.lease),
            (None, None) => return None,
        };
        lease.filter(|_| record::is_told(ended_at_ms, clock_ms))
    }

    /// Of a claim that is there already. Who asks with another digest hears nothing of it.
    fn reply<V: View>(
        &self,
        call: &mut Call<'_, V>,
        status: ClaimStatus,
        row: &RecordRow,
    ) -> Result<ClaimReply, Stop> {
        let mut reply = only(call, status);
        if status != ClaimStatus::Conflict {
            quota::admit_copy(call, row.value.len())?;
            reply.info = Some(record::info(self.name.owner, self.name.id, row));
            reply.value = row.value.clone();
        }
        Ok(reply)
    }

    fn write<V: View>(
        self,
        call: &mut Call<'_, V>,
        value: &Bytes,
        ttl_ms: Option<u64>,
        claim: ClaimRow,
    ) -> Result<Option<RecordInfo>, Stop> {
        let lifetime = ttl_ms.map(|ttl_ms| Lifetime {
            absolute: Some(Absolute::AfterMs(ttl_ms)),
            idle_ttl_ms: None,
        });
        let mut row = record::written(call, &self.seen, value, lifetime.as_ref())?;
        row.claim = Some(claim);
        let plan = Plan::write(self.target, self.seen, self.name.owner, self.name.id, row);
        Ok(quota::commit(call, plan)?.info)
    }
}

/// A reply that says no more than the status.
fn only<V>(call: &Call<'_, V>, status: ClaimStatus) -> ClaimReply {
    ClaimReply {
        header: Some(call.header()),
        status: status.into(),
        ..ClaimReply::default()
    }
}
