//! The state machine in this process, as a host.

mod command;
mod feed;
mod host;
mod rows;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use helve_proto::{
    Reason,
    v1::{
        ListKeysReply, ListKeysRequest, ListReply, ListRequest, WatchRequest,
        exchange_answer::Answer, exchange_call::Call,
    },
};
use tokio::{runtime::Handle, task::AbortHandle, time::Instant};

use crate::{
    backend::Backend,
    client::Client,
    error::Error,
    limits,
    memory::host::{Entropy, Host},
    promises::Promises,
    watch::WatchParts,
};

/// A host in this process: the same state machine as a cluster's, over a map. It is gone when its last client is. For tests, and
/// for servers whose state may die with them.
#[derive(Debug, Clone)]
#[must_use = "call build()"]
pub struct MemoryBuilder {
    deadline: Duration,
    gc_interval: Option<Duration>,
    entropy: Entropy,
}

impl Default for MemoryBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBuilder {
    /// A new, empty host, which shares nothing with any other.
    pub fn new() -> Self {
        Self {
            deadline: limits::DEADLINE,
            gc_interval: None,
            entropy: getrandom::fill,
        }
    }

    /// How long an update may contend; 5 s by default. Single calls are answered at once.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Removes what has expired this often. Without it, expired records leave with later writes, a few at a time.
    pub fn gc_interval(mut self, interval: Duration) -> Self {
        self.gc_interval = Some(interval);
        self
    }

    /// A client of the new host.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if there is a `gc_interval`, and it is zero or there is no tokio runtime to keep
    /// it.
    pub fn build(self) -> Result<Client, Error> {
        Ok(Client::new(self.host()?))
    }

    fn host(self) -> Result<Arc<Memory>, Error> {
        let refused = |message: &str| Error::refused(Reason::BadRequest, message, 0, 0);
        let collecting = match self.gc_interval {
            None => None,
            Some(Duration::ZERO) => return Err(refused("a gc_interval of zero")),
            Some(interval) => match Handle::try_current() {
                Ok(runtime) => Some((interval, runtime)),
                Err(error) => {
                    let message = "a gc_interval needs a tokio runtime: build within one";
                    return Err(refused(message).with_source(error));
                }
            },
        };
        Ok(Arc::new_cyclic(|memory: &Weak<Memory>| Memory {
            host: Mutex::new(Host::new(self.entropy)),
            clock: Clock::start(),
            deadline: self.deadline,
            collector: collecting.map(|(interval, runtime)| {
                let collector = collect(Weak::clone(memory), interval);
                runtime.spawn(collector).abort_handle()
            }),
            closed: AtomicBool::new(false),
        }))
    }
}

struct Memory {
    host: Mutex<Host>,
    clock: Clock,
    deadline: Duration,
    collector: Option<AbortHandle>,
    closed: AtomicBool,
}

/// The wall as it was at the start, and what has passed since: it never steps.
#[derive(Debug)]
struct Clock {
    wall_ms: u64,
    started: Instant,
}

impl Clock {
    fn start() -> Self {
        // A wall before 1970 is as good as 1970: only differences matter here.
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            started: Instant::now(),
        }
    }

    fn now_ms(&self) -> u64 {
        let passed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.wall_ms.saturating_add(passed_ms)
    }
}

impl Memory {
    fn host(&self) -> Result<MutexGuard<'_, Host>, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        // A panic in the machine may have left an entry half-way; nothing here goes on after one.
        self.host
            .lock()
            .map_err(|_poisoned| Error::internal("the state machine panicked earlier"))
    }
}

/// Ends with the host.
async fn collect(memory: Weak<Memory>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(memory) = memory.upgrade() else {
            return;
        };
        let collected = match memory.host() {
            Ok(mut host) => host.collect(memory.clock.now_ms()),
            Err(error) => Err(error),
        };
        if let Err(error) = collected {
            tracing::debug!(%error, "removing expired records ends");
            return;
        }
    }
}

#[async_trait]
impl Backend for Memory {
    async fn call(&self, call: Call, _deadline: Duration) -> Result<Answer, Error> {
        self.host()?.answer(call, self.clock.now_ms())
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        _deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        self.host()?.list_handles(request, self.clock.now_ms())
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        _deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        self.host()?.list_keys(request, self.clock.now_ms())
    }

    async fn watch(&self, request: WatchRequest, _deadline: Duration) -> Result<WatchParts, Error> {
        self.host()?.feed().watch(&request)
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn promises(&self) -> Promises {
        Promises::MEMORY
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.feed().close();
        drop(host);
        if let Some(collector) = &self.collector {
            collector.abort();
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Memory")
            .field("rows", &host.rows().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
