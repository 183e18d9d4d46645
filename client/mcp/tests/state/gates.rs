//! The table of starts in `docs/mcp.md` says what the gate does, over all combinations of what an operator can ask for.

use helve_mcp::state::gate::{
    Asked, Backing, Destructive, Gate, Key, Refusal, Replicas, Transport, Visible,
};

const PAGE: &str = include_str!("../../../../docs/mcp.md");
const COLUMNS: usize = 10;

/// A row: what its conditions say, and what comes of it.
struct Row {
    conditions: [String; COLUMNS],
    outcome: String,
}

/// The rows of the table that follows this heading.
fn rows(heading: &str) -> Vec<Row> {
    let (_, text) = PAGE.split_once(heading).expect("the page has this heading");
    let lines = text.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let mut cells: Vec<String> = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        let outcome = cells.pop().unwrap();
        let conditions = cells.try_into().expect("every row has every column");
        Row {
            conditions,
            outcome,
        }
    })
    .collect()
}

impl Row {
    fn holds(&self, asked: &Asked) -> bool {
        let yes = |value: bool| if value { "yes" } else { "no" };
        let http = asked.transport != Transport::Stdio;
        let is: [&[&str]; COLUMNS] = [
            match asked.transport {
                Transport::Stdio => &["stdio"],
                Transport::Loopback => &["loopback", "HTTP"],
                Transport::Beyond => &["beyond", "HTTP"],
            },
            match asked.replicas {
                Replicas::One => &["1"],
                Replicas::Several => &["more"],
            },
            match asked.backing {
                Backing::Cluster => &["cluster"],
                Backing::Memory => &["memory"],
            },
            match asked.key {
                Key::Unset => &["none"],
                Key::Ephemeral => &["ephemeral"],
                Key::Shared => &["shared"],
            },
            &[yes(asked.writes)],
            &[yes(asked.delete)],
            &[yes(asked.assume_yes)],
            &[yes(asked.hosts)],
            &[yes(asked.origins)],
            &[yes(asked.authentication)],
        ];
        assert_eq!(http, is[0].contains(&"HTTP"));
        let mut cells = self.conditions.iter().zip(is);
        cells.all(|(cell, values)| cell.is_empty() || values.contains(&cell.as_str()))
    }
}

fn all() -> Vec<Asked> {
    let mut all = Vec::new();
    for bits in 0..64 {
        let bit = |at: u32| bits >> at & 1 == 1;
        for transport in [Transport::Stdio, Transport::Loopback, Transport::Beyond] {
            for backing in [Backing::Cluster, Backing::Memory] {
                for replicas in [Replicas::One, Replicas::Several] {
                    for key in [Key::Unset, Key::Ephemeral, Key::Shared] {
                        all.push(Asked {
                            transport,
                            backing,
                            replicas,
                            key,
                            writes: bit(0),
                            delete: bit(1),
                            assume_yes: bit(2),
                            hosts: bit(3),
                            origins: bit(4),
                            authentication: bit(5),
                        });
                    }
                }
            }
        }
    }
    all
}

/// What the page calls a refusal: the flags that its message names first.
fn flags(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::DeleteWithoutWrites => "--enable-delete",
        Refusal::SeveralOverStdio => "--stdio, --replicas",
        Refusal::SeveralInMemory => "--replicas, --memory",
        Refusal::SeveralEphemeral => "--replicas, --ephemeral-key",
        Refusal::NoKey => "--enable-writes, --key-file",
        Refusal::NoHostsOrOrigins => "--listen, --allowed-host, --allowed-origin",
        Refusal::NoAuthentication => "--listen, --token-key-file",
    }
}

fn served(gate: Gate) -> &'static str {
    match (gate.tools, gate.destructive) {
        (Visible::Reads, Destructive::Absent) => "read",
        (Visible::Writes, Destructive::Confirmed) => "read, store; ask",
        (Visible::Writes, Destructive::Assumed) => "read, store",
        (Visible::Deletes, Destructive::Confirmed) => "read, store, delete; ask",
        (Visible::Deletes, Destructive::Assumed) => "read, store, delete",
        contradiction => panic!("{contradiction:?}"),
    }
}

#[test]
fn the_gate_does_what_the_page_says_for_every_combination() {
    let (refusals, gates) = (
        rows("### Starts that are refused"),
        rows("### What is served"),
    );
    assert!(!refusals.is_empty() && !gates.is_empty());
    let (mut refused, mut let_through) = (0, 0);
    for asked in all() {
        let mut against: Vec<&str> = refusals
            .iter()
            .filter(|row| row.holds(&asked))
            .map(|row| row.outcome.as_str())
            .collect();
        against.dedup();
        match asked.settle() {
            Err(reasons) => {
                let mut reasons: Vec<_> = reasons.into_iter().map(flags).collect();
                reasons.sort_unstable();
                against.sort_unstable();
                against.dedup();
                assert_eq!(against, reasons, "{asked:?}");
                refused += 1;
            }
            Ok(gate) => {
                assert_eq!(against, [""; 0], "{asked:?}");
                let rows: Vec<_> = gates.iter().filter(|row| row.holds(&asked)).collect();
                assert_eq!(rows.len(), 1, "one row says what is served: {asked:?}");
                assert_eq!(rows[0].outcome, served(gate), "{asked:?}");
                let_through += 1;
            }
        }
    }
    assert_eq!((refused + let_through, let_through), (2304, 666));
}

#[test]
fn every_row_of_the_page_is_about_some_start() {
    for row in rows("### Starts that are refused") {
        assert!(
            all().iter().any(|asked| row.holds(asked)),
            "{:?}",
            row.conditions
        );
    }
    for row in rows("### What is served") {
        let mut starts = all().into_iter().filter(|asked| asked.settle().is_ok());
        assert!(
            starts.any(|asked| row.holds(&asked)),
            "{:?}",
            row.conditions
        );
    }
}

#[test]
fn every_refusal_names_its_flags() {
    for asked in all() {
        for refusal in asked.settle().err().into_iter().flatten() {
            let message = refusal.to_string();
            for flag in flags(refusal).split(", ") {
                assert!(message.contains(flag), "{message} does not name {flag}");
            }
        }
    }
}
