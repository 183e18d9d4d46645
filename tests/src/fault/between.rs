//! A layer between the callers of a run and the client crate. It delivers calls twice, late, out of
//! order and after the cluster has forgotten them, and lets callers vanish after calls that they
//! have sent.
//!
//! A copy bears the identity of its call. It must be answered as the call was, or with an error that says that it was not; a call that
//! is answered by itself and a copy that is answered otherwise is a call that was done twice. Reads pass straight through: they may be
//! repeated as anybody likes.

mod identities;
mod outcome;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join;
use helve_client::{
    Backend, Client, Error, ErrorKind, WatchParts,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, WatchRequest,
        exchange_answer::Answer, exchange_call::Call,
    },
};
use rand::{RngExt as _, rngs::SmallRng, seq::IndexedRandom as _};
use tokio::time::sleep;
use tonic::async_trait;

use identities::{Identities, Ticket};
use outcome::{Outcome, identity_mut};

use crate::{caller::new_identity, untyped::Untyped};

/// How late a call, and a copy that comes with it, may be: later calls overtake it.
const OVERTAKEN: Duration = Duration::from_millis(150);
/// How late a copy may be whose call has been answered.
const LATE: Duration = Duration::from_secs(2);
/// When a caller vanishes behind a call that it began to make, at the latest.
const VANISHED: Duration = Duration::from_millis(60);

/// What is done to calls that change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Manner {
    /// Nothing.
    #[default]
    Straight,
    /// Each comes twice: at once, late, or when the cluster has been told that it will not be
    /// repeated.
    Repeated,
    /// Of some the caller is gone before it has heard the answer.
    Abandoned,
}

/// What was done to calls so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Copies that were answered as their call was.
    pub alike: u64,
    /// Copies that were refused since the cluster had been told that none would come.
    pub stale: u64,
    /// Copies that failed otherwise, and so said nothing.
    pub failed: u64,
    /// Calls whose caller was gone before it knew what became of them.
    pub abandoned: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            alike,
            stale,
            failed,
            abandoned,
        } = self;
        write!(
            f,
            "{alike} copies answered as their calls, {stale} refused as too late, {failed} failed; {abandoned} callers gone"
        )
    }
}

/// What is done to the calls of a cluster's callers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Between(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    manner: Mutex<Manner>,
    counts: Mutex<Counts>,
    /// Copies that were not answered as their calls were.
    broken: Mutex<Vec<String>>,
    /// Copies that are still to come, or under way.
    pending: AtomicU64,
}

impl Between {
    /// From now on calls are treated so.
    pub fn treat(&self, manner: Manner) {
        *lock(&self.0.manner) = manner;
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *lock(&self.0.counts)
    }

    /// Whether a copy was not answered as its call was.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !lock(&self.0.broken).is_empty()
    }

    /// What must not be, and is so all the same; each is said once.
    #[must_use]
    pub fn take_broken(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.0.broken))
    }

    /// Copies that are still to come.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// A client whose calls are treated so. Copies go through `others`; `fresh` makes clients that vanish.
    pub fn client(
        &self,
        client: Client,
        others: Arc<[Client]>,
        fresh: impl Fn() -> Result<Client, Error> + Send + Sync + 'static,
        rng: SmallRng,
    ) -> Client {
        Client::new(Arc::new(Middleman {
            between: self.clone(),
            identities: Identities::default(),
            client,
            others,
            fresh: Box::new(fresh),
            rng: Mutex::new(rng),
        }))
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.0.counts));
    }

    /// Compares what a call and its copy came to.
    fn compare(&self, call: &Call, first: &Outcome, copy: &Outcome) {
        match (first, copy) {
            (Outcome::Known(first), Outcome::Known(copy)) if first == copy => {
                self.count(|counts| counts.alike += 1);
            }
            (Outcome::Known(_), Outcome::Known(_)) | (_, Outcome::Wrong(_)) => {
                let broken = format!("{call:?} came to {first:?}, and a copy of it to {copy:?}");
                lock(&self.0.broken).push(broken);
            }
            (_, Outcome::Stale) => self.count(|counts| counts.stale += 1),
            _ => self.count(|counts| counts.failed += 1),
        }
    }
}

type Fresh = Box<dyn Fn() -> Result<Client, Error> + Send + Sync>;

struct Middleman {
    between: Between,
    identities: Identities,
    client: Client,
    others: Arc<[Client]>,
    fresh: Fresh,
    rng: Mutex<SmallRng>,
}

impl fmt::Debug for Middleman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Middleman")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// When the copy of a call comes that does not come along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Once it has been answered.
    Late,
    /// Once the cluster has been told that none will come, too, if that can be told it.
    Stale,
}

impl Middleman {
    fn draw(&self, most: Duration) -> Duration {
        most.mul_f64(lock(&self.rng).random())
    }

    fn other(&self, deadline: Duration) -> Client {
        let other = self.others.choose(&mut *lock(&self.rng)).cloned();
        other
            .unwrap_or_else(|| self.client.clone())
            .with_deadline(deadline)
    }

    async fn repeated(&self, mut call: Call, deadline: Duration) -> Result<Answer, Error> {
        let client = self.client.with_deadline(deadline);
        let is_numbered: bool = lock(&self.rng).random();
        let ticket = if is_numbered {
            Some(self.identities.number(&client).await?)
        } else {
            None
        };
        if let Some(place) = identity_mut(&mut call) {
            *place = Some(ticket.as_ref().map_or_else(new_identity, Ticket::identity));
        }
        let drawn = lock(&self.rng).random_range(0..3);
        let (early, late) = (self.draw(OVERTAKEN), self.draw(OVERTAKEN));
        if drawn == 0 {
            let other = self.other(deadline);
            let both = join(sent(&client, &call, early), sent(&other, &call, late));
            let (first, copy) = both.await;
            self.between
                .compare(&call, &Outcome::of(&first), &Outcome::of(&copy));
            return outcome::more_certain(first, copy);
        }
        let when = if drawn == 1 { When::Late } else { When::Stale };
        let first = sent(&client, &call, early).await;
        let outcome = Outcome::of(&first);
        if outcome.may_be_done() {
            self.copy_later(call, outcome, ticket, when);
        }
        first
    }

    /// Sends a copy in the background, and compares its outcome.
    fn copy_later(&self, call: Call, first: Outcome, ticket: Option<Ticket>, when: When) {
        let (between, other) = (self.between.clone(), self.other(self.client.deadline()));
        let late = self.draw(LATE);
        between.0.pending.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let (held, settled) = match (ticket, when) {
                (Some(ticket), When::Stale) => (None, Some(ticket.settle(&first))),
                (ticket, _) => (ticket, None),
            };
            sleep(late).await;
            if let Some(settled) = settled {
                settled.passed(LATE).await;
            }
            let copy = Outcome::of(&sent(&other, &call, Duration::ZERO).await);
            between.compare(&call, &first, &copy);
            drop(held);
            between.0.pending.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// The caller is a client of its own, which is closed, and its connections with it, some time after it began to call.
    async fn abandoned(&self, call: Call, deadline: Duration) -> Result<Answer, Error> {
        let client = (self.fresh)()?.with_deadline(deadline);
        let soon = self.draw(VANISHED);
        let (answer, ()) = join(client.call(Untyped(call)), async {
            sleep(soon).await;
            client.close();
        })
        .await;
        answer.map_err(|error| match error.kind() {
            ErrorKind::Ambiguous => {
                self.between.count(|counts| counts.abandoned += 1);
                error
            }
            // It was gone before it had sent anything.
            ErrorKind::Closed => Error::new(ErrorKind::Unavailable, "the caller was gone"),
            _ => error,
        })
    }
}

async fn sent(client: &Client, call: &Call, late: Duration) -> Result<Answer, Error> {
    sleep(late).await;
    client.call(Untyped(call.clone())).await
}

#[async_trait]
impl Backend for Middleman {
    async fn call(&self, mut call: Call, deadline: Duration) -> Result<Answer, Error> {
        let manner = *lock(&self.between.0.manner);
        let is_mutation = identity_mut(&mut call).is_some_and(|identity| identity.is_none());
        match manner {
            Manner::Repeated if is_mutation => self.repeated(call, deadline).await,
            Manner::Abandoned if is_mutation => self.abandoned(call, deadline).await,
            _ => {
                self.client
                    .with_deadline(deadline)
                    .call(Untyped(call))
                    .await
            }
        }
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        let client = self.client.with_deadline(deadline);
        client.list_handles(request).await
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        let client = self.client.with_deadline(deadline);
        client.list_keys(request).await
    }

    async fn watch(&self, request: WatchRequest, deadline: Duration) -> Result<WatchParts, Error> {
        self.client.backend().watch(request, deadline).await
    }

    fn deadline(&self) -> Duration {
        self.client.deadline()
    }

    fn close(&self) {
        self.client.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no caller panics while it counts")
}

#[cfg(test)]
mod tests;
