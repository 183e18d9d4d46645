//! Cart flows as a real MCP client runs them, and the ledger of what it was told.
//!
//! A flow creates a cart, adds lines, looks at the cart, and ends it. Every call may reach another replica. The flow writes
//! down what it tries before it sends it, and what it was told after: the ledger is later compared with what the store
//! holds, so that the verdict does not rest on the server's word alone.

mod caller;
mod gate;
mod held;
mod ledger;
mod verdict;

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

pub use self::{
    caller::{CallError, Caller},
    gate::Gate,
    held::Held,
    ledger::{Account, Accounts, Entry, Ledger},
    verdict::{Findings, judge},
};
use crate::cart::{AbandonView, CartView, Line, Order};

/// How a flow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an order.
    Checkout,
    /// With an order, asked for twice: both answers must be the same.
    CheckoutTwice,
    /// With the cart given up.
    Abandon,
    /// With the cart left open.
    LeaveOpen,
}

/// One flow.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Names the flow: its idempotency key and line ids derive from it. Unique within a run.
    pub number: u64,
    /// Sets runs apart that share a store.
    pub run: Arc<str>,
    /// How many lines it adds, one by one.
    pub lines: u32,
    /// How it ends.
    pub ending: Ending,
    /// Where it waits once half of its lines are in the cart.
    pub gate: Option<Arc<Gate>>,
}

impl Flow {
    /// Flow `number` of a mixed workload: 3 to 6 lines; of five flows three check out, one twice, and one of ten is abandoned
    /// or left open.
    #[must_use]
    pub fn mixed(number: u64, run: &Arc<str>) -> Self {
        let ending = match number % 10 {
            3 | 7 => Ending::CheckoutTwice,
            5 => Ending::Abandon,
            8 => Ending::LeaveOpen,
            _ => Ending::Checkout,
        };
        let lines = 3 + u32::try_from(number % 4).expect("a remainder of 4 fits");
        Self {
            number,
            run: Arc::clone(run),
            lines,
            ending,
            gate: None,
        }
    }

    /// Runs the flow to its end; an error that ends it early is noted in the ledger.
    pub async fn run(&self, caller: &mut Caller, ledger: &Ledger) {
        if let Err(error) = self.steps(caller, ledger).await {
            let why = error.to_string();
            tracing::warn!(flow = self.number, why, "a flow ended early");
            ledger.note(&Entry::GaveUp {
                flow: self.number,
                why,
            });
        }
    }

    async fn steps(&self, caller: &mut Caller, ledger: &Ledger) -> Result<(), CallError> {
        let cart_id = self.create(caller, ledger).await?;
        let mut added = BTreeSet::new();
        for number in 0..self.lines {
            if number == self.lines / 2
                && let Some(gate) = &self.gate
            {
                gate.pass().await;
            }
            let line = self.line(number);
            self.add(caller, ledger, &cart_id, &line).await?;
            added.insert(line.line_id);
        }
        let view: CartView = caller
            .call("view_cart", arguments(&json!({"cart_id": cart_id})))
            .await?;
        expect_lines(ledger, &cart_id, "view_cart", &view.lines, &added);
        match self.ending {
            Ending::Checkout => self
                .checkout(caller, ledger, &cart_id, &added)
                .await
                .map(drop),
            Ending::CheckoutTwice => {
                let first = self.checkout(caller, ledger, &cart_id, &added).await?;
                let second = self.checkout(caller, ledger, &cart_id, &added).await?;
                if first != second {
                    contradict(ledger, &cart_id, "a second checkout gave another order");
                }
                Ok(())
            }
            Ending::Abandon => {
                ledger.note(&Entry::AbandonTried {
                    cart_id: cart_id.clone(),
                });
                let arguments = arguments(&json!({"cart_id": cart_id}));
                let _view: AbandonView = caller.call("abandon_cart", arguments).await?;
                ledger.note(&Entry::Abandoned { cart_id });
                Ok(())
            }
            Ending::LeaveOpen => Ok(()),
        }
    }

    async fn create(&self, caller: &mut Caller, ledger: &Ledger) -> Result<String, CallError> {
        ledger.note(&Entry::CreateTried { flow: self.number });
        let key = format!("{}-{}", self.run, self.number);
        let view: CartView = caller
            .call("create_cart", arguments(&json!({"idempotency_key": key})))
            .await?;
        ledger.note(&Entry::Created {
            flow: self.number,
            cart_id: view.cart_id.clone(),
        });
        expect_lines(
            ledger,
            &view.cart_id,
            "create_cart",
            &view.lines,
            &BTreeSet::new(),
        );
        Ok(view.cart_id)
    }

    async fn add(
        &self,
        caller: &mut Caller,
        ledger: &Ledger,
        cart_id: &str,
        line: &Line,
    ) -> Result<(), CallError> {
        ledger.note(&Entry::AddTried {
            cart_id: cart_id.to_owned(),
            line: line.clone(),
        });
        let mut arguments = arguments(&json!(line));
        arguments.insert("cart_id".to_owned(), json!(cart_id));
        let view: CartView = caller.call("add_item", arguments).await?;
        ledger.note(&Entry::Added {
            cart_id: cart_id.to_owned(),
            line_id: line.line_id.clone(),
        });
        if !view.lines.contains(line) {
            contradict(ledger, cart_id, "add_item's answer lacks the line");
        }
        Ok(())
    }

    async fn checkout(
        &self,
        caller: &mut Caller,
        ledger: &Ledger,
        cart_id: &str,
        added: &BTreeSet<String>,
    ) -> Result<Order, CallError> {
        ledger.note(&Entry::CheckoutTried {
            cart_id: cart_id.to_owned(),
        });
        let order: Order = caller
            .call("checkout", arguments(&json!({"cart_id": cart_id})))
            .await?;
        ledger.note(&Entry::CheckedOut {
            order: order.clone(),
        });
        expect_lines(ledger, cart_id, "checkout", &order.lines, added);
        Ok(order)
    }

    fn line(&self, number: u32) -> Line {
        const SKUS: [&str; 4] = ["tea", "rice", "salt", "honey"];
        let flow = self.number;
        let sku = SKUS[usize::try_from(flow + u64::from(number)).unwrap_or(0) % SKUS.len()];
        Line {
            line_id: format!("{flow}-{number}"),
            sku: sku.to_owned(),
            quantity: 1 + number,
            unit_price_cents: 100 + flow % 900,
        }
    }
}

fn expect_lines(
    ledger: &Ledger,
    cart_id: &str,
    tool: &str,
    told: &[Line],
    expected: &BTreeSet<String>,
) {
    let ids: BTreeSet<String> = told.iter().map(|line| line.line_id.clone()).collect();
    if ids != *expected || ids.len() != told.len() {
        contradict(
            ledger,
            cart_id,
            &format!("{tool} told {told:?}, acknowledged were {expected:?}"),
        );
    }
}

fn contradict(ledger: &Ledger, cart_id: &str, what: &str) {
    tracing::error!(cart_id, what, "an answer contradicts an earlier one");
    ledger.note(&Entry::Contradicted {
        cart_id: cart_id.to_owned(),
        what: what.to_owned(),
    });
}

fn arguments(value: &Value) -> rmcp::model::JsonObject {
    value
        .as_object()
        .cloned()
        .expect("arguments are written as an object")
}
