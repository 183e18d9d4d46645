//! A leader that is asked to stop hands leadership on.

use anyhow::Result;
use helve_proto::v1::TransferLeaderRequest;
use helve_tests::promise;

use super::nodes;

#[tokio::test]
async fn leadership_goes_to_the_voter_that_is_asked_for() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?;
    let heir = cluster.others(leader.seat)[1];
    let heir_id = cluster.status(heir).await?.node.unwrap_or_default().id;
    let reply = cluster
        .caller(leader.seat)
        .transfer_leader(TransferLeaderRequest { to: heir_id })
        .await?;
    promise!(
        reply.leader_id == heir_id && reply.term > leader.term,
        "asked for {heir_id}, got {reply:?}"
    );
    assert_eq!(cluster.leader().await?.seat, heir);
    Ok(())
}
