//! The demo's figures, as a table for people and as JSON for programs.

use std::time::Duration;

use anyhow::anyhow;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use helve_command::ending::{Ending, Outcome};
use helve_mcp::flow::{Accounts, Findings};
use serde::Serialize;

use super::{faults::Faults, kept::Kept, tickets::Books};
use crate::findings::shown;

/// Everything that the demo found out.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) flows: u64,
    /// Flows that gave up.
    pub(super) flows_unfinished: u64,
    /// Items whose adding was acknowledged.
    pub(super) items: u64,
    /// Checkouts that were acknowledged.
    pub(super) orders: u64,
    /// Tickets that the bookkeepers were told they minted.
    pub(super) tickets: u64,
    pub(super) faults: Faults,
    /// How often an MCP client made a call again.
    pub(super) mcp_retries: u64,
    /// Replies withheld from the client crate, which then had to call again.
    pub(super) replies_cut: u64,
    /// Values that the nodes keep, and how many of them are sealed.
    pub(super) values: u64,
    pub(super) values_sealed: u64,
    /// Lines of the nodes' audit logs, each of which follows from the one before.
    pub(super) audit_lines: u64,
    /// Where an audit log is not what was written.
    pub(super) audit_broken: Vec<String>,
    pub(super) lost: u64,
    pub(super) doubled: u64,
    /// What exactly was lost or doubled, or why a flow gave up; cut short.
    pub(super) findings: Vec<String>,
    pub(super) seconds: f64,
}

/// What the report is drawn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportInput<'a> {
    pub(super) accounts: &'a Accounts,
    pub(super) books: &'a Books,
    pub(super) findings: &'a Findings,
    pub(super) kept: &'a Kept,
}

impl Report {
    /// The report of a whole run.
    pub(super) fn of(
        told: ReportInput<'_>,
        faults: Faults,
        mcp_retries: u64,
        took: Duration,
    ) -> Self {
        let ReportInput {
            accounts,
            books,
            findings,
            kept,
        } = told;
        let carts = || accounts.carts.values();
        Self {
            flows: accounts.creates_tried,
            flows_unfinished: accounts.gave_up.len() as u64,
            items: carts().map(|cart| cart.added.len() as u64).sum(),
            orders: carts().filter(|cart| cart.order.is_some()).count() as u64,
            tickets: books.minted.len() as u64,
            faults,
            mcp_retries,
            replies_cut: books.replies_cut,
            values: kept.values,
            values_sealed: kept.values_sealed,
            audit_lines: kept.audit_lines,
            audit_broken: kept.audit_broken.clone(),
            lost: findings.lost.len() as u64,
            doubled: findings.doubled.len() as u64,
            findings: shown(findings, &accounts.gave_up),
            seconds: took.as_secs_f64(),
        }
    }

    /// Whether the demo showed what it is to show.
    ///
    /// # Errors
    /// [`Ending::Absent`]: something was lost or doubled, a flow gave up, a value lies in plain text, or an audit log is not whole.
    pub(super) fn verdict(&self) -> Outcome {
        let bad: Vec<_> = [
            (self.lost, "lost"),
            (self.doubled, "doubled"),
            (self.flows_unfinished, "flows unfinished"),
            (self.values - self.values_sealed, "values not sealed"),
            (self.audit_broken.len() as u64, "audit logs not whole"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        if bad.is_empty() {
            return Ok(());
        }
        Err(Ending::Absent(anyhow!(bad.join(", "))))
    }

    /// The figures as a table, and what was found.
    pub(super) fn page(&self) -> String {
        let faults = &self.faults;
        let flows = match self.flows_unfinished {
            0 => self.flows.to_string(),
            unfinished => format!("{}, of which {unfinished} gave up", self.flows),
        };
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_header(["what", "figure"]);
        for (what, figure) in [
            ("flows", flows),
            ("items acknowledged", self.items.to_string()),
            ("orders acknowledged", self.orders.to_string()),
            ("tickets acknowledged", self.tickets.to_string()),
            (
                "leader killed",
                format!("{}, pid {}", faults.leader, faults.leader_pid),
            ),
            (
                "term",
                format!(
                    "{} -> {} ({})",
                    faults.term_before, faults.term_after, faults.next_leader
                ),
            ),
            (
                "cart server killed",
                format!("{}, pid {}", faults.replica, faults.replica_pid),
            ),
            ("failover", format!("{} ms", faults.failover_ms)),
            ("calls made again (MCP)", self.mcp_retries.to_string()),
            ("replies cut (client crate)", self.replies_cut.to_string()),
            (
                "values sealed at rest",
                format!("{} of {}", self.values_sealed, self.values),
            ),
            ("audit lines verified", self.audit_lines.to_string()),
            ("lost", self.lost.to_string()),
            ("doubled", self.doubled.to_string()),
            ("seconds", format!("{:.1}", self.seconds)),
        ] {
            table.add_row([what, &figure]);
        }
        let broken = self.audit_broken.iter();
        let broken = broken.map(|broken| format!("\naudit: {broken}"));
        let findings = self.findings.iter().map(|finding| format!("\n{finding}"));
        std::iter::once(table.to_string())
            .chain(broken)
            .chain(findings)
            .collect()
    }
}
