//! How nodes take memory from the kernel.

use std::fs;

use anyhow::{Context as _, Result};

use super::nodes;

#[tokio::test]
async fn a_node_takes_no_huge_pages() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let pid = cluster.node(1).pid().context("it runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let huge = status
        .lines()
        .find_map(|line| line.strip_prefix("THP_enabled:"));
    assert_eq!(huge.map(str::trim), Some("0"));
    Ok(())
}
