//! Connections that may still bring or answer a request, other than those that stream without an end.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts them.
#[derive(Debug, Clone)]
pub(crate) struct Outstanding(Arc<watch::Sender<i64>>);

/// Counts one, more or less, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    count: Arc<watch::Sender<i64>>,
    by: i64,
}

impl Default for Outstanding {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Outstanding {
    /// One more connection.
    pub(crate) fn connection(&self) -> Counted {
        self.counted(1)
    }

    /// The connection streams without an end: a stop does not wait for it.
    pub(crate) fn endless(&self) -> Counted {
        self.counted(-1)
    }

    fn counted(&self, by: i64) -> Counted {
        self.0.send_modify(|count| *count += by);
        Counted {
            count: Arc::clone(&self.0),
            by,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> i64 {
        *self.0.borrow()
    }

    /// Waits until there are none.
    pub(crate) async fn none(&self) {
        let mut count = self.0.subscribe();
        // The sender is here, so the channel is open.
        let _none = count.wait_for(|count| *count <= 0).await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= self.by);
    }
}
