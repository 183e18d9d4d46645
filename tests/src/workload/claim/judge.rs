//! Judges what callers were told of claims, by where in the log each reply says that its call is. What a call in doubt may have done is
//! allowed wherever it could have done it.

use std::collections::BTreeMap;

use bytes::Bytes;
use helve_client::v1::{ClaimReply, ClaimStatus, EarlierLease, LeaseEnd, claim_request::Action};

use super::{Told, id};
use crate::workload::{Harm, Harmed};

/// How long a cluster knows at least of a lease that was given out.
const KNOWN_MS: u64 = 24 * 60 * 60 * 1000;

/// What is wrong with what was told, of results that are kept for ever.
pub(super) fn judge(told: &[Told]) -> Vec<Harmed> {
    let mut effects: BTreeMap<u64, Vec<&Told>> = BTreeMap::new();
    for one in told {
        effects.entry(one.effect).or_default().push(one);
    }
    let mut harmed = Vec::new();
    for (effect, told) in effects {
        let mut course = Course::of(&told);
        let mut answered: Vec<_> = told
            .iter()
            .filter_map(|told| Some((&told.action, told.reply.as_ref()?)))
            .collect();
        answered.sort_by_key(|(_, reply)| place(reply).0);
        for (action, reply) in answered {
            if let Err((harm, seen)) = course.follow(action, reply) {
                let (index, clock_ms) = place(reply);
                let seen = format!(
                    "claim {}: {seen}, at index {index}, clock {clock_ms}",
                    id(effect)
                );
                harmed.push(Harmed::new(harm, seen));
            }
        }
    }
    harmed
}

/// Log index and clock.
fn place(reply: &ClaimReply) -> (u64, u64) {
    let header = reply.header.as_ref();
    header.map_or((0, 0), |header| (header.index, header.clock_ms))
}

#[derive(Debug, Clone)]
struct Lease {
    fence: u64,
    digest: Bytes,
    begun_ms: u64,
    until_ms: u64,
    abandoned: bool,
}

/// How far one claim has come.
#[derive(Debug, Default)]
struct Course {
    /// A begin in doubt may have a lease that no caller was told of.
    may_have_unknown: bool,
    /// Finishes in doubt: fence and result.
    may_finish: Vec<(u64, Bytes)>,
    /// Abandons in doubt.
    may_abandon: Vec<u64>,
    leases: Vec<Lease>,
    /// The result, and its digest if that is known.
    done: Option<(Bytes, Option<Bytes>)>,
}

type Wrong = (Harm, String);

impl Course {
    fn of(told: &[&Told]) -> Self {
        let mut course = Self::default();
        for told in told.iter().filter(|told| told.reply.is_none()) {
            match &told.action {
                Action::Begin(_) => course.may_have_unknown = true,
                Action::Finish(finish) => {
                    let result = finish.result.clone();
                    course.may_finish.push((finish.fence, result));
                }
                Action::Abandon(abandon) => course.may_abandon.push(abandon.fence),
            }
        }
        course
    }

    /// The lease that is out at this time, for certain.
    fn out(&self, clock_ms: u64) -> Option<&Lease> {
        let last = self.leases.last().filter(|_| self.done.is_none())?;
        let is_out = !last.abandoned
            && clock_ms < last.until_ms
            && !self.may_abandon.contains(&last.fence)
            && !self.may_be_finished(last.fence);
        is_out.then_some(last)
    }

    fn may_be_finished(&self, fence: u64) -> bool {
        self.may_finish.iter().any(|(of, _)| *of == fence)
    }

    /// Whether no lease is out at this time, and no result kept, for certain.
    fn is_free(&self, clock_ms: u64) -> bool {
        let has_ended = |last: &Lease| {
            (last.abandoned || last.until_ms <= clock_ms) && !self.may_be_finished(last.fence)
        };
        !self.may_have_unknown && self.done.is_none() && self.leases.last().is_none_or(has_ended)
    }

    fn follow(&mut self, action: &Action, reply: &ClaimReply) -> Result<(), Wrong> {
        let (_, clock_ms) = place(reply);
        match (action, reply.status()) {
            (Action::Begin(begin), ClaimStatus::Fresh) => {
                let until_ms = until(reply);
                let lease = Lease {
                    fence: reply.fence,
                    digest: begin.digest.clone(),
                    begun_ms: clock_ms,
                    until_ms,
                    abandoned: false,
                };
                let wrong = self
                    .fresh(&lease, clock_ms)
                    .and_then(|()| self.earlier(reply, clock_ms));
                self.leases.push(lease);
                wrong
            }
            (Action::Begin(begin), ClaimStatus::InFlight) => {
                self.in_flight(&begin.digest, reply, clock_ms)
            }
            (Action::Begin(begin), ClaimStatus::Conflict) => self.conflict(&begin.digest, clock_ms),
            (Action::Begin(begin), ClaimStatus::Done) => {
                self.shown(reply, None, Some(&begin.digest))
            }
            (Action::Finish(finish), ClaimStatus::Done) => {
                self.shown(reply, Some(finish.fence), None)
            }
            (Action::Abandon(abandon), ClaimStatus::Done) => {
                self.shown(reply, Some(abandon.fence), None)
            }
            (Action::Finish(finish), ClaimStatus::Finished) => {
                let held = self.ends(finish.fence, "finished", clock_ms);
                let lease = self.leases.iter().find(|lease| lease.fence == finish.fence);
                let digest = lease.map(|lease| lease.digest.clone());
                self.done
                    .get_or_insert_with(|| (finish.result.clone(), digest));
                held
            }
            (Action::Abandon(abandon), ClaimStatus::Abandoned) => {
                let held = self.ends(abandon.fence, "abandoned", clock_ms);
                let mut leases = self.leases.iter_mut();
                if let Some(lease) = leases.find(|lease| lease.fence == abandon.fence) {
                    lease.abandoned = true;
                }
                held
            }
            (Action::Finish(finish), ClaimStatus::LeaseLost) => self.lost(finish.fence, clock_ms),
            (Action::Abandon(abandon), ClaimStatus::LeaseLost) => {
                self.lost(abandon.fence, clock_ms)
            }
            (action, status) => Err((Harm::Wrong, format!("{action:?} came to {status:?}"))),
        }
    }

    fn lost(&self, fence: u64, clock_ms: u64) -> Result<(), Wrong> {
        match self.out(clock_ms).filter(|lease| lease.fence == fence) {
            Some(Lease { until_ms, .. }) => {
                let seen = format!("lease {fence} was lost before its end at {until_ms}");
                Err((Harm::Lost, seen))
            }
            None => Ok(()),
        }
    }

    fn fresh(&self, lease: &Lease, clock_ms: u64) -> Result<(), Wrong> {
        if let Some((result, _)) = &self.done {
            let seen = format!(
                "lease {} was given out behind result {result:?}",
                lease.fence
            );
            return Err((Harm::Doubled, seen));
        }
        if let Some(before) = self.leases.last().filter(|last| last.fence >= lease.fence) {
            let seen = format!("fence {} follows fence {}", lease.fence, before.fence);
            return Err((Harm::Wrong, seen));
        }
        match self.out(clock_ms) {
            Some(other) => Err((
                Harm::Doubled,
                format!(
                    "two leases are out: {} until {}, and {}",
                    other.fence, other.until_ms, lease.fence
                ),
            )),
            None => Ok(()),
        }
    }

    /// A lease must be told of the newest before it that was not abandoned, or else of the newest.
    fn earlier(&self, reply: &ClaimReply, clock_ms: u64) -> Result<(), Wrong> {
        if self.may_have_unknown {
            return Ok(());
        }
        let fence = reply.fence;
        let Some(newest) = self.leases.last() else {
            return match &reply.earlier {
                Some(told) => {
                    let seen = format!("lease {fence} is told of {told:?}, and none was");
                    Err((Harm::Wrong, seen))
                }
                None => Ok(()),
            };
        };
        let Some(told) = &reply.earlier else {
            if clock_ms >= newest.begun_ms.saturating_add(KNOWN_MS) {
                return Ok(());
            }
            let seen = format!("lease {fence} is not told of lease {}", newest.fence);
            return Err((Harm::Lost, seen));
        };
        let mut may_be_abandoned = true;
        for lease in self.leases.iter().rev().filter(|lease| !lease.abandoned) {
            if is_told(told, LeaseEnd::Expired, lease) && told.ended_at_ms == lease.until_ms {
                return Ok(());
            }
            may_be_abandoned = self.may_abandon.contains(&lease.fence);
            if !may_be_abandoned {
                break;
            }
        }
        if may_be_abandoned && is_told(told, LeaseEnd::Abandoned, newest) {
            return Ok(());
        }
        let seen = format!(
            "lease {fence} is told of {told:?}, behind {:?}",
            self.leases
        );
        Err((Harm::Wrong, seen))
    }

    fn in_flight(&self, digest: &Bytes, reply: &ClaimReply, clock_ms: u64) -> Result<(), Wrong> {
        let until_ms = until(reply);
        if let Some((result, _)) = &self.done {
            return Err((Harm::Lost, format!("in flight behind result {result:?}")));
        }
        if clock_ms >= until_ms {
            return Err((Harm::Wrong, format!("in flight until {until_ms}")));
        }
        let known = self.leases.last();
        let is_known =
            known.is_some_and(|lease| lease.digest == *digest && lease.until_ms == until_ms);
        if is_known || self.may_have_unknown {
            return Ok(());
        }
        let seen = format!("in flight until {until_ms}, and the last known lease is {known:?}");
        Err((Harm::Wrong, seen))
    }

    fn conflict(&self, digest: &Bytes, clock_ms: u64) -> Result<(), Wrong> {
        let of = match (&self.done, self.out(clock_ms)) {
            (Some((_, of)), _) => of.as_ref(),
            (None, Some(lease)) => Some(&lease.digest),
            (None, None) if self.is_free(clock_ms) => {
                return Err((Harm::Wrong, "a conflict with nothing".to_owned()));
            }
            (None, None) => None,
        };
        match of.filter(|of| *of == digest) {
            Some(of) => Err((
                Harm::Wrong,
                format!("a conflict with the same digest {of:?}"),
            )),
            None => Ok(()),
        }
    }

    /// A result that is shown to a begin with this digest, or to who has or had the lease with this fence.
    fn shown(
        &mut self,
        reply: &ClaimReply,
        fence: Option<u64>,
        digest: Option<&Bytes>,
    ) -> Result<(), Wrong> {
        let result = &reply.value;
        if let Some((done, of)) = &self.done {
            if done != result {
                let seen = format!("result {done:?} became {result:?}");
                return Err((Harm::Wrong, seen));
            }
            if let (Some(of), Some(digest)) = (of.as_ref(), digest)
                && of != digest
            {
                let seen = format!("a result of digest {of:?} was shown to {digest:?}");
                return Err((Harm::Wrong, seen));
            }
            return Ok(());
        }
        let mut finishes = self.may_finish.iter();
        let by = finishes.find(|(of, kept)| kept == result && fence.is_none_or(|f| f == *of));
        let known = by.is_some();
        self.done = Some((result.clone(), digest.cloned()));
        if known {
            return Ok(());
        }
        Err((
            Harm::Wrong,
            format!("result {result:?} is shown, and no finish brought it"),
        ))
    }

    /// Only the lease that is out may finish or abandon.
    fn ends(&self, fence: u64, how: &str, clock_ms: u64) -> Result<(), Wrong> {
        if let Some((result, _)) = &self.done {
            let seen = format!("lease {fence} {how} behind result {result:?}");
            return Err((Harm::Doubled, seen));
        }
        let held = self
            .leases
            .last()
            .filter(|last| last.fence == fence && clock_ms < last.until_ms && !last.abandoned);
        match held {
            Some(_) => Ok(()),
            None => Err((
                Harm::Wrong,
                format!(
                    "lease {fence} {how}, and is not the one that is out: {:?}",
                    self.leases.last()
                ),
            )),
        }
    }
}

fn is_told(told: &EarlierLease, end: LeaseEnd, lease: &Lease) -> bool {
    told.end() == end && told.fence == lease.fence
}

fn until(reply: &ClaimReply) -> u64 {
    let info = reply.info.as_ref();
    info.and_then(|info| info.expires_at_ms).unwrap_or_default()
}

#[cfg(test)]
mod tests;
