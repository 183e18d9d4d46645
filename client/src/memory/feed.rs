//! Changes of records, for watches in this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt as _, stream};
use helve_machine::{
    RecordChange, Selection, check,
    window::{Found, Next, Part, TooOld, Window},
};
use helve_proto::{
    Reason,
    v1::{ReplyHeader, WatchReply, WatchRequest},
};
use tokio::sync::watch;

use crate::{
    error::Error,
    limits::{WATCH_PART_CHANGES_MAX, WATCH_WINDOW_BYTES},
    memory::host::{GROUP_ID, TENANT, violation},
    watch::WatchParts,
};

/// What one look may find: nothing but the process's memory bounds its bytes.
const PART: Part = Part {
    changes_max: WATCH_PART_CHANGES_MAX,
    bytes_max: usize::MAX,
};

/// The changes that were made last, and the news of each.
#[derive(Debug)]
pub(super) struct Feed {
    window: Arc<Mutex<Window>>,
    /// The last entry and the clock; `None` once the host is closed.
    news: watch::Sender<Option<(u64, u64)>>,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            window: Arc::new(Mutex::new(Window::new(GROUP_ID, WATCH_WINDOW_BYTES))),
            news: watch::Sender::new(Some((0, 0))),
        }
    }
}

fn lock(window: &Mutex<Window>) -> MutexGuard<'_, Window> {
    window.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    pub(super) fn push(&self, index: u64, changes: Vec<RecordChange>, clock_ms: u64) {
        lock(&self.window).push(vec![(index, changes)], index);
        self.news.send_replace(Some((index, clock_ms)));
    }

    pub(super) fn close(&self) {
        self.news.send_replace(None);
    }

    pub(super) fn watch(&self, request: &WatchRequest) -> Result<WatchParts, Error> {
        check::watch(request).map_err(violation)?;
        let news = self.news.subscribe();
        let (index, clock_ms) = (*news.borrow()).ok_or_else(Error::closed)?;
        let after = request.after.unwrap_or(index);
        if after > index {
            let message = format!("revision {after} is not reached yet: the newest is {index}");
            return Err(Error::refused(Reason::BadRequest, message, 0, 0));
        }
        let watching = Watching {
            window: Arc::clone(&self.window),
            selection: Selection::of(GROUP_ID, TENANT, request),
            news,
            next: Next::After(after),
            is_over: false,
        };
        watching.look(Part::NONE).map_err(|_too_old| too_old())?;
        let first = part(Vec::new(), after, clock_ms);
        let rest = stream::unfold(watching, |mut watching| async move {
            let part = watching.next().await?;
            Some((part, watching))
        });
        Ok(stream::iter([Ok(first)]).chain(rest).boxed())
    }
}

struct Watching {
    window: Arc<Mutex<Window>>,
    selection: Selection,
    news: watch::Receiver<Option<(u64, u64)>>,
    next: Next,
    is_over: bool,
}

impl Watching {
    fn look(&self, part: Part) -> Result<Found, TooOld> {
        lock(&self.window).look(self.next, &self.selection, part)
    }

    async fn next(&mut self) -> Option<Result<WatchReply, Error>> {
        if self.is_over {
            return None;
        }
        loop {
            let news = *self.news.borrow_and_update();
            let Some((_, clock_ms)) = news else {
                self.is_over = true;
                return Some(Err(Error::closed()));
            };
            let found = match self.look(PART) {
                Ok(found) => found,
                Err(_gone) => {
                    self.is_over = true;
                    return Some(Err(too_old()));
                }
            };
            let is_all = found.next == Next::After(found.upto);
            self.next = found.next;
            if !found.changes.is_empty() {
                return Some(Ok(part(found.changes, found.upto, clock_ms)));
            }
            if is_all && self.news.changed().await.is_err() {
                self.is_over = true;
                return Some(Err(Error::closed()));
            }
        }
    }
}

fn part(changes: Vec<helve_proto::v1::Change>, revision: u64, clock_ms: u64) -> WatchReply {
    WatchReply {
        header: Some(ReplyHeader {
            index: revision,
            clock_ms,
            leader_hint: String::new(),
        }),
        revision,
        changes,
        cluster_id: String::new(),
    }
}

fn too_old() -> Error {
    let message = "changes after this revision are not kept any more: list, and watch after the list's revision";
    Error::refused(Reason::WatchTooOld, message, 0, 0)
}
