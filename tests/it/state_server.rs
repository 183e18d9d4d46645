//! `helve mcp` as a process: starts that it refuses, and what its client hears over standard input and output, with a cluster
//! behind it and without.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result};
use helve_tests::wait::{Look, until};
use serde_json::{Value, json};

use super::{binary, command_line::USAGE, nodes};

/// Runs `helve mcp` to its end, and returns its status and what it said.
fn ended(arguments: &[&str], environment: &[(&str, &str)]) -> Result<(Option<i32>, String)> {
    let output = Command::new(binary())
        .arg("mcp")
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code(), said))
}

#[test]
fn unsafe_combinations_are_refused_and_name_their_flags() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let key = directory.path().join("state.key");
    std::fs::write(&key, [7; 32])?;
    let key = key.to_str().context("a path in UTF-8")?;
    let beyond = ["--listen", "0.0.0.0:0"];
    let table: [(&[&str], &[&str]); 11] = [
        (
            &["--enable-writes"],
            &["--enable-writes", "--key-file", "--assume-yes"],
        ),
        (
            &["--enable-delete"],
            &["--enable-delete", "--enable-writes"],
        ),
        (
            &["--replicas", "2", "--memory"],
            &["--replicas", "--memory"],
        ),
        (
            &["--replicas", "2", "--ephemeral-key", "--enable-writes"],
            &["--replicas", "--ephemeral-key"],
        ),
        (&["--replicas", "2", "--stdio"], &["--replicas", "--stdio"]),
        (
            &beyond,
            &[
                "--listen",
                "--allowed-host",
                "--allowed-origin",
                "--token-key-file",
            ],
        ),
        (
            &[
                "--listen",
                "0.0.0.0:0",
                "--allowed-host",
                "h",
                "--allowed-origin",
                "none",
            ],
            &["--token-key-file"],
        ),
        // A reader of the file could seal what no user confirmed.
        (
            &["--enable-writes", "--key-file", key],
            &["--key-file", key],
        ),
        (
            &["--enable-writes", "--key-file", "/no/such/file"],
            &["--key-file"],
        ),
        // A ring lies sealed under the operator's key.
        (&["--enable-writes", "--ring", "state"], &["--key-file"]),
        (
            &["--enable-writes", "--ephemeral-key", "--confirm-ttl", "25h"],
            &["--confirm-ttl"],
        ),
    ];
    for (arguments, names) in table {
        let (status, said) = ended(arguments, &[])?;
        assert_eq!(status, Some(USAGE), "{arguments:?}: {said}");
        for name in names {
            assert!(
                said.contains(name),
                "{arguments:?} is refused without {name}: {said}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_environment_opens_no_gate_that_flags_would_not() -> Result<()> {
    let environment = [("HELVE_ENABLE_WRITES", "true"), ("HELVE_MEMORY", "true")];
    let (status, said) = ended(&[], &environment)?;
    assert_eq!(status, Some(USAGE), "{said}");
    assert!(
        said.contains("--enable-writes") && said.contains("--key-file"),
        "{said}"
    );
    Ok(())
}

/// A server that this test started, as a desktop client does.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u32,
}

impl Server {
    fn start(arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new(binary())
            .args(["mcp", "--stdio", "--log", "off"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().context("it was piped")?;
        let output = process.stdout.take().context("it was piped")?;
        Ok(Self {
            process,
            input,
            output: BufReader::new(output),
            calls: 0,
        })
    }

    /// Makes a request, and returns the answer to it.
    fn request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        self.calls += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let request =
            json!({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        assert_eq!(answer["id"], json!(self.calls), "{answer}");
        Ok(answer)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        Ok(self.request("tools/call", params)?["result"].clone())
    }

    /// Closes its standard input, and waits for its end.
    fn leave(self) -> Result<Option<i32>> {
        let Self {
            mut process, input, ..
        } = self;
        drop(input);
        Ok(process.wait()?.code())
    }
}

#[test]
fn a_client_that_starts_the_server_itself_is_served_until_it_leaves() -> Result<()> {
    let mut server = Server::start(&["--memory", "--enable-writes"])?;
    let found = server.request("server/discover", json!({}))?;
    let versions = found["result"]["supportedVersions"].as_array();
    for version in ["2026-07-28", "2025-11-25"] {
        let is_spoken = versions.is_some_and(|all| all.contains(&json!(version)));
        assert!(is_spoken, "{version}: {found}");
    }
    let stored = server.call("store", &json!({"key": "k", "value": {"n": 1}}))?;
    assert_eq!(
        stored["structuredContent"]["status"],
        json!("created"),
        "{stored}"
    );

    // What replaces asks, and the answer is taken by the same process.
    let arguments = json!({"key": "k", "value": {"n": 2}});
    let asked = server.call("store", &arguments)?;
    assert_eq!(asked["resultType"], json!("input_required"), "{asked}");
    let answer = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    let confirmed = json!({
        "name": "store", "arguments": arguments,
        "requestState": asked["requestState"], "inputResponses": answer,
    });
    let done = server.request("tools/call", confirmed)?;
    let done = &done["result"]["structuredContent"];
    assert_eq!(done["status"], json!("replaced"), "{done}");

    let hidden = server.request(
        "tools/call",
        json!({"name": "delete", "arguments": {"key": "k"}}),
    )?;
    assert_eq!(hidden["error"]["code"], json!(-32602), "{hidden}");
    assert_eq!(server.leave()?, Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_of_nodes_tools_say_so_and_guess_nothing() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let endpoints = cluster.endpoints().join(",");
    let flags = [
        "--endpoints",
        &endpoints,
        "--timeout",
        "2s",
        "--enable-writes",
        "--assume-yes",
    ];
    let mut server = Server::start(&flags)?;
    let stored = server.call("store", &json!({"key": "before", "value": 1}))?;
    assert_eq!(
        stored["structuredContent"]["status"],
        json!("created"),
        "{stored}"
    );
    for seat in [1, 2] {
        cluster.kill(seat)?;
    }
    let mut is_known = true;
    for (tool, arguments) in [
        ("retrieve", json!({"key": "before"})),
        ("store", json!({"key": "during", "value": 1})),
    ] {
        let refused = server.call(tool, &arguments)?;
        let reason = &refused["_meta"]["helve.v1/reason"];
        // What a node without a majority had taken into its log may be committed later.
        let said = reason.as_str().unwrap_or_default();
        is_known &= said == "UNAVAILABLE";
        assert!(
            is_known || (said, tool) == ("AMBIGUOUS", "store"),
            "{refused}"
        );
        let text = refused["content"][0]["text"].as_str().unwrap_or_default();
        let is_named = cluster
            .endpoints()
            .iter()
            .any(|endpoint| text.contains(endpoint));
        assert!(!is_named, "no node is named: {text}");
    }
    for seat in [1, 2] {
        cluster.start(seat)?;
    }
    cluster.all_ready().await?;
    let keys = json!({"keys": ["before", "during"]});
    let read = until("the tools to answer again", async || {
        match server.call("batch_retrieve", &keys) {
            Ok(read) if read["structuredContent"]["keys"].is_array() => Look::Done(read),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    let found = &read["structuredContent"]["keys"];
    assert_eq!(found[0]["value"], json!(1), "{read}");
    assert!(!is_known || found[1]["found"] == json!(false), "{read}");
    assert_eq!(server.leave()?, Some(0));
    Ok(())
}
