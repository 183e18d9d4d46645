//! Tasks and their leases in the cluster. Each write of a run holds on the revision of its lease.

use std::{collections::HashSet, time::Duration};

use helve_client::{
    Client, Error, ErrorKind, HandleOptions, HandleStore, HandleStoreExt as _, Handles, PutOutcome,
    Raw, Record, RecordInfo, Resolved, Transacted, Transaction, Ttl, extend::decode,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::record::TaskRecord;

/// Leases that one replica watches: more open tasks than that wait until others have ended.
const LEASES_MAX: usize = 10_000;
/// Between two tries of a write that the cluster could not answer.
const PAUSE: Duration = Duration::from_millis(200);

/// Which run of a task is the current one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Lease {
    /// Whose task it is.
    pub(super) owner: String,
    /// Counts the runs, from 1.
    pub(super) run: u64,
    /// Changes as long as the run's replica lives.
    beat: u64,
    /// The run's replica gave the lease up.
    pub(super) is_released: bool,
}

/// A task whose current run is this replica's, as far as it knows.
#[derive(Debug)]
pub(super) struct Held {
    id: String,
    pub(super) record: TaskRecord,
    pub(super) revision: u64,
    pub(super) lease: Lease,
    lease_revision: u64,
}

impl Held {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Takes over what others changed. The arguments, which do not change, are kept once.
    pub(super) fn adopt(&mut self, task: Record<TaskRecord>) {
        self.revision = task.revision();
        let before = std::mem::replace(&mut self.record, task.value);
        self.record.arguments = before.arguments;
    }
}

/// What a write of a run led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// Another run is the current one, or the task is gone. Nothing was written.
    Lost,
    /// The task would be over its bound. Nothing was written.
    TooLarge,
}

/// Whether a write ends its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

/// What a client's change led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Made,
    Needless,
    Unknown,
    /// The task would be over a bound of its size. Nothing was written.
    TooLarge,
}

#[derive(Debug, Clone)]
pub(super) struct TaskStore {
    client: Client,
    tasks: Handles<TaskRecord>,
    leases: Handles<Lease>,
    /// The same, undecoded, so that one unreadable lease does not fail the list.
    raw_leases: Handles<Vec<u8>, Raw>,
}

impl TaskStore {
    pub(super) fn new(client: &Client, name: &str) -> Self {
        let leases = HandleOptions::shared(format!("{name}-open"));
        Self {
            client: client.clone(),
            tasks: client.handles(HandleOptions::shared(name)),
            leases: client.handles(leases.clone()),
            raw_leases: client.handles_with(leases, Raw),
        }
    }

    fn of(&self, owner: &str) -> Handles<TaskRecord> {
        self.tasks.for_owner(owner)
    }

    pub(super) async fn count(&self, owner: &str) -> Result<u64, Error> {
        self.of(owner).len().await
    }

    pub(super) async fn create(&self, owner: &str, record: TaskRecord) -> Result<Held, Error> {
        if record.is_too_large() {
            return Err(Error::new(ErrorKind::Invalid, "a task over its bounds"));
        }
        let id = new_id()?;
        let lease = Lease {
            owner: owner.to_owned(),
            run: 1,
            beat: 0,
            is_released: false,
        };
        let ttl = match record.ttl_ms {
            Some(ms) => Ttl::After(Duration::from_millis(ms)),
            None => Ttl::Never,
        };
        let created = self
            .client
            .transaction()
            .put(&self.of(owner), &id, &record, ttl)
            .if_revision(0)
            .put(&self.leases, &id, &lease, ttl)
            .if_revision(0)
            .commit()
            .await?;
        let Transacted::Committed(committed) = created else {
            let message = "a task's new id is in use: create it again";
            return Err(Error::new(ErrorKind::Unavailable, message));
        };
        Ok(Held {
            id,
            record,
            revision: committed.revision,
            lease,
            lease_revision: committed.revision,
        })
    }

    pub(super) async fn get(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<Record<TaskRecord>>, Error> {
        match self.of(owner).resolve(id).await {
            Ok(resolved) => Ok(resolved.live()),
            // An id that no task can have.
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A client's change, which any replica may make: `change` says whether it changed anything.
    pub(super) async fn change(
        &self,
        owner: &str,
        id: &str,
        mut change: impl FnMut(&mut TaskRecord) -> bool + Send,
    ) -> Result<Change, Error> {
        if self.get(owner, id).await?.is_none() {
            return Ok(Change::Unknown);
        }
        let changed = self
            .of(owner)
            .try_update(id, |mut record| {
                if !change(&mut record) {
                    return Err(Change::Needless);
                }
                // A task that an earlier version wrote may be over a bound. It can be cancelled.
                if record.is_too_large() && !record.cancel_requested {
                    return Err(Change::TooLarge);
                }
                Ok(record)
            })
            .await?;
        Ok(match changed {
            Ok(Resolved::Live(_)) => Change::Made,
            Ok(_) => Change::Unknown,
            Err(unmade) => unmade,
        })
    }

    /// Changes a task for its current run. `change` may be called again on a newer state of the task, and on
    /// one that it has changed already. Goes on until the cluster answers.
    pub(super) async fn write(
        &self,
        held: &mut Held,
        change: impl FnMut(&mut TaskRecord) + Send,
    ) -> Written {
        self.persist(held, change, Last::No).await
    }

    /// Ends a task, and with it the lease.
    pub(super) async fn end(
        &self,
        held: &mut Held,
        change: impl FnMut(&mut TaskRecord) + Send,
    ) -> Written {
        self.persist(held, change, Last::Yes).await
    }

    async fn persist(
        &self,
        held: &mut Held,
        mut change: impl FnMut(&mut TaskRecord) + Send,
        last: Last,
    ) -> Written {
        loop {
            let mut record = held.record.clone();
            change(&mut record);
            if record.is_too_large() {
                return Written::TooLarge;
            }
            let mut lease = held.lease.clone();
            lease.beat += 1;
            let committed = self.transaction(held, &record, &lease, last).commit();
            match committed.await {
                Ok(Transacted::Committed(committed)) => {
                    held.record = record;
                    held.revision = committed.revision;
                    held.lease = lease;
                    held.lease_revision = committed.revision;
                    return Written::Done;
                }
                Ok(Transacted::Aborted { .. }) => return Written::Lost,
                Err(error) => {
                    tracing::debug!(task = held.id, %error, "a task's run writes again");
                    let is_conflict = matches!(error.kind(), ErrorKind::Conflict { .. });
                    if !is_conflict {
                        sleep(PAUSE).await;
                    }
                    match self.refresh(held).await {
                        Ok(Some(())) => {}
                        Ok(None) => return Written::Lost,
                        Err(error) => tracing::debug!(task = held.id, %error, "it reads again"),
                    }
                }
            }
        }
    }

    fn transaction(
        &self,
        held: &Held,
        record: &TaskRecord,
        lease: &Lease,
        last: Last,
    ) -> Transaction {
        let tasks = self.of(&held.lease.owner);
        let task = self
            .client
            .transaction()
            .put(&tasks, &held.id, record, Ttl::Keep)
            .if_revision(held.revision);
        let both = if last == Last::Yes {
            task.delete(&self.leases, &held.id)
        } else {
            task.put(&self.leases, &held.id, lease, Ttl::Keep)
        };
        both.if_revision(held.lease_revision)
    }

    /// Takes over what others changed, and what a write of this run did whose answer was lost. `None`: the run
    /// is not the current one any more.
    async fn refresh(&self, held: &mut Held) -> Result<Option<()>, Error> {
        let owner = held.lease.owner.clone();
        let Some(task) = self.get(&owner, &held.id).await? else {
            return Ok(None);
        };
        let Some(lease) = self.leases.resolve(&held.id).await?.live() else {
            // The last write took effect, or another run ended the task: either way it is over.
            return Ok(None);
        };
        if lease.value.run != held.lease.run || lease.value.is_released {
            return Ok(None);
        }
        held.adopt(task);
        held.lease_revision = lease.revision();
        held.lease = lease.value;
        Ok(Some(()))
    }

    /// Shows that the run's replica lives. False: the run is not the current one any more.
    pub(super) async fn beat(&self, held: &mut Held) -> Result<bool, Error> {
        let mut lease = held.lease.clone();
        lease.beat += 1;
        match self.put_lease(held, &lease).await? {
            Some(info) => {
                held.lease = lease;
                held.lease_revision = info.revision;
                Ok(true)
            }
            // An earlier beat may have taken effect although its answer was lost.
            None => Ok(self.refresh(held).await?.is_some()),
        }
    }

    /// Gives the lease up, so that another replica need not wait for its end.
    pub(super) async fn release(&self, held: &Held) -> Result<(), Error> {
        let mut lease = held.lease.clone();
        lease.is_released = true;
        self.put_lease(held, &lease).await.map(drop)
    }

    async fn put_lease(&self, held: &Held, lease: &Lease) -> Result<Option<RecordInfo>, Error> {
        let put = self
            .leases
            .put_if(&held.id, lease, Ttl::Keep, held.lease_revision);
        Ok(match put.await? {
            PutOutcome::Created(info) | PutOutcome::Replaced(info) => Some(info),
            PutOutcome::Conflict { .. } | PutOutcome::Expired | PutOutcome::Taken => None,
        })
    }

    /// The leases of all open tasks. A lease that this version cannot read is left alone. It is
    /// logged once: `unreadable` holds those of the last look.
    pub(super) async fn leases(
        &self,
        unreadable: &mut HashSet<String>,
    ) -> Result<Vec<Record<Lease>>, Error> {
        let listed = self.raw_leases.list_first_values(LEASES_MAX).await?.items;
        let before = std::mem::take(unreadable);
        let mut leases = Vec::with_capacity(listed.len());
        for Record { info, value } in listed {
            match decode(&value) {
                Ok(value) => leases.push(Record { info, value }),
                Err(error) => {
                    if !before.contains(&info.name) {
                        tracing::warn!(
                            task = info.name, %error,
                            "a task's lease cannot be read, and its task is not taken over: another version may have \
                             written it, otherwise delete it"
                        );
                    }
                    unreadable.insert(info.name);
                }
            }
        }
        Ok(leases)
    }

    /// Makes the next run of a task this replica's. `None`: another replica was first, there is nothing to run,
    /// or this replica does not know the operation; then the lease stays as it is.
    pub(super) async fn claim(
        &self,
        seen: &Record<Lease>,
        knows: impl Fn(&str) -> bool + Send,
    ) -> Result<Option<Held>, Error> {
        let id = seen.name().to_owned();
        let task = self.get(&seen.value.owner, &id).await?;
        let Some(task) = task.filter(|task| task.value.is_open()) else {
            // What it was for is gone.
            let gone = self.client.transaction().delete(&self.leases, &id);
            gone.if_revision(seen.revision()).commit().await?;
            return Ok(None);
        };
        if !knows(&task.value.operation) {
            return Ok(None);
        }
        let lease = Lease {
            owner: seen.value.owner.clone(),
            run: seen.value.run + 1,
            beat: 0,
            is_released: false,
        };
        let mut held = Held {
            id,
            revision: task.revision(),
            record: task.value,
            lease_revision: seen.revision(),
            lease: seen.value.clone(),
        };
        let Some(info) = self.put_lease(&held, &lease).await? else {
            return Ok(None);
        };
        held.lease = lease;
        held.lease_revision = info.revision;
        Ok(Some(held))
    }
}

/// 128 bits of randomness: knowing other ids does not help to guess one.
fn new_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(format!("task-{:032x}", u128::from_be_bytes(bytes))),
        Err(error) => Err(Error::new(
            ErrorKind::Entropy,
            format!("the operating system gave no randomness for a task's id: {error}"),
        )),
    }
}
