//! A client of one file, in another language and without libraries, keeps its promises while the leader dies.

use std::{collections::BTreeSet, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use helve_client::{ClusterBuilder, HandleOptions, HandleStore as _, Resolved};
use helve_tests::fault::left_out;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use super::nodes;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/java/Handles.java");
const HANDLES: usize = 120;
/// After this many the leader dies.
const BEFORE: usize = 40;

#[tokio::test]
async fn java_example_loses_nothing_while_the_leader_dies() -> Result<()> {
    let java = Command::new("java").arg("-version").output().await;
    let missing = java
        .err()
        .map(|error| format!("java does not run: {error} (install default-jdk-headless)"));
    if left_out("the example in Java", missing).is_some() {
        return Ok(());
    }
    let mut cluster = nodes(3).start().await?;
    let url = |seat| format!("http://{}", cluster.listeners(seat).client);
    let urls: Vec<_> = cluster.seats().into_iter().map(url).collect();
    let mut java = Command::new("java")
        .args([EXAMPLE, &urls.join(","), &HANDLES.to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = java.stdout.take().context("it prints")?;
    let mut lines = BufReader::new(output).lines();
    let mut ids = Vec::new();
    while let Some(id) = lines.next_line().await? {
        ids.push(id);
        if ids.len() == BEFORE {
            let leader = cluster.leader().await?.seat;
            cluster.kill(leader)?;
        }
    }
    let ended = java.wait().await?;
    ensure!(
        ended.success() && ids.len() == HANDLES,
        "{ended}, {} handles",
        ids.len()
    );
    let client = ClusterBuilder::new(cluster.endpoints()).build()?;
    let handles = client.handles::<u64>(HandleOptions::shared("java"));
    for id in &ids {
        let found = handles.resolve(id).await?;
        ensure!(
            matches!(&found, Resolved::Live(live) if live.value == 42),
            "{id}: {found:?}"
        );
    }
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), HANDLES);
    // A mint that took effect twice would have left one more.
    assert_eq!(handles.list().await?.items.len(), HANDLES);
    Ok(())
}
