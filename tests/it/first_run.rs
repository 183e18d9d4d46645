//! What a newcomer types first, and what an operator types by habit: it works as printed, or says why not.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Output, Stdio},
};

use anyhow::{Context as _, Result};
use helve_tests::{
    address::{Listeners, next_loopback},
    cluster::Cluster,
    wait::{Look, until},
};
use serde_json::{Value, json};

use super::{
    binary,
    command_json::free_ports,
    command_line::{ABSENT, UNAVAILABLE, USAGE, helve, printed},
    nodes,
    sealed::Keys,
};

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a command that goes on, and returns it with the first line that it prints.
fn first_line(command: &mut Command) -> Result<(Running, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().context("it was piped")?;
    let running = Running(child);
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    Ok((running, line))
}

#[test]
fn bare_relative_data_directory_works_at_the_first_try() -> Result<()> {
    let place = tempfile::tempdir()?;
    let port = free_ports()?.to_string();
    let dev = ["dev", "--data-dir", "d1", "--port", &port, "--log", "warn"];
    let mut command = Command::new(binary());
    let (_node, line) = first_line(command.args(dev).current_dir(&place))?;
    assert!(line.contains("one node"), "{line}");
    assert!(place.path().join("d1/node.json").exists());
    Ok(())
}

#[test]
fn taken_port_is_named_by_the_flag_that_dev_has() -> Result<()> {
    let port = free_ports()?;
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port + 1))?;
    let output = Command::new(binary())
        .args(["dev", "--port", &port.to_string(), "--log", "off"])
        .output()?;
    let said = said(&output);
    assert_eq!(output.status.code(), Some(USAGE), "{said}");
    assert!(
        said.contains("--port") && !said.contains("-listen"),
        "{said}"
    );
    Ok(())
}

#[test]
fn key_that_is_made_starts_a_server_with_writes() -> Result<()> {
    let place = tempfile::tempdir()?;
    let make = || {
        Command::new(binary())
            .args(["key", "new", "state.key"])
            .current_dir(&place)
            .output()
    };
    assert!(printed(&make()?).contains("state.key"));
    let key = place.path().join("state.key");
    let (made, mode) = (fs::read(&key)?, fs::metadata(&key)?.permissions().mode());
    assert_eq!((made.len(), mode & 0o777), (32, 0o600));
    assert_eq!(
        make()?.status.code(),
        Some(USAGE),
        "it would be written over"
    );
    assert_eq!(fs::read(&key)?, made);
    // README's line.
    let flags = ["mcp", "--enable-writes", "--key-file", "state.key"];
    let mut command = Command::new(binary());
    let command = command.args(flags).args(["--listen", "127.0.0.1:0"]);
    let (_server, line) = first_line(command.current_dir(&place))?;
    assert!(line.starts_with("MCP on http://127.0.0.1:"), "{line}");
    Ok(())
}

#[test]
fn desktop_client_of_the_older_protocol_is_served() -> Result<()> {
    let example = include_str!("../../docs/mcp.md");
    let line = example.lines().find(|line| line.contains("mcpServers"));
    let config: Value = serde_json::from_str(line.context("no example")?)?;
    let state = &config["mcpServers"]["state"];
    assert_eq!(state["command"], "helve", "{config}");
    let arguments = state["args"].as_array().context("no arguments")?;
    let mut child = Command::new(binary())
        .args(arguments.iter().filter_map(Value::as_str))
        .args(["--memory", "--log", "off"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let _server = Running(child);
    let mut input = input.context("it was piped")?;
    let mut answers = BufReader::new(output.context("it was piped")?).lines();
    let mut ask = |request: Value| -> Result<Value> {
        writeln!(input, "{request}")?;
        if request.get("id").is_none() {
            return Ok(Value::Null);
        }
        let line = answers.next().context("no answer")??;
        Ok(serde_json::from_str(&line)?)
    };
    let hello = ask(json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "desktop", "version": "1"},
        },
    }))?;
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{hello}");
    ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let stored = ask(json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "store", "arguments": {"key": "k", "value": {"n": 1}}},
    }))?;
    let status = &stored["result"]["structuredContent"]["status"];
    assert_eq!(*status, json!("created"), "{stored}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn new_handle_has_no_lifetime_to_keep() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let mint = [
        "handle", "mint", "--store", "s", "--value", "1", "--ttl", "keep",
    ];
    let refused = helve(&cluster, &mint)?;
    assert_eq!(refused.status.code(), Some(USAGE), "{}", said(&refused));
    assert!(said(&refused).contains("never"), "{}", said(&refused));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_without_a_newer_key_is_not_done() -> Result<()> {
    let keys = Keys::new()?;
    let cluster = keys.setup_of(1).start().await?;
    until("values to be sealed", async || {
        let status = helve(&cluster, &["data-key", "status"]).map(|output| output.stdout);
        let status = status.map(|page| String::from_utf8_lossy(&page).into_owned());
        match status {
            Ok(page) if page.contains("sealed under") && !page.contains("again") => Look::Done(()),
            Ok(page) => Look::NotYet(page),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await?;
    let rotate = ["data-key", "rotate", "--output", "json", "--timeout", "20s"];
    let none = helve(&cluster, &rotate)?;
    let told: Value = serde_json::from_slice(&none.stdout).with_context(|| said(&none))?;
    assert_eq!(none.status.code(), Some(ABSENT), "{told}");
    assert_eq!(told["cause"], "nothing_new", "{told}");
    assert!(
        said(&none).contains("helve data-key new"),
        "{}",
        said(&none)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_is_taken_where_a_node_answers() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let dead = Listeners::of_seat(next_loopback(), 1).client.to_string();
    let alive = cluster.endpoints()[0].clone();
    let endpoints = format!("{dead},{alive}");
    let output = Command::new(binary())
        .args(["snapshot", "--output", "json", "--endpoints", &endpoints])
        .output()?;
    let told: Value = serde_json::from_slice(&output.stdout).with_context(|| said(&output))?;
    // Not 3, which says that nothing was done.
    assert_eq!(output.status.code(), Some(ABSENT), "{told}");
    let taken = told["snapshots"].as_array().context("no list")?;
    assert_eq!(taken[0]["cause"], "nothing_listens", "{told}");
    assert_eq!(taken[1]["endpoint"], json!(alive), "{told}");
    assert!(taken[1]["index"].is_u64(), "{told}");
    assert!(
        said(&output).contains("1 of 2 endpoints"),
        "{}",
        said(&output)
    );
    Ok(())
}

/// Asks for the status until the command ends with this code, and returns what it says then. On a
/// busy machine a node may be without a leader for a moment; a wrong code would stay.
async fn status_ends(cluster: &Cluster, flags: &[&str], code: i32) -> Result<String> {
    let arguments = [&["status"][..], flags].concat();
    until("the code that the status ends with", async || {
        match helve(cluster, &arguments) {
            Ok(output) if output.status.code() == Some(code) => Look::Done(said(&output)),
            Ok(output) => Look::NotYet(format!("{}, not {code}: {}", output.status, said(&output))),
            Err(error) => Look::NotYet(error.to_string()),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_scripts_whether_every_node_is_ready() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    status_ends(&cluster, &["--exit-code"], 0).await?;
    cluster.kill(3)?;
    let away = cluster.endpoints()[2].clone();
    let said = status_ends(&cluster, &["--exit-code"], ABSENT).await?;
    assert!(said.contains(&away), "{said}");
    // A majority serves.
    status_ends(&cluster, &[], 0).await?;
    cluster.kill(2)?;
    status_ends(&cluster, &["--exit-code"], UNAVAILABLE).await?;
    Ok(())
}
