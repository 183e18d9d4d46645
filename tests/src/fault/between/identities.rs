//! Numbers of calls that are sent more than once, in a replay session of their own: so the cluster can be told that no copy of a call
//! will come, and a copy come all the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use helve_client::{
    Client, Error, ErrorKind,
    v1::{CallIdentity, OpenSessionRequest, SessionCall, call_identity::Identity},
};
use tokio::{sync::watch, time::timeout};
use uuid::Uuid;

use super::{lock, outcome::Outcome};

/// Gives calls numbers in a session of their own.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// Opened by the first call that wants a number.
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

#[derive(Debug)]
struct Session {
    id: Bytes,
    numbers: Mutex<Numbers>,
    /// Below this number the cluster has been told to expect no copies, in a call that was answered.
    floor: watch::Sender<u64>,
}

#[derive(Debug)]
struct Numbers {
    next: u64,
    incomplete: BTreeSet<u64>,
}

/// A number that may still be repeated. Dropping it says that it will not be.
#[derive(Debug)]
pub(super) struct Ticket {
    session: Arc<Session>,
    seq: u64,
    first_incomplete: u64,
}

impl Identities {
    /// A number that may be repeated until it is settled.
    pub(super) async fn number(&self, client: &Client) -> Result<Ticket, Error> {
        Ok(self.session(client).await?.begin())
    }

    async fn session(&self, client: &Client) -> Result<Arc<Session>, Error> {
        let opening = async {
            let mut session = self.session.lock().await;
            if let Some(session) = &*session {
                return Ok(Arc::clone(session));
            }
            let id = Bytes::copy_from_slice(Uuid::new_v4().as_bytes());
            let request = OpenSessionRequest {
                session_id: id.clone(),
            };
            client.call(request).await?;
            let opened = Arc::new(Session {
                id,
                numbers: Mutex::new(Numbers {
                    next: 1,
                    incomplete: BTreeSet::new(),
                }),
                floor: watch::Sender::new(0),
            });
            *session = Some(Arc::clone(&opened));
            Ok(opened)
        };
        let late = |_| Error::new(ErrorKind::Unavailable, "no session could be opened in time");
        timeout(client.deadline(), opening).await.map_err(late)?
    }
}

impl Session {
    fn begin(self: &Arc<Self>) -> Ticket {
        let mut numbers = lock(&self.numbers);
        let seq = numbers.next;
        numbers.next += 1;
        numbers.incomplete.insert(seq);
        let first_incomplete = numbers.incomplete.first().copied().unwrap_or(seq);
        Ticket {
            session: Arc::clone(self),
            seq,
            first_incomplete,
        }
    }
}

impl Ticket {
    pub(super) fn identity(&self) -> CallIdentity {
        CallIdentity {
            identity: Some(Identity::Session(SessionCall {
                session_id: self.session.id.clone(),
                seq: self.seq,
                first_incomplete: self.first_incomplete,
            })),
        }
    }

    /// The number will not be repeated, so later calls say. If this one was answered, the cluster has heard what it said itself.
    pub(super) fn settle(self, outcome: &Outcome) -> Settled {
        if outcome.is_known() {
            self.session
                .floor
                .send_if_modified(|floor| raise(floor, self.first_incomplete));
        }
        Settled {
            seq: self.seq,
            floor: self.session.floor.subscribe(),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.session.numbers).incomplete.remove(&self.seq);
    }
}

/// A number that must not be repeated.
#[derive(Debug)]
pub(super) struct Settled {
    seq: u64,
    floor: watch::Receiver<u64>,
}

impl Settled {
    /// Waits, so long at most, until the cluster has heard that it will not be.
    pub(super) async fn passed(&self, limit: Duration) {
        let mut floor = self.floor.clone();
        let heard = floor.wait_for(|floor| *floor > self.seq);
        // If it has not, the copy is only late.
        let _heard = timeout(limit, heard).await;
    }
}

fn raise(floor: &mut u64, to: u64) -> bool {
    let is_higher = to > *floor;
    *floor = to.max(*floor);
    is_higher
}
