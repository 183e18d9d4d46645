//! Every flag that takes an address, with one that cannot work: the flag and the remedy are named.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::{Arg, CommandFactory as _};
use helve_cli::Cli;

use super::{
    run,
    samples::{self, Sample},
};

/// Commands for which the flag is tried that all commands with a cluster share. One calls nodes itself, one by the client.
const OF_CLUSTER: [&str; 2] = ["status", "handle get"];

/// Flags of listeners, where port 0 takes a free one.
const LISTENERS: [&str; 3] = ["listen", "http_listen", "metrics_listen"];

/// The arguments of a command that would take its addresses.
fn arguments(sample: &Sample, directory: &Path) -> Vec<String> {
    let data = directory.join("data").display().to_string();
    let more: &[&str] = match sample.name.as_str() {
        "balancer" => &["--to", "127.0.0.1:9", "--listen", "127.0.0.1:0"],
        "cart" => &["--listen", "127.0.0.1:0"],
        "recover" => &["--data-dir", &data],
        "serve" => &[
            "--id",
            "1",
            "--data-dir",
            &data,
            "--peers",
            "1=127.0.0.1:7401",
        ],
        // It needs no ring then, which it would ask a cluster for.
        "mcp" => {
            return ["mcp", "--memory", "--listen", "127.0.0.1:0"]
                .map(str::to_owned)
                .into();
        }
        _ => &[],
    };
    let more = more.iter().map(ToString::to_string);
    sample.arguments.iter().cloned().chain(more).collect()
}

/// A command of this name.
fn command(name: &str) -> Result<clap::Command> {
    let mut command = Cli::command();
    for word in name.split(' ') {
        let below = command.find_subcommand(word).cloned();
        command = below.with_context(|| format!("no `{name}`"))?;
    }
    Ok(command)
}

/// What the value of a flag begins with where it names an address; `None` if it names none.
fn before_address(arg: &Arg) -> Option<&'static str> {
    let names = arg.get_value_names()?;
    let name = names.iter().find(|name| name.contains("HOST:PORT"))?;
    Some(if name.starts_with("SEAT=") { "1=" } else { "" })
}

/// The arguments without this flag and its value.
fn without(arguments: &[String], flag: &str) -> Vec<String> {
    match arguments.iter().position(|argument| argument == flag) {
        Some(at) => [&arguments[..at], &arguments[at + 2..]].concat(),
        None => arguments.to_vec(),
    }
}

#[test]
fn address_without_a_port_is_refused_with_flag_and_remedy() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let (mut tried, mut faults) = (Vec::new(), Vec::new());
    for sample in samples::all(directory.path())? {
        for arg in command(&sample.name)?.get_arguments() {
            let (Some(before), Some(long)) = (before_address(arg), arg.get_long()) else {
                continue;
            };
            let id = arg.get_id().as_str();
            if id == "endpoints" && !OF_CLUSTER.contains(&sample.name.as_str()) {
                continue;
            }
            let flag = format!("--{long}");
            let base = without(&arguments(&sample, directory.path()), &flag);
            let ports = if LISTENERS.contains(&id) {
                &[""][..]
            } else {
                &["", ":0", ":+1"][..]
            };
            for port in ports {
                let value = format!("{before}127.0.0.1{port}");
                let output = run(base.iter().chain([&flag, &value]).cloned())?;
                let said = String::from_utf8_lossy(&output.stderr);
                let status = output.status.code();
                let is_refused =
                    status == Some(2) || (sample.name == "healthcheck" && status == Some(1));
                let has_remedy = [
                    "give HOST:PORT",
                    "write SEAT=HOST:PORT",
                    &format!("give {flag} HOST:PORT"),
                ]
                .iter()
                .any(|remedy| said.contains(remedy));
                if !is_refused || !has_remedy || !said.contains(&flag) {
                    faults.push(format!(
                        "{} {flag} {value} ends with {status:?}: {said}",
                        sample.name
                    ));
                }
            }
            tried.push(flag);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for flag in [
        "--advertise",
        "--http",
        "--metrics-listen",
        "--peer",
        "--peer-listen",
        "--to",
    ] {
        assert!(
            tried.iter().any(|tried| tried == flag),
            "{flag} was not tried: {tried:?}"
        );
    }
    Ok(())
}
