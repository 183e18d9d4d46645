//! A client of one file, in another language and without libraries, keeps its promises while the leader dies.

use std::{collections::BTreeSet, fs, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use helve_client::{ClusterBuilder, HandleOptions, HandleStore as _, Resolved};
use helve_proto::Reason;
use helve_tests::fault::left_out;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
};

use super::nodes;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client/java/Handles.java");
/// Without these a short run compiles longer than it works.
const QUICK: [&str; 2] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];
const HANDLES: usize = 120;
/// After this many the leader dies.
const BEFORE: usize = 40;

/// Whether this machine cannot run the example.
async fn is_left_out() -> bool {
    let java = Command::new("java").arg("-version").output().await;
    let missing = java
        .err()
        .map(|error| format!("java does not run: {error} (install default-jdk-headless)"));
    left_out("the example in Java", missing).is_some()
}

#[test]
fn java_example_names_every_reason() -> Result<()> {
    let text = fs::read_to_string(EXAMPLE)?;
    for reason in Reason::ALL {
        let named = format!("\"{}\"", reason.as_str());
        ensure!(text.contains(&named), "it does not know {named}");
    }
    Ok(())
}

/// Refuses the call of a connection for this reason, and says what its body was.
async fn refused(stream: TcpStream, reason: &str) -> Result<Vec<u8>> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    ensure!(length > 0, "a connection without a call");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let answer = format!(
        r#"{{"code":"failed_precondition","message":"no","details":[{{"debug":{{"reason":"{reason}"}}}}]}}"#
    );
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all((head + &answer).as_bytes()).await?;
    stream.shutdown().await?;
    Ok(body)
}

#[tokio::test]
async fn java_example_takes_unknown_reasons_as_in_doubt() -> Result<()> {
    if is_left_out().await {
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let java = Command::new("java")
        .args(QUICK)
        .args([EXAMPLE, &url, "1"])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let ending = java.wait_with_output();
    tokio::pin!(ending);
    let mut bodies = BTreeSet::new();
    let mut calls = 0;
    let ended = loop {
        tokio::select! {
            ended = &mut ending => break ended?,
            accepted = listener.accept() => {
                let reason = if calls == 0 { "NEWER" } else { "DENIED" };
                // A connection that broke before its call was there counts for nothing.
                if let Ok(body) = refused(accepted?.0, reason).await {
                    bodies.insert(body);
                    calls += 1;
                }
            }
        }
    };
    let told = String::from_utf8_lossy(&ended.stderr);
    ensure!(told.contains("HelveException: AMBIGUOUS"), "{told}");
    ensure!(
        calls > 1 && bodies.len() == 1,
        "{calls} calls under {} identities",
        bodies.len()
    );
    Ok(())
}

#[tokio::test]
async fn java_example_sends_no_token_beyond_loopback() -> Result<()> {
    if is_left_out().await {
        return Ok(());
    }
    // No handle: it ends before its first call.
    let run = async |endpoints: &str| {
        let mut java = Command::new("java");
        java.args(QUICK)
            .args([EXAMPLE, endpoints, "0"])
            .env("HELVE_TOKEN", "hlv_secret")
            .env_remove("HELVE_INSECURE_TOKEN");
        java.output().await
    };
    let near = "http://127.0.0.1:1,http://[::1]:1,http://LOCALHOST:1,https://helve-1:1";
    let ended = run(near).await?;
    let told = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{told}");
    for far in ["helve-1:7400", "localhost@evil:1", "127.0.0.1.example:1"] {
        let ended = run(&format!("http://127.0.0.1:1,http://{far}")).await?;
        let told = String::from_utf8_lossy(&ended.stderr);
        let is_refused = !ended.status.success() && told.contains("in plain text");
        ensure!(is_refused && !told.contains("hlv_secret"), "{far}: {told}");
    }
    Ok(())
}

#[tokio::test]
async fn java_example_loses_nothing_while_the_leader_dies() -> Result<()> {
    if is_left_out().await {
        return Ok(());
    }
    let mut cluster = nodes(3).start().await?;
    let url = |seat| format!("http://{}", cluster.listeners(seat).client);
    let urls: Vec<_> = cluster.seats().into_iter().map(url).collect();
    let mut java = Command::new("java")
        .args(QUICK)
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
