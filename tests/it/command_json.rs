//! What the `helve` command prints for programs: every verb one JSON value, with what a script needs in it.

use std::{
    iter,
    net::TcpListener,
    process::{Output, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::Cluster,
    wait::{Look, until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use super::{
    binary,
    command_line::{ABSENT, UNAVAILABLE, helve},
    nodes,
};

/// Runs a verb, and reads the one JSON value that it prints.
fn ask(cluster: &Cluster, arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let arguments = [arguments, &["--output", "json"]].concat();
    let output: Output = helve(cluster, &arguments)?;
    let said = || {
        let (out, err) = (&output.stdout, &output.stderr);
        let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
        format!("{arguments:?} printed {out:?} and {err:?}")
    };
    let value = serde_json::from_slice(&output.stdout).with_context(said)?;
    Ok((output.status.code(), value))
}

/// What a verb prints that must succeed.
fn told(cluster: &Cluster, arguments: &[&str]) -> Result<Value> {
    let (status, value) = ask(cluster, arguments)?;
    assert_eq!(status, Some(0), "{arguments:?}: {value}");
    Ok(value)
}

fn in_carts<'a>(verb: &[&'a str]) -> Vec<&'a str> {
    [&["handle"], verb, &["--store", "carts"]].concat()
}

fn on_keys<'a>(verb: &[&'a str]) -> Vec<&'a str> {
    [&["state"], verb].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_handles_prints_json() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let minted = told(&cluster, &in_carts(&["mint", "--value", r#"{"items":[]}"#]))?;
    let id = minted["id"].as_str().context("no id")?.to_owned();
    assert_eq!(
        (&minted["status"], &minted["name"]),
        (&json!("created"), &json!(id)),
        "{minted}"
    );
    let got = told(&cluster, &in_carts(&["get", &id]))?;
    assert_eq!(
        (&got["status"], &got["value"]),
        (&json!("live"), &json!({"items": []})),
        "{got}"
    );
    let put = told(&cluster, &in_carts(&["put", &id, "--value", "[1]"]))?;
    assert_eq!(put["status"], "replaced", "{put}");
    assert!(
        put["revision"].as_u64() > minted["revision"].as_u64(),
        "{put}"
    );
    let renewed = told(&cluster, &in_carts(&["renew", &id, "--ttl", "1h"]))?;
    assert!(renewed["expires_at_ms"].as_u64() > Some(0), "{renewed}");
    let listed = told(&cluster, &in_carts(&["list", "--values"]))?;
    assert_eq!(
        (
            &listed["records"][0]["name"],
            &listed["records"][0]["value"]
        ),
        (&json!(id), &json!([1])),
        "{listed}"
    );
    assert_eq!(told(&cluster, &in_carts(&["count"]))?, json!({"live": 1}));
    let taken = told(&cluster, &in_carts(&["take", &id]))?;
    assert_eq!(taken["value"], json!([1]), "{taken}");

    for verb in [&["get", &id[..]], &["take", &id]] {
        let (status, again) = ask(&cluster, &in_carts(verb))?;
        assert_eq!(
            (status, &again["status"]),
            (Some(ABSENT), &json!("taken")),
            "{again}"
        );
    }
    told(&cluster, &in_carts(&["put", "named", "--value", "1"]))?;
    let deleted = told(&cluster, &in_carts(&["delete", "named"]))?;
    assert_eq!(deleted["id"], "named", "{deleted}");
    let (status, again) = ask(&cluster, &in_carts(&["delete", "named"]))?;
    assert_eq!(
        (status, &again["status"]),
        (Some(ABSENT), &json!("unknown")),
        "{again}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_keys_prints_json() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let stored = told(&cluster, &on_keys(&["store", "logs/1", r#""hello""#]))?;
    assert_eq!(
        (&stored["status"], &stored["name"]),
        (&json!("created"), &json!("logs/1")),
        "{stored}"
    );
    let found = told(&cluster, &on_keys(&["retrieve", "logs/1"]))?;
    assert_eq!(found["value"], "hello", "{found}");
    let batch = told(
        &cluster,
        &on_keys(&["batch-store", r#"{"logs/2":2,"logs/3":3}"#]),
    )?;
    assert_eq!(
        batch["records"].as_array().map(Vec::len),
        Some(2),
        "{batch}"
    );
    let several = told(&cluster, &on_keys(&["batch-retrieve", "logs/3", "logs/2"]))?;
    assert_eq!(
        (
            &several["records"][0]["value"],
            &several["records"][1]["value"]
        ),
        (&json!(3), &json!(2)),
        "{several}"
    );
    let listed = told(&cluster, &on_keys(&["list", "logs/"]))?;
    assert_eq!(
        listed["records"].as_array().map(Vec::len),
        Some(3),
        "{listed}"
    );
    for verb in ["exists", "delete"] {
        let answer = told(&cluster, &on_keys(&[verb, "logs/1"]))?;
        assert_eq!(answer, json!({"key": "logs/1", "exists": true}), "{verb}");
    }
    for verb in ["exists", "retrieve"] {
        let answer = ask(&cluster, &on_keys(&[verb, "logs/1"]))?;
        let absent = json!({"key": "logs/1", "exists": false});
        assert_eq!(answer, (Some(ABSENT), absent), "{verb}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_on_the_cluster_prints_json() -> Result<()> {
    let cluster = nodes(3).start().await?;
    // It is refused while the others lag, or if none takes over in time.
    let (before, moved) = until("leadership to be handed on", async || {
        let before = match cluster.leader().await {
            Ok(leader) => leader,
            Err(error) => return Look::NotYet(error.to_string()),
        };
        match ask(&cluster, &["leader", "transfer"]) {
            Ok((Some(0), moved)) => Look::Done((before, moved)),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    assert_ne!(moved["leader_id"], json!(before.id), "{moved}");
    assert!(moved["term"].as_u64() > Some(before.term), "{moved}");
    let taken = told(&cluster, &["snapshot"])?;
    assert_eq!(
        taken["snapshots"].as_array().map(Vec::len),
        Some(3),
        "{taken}"
    );
    let status = told(&cluster, &["status"])?;
    assert_eq!(
        status["nodes"].as_array().map(Vec::len),
        Some(3),
        "{status}"
    );
    Ok(())
}

#[test]
fn misuse_is_told_to_programs_as_json() -> Result<()> {
    for (words, variable) in [
        (&["status", "--no-such-flag", "--output", "json"][..], ""),
        (&["--output=json", "no-such-command"][..], ""),
        (&["handle", "get"][..], "json"),
    ] {
        let mut command = std::process::Command::new(binary());
        let output = command.args(words).env("HELVE_OUTPUT", variable).output()?;
        let told: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{words:?}: {output:?}"))?;
        assert_eq!(
            (&told["cause"], &told["exit_status"]),
            (&json!("usage"), &json!(2)),
            "{told}"
        );
        assert!(told["error"].as_str().is_some_and(|why| !why.is_empty()));
        assert_eq!(output.status.code(), Some(2));
    }
    let help = std::process::Command::new(binary())
        .args(["status", "--output", "json", "--help"])
        .output()?;
    assert!(help.status.success() && help.stdout.starts_with(b"Show"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_prints_what_was_answered_at_every_node_and_what_failed() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    for load in [
        &["--workload", "mixed", "--callers", "8"][..],
        &["--workload", "cart", "--callers", "2", "--unary"],
        &["--workload", "get", "--rate", "200"],
    ] {
        let report = told(&cluster, &[&["bench", "--for", "500ms"], load].concat())?;
        assert!(report["calls"].as_u64() > Some(0), "{load:?}: {report}");
        assert_eq!(report["errors"], json!({}), "{load:?}: {report}");
    }
    for seat in cluster.seats() {
        cluster.kill(seat)?;
    }
    let unasked = [
        "bench",
        "--workload",
        "mint",
        "--for",
        "300ms",
        "--timeout",
        "100ms",
    ];
    let output = helve(&cluster, &unasked)?;
    assert_eq!(output.status.code(), Some(UNAVAILABLE), "{output:?}");
    Ok(())
}

/// The first line that a command prints which then goes on, parsed.
async fn first_line(arguments: &[&str]) -> Result<Value> {
    let mut child = Command::new(binary())
        .args(arguments)
        .args(["--output", "json", "--log", "error"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let out = child.stdout.take().context("its output is piped")?;
    let line = BufReader::new(out).lines().next_line().await?;
    let line = line.with_context(|| format!("{arguments:?} printed nothing"))?;
    serde_json::from_str(&line).with_context(|| format!("{arguments:?} printed {line:?}"))
}

/// The first of three free ports. Each is given out once: what one test starts may not listen yet
/// when another test asks.
pub(crate) fn free_ports() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    iter::from_fn(|| Some(NEXT.fetch_add(3, Ordering::Relaxed)))
        .take_while(|&port| port < 30_000)
        .find(|&port| (port..port + 3).all(is_free))
        .context("no three free ports in a row")
}

#[tokio::test]
async fn what_goes_on_prints_where_it_serves_as_one_line_of_json() -> Result<()> {
    let port = free_ports()?;
    let dev = first_line(&["dev", "--port", &port.to_string()]).await?;
    assert_eq!(dev["client"], format!("127.0.0.1:{port}"), "{dev}");
    assert_eq!(dev["http"], format!("127.0.0.1:{}", port + 2), "{dev}");
    assert!(dev["data_dir"].is_string(), "{dev}");

    let cart = first_line(&["cart", "--listen", "127.0.0.1:0"]).await?;
    let url = cart["mcp"].as_str().unwrap_or_default();
    assert!(
        url.starts_with("http://127.0.0.1:") && url.ends_with("/mcp"),
        "{cart}"
    );
    Ok(())
}
