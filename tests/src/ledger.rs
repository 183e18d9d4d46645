//! What callers were told: every acknowledged write, to be read back from every node.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use helve_proto::v1::{CountRequest, GetRequest, HandleStatus, MintRequest};

use crate::{
    caller::{Caller, new_identity},
    cluster::Cluster,
    promise,
    wait::{Look, until},
};

/// Calls under way at a time: one after the other, a test would mostly wait for disks and for rounds
/// of reads.
const AT_ONCE: usize = 16;

/// Acknowledged mints into one store: value by id.
#[derive(Debug)]
pub struct Ledger {
    store: String,
    acknowledged: Mutex<BTreeMap<String, String>>,
    next: AtomicU64,
}

impl Ledger {
    /// Nothing acknowledged yet. No other client may write to the store.
    #[must_use]
    pub fn new(store: &str) -> Self {
        Self {
            store: store.to_owned(),
            acknowledged: Mutex::default(),
            next: AtomicU64::new(1),
        }
    }

    /// How many mints were acknowledged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Mints one handle, beginning with the first caller and going on to the next under the same identity until one says that
    /// it is done.
    ///
    /// # Errors
    ///
    /// If none does in time.
    pub async fn mint(&self, callers: &[Caller]) -> Result<()> {
        let value = format!(
            "{}-{}",
            self.store,
            self.next.fetch_add(1, Ordering::Relaxed)
        );
        let request = MintRequest {
            identity: Some(new_identity()),
            store: self.store.clone(),
            value: value.clone().into(),
            ..MintRequest::default()
        };
        let mut turns = callers.iter().cycle();
        let minted = until("a mint to be acknowledged", async || {
            let caller = turns.next().expect("a cycle of some callers never ends");
            Look::of(caller.mint(request.clone()).await)
        });
        let id = minted.await?.info.unwrap_or_default().name;
        let double = self.rows().insert(id.clone(), value);
        promise!(double.is_none(), "{id} was minted twice");
        Ok(())
    }

    /// Mints this many handles, some at a time, each as [`Self::mint`] does.
    ///
    /// # Errors
    ///
    /// If one is not minted in time.
    pub async fn mint_many(&self, callers: &[Caller], count: usize) -> Result<()> {
        let mints = (0..count).map(|_| self.mint(callers));
        let minted = stream::iter(mints).buffer_unordered(AT_ONCE);
        minted.try_collect().await
    }

    /// Compares the ledger with what every running node says: each acknowledged handle is there with its value, and none
    /// besides.
    ///
    /// # Errors
    ///
    /// [`crate::promise::Broken`] if something was lost or doubled; else whatever kept a node from answering.
    pub async fn check(&self, cluster: &Cluster) -> Result<()> {
        let rows = self.rows().clone();
        for seat in cluster.running() {
            let caller = cluster.caller(seat);
            let held = rows
                .iter()
                .map(|(id, value)| self.check_held(&caller, seat, id, value));
            let held = stream::iter(held).buffer_unordered(AT_ONCE);
            held.try_collect::<()>().await?;
            let live = caller
                .count(CountRequest {
                    store: self.store.clone(),
                    owner: None,
                })
                .await?
                .live;
            promise!(
                live == rows.len() as u64,
                "node {seat} has {live} handles, not {}",
                rows.len()
            );
        }
        Ok(())
    }

    async fn check_held(&self, caller: &Caller, seat: u64, id: &str, value: &str) -> Result<()> {
        let request = GetRequest {
            store: self.store.clone(),
            id: id.to_owned(),
            ..GetRequest::default()
        };
        let reply = caller.get(request).await?;
        let found = reply.status() == HandleStatus::Live && reply.value == value.as_bytes();
        promise!(
            found,
            "node {seat} lost {id}, or its value {value}: {reply:?}"
        );
        Ok(())
    }

    fn rows(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.acknowledged
            .lock()
            .expect("no thread panics while it writes into the ledger")
    }
}
