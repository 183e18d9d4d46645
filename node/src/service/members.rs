//! Changes of members, as operators follow them.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::Stream;
use helve_proto::v1::{
    AddMemberRequest, ChangeProgress, PromoteMemberRequest, RemoveMemberRequest,
    ReplaceMemberRequest, change_progress::Stage as StageName,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{
    Services, admit, audited, caller::Caller, failure::Failure, node_ids, status::Problem,
};
use crate::{
    audit::Ended,
    config::reached_at,
    membership::change::{Change, Risk, Stage, Voting},
};

/// The answers to a change of members.
pub(crate) type ProgressStream = Pin<Box<dyn Stream<Item = Result<ChangeProgress, Status>> + Send>>;

/// The least time between two answers: entries to go would change with every commit.
const PACE: Duration = Duration::from_millis(100);

/// The longest: a caller that hears nothing for longer knows that this node hangs.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A request for a change of members.
pub(super) trait ChangeRequest {
    /// Its name in the metrics.
    const RPC: &'static str;

    /// The change that it asks for.
    fn change(self) -> Result<Change, Failure>;
}

impl ChangeRequest for AddMemberRequest {
    const RPC: &'static str = "AddMember";

    fn change(self) -> Result<Change, Failure> {
        check_place(self.seat, &self.peer_address)?;
        Ok(Change::Add {
            seat: self.seat,
            peer_address: self.peer_address,
            voting: if self.learner {
                Voting::Learner
            } else {
                Voting::Voter
            },
        })
    }
}

impl ChangeRequest for RemoveMemberRequest {
    const RPC: &'static str = "RemoveMember";

    fn change(self) -> Result<Change, Failure> {
        check_id(self.id)?;
        Ok(Change::Remove {
            id: self.id,
            risk: if self.even_without_quorum {
                Risk::Accepted
            } else {
                Risk::Refused
            },
        })
    }
}

impl ChangeRequest for PromoteMemberRequest {
    const RPC: &'static str = "PromoteMember";

    fn change(self) -> Result<Change, Failure> {
        check_id(self.id)?;
        Ok(Change::Promote { id: self.id })
    }
}

impl ChangeRequest for ReplaceMemberRequest {
    const RPC: &'static str = "ReplaceMember";

    fn change(self) -> Result<Change, Failure> {
        check_id(self.id)?;
        check_place(self.seat, &self.peer_address)?;
        Ok(Change::Replace {
            id: self.id,
            seat: self.seat,
            peer_address: self.peer_address,
        })
    }
}

fn check_id(id: u64) -> Result<(), Failure> {
    if id == 0 {
        return Err(Failure::Malformed(
            "0 is no node id: `helve member list` shows them".into(),
        ));
    }
    Ok(())
}

fn check_place(seat: u64, peer_address: &str) -> Result<(), Failure> {
    if seat == 0 {
        return Err(Failure::Malformed(
            "0 is no seat: give what the new node has as --id, from 1".into(),
        ));
    }
    reached_at(peer_address).map_err(|problem| {
        Failure::Malformed(format!(
            "{problem}: give HOST:PORT as the new node's own --peers has it"
        ))
    })
}

impl Services {
    /// Begins a change of members, or joins the same one, and tells how it goes until its end or the caller's deadline.
    pub(super) fn change_members<R: ChangeRequest>(
        self: &Arc<Self>,
        request: Request<R>,
    ) -> Response<ProgressStream> {
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let (caller, peer) = (Caller::of(&request), audited::peer(&request));
        let change = request.into_inner().change();
        let (replies, stream) = mpsc::channel(1);
        let services = Arc::clone(self);
        tokio::spawn(async move {
            let mut timer = services.metrics.call(R::RPC);
            let mut entry = None;
            let followed = async {
                let subject = || change.as_ref().ok().map(ToString::to_string);
                let begun = services.begin_admin(R::RPC, (&*caller?, peer), subject)?;
                entry = Some(begun);
                let (deadline, change) = (deadline?, change?);
                let text = change.to_string();
                if let Change::Remove { id, .. } = &change {
                    let consensus = &services.cluster.consensus;
                    node_ids::retire(*id, consensus, &services.proposer).await?;
                }
                let stages = services.cluster.changes.begin(change)?;
                follow(stages, text, deadline, &replies).await
            };
            let code = match followed.await {
                Ok(()) => "OK",
                Err(failure) => {
                    let problem = Problem::from(failure);
                    let code = problem.reason().as_str();
                    // A caller that has gone hears nothing.
                    let _gone = replies.send(Err(problem.into_status())).await;
                    code
                }
            };
            timer.answered(code);
            if let Some(entry) = entry {
                entry.ended(|| Ended::with(code));
            }
        });
        Response::new(Box::pin(ReceiverStream::new(stream)))
    }
}

async fn follow(
    mut stages: watch::Receiver<Stage>,
    change: String,
    deadline: Instant,
    replies: &mpsc::Sender<Result<ChangeProgress, Status>>,
) -> Result<(), Failure> {
    loop {
        let stage = stages.borrow_and_update().clone();
        let progress = match &stage {
            Stage::Failed(why) => return Err(why.clone().into()),
            stage => progress(stage, &change),
        };
        let done = progress.stage() == StageName::Done;
        if replies.send(Ok(progress)).await.is_err() || done {
            return Ok(());
        }
        let changed = async {
            sleep(PACE).await;
            timeout(SIGN_OF_LIFE, stages.changed())
                .await
                .unwrap_or(Ok(()))
        };
        tokio::select! {
            changed = timeout_at(deadline, changed) => match changed {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Failure::Stopping("it is shutting down".into())),
                Err(_) => return Err(late(&stage, &change)),
            },
            () = replies.closed() => return Ok(()),
        }
    }
}

fn progress(stage: &Stage, change: &str) -> ChangeProgress {
    let (name, node_id, entries_to_go) = match stage {
        Stage::Waiting => (StageName::Waiting, 0, 0),
        Stage::CatchingUp { id, entries_to_go } => (StageName::CatchingUp, *id, *entries_to_go),
        Stage::Committing => (StageName::Committing, 0, 0),
        Stage::Done { id } => (StageName::Done, *id, 0),
        Stage::Failed(_) => (StageName::Unspecified, 0, 0),
    };
    ChangeProgress {
        stage: name.into(),
        node_id,
        entries_to_go,
        change: change.to_owned(),
    }
}

/// The deadline passed before the end.
fn late(stage: &Stage, change: &str) -> Failure {
    match stage {
        Stage::Waiting => Failure::NoNodeAsked(change.to_owned()),
        stage => Failure::ChangeGoesOn(format!("{change}: {stage}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_seat_and_an_address() {
        assert!(check_place(4, "node-4:7401").is_ok());
        for (seat, address) in [(0, "node-4:7401"), (4, ""), (4, "node-4"), (4, "node-4:0")] {
            assert!(check_place(seat, address).is_err(), "{seat} {address}");
        }
        assert!(check_id(0).is_err());
    }
}
