//! The table of limits, and the metrics that it names.

mod named;
mod sums;

use anyhow::{Context as _, Result, ensure};
use helve_node::{
    bounds::{Bounds, OWNERS, WHATS},
    limits,
};
use helve_proto::v1::MintRequest;

use super::{nodes, probes::get};

const TABLE: &str = include_str!("../../docs/limits.md");
/// The cell of a row that says how much it is; the first cell is empty.
const DEFAULT_CELL: usize = 3;
/// The cell of a row that names its metrics.
const METRIC_CELL: usize = 5;

/// Rows by how they begin, and the number that each of them says.
const NUMBERS: [(&str, usize); 27] = [
    ("elements of one", limits::MESSAGE_ELEMENTS_MAX),
    ("calls under way on", limits::EXCHANGE_CALLS_IN_FLIGHT_MAX),
    ("answers in one batch", limits::EXCHANGE_BATCH_ANSWERS_MAX),
    ("a part of a list", limits::LIST_PAGE_ROWS_MAX),
    ("a body of JSON", limits::JSON_VALUES_MAX),
    ("connections to the client", limits::CLIENT_CONNECTIONS_MAX),
    ("connections to the peer", limits::PEER_CONNECTIONS_MAX),
    ("connections to the HTTP", limits::HTTP_CONNECTIONS_MAX),
    ("TLS handshakes under", limits::HANDSHAKES_MAX),
    (
        "streams that a caller",
        limits::CONNECTION_RESETS_PENDING_MAX,
    ),
    (
        "streams that a caller",
        limits::CONNECTION_RESETS_FORCED_MAX,
    ),
    ("health watches |", limits::HEALTH_WATCHES_MAX),
    ("files that the caller", limits::BACKUP_HELD_MAX),
    ("objects that a command", limits::BUCKET_OBJECTS_MAX),
    ("commands that wait", limits::PROPOSE_QUEUE_MAX),
    ("batches on their way", limits::FORWARD_QUEUE_MAX),
    ("batches of a turn", limits::PROPOSE_BATCHES_BESIDE_MAX),
    ("messages with commands", limits::FORWARDED_MESSAGES_MAX),
    ("commands that a leader", limits::EXECUTE_COMMANDS_MAX),
    ("reads that wait for a round", limits::READ_QUEUE_MAX),
    (
        "reads that wait for a thread",
        limits::DISK_READS_WAITING_MAX,
    ),
    ("threads whose reads", limits::DISK_READS_MAX),
    ("threads whose reads", limits::DISK_READS_LONG_MAX),
    ("tenants that have lines", limits::TENANT_METRICS_MAX),
    ("calls of the console under", limits::CONSOLE_CALLS_MAX),
    ("calls of the console whose", limits::CONSOLE_LOOKUPS_MAX),
    (
        "calls of operators that",
        limits::OPERATORS_CONSOLE_CALLS_MAX,
    ),
];

/// The cells of the only row that begins so.
fn row(beginning: &str) -> Result<Vec<String>> {
    let beginning = format!("| {beginning}");
    let mut rows = TABLE.lines().filter(|line| line.starts_with(&beginning));
    let (row, other) = (rows.next(), rows.next());
    ensure!(other.is_none(), "two rows begin with `{beginning}`");
    let row = row.with_context(|| format!("no row begins with `{beginning}`"))?;
    let cells = row.split('|').map(|cell| cell.trim().replace(',', ""));
    Ok(cells.collect())
}

/// Bytes or a number, as the table writes them.
fn amount(cell: &str) -> Result<usize> {
    let (number, unit) = cell.split_once(' ').unwrap_or((cell, ""));
    let number: usize = number.parse().with_context(|| format!("`{cell}`"))?;
    match unit {
        "" => Ok(number),
        "KiB" => Ok(number << 10),
        "MiB" => Ok(number << 20),
        _ => anyhow::bail!("`{cell}` has another unit"),
    }
}

#[test]
fn table_says_the_budgets_that_a_node_has() -> Result<()> {
    let bounds = Bounds::default();
    for what in WHATS {
        let cells = row(&format!("`{}`", what.name()))?;
        for (owner, cell) in OWNERS.into_iter().zip(&cells[2..]) {
            let (owner_name, what_name) = (owner.name(), what.name());
            let has = bounds.of(owner, what);
            ensure!(amount(cell)? == has, "{owner_name}-{what_name} is {has}");
        }
    }
    Ok(())
}

#[test]
fn table_says_the_numbers_that_the_code_has() -> Result<()> {
    for (beginning, number) in NUMBERS {
        let cells = row(beginning)?;
        let mut said = cells[DEFAULT_CELL].split(|sign: char| !sign.is_ascii_digit());
        let number = number.to_string();
        ensure!(said.any(|it| it == number), "{beginning}: {number}");
    }
    let text = TABLE.replace(',', "");
    for max in [limits::CLIENT_CONNECTIONS_MAX, limits::PEER_CONNECTIONS_MAX] {
        let share = format!("{} of the {max} ", max / 4 * 3);
        ensure!(text.contains(&share), "{share}");
    }
    Ok(())
}

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
