//! `helve claim` against a cluster: who may carry out a side effect, and a command that is run once.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::Cluster,
    process::Start,
    wait::{Look, until},
};
use serde_json::{Value, json};

use super::{
    binary,
    claims::known,
    command_line::{ABSENT, USAGE, helve, printed},
    nodes,
};

/// The command failed, or its result was not kept.
pub(crate) const FATAL: i32 = 4;

pub(crate) async fn cluster() -> Result<Cluster> {
    let cluster = nodes(1).start().await?;
    known(&cluster.caller(1)).await?;
    Ok(cluster)
}

/// `helve claim VERB KEY` in one store.
fn claim(cluster: &Cluster, verb: &str, key: &str, rest: &[&str]) -> Result<Output> {
    let arguments = [&["claim", verb, key, "--store", "jobs"], rest].concat();
    helve(cluster, &arguments)
}

fn told(output: &Output) -> Result<(Option<i32>, Value)> {
    let value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((output.status.code(), value))
}

/// `helve claim run KEY` of a script, which runs in a directory.
pub(crate) fn run(
    cluster: &Cluster,
    directory: &Path,
    key: &str,
    flags: &[&str],
    script: &str,
) -> Result<Output> {
    let output = command(cluster, directory, key, flags, script)
        .stdin(Stdio::null())
        .output()?;
    Ok(output)
}

/// As [`run`], not started yet.
pub(crate) fn command(
    cluster: &Cluster,
    directory: &Path,
    key: &str,
    flags: &[&str],
    script: &str,
) -> Command {
    let endpoints = cluster.endpoints().join(",");
    let mut command = Command::new(binary());
    command
        .args(["claim", "run", key, "--store", "jobs"])
        .args(["--endpoints", &endpoints])
        .args(flags)
        .args(["--", "sh", "-c", script])
        .current_dir(directory);
    command
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_goes_its_way_on_the_command_line() -> Result<()> {
    let cluster = cluster().await?;
    let order = ["--digest-of", "order"];
    let fence = printed(&claim(&cluster, "begin", "k", &order)?);
    fence.parse::<u64>()?;
    let json = ["--output", "json"];
    let other = claim(&cluster, "begin", "k", &[&order[..], &json].concat())?;
    let (status, other) = told(&other)?;
    assert_eq!(
        (status, &other["status"]),
        (Some(ABSENT), &json!("in_flight")),
        "{other}"
    );
    assert!(other["until_ms"].as_u64() > Some(0), "{other}");
    let conflict = claim(&cluster, "begin", "k", &["--digest-of", "another"])?;
    assert_eq!(conflict.status.code(), Some(ABSENT));
    assert!(said(&conflict).contains("another digest"), "{conflict:?}");

    let finish = ["--fence", &fence, "--value", r#"{"receipt":7}"#];
    let finished = claim(&cluster, "finish", "k", &finish)?;
    assert_eq!(
        printed(&finished),
        "finished k, the result is kept until it is deleted"
    );
    let again = claim(
        &cluster,
        "finish",
        "k",
        &["--fence", &fence, "--value", "1", "--output", "json"],
    )?;
    let again = told(&again)?;
    assert_eq!(
        (again.0, &again.1["value"]),
        (Some(0), &json!({"receipt": 7}))
    );
    let done = claim(&cluster, "begin", "k", &[&order[..], &json].concat())?;
    let (status, done) = told(&done)?;
    assert_eq!(
        (status, &done["status"]),
        (Some(ABSENT), &json!("done")),
        "{done}"
    );
    assert_eq!(done["value"], json!({"receipt": 7}));

    let abandoned = claim(&cluster, "abandon", "k", &["--fence", &fence])?;
    assert_eq!(abandoned.status.code(), Some(ABSENT), "{abandoned:?}");
    let lost = claim(&cluster, "finish", "k", &["--fence", "1", "--value", "1"])?;
    assert_eq!(lost.status.code(), Some(ABSENT));
    assert!(said(&lost).contains("lease is lost"), "{lost:?}");
    let free = printed(&claim(&cluster, "begin", "free", &[])?);
    let free = claim(&cluster, "abandon", "free", &["--fence", &free])?;
    assert_eq!(printed(&free), "abandoned free");
    let next = claim(&cluster, "begin", "free", &json)?;
    assert_eq!(told(&next)?.1["earlier"]["end"], "abandoned");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_begin_behind_a_dead_holder_says_so_and_holds_no_lease() -> Result<()> {
    let cluster = cluster().await?;
    let dead = printed(&claim(&cluster, "begin", "k", &["--lease", "100ms"])?);
    let found = until("the lease to end", async || {
        let begun = claim(&cluster, "begin", "k", &["--output", "json"]);
        match begun.and_then(|begun| told(&begun)) {
            Ok((_, value)) if value["status"] == "in_flight" => Look::NotYet(value.to_string()),
            begun => Look::Done(begun),
        }
    })
    .await?;
    let (_, found) = found?;
    let earlier = (
        &found["status"],
        &found["earlier"]["end"],
        &found["earlier"]["fence"],
    );
    let dead: u64 = dead.parse()?;
    assert_eq!(
        earlier,
        (&json!("may_have_happened"), &json!("expired"), &json!(dead)),
        "{found}"
    );
    let again = claim(&cluster, "begin", "k", &[])?;
    assert_eq!(again.status.code(), Some(ABSENT));
    assert!(said(&again).contains("--may-repeat"), "{again:?}");
    let fence = printed(&claim(&cluster, "begin", "k", &["--may-repeat"])?);
    let never = ["--fence", &fence, "--never-happened"];
    printed(&claim(&cluster, "abandon", "k", &never)?);
    printed(&claim(&cluster, "begin", "k", &[])?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_run_once_and_its_output_is_the_result() -> Result<()> {
    let (cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    let script =
        r#"echo ran >> runs; printf '%s %s\n' "$HELVE_CLAIM_KEY" "${HELVE_CLAIM_EARLIER:-none}""#;
    for _ in 0..3 {
        let output = run(&cluster, directory, "k", &[], script)?;
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "k none\n",
            "{output:?}"
        );
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
    }
    assert_eq!(fs::read_to_string(directory.join("runs"))?, "ran\n");
    let other = run(&cluster, directory, "k", &[], "echo other >> runs")?;
    assert_eq!(other.status.code(), Some(ABSENT), "{other:?}");
    let json = run(
        &cluster,
        directory,
        "json",
        &["--output", "json"],
        "echo '[1]'; echo x >&2",
    )?;
    let (status, answer) = told(&json)?;
    assert_eq!(
        (status, &answer["status"]),
        (Some(0), &json!("ran")),
        "{answer}"
    );
    assert_eq!(
        (&answer["value"], said(&json)),
        (&json!([1]), "x\n".to_owned())
    );
    let missing = [
        "claim",
        "run",
        "missing",
        "--store",
        "jobs",
        "--",
        "/no/such/program",
    ];
    let start = Start {
        binary: binary(),
        arguments: missing.map(Into::into).to_vec(),
        environment: vec![("HELVE_ENDPOINTS".to_owned(), cluster.endpoints().join(","))],
    };
    let missing = start.command().output()?;
    assert_eq!(missing.status.code(), Some(USAGE), "{missing:?}");
    let said = said(&missing);
    assert!(
        said.contains("/no/such/program") && said.contains("abandoned"),
        "{said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_is_not_run_again_unless_it_may() -> Result<()> {
    let (cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    let script = r#"echo "${HELVE_CLAIM_EARLIER:-none}" >> runs; exit 3"#;
    let undone = run(
        &cluster,
        directory,
        "undone",
        &["--undone-on-failure"],
        script,
    )?;
    assert_eq!(undone.status.code(), Some(FATAL), "{undone:?}");
    assert!(said(&undone).contains("exit status: 3"), "{undone:?}");
    run(
        &cluster,
        directory,
        "undone",
        &["--undone-on-failure"],
        script,
    )?;
    assert_eq!(
        fs::read_to_string(directory.join("runs"))?,
        "none\nabandoned\n"
    );

    let failed = run(&cluster, directory, "doubt", &["--lease", "100ms"], script)?;
    assert_eq!(failed.status.code(), Some(FATAL), "{failed:?}");
    let behind = until("the lease to end", async || {
        match run(&cluster, directory, "doubt", &[], script) {
            Ok(output) if said(&output).contains("in flight") => Look::NotYet(said(&output)),
            behind => Look::Done(behind),
        }
    })
    .await??;
    assert_eq!(behind.status.code(), Some(ABSENT), "{behind:?}");
    assert!(said(&behind).contains("--may-repeat"), "{behind:?}");
    let flags = ["--may-repeat"];
    let recovered = run(
        &cluster,
        directory,
        "doubt",
        &flags,
        "echo $HELVE_CLAIM_EARLIER",
    )?;
    assert_eq!(printed(&recovered), "expired");
    let runs = fs::read_to_string(directory.join("runs"))?;
    assert_eq!(runs, "none\nabandoned\nnone\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_outlives_its_lease_says_so() -> Result<()> {
    let (cluster, directory) = (cluster().await?, tempfile::tempdir()?);
    let directory = directory.path();
    // It waits until another caller has the lease.
    let script =
        r#"until "$HELVE" claim begin k --store jobs --digest-of x --may-repeat; do :; done"#;
    let flags = ["--lease", "100ms", "--digest-of", "x"];
    let endpoints = cluster.endpoints().join(",");
    let output = Command::new(binary())
        .args(["claim", "run", "k", "--store", "jobs"])
        .args(flags)
        .args(["--", "sh", "-c", script])
        .env("HELVE", binary())
        .env("HELVE_ENDPOINTS", &endpoints)
        .current_dir(directory)
        .output()?;
    assert_eq!(output.status.code(), Some(FATAL), "{output:?}");
    assert!(
        said(&output).contains("the lease was over before"),
        "{output:?}"
    );
    Ok(())
}
