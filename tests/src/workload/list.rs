//! Lists against writers: accounts among which money moves, two in each transaction. Every list is one view, so every list has the
//! same sum.

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, Handles, Listing, Record, Resolved, Ttl};
use serde::{Deserialize, Serialize};
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload};
use crate::promise;

pub(super) const NAME: &str = "list";

const ACCOUNTS: u64 = 10;
const OPENING: u64 = 100;
/// One turn in this many lists.
const LISTS: u64 = 4;

/// What an account holds, and which call made it so: no two writes write the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Balance {
    sum: u64,
    by: String,
}

/// Keeps no account: the sum is known.
#[derive(Debug, Default)]
pub(super) struct List;

#[async_trait]
impl Workload for List {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn begin(&self, client: &Client) -> Result<()> {
        let accounts = accounts(client);
        let mut opening = client.transaction();
        for account in 0..ACCOUNTS {
            let balance = Balance {
                sum: OPENING,
                by: format!("opening-{account}"),
            };
            opening = opening.put(&accounts, &id(account), &balance, Ttl::Never);
        }
        opening.commit().await?;
        Ok(())
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        if worker.below(LISTS) == 0 {
            let listing = accounts(&worker.client()).list_values().await;
            if let Met::Done(listing) = worker.met(listing)? {
                let wrong = wrong(&listing);
                promise!(wrong.is_none(), "{}", wrong.unwrap_or_default());
            }
            return Ok(());
        }
        transfer(worker).await
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let listing = accounts(client).list_values().await?;
        let wrong = wrong(&listing).map(|seen| Harmed::new(Harm::Wrong, seen));
        Ok(wrong.into_iter().collect())
    }
}

async fn transfer(worker: &mut Worker) -> Result<()> {
    let from = worker.below(ACCOUNTS);
    let to = (from + 1 + worker.below(ACCOUNTS - 1)) % ACCOUNTS;
    let Some(payer) = read(worker, from).await? else {
        return Ok(());
    };
    let Some(payee) = read(worker, to).await? else {
        return Ok(());
    };
    if payer.value.sum == 0 {
        return Ok(());
    }
    let sum = 1 + worker.below(payer.value.sum);
    let by = worker.fresh();
    let [less, more] = [payer.value.sum - sum, payee.value.sum + sum].map(|sum| Balance {
        sum,
        by: by.clone(),
    });
    let client = worker.client();
    let accounts = accounts(&client);
    let moved = client
        .transaction()
        .put(&accounts, &id(from), &less, Ttl::Keep)
        .if_revision(payer.revision())
        .put(&accounts, &id(to), &more, Ttl::Keep)
        .if_revision(payee.revision());
    worker.met(moved.commit().await).map(drop)
}

/// `None` if no node could say.
async fn read(worker: &mut Worker, account: u64) -> Result<Option<Record<Balance>>> {
    let read = accounts(&worker.client()).resolve(&id(account)).await;
    match worker.met(read)? {
        Met::Done(Resolved::Live(record)) => Ok(Some(record)),
        Met::Done(gone) => {
            promise!(
                false,
                "account {account} never ends, but was found {gone:?}"
            );
            Ok(None)
        }
        Met::NotDone | Met::Unknown => Ok(None),
    }
}

/// Why this cannot be a view of all accounts.
fn wrong(listing: &Listing<Record<Balance>>) -> Option<String> {
    let sum: u64 = listing.items.iter().map(|account| account.value.sum).sum();
    let count = listing.items.len() as u64;
    if (count, sum) != (ACCOUNTS, ACCOUNTS * OPENING) {
        return Some(format!(
            "a list of one view at {} has {count} accounts with {sum} in all, not {ACCOUNTS} with {}",
            listing.revision,
            ACCOUNTS * OPENING
        ));
    }
    let newer = listing
        .items
        .iter()
        .find(|account| account.revision() > listing.revision)?;
    Some(format!(
        "a list of the view at {} shows {} of {}",
        listing.revision,
        newer.name(),
        newer.revision()
    ))
}

fn id(account: u64) -> String {
    format!("account-{account}")
}

fn accounts(client: &Client) -> Handles<Balance> {
    client.handles(HandleOptions::shared("accounts"))
}
