//! Claims of a backup.

use anyhow::{Context as _, Result, ensure};
use helve_proto::v1::{ClaimReply, ClaimStatus};
use helve_tests::{cluster::Cluster, promise};

use super::{
    super::{
        claims::{begin, claim, finish, known},
        nodes,
    },
    back_up, lose_all, report, restore,
};

/// More entries than a new cluster writes by itself before its first claim.
const LOST: usize = 100;

async fn begun(cluster: &Cluster, id: &str) -> Result<ClaimReply> {
    let reply = cluster.caller(1).claim(claim(id, begin(b""))).await?;
    ensure!(reply.status() == ClaimStatus::Fresh, "{reply:?}");
    Ok(reply)
}

/// Claims and finishes, and answers the reply to the begin.
async fn finished(cluster: &Cluster, id: &str) -> Result<ClaimReply> {
    let lease = begun(cluster, id).await?;
    let finish = claim(id, finish(lease.fence, b"receipt"));
    let reply = cluster.caller(1).claim(finish).await?;
    ensure!(reply.status() == ClaimStatus::Finished, "{reply:?}");
    Ok(lease)
}

#[tokio::test]
async fn claims_since_a_backup_are_gone_after_its_restore() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    known(&cluster.caller(1)).await?;
    finished(&cluster, "kept").await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    report(&back_up(&cluster, 1, &to).await?)?;
    for at in 0..LOST {
        begun(&cluster, &format!("lost-{at}")).await?;
    }
    let lost = finished(&cluster, "order").await?;

    lose_all(&mut cluster)?;
    let restored = report(&restore(&to, &cluster.data_directory(1), &[]).await?)?;
    cluster.start(1)?;
    cluster.ready(1).await?;

    let again = cluster.caller(1).claim(claim("kept", begin(b""))).await?;
    promise!(
        again.status() == ClaimStatus::Done && again.value == "receipt",
        "behind its finish a begin was answered with {again:?}"
    );
    // What the pages warn of: the result is gone, and the fence is lower than one that was given.
    let again = begun(&cluster, "order").await?;
    let revision = restored["revision"].as_u64().context("no revision")?;
    promise!(
        revision < again.fence && again.fence < lost.fence,
        "behind revision {revision}, and {lost:?}: {again:?}"
    );
    Ok(())
}
