//! The `helve` command against a cluster: what it prints, and what it exits with.

use std::{
    fs::OpenOptions,
    process::{Command, Output},
};

use anyhow::Result;
use helve_tests::{
    cluster::Cluster,
    wait::{Look, until},
};
use serde_json::Value;

use super::{binary, nodes};

/// Absent or expired.
pub(crate) const ABSENT: i32 = 1;
/// Bad usage.
pub(crate) const USAGE: i32 = 2;
/// The cluster cannot answer.
pub(crate) const UNAVAILABLE: i32 = 3;
/// The cluster answers, and cannot do it now.
pub(crate) const NOT_NOW: i32 = 6;
/// It broke while running.
const FATAL: i32 = 4;

/// Runs `helve` with the cluster's endpoints.
pub(crate) fn helve(cluster: &Cluster, arguments: &[&str]) -> Result<Output> {
    let endpoints = cluster.endpoints().join(",");
    Ok(Command::new(binary())
        .args(arguments)
        .args(["--endpoints", &endpoints])
        .output()?)
}

/// What it printed, if it succeeded.
pub(crate) fn printed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_goes_its_way_on_the_command_line() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let mint = [
        "handle",
        "mint",
        "--store",
        "cart",
        "--id-prefix",
        "cart",
        "--ttl",
        "1h",
        "--value",
        r#"{"items":[]}"#,
    ];
    let id = printed(&helve(&cluster, &mint)?);
    assert!(id.starts_with("cart-") && id.len() == 31, "{id}");
    let run = |verb: &str, rest: &[&str]| {
        let arguments = [&["handle", verb, &id, "--store", "cart"], rest].concat();
        helve(&cluster, &arguments)
    };
    assert_eq!(printed(&run("get", &[])?), r#"{"items":[]}"#);
    printed(&run("put", &["--value", r#"{"items":["tea"]}"#])?);
    printed(&run("renew", &["--ttl", "2h"])?);
    let listed = helve(
        &cluster,
        &["handle", "list", "--store", "cart", "--output", "json"],
    )?;
    assert!(printed(&listed).contains(&id));
    assert_eq!(printed(&run("take", &[])?), r#"{"items":["tea"]}"#);
    assert_eq!(run("get", &[])?.status.code(), Some(ABSENT));
    assert_eq!(run("take", &[])?.status.code(), Some(ABSENT));
    let deleted = run("delete", &[])?;
    assert_eq!(deleted.status.code(), Some(ABSENT));
    // Once is enough.
    assert!(deleted.stdout.is_empty(), "{deleted:?}");
    let said = String::from_utf8_lossy(&deleted.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_goes_its_way_on_the_command_line() -> Result<()> {
    let cluster = nodes(1).start().await?;
    printed(&helve(
        &cluster,
        &["state", "store", "logs/1", r#""hello""#],
    )?);
    assert_eq!(
        printed(&helve(&cluster, &["state", "retrieve", "logs/1"])?),
        r#""hello""#
    );
    assert!(printed(&helve(&cluster, &["state", "list", "logs/"])?).contains("logs/1"));
    // A caller's key steers no operator's terminal.
    let odd = "odd\n\u{1b}[31m";
    let stored = printed(&helve(&cluster, &["state", "store", odd, "1"])?);
    let listed = printed(&helve(&cluster, &["state", "list", "odd"])?);
    for page in [&stored, &listed] {
        assert!(page.contains(r"odd\n\u{1b}[31m"), "{page:?}");
    }
    assert_eq!(listed.lines().count(), 2, "{listed:?}");
    // Nor does it begin a line of an error.
    let gone = "gone\n\u{1b}[31m";
    for get in [
        &["state", "retrieve", gone][..],
        &["handle", "get", gone, "--store", "s"][..],
    ] {
        let absent = helve(&cluster, get)?;
        let said = String::from_utf8_lossy(&absent.stderr);
        assert_eq!(absent.status.code(), Some(ABSENT), "{said}");
        assert!(said.contains(r"gone\n\u{1b}[31m"), "{said:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
    }
    printed(&helve(&cluster, &["state", "exists", "logs/1"])?);
    printed(&helve(&cluster, &["state", "delete", "logs/1"])?);
    assert_eq!(
        helve(&cluster, &["state", "retrieve", "logs/1"])?
            .status
            .code(),
        Some(ABSENT)
    );
    assert_eq!(
        helve(&cluster, &["state", "exists", "logs/1"])?
            .status
            .code(),
        Some(ABSENT)
    );
    Ok(())
}

/// Asks for the status until its page is so. Nodes are asked at different instants, and the leader
/// may change between them on a busy machine.
async fn status_shows(
    cluster: &Cluster,
    flags: &[&str],
    is_so: impl Fn(&str) -> bool,
) -> Result<()> {
    let arguments = [&["status"][..], flags].concat();
    until("the status to show all nodes and one leader", async || {
        let output = match helve(cluster, &arguments) {
            Ok(output) => output,
            Err(error) => return Look::NotYet(error.to_string()),
        };
        let page = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && is_so(&page) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{output:?}"))
        }
    })
    .await
}

/// Whether a status in JSON has three nodes, and one of them leads.
fn has_one_leader_of_three(page: &str) -> bool {
    let status = serde_json::from_str::<Value>(page).unwrap_or_default();
    let listed = status["nodes"].as_array().cloned().unwrap_or_default();
    let leaders = listed.iter().filter(|node| node["role"] == "leader");
    listed.len() == 3 && leaders.count() == 1
}

#[tokio::test(flavor = "multi_thread")]
async fn status_has_a_line_for_each_node_and_one_leader() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    cluster.leader().await?;
    let json = ["--output", "json"];
    status_shows(&cluster, &json, has_one_leader_of_three).await?;
    let is_table = |table: &str| table.contains("leader") && table.contains("follower");
    status_shows(&cluster, &[], is_table).await?;

    cluster.kill(3)?;
    let status = helve(&cluster, &["status"])?;
    let table = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        table.contains(&cluster.endpoints()[2]),
        "the node that is away is not shown: {table}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_usage_and_a_cluster_that_is_away_have_statuses_of_their_own() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    assert_eq!(
        helve(&cluster, &["handle", "mint", "--no-such-flag"])?
            .status
            .code(),
        Some(USAGE)
    );
    assert_eq!(
        helve(&cluster, &["state", "store", "", "1"])?.status.code(),
        Some(USAGE)
    );
    cluster.kill(1)?;
    let away = helve(&cluster, &["state", "retrieve", "a"])?;
    assert_eq!(
        away.status.code(),
        Some(UNAVAILABLE),
        "{}",
        String::from_utf8_lossy(&away.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_successor_cannot_hand_over() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let alone = helve(&cluster, &["leader", "transfer"])?;
    let said = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(NOT_NOW), "{said}");
    assert!(
        said.contains("helve status"),
        "it does not say where to look: {said}"
    );
    Ok(())
}

#[test]
fn a_demo_without_a_place_for_its_files_is_fatal() -> Result<()> {
    let output = Command::new(binary())
        .arg("demo")
        .env("TMPDIR", "/nowhere/at/all")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FATAL), "{said}");
    assert!(said.contains("/nowhere/at/all"), "{said}");
    Ok(())
}

#[test]
fn output_that_cannot_be_written_leaves_the_exit_status() -> Result<()> {
    let full = || OpenOptions::new().write(true).open("/dev/full");
    let dead = ["state", "retrieve", "k", "--endpoints", "127.0.0.1:1"];
    for (arguments, status) in [
        (&["state", "store", "k", "@/no/such/file"][..], USAGE),
        (&["status", "--timeout", "soon"][..], USAGE),
        (&dead[..], UNAVAILABLE),
    ] {
        let ended = Command::new(binary())
            .args(arguments)
            .stderr(full()?)
            .status()?;
        assert_eq!(ended.code(), Some(status), "{arguments:?}");
    }
    let output = Command::new(binary())
        .args(["completions", "bash"])
        .stdout(full()?)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FATAL), "{said}");
    let expected = "helve: standard output cannot be written: No space left on device\n";
    assert_eq!(said, expected);
    Ok(())
}

#[test]
fn benchmark_of_no_time_is_refused() -> Result<()> {
    let output = Command::new(binary())
        .args(["bench", "--for", "0s", "--endpoints", "127.0.0.1:1"])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE), "{said}");
    assert!(
        said.contains("nothing can be measured in no time"),
        "{said}"
    );
    Ok(())
}

#[test]
fn variable_that_is_set_to_nothing_ends_a_command() -> Result<()> {
    let output = Command::new(binary())
        .args(["handle", "list", "--store", "s", "--endpoints"])
        .arg("127.0.0.1:1")
        .env("HELVE_OWNER", "")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE), "{said}");
    assert!(said.contains("HELVE_OWNER is empty: unset it"), "{said}");
    Ok(())
}

#[test]
fn completions_are_printed_for_each_shell() -> Result<()> {
    for (shell, sign) in [
        ("bash", "complete -F _helve"),
        ("zsh", "#compdef helve"),
        ("fish", "complete -c helve"),
    ] {
        let output = Command::new(binary())
            .args(["completions", shell])
            .output()?;
        let script = printed(&output);
        assert!(
            script.contains(sign) && script.contains("healthcheck"),
            "{shell}: {script}"
        );
    }
    Ok(())
}

#[test]
fn an_empty_name_of_a_bug_plants_none() -> Result<()> {
    let output = Command::new(binary())
        .args(["completions", "bash"])
        .env("HELVE_PLANTED", "")
        .output()?;
    assert!(!printed(&output).is_empty());
    Ok(())
}

#[test]
fn every_command_has_help() -> Result<()> {
    let commands: [&[&str]; 11] = [
        &[],
        &["serve"],
        &["dev"],
        &["demo"],
        &["status"],
        &["handle", "mint"],
        &["state", "store"],
        &["healthcheck"],
        &["cart"],
        &["balancer"],
        &["flows"],
    ];
    for command in commands {
        let output = Command::new(binary())
            .args(command)
            .arg("--help")
            .output()?;
        let help = printed(&output);
        assert!(help.contains("Usage:"), "{command:?}: {help}");
    }
    Ok(())
}
