//! The archived log of a cluster whose data keys are switched on meanwhile.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn archive_begins_again_when_data_keys_are_switched_on() -> Result<()> {
    let keys = Keys::new()?;
    let held = keys.0.path().to_owned();
    let held = text(&held)?;
    let mut cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let plain = minted(&cluster, &mut all, MINTS).await?;
    following.archives(plain).await?;
    cluster.kill(1)?;
    cluster.node_mut(1).set("HELVE_DATA_KEYS", held);
    cluster.node_mut(1).set("HELVE_DATA_KEY_MIGRATE", "true");
    cluster.start(1)?;
    cluster.ready(1).await?;
    until("the archive to begin again", async || {
        if let Err(error) = minted(&cluster, &mut all, 1).await {
            return Look::Done(Err(error));
        }
        match following.listed().await {
            Ok(listed)
                if listed["backups"]
                    .as_array()
                    .is_some_and(|all| all.len() == 2) =>
            {
                Look::Done(Ok(()))
            }
            listed => Look::NotYet(format!("{listed:?}: {}", following.pages())),
        }
    })
    .await??;
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let status = following.end(Signal::TERM).await?;
    let said = following.pages();
    promise!(
        status.code() == Some(0) && said.contains("hold data keys now"),
        "{status}: {said}"
    );

    // What is of before is restored without keys, and all that is behind it with them.
    restored(&mut cluster, &to, &["--to-revision", &plain.to_string()]).await?;
    let before: Vec<_> = all.iter().filter(|it| it.revision <= plain).collect();
    has_exactly(&cluster, &before).await?;
    cluster.node_mut(1).set("HELVE_DATA_KEY_MIGRATE", "false");
    restored(&mut cluster, &to, &["--to-latest", "--data-keys", held]).await?;
    has_exactly(&cluster, &all.iter().collect::<Vec<_>>()).await
}
