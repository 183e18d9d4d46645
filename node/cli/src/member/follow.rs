//! A change of members, followed to its end: over changes of leaders and lost connections, by asking again.

use std::{io::IsTerminal as _, time::Duration};

use anyhow::anyhow;
use helve_client::NodeConnection;
use helve_command::{
    cluster::{ClusterArgs, ending_of_change, reason, request, transport},
    ending::{Cause, Caused, Ending, said},
    output::{self, count},
};
use helve_proto::{
    Reason,
    v1::{
        AddMemberRequest, ChangeProgress, PromoteMemberRequest, RemoveMemberRequest,
        ReplaceMemberRequest, change_progress::Stage, cluster_service_client::ClusterServiceClient,
    },
};
use indicatif::ProgressBar;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status, Streaming};

use crate::status;

/// The longest time that one call may take; the next one follows the same change.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// Between two calls.
const PAUSE: Duration = Duration::from_millis(500);

/// A leader that says nothing for longer hangs: it gives a sign of life every second.
const SILENCE_MAX: Duration = Duration::from_secs(4);

/// The least time that is worth a call.
const CALL_MIN: Duration = Duration::from_millis(100);

/// What an operator wants.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    Add(AddMemberRequest),
    Remove(RemoveMemberRequest),
    Replace(ReplaceMemberRequest),
    Promote(PromoteMemberRequest),
}

impl Wish {
    /// Without this member once it is done.
    pub(super) fn leaving(&self) -> Option<u64> {
        match self {
            Self::Add(_) | Self::Promote(_) => None,
            Self::Remove(wish) => Some(wish.id),
            Self::Replace(wish) => Some(wish.id),
        }
    }

    /// The id of the node of which this refusal says that an earlier call of this command has carried the change out.
    fn was_done(&self, begun: Begun, ending: &Ending) -> Option<u64> {
        let (id, done) = match self {
            Self::Promote(wish) => (wish.id, Reason::AlreadyVoter),
            Self::Remove(wish) => (wish.id, Reason::NoMember),
            Self::Add(_) | Self::Replace(_) => return None,
        };
        let is_done = ending
            .caused()
            .is_some_and(|caused| caused.cause == Cause::Told(done));
        (begun == Begun::Maybe && is_done).then_some(id)
    }

    async fn ask(
        &self,
        channel: NodeConnection,
        timeout: Duration,
    ) -> Result<Streaming<ChangeProgress>, Status> {
        let mut client = ClusterServiceClient::new(channel);
        let answer = match self {
            Self::Add(wish) => client.add_member(request(wish.clone(), timeout)).await,
            Self::Remove(wish) => client.remove_member(request(*wish, timeout)).await,
            Self::Replace(wish) => client.replace_member(request(wish.clone(), timeout)).await,
            Self::Promote(wish) => client.promote_member(request(*wish, timeout)).await,
        };
        answer.map(tonic::Response::into_inner)
    }
}

/// How one call ended that was not the end of the change.
enum Ended {
    /// The same call may go on.
    Again(anyhow::Error, Begun),
    /// Nothing answers. It may go on if something did before.
    Silence(Ending),
    For(Ending),
}

impl Ended {
    /// As what ended a call that has shown this before.
    fn after(self, shown: Begun) -> Self {
        match self {
            Self::Again(why, Begun::No) => Self::Again(why, shown),
            other => other,
        }
    }
}

/// Whether a call may have begun the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Maybe,
    No,
}

/// Has a change carried out, and shows how it goes. Returns the id of the node that it was about.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn carry_out(
    wish: &Wish,
    wait: Duration,
    cluster: &ClusterArgs,
) -> Result<u64, Ending> {
    let end = Instant::now() + wait;
    let mut screen = Screen::new();
    let (mut was_answered, mut begun) = (false, Begun::No);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let why = match attempt(wish, left.max(CALL_MIN), cluster, &mut screen).await {
            Ok(id) => return Ok(id),
            // A cluster that is changing may be silent for a while; one that never answered is not there.
            Err(Ended::Silence(ending)) if !was_answered => return Err(ending),
            Err(Ended::Silence(ending)) => anyhow!(said(&**ending.error())),
            Err(Ended::For(ending)) => {
                let done = wish.was_done(begun, &ending);
                return done.ok_or_else(|| ending_after(begun, ending));
            }
            Err(Ended::Again(why, now)) => {
                was_answered = true;
                if now == Begun::Maybe {
                    begun = now;
                }
                why
            }
        };
        if Instant::now() + CALL_MIN >= end {
            let why = why.context("not done within --wait; run the same command to continue");
            return Err(match begun {
                Begun::Maybe => Ending::Unknown(why),
                Begun::No => Ending::NotNow(why),
            });
        }
        screen.show(&format!("{why:#}; asking again"));
        sleep(PAUSE).await;
    }
}

async fn attempt(
    wish: &Wish,
    left: Duration,
    cluster: &ClusterArgs,
    screen: &mut Screen,
) -> Result<u64, Ended> {
    let leader = match status::leader_address(cluster).await {
        Ok(leader) => leader,
        Err(Ending::Unanswered(why)) if is_leaderless(&why) => {
            return Err(Ended::Again(why, Begun::No));
        }
        Err(ending @ Ending::Unanswered(_)) => return Err(Ended::Silence(ending)),
        Err(ending) => return Err(Ended::For(ending)),
    };
    let channel = cluster
        .channel(&leader)
        .map_err(|e| Ended::For(Ending::Refused(e)))?;
    let limit = left.min(CALL_LIMIT);
    // A node that hangs does not keep its own deadline.
    let late = || Ended::Again(anyhow!("the leader does not answer"), Begun::Maybe);
    let progress = async {
        let mut progress = wish.ask(channel, limit).await.map_err(|s| ended(&s))?;
        let mut begun = Begun::No;
        loop {
            let next = tokio::time::timeout(SILENCE_MAX, progress.message()).await;
            let next = next.map_err(|_| late())?;
            let next = next.map_err(|s| ended(&s).after(begun))?;
            let stopped = || Ended::Again(anyhow!("the leader stopped reporting"), Begun::Maybe);
            let next = next.ok_or_else(stopped)?;
            match next.stage() {
                Stage::Done => return Ok(next.node_id),
                // The next leader goes on with it.
                Stage::CatchingUp | Stage::Committing => begun = Begun::Maybe,
                Stage::Waiting | Stage::Unspecified => {}
            }
            screen.show(&words(&next));
        }
    };
    let done = tokio::time::timeout(limit + PAUSE, progress).await;
    done.unwrap_or_else(|_| Err(late()))
}

/// How a change ends that an earlier call may have begun: only a node's word on it tells.
fn ending_after(begun: Begun, ending: Ending) -> Ending {
    let caused = ending.caused();
    let is_of_node = caused.is_some_and(|caused| matches!(caused.cause, Cause::Told(_)));
    if begun == Begun::No || is_of_node {
        return ending;
    }
    let why = said(&**ending.error());
    Ending::Unknown(anyhow!(
        "the change may have begun, and goes on by itself then; run the same command to continue: {why}"
    ))
}

/// Whether nodes answer, and have no leader.
fn is_leaderless(why: &anyhow::Error) -> bool {
    let caused = why.downcast_ref::<Caused>();
    caused.is_some_and(|caused| caused.cause == Cause::NoQuorum)
}

fn ended(status: &Status) -> Ended {
    let again = match reason(status) {
        Some(Reason::NotLeading | Reason::NoLeader | Reason::Stopping | Reason::Ambiguous) => true,
        Some(Reason::ChangeUnderWay | Reason::NodeSilent) => {
            status.code() == Code::DeadlineExceeded
        }
        Some(_) => false,
        None => matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
        ),
    };
    let ending = ending_of_change(status);
    if !again {
        return Ended::For(ending);
    }
    let goes_on = reason(status) == Some(Reason::ChangeUnderWay);
    let begun = if goes_on || matches!(ending, Ending::Unknown(_)) {
        Begun::Maybe
    } else {
        Begun::No
    };
    Ended::Again(anyhow!("{}", transport(status)), begun)
}

fn words(progress: &ChangeProgress) -> String {
    let (change, id) = (&progress.change, progress.node_id);
    match progress.stage() {
        Stage::Waiting => format!("{change}: waiting for the node to ask for its seat"),
        Stage::CatchingUp => format!(
            "{change}: node {id} catches up, {} entries to go",
            count(progress.entries_to_go)
        ),
        Stage::Committing => format!("{change}: the voters agree on it"),
        Stage::Done | Stage::Unspecified => change.clone(),
    }
}

/// Shows what goes on, on standard error: one line that changes on a terminal, else a line whenever something else happens.
struct Screen {
    bar: Option<ProgressBar>,
    said: String,
}

impl Screen {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self {
            bar,
            said: String::new(),
        }
    }

    fn show(&mut self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            return;
        }
        // In a log, entries to go are not worth a line each.
        let what = text.split_once(',').map_or(text, |(what, _)| what);
        if what != self.said {
            output::say(format_args!("{text}"));
            what.clone_into(&mut self.said);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use helve_proto::ERROR_DOMAIN;
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    fn status(code: Code, reason: Reason) -> Status {
        let details = ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, HashMap::new());
        Status::with_error_details(code, "", details)
    }

    #[test]
    fn entries_to_go_are_told_in_millions() {
        let progress = ChangeProgress {
            stage: Stage::CatchingUp.into(),
            entries_to_go: 12_345_678,
            ..ChangeProgress::default()
        };
        let said = words(&progress);
        assert!(said.ends_with("12.35M entries to go"), "{said}");
    }

    #[test]
    fn change_that_may_have_begun_is_ended_by_a_nodes_word_alone() {
        let of = |cause| Ending::Refused(Caused::new(cause, "why").into());
        let ends = |begun, cause| ending_after(begun, of(cause)).status();
        assert_eq!(ends(Begun::No, Cause::ProxyRefuses), 2);
        assert_eq!(ends(Begun::Maybe, Cause::ProxyRefuses), 5);
        assert_eq!(ends(Begun::Maybe, Cause::NotHelve), 5);
        assert_eq!(ends(Begun::Maybe, Cause::Told(Reason::QuorumAtRisk)), 2);
    }

    #[test]
    fn change_is_done_already_only_if_an_earlier_call_may_have_done_it() {
        let told = |reason| Ending::NotNow(Caused::new(Cause::Told(reason), "why").into());
        let promote = Wish::Promote(PromoteMemberRequest { id: 4 });
        let remove = Wish::Remove(RemoveMemberRequest {
            id: 5,
            ..RemoveMemberRequest::default()
        });
        let wishes = [
            (promote, 4, Reason::AlreadyVoter, Reason::StaysLearner),
            (remove, 5, Reason::NoMember, Reason::AlreadyVoter),
        ];
        for (wish, id, done, other) in wishes {
            assert_eq!(wish.was_done(Begun::Maybe, &told(done)), Some(id));
            assert_eq!(wish.was_done(Begun::No, &told(done)), None);
            assert_eq!(wish.was_done(Begun::Maybe, &told(other)), None);
        }
    }

    #[test]
    fn leader_that_lost_its_office_in_the_middle_of_a_change_may_have_begun_it() {
        let lost = || ended(&status(Code::FailedPrecondition, Reason::NotLeading));
        assert!(matches!(
            lost().after(Begun::Maybe),
            Ended::Again(_, Begun::Maybe)
        ));
        assert!(matches!(
            lost().after(Begun::No),
            Ended::Again(_, Begun::No)
        ));
    }

    #[test]
    fn what_another_call_can_finish_is_asked_again_and_a_refusal_is_not() {
        let again = [
            (
                status(Code::FailedPrecondition, Reason::NotLeading),
                Begun::No,
            ),
            (status(Code::Unavailable, Reason::Ambiguous), Begun::Maybe),
            (
                status(Code::DeadlineExceeded, Reason::ChangeUnderWay),
                Begun::Maybe,
            ),
            (
                status(Code::DeadlineExceeded, Reason::NodeSilent),
                Begun::No,
            ),
            (Status::unavailable("connection reset"), Begun::Maybe),
        ];
        for (status, expected) in again {
            assert!(
                matches!(ended(&status), Ended::Again(_, begun) if begun == expected),
                "{status}"
            );
        }
        let refused = [
            status(Code::FailedPrecondition, Reason::ChangeUnderWay),
            status(Code::FailedPrecondition, Reason::QuorumAtRisk),
            status(Code::NotFound, Reason::NoMember),
            status(Code::InvalidArgument, Reason::BadRequest),
        ];
        for status in refused {
            assert!(matches!(ended(&status), Ended::For(_)), "{status}");
        }
    }
}
