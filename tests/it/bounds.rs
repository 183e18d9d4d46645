//! The table of limits, and the metrics that it names.

use anyhow::{Result, ensure};
use helve_proto::v1::MintRequest;

use super::{nodes, probes::get};

const TABLE: &str = include_str!("../../docs/limits.md");
/// The cell of a row that names its metrics; the first cell is empty.
const METRIC_CELL: usize = 5;

/// What is between back-ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[tokio::test]
async fn metrics_that_the_table_of_bounds_names_are_on_the_page() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("audit");
    let setup = nodes(1).with("HELVE_AUDIT_LOG", &log.display().to_string());
    let cluster = setup.start().await?;
    let mint = MintRequest {
        store: "cart".to_owned(),
        ..MintRequest::default()
    };
    cluster.caller(1).mint(mint).await?;
    let (status, page) = get(cluster.listeners(1).http, "/metrics").await?;
    ensure!(status == 200, "{page}");
    let mut named = 0;
    // MCP servers have pages of their own.
    let of_nodes = |text: &&str| text.starts_with("helve_") && !text.starts_with("helve_mcp_");
    for name in quoted(TABLE).filter(of_nodes) {
        // With labels that have no values it names a family.
        let shown = match name.split_once('{') {
            Some((family, labels)) if !labels.contains('=') => family,
            _ => name,
        };
        ensure!(page.contains(shown), "{shown} is not in\n{page}");
        named += 1;
    }
    ensure!(named > 15, "the table names {named} metrics");
    let cells = TABLE
        .lines()
        .filter_map(|line| line.split('|').nth(METRIC_CELL));
    let labels = cells
        .flat_map(quoted)
        .filter(|name| !name.starts_with("helve_"));
    let mut bounds = 0;
    for name in labels.filter(|name| !name.contains(' ') && !name.starts_with("--")) {
        for family in [
            "helve_bound_used",
            "helve_bound_limit",
            "helve_bound_refused_total",
        ] {
            let series = format!("{family}{{bound=\"{name}\"}}");
            ensure!(page.contains(&series), "{series} is not in\n{page}");
        }
        bounds += 1;
    }
    ensure!(bounds >= 6, "the table names {bounds} shared bounds");
    Ok(())
}
