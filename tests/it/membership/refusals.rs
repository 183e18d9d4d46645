//! Changes of members that are refused.

use anyhow::{Context as _, Result};
use helve_proto::{
    Reason,
    v1::{
        AddMemberRequest, ChangeProgress, RemoveMemberRequest, ReplaceMemberRequest,
        change_progress::Stage, cluster_service_client::ClusterServiceClient,
    },
};
use helve_tests::{
    caller::{reason, with_deadline},
    cluster::Cluster,
    promise,
    wait::{Look, until},
};
use tonic::{Code, Response, Status, Streaming, transport::Channel};

use super::{members_are, node, place, run};
use crate::{
    command_line::{ABSENT, NOT_NOW, UNAVAILABLE, USAGE},
    nodes,
};

/// More than the time after which the node counts a member as silent.
const SILENCE_MS: u64 = 2_100;

type Client = ClusterServiceClient<Channel>;

fn client(cluster: &Cluster, seat: u64) -> Client {
    Client::new(cluster.caller(seat).channel())
}

/// How a change ended.
async fn end(answer: Result<Response<Streaming<ChangeProgress>>, Status>) -> Result<u64, Status> {
    let mut progress = answer?.into_inner();
    loop {
        match progress.message().await? {
            Some(one) if one.stage() == Stage::Done => return Ok(one.node_id),
            Some(_) => {}
            None => return Err(Status::internal("the stream ended without an end")),
        }
    }
}

async fn remove(cluster: &Cluster, seat: u64, id: u64) -> Result<u64, Status> {
    let wish = RemoveMemberRequest {
        id,
        even_without_quorum: false,
    };
    end(client(cluster, seat)
        .remove_member(with_deadline(wish))
        .await)
    .await
}

async fn add(cluster: &Cluster, at: u64, seat: u64, peer: &str) -> Result<u64, Status> {
    let wish = AddMemberRequest {
        seat,
        peer_address: peer.to_owned(),
        learner: false,
    };
    end(client(cluster, at).add_member(with_deadline(wish)).await).await
}

fn refused(ended: Result<u64, Status>) -> (Code, Option<Reason>) {
    match ended {
        Ok(_) => (Code::Ok, None),
        Err(status) => (status.code(), reason(&status)),
    }
}

#[tokio::test]
async fn a_change_that_makes_no_sense_is_refused_by_its_reason() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?;
    let (at, other) = (leader.seat, cluster.others(leader.seat)[0]);
    let (_, peer) = place(&cluster, other);
    let not_possible = |reason| (Code::FailedPrecondition, Some(reason));
    let malformed = (Code::InvalidArgument, Some(Reason::BadRequest));
    let cases = [
        (add(&cluster, at, 0, "h:1").await, malformed),
        (add(&cluster, at, 4, "").await, malformed),
        (add(&cluster, at, 4, "h").await, malformed),
        (remove(&cluster, at, 0).await, malformed),
        (
            remove(&cluster, at, 77).await,
            (Code::NotFound, Some(Reason::NoMember)),
        ),
        (
            add(&cluster, at, other, "elsewhere:7401").await,
            not_possible(Reason::SeatTaken),
        ),
        (
            add(&cluster, at, 4, &peer).await,
            not_possible(Reason::SeatTaken),
        ),
        (
            remove(&cluster, other, 77).await,
            not_possible(Reason::NotLeading),
        ),
    ];
    for (n, (ended, expected)) in cases.into_iter().enumerate() {
        assert_eq!(refused(ended), expected, "case {n}");
    }
    let replace = ReplaceMemberRequest {
        id: 77,
        seat: 4,
        peer_address: "h:1".to_owned(),
    };
    let replaced = client(&cluster, at)
        .replace_member(with_deadline(replace))
        .await;
    assert_eq!(
        refused(end(replaced).await),
        (Code::NotFound, Some(Reason::NoMember))
    );
    let unchanged = cluster.status(at).await?;
    promise!(
        unchanged.members.len() == 3 && unchanged.change.is_empty(),
        "{unchanged:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_removal_that_would_cost_the_quorum_is_refused() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let [dead, living] = cluster.others(leader)[..] else {
        anyhow::bail!("three nodes have two followers");
    };
    let (dead_id, living_id) = (
        node(&cluster, dead).await?.id,
        node(&cluster, living).await?.id,
    );
    cluster.kill(dead)?;
    silent(&cluster, leader, dead_id).await?;
    assert_eq!(
        refused(remove(&cluster, leader, living_id).await),
        (Code::FailedPrecondition, Some(Reason::QuorumAtRisk))
    );
    // The dead one may: afterwards all voters answer.
    assert_eq!(remove(&cluster, leader, dead_id).await?, dead_id);
    assert_eq!(remove(&cluster, leader, living_id).await?, living_id);
    let own = node(&cluster, leader).await?.id;
    assert_eq!(
        refused(remove(&cluster, leader, own).await),
        (Code::FailedPrecondition, Some(Reason::QuorumAtRisk)),
        "the last voter"
    );
    Ok(())
}

#[tokio::test]
async fn a_second_change_is_refused_while_one_is_under_way() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?;
    let mut first_client = client(&cluster, leader.seat);
    let wish = AddMemberRequest {
        seat: 4,
        peer_address: "nowhere.invalid:7401".to_owned(),
        learner: false,
    };
    let waiting = first_client.add_member(with_deadline(wish)).await?;
    let mut waiting = waiting.into_inner();
    let first = waiting.message().await?.context("no progress")?;
    assert_eq!(first.stage(), Stage::Waiting);

    let follower = cluster.others(leader.seat)[0];
    let id = node(&cluster, follower).await?.id;
    let status = remove(&cluster, leader.seat, id)
        .await
        .expect_err("one at a time");
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::FailedPrecondition, Some(Reason::ChangeUnderWay))
    );
    promise!(
        status.message().contains("adding seat 4"),
        "it does not say what is under way: {status}"
    );
    // The deadline of the first one passes, and it has changed nothing.
    let late = end(Ok(Response::new(waiting))).await;
    assert_eq!(
        refused(late),
        (Code::DeadlineExceeded, Some(Reason::NodeSilent))
    );
    assert_eq!(remove(&cluster, leader.seat, id).await?, id);
    cluster.kill(follower)?;
    members_are(&cluster, "two members", |members| members.len() == 2).await?;
    Ok(())
}

#[tokio::test]
async fn the_command_line_says_how_a_change_ended() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let absent = run(&cluster, &[1], &["remove", "9"]).await?;
    assert_eq!(absent.status.code(), Some(ABSENT), "{absent:?}");
    let malformed = run(&cluster, &[1], &["add", "--seat", "2", "--peer", "nowhere"]).await?;
    assert_eq!(malformed.status.code(), Some(USAGE), "{malformed:?}");
    let last = run(&cluster, &[1], &["remove", "1"]).await?;
    let said = String::from_utf8_lossy(&last.stderr);
    assert_eq!(last.status.code(), Some(NOT_NOW), "{said}");
    assert!(said.contains("last voter"), "{said}");
    let unasked = ["add", "--seat", "2", "--peer", "h:7401", "--wait", "1s"];
    let unasked = run(&cluster, &[1], &unasked).await?;
    let said = String::from_utf8_lossy(&unasked.stderr);
    assert_eq!(unasked.status.code(), Some(NOT_NOW), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    let listed = super::told(&cluster, &[1], &["list"]).await?;
    let members = listed["members"].as_array().context("no members")?;
    assert_eq!(members.len(), 1, "{listed}");
    assert_eq!(members[0]["leader"], true, "{listed}");
    assert!(
        members[0]["uuid"]
            .as_str()
            .is_some_and(|uuid| uuid.len() == 36)
    );
    cluster.kill(1)?;
    let away = run(&cluster, &[1], &["list"]).await?;
    assert_eq!(away.status.code(), Some(UNAVAILABLE), "{away:?}");
    Ok(())
}

/// Waits until the leader has not heard of a member for longer than a member may be silent.
pub(super) async fn silent(cluster: &Cluster, leader: u64, id: u64) -> Result<()> {
    until("the dead node to count as silent", async || {
        let members = match cluster.status(leader).await {
            Ok(status) => status.members,
            Err(error) => return Look::NotYet(error.to_string()),
        };
        let member = members.into_iter().find(|member| member.id == id);
        match member.and_then(|member| member.silent_ms) {
            Some(ms) if ms > SILENCE_MS => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}
