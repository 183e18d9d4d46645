//! Reseals what is not sealed as the cluster says: by the leader, a little at a time.
//!
//! A new leader begins from the start, and passes over what is done: each record says under which key it is sealed. No record comes under
//! the old key once the change is in the log, so one walk that met no trouble has seen all of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use helve_machine::{
    level,
    sealing::{Found, Name, Walk},
};
use helve_proto::command::v1::{
    Command, EndSealing, Reseal, ResealedRecord, SealingRow, command::Operation,
    outcome::Outcome as Kind, resealed_record::Record,
};
use helve_seal::KeyId;
use tokio::time::{Instant, sleep};

use super::{
    OpenError, PAUSE_AFTER_TROUBLE, Vault, hex,
    seal::{HANDLE, Into, KEY, SealError},
};
use crate::{
    limits::{GROUP_ID, RESEAL_BYTES_MAX, RESEAL_PAUSE, RESEAL_ROWS_MAX},
    propose::{ProposeError, Proposer},
    raft::Consensus,
    storage::state_db::StateDb,
};

/// How long one command may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// Why a walk broke off. The next one goes over what is left.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Propose(#[from] ProposeError),
    #[error("the rows cannot be read: {0}")]
    Rows(String),
    #[error("the key was changed again, or another node leads")]
    Outdated,
}

/// Runs until consensus stops.
pub async fn walk_as_leader(
    vault: Arc<Vault>,
    consensus: Consensus,
    proposer: Proposer,
    state: Arc<StateDb>,
) {
    let walker = Walker {
        vault,
        consensus,
        proposer,
        state,
    };
    while walker.consensus.wait_leading(|l| l.here).await.is_ok() {
        match walker.vault.row().filter(|row| !row.done) {
            Some(row) => match walker.walk(&row).await {
                Ok(()) => {
                    tracing::info!(key = %hex(&row.key_id), "every value is sealed under the key of the cluster");
                }
                Err(trouble) => {
                    tracing::warn!(%trouble, "resealing has broken off, and begins again");
                    sleep(PAUSE_AFTER_TROUBLE).await;
                }
            },
            None => sleep(PAUSE_AFTER_TROUBLE).await,
        }
    }
}

struct Walker {
    vault: Arc<Vault>,
    consensus: Consensus,
    proposer: Proposer,
    state: Arc<StateDb>,
}

impl Walker {
    async fn walk(&self, row: &SealingRow) -> Result<(), Trouble> {
        self.vault.walked.store(0, Ordering::Relaxed);
        self.vault.resealed.store(0, Ordering::Relaxed);
        let mut from = Some(Bytes::new());
        let mut stuck = None;
        while let Some(key) = from {
            let walk = self.stretch(row, key).await?;
            self.vault.walked.fetch_add(walk.rows, Ordering::Relaxed);
            if let Err(error) = self.reseal(row, walk.found).await? {
                stuck = Some(error);
            }
            from = walk.rest;
            sleep(RESEAL_PAUSE).await;
        }
        match stuck {
            Some(error) => Err(error.into()),
            None => self.end(row).await,
        }
    }

    async fn stretch(&self, row: &SealingRow, from: Bytes) -> Result<Walk, Trouble> {
        let leads = self.consensus.leading().here;
        if !leads || self.vault.row().map(|row| row.index) != Some(row.index) {
            return Err(Trouble::Outdated);
        }
        let (state, key_id) = (Arc::clone(&self.state), row.key_id.clone());
        let walked = tokio::task::spawn_blocking(move || {
            let bounds = (RESEAL_ROWS_MAX, RESEAL_BYTES_MAX);
            state.read(|view| helve_machine::sealing::walk(view, GROUP_ID, &key_id, &from, bounds))
        });
        let walked = walked
            .await
            .map_err(|error| Trouble::Rows(error.to_string()))?;
        walked.map_err(|fault| Trouble::Rows(fault.to_string()))
    }

    /// Reseals records, a command for each tenant. Answers the first that does not open, which stays as it is.
    async fn reseal(
        &self,
        row: &SealingRow,
        found: Vec<Found>,
    ) -> Result<Result<(), OpenError>, Trouble> {
        let mut unopened = Ok(());
        let mut by_tenant: BTreeMap<String, Vec<ResealedRecord>> = BTreeMap::new();
        for found in found {
            match self.resealed(row, &found) {
                Ok(record) => by_tenant.entry(found.tenant).or_default().push(record),
                Err(Trouble::Open(error)) => unopened = unopened.and(Err(error)),
                Err(trouble) => return Err(trouble),
            }
        }
        for (tenant, records) in by_tenant {
            let operation = Operation::Reseal(Reseal { records });
            let command = Command {
                feature_level: level::needed_sealed(&operation, &row.key_id),
                tenant,
                sealed_under: row.key_id.clone(),
                operation: Some(operation),
                ..Command::default()
            };
            let deadline = Instant::now() + ATTEMPT_LIMIT;
            match self.proposer.propose(&command, deadline).await?.outcome {
                Some(Kind::Reseal(done)) => self
                    .vault
                    .resealed
                    .fetch_add(done.replaced.into(), Ordering::Relaxed),
                _ => return Err(Trouble::Outdated),
            };
        }
        Ok(unopened)
    }

    fn resealed(&self, row: &SealingRow, found: &Found) -> Result<ResealedRecord, Trouble> {
        let tenant = found.tenant.as_str();
        let mut value = if found.sealed_under.is_empty() {
            // Sealed, it would look like a value of the cluster's, and go to all nodes.
            if row.complete_index > 0 {
                let name = match &found.name {
                    Name::Handle(handle) => &handle.id,
                    Name::Key(key) => &key.key,
                };
                return Err(self.vault.plain(name).into());
            }
            found.value.clone()
        } else {
            let open = |kind, parts: &[&str]| {
                self.vault
                    .value(&found.sealed_under, kind, parts, &found.value)
            };
            match &found.name {
                Name::Handle(h) => open(HANDLE, &[tenant, &h.store, &h.owner, &h.id])?,
                Name::Key(k) => open(KEY, &[tenant, &k.owner, &k.key])?,
            }
        };
        if !row.key_id.is_empty() {
            let ring = self.vault.ring.load();
            let key = KeyId::from_bytes(&row.key_id).and_then(|id| ring.find(id));
            let key = key.ok_or_else(|| SealError::NoKey(hex(&row.key_id)))?;
            let into = Into { key, tenant };
            match &found.name {
                Name::Handle(h) => into.handle([&h.store, &h.owner, &h.id], &mut value),
                Name::Key(k) => into.key([&k.owner, &k.key], &mut value),
            }
            .map_err(SealError::from)?;
        }
        Ok(ResealedRecord {
            record: Some(match &found.name {
                Name::Handle(handle) => Record::Handle(handle.clone()),
                Name::Key(key) => Record::Key(key.clone()),
            }),
            revision: found.revision,
            value,
        })
    }

    async fn end(&self, row: &SealingRow) -> Result<(), Trouble> {
        let operation = Operation::EndSealing(EndSealing { index: row.index });
        let command = crate::read_index::own_command(operation);
        let deadline = Instant::now() + ATTEMPT_LIMIT;
        match self.proposer.propose(&command, deadline).await?.outcome {
            Some(Kind::EndSealing(_)) => Ok(()),
            _ => Err(Trouble::Outdated),
        }
    }
}
