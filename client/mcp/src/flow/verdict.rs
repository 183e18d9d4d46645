//! The verdict: what the clients were told against what the store holds. Pure, so that it can be tried on planted losses.

use std::collections::BTreeSet;

use crate::{
    cart::Line,
    flow::{
        held::Held,
        ledger::{Account, Accounts},
    },
};

/// What is wrong. Each finding is a sentence; the same finding on several nodes is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Something that was acknowledged and is not there.
    pub lost: BTreeSet<String>,
    /// Something that exists twice, or that no client was told of, or that should be gone.
    pub doubled: BTreeSet<String>,
}

impl Findings {
    /// Whether nothing was lost and nothing doubled.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty()
    }

    /// Adds another node's or another workload's findings.
    pub fn merge(&mut self, other: Self) {
        self.lost.extend(other.lost);
        self.doubled.extend(other.doubled);
    }
}

/// Compares what the clients were told with what a node holds.
#[must_use]
pub fn judge(accounts: &Accounts, held: &Held) -> Findings {
    let mut findings = Findings::default();
    findings
        .lost
        .extend(accounts.contradictions.iter().cloned());
    for (cart_id, account) in &accounts.carts {
        judge_cart(cart_id, account, held, &mut findings);
    }
    judge_strangers(accounts, held, &mut findings);
    if held.carts_counted != held.carts.len() as u64 {
        findings.doubled.insert(format!(
            "{} open carts are counted, {} are listed",
            held.carts_counted,
            held.carts.len()
        ));
    }
    findings
}

fn judge_cart(cart_id: &str, account: &Account, held: &Held, findings: &mut Findings) {
    let (cart, order) = (held.carts.get(cart_id), held.orders.get(cart_id));
    if cart.is_some() && order.is_some() {
        findings
            .doubled
            .insert(format!("{cart_id} is open, and has an order too"));
    }
    if cart.is_some() && account.must_be_closed() {
        findings.doubled.insert(format!(
            "{cart_id} is open, though its client was told otherwise"
        ));
    }
    if order.is_some() && (account.abandoned || !account.checkout_tried) {
        findings.doubled.insert(format!(
            "{cart_id} has an order that no client may have made"
        ));
    }
    if account
        .order
        .as_ref()
        .is_some_and(|told| order != Some(told))
    {
        findings.lost.insert(format!(
            "{cart_id}: the order is not the one its client was given"
        ));
    }
    let lines = match (cart, order) {
        (_, Some(order)) => &order.lines,
        (Some(cart), None) => &cart.lines,
        (None, None) => {
            // A cart whose abandonment was sent may be gone; any other may not.
            if !account.abandon_tried {
                findings
                    .lost
                    .insert(format!("{cart_id} is gone, with all its lines"));
            }
            return;
        }
    };
    judge_lines(cart_id, account, lines, findings);
    if let Some(order) = order
        && order.total_cents != total_cents(&order.lines)
    {
        findings.lost.insert(format!(
            "{cart_id}: the order's total is not the sum of its lines"
        ));
    }
}

fn judge_lines(cart_id: &str, account: &Account, lines: &[Line], findings: &mut Findings) {
    for line_id in &account.added {
        if !lines.iter().any(|line| line.line_id == *line_id) {
            findings.lost.insert(format!(
                "{cart_id}: acknowledged line {line_id} is not there"
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for line in lines {
        if !seen.insert(&line.line_id) {
            findings
                .doubled
                .insert(format!("{cart_id}: line {} is there twice", line.line_id));
        }
        if account.tried.get(&line.line_id) != Some(line) {
            findings
                .doubled
                .insert(format!("{cart_id}: no client sent line {}", line.line_id));
        }
    }
}

/// Carts and orders whose clients were never told their ids. As many as there are unanswered creations may be.
fn judge_strangers(accounts: &Accounts, held: &Held, findings: &mut Findings) {
    for cart_id in held
        .orders
        .keys()
        .filter(|id| !accounts.carts.contains_key(*id))
    {
        findings
            .doubled
            .insert(format!("no client was told of the order {cart_id}"));
    }
    let strangers: Vec<_> = held
        .carts
        .keys()
        .filter(|id| !accounts.carts.contains_key(*id))
        .collect();
    let unanswered = accounts
        .creates_tried
        .saturating_sub(accounts.carts.len() as u64);
    if strangers.len() as u64 > unanswered {
        for cart_id in strangers {
            findings
                .doubled
                .insert(format!("no client was told of the cart {cart_id}"));
        }
    }
}

fn total_cents(lines: &[Line]) -> u64 {
    lines
        .iter()
        .map(|line| u64::from(line.quantity) * line.unit_price_cents)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::{Findings, Held, judge};
    use crate::{
        cart::{Cart, Line, Order},
        flow::ledger::{Accounts, Entry},
    };

    fn line(id: &str) -> Line {
        Line {
            line_id: id.into(),
            sku: "tea".into(),
            quantity: 1,
            unit_price_cents: 5,
        }
    }

    fn cart(ids: &[&str]) -> Cart {
        Cart {
            lines: ids.iter().map(|id| line(id)).collect(),
        }
    }

    /// Cart `a` with line 1 checked out, cart `b` with line 2 open.
    fn told() -> Accounts {
        let mut accounts = Accounts::default();
        for (flow, id, line_id) in [(0, "a", "1"), (1, "b", "2")] {
            for entry in [
                Entry::CreateTried { flow },
                Entry::Created {
                    flow,
                    cart_id: id.into(),
                },
                Entry::AddTried {
                    cart_id: id.into(),
                    line: line(line_id),
                },
                Entry::Added {
                    cart_id: id.into(),
                    line_id: line_id.into(),
                },
            ] {
                accounts.note(&entry);
            }
        }
        accounts.note(&Entry::CheckoutTried {
            cart_id: "a".into(),
        });
        accounts.note(&Entry::CheckedOut {
            order: Order::of("a", &cart(&["1"])),
        });
        accounts
    }

    fn held() -> Held {
        Held {
            carts: [("b".to_owned(), cart(&["2"]))].into(),
            carts_counted: 1,
            orders: [("a".to_owned(), Order::of("a", &cart(&["1"])))].into(),
            ..Held::default()
        }
    }

    fn after(change: impl FnOnce(&mut Held)) -> (usize, usize) {
        let mut held = held();
        change(&mut held);
        let Findings { lost, doubled } = judge(&told(), &held);
        (lost.len(), doubled.len())
    }

    #[test]
    fn what_agrees_is_clean() {
        assert_eq!(after(|_| ()), (0, 0));
    }

    #[test]
    fn a_missing_line_cart_or_order_is_lost() {
        assert_eq!(
            after(|held| held.carts.get_mut("b").unwrap().lines.clear()),
            (1, 0)
        );
        let no_cart = |held: &mut Held| {
            held.carts.clear();
            held.carts_counted = 0;
        };
        assert_eq!(after(no_cart), (1, 0));
        assert_eq!(after(|held| held.orders.clear()), (2, 0));
    }

    #[test]
    fn a_second_line_or_an_order_beside_its_cart_is_doubled() {
        assert_eq!(
            after(|held| held.carts.get_mut("b").unwrap().lines.push(line("2"))),
            (0, 1)
        );
        let revived = |held: &mut Held| {
            held.carts.insert("a".into(), cart(&["1"]));
            held.carts_counted = 2;
        };
        assert_eq!(after(revived).1, 2);
    }

    #[test]
    fn cart_that_no_client_knows_is_doubled_unless_unanswered() {
        let mut held = held();
        held.carts.insert("c".into(), cart(&[]));
        held.carts_counted = 2;
        assert_eq!(judge(&told(), &held).doubled.len(), 1);
        let mut accounts = told();
        accounts.note(&Entry::CreateTried { flow: 2 });
        assert!(judge(&accounts, &held).is_clean());
    }

    #[test]
    fn what_was_there_before_a_run_is_not_judged() {
        let mut held = held();
        held.carts.insert("old".into(), cart(&["9"]));
        held.orders
            .insert("older".into(), Order::of("older", &cart(&["9"])));
        held.carts_counted = 2;
        let before = ["old".to_owned(), "older".to_owned()].into();
        assert!(!judge(&told(), &held).is_clean());
        assert!(judge(&told(), &held.without(&before)).is_clean());
    }

    #[test]
    fn a_count_that_differs_from_the_list_is_told() {
        assert_eq!(after(|held| held.carts_counted = 2), (0, 1));
    }
}
