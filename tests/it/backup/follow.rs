//! The archived log: followed under load while nodes and the command die, and restored to its end,
//! to a revision and to a time.

mod bucket;
mod keys_later;
mod refused;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use helve_node::quantity;
use helve_proto::v1::{CountRequest, GetRequest, HandleStatus};
use helve_tests::{
    archive::Following,
    cluster::Cluster,
    promise,
    wait::{Look, until},
};
use rustix::process::Signal;
use serde_json::Value;

use super::{
    super::{binary, nodes, snapshot::purge_beyond},
    Keys, Ledger, MARK, Minted, STORE, files_with, helve, lose_all, mint_marked, mint_of,
    opens_marked, refusal, report, restore, text, verify,
};

/// Mints between two faults.
const MINTS: usize = 10;

async fn begin(endpoints: &str, to: &Path) -> Result<Following> {
    Following::begin(&binary(), endpoints, to).await
}

/// Mints through the nodes that run, each until one says that it is done.
async fn minted(cluster: &Cluster, all: &mut Vec<Minted>, count: usize) -> Result<u64> {
    let seats = cluster.running();
    let mut turns = seats.iter().cycle();
    for _ in 0..count {
        let mint = mint_of(b"archived");
        let reply = until("a mint to be acknowledged", async || {
            let seat = turns.next().expect("a cycle of some seats never ends");
            Look::of(cluster.caller(*seat).mint(mint.clone()).await)
        })
        .await?;
        all.push(Minted::of(reply)?);
    }
    Ok(all.last().map_or(0, |it| it.revision))
}

/// Checks that the node of seat 1 has these handles, and no other.
async fn has_exactly(cluster: &Cluster, expected: &[&Minted]) -> Result<()> {
    let caller = cluster.caller(1);
    for it in expected {
        let get = GetRequest {
            store: STORE.to_owned(),
            id: it.id.clone(),
            ..GetRequest::default()
        };
        let reply = caller.get(get).await?;
        promise!(
            reply.status() == HandleStatus::Live,
            "{it:?} is lost: {reply:?}"
        );
    }
    let count = CountRequest {
        store: STORE.to_owned(),
        owner: None,
    };
    let live = caller.count(count).await?.live;
    promise!(
        live == expected.len() as u64,
        "{live} handles, not {}",
        expected.len()
    );
    Ok(())
}

/// Restores into the empty directory of seat 1, and starts that node.
async fn restored(cluster: &mut Cluster, to: &Path, more: &[&str]) -> Result<Value> {
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    for seat in cluster.seats() {
        cluster.empty(seat)?;
    }
    let restored = report(&restore(to, &cluster.data_directory(1), more).await?)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    Ok(restored)
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_writes_outlive_nodes_the_command_and_all_disks() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoints = cluster.endpoints().join(",");
    let mut all = Vec::new();
    minted(&cluster, &mut all, MINTS).await?;
    let mut following = begin(&endpoints, &to).await?;
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    // Each node once: the leader and the one that is followed are among them.
    for seat in cluster.seats() {
        cluster.kill(seat)?;
        let last = minted(&cluster, &mut all, MINTS).await?;
        following.archives(last).await?;
        cluster.start(seat)?;
        cluster.all_ready().await?;
    }
    following.end(Signal::KILL).await?;
    minted(&cluster, &mut all, MINTS).await?;
    let mut following = begin(&endpoints, &to).await?;
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    following.brings_back(&cluster).await?;
    let status = following.end(Signal::TERM).await?;
    promise!(status.code() == Some(0), "{status}: {}", following.pages());
    let listed = following.listed().await?;
    promise!(
        listed["log"].as_array().is_some_and(|runs| runs.len() == 1),
        "a run has a gap: {listed}"
    );
    report(&verify(&to).await?)?;
    let archived_term = following.term(&cluster).await?;

    lose_all(&mut cluster)?;
    let restored = report(&restore(&to, &cluster.data_directory(1), &["--to-latest"]).await?)?;
    promise!(
        restored["revision"].as_u64() >= Some(last),
        "{last} is lost: {restored}"
    );
    cluster.start(1)?;
    cluster.ready(1).await?;
    // A leader of a term that entries have already would count them as its own.
    let term = cluster.leader().await?.term;
    promise!(
        term > archived_term,
        "term {term}, behind entries of term {archived_term}"
    );
    let expected: Vec<_> = all.iter().collect();
    has_exactly(&cluster, &expected).await
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_goes_to_a_revision_or_a_time_in_the_middle() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let middle = minted(&cluster, &mut all, MINTS).await?;
    let clock_ms = all.last().context("nothing was minted")?.clock_ms;
    // Until the cluster's time has moved: entries of one millisecond are restored together.
    while all.last().is_some_and(|it| it.clock_ms <= clock_ms) {
        minted(&cluster, &mut all, 1).await?;
    }
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    promise!(
        following.end(Signal::TERM).await?.code() == Some(0),
        "it failed"
    );

    let by_revision = restored(&mut cluster, &to, &["--to-revision", &middle.to_string()]).await?;
    promise!(by_revision["revision"] == middle, "{by_revision}");
    let expected: Vec<_> = all.iter().filter(|it| it.revision <= middle).collect();
    has_exactly(&cluster, &expected).await?;

    let seconds = quantity::time(clock_ms);
    let time = format!("{}.{:03}Z", seconds.trim_end_matches('Z'), clock_ms % 1_000);
    let by_time = restored(&mut cluster, &to, &["--to-time", &time]).await?;
    let expected: Vec<_> = all.iter().filter(|it| it.clock_ms <= clock_ms).collect();
    promise!(
        expected.len() < all.len() && by_time["clock_ms"].as_u64() <= Some(clock_ms),
        "{by_time}"
    );
    has_exactly(&cluster, &expected).await?;

    // Without a flag it is the backup alone.
    let alone = restored(&mut cluster, &to, &[]).await?;
    promise!(alone["revision"] == alone["backup_revision"], "{alone}");
    has_exactly(&cluster, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn purged_log_has_the_command_make_a_new_backup() -> Result<()> {
    let setup = nodes(1).with("HELVE_SNAPSHOT_ENTRIES", "50");
    let mut cluster = setup.with("HELVE_LOG_KEEP_ENTRIES", "10").start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    following.end(Signal::KILL).await?;
    let ledger = Ledger::new("others");
    purge_beyond(&cluster, &ledger, following.archived().await? + 1).await?;
    let mut following = begin(&endpoint, &to).await?;
    until("the new backup", async || match following.listed().await {
        Ok(listed)
            if listed["backups"]
                .as_array()
                .is_some_and(|all| all.len() == 2) =>
        {
            Look::Done(())
        }
        listed => Look::NotYet(format!("{listed:?}")),
    })
    .await?;
    let said = following.pages();
    promise!(said.contains("a new backup is made"), "{said}");
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    promise!(
        following.end(Signal::INT).await?.code() == Some(0),
        "it failed"
    );
    let listed = following.listed().await?;
    let counts = ["backups", "log"].map(|part| listed[part].as_array().map(Vec::len));
    ensure!(counts == [Some(2); 2], "{listed}");
    report(&verify(&to).await?)?;
    // What is before the gap, and what is behind it.
    let middle = all[MINTS - 1].revision;
    restored(&mut cluster, &to, &["--to-revision", &middle.to_string()]).await?;
    let before: Vec<_> = all[..MINTS].iter().collect();
    has_exactly(&cluster, &before).await?;
    restored(&mut cluster, &to, &["--to-latest"]).await?;
    let expected: Vec<_> = all.iter().collect();
    has_exactly(&cluster, &expected).await?;
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn new_backup_waits_until_a_node_can_make_it() -> Result<()> {
    let setup = nodes(3).with("HELVE_SNAPSHOT_ENTRIES", "50");
    let mut cluster = setup.with("HELVE_LOG_KEEP_ENTRIES", "10").start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoints = cluster.endpoints().join(",");
    let mut following = begin(&endpoints, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    following.end(Signal::KILL).await?;
    let ledger = Ledger::new("others");
    let reached = following.archived().await? + 1;
    purge_beyond(&cluster, &ledger, reached).await?;
    // The one that is left says that its log begins too late. It has no majority to make a backup.
    let mut left = None;
    for seat in cluster.seats() {
        let node = cluster.status(seat).await?.node.unwrap_or_default();
        left = left.or((node.purged_index > reached).then_some(seat));
    }
    for seat in cluster.others(left.context("no node has purged its log")?) {
        cluster.kill(seat)?;
    }
    let mut following = begin(&endpoints, &to).await?;
    until("the backup to be tried", async || {
        let said = following.pages();
        if following.has_ended() || said.contains("once a node makes the new backup") {
            Look::Done(())
        } else {
            Look::NotYet(said)
        }
    })
    .await?;
    promise!(!following.has_ended(), "it ended: {}", following.pages());
    cluster.revive()?;
    cluster.all_ready().await?;
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let status = following.end(Signal::TERM).await?;
    promise!(status.code() == Some(0), "{status}: {}", following.pages());
    restored(&mut cluster, &to, &["--to-latest"]).await?;
    has_exactly(&cluster, &all.iter().collect::<Vec<_>>()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_backups_have_the_command_make_a_new_one() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let listed = following.listed().await?;
    let id = listed["backups"][0]["id"].as_str().context("no backup")?;
    report(&helve(&["backup", "delete", text(&to)?, id]).await?)?;
    // None is listed until the command has made another one, which it does once it has entries to keep.
    minted(&cluster, &mut all, 1).await?;
    until("another backup", async || match following.listed().await {
        Ok(listed) if listed["backups"][0]["id"] != *id => Look::Done(()),
        listed => Look::NotYet(format!("{listed:?}")),
    })
    .await?;
    let said = following.pages();
    promise!(said.contains("are gone from"), "{said}");
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let status = following.end(Signal::TERM).await?;
    promise!(status.code() == Some(0), "{status}: {}", following.pages());
    restored(&mut cluster, &to, &["--to-latest"]).await?;
    let expected: Vec<_> = all.iter().collect();
    has_exactly(&cluster, &expected).await
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_of_sealed_values_holds_none_plain_and_needs_its_key() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let marked = mint_marked(&cluster).await?;
    following.archives(marked.revision).await?;
    following.end(Signal::TERM).await?;
    promise!(
        files_with(&to, MARK)?.is_empty(),
        "the archive holds a plain value"
    );
    let held = keys.0.path().to_owned();
    let with_keys = ["--data-keys", text(&held)?];
    let verified = helve(&[&["backup", "verify", text(&to)?][..], &with_keys].concat()).await?;
    report(&verified)?;
    cluster.kill(1)?;
    cluster.empty(1)?;
    let data = cluster.data_directory(1);
    let without = refusal(&restore(&to, &data, &["--to-latest"]).await?, 2)?;
    promise!(without.contains("--data-key"), "{without}");
    let latest = [&["--to-latest"][..], &with_keys].concat();
    report(&restore(&to, &data, &latest).await?)?;
    opens_marked(&mut cluster, marked.id).await
}
