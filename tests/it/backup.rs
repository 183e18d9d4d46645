//! Backups: made under load, restored as a new cluster, refused where they are damaged, cut short
//! or of another version.

mod bucket;
mod claimed;
#[cfg(feature = "planted")]
pub(super) mod cut_short;
mod damage;
mod disk;
mod follow;
mod rights;
#[cfg(feature = "planted")]
mod stopped;

use std::{path::Path, process::Output};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join;
use helve_machine::limits::FEATURE_LEVEL;
use helve_proto::v1::{CountRequest, GetRequest, HandleStatus, MintReply, MintRequest};
use helve_tests::{
    caller::new_identity,
    cluster::Cluster,
    digest::agree,
    ledger::Ledger,
    on_disk::files_with,
    promise,
    wait::{Look, until},
};
use serde_json::Value;
use tokio::process::Command;

use super::{
    binary, membership, nodes,
    recover::page_says,
    sealed::{Keys, MARK},
    upgrade::every_node_says,
};

const MINTS: usize = 40;
const STORE: &str = "carts";

/// Runs `helve`, without holding up the test.
pub(super) async fn helve(arguments: &[&str]) -> Result<Output> {
    let command = Command::new(binary())
        .args(arguments)
        .args(["--output", "json"])
        .kill_on_drop(true)
        .output();
    Ok(command.await?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path of a test is UTF-8")
}

/// Backs up through the node of a seat.
pub(super) async fn back_up(cluster: &Cluster, seat: u64, to: &Path) -> Result<Output> {
    let endpoint = cluster.listeners(seat).client.to_string();
    helve(&["backup", text(to)?, "--endpoints", &endpoint]).await
}

pub(super) async fn verify(to: &Path) -> Result<Output> {
    helve(&["backup", "verify", text(to)?]).await
}

pub(super) async fn restore(from: &Path, data_dir: &Path, more: &[&str]) -> Result<Output> {
    let arguments = ["restore", text(from)?, "--data-dir", text(data_dir)?];
    helve(&[&arguments[..], more].concat()).await
}

/// What a command printed, which must have succeeded.
pub(super) fn report(output: &Output) -> Result<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What a command said that ended with this status.
pub(super) fn refusal(output: &Output, status: i32) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(status), "{output:?}");
    Ok(said)
}

pub(super) async fn mint(ledger: &Ledger, cluster: &Cluster, mints: usize) -> Result<()> {
    let seats = cluster.running().into_iter();
    let callers: Vec<_> = seats.map(|seat| cluster.caller(seat)).collect();
    ledger.mint_many(&callers, mints).await
}

/// Loses all nodes, with their disks.
pub(super) fn lose_all(cluster: &mut Cluster) -> Result<()> {
    for seat in cluster.running() {
        cluster.kill(seat)?;
    }
    for seat in cluster.seats() {
        cluster.empty(seat)?;
    }
    Ok(())
}

/// A handle whose mint was acknowledged, with the revision and the cluster's time of that.
#[derive(Debug, Clone)]
struct Minted {
    id: String,
    revision: u64,
    clock_ms: u64,
}

impl Minted {
    fn of(reply: MintReply) -> Result<Self> {
        let info = reply.info.context("a mint says what it made")?;
        Ok(Self {
            id: info.name,
            revision: info.revision,
            clock_ms: reply.header.context("a reply has a header")?.clock_ms,
        })
    }
}

fn mint_of(value: &'static [u8]) -> MintRequest {
    MintRequest {
        identity: Some(new_identity()),
        store: STORE.to_owned(),
        value: value.into(),
        ..MintRequest::default()
    }
}

/// Mints [`MARK`] through the node of seat 1, once the cluster seals.
async fn mint_marked(cluster: &Cluster) -> Result<Minted> {
    let (caller, mint) = (cluster.caller(1), mint_of(MARK));
    let minted = until("a mint to be sealed", async || {
        Look::of(caller.mint(mint.clone()).await)
    });
    Minted::of(minted.await?)
}

/// Starts the node of seat 1, which must open this handle's value.
async fn opens_marked(cluster: &mut Cluster, id: String) -> Result<()> {
    cluster.start(1)?;
    cluster.ready(1).await?;
    let get = GetRequest {
        store: STORE.to_owned(),
        id,
        ..GetRequest::default()
    };
    let reply = cluster.caller(1).get(get).await?;
    promise!(&reply.value[..] == MARK, "{reply:?}");
    Ok(())
}

/// Mints through every node until the future beside it has ended.
async fn minted_during<T>(
    cluster: &Cluster,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Vec<Minted>)> {
    let (done, mut over) = tokio::sync::watch::channel(false);
    let load = async {
        let mut minted = Vec::new();
        let seats = cluster.running();
        for seat in seats.iter().cycle() {
            let (caller, mint) = (cluster.caller(*seat), mint_of(b"load"));
            // On a busy machine the leader may change meanwhile.
            let reply = until("a mint to be acknowledged", async || {
                Look::of(caller.mint(mint.clone()).await)
            });
            minted.push(Minted::of(reply.await?)?);
            if *over.borrow_and_update() && minted.len() >= MINTS {
                break;
            }
        }
        Ok(minted)
    };
    let work = async {
        let worked = work.await;
        done.send_replace(true);
        worked
    };
    try_join(work, load).await
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_backup_has_every_write_up_to_its_revision_and_no_other() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let before = Ledger::new("before");
    mint(&before, &cluster, MINTS).await?;
    let first = report(&back_up(&cluster, 1, &to).await?)?;
    promise!(first["kept_bytes"] == 0, "{first}");
    let backed_up = async { report(&back_up(&cluster, 1, &to).await?) };
    let (backup, minted) = minted_during(&cluster, backed_up).await?;
    let revision = backup["revision"].as_u64().context("no revision")?;
    promise!(
        backup["kept_bytes"].as_u64() > Some(0) && backup["id"] != first["id"],
        "nothing was kept: {backup}"
    );
    let listed = report(&helve(&["backup", "list", text(&to)?]).await?)?;
    promise!(
        listed["backups"]
            .as_array()
            .is_some_and(|all| all.len() == 2),
        "{listed}"
    );
    report(&verify(&to).await?)?;

    lose_all(&mut cluster)?;
    let restored = report(&restore(&to, &cluster.data_directory(1), &[]).await?)?;
    promise!(
        restored["backup"] == backup["id"]
            && restored["digest"] == backup["digest"]
            && restored["cluster_id"] != backup["cluster_id"],
        "{restored} of {backup}"
    );
    cluster.start(1)?;
    cluster.ready(1).await?;
    before.check(&cluster).await?;
    let held: Vec<_> = minted.iter().filter(|it| it.revision <= revision).collect();
    let caller = cluster.caller(1);
    for it in &held {
        let get = GetRequest {
            store: STORE.to_owned(),
            id: it.id.clone(),
            ..GetRequest::default()
        };
        let reply = caller.get(get).await?;
        promise!(
            reply.status() == HandleStatus::Live,
            "{} is lost: {reply:?}",
            it.id
        );
    }
    let count = CountRequest {
        store: STORE.to_owned(),
        owner: None,
    };
    let live = caller.count(count).await?.live;
    promise!(
        live == held.len() as u64,
        "{live} handles, not {}",
        held.len()
    );

    // The new cluster grows from its first node.
    for seat in [2, 3] {
        cluster.start(seat)?;
        page_says(&cluster, seat, &format!("helve member add --seat {seat}")).await?;
        membership::add(&cluster, seat).await?;
        cluster.ready(seat).await?;
    }
    mint(&before, &cluster, MINTS).await?;
    before.check(&cluster).await?;
    agree(&cluster).await
}

#[tokio::test]
async fn backup_is_restored_into_an_empty_directory_alone() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    report(&back_up(&cluster, 1, &to).await?)?;
    let running = restore(&to, &cluster.data_directory(1), &[]).await?;
    let said = refusal(&running, 2)?;
    promise!(
        said.contains("--data-dir") && said.contains("not empty"),
        "{said}"
    );
    let unknown = restore(&to, &data, &["--backup", "01234567-1"]).await?;
    let said = refusal(&unknown, 2)?;
    promise!(
        said.contains("helve backup list") && !data.exists(),
        "{said}"
    );
    report(&restore(&to, &data, &["--id", "3"]).await?)?;
    let identity: Value = serde_json::from_slice(&std::fs::read(data.join("node.json"))?)?;
    promise!(
        identity["seat"] == 3 && identity["recovering"] == false,
        "{identity}"
    );
    let again = refusal(&restore(&to, &data, &[]).await?, 2)?;
    promise!(again.contains("not empty"), "{again}");
    Ok(())
}

#[tokio::test]
async fn backup_of_sealed_values_holds_none_plain_and_needs_their_key() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup_of(1).start().await?;
    let marked = mint_marked(&cluster).await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let backup = report(&back_up(&cluster, 1, &to).await?)?;
    promise!(
        files_with(&to, MARK)?.is_empty(),
        "the backup holds a plain value"
    );
    let key = backup["data_key_ids"][0]
        .as_str()
        .context("no key is named")?;
    lose_all(&mut cluster)?;
    let data = cluster.data_directory(1);
    let without = refusal(&restore(&to, &data, &[]).await?, 2)?;
    promise!(
        without.contains(key) && without.contains("--data-key"),
        "{without}"
    );
    let held = keys.0.path().to_owned();
    report(&restore(&to, &data, &["--data-keys", text(&held)?]).await?)?;
    opens_marked(&mut cluster, marked.id).await
}

#[tokio::test]
async fn backup_that_somebody_else_made_is_not_restored_with_data_keys() -> Result<()> {
    let mut others = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    let backup = report(&back_up(&others, 1, &to).await?)?;
    promise!(backup["data_key_ids"] == serde_json::json!([]), "{backup}");
    let keys = Keys::new()?;
    let held = keys.0.path().to_owned();
    let with_keys = ["--data-keys", text(&held)?];
    let said = refusal(&restore(&to, &data, &with_keys).await?, 2)?;
    promise!(said.contains("has no proof") && !data.exists(), "{said}");
    lose_all(&mut others)?;
    report(&restore(&to, &data, &[]).await?)?;
    Ok(())
}

#[tokio::test]
async fn backup_of_a_newer_version_is_refused_with_its_version() -> Result<()> {
    let newer = FEATURE_LEVEL + 1;
    let setup = nodes(1).with("HELVE_FEATURE_LEVEL", &newer.to_string());
    let cluster = setup.start().await?;
    every_node_says(&cluster, "the level to be raised", |reply| {
        reply.feature_level == newer
    })
    .await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    report(&back_up(&cluster, 1, &to).await?)?;
    let said = refusal(&restore(&to, &data, &[]).await?, 2)?;
    let levels = format!("feature level {newer}, and this version supports {FEATURE_LEVEL}");
    promise!(said.contains(&levels) && !data.exists(), "{said}");
    Ok(())
}
