//! Reads back what every node holds, and compares it with what the clients and the bookkeepers were told.

use std::{collections::BTreeMap, slice};

use anyhow::Context as _;
use helve_client::{Client, HandleOptions, HandleStore as _, Listing, Record};
use helve_command::cluster::ClusterArgs;
use helve_mcp::flow::{Accounts, Findings, Held, judge};

use super::tickets::{Books, TALLIES, TICKETS};

/// The store that the cart servers keep carts in.
const CARTS: &str = "cart";

/// What a node holds of the bookkeepers' handles.
#[derive(Debug, Default)]
struct HeldTickets {
    /// Label by id.
    tickets: BTreeMap<String, String>,
    tickets_counted: u64,
    tallies: BTreeMap<String, u64>,
}

/// The findings of all nodes: each is asked alone.
pub(super) async fn judge_all(
    cluster: &ClusterArgs,
    accounts: &Accounts,
    books: &Books,
) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for endpoint in &cluster.endpoints {
        let client = cluster.builder(slice::from_ref(endpoint))?.build()?;
        let (held, tickets) = read(&client)
            .await
            .with_context(|| format!("cannot read from {endpoint}"))?;
        findings.merge(judge(accounts, &held));
        findings.merge(judge_tickets(books, &tickets));
    }
    Ok(findings)
}

async fn read(client: &Client) -> anyhow::Result<(Held, HeldTickets)> {
    let tickets = client.handles::<String>(HandleOptions::shared(TICKETS));
    let tallies = client.handles::<u64>(HandleOptions::shared(TALLIES));
    let held_tickets = HeldTickets {
        tickets: by_id(tickets.list_values().await?),
        tickets_counted: tickets.len().await?,
        tallies: by_id(tallies.list_values().await?),
    };
    Ok((Held::read(client, CARTS).await?, held_tickets))
}

fn by_id<T>(listing: Listing<Record<T>>) -> BTreeMap<String, T> {
    listing
        .items
        .into_iter()
        .map(|record| (record.info.name, record.value))
        .collect()
}

fn judge_tickets(books: &Books, held: &HeldTickets) -> Findings {
    let mut findings = Findings::default();
    let mut lost = |what: String| findings.lost.insert(what);
    for label in &books.vanished {
        lost(format!(
            "ticket {label} was taken, and no client got its value"
        ));
    }
    for (label, id) in &books.minted {
        let over = [&books.taken, &books.maybe_taken, &books.vanished];
        if over.iter().all(|labels| !labels.contains(label)) && held.tickets.get(id) != Some(label)
        {
            lost(format!("ticket {label} is not under its id {id}"));
        }
    }
    for (id, (told, _)) in &books.tallies {
        if held.tallies.get(id).is_none_or(|count| count < told) {
            lost(format!("tally {id} lacks some of its {told} increments"));
        }
    }
    let mut doubled = |what: String| findings.doubled.insert(what);
    for (id, label) in &held.tickets {
        match books.minted.get(label) {
            Some(minted) if minted != id => {
                doubled(format!(
                    "ticket {label} was minted as {minted}, and exists as {id} too"
                ));
            }
            Some(_) if books.taken.contains(label) => {
                doubled(format!(
                    "ticket {label} exists, though its value was handed out"
                ));
            }
            None if !books.maybe_minted.contains(label) => {
                doubled(format!("no client minted ticket {label}"));
            }
            Some(_) | None => {}
        }
    }
    for (id, count) in &held.tallies {
        let (told, unknown) = books.tallies.get(id).copied().unwrap_or_default();
        if *count > told + unknown {
            doubled(format!("tally {id} is {count}, of {told} increments"));
        }
    }
    if held.tickets_counted != held.tickets.len() as u64 {
        doubled(format!(
            "{} tickets are counted, {} are listed",
            held.tickets_counted,
            held.tickets.len()
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{HeldTickets, judge_tickets};
    use crate::demo::tickets::Books;

    fn books() -> Books {
        Books {
            minted: [("a".into(), "1".into()), ("b".into(), "2".into())].into(),
            taken: ["b".into()].into(),
            tallies: [("t".into(), (3, 1))].into(),
            ..Books::default()
        }
    }

    fn found(change: impl FnOnce(&mut HeldTickets)) -> (usize, usize) {
        let mut held = HeldTickets {
            tickets: [("1".into(), "a".into())].into(),
            tickets_counted: 1,
            tallies: [("t".into(), 4)].into(),
        };
        change(&mut held);
        let findings = judge_tickets(&books(), &held);
        (findings.lost.len(), findings.doubled.len())
    }

    #[test]
    fn books_that_agree_are_clean() {
        assert_eq!(found(|_| ()), (0, 0));
    }

    #[test]
    fn a_second_ticket_of_one_mint_is_doubled() {
        let second = |held: &mut HeldTickets| {
            held.tickets.insert("3".into(), "a".into());
            held.tickets_counted = 2;
        };
        assert_eq!(found(second), (0, 1));
    }

    #[test]
    fn a_ticket_that_came_back_is_doubled_and_one_that_is_gone_is_lost() {
        let back = |held: &mut HeldTickets| {
            held.tickets.insert("2".into(), "b".into());
            held.tickets_counted = 2;
        };
        assert_eq!(found(back), (0, 1));
        let gone = |held: &mut HeldTickets| {
            held.tickets.clear();
            held.tickets_counted = 0;
        };
        assert_eq!(found(gone), (1, 0));
    }

    #[test]
    fn a_tally_may_be_anywhere_between_what_was_told_and_what_was_sent() {
        for (count, expected) in [(2, (1, 0)), (3, (0, 0)), (4, (0, 0)), (5, (0, 1))] {
            assert_eq!(
                found(|held| held.tallies = [("t".into(), count)].into()),
                expected
            );
        }
    }
}
