//! Claims: callers fight for leases of the same few side effects, hold them too long, die under them, finish twice. A side effect
//! is finished once, its result never changes, and no two leases of it are out at a time.

mod judge;

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use anyhow::Result;
use bytes::Bytes;
use helve_client::{
    Client, Reason,
    v1::{
        ClaimAbandon, ClaimBegin, ClaimFinish, ClaimReply, ClaimRequest, ClaimStatus,
        claim_request::Action,
    },
};
use tonic::async_trait;

use super::{Harmed, Met, Worker, Workload};
use crate::wait::{PATIENCE, hold};

pub(super) const NAME: &str = "claim";

const STORE: &str = "payments";
/// Side effects that are not finished yet and that callers choose from: few enough for them to meet.
const OPEN: u64 = 3;
/// Leases are drawn up to this, so that some end under way.
const LEASE_MAX_MS: u64 = 600;
/// What callers take a side effect for. Nearly all agree.
const DIGESTS: [&[u8]; 2] = [b"ten francs to ann", b"ten francs to bob"];
const DISAGREEING: u64 = 10;
/// Pauses between two looks at whether the cluster knows claims.
const LOOKS: Duration = Duration::from_millis(100);

/// A call of a claim, and what its caller was told.
#[derive(Debug, Clone)]
pub(super) struct Told {
    effect: u64,
    action: Action,
    /// `None`: it may have taken effect.
    reply: Option<ClaimReply>,
}

/// What all callers were told.
#[derive(Debug, Default)]
pub(super) struct Claim {
    told: Mutex<Vec<Told>>,
}

#[async_trait]
impl Workload for Claim {
    fn name(&self) -> &'static str {
        NAME
    }

    /// A new cluster raises its feature level by itself, a moment after it serves.
    async fn begin(&self, client: &Client) -> Result<()> {
        let asked = Instant::now();
        loop {
            let begun = client.call(request("nothing", begin(0, 1))).await;
            match begun {
                Err(error)
                    if error.reason() == Some(Reason::FormatNewer)
                        && asked.elapsed() < PATIENCE =>
                {
                    hold(LOOKS).await;
                }
                begun => return begun.map(drop).map_err(Into::into),
            }
        }
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let effect = self.finished() + worker.below(OPEN);
        let digest = usize::from(worker.below(DISAGREEING) == 0);
        let lease_ms = 50 + worker.below(LEASE_MAX_MS);
        let begun = self.tell(worker, effect, begin(digest, lease_ms)).await?;
        let Some(lease) = begun.filter(|reply| reply.status() == ClaimStatus::Fresh) else {
            return Ok(());
        };
        let fence = lease.fence;
        // Some take longer than their lease lasts.
        hold(Duration::from_millis(worker.below(lease_ms * 3 / 2))).await;
        match worker.below(8) {
            0 => {
                let abandon = Action::Abandon(ClaimAbandon {
                    fence,
                    ..ClaimAbandon::default()
                });
                self.tell(worker, effect, abandon).await?;
            }
            // It is as if it had died.
            1 => {}
            2 => {
                for _ in 0..2 {
                    let finish = finish(worker, fence);
                    self.tell(worker, effect, finish).await?;
                }
            }
            _ => {
                let finish = finish(worker, fence);
                self.tell(worker, effect, finish).await?;
            }
        }
        Ok(())
    }

    /// Asks for every side effect once more, as either thing, and judges all that was told.
    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        for effect in 0..self.finished() + OPEN {
            for digest in 0..DIGESTS.len() {
                let action = begin(digest, 1000);
                let reply = client.call(request(&id(effect), action.clone())).await?;
                self.told().push(Told {
                    effect,
                    action,
                    reply: Some(reply),
                });
            }
        }
        Ok(judge::judge(&self.told()))
    }
}

impl Claim {
    /// Calls, and keeps what was told; `None` if nothing was.
    async fn tell(
        &self,
        worker: &mut Worker,
        effect: u64,
        action: Action,
    ) -> Result<Option<ClaimReply>> {
        let client = worker.client();
        let told = client.call(request(&id(effect), action.clone())).await;
        let reply = match worker.met(told)? {
            Met::Done(reply) => Some(reply),
            Met::Unknown => None,
            Met::NotDone => return Ok(None),
        };
        self.told().push(Told {
            effect,
            action,
            reply: reply.clone(),
        });
        Ok(reply)
    }

    /// Side effects of which somebody was told that they are done: callers go on to the next ones.
    fn finished(&self) -> u64 {
        let told = self.told();
        let done = told.iter().filter(|told| {
            let status = told.reply.as_ref().map(ClaimReply::status);
            matches!(status, Some(ClaimStatus::Finished | ClaimStatus::Done))
        });
        done.map(|told| told.effect + 1).max().unwrap_or_default()
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Vec<Told>> {
        self.told
            .lock()
            .expect("no caller panics while it notes what it was told")
    }
}

fn id(effect: u64) -> String {
    format!("payment-{effect}")
}

fn begin(digest: usize, lease_ms: u64) -> Action {
    Action::Begin(ClaimBegin {
        digest: Bytes::from_static(DIGESTS[digest]),
        lease_ms,
        note: Bytes::new(),
    })
}

fn finish(worker: &mut Worker, fence: u64) -> Action {
    Action::Finish(ClaimFinish {
        fence,
        result: worker.fresh().into(),
        result_ttl_ms: None,
    })
}

fn request(id: &str, action: Action) -> ClaimRequest {
    ClaimRequest {
        identity: None,
        store: STORE.to_owned(),
        owner: String::new(),
        id: id.to_owned(),
        action: Some(action),
    }
}
