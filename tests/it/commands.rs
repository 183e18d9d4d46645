//! Every command, pointed at every wrong place: each says in one line what is wrong and what to do, to people and to programs.

mod addresses;
mod clusters;
mod places;
mod samples;

use std::{process::Output, sync::Arc};

use anyhow::{Context as _, Error, Result};
use helve_tests::process::Start;
use serde_json::Value;
use tokio::{sync::Semaphore, task::JoinSet};

use self::{
    places::{Places, Row},
    samples::Sample,
};
use super::binary;

/// Characters of an error: more is no line.
const ERROR_CHARS_MAX: usize = 300;

/// Commands that run at the same time; most of them wait.
const AT_A_TIME: usize = 12;

/// How long each of them may take, and one that is tried again when no other runs.
const BESIDE_OTHERS: &str = "1s";
const ALONE: &str = "4s";

/// Commands that serve, and call their cluster only for their callers.
const SERVERS: [&str; 1] = ["cart"];

/// What may be wrong with a port for probes.
const OF_PROBES: [&str; 6] = [
    "bad_endpoint",
    "nothing_listens",
    "not_helve",
    "peer_port",
    "silent",
    "tls_expected",
];

/// Commands that say on standard error how they get on, too.
const TALKATIVE: [&str; 7] = [
    "bench",
    "flows",
    "mcp",
    "member add",
    "member promote",
    "member remove",
    "member replace",
];

fn run(arguments: impl IntoIterator<Item = impl Into<String>>) -> Result<Output> {
    let start = Start {
        binary: binary(),
        arguments: arguments
            .into_iter()
            .map(|argument| argument.into().into())
            .collect(),
        environment: Vec::new(),
    };
    Ok(start.command().output()?)
}

/// What is wrong with what a command made of a place; `None` if nothing is.
fn fault(sample: &Sample, row: &Row, output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("helve: "))
        .collect();
    let [line] = lines[..] else {
        return Some(format!("says {} lines: {said}", lines.len()));
    };
    if !TALKATIVE.contains(&sample.name.as_str()) && said.lines().count() > 1 {
        return Some(format!("says more than one line: {said}"));
    }
    let status = output.status.code().unwrap_or(-1);
    // Anything but readiness is "not ready" to a health check.
    let is_expected =
        row.statuses.contains(&status) || (sample.name == "healthcheck" && status == 1);
    if !is_expected {
        return Some(format!("ends with {status}: {line}"));
    }
    if line.chars().count() > ERROR_CHARS_MAX {
        return Some(format!("says {} characters: {line}", line.chars().count()));
    }
    let is_file = row.cause.ends_with("_file");
    let place = row.flags.last().filter(|_| is_file);
    let place = place.unwrap_or(&row.endpoint);
    if !line.contains(place) {
        return Some(format!("does not name {place}: {line}"));
    }
    if !line.contains("--") && !line.contains("`helve ") {
        return Some(format!("names no flag and no command: {line}"));
    }
    let debugged = ["{", "}", "Some(", "None", "Os ", "Error(", "::"];
    if let Some(sign) = debugged.iter().find(|sign| line.contains(**sign)) {
        return Some(format!("has `{sign}` in it: {line}"));
    }
    // With nothing running, a newcomer needs a node first.
    if row.cause == "nothing_listens" && !line.contains("`helve dev`") {
        return Some(format!("does not name `helve dev`: {line}"));
    }
    json_fault(sample, row, output)
}

/// The same of what it says to programs.
fn json_fault(sample: &Sample, row: &Row, output: &Output) -> Option<String> {
    if !sample.prints_json {
        return None;
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let Ok(json) = serde_json::from_str::<Value>(&told) else {
        return Some(format!("prints no JSON: `{told}`"));
    };
    (json["cause"] != row.cause).then(|| format!("tells programs the cause {}", json["cause"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_says_what_is_wrong_with_every_place() -> Result<()> {
    let places = Places::start().await?;
    let directory = tempfile::tempdir()?;
    let samples = samples::all(directory.path())?;
    let rows: Vec<Arc<Row>> = places.rows()?.into_iter().map(Arc::new).collect();
    let turns = Arc::new(Semaphore::new(AT_A_TIME));
    let mut trying = JoinSet::new();
    for sample in samples.into_iter().filter(|sample| sample.calls_a_cluster) {
        if SERVERS.contains(&sample.name.as_str()) {
            continue;
        }
        for row in &rows {
            // Who asks for its health needs no token.
            let asks_for_tokens = matches!(row.cause, "token_missing" | "token_refused");
            if asks_for_tokens && sample.name == "healthcheck" {
                continue;
            }
            let has_probe = sample.name == "healthcheck" && OF_PROBES.contains(&row.cause);
            for place in ["--endpoints", "--http"]
                .into_iter()
                .take(1 + usize::from(has_probe))
            {
                let (sample, row) = (sample.clone(), Arc::clone(row));
                let turns = Arc::clone(&turns);
                trying.spawn(async move {
                    let _turn = turns.acquire_owned().await?;
                    let (again, of_row) = (sample.clone(), Arc::clone(&row));
                    let tried = tokio::task::spawn_blocking(move || {
                        try_one(&sample, &row, place, BESIDE_OTHERS)
                    });
                    let is_wrong = tried.await??.is_some();
                    Ok::<_, Error>(is_wrong.then_some((again, of_row, place)))
                });
            }
        }
    }
    let (mut tried, mut wrong) = (0, Vec::new());
    while let Some(one) = trying.join_next().await {
        tried += 1;
        wrong.extend(one??);
    }
    // Beside others a place may be silent for longer than commands wait: what is wrong with one that is alone counts.
    let mut faults = Vec::new();
    for (sample, row, place) in wrong {
        faults.extend(try_one(&sample, &row, place, ALONE)?);
    }
    faults.sort();
    assert!(
        faults.is_empty(),
        "{} of {tried} are wrong:\n{}",
        faults.len(),
        faults.join("\n")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_token_is_blamed_on_the_node_that_refused_it() -> Result<()> {
    let places = Places::start().await?;
    let rows = places.rows()?;
    let of = |cause: &'static str| {
        let row = rows.iter().find(|row| row.cause == cause);
        row.map(|row| row.endpoint.clone()).context(cause)
    };
    let (dead, guarded) = (of("nothing_listens")?, of("token_missing")?);
    let endpoints = format!("{dead},{guarded}");
    let output = run(["tenant", "list", "--endpoints", &endpoints])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&guarded) && !said.contains(&dead), "{said}");
    Ok(())
}

fn try_one(sample: &Sample, row: &Row, place: &str, timeout: &str) -> Result<Option<String>> {
    let mut arguments = sample.arguments.clone();
    arguments.extend([place, &row.endpoint, "--timeout", timeout].map(str::to_owned));
    arguments.extend(row.flags.iter().cloned());
    if sample.prints_json {
        arguments.extend(["--output", "json"].map(str::to_owned));
    }
    arguments.extend(sample.trailing.iter().cloned());
    let output = run(arguments)?;
    let fault = fault(sample, row, &output);
    Ok(fault.map(|fault| format!("{} at {}: {fault}", sample.name, row.cause)))
}

/// Commands that call no cluster, with a file or place that cannot be used, and what the error names.
const LOCAL: &[(&str, &[&str], &str)] = &[
    (
        "audit verify",
        &["/nowhere/audit.log"],
        "/nowhere/audit.log",
    ),
    (
        "backup delete",
        &["/nowhere/backups", "01234567-2"],
        "/nowhere/backups",
    ),
    ("backup list", &["/nowhere/backups"], "/nowhere/backups"),
    ("backup verify", &["/nowhere/backups"], "/nowhere/backups"),
    (
        "balancer",
        &["--to", "127.0.0.1:9", "--listen", "203.0.113.7:80"],
        "--listen",
    ),
    ("cert ca", &["--dir", "/proc/nowhere"], "/proc/nowhere"),
    (
        "cert client",
        &["--dir", "/nowhere/certs", "--name", "n"],
        "/nowhere/certs",
    ),
    (
        "cert node",
        &["--dir", "/nowhere/certs", "--name", "n"],
        "/nowhere/certs",
    ),
    ("completions", &["no-shell"], "no-shell"),
    ("data-key new", &["/nowhere/data.key"], "/nowhere/data.key"),
    ("demo", &["--log", "="], "--log"),
    ("dev", &["--data-dir", "/nowhere/data/d"], "--data-dir"),
    ("init", &["--dir", "/proc/nowhere"], "/proc/nowhere"),
    ("key new", &["/nowhere/state.key"], "/nowhere/state.key"),
    (
        "recover",
        &["--from-survivor", "--data-dir", "/nowhere/data/d"],
        "--data-dir",
    ),
    (
        "restore",
        &["/nowhere/backups", "--data-dir", "/nowhere/data/d"],
        "/nowhere/backups",
    ),
    (
        "serve",
        &[
            "--id",
            "1",
            "--peers",
            "1=127.0.0.1:7401",
            "--data-dir",
            "/nowhere/data/d",
        ],
        "--data-dir",
    ),
    (
        "token secret",
        &["--out", "/nowhere/token"],
        "/nowhere/token",
    ),
];

#[test]
fn every_command_without_a_cluster_names_the_file_it_cannot_use() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let samples = samples::all(directory.path())?;
    for sample in samples.iter().filter(|sample| !sample.calls_a_cluster) {
        let row = LOCAL.iter().find(|(name, ..)| *name == sample.name);
        let (name, arguments, named) =
            row.with_context(|| format!("`helve {}` has no row in LOCAL", sample.name))?;
        let output = run(name.split(' ').chain(arguments.iter().copied()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(named), "{name} does not name {named}: {said}");
        let line = said.lines().last().unwrap_or_default();
        for sign in ["Some(", "Os {", "::", "Error {"] {
            assert!(!line.contains(sign), "{name} has `{sign}` in it: {line}");
        }
    }
    Ok(())
}

#[test]
fn recovery_of_what_is_no_node_says_what_it_is() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("file");
    std::fs::write(&file, "no directory")?;
    for (path, why) in [
        (file.clone(), "it is a file"),
        (file.join("data"), "lies in one"),
        (directory.path().to_owned(), "no Helve node"),
    ] {
        let path = path.display().to_string();
        let output = run(["recover", "--data-dir", &path, "--from-survivor"])?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let flag = format!("--data-dir {path}: ");
        assert!(said.contains(&flag) && said.contains(why), "{said}");
    }
    Ok(())
}

/// The flags of one kind, and where they stand in the help.
const HEADINGS: &[(&str, &[&str])] = &[
    (
        "Cluster",
        &["endpoints", "timeout", "token_file", "insecure_token"],
    ),
    (
        "TLS",
        &[
            "tls_ca",
            "tls_cert",
            "tls_client_ca",
            "tls_client_cert",
            "tls_client_key",
            "tls_key",
            "tls_server_name",
            "peer_tls_ca",
            "peer_tls_cert",
            "peer_tls_key",
        ],
    ),
    ("Logs", &["log", "log_format"]),
    (
        "Sealing at rest",
        &["data_key_file", "data_key_migrate", "data_keys"],
    ),
];

#[test]
fn help_puts_no_flag_under_the_heading_of_others() {
    fn visit(command: &clap::Command, faults: &mut Vec<String>) {
        for arg in command.get_arguments() {
            let heading = arg.get_help_heading().unwrap_or_default();
            let id = arg.get_id().as_str();
            let fits = HEADINGS
                .iter()
                .all(|(name, ids)| (*name == heading) == ids.contains(&id));
            if !fits || (id == "output" && !heading.is_empty()) {
                faults.push(format!(
                    "{} --{id} is under `{heading}`",
                    command.get_name()
                ));
            }
        }
        command
            .get_subcommands()
            .for_each(|below| visit(below, faults));
    }
    let mut faults = Vec::new();
    visit(
        &<helve_cli::Cli as clap::CommandFactory>::command(),
        &mut faults,
    );
    assert_eq!(faults, [""; 0]);
}

/// A table that fits a terminal.
const TABLE_COLUMNS_MAX: usize = 120;

#[tokio::test(flavor = "multi_thread")]
async fn status_fits_a_terminal_whatever_is_wrong() -> Result<()> {
    let places = Places::start().await?;
    for row in places.rows()? {
        let place = ["status", "--timeout", "1s", "--endpoints", &row.endpoint].map(str::to_owned);
        let output = run(place.into_iter().chain(row.flags.iter().cloned()))?;
        let page = String::from_utf8_lossy(&output.stdout);
        let table = page.lines().take(2);
        for line in table {
            let columns = line.chars().count();
            assert!(
                columns <= TABLE_COLUMNS_MAX,
                "{}: {columns} columns: {page}",
                row.cause
            );
        }
        assert!(page.contains("next: "), "{}: no advice: {page}", row.cause);
    }
    Ok(())
}
