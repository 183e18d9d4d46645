//! `helve claim`: side effects that must happen once, from scripts.

mod answer;
mod args;
mod child;
mod run;

use anyhow::anyhow;
use bytes::Bytes;
use helve_client::{
    Client,
    v1::{
        ClaimAbandon, ClaimBegin, ClaimFinish, ClaimReply, ClaimRequest, ClaimStatus,
        claim_request::Action,
    },
};
use helve_command::{
    cluster::{failed, identity, writing_client},
    ending::{Ending, Outcome},
};

pub(crate) use self::args::Command;
use self::{
    answer::{Answer, Status, may_have_happened},
    args::{AbandonArgs, BeginArgs, Common, FinishArgs, LeaseArgs},
};

/// A claim of the cluster.
struct Claim<'a> {
    client: Client,
    common: &'a Common,
    key: &'a str,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Begin(args) => begin(args).await,
        Command::Finish(args) => finish(args).await,
        Command::Abandon(args) => abandon(args).await,
        Command::Run(args) => run::run(args).await,
    }
}

async fn begin(args: &BeginArgs) -> Outcome {
    let digest = args.lease.digest([args.key.as_bytes()]);
    let digest = digest.map_err(Ending::Refused)?;
    let claim = Claim::new(&args.common, &args.key).await?;
    let (status, reply) = claim.begin(&args.lease, digest).await?;
    let answer = Answer::new(status, &args.key, reply);
    match status {
        Status::Fresh => args.common.output.print(&answer, Answer::fence_text),
        _ => answer.refuse(&args.common.output),
    }
}

async fn finish(args: &FinishArgs) -> Outcome {
    let claim = Claim::new(&args.common, &args.key).await?;
    let finish = ClaimFinish {
        fence: args.fence,
        result: args.value.read().map_err(Ending::Refused)?,
        result_ttl_ms: args.result.ttl_ms(),
    };
    let reply = claim.act(Action::Finish(finish)).await?;
    let status = match reply.status() {
        ClaimStatus::Finished => Status::Finished,
        ClaimStatus::Done => Status::Done,
        ClaimStatus::LeaseLost => Status::LeaseLost,
        status => return Err(unknown(status)),
    };
    let answer = Answer::new(status, &args.key, reply);
    match status {
        Status::LeaseLost => answer.refuse(&args.common.output),
        _ => args.common.output.print(&answer, Answer::kept_text),
    }
}

async fn abandon(args: &AbandonArgs) -> Outcome {
    let claim = Claim::new(&args.common, &args.key).await?;
    let abandon = ClaimAbandon {
        fence: args.fence,
        never_happened: args.never_happened,
    };
    let reply = claim.act(Action::Abandon(abandon)).await?;
    let status = match reply.status() {
        ClaimStatus::Abandoned => Status::Abandoned,
        ClaimStatus::Done => Status::Done,
        ClaimStatus::LeaseLost => Status::LeaseLost,
        status => return Err(unknown(status)),
    };
    let answer = Answer::new(status, &args.key, reply);
    match status {
        Status::Abandoned => args.common.output.print(&answer, Answer::free_text),
        _ => answer.refuse(&args.common.output),
    }
}

impl<'a> Claim<'a> {
    async fn new(common: &'a Common, key: &'a str) -> Result<Self, Ending> {
        Ok(Self {
            client: writing_client(&common.cluster).await?,
            common,
            key,
        })
    }

    /// Makes one call of the claim, under an identity of its own.
    async fn act(&self, action: Action) -> Result<ClaimReply, Ending> {
        let request = ClaimRequest {
            identity: identity()?,
            store: self.common.store.clone(),
            owner: self.common.owner.clone(),
            id: self.key.to_owned(),
            action: Some(action),
        };
        self.client.call(request).await.map_err(failed)
    }

    /// Asks for the lease. One behind which the side effect may have happened is given up, unless it may be repeated: the next caller is
    /// told the same.
    async fn begin(
        &self,
        lease: &LeaseArgs,
        digest: Bytes,
    ) -> Result<(Status, ClaimReply), Ending> {
        let begin = ClaimBegin {
            digest,
            lease_ms: u64::try_from(lease.lease.as_millis()).unwrap_or(u64::MAX),
            note: lease.note.clone().into(),
        };
        let reply = self.act(Action::Begin(begin)).await?;
        let status = match reply.status() {
            ClaimStatus::Fresh if lease.may_repeat || !may_have_happened(reply.earlier) => {
                Status::Fresh
            }
            ClaimStatus::Fresh => {
                self.abandon(reply.fence).await?;
                Status::MayHaveHappened
            }
            ClaimStatus::InFlight => Status::InFlight,
            ClaimStatus::Done => Status::Done,
            ClaimStatus::Conflict => Status::Conflict,
            status => return Err(unknown(status)),
        };
        Ok((status, reply))
    }

    /// Gives a lease up without a word on those before it.
    async fn abandon(&self, fence: u64) -> Result<ClaimReply, Ending> {
        let abandon = ClaimAbandon {
            fence,
            never_happened: false,
        };
        self.act(Action::Abandon(abandon)).await
    }
}

/// A status of a newer version.
fn unknown(status: ClaimStatus) -> Ending {
    let name = status.as_str_name();
    Ending::NotNow(anyhow!(
        "the cluster answers {name}, which this command does not know: use the `helve` of the cluster's version"
    ))
}
