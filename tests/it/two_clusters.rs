//! Commands with endpoints of two clusters: none may change the one that happens to answer.

use std::process::Command;

use anyhow::Result;
use helve_tests::wait::{Look, until};

use super::{binary, nodes};

/// Commands that change something, and one that lists what is of one cluster.
const COMMANDS: [&[&str]; 11] = [
    &["leader", "transfer"],
    &["member", "list"],
    &["member", "add", "--seat", "4", "--peer", "127.0.0.1:9"],
    &["member", "remove", "4"],
    &[
        "member",
        "replace",
        "4",
        "--seat",
        "5",
        "--peer",
        "127.0.0.1:9",
    ],
    &["data-key", "rotate", "--to", "0f6a3c5a9d2e4b17"],
    &["data-key", "unseal"],
    &[
        "token", "create", "--tenant", "acme", "--role", "reader", "--name", "a",
    ],
    &["token", "revoke", "0f6a3c5a9d2e4b17"],
    &["tenant", "create", "acme"],
    &["tenant", "set", "acme"],
];

#[tokio::test(flavor = "multi_thread")]
async fn change_through_endpoints_of_two_clusters_is_refused() -> Result<()> {
    // Two tests that each hold one place and wait for another would wait for ever.
    let one = nodes(1).start().await?;
    let other = nodes(1).beside_others().start().await?;
    let endpoints = [one.endpoints(), other.endpoints()].concat().join(",");
    for cluster in [&one, &other] {
        until("the cluster to have a name", async || {
            match cluster.caller(1).status().await {
                Ok(status) if !status.cluster_id.is_empty() => Look::Done(()),
                status => Look::NotYet(format!("{status:?}")),
            }
        })
        .await?;
    }
    for command in COMMANDS {
        let run = || Command::new(binary());
        let output = run()
            .args(command)
            .args(["--endpoints", &endpoints])
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("of several clusters"), "{command:?}: {said}");
        for endpoint in one.endpoints().iter().chain(&other.endpoints()) {
            assert!(said.contains(&**endpoint), "{command:?}: {said}");
        }
    }
    Ok(())
}
