//! What pages add up: what one owner can take, and what all can have a node or an MCP server hold.

use anyhow::{Context as _, Result, ensure};
use helve_node::{
    bounds::{Bounds, OwnerKind, What},
    limits,
};

use super::{DEFAULT_CELL, TABLE, amount, row};

const SECURITY: &str = include_str!("../../../docs/security.md");
const COMPOSE: &str = include_str!("../../../deploy/compose.yaml");
/// Where MCP servers have their bounds.
const LISTENER: &str = include_str!("../../../client/http/src/bounds.rs");
const ROOM: &str = include_str!("../../../client/mcp/src/state/room.rs");

const MIB: usize = 1 << 20;
/// What was measured of a connection of HTTP/2 whose headers do not end.
const CONNECTION_BYTES: usize = 45 << 10;
/// What was measured of a copy of a session.
const SESSION_BYTES: usize = 100 << 10;

const BYTES: [What; 3] = [What::RequestBytes, What::AnswerBytes, What::ReplyBytes];

/// Rows of what one owner can take at most.
const OWNERS: [(&str, OwnerKind); 7] = [
    ("one stranger,", OwnerKind::Stranger),
    ("all strangers", OwnerKind::Strangers),
    ("one address, on", OwnerKind::Address),
    ("one principal", OwnerKind::Principal),
    ("one tenant", OwnerKind::Tenant),
    ("all tenants", OwnerKind::Node),
    ("operators | 56", OwnerKind::Operators),
];

/// The owner that another one shares with its like.
fn parent(owner: OwnerKind) -> Option<OwnerKind> {
    match owner {
        OwnerKind::Principal => Some(OwnerKind::Tenant),
        OwnerKind::Tenant | OwnerKind::Address => Some(OwnerKind::Node),
        OwnerKind::Stranger => Some(OwnerKind::Strangers),
        OwnerKind::Node | OwnerKind::Operators | OwnerKind::Strangers => None,
    }
}

/// The most that an owner has while no other has any: it leaves as much free as it has.
fn attainable(bounds: &Bounds, owner: OwnerKind, what: What) -> usize {
    let own = bounds.of(owner, what);
    parent(owner).map_or(own, |parent| own.min(attainable(bounds, parent, what) / 2))
}

/// The number that a cell begins with.
fn leading(cell: &str) -> Result<usize> {
    let digits = cell.bytes().take_while(u8::is_ascii_digit).count();
    cell[..digits].parse().with_context(|| format!("`{cell}`"))
}

#[test]
fn pages_say_what_one_owner_can_take_at_most() -> Result<()> {
    let bounds = Bounds::default();
    for (beginning, owner) in OWNERS {
        let cells = row(beginning)?;
        let most = |what| attainable(&bounds, owner, what);
        let bytes: usize = BYTES.map(most).iter().sum();
        ensure!(amount(&cells[2])? == bytes, "{beginning}: {bytes} bytes");
        let streams = most(What::Streams);
        ensure!(leading(&cells[3])? == streams, "{beginning}: {streams}");
    }
    // The page about security has some of these rows, and no others.
    let rows: Vec<&str> = SECURITY
        .lines()
        .filter(|line| line.starts_with("| one "))
        .collect();
    ensure!(rows.len() == 5, "{rows:?}");
    for row in rows {
        ensure!(TABLE.lines().any(|line| line == row), "{row}");
    }
    Ok(())
}

/// A number as pages write it.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut written = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

#[test]
fn page_about_security_says_the_numbers_that_the_code_has() -> Result<()> {
    let words: Vec<&str> = SECURITY.split_whitespace().collect();
    let page = words.join(" ");
    for (before, number, after) in [
        (
            "The client port has ",
            limits::CLIENT_CONNECTIONS_MAX,
            " places",
        ),
        (
            "The peer port has ",
            limits::PEER_CONNECTIONS_MAX,
            " of its own",
        ),
        (
            "The HTTP port has ",
            limits::HTTP_CONNECTIONS_MAX,
            " places",
        ),
        ("At most ", limits::HANDSHAKES_MAX, " TLS handshakes"),
        ("At most ", limits::AUDIT_TARGETS_MAX, " targets with "),
        (
            " targets with ",
            limits::AUDIT_TARGET_BYTES_MAX >> 10,
            " KiB of names",
        ),
        (
            "there are ",
            limits::AUDIT_DENIED_TARGETS_MAX,
            ". `more_targets`",
        ),
        (
            "resets more than ",
            limits::CONNECTION_RESETS_PENDING_MAX,
            " before",
        ),
        (
            "makes the node reset ",
            limits::CONNECTION_RESETS_FORCED_MAX,
            " (CVE",
        ),
    ] {
        let sentence = format!("{before}{}{after}", grouped(number));
        ensure!(page.contains(&sentence), "`{sentence}` is not there");
    }
    Ok(())
}

#[test]
fn rows_of_all_bytes_of_a_node_add_up() -> Result<()> {
    let bounds = Bounds::default();
    let roots = [OwnerKind::Node, OwnerKind::Operators, OwnerKind::Strangers];
    let budgets = roots.map(|root| {
        BYTES
            .map(|what| bounds.of(root, what))
            .iter()
            .sum::<usize>()
    });
    let waiting = bounds.of(OwnerKind::Node, What::Exchanges)
        + bounds.of(OwnerKind::Operators, What::Exchanges)
        + bounds.of(OwnerKind::Strangers, What::Streams);
    let refused = row("lines of refused calls that")?;
    let rows = [
        ("budgets of the node", budgets.iter().sum::<usize>()),
        (
            "replies that wait for their callers",
            limits::ANSWERS_WAITING_BYTES_MAX,
        ),
        (
            "what a node reads ahead",
            waiting * usize::try_from(limits::STREAM_WINDOW_BYTES)?,
        ),
        ("changes for watches", limits::WATCH_WINDOW_BYTES),
        (
            "entries that wait for the disk",
            usize::try_from(limits::LOG_QUEUED_BYTES_MAX)?,
        ),
        (
            "lines that wait for the disks",
            limits::AUDIT_QUEUE_BYTES_MAX + amount(&refused[DEFAULT_CELL])?,
        ),
        (
            "bodies and pages",
            limits::HTTP_REQUEST_BYTES_MAX + limits::HTTP_ANSWER_BYTES_MAX,
        ),
        (
            "connections of which each",
            limits::CLIENT_CONNECTIONS_MAX * CONNECTION_BYTES,
        ),
    ];
    for (beginning, bytes) in rows {
        let said = amount(&row(beginning)?[2])?;
        ensure!(said == bytes, "{beginning}: {} MiB", bytes / MIB);
    }
    let all: usize = rows.iter().map(|(_, bytes)| bytes).sum();
    let said = amount(&row("all of these")?[2])?;
    ensure!(said == all, "all: {} MiB", all / MIB);
    Ok(())
}

#[test]
fn rows_of_an_mcp_server_add_up() -> Result<()> {
    for (constant, source) in [
        ("const REQUEST_BYTES_MAX: usize = 256 << 20;", LISTENER),
        ("const ANSWER_BYTES_MAX: usize = 256 << 20;", LISTENER),
        ("const READ_PARSED_BYTES_MAX: usize = 256 << 20;", ROOM),
    ] {
        ensure!(source.contains(constant), "`{constant}` is another");
    }
    let sessions = amount(&row("copies of sessions")?[DEFAULT_CELL])?;
    let rows = [
        ("bodies of requests, with", 256 * MIB),
        ("replies to callers of", 256 * MIB),
        ("parsed values for", 256 * MIB),
        ("sessions of older clients:", sessions * SESSION_BYTES),
    ];
    for (beginning, bytes) in rows {
        let said = amount(&row(beginning)?[2])?;
        ensure!(said == bytes, "{beginning}: {} MiB", bytes / MIB);
    }
    let all: usize = rows.iter().map(|(_, bytes)| bytes).sum();
    let said = amount(&row("together |")?[2])?;
    ensure!(said == all, "together: {} MiB", all / MIB);
    let told = format!("{} MiB", all / MIB);
    for (name, page) in [("security.md", SECURITY), ("compose.yaml", COMPOSE)] {
        ensure!(page.contains(&told), "{name} does not say {told}");
    }
    Ok(())
}
