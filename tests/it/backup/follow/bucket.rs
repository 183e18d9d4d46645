//! The archived log in a bucket: followed under load while connections to the store break, its
//! credentials are refused and its backups are deleted, and restored to a revision.

mod link;

use self::link::{Does, Link};
use super::{
    super::{
        bucket::{Store, TO, environment, helve_at, moto},
        minted_during,
    },
    *,
};

/// Follows into the bucket behind a link.
async fn begin_at(link: &Link, cluster: &Cluster) -> Result<Following> {
    let endpoints = cluster.endpoints().join(",");
    let environment = environment(&link.endpoint);
    let to = Path::new(TO);
    let mut following = Following::start_with(&environment, &binary(), &endpoints, to, &[])?;
    following.archives(0).await?;
    Ok(following)
}

/// Restores from the bucket into the empty directory of seat 1, and starts that node.
async fn restored_from(store: &Store, cluster: &mut Cluster, revision: u64) -> Result<Value> {
    lose_all(cluster)?;
    let data = cluster.data_directory(1);
    let revision = revision.to_string();
    let arguments = ["restore", TO, "--data-dir", text(&data)?, "--to-revision"];
    let restored = store
        .helve(&[&arguments[..], &[revision.as_str()]].concat())
        .await?;
    let restored = report(&restored)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    Ok(restored)
}

/// The ids of the backups in the bucket.
async fn ids(following: &Following) -> Result<Vec<String>> {
    let listed = following.listed().await?;
    let backups = listed["backups"].as_array().context("no backups")?;
    let ids = backups.iter().filter_map(|it| it["id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn log_in_a_bucket_is_followed_under_load_and_restored_to_a_revision() -> Result<()> {
    let Some(moto) = moto() else {
        return Ok(());
    };
    let store = Store::start(&moto).await?;
    let link = Link::to(store.address).await?;
    let mut cluster = nodes(3).start().await?;
    let mut following = begin_at(&link, &cluster).await?;
    let mut all = Vec::new();
    // The open connections break, and two new ones: fewer than one call tries.
    let ((), load) = minted_during(&cluster, link.cut(2)).await?;
    let middle = load.last().context("nothing was minted")?.revision;
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    promise!(!following.has_ended(), "it ended: {}", following.pages());
    let status = following.end(Signal::TERM).await?;
    promise!(status.code() == Some(0), "{status}: {}", following.pages());
    report(&store.helve(&["backup", "verify", TO]).await?)?;

    let restored = restored_from(&store, &mut cluster, middle).await?;
    promise!(restored["revision"] == middle, "{restored}");
    has_exactly(&cluster, &load.iter().collect::<Vec<_>>()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_end_the_archive_and_it_goes_on_behind_them() -> Result<()> {
    let Some(moto) = moto() else {
        return Ok(());
    };
    let store = Store::start(&moto).await?;
    let link = Link::to(store.address).await?;
    let mut cluster = nodes(1).start().await?;
    let mut following = begin_at(&link, &cluster).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    link.now(Does::Refuses);
    let last = minted(&cluster, &mut all, MINTS).await?;
    let status = following.ended().await?;
    let said = following.pages();
    promise!(
        status.code() == Some(2)
            && said.contains("refuses these credentials (InvalidAccessKeyId)")
            && said.contains(TO),
        "{status}: {said}"
    );
    let refused = helve_at(&link.endpoint, &["backup", "list", TO]).await?;
    let said = refusal(&refused, 2)?;
    promise!(said.contains("refuses these credentials"), "{said}");

    link.now(Does::Carries);
    let mut following = begin_at(&link, &cluster).await?;
    following.archives(last).await?;
    promise!(ids(&following).await?.len() == 1, "a second backup is made");
    following.end(Signal::TERM).await?;
    restored_from(&store, &mut cluster, last).await?;
    has_exactly(&cluster, &all.iter().collect::<Vec<_>>()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_whose_backups_are_deleted_goes_on_behind_a_new_one() -> Result<()> {
    let Some(moto) = moto() else {
        return Ok(());
    };
    let store = Store::start(&moto).await?;
    let link = Link::to(store.address).await?;
    let mut cluster = nodes(1).start().await?;
    let mut following = begin_at(&link, &cluster).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let first = ids(&following).await?;
    let id = first.first().context("there is no backup")?;
    report(&store.helve(&["backup", "delete", TO, id.as_str()]).await?)?;
    // A segment shows that the backup is gone.
    until("a new backup", async || {
        if let Err(error) = minted(&cluster, &mut all, 1).await {
            return Look::Done(Err(error));
        }
        match ids(&following).await {
            Ok(found) if !found.is_empty() && !found.contains(id) => Look::Done(Ok(())),
            found => Look::NotYet(format!("{found:?}: {}", following.pages())),
        }
    })
    .await??;
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let said = following.pages();
    promise!(said.contains("are gone from"), "{said}");
    let status = following.end(Signal::TERM).await?;
    promise!(status.code() == Some(0), "{status}: {}", following.pages());
    restored_from(&store, &mut cluster, last).await?;
    has_exactly(&cluster, &all.iter().collect::<Vec<_>>()).await
}
