//! Cart flows: mint, add items one by one, check out; each step through another client. What was added must equal what was
//! checked out and what still lies in carts, and no cart is checked out twice.

use std::{collections::BTreeMap, sync::Mutex};

use anyhow::Result;
use futures::future::join;
use helve_client::{
    Client, Error, HandleOptions, HandleStore, HandleStoreExt, Handles, KeyOptions, Resolved,
    StateTool, Transacted, Ttl,
};
use serde::{Deserialize, Serialize};
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload, acknowledged::Acknowledged};
use crate::promise;

pub(super) const NAME: &str = "cart";

/// Items of a cart at most.
const ITEMS_MAX: u64 = 4;
/// One checkout in this many is tried by two callers at once.
const RACES: u64 = 3;
/// One cart in this many is left behind.
const LEFT: u64 = 5;

/// What a cart holds, and which call minted it: no two writes write the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Items {
    by: String,
    items: Vec<String>,
}

/// All flows of a run.
#[derive(Debug, Default)]
pub(super) struct Cart {
    flows: Mutex<Vec<Flow>>,
}

/// One cart, as its callers know it.
#[derive(Debug, Default)]
struct Flow {
    owner: String,
    id: String,
    items: Acknowledged,
    /// Checkouts that were acknowledged.
    orders: usize,
    /// A checkout may have taken effect.
    in_doubt: bool,
}

#[async_trait]
impl Workload for Cart {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let owner = worker.user();
        let empty = Items {
            by: worker.fresh(),
            items: Vec::new(),
        };
        let minted = carts(&worker.client(), &owner)
            .mint(&empty, Ttl::Never)
            .await;
        let Met::Done(id) = worker.met(minted)? else {
            return Ok(());
        };
        let mut flow = Flow {
            owner,
            id,
            ..Flow::default()
        };
        for _ in 0..=worker.below(ITEMS_MAX) {
            if !worker.goes_on().await {
                break;
            }
            flow.add(worker).await?;
        }
        if worker.below(LEFT) > 0 {
            flow.check_out(worker).await?;
        }
        self.flows().push(flow);
        Ok(())
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let mut carts_of = BTreeMap::new();
        let mut orders_of = BTreeMap::new();
        let mut harmed = Vec::new();
        let owners: Vec<String> = self.flows().iter().map(|flow| flow.owner.clone()).collect();
        for owner in owners {
            if !carts_of.contains_key(&owner) {
                carts_of.insert(owner.clone(), read_carts(client, &owner).await?);
                orders_of.insert(owner.clone(), read_orders(client, &owner).await?);
            }
        }
        for flow in self.flows().iter() {
            let cart = carts_of[&flow.owner].get(&flow.id);
            let order = orders_of[&flow.owner].get(&order_key(&flow.id));
            harmed.extend(flow.compare(cart, order));
        }
        Ok(harmed)
    }
}

impl Cart {
    fn flows(&self) -> std::sync::MutexGuard<'_, Vec<Flow>> {
        self.flows
            .lock()
            .expect("no caller panics while it notes its flow")
    }
}

impl Flow {
    async fn add(&mut self, worker: &mut Worker) -> Result<()> {
        let item = worker.fresh();
        let push = |mut cart: Items| {
            cart.items.push(item.clone());
            cart
        };
        let added = carts(&worker.client(), &self.owner)
            .update(&self.id, push)
            .await;
        let met = worker.met(added)?;
        if let Met::Done(Resolved::Expired | Resolved::Taken | Resolved::Unknown) = &met {
            let Self { id, owner, .. } = self;
            promise!(
                false,
                "cart {id} of {owner} was not checked out, but an update found {met:?}"
            );
        }
        self.items.note(item, &met);
        Ok(())
    }

    async fn check_out(&mut self, worker: &mut Worker) -> Result<()> {
        let (one, other) = (worker.client(), worker.client());
        let outcomes = if worker.below(RACES) == 0 {
            let both = join(
                check_out(&one, &self.owner, &self.id),
                check_out(&other, &self.owner, &self.id),
            );
            let (one, other) = both.await;
            vec![one, other]
        } else {
            vec![check_out(&one, &self.owner, &self.id).await]
        };
        for outcome in outcomes {
            match worker.met(outcome)? {
                Met::Done(Checkout::Made) => self.orders += 1,
                Met::Done(Checkout::Late) | Met::NotDone => {}
                Met::Unknown => self.in_doubt = true,
            }
        }
        Ok(())
    }

    /// What is wrong with the cart and the order that are there.
    fn compare(&self, cart: Option<&Items>, order: Option<&Items>) -> Vec<Harmed> {
        let Self { id, orders, .. } = self;
        let mut harmed = Vec::new();
        let mut wrong = |harm, seen: &str| {
            harmed.push(Harmed::new(harm, format!("cart {id}: {seen}")));
        };
        if *orders > 1 {
            wrong(Harm::Doubled, "it was checked out more than once");
        }
        match (cart, order) {
            (Some(_), Some(_)) => wrong(Harm::Doubled, "there is an order, and still the cart"),
            (None, None) => wrong(Harm::Lost, "there is neither cart nor order"),
            (Some(_), None) if *orders > 0 => wrong(Harm::Lost, "its order is not there"),
            (None, Some(_)) if *orders == 0 && !self.in_doubt => {
                wrong(Harm::Doubled, "there is an order that no client made");
            }
            _ => {}
        }
        if let Some(Items { items, .. }) = cart.or(order) {
            harmed.extend(self.items.compare(&format!("cart {id}"), items));
        }
        harmed
    }
}

/// What a checkout came to, if it was answered.
#[derive(Debug)]
enum Checkout {
    /// This call made the order.
    Made,
    /// Another one had.
    Late,
}

/// Takes the cart and stores the order, as one; starts over if another client changed the cart in
/// between.
async fn check_out(client: &Client, owner: &str, id: &str) -> Result<Checkout, Error> {
    let (carts, keys) = (carts(client, owner), orders(client, owner));
    let Resolved::Live(cart) = carts.resolve(id).await? else {
        return Ok(Checkout::Late);
    };
    let transaction = client
        .transaction()
        .take(&carts, id)
        .if_revision(cart.revision())
        .store(&keys, &order_key(id), &cart.value, Ttl::Never);
    match transaction.commit().await? {
        Transacted::Committed(_) => Ok(Checkout::Made),
        Transacted::Aborted { .. } => Ok(Checkout::Late),
    }
}

async fn read_carts(client: &Client, owner: &str) -> Result<BTreeMap<String, Items>> {
    let listing = carts(client, owner).list_values().await?;
    let carts = listing.items.into_iter();
    Ok(carts
        .map(|record| (record.name().to_owned(), record.value))
        .collect())
}

async fn read_orders(client: &Client, owner: &str) -> Result<BTreeMap<String, Items>> {
    let listing = orders(client, owner).list_values("order/").await?;
    let orders = listing.items.into_iter();
    orders
        .map(|record| {
            let name = record.name().to_owned();
            Ok((name, serde_json::from_value::<Items>(record.value)?))
        })
        .collect()
}

fn carts(client: &Client, owner: &str) -> Handles<Items> {
    client.handles(HandleOptions::new("carts", owner).id_prefix("cart"))
}

fn orders(client: &Client, owner: &str) -> helve_client::Keys {
    client.keys(KeyOptions::new(owner))
}

fn order_key(id: &str) -> String {
    format!("order/{id}")
}
