//! Nodes that speak TLS to clients and mutual TLS to each other.

mod flood;
mod refusals;

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use helve_client::{ClusterBuilder, StateTool as _};
use helve_node::tls::authority::Life;
use helve_tests::{
    cluster::{Cluster, Equipment},
    ledger::Ledger,
    wait::{Look, until},
};

use super::{
    binary,
    command_line::{ABSENT, USAGE, helve, printed},
    nodes,
    probes::get,
};

/// What a node says of its certificates.
async fn expires_ms(cluster: &Cluster) -> Result<(u64, String)> {
    let node = cluster.status(1).await?.node.context("no node")?;
    Ok((node.certificate_expires_ms, node.warning))
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_with_certificates_are_a_cluster_that_outlives_its_leader() -> Result<()> {
    let mut cluster = nodes(3).on(Equipment::Certificates).start().await?;
    let ledger = Ledger::new("carts");
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    ledger.mint(&callers).await?;
    let endpoints = cluster.endpoints();
    let secured = endpoints
        .iter()
        .map(|endpoint| format!("https://{endpoint}"));
    let client = ClusterBuilder::new(secured).tls(cluster.certificates()?.trusted());
    let keys = client.build()?.keys(helve_client::KeyOptions::shared());
    keys.store("a", &serde_json::json!(1)).await?;
    let leader = cluster.leader().await?.seat;
    cluster.kill(leader)?;
    cluster.all_ready().await?;
    assert_eq!(keys.retrieve("a").await?, Some(serde_json::json!(1)));
    let ca = cluster.certificates()?.path("ca.crt").display().to_string();
    let said = printed(&helve(
        &cluster,
        &["state", "retrieve", "a", "--tls-ca", &ca],
    )?);
    assert_eq!(said, "1");
    cluster.start(leader)?;
    cluster.all_ready().await?;
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn ca_of_a_pipe_is_there_when_a_command_connects() -> Result<()> {
    let cluster = nodes(1).on(Equipment::Certificates).start().await?;
    let ca = fs::read(cluster.certificates()?.path("ca.crt"))?;
    let mut status = Command::new(binary())
        .args(["status", "--tls-ca", "/dev/stdin", "--endpoints"])
        .arg(cluster.endpoints().join(","))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // The command's check of the file reads it to its end.
    let mut pipe = status.stdin.take().context("it has a pipe")?;
    pipe.write_all(&ca)?;
    drop(pipe);
    assert!(!printed(&status.wait_with_output()?).is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn new_certificates_are_taken_up_under_load_and_broken_ones_are_not() -> Result<()> {
    let cluster = nodes(1).on(Equipment::Certificates).start().await?;
    let host = cluster.listeners(1).client.ip().to_string();
    let certificates = cluster.certificates()?;
    let (first, warning) = expires_ms(&cluster).await?;
    assert_eq!(warning, "");
    let ledger = Ledger::new("carts");
    let is_done = AtomicBool::new(false);
    let load = async {
        let caller = cluster.caller(1);
        while !is_done.load(Ordering::Relaxed) {
            ledger.mint(std::slice::from_ref(&caller)).await?;
        }
        anyhow::Ok(())
    };
    let change = async {
        let soon = Life {
            not_before_ms: 0,
            ..Life::of(Duration::from_secs(3_600))
        };
        certificates.node("node", &host, soon)?;
        // It would have been valid for half a century: an hour before its end that is said.
        let taken_up = until(
            "the new certificate to be in use",
            async || match expires_ms(&cluster).await {
                Ok((now, warning)) if now < first => Look::Done(warning),
                other => Look::NotYet(format!("{other:?}")),
            },
        );
        let warning = taken_up.await?;
        assert!(warning.contains("expires within a day"), "{warning}");
        fs::write(certificates.path("node.crt"), "half a file")?;
        let seen = until("the broken file to be noticed", async || {
            let log = cluster.node(1).log_tail();
            if log.contains("those before stay in use") {
                return Look::Done(());
            }
            Look::NotYet("no word of it in the log".to_owned())
        });
        seen.await?;
        // Over a new connection, by the certificate from before.
        anyhow::Ok(expires_ms(&cluster).await?.0 < first)
    };
    let change = async {
        let changed = change.await;
        // The mint that is under way is finished: the ledger must know of it.
        is_done.store(true, Ordering::Relaxed);
        changed
    };
    let (minted, still_in_use) = tokio::join!(load, change);
    minted?;
    assert!(still_in_use?);
    let page = get(cluster.listeners(1).http, "/metrics").await?.1;
    assert!(page.contains("helve_certificate_expires_seconds"), "{page}");
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_the_http_port_speaks_tls_and_answers_nothing_in_plain_text() -> Result<()>
{
    let mut cluster = nodes(1).on(Equipment::Certificates).prepare().await?;
    let node = cluster.node_mut(1);
    node.set_argument("--http-listen", "0.0.0.0:0")?;
    cluster.start(1)?;
    cluster.all_ready().await?;
    let port = until("the node to say where it listens", async || {
        let said = cluster.node(1).log_tail();
        let (_, rest) = said.split_once("http=0.0.0.0:").unwrap_or_default();
        Look::of(rest.lines().next().unwrap_or_default().parse())
    });
    let address = SocketAddr::new(cluster.listeners(1).http.ip(), port.await?);
    let (plain, secured) = (address.to_string(), format!("https://{address}"));
    let ca = cluster.certificates()?.path("ca.crt").display().to_string();
    let check = |arguments: &[&str]| {
        let all = [&["healthcheck", "--http"], arguments].concat();
        helve(&cluster, &all)
    };
    printed(&check(&[&secured, "--tls-ca", &ca])?);
    // Without the CA there is no one to trust, and without TLS there is no answer.
    for unfit in [&secured, &plain] {
        assert_eq!(check(&[unfit])?.status.code(), Some(ABSENT));
    }
    let told = get(address, "/readyz").await;
    assert!(told.is_err(), "{told:?}");
    Ok(())
}

#[test]
fn certificates_for_development_are_made_once_and_keys_for_their_owner_alone() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir()?;
    let place = directory.path().join("certs").display().to_string();
    let cert = |arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.arg("cert").args(arguments).args(["--dir", &place]);
        command.args(["--output", "json"]).output()
    };
    let without_ca = cert(&["node", "--name", "node-1"])?;
    assert_eq!(without_ca.status.code(), Some(USAGE));
    let said = String::from_utf8_lossy(&without_ca.stderr).into_owned();
    assert!(said.contains("helve cert ca"), "{said}");
    printed(&cert(&["ca"])?);
    assert_eq!(fs::metadata(&place)?.permissions().mode() & 0o777, 0o700);
    let node = printed(&cert(&["node", "--name", "node-1", "--host", "127.0.0.1"])?);
    let node: serde_json::Value = serde_json::from_str(&node)?;
    let key = node["key"].as_str().context("no key")?;
    assert_eq!(fs::metadata(key)?.permissions().mode() & 0o777, 0o600);
    printed(&cert(&["client", "--name", "alice"])?);
    for again in [
        &["ca"][..],
        &["client", "--name", "alice"],
        &["client", "--name", "../up"],
    ] {
        assert_eq!(cert(again)?.status.code(), Some(USAGE), "{again:?}");
    }
    printed(&cert(&["client", "--name", "alice", "--replace"])?);
    Ok(())
}
