//! The changes of records that this node applied last, and the news of each: what watches look at.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve_machine::{
    RecordChange, Selection,
    window::{Found, Next, Part, TooOld, Window},
};
use tokio::sync::watch;

use crate::{bounds::Shared, limits::GROUP_ID};

/// The feed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ChangeFeed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    window: Mutex<Window>,
    head: watch::Sender<u64>,
}

impl ChangeFeed {
    /// None yet, and room for changes of at most this many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Inner {
            window: Mutex::new(Window::new(GROUP_ID, bytes_max)),
            head: watch::Sender::new(0),
        }))
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Window::push`].
    pub fn push(&self, applied: Vec<(u64, Vec<RecordChange>)>, head: u64) {
        self.window().push(applied, head);
        self.0.head.send_replace(head);
    }

    /// See [`Window::begin_after`].
    pub fn begin_after(&self, index: u64) {
        self.window().begin_after(index);
        self.0.head.send_replace(index);
    }

    /// The last entry that was applied; changes with each.
    #[must_use]
    pub fn head(&self) -> watch::Receiver<u64> {
        self.0.head.subscribe()
    }

    /// Bytes of the window that are taken. Nothing is ever refused for want of them.
    #[must_use]
    pub fn shared(&self) -> Shared {
        let fullness = self.window().fullness();
        Shared {
            used: fullness.bytes,
            limit: fullness.bytes_max,
            refused: 0,
        }
    }

    /// See [`Window::look`].
    ///
    /// # Errors
    /// [`TooOld`] if changes that follow are not kept any more.
    pub fn look(&self, next: Next, selection: &Selection, part: Part) -> Result<Found, TooOld> {
        self.window().look(next, selection, part)
    }
}
