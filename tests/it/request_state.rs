//! `helve request-state` and `helve key`: what they print, and what they exit with.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result};
use helve_tests::cluster::Cluster;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    binary,
    command_line::{ABSENT, USAGE, helve, printed},
    nodes,
};

/// Sealed by another implementation under the key 00, 01, .. 1f for `alice`; it expires in 2030.
const V1: &str = "v1.eyJzIjoie1wic3RlcFwiOjF9IiwiZXhwIjoxOTAwMDAwMDAwLCJiIjoiOTQ3MWY2YmM3NTM1YTg2NWE2ZTBmOTRkMjI1ZDJlOTg3MTIxNGI2NmY5MGMyMzNkMDYwYzA3YjNhOGJjMWNhMiJ9.Iu49jAAUVRL9CUTo-WoOXzA6d6o2Ravl-LZYM3lww9o";
const V1E: &str = "v1e.AAECAwQFBgcICQoLxPMY8OH9SAN9lSTjKd2YCd8-rf5sfKoQsPyDWY06xJBALCDlt9irl_kouqI3_mWbEA24VSOzOsySQjMQob4-DUTzbLM8Ui09E_NxWRAoljJ9numDvWIUSMIET_42Fv9WJPcdBmVK0vaWXHUT0S7oVgSjBiWMAk4cLWa_DQ";

/// A directory with a key in it.
fn key() -> Result<(TempDir, String)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("key");
    let key: Vec<u8> = (0..32).collect();
    fs::write(&path, key)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let path = path.display().to_string();
    Ok((directory, path))
}

/// Runs `helve request-state` with this on standard input.
fn run(verb: &str, flags: &[&str], input: &str) -> Result<Output> {
    let mut child = Command::new(binary())
        .args(["request-state", verb])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("it was asked for")?;
    // A refused key ends the command before it reads.
    drop(stdin.write_all(input.as_bytes()));
    drop(stdin);
    Ok(child.wait_with_output()?)
}

fn json(output: &Output) -> Result<Value> {
    Ok(serde_json::from_str(&printed(output))?)
}

#[test]
fn state_is_opened_in_every_format_and_by_its_caller_alone() -> Result<()> {
    let (_directory, key) = key()?;
    for (format, prefix) in [("v1", "v1."), ("v1e", "v1e."), ("hardened", "h1.")] {
        let flags = |subject: &'static str, tool: &'static str| {
            [
                "--format",
                format,
                "--key-file",
                &key,
                "--subject",
                subject,
                "--tool",
                tool,
            ]
        };
        let alice = flags("alice", "refund");
        let ttl = [&alice[..], &["--ttl", "10m"]].concat();
        let sealed = json(&run("seal", &ttl, "{\"step\":1}\n")?)?;
        let sealed = sealed["request_state"].as_str().context("a string")?;
        assert!(sealed.starts_with(prefix), "{sealed}");
        let opened = json(&run("open", &alice, sealed)?)?;
        assert_eq!(opened["state"], "{\"step\":1}", "{opened}");
        assert_eq!(opened["json"], json!({"step": 1}));
        for other in [flags("bob", "refund"), flags("alice", "delete")] {
            let refused = run("open", &other, sealed)?;
            assert_eq!(refused.status.code(), Some(ABSENT));
            let said: Value = serde_json::from_slice(&refused.stdout)?;
            assert!(
                said["state"].is_null() && said["cause"].is_string(),
                "{said}"
            );
        }
        for bad in [
            "",
            "v1e.@@@",
            "not-a-valid-blob",
            &sealed[..sealed.len() - 1],
        ] {
            let refused = run("open", &alice, bad)?;
            assert_eq!(refused.status.code(), Some(ABSENT), "{bad}");
        }
    }
    Ok(())
}

#[test]
fn states_that_another_implementation_sealed_open() -> Result<()> {
    let (_directory, key) = key()?;
    for (format, sealed) in [("v1", V1), ("v1e", V1E)] {
        let flags = ["--format", format, "--key-file", &key, "--subject", "alice"];
        let opened = json(&run("open", &flags, sealed)?)?;
        assert_eq!(opened["state"], "{\"step\":1}", "{opened}");
    }
    Ok(())
}

#[test]
fn a_key_file_that_others_may_read_or_that_is_too_short_is_refused_by_flag() -> Result<()> {
    let (directory, key) = key()?;
    let refused = |path: &Path| -> Result<()> {
        let path = path.display().to_string();
        for verb in ["seal", "open"] {
            let output = run(verb, &["--key-file", &path, "--subject", "alice"], "x")?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(USAGE), "{said}");
            assert!(said.contains("--key-file"), "{said}");
        }
        Ok(())
    };
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644))?;
    refused(Path::new(&key))?;
    let short = directory.path().join("short");
    fs::write(&short, [7; 31])?;
    fs::set_permissions(&short, fs::Permissions::from_mode(0o600))?;
    refused(&short)?;
    refused(&directory.path().join("none"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_ring_goes_through_a_rotation_on_the_command_line() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let (_directory, key) = key()?;
    let ask = |verb: &[&str]| -> Result<Output> {
        let flags = ["--key-file", &key, "--ring", "shop", "--output", "json"];
        helve(&cluster, &[&["key"], verb, &flags].concat())
    };
    let keys = |output: &Output| -> Result<Vec<(String, String)>> {
        let listed = json(output)?;
        let keys = listed["keys"].as_array().context("keys")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = |key: &Value| (text(&key["id"]), text(&key["phase"]));
        Ok(keys.iter().map(key).collect())
    };
    assert!(keys(&ask(&["list"])?)?.is_empty());
    let old = keys(&ask(&["add"])?)?.remove(0);
    assert_eq!(old.1, "active");
    let sealed = sealed(&cluster, &key)?;
    let new = keys(&ask(&["add"])?)?.remove(0);
    assert_eq!(new.1, "verifying");
    let early = ask(&["activate", &new.0])?;
    assert_eq!(early.status.code(), Some(USAGE), "replicas may not hold it");
    printed(&ask(&["activate", &new.0, "--force"])?);
    let phases: Vec<_> = keys(&ask(&["list"])?)?
        .into_iter()
        .map(|key| key.1)
        .collect();
    assert_eq!(phases, ["retiring", "active"]);
    let open = |expected| -> Result<()> {
        let output = with_ring(&cluster, "open", &key, &sealed)?;
        assert_eq!(output.status.code(), Some(expected));
        Ok(())
    };
    open(0)?;
    let early = ask(&["remove", &old.0])?;
    assert_eq!(early.status.code(), Some(USAGE), "its states may be out");
    printed(&ask(&["remove", &old.0, "--force"])?);
    open(ABSENT)?;
    let active = ask(&["remove", &new.0, "--force"])?;
    assert_eq!(active.status.code(), Some(USAGE), "it seals");
    Ok(())
}

/// `helve request-state` under the ring's keys.
fn with_ring(cluster: &Cluster, verb: &str, key: &str, input: &str) -> Result<Output> {
    let endpoints = cluster.endpoints().join(",");
    let flags = [
        "--key-file",
        key,
        "--ring",
        "shop",
        "--endpoints",
        &endpoints,
    ];
    run(verb, &flags, input)
}

fn sealed(cluster: &Cluster, key: &str) -> Result<String> {
    let sealed = json(&with_ring(cluster, "seal", key, "s")?)?;
    Ok(sealed["request_state"]
        .as_str()
        .context("a string")?
        .to_owned())
}
