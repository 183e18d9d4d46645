//! The figures of the flows, as a table for people and as JSON for programs, and the verdict that follows from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::anyhow;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use helve_command::ending::{Ending, Outcome};
use serde::Serialize;

use super::{clients::ClientResults, reading::Judged};
use crate::findings::shown;

/// Everything that the flows found out.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    flows: u64,
    /// Flows that gave up.
    flows_unfinished: u64,
    /// Items whose adding was acknowledged.
    items: u64,
    /// Checkouts that were acknowledged.
    orders: u64,
    /// How often a call was made again.
    retries: u64,
    nodes_read: Vec<String>,
    /// Nodes that could not be read from, and why.
    nodes_unread: BTreeMap<String, String>,
    /// Records among the carts and orders that are neither, and were left out.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    unreadable: BTreeSet<String>,
    lost: u64,
    doubled: u64,
    /// What exactly was lost or doubled, or why a flow gave up; cut short.
    findings: Vec<String>,
    seconds: f64,
}

impl Report {
    pub(super) fn of(told: &ClientResults, judged: Judged, took: Duration) -> Self {
        let ClientResults { accounts, retries } = told;
        let carts = || accounts.carts.values();
        Self {
            flows: accounts.creates_tried,
            flows_unfinished: accounts.gave_up.len() as u64,
            items: carts().map(|cart| cart.added.len() as u64).sum(),
            orders: carts().filter(|cart| cart.order.is_some()).count() as u64,
            retries: *retries,
            lost: judged.findings.lost.len() as u64,
            doubled: judged.findings.doubled.len() as u64,
            findings: shown(&judged.findings, &accounts.gave_up),
            nodes_read: judged.read,
            nodes_unread: judged.unread,
            unreadable: judged.unreadable,
            seconds: took.as_secs_f64(),
        }
    }

    /// Whether all is well, and if not, which exit status says so.
    ///
    /// # Errors
    /// Something was lost or doubled, a node was not read from, or nothing was shown.
    pub(super) fn verdict(&self) -> Outcome {
        let Self { lost, doubled, .. } = self;
        if lost + doubled > 0 {
            return Err(Ending::Absent(anyhow!("{lost} lost, {doubled} doubled")));
        }
        if let Some((endpoint, why)) = self.nodes_unread.first_key_value() {
            return Err(Ending::Unanswered(anyhow!(
                "cannot read from {endpoint}, so there is no verdict on it: {why}"
            )));
        }
        if self.orders == 0 {
            return Err(Ending::Unanswered(anyhow!(
                "no order was acknowledged, so nothing was tested: is the cart server at --url?"
            )));
        }
        Ok(())
    }

    /// The figures as a table, and what was found.
    pub(super) fn page(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_header(["what", "figure"]);
        for (what, figure) in [
            ("flows", self.flows.to_string()),
            ("flows given up", self.flows_unfinished.to_string()),
            ("items acknowledged", self.items.to_string()),
            ("orders acknowledged", self.orders.to_string()),
            ("calls made again (MCP)", self.retries.to_string()),
            ("nodes read from", self.nodes_read.join(", ")),
            ("lost", self.lost.to_string()),
            ("doubled", self.doubled.to_string()),
            ("seconds", format!("{:.1}", self.seconds)),
        ] {
            table.add_row([what, &figure]);
        }
        let unread = self.nodes_unread.iter();
        let unread = unread.map(|(endpoint, why)| format!("\nnot read: {endpoint}: {why}"));
        let unreadable = self.unreadable.iter();
        let unreadable = unreadable.map(|name| format!("\nno cart and no order: {name}"));
        let findings = self.findings.iter().map(|finding| format!("\n{finding}"));
        std::iter::once(table.to_string())
            .chain(unread)
            .chain(unreadable)
            .chain(findings)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helve_mcp::{
        cart::{Cart, Order},
        flow::{Accounts, Entry, Findings},
    };

    use super::{super::clients::ClientResults, Judged, Report};
    use helve_command::ending::Ending;

    fn report(orders: usize, judged: Judged) -> Report {
        let mut accounts = Accounts::default();
        for number in 0..orders {
            let order = Order::of(&number.to_string(), &Cart::default());
            accounts.note(&Entry::CheckedOut { order });
        }
        let told = ClientResults {
            accounts,
            retries: 0,
        };
        Report::of(&told, judged, Duration::ZERO)
    }

    fn unread() -> Judged {
        Judged {
            unread: [("node-1:7400".into(), "away".into())].into(),
            ..Judged::default()
        }
    }

    #[test]
    fn only_a_run_that_shows_something_on_every_node_is_good() {
        assert!(report(1, Judged::default()).verdict().is_ok());
        let nothing = report(0, Judged::default()).verdict();
        assert!(matches!(nothing, Err(Ending::Unanswered(_))), "{nothing:?}");
        let unread = report(1, unread()).verdict();
        assert!(matches!(unread, Err(Ending::Unanswered(_))), "{unread:?}");
    }

    #[test]
    fn a_loss_weighs_more_than_a_node_that_is_away() {
        let findings = Findings {
            lost: ["a line".to_owned()].into(),
            ..Findings::default()
        };
        let report = report(
            1,
            Judged {
                findings,
                ..unread()
            },
        );
        let verdict = report.verdict();
        assert!(matches!(verdict, Err(Ending::Absent(_))), "{verdict:?}");
        assert!(report.page().contains("lost: a line"), "{}", report.page());
    }
}
