//! A unary client in another language that gives many calls up while the node stalls keeps its connection, and so do all who share it.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};
use helve_tests::fault::left_out;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use super::nodes;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/it/short_deadlines.py");
/// What `make tools` installs.
const GRPCIO: &str = ".cache/helve/grpcio-1.76.0/bin/python";

fn python() -> Option<PathBuf> {
    let installed = Path::new(&env::var_os("HOME")?).join(GRPCIO);
    installed.is_file().then_some(installed)
}

#[tokio::test]
async fn calls_given_up_while_a_node_stalls_break_no_connection() -> Result<()> {
    let python = python();
    let missing = python
        .is_none()
        .then(|| format!("there is no ~/{GRPCIO} (make tools installs it)"));
    if left_out("calls of a unary client in Python", missing).is_some() {
        return Ok(());
    }
    let cluster = nodes(1).start().await?;
    let address = cluster.listeners(1).client.to_string();
    let mut client = Command::new(python.context("it is installed")?)
        .args([SCRIPT, &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut go = client.stdin.take().context("it reads")?;
    let mut lines = BufReader::new(client.stdout.take().context("it writes")?).lines();
    assert_eq!(lines.next_line().await?.as_deref(), Some("ready"));

    cluster.node(1).freeze()?;
    go.write_all(b"go\n").await?;
    let given_up = lines.next_line().await;
    cluster.node(1).thaw()?;
    assert_eq!(given_up?.as_deref(), Some("given up, but for []"));
    assert_eq!(lines.next_line().await?.as_deref(), Some("patient: ['OK']"));
    assert_eq!(lines.next_line().await?.as_deref(), Some("after: OK"));
    Ok(())
}
